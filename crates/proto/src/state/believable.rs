//! What a parent says of the tree must be able to be so: checked before it is taken, for what is taken is there after a restart, too.

use crate::PeerId;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use std::collections::BTreeMap;
use wayfs_types::{FileId, Image, Inode, Key, MetaStore};
use wayfs_wire::KeyImage;

/// Longest chain of files merged into others that is followed here. Whoever resolves one follows fewer.
const CHAIN_MAX: usize = 128;

impl<S: MetaStore> Core<S> {
    /// Refuses a root that is no directory, and files that stand for each other in a circle.
    pub(crate) fn check_believable(&self, peer: PeerId, cut: &[KeyImage]) -> Result<(), StepError> {
        let mut merged: BTreeMap<FileId, FileId> = BTreeMap::new();
        for pair in cut {
            let (Key::Inode(file), Some(Image::Inode(inode))) = (&pair.key, &pair.image) else { continue };
            if *file == FileId::ROOT && !is_root(inode) {
                return Err(StepError::Peer(peer, "says that the root is no directory".to_owned()));
            }
            if let Some(into) = inode.merged_into {
                merged.insert(*file, into);
            }
        }
        for file in merged.keys() {
            if leads_to_itself(*file, &merged) {
                return Err(StepError::Peer(peer, format!("merges file {file} into itself, by way of others")));
            }
        }
        Ok(())
    }
}

/// What a parent says at once is of one moment of its state, and has no circle if the parent is honest. What is known here
/// is not looked at: it may be older, or tentative, and the two together may well look like a circle for a while. A circle
/// that comes about that way hurts nobody, since chains are followed so far and no farther.
fn leads_to_itself(file: FileId, merged: &BTreeMap<FileId, FileId>) -> bool {
    let mut at = file;
    for _ in 0..CHAIN_MAX {
        match merged.get(&at) {
            Some(into) if *into == file => return true,
            Some(into) => at = *into,
            None => return false,
        }
    }
    false
}

fn is_root(inode: &Inode) -> bool {
    inode.is_directory() && inode.merged_into.is_none()
}
