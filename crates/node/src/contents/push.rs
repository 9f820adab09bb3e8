//! Bringing one content to the parent: only what lacks there travels.

use super::bases::Packed;
use super::message::{self, Ask, Form, PIECES_MAX, Reply};
use super::presence::{Piece, Presence};
use super::sent;
use crate::contents::ContentsError;
use crate::core::PushOrder;
use crate::session::Session;
use crate::volume::{CHUNKS_UP_MAX, Volume};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::JoinSet;
use tracing::debug;
use wayfs_content::CHUNK_AVG;
use wayfs_net::{Connection, Priority, RequestError};
use wayfs_proto::{Input, Role};
use wayfs_types::Digest;

/// Largest content that is sent without asking first, as one request.
const WHOLE_LEN_MAX: u64 = wayfs_content::CHUNK_MAX as u64;
/// Fewest chunks of one content under way at once.
const CHUNKS_MIN: usize = 8;
/// Congestion windows' worth of them: while the transport may send, it never waits for the answer to a chunk.
const WINDOWS: u64 = 2;
/// Rounds of "complete?" and "these lack": more mean that the parent loses what it takes.
const ROUNDS_MAX: usize = 8;
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
    let Some(top) = Piece::top(&order.content) else { return Ok(()) };
    if top.level == 0 && top.len <= WHOLE_LEN_MAX {
        push_whole(volume, session, order, top).await?;
    } else {
        push_tree(volume, session, order, top).await?;
    }
    volume.note_version(session, order.file, &order.content);
    Ok(())
}

async fn push_tree(volume: &Arc<Volume>, session: &Session, order: &PushOrder, top: Piece) -> Result<(), PushError> {
    let connection = &session.connection;
    let mut wanted = vec![top];
    for _ in 0..ROUNDS_MAX {
        let sent = volume.sent.begin(order.version);
        send_missing(volume, session, order, wanted, &sent).await?;
        let (file, version, content) = (order.file, order.version, order.content.clone());
        match ask(connection, &Ask::Complete { file, version, content }).await? {
            Reply::Durable => return Ok(()),
            Reply::Missing(_) => wanted = vec![top],
            other => return Err(refusal(other)),
        }
    }
    Err(PushError::Refused("it asks for the same chunks again and again".into()))
}

async fn push_whole(volume: &Arc<Volume>, session: &Session, order: &PushOrder, top: Piece) -> Result<(), PushError> {
    let chunk = match volume.contents.read(top.digest).await {
        Ok(chunk) => chunk,
        Err(lost @ (ContentsError::Missing(_) | ContentsError::Damaged(_))) => {
            return complete_without(&session.connection, order, lost).await;
        }
        Err(error) => return Err(error.into()),
    };
    let (file, version) = (order.file, order.version);
    let ask = |form, bases| Ask::TakeWhole { file, version, content: order.content.clone(), form, bases };
    match upload_chunk(volume, session, order, (top.digest, chunk), ask).await? {
        Reply::Durable => Ok(()),
        other => Err(refusal(other)),
    }
}

/// Our copy is lost: perhaps the parent has the same bytes from elsewhere.
async fn complete_without(connection: &Connection, order: &PushOrder, lost: ContentsError) -> Result<(), PushError> {
    let (file, version, content) = (order.file, order.version, order.content.clone());
    match ask(connection, &Ask::Complete { file, version, content }).await? {
        Reply::Durable => Ok(()),
        Reply::Missing(_) => Err(lost.into()),
        other => Err(refusal(other)),
    }
}

/// Walks down the tree, level by level, below nodes that the parent has not complete, and sends what lacks.
async fn send_missing(
    volume: &Arc<Volume>,
    session: &Session,
    order: &PushOrder,
    tops: Vec<Piece>,
    sent: &sent::Sending<'_>,
) -> Result<(), PushError> {
    let mut level = tops;
    let mut sending = Sending { volume, session, order, tasks: JoinSet::new() };
    while !level.is_empty() {
        let mut below = Vec::new();
        let mut seen = BTreeSet::new();
        level.retain(|piece| seen.insert(piece.digest));
        for pieces in level.chunks(PIECES_MAX) {
            let states = presence(&session.connection, pieces).await?;
            for (piece, state) in pieces.iter().zip(states) {
                if state == Presence::Complete || (state == Presence::Partial && piece.level == 0) {
                    tell_sent(volume, order, sent.add(piece.len));
                    continue;
                }
                if piece.level > 0 {
                    let node = volume.contents.read(piece.digest).await?;
                    let children = piece.children(&node);
                    below.extend(children.ok_or(ContentsError::Damaged(piece.digest))?);
                }
                if state == Presence::Absent {
                    let counted = if piece.level == 0 { piece.len } else { 0 };
                    sending.send(piece.digest, counted, sent).await?;
                }
            }
        }
        level = below;
    }
    sending.finish(sent).await
}

/// A station tells how much of a push has gone, for its writer to see.
fn tell_sent(volume: &Volume, order: &PushOrder, bytes: Option<u64>) {
    if let Some(bytes) = bytes
        && volume.role() == Role::Station
    {
        volume.step(Input::Sent { version: order.version, bytes });
    }
}

async fn presence(connection: &Connection, pieces: &[Piece]) -> Result<Vec<Presence>, PushError> {
    match ask(connection, &Ask::Presence { pieces: pieces.to_vec() }).await? {
        Reply::Presence(states) if states.len() == pieces.len() => Ok(states),
        other => Err(refusal(other)),
    }
}

/// Chunks under way.
struct Sending<'a> {
    volume: &'a Arc<Volume>,
    session: &'a Session,
    order: &'a PushOrder,
    /// Each ends with the bytes of the file that it brought.
    tasks: JoinSet<Result<u64, PushError>>,
}

impl Sending<'_> {
    async fn send(&mut self, digest: Digest, counted: u64, sent: &sent::Sending<'_>) -> Result<(), PushError> {
        while self.tasks.len() >= chunks_at_once(self.session.connection.stats().congestion_window) {
            self.join_one(sent).await?;
        }
        let (volume, session, order) = (Arc::clone(self.volume), self.session.clone(), self.order.clone());
        self.tasks.spawn(async move { send_chunk(&volume, &session, &order, digest).await.map(|()| counted) });
        Ok(())
    }

    async fn join_one(&mut self, sent: &sent::Sending<'_>) -> Result<(), PushError> {
        match self.tasks.join_next().await {
            Some(Ok(result)) => {
                let bytes = result?;
                tell_sent(self.volume, self.order, sent.add(bytes));
                Ok(())
            }
            Some(Err(error)) => Err(PushError::Refused(format!("a task of the push ended: {error}"))),
            None => Ok(()),
        }
    }

    async fn finish(mut self, sent: &sent::Sending<'_>) -> Result<(), PushError> {
        while !self.tasks.is_empty() {
            self.join_one(sent).await?;
        }
        Ok(())
    }
}

/// Chunks under way, by the bytes that the transport may have in flight.
fn chunks_at_once(congestion_window: u64) -> usize {
    let chunks = congestion_window.saturating_mul(WINDOWS) / CHUNK_AVG as u64;
    usize::try_from(chunks).unwrap_or(usize::MAX).clamp(CHUNKS_MIN, CHUNKS_UP_MAX)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_push_has_under_way_what_the_transport_may_send_and_its_answers() {
        assert_eq!(chunks_at_once(12_000), 8, "a thin line");
        assert_eq!(chunks_at_once(4 << 20), 32, "300 Mb/s, 100 ms");
        assert_eq!(chunks_at_once(1 << 40), CHUNKS_UP_MAX);
    }
}
