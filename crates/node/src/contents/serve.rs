//! Answering a neighbour's content requests.
//!
//! Only admitted sessions come here. A chunk that is not here is fetched from whoever holds it while the asker
//! waits, and kept; the asker hears "still at work" meanwhile.

use super::bases::{Offer, Packed};
use super::chunks::Keep;
use super::codec;
use super::confined;
use super::message::{self, Ask, Form, Reply};
use super::presence::{self, CallOff, Walk};
use super::recent::RECENT_LEN_MAX;
use super::wait::Wait;
use super::want::{FetchError, Want};
use crate::contents::ContentsError;
use crate::servers::exchange;
use crate::session::Session;
use crate::syncer::Arriving;
use crate::volume::Volume;
use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tracing::debug;
use wayfs_content::CHUNK_MAX;
use wayfs_net::{IncomingRequest, RecvBody, RequestError, Responder};
use wayfs_proto::{Input, Neighbour, PeerId};
use wayfs_transfer::fetches::Until;
use wayfs_transfer::{Piece, Presence};
use wayfs_types::{Content, Digest, FileId, OriginId, RecordId};

/// Longest silence that a neighbour may make us bear for a chunk.
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// How often an asker that waits is told that we are still at work: well below its idle timeout.
const SIGN_PERIOD: Duration = Duration::from_secs(2);

/// Serves one request of the session `peer`.
pub(crate) async fn answer(volume: Arc<Volume>, peer: PeerId, request: IncomingRequest) {
    let IncomingRequest { header, body, mut responder, .. } = request;
    let result = match Ask::decode(&header) {
        Ok(Ask::Give { file, version, digest, patience_ms, number, bases: named }) => {
            let want = Want { file, version, digest };
            let patience = Duration::from_millis(u64::from(patience_ms)).min(PATIENCE_MAX);
            give(&volume, peer, want, Offer { number, named }, patience, responder).await
        }
        Ok(ask) => {
            let working = serve(&volume, peer, ask, body);
            match with_signs(&mut responder, working).await {
                Ok(reply) => responder.answer(message::encode(&reply)).await,
                Err(error) => Err(error),
            }
        }
        Err(error) => responder.answer(message::encode(&Reply::Invalid(error.to_string()))).await,
    };
    if let Err(error) = result {
        debug!(%error, "a content request could not be answered");
    }
}

/// Does the work and tells the peer meanwhile that it goes on.
async fn with_signs<T>(responder: &mut Responder, working: impl Future<Output = T>) -> Result<T, RequestError> {
    with_signs_of(responder, &AtomicBool::new(false), working).await
}

/// The same for work that says when it moves.
async fn with_signs_of<T>(
    responder: &mut Responder,
    moved: &AtomicBool,
    working: impl Future<Output = T>,
) -> Result<T, RequestError> {
    tokio::pin!(working);
    loop {
        match tokio::time::timeout(SIGN_PERIOD, &mut working).await {
            Ok(done) => return Ok(done),
            Err(_) if moved.swap(false, Ordering::Relaxed) => responder.moves().await?,
            Err(_) => responder.still_here().await?,
        }
    }
}

async fn serve(volume: &Arc<Volume>, peer: PeerId, ask: Ask, body: RecvBody) -> Reply {
    let brings = matches!(ask, Ask::Take { .. } | Ask::TakeWhole { .. } | Ask::Complete { .. });
    if brings && !may_bring(volume, peer) {
        return Reply::Invalid("this member may only read".into());
    }
    match ask {
        Ask::Presence { pieces } => presences(volume, pieces).await,
        Ask::Take { digest, form, bases } => match take(volume, digest, (form, &bases), body).await {
            Ok(()) => Reply::Taken,
            Err(reply) => reply,
        },
        Ask::Complete { file, version, content } => complete_for(volume, peer, file, version, content, None).await,
        Ask::TakeWhole { file, version, content, form, bases } => {
            let Content::Tree { root, depth: 0, .. } = content else {
                return Reply::Invalid("only a content of one chunk comes whole".into());
            };
            let arrived = volume.syncs.arriving();
            match take(volume, root, (form, &bases), body).await {
                Ok(()) => {
                    volume.metrics.pushes_in.add(1);
                    complete_for(volume, peer, file, version, content, Some(arrived)).await
                }
                Err(reply) => reply,
            }
        }
        Ask::Servers { have, news } => exchange::answer(volume, volume.session(peer).as_ref(), &have, news),
        Ask::Labels { origins } => labels(volume, &origins),
        Ask::Give { .. } => Reply::Invalid("asked for in another way".into()),
    }
}

/// Whether a neighbour's contents are taken: all but those of a member that may only read, who would fill the disk
/// with what no record can name.
fn may_bring(volume: &Arc<Volume>, peer: PeerId) -> bool {
    match volume.session(peer).map(|session| session.neighbour) {
        Some(Neighbour::ChildClient { origin }) => {
            volume.look(|replica| replica.may_write(origin)).and_then(Result::ok).unwrap_or(false)
        }
        Some(Neighbour::ChildStation { .. } | Neighbour::Parent) => true,
        None => false,
    }
}

/// What members are called, for those who hold no list of them.
fn labels(volume: &Arc<Volume>, origins: &[OriginId]) -> Reply {
    let known = volume.look(wayfs_proto::Replica::origins).and_then(Result::ok).unwrap_or_default();
    let wanted = known.into_iter().filter(|(origin, _)| origins.contains(origin));
    Reply::Labels(wanted.map(|(origin, image)| (origin, image.label)).collect())
}

async fn presences(volume: &Arc<Volume>, pieces: Vec<Piece>) -> Reply {
    let volume_for_walk = Arc::clone(volume);
    let call_off = CallOff::default();
    let _waiting = call_off.on_drop();
    let walked = volume.settings.runtime.spawn_blocking(move || -> Vec<Presence> {
        pieces.iter().map(|piece| presence::presence(&volume_for_walk.contents, *piece, &call_off)).collect()
    });
    match walked.await {
        Ok(list) => Reply::Presence(list),
        Err(error) => Reply::Failed(error.to_string()),
    }
}

/// Takes a chunk in; the reply says why not.
async fn take(
    volume: &Arc<Volume>,
    digest: Digest,
    (form, bases): (Form, &[Digest]),
    body: RecvBody,
) -> Result<(), Reply> {
    volume.contents.protect(digest);
    if volume.contents.has(&digest) {
        return Ok(());
    }
    let _room = volume.bodies.acquire().await;
    let Some(bases) = volume.bases_of_push(form, bases).await else { return Err(Reply::BaseGone) };
    let bytes = body.read_all(CHUNK_MAX).await.map_err(|error| Reply::Invalid(error.to_string()))?;
    volume.metrics.bytes_down.add(bytes.len() as u64);
    store(volume, digest, (form, Keep::Must), bytes, bases).await.map_err(reply_of)
}

/// Unpacks, checks and stores a chunk that came over the wire. A small one is not worth another thread.
pub(crate) async fn store(
    volume: &Arc<Volume>,
    digest: Digest,
    (form, keep): (Form, Keep),
    bytes: Bytes,
    bases: Bytes,
) -> Result<(), ContentsError> {
    if bytes.len().max(form.len()) <= RECENT_LEN_MAX {
        return store_now(volume, digest, (form, keep), bytes, &bases);
    }
    let target = Arc::clone(volume);
    let stored =
        volume.settings.runtime.spawn_blocking(move || store_now(&target, digest, (form, keep), bytes, &bases));
    stored.await.map_err(|error| ContentsError::Io(error.to_string()))?
}

fn store_now(
    volume: &Arc<Volume>,
    digest: Digest,
    (form, keep): (Form, Keep),
    bytes: Bytes,
    bases: &[u8],
) -> Result<(), ContentsError> {
    let chunk = codec::unpack(form, bytes, bases).map_err(|error| ContentsError::Peer(error.to_string()))?;
    if Digest::of(&chunk) != digest {
        return Err(ContentsError::Peer(format!("the bytes sent for {digest} hash to something else")));
    }
    volume.metrics.bytes_down_unpacked.add(chunk.len() as u64);
    if form.is_difference() {
        volume.metrics.differences_in.add(1);
    }
    let kept = volume.contents.put_fetched(digest, chunk, keep);
    if !matches!(kept, Ok(true)) {
        // There is no room: what can be had again gives way.
        volume.contents.sweep_alarm.press();
    }
    kept.map(|_| ())
}

/// Completes a version for a neighbour.
async fn complete_for(
    volume: &Arc<Volume>,
    peer: PeerId,
    file: FileId,
    version: RecordId,
    content: Content,
    arrived: Option<Arriving>,
) -> Reply {
    let reply = complete(volume, file, version, content.clone(), arrived).await;
    if reply == Reply::Durable
        && let Some(session) = volume.session(peer)
    {
        volume.note_version(&session, file, &content);
    }
    reply
}

/// Checks that all is here, makes it durable, and tells the engine.
pub(crate) async fn complete(
    volume: &Arc<Volume>,
    file: FileId,
    version: RecordId,
    content: Content,
    arrived: Option<Arriving>,
) -> Reply {
    let (Some(top), Some(here)) = (Piece::top(&content), content.top()) else { return Reply::Durable };
    volume.contents.protect_tree(top);
    let call_off = CallOff::default();
    let _waiting = call_off.on_drop();
    let walked = if top.level == 0 {
        // One look at an index.
        Ok(presence::missing(&volume.contents, &content, &call_off))
    } else {
        let walker = Arc::clone(volume);
        volume.settings.runtime.spawn_blocking(move || presence::missing(&walker.contents, &content, &call_off)).await
    };
    match walked {
        Err(error) => Reply::Failed(error.to_string()),
        Ok(Walk::Missing(list)) => Reply::Missing(list),
        Ok(Walk::CalledOff) => reply_of(ContentsError::Stopped),
        Ok(Walk::Invalid) => Reply::Invalid("its list nodes do not fit together".into()),
        Ok(Walk::Complete) => match volume.arrived_durable(arrived).await {
            Ok(()) => {
                debug!(%file, %version, "contents arrived");
                volume.note_here(here);
                Reply::Durable
            }
            Err(error) => reply_of(error),
        },
    }
}

async fn give(
    volume: &Arc<Volume>,
    peer: PeerId,
    want: Want,
    offer: Offer,
    patience: Duration,
    mut responder: Responder,
) -> Result<(), RequestError> {
    if !with_signs(&mut responder, confined::may_have(volume, peer, want, patience)).await? {
        return responder.answer(message::encode(&Reply::Absent)).await;
    }
    let mut room = volume.bodies.acquire().await;
    let mut chunk = volume.contents.read(want.digest).await;
    if let Err(ContentsError::Missing(_) | ContentsError::Damaged(_)) = chunk {
        // Whoever holds it may take long: others go first.
        drop(room);
        let moved = AtomicBool::new(false);
        let tell = || moved.store(true, Ordering::Relaxed);
        let mut wait = Wait::new(patience, &tell);
        let begun = volume.fetch_until(Until::Comes, want, Some(peer), &mut wait);
        match with_signs_of(&mut responder, &moved, begun).await? {
            Err(error) => return responder.answer(message::encode(&reply_of_fetch(error))).await,
            Ok(None) => {}
            Ok(Some(inflow)) => {
                if let Some(session) = volume.session(peer)
                    && let Some(_room) = volume.room_to_pass_on(&session, &offer, &inflow)
                {
                    tell_of_reader(volume, &session, want);
                    return volume.pass_on(&session, (want, &offer), inflow, responder).await;
                }
                drop(inflow);
                let fetching = volume.fetch_chunk_in(want, Some(peer), &mut wait);
                if let Err(error) = with_signs_of(&mut responder, &moved, fetching).await? {
                    return responder.answer(message::encode(&reply_of_fetch(error))).await;
                }
            }
        }
        room = volume.bodies.acquire().await;
        chunk = volume.contents.read(want.digest).await;
    }
    let chunk = match chunk {
        Ok(chunk) => chunk,
        Err(error) => return responder.answer(message::encode(&reply_of(error))).await,
    };
    let _room = room;
    let Some(session) = volume.session(peer) else {
        return responder.answer(message::encode(&Reply::Unreachable)).await;
    };
    tell_of_reader(volume, &session, want);
    let len = chunk.len() as u64;
    let Packed { form, body, .. } = volume.pack_answer(&session, chunk, &offer).await;
    volume.metrics.bytes_up.add(body.len() as u64);
    volume.metrics.bytes_up_unpacked.add(len);
    let given = answer_with(responder, form, body).await;
    if given.is_err() {
        session.history.given().take_back(offer.number);
    }
    given
}

async fn answer_with(responder: Responder, form: Form, bytes: Bytes) -> Result<(), RequestError> {
    let header = message::encode(&Reply::Found(form));
    let mut body = responder.answer_with_body(header, bytes.len() as u64).await?;
    body.send(bytes).await?;
    body.finish().await
}

/// Sharing is noticed by who reads: the engine hears of children, the policy of the parent. The top of a tree is
/// fetched once for each reading, so that it stands for all of it.
fn tell_of_reader(volume: &Arc<Volume>, session: &Session, want: Want) {
    match session.neighbour {
        Neighbour::Parent => {
            volume.back_fetched(want.file, want.version);
            volume.hooks.back_fetched(want.file, want.version);
        }
        Neighbour::ChildStation { .. } | Neighbour::ChildClient { .. } => {
            let inode = volume.look(|replica| replica.inode(want.file)).and_then(Result::ok).flatten();
            if inode.is_some_and(|inode| inode.content.root() == Some(want.digest)) {
                volume.step(Input::Fetched { peer: session.peer, file: want.file });
            }
        }
    }
}

fn reply_of_fetch(error: FetchError) -> Reply {
    match error {
        FetchError::Unreachable | FetchError::TimedOut => Reply::Unreachable,
        FetchError::NotHeld => Reply::Absent,
        FetchError::Local(error) => reply_of(error),
        FetchError::Refused(why) => Reply::Failed(why),
    }
}

fn reply_of(error: ContentsError) -> Reply {
    match error {
        ContentsError::NoSpace => Reply::NoSpace,
        ContentsError::Peer(why) => Reply::Invalid(why),
        ContentsError::Missing(_) => Reply::Absent,
        error @ (ContentsError::Damaged(_) | ContentsError::Stopped | ContentsError::Io(_)) => {
            Reply::Failed(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Machine, PATIENCE, noise};

    /// Whoever pushed contents believes that they are on this disk when it is told so.
    #[test]
    fn what_came_whole_and_was_not_synced_is_not_called_durable() {
        let dir = tempfile::tempdir().unwrap();
        let home = Machine::home(&dir.path().join("home"));
        let (file, inode) = home.write("film", &noise(900_000, 3));
        let volume = &home.volume;
        let arrives = || {
            let arrived = Some(volume.syncs.arriving());
            let complete = complete(volume, file, inode.version, inode.content.clone(), arrived);
            volume.settings.runtime.block_on(async { tokio::time::timeout(PATIENCE, complete).await.unwrap() })
        };
        assert_eq!(arrives(), Reply::Durable);
        volume.syncs.stop();
        let reply = arrives();
        assert!(matches!(reply, Reply::Failed(_)), "no sync comes any more: {reply:?}");
    }
}
