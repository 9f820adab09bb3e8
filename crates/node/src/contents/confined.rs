//! Contents for a member that works in a part of the volume: it gets the chunks of the files there, and no others.
//!
//! Whoever knows the name of a chunk could ask for it under any file. So of such a member each chunk is looked for in
//! the tree of the file that it names, from the top down, and what was found on the way is remembered for the session.

use super::entitled::Entitled;
use super::want::Want;
use crate::volume::Volume;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use wayfs_proto::{Neighbour, PeerId};
use wayfs_transfer::Piece;
use wayfs_types::Content;

/// List nodes of one file that are looked at for one question.
const NODES_MAX: usize = 1 << 14;

/// Whether a neighbour may have a chunk.
pub(super) async fn may_have(volume: &Arc<Volume>, peer: PeerId, want: Want, patience: Duration) -> bool {
    let Some(session) = volume.session(peer) else { return false };
    let Neighbour::ChildClient { origin } = session.neighbour else { return true };
    let looked = volume.look(|replica| {
        let is_confined = replica.part_of(origin)?.is_some();
        let is_in = !is_confined || replica.is_in_part(origin, want.file)?;
        let inode = if is_confined && is_in { replica.inode(want.file)? } else { None };
        Ok::<_, wayfs_types::StorageError>((is_confined, is_in, inode.map(|inode| inode.content.clone())))
    });
    match looked {
        Some(Ok((false, ..))) => true,
        Some(Ok((true, true, Some(content)))) => {
            session.entitled.has(&want.digest)
                || is_of(volume, peer, (want, &content), &session.entitled, patience).await
        }
        Some(Ok((true, ..)) | Err(_)) | None => false,
    }
}

/// Looks for a chunk in the tree of a content.
async fn is_of(
    volume: &Arc<Volume>,
    peer: PeerId,
    (want, content): (Want, &Content),
    entitled: &Entitled,
    patience: Duration,
) -> bool {
    let Some(top) = Piece::top(content) else { return false };
    let mut left = vec![top];
    let mut seen = BTreeSet::new();
    let mut is_found = top.digest == want.digest;
    entitled.add(std::iter::once(top.digest));
    while let Some(piece) = left.pop().filter(|_| !is_found && seen.len() < NODES_MAX) {
        if piece.level == 0 || !seen.insert(piece) {
            continue;
        }
        let node = Want { digest: piece.digest, ..want };
        let mut bytes = volume.contents.read(node.digest).await;
        if bytes.is_err() && volume.fetch_chunk(node, Some(peer), patience).await.is_ok() {
            bytes = volume.contents.read(node.digest).await;
        }
        let Some(children) = bytes.ok().and_then(|bytes| piece.children(&bytes)) else { continue };
        is_found = children.iter().any(|child| child.digest == want.digest);
        entitled.add(children.iter().map(|child| child.digest));
        left.extend(children.into_iter().rev());
    }
    is_found
}
