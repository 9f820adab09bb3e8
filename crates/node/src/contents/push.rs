//! Bringing one content to the parent: [`wayfs_transfer::push`] decides what travels, and this asks, reads, packs and sends.

use super::bases::Packed;
use super::message::{self, Ask, Form, Reply};
use crate::clock;
use crate::contents::ContentsError;
use crate::core::PushOrder;
use crate::session::Session;
use crate::volume::Volume;
use bytes::Bytes;
use std::sync::Arc;
use tokio::task::JoinSet;
use tracing::debug;
use wayfs_net::{Connection, Priority, RequestError};
use wayfs_proto::{Input as EngineInput, Role};
use wayfs_transfer::Piece;
use wayfs_transfer::push::{Failure, Input, Output, Push};
use wayfs_types::Digest;

/// Longest answer body: none is expected.
const ANSWER_BODY_MAX: usize = 0;

/// Why a content is not at the parent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PushError {
    /// The session failed.
    #[error("{0}")]
    Session(#[from] RequestError),
    /// The local chunks failed.
    #[error("read local chunks: {0}")]
    Local(#[from] ContentsError),
    /// The parent has no room.
    #[error("the disk of the parent is full")]
    NoSpace,
    /// The parent refuses it.
    #[error("the parent refuses it: {0}")]
    Refused(String),
}

/// Sends what the parent lacks and returns when all is durable there.
pub(crate) async fn push(volume: &Arc<Volume>, session: &Session, order: &PushOrder) -> Result<(), PushError> {
    let push = Push::new(clock::awake(), &order.content, congestion_window(session));
    let driver = Driver { volume, session, order, push, sending: JoinSet::new(), error: None };
    driver.run().await?;
    volume.note_version(session, order.file, &order.content);
    Ok(())
}

/// A push, its chunks under way, and what went wrong.
struct Driver<'a> {
    volume: &'a Arc<Volume>,
    session: &'a Session,
    order: &'a PushOrder,
    push: Push,
    sending: JoinSet<Result<Digest, PushError>>,
    error: Option<PushError>,
}

impl Driver<'_> {
    async fn run(mut self) -> Result<(), PushError> {
        let showing = Piece::top(&self.order.content).filter(|top| top.level > 0);
        let shown = showing.map(|_| self.volume.sent.begin(self.order.version));
        loop {
            let input = match self.push.poll_output() {
                Some(Output::Done) => return Ok(()),
                Some(Output::Failed(failure)) => return Err(self.error.take().unwrap_or_else(|| error_of(failure))),
                Some(Output::Send(digest)) => {
                    self.send(digest);
                    continue;
                }
                Some(Output::Sent(bytes)) => {
                    self.tell_sent(bytes);
                    continue;
                }
                Some(Output::AskPresence(pieces)) => self.ask_presence(pieces).await,
                Some(Output::ReadNode(piece)) => self.read_node(piece).await,
                Some(Output::SendWhole(digest)) => self.send_whole(digest).await,
                Some(Output::AskComplete) => self.ask_complete().await,
                None => self.next_taken().await,
            };
            let input = input.unwrap_or_else(|error| self.input_of(error));
            self.push.handle(clock::awake(), input);
            if let Some(shown) = &shown {
                shown.note(self.push.sent_bytes());
            }
        }
    }

    /// What the push is told of a failure. Why it failed is kept for whoever began it.
    fn input_of(&mut self, error: PushError) -> Input {
        let input = match error {
            PushError::Local(ContentsError::Missing(digest) | ContentsError::Damaged(digest)) => Input::Lost(digest),
            PushError::Local(_) | PushError::Session(_) | PushError::NoSpace | PushError::Refused(_) => Input::Failed,
        };
        self.error = Some(error);
        input
    }

    fn send(&mut self, digest: Digest) {
        let (volume, session, order) = (Arc::clone(self.volume), self.session.clone(), self.order.clone());
        self.sending.spawn(async move { send_chunk(&volume, &session, &order, digest).await.map(|()| digest) });
    }

    async fn next_taken(&mut self) -> Result<Input, PushError> {
        let joined = self.sending.join_next().await.expect("a push waits for what it has under way");
        let ended = |error| PushError::Refused(format!("a task of the push ended: {error}"));
        let digest = joined.map_err(ended)??;
        self.push.handle(clock::awake(), Input::Window(congestion_window(self.session)));
        Ok(Input::Taken(digest))
    }

    async fn ask_presence(&self, pieces: Vec<Piece>) -> Result<Input, PushError> {
        let asked = pieces.len();
        match ask(&self.session.connection, &Ask::Presence { pieces }).await? {
            Reply::Presence(states) if states.len() == asked => Ok(Input::Presence(states)),
            other => Err(refusal(other)),
        }
    }

    async fn read_node(&self, piece: Piece) -> Result<Input, PushError> {
        let node = self.volume.contents.read(piece.digest).await?;
        let children = piece.children(&node).ok_or(ContentsError::Damaged(piece.digest))?;
        Ok(Input::Node(children))
    }

    async fn send_whole(&self, digest: Digest) -> Result<Input, PushError> {
        let Self { volume, session, order, .. } = *self;
        let chunk = volume.contents.read(digest).await?;
        let (file, version) = (order.file, order.version);
        let ask = |form, bases| Ask::TakeWhole { file, version, content: order.content.clone(), form, bases };
        match upload_chunk(volume, session, order, (digest, chunk), ask).await? {
            Reply::Durable => Ok(Input::Durable),
            other => Err(refusal(other)),
        }
    }

    async fn ask_complete(&self) -> Result<Input, PushError> {
        let (file, version, content) = (self.order.file, self.order.version, self.order.content.clone());
        match ask(&self.session.connection, &Ask::Complete { file, version, content }).await? {
            Reply::Durable => Ok(Input::Durable),
            Reply::Missing(_) => Ok(Input::Missing),
            other => Err(refusal(other)),
        }
    }

    /// A station tells how much of a push has gone, for its writer to see.
    fn tell_sent(&self, bytes: u64) {
        if self.volume.role() == Role::Station {
            self.volume.step(EngineInput::Sent { version: self.order.version, bytes });
        }
    }
}

/// Bytes that the transport may have in flight.
fn congestion_window(session: &Session) -> u64 {
    session.connection.stats().congestion_window
}

/// A failure of which nobody but the push knows.
fn error_of(failure: Failure) -> PushError {
    match failure {
        Failure::Lost(digest) => ContentsError::Missing(digest).into(),
        Failure::TakesInVain => PushError::Refused("it asks for the same chunks again and again".into()),
        Failure::Reported => PushError::Refused("the push failed".into()),
    }
}

async fn send_chunk(
    volume: &Arc<Volume>,
    session: &Session,
    order: &PushOrder,
    digest: Digest,
) -> Result<(), PushError> {
    let _room = volume.chunks_up.acquire().await;
    let chunk = volume.contents.read(digest).await?;
    let ask = |form, bases| Ask::Take { digest, form, bases };
    match upload_chunk(volume, session, order, (digest, chunk), ask).await? {
        Reply::Taken => Ok(()),
        other => Err(refusal(other)),
    }
}

/// Sends a chunk, packed as the path is worth it; without bases if the parent has not those that were chosen.
async fn upload_chunk(
    volume: &Arc<Volume>,
    session: &Session,
    order: &PushOrder,
    (digest, chunk): (Digest, Bytes),
    ask: impl Fn(Form, Vec<Digest>) -> Ask,
) -> Result<Reply, PushError> {
    let len = chunk.len();
    let packed = volume.pack_push(session, order, (digest, chunk.clone())).await;
    let is_difference = packed.form.is_difference();
    let mut reply = upload_packed(volume, session, packed, len, &ask).await?;
    if is_difference && matches!(reply, Reply::BaseGone | Reply::Invalid(_)) {
        debug!(%digest, ?reply, "the parent has not what this is the difference to: sent again as it is");
        volume.metrics.bases_lost.add(1);
        let packed = volume.pack_alone(chunk, session.path(volume)).await;
        reply = upload_packed(volume, session, packed, len, &ask).await?;
    }
    if matches!(reply, Reply::Taken | Reply::Durable) {
        session.history.pushed().add(digest, len);
    }
    Ok(reply)
}

async fn upload_packed(
    volume: &Arc<Volume>,
    session: &Session,
    packed: Packed,
    len: usize,
    ask: impl Fn(Form, Vec<Digest>) -> Ask,
) -> Result<Reply, PushError> {
    let Packed { form, body, bases } = packed;
    volume.metrics.bytes_up_unpacked.add(len as u64);
    upload(volume, &session.connection, &ask(form, bases), body).await
}

async fn upload(volume: &Arc<Volume>, connection: &Connection, ask: &Ask, body: Bytes) -> Result<Reply, PushError> {
    let len = body.len() as u64;
    volume.metrics.bytes_up.add(len);
    let (mut sender, call) = connection.upload(message::encode(ask), len, Priority::Background).await?;
    let sending = async {
        sender.send(body).await?;
        sender.finish().await
    };
    let answering = call.answer();
    tokio::pin!(sending, answering);
    // The answer may come before the body is sent: the parent has the chunk already.
    let (header, body) = tokio::select! {
        sent = &mut sending => match sent {
            Ok(()) | Err(RequestError::Refused(_)) => answering.await?,
            Err(error) => return Err(error.into()),
        },
        answer = &mut answering => answer?,
    };
    body.read_all(ANSWER_BODY_MAX).await?;
    Reply::decode(&header).map_err(|error| PushError::Refused(error.to_string()))
}

/// Asks a small question in the background.
pub(crate) async fn ask(connection: &Connection, ask: &Ask) -> Result<Reply, PushError> {
    let (header, body) = connection.request_at(message::encode(ask), Priority::Background).await?;
    body.read_all(ANSWER_BODY_MAX).await?;
    Reply::decode(&header).map_err(|error| PushError::Refused(error.to_string()))
}

fn refusal(reply: Reply) -> PushError {
    match reply {
        Reply::NoSpace => PushError::NoSpace,
        Reply::Invalid(why) | Reply::Failed(why) => PushError::Refused(why),
        other => PushError::Refused(format!("unexpected answer {}", name(&other))),
    }
}

fn name(reply: &Reply) -> &'static str {
    match reply {
        Reply::Presence(_) => "presence",
        Reply::Taken => "taken",
        Reply::Durable => "durable",
        Reply::Missing(_) => "missing",
        Reply::Found(_) => "found",
        Reply::Absent => "absent",
        Reply::Unreachable => "unreachable",
        Reply::NoSpace => "no space",
        Reply::Invalid(_) => "invalid",
        Reply::Failed(_) => "failed",
        Reply::Servers { .. } => "servers",
        Reply::Labels(_) => "labels",
        Reply::BaseGone => "base gone",
    }
}
