//! Contents that a child sent up do not come back down to it.
//!
//! What a record made of its file is told to its writer like to everybody else, as an image; only the contents that
//! travelled in the record are left out, and the writer puts them in again from its log. So a small file crosses each
//! line once. The parent leaves out what came in this session, since the child began to be told of changes, and only
//! until it has told the child that the record took effect (the image of its origin, in a whole cut): so long the child
//! keeps the record as a tentative one. A digest stands for what is left out. If the child finds that it has not got
//! that, the session ends, and in the next one nothing of it is left out. A station that writes records again by other names, since the
//! home's history parted from its own, may have sent them a moment ago: it keeps their contents for this session.

use crate::api::PeerId;
use crate::children::{Child, ChildState};
use crate::contents::content_of;
use crate::replica::{Replica, StepError};
use crate::state::log::LogEntry;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use wayfs_types::{Content, Digest, Image, Inode, Key, MetaStore, OriginId, Record, RecordId};
use wayfs_wire::{KeyImage, Omitted};

/// Shorter contents cost less than what stands for them.
const LEN_MIN: usize = 64;
/// Records that are remembered for one child. The contents of others come back.
const ECHO_MAX: usize = 65_536;

/// Records whose contents a child is not to be told.
#[derive(Debug, Default)]
pub(crate) struct EchoFilter {
    records: BTreeSet<RecordId>,
    /// How far origins come by the cut that is under way.
    told: Vec<(OriginId, u64)>,
}

impl EchoFilter {
    /// A new session: what is left of the child's log may have come by another way.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    fn add(&mut self, record: RecordId) {
        if self.records.len() < ECHO_MAX {
            self.records.insert(record);
        }
    }

    /// Whether [`EchoFilter::omit`] has anything to do with an image.
    pub(crate) fn is_concerned(&self, pair: &KeyImage) -> bool {
        match (&pair.key, pair.image.as_ref()) {
            (Key::Origin(_), Some(Image::Origin(_))) => true,
            (Key::Inode(_), Some(Image::Inode(inode))) => self.records.contains(&inode.version),
            _ => false,
        }
    }

    /// Takes out of an image that is going to be told what the child has. Answers what that was.
    pub(crate) fn omit(&mut self, pair: &mut KeyImage) -> Option<Digest> {
        match (&pair.key, pair.image.as_mut()) {
            (Key::Origin(origin), Some(Image::Origin(image))) => {
                self.told.push((*origin, image.applied));
                None
            }
            (Key::Inode(_), Some(Image::Inode(inode))) if self.records.contains(&inode.version) => {
                take_out(Arc::make_mut(inode))
            }
            _ => None,
        }
    }

    /// The cut is told: of what it confirms, the child may forget its records.
    pub(crate) fn cut_ends(&mut self) {
        for (origin, applied) in self.told.drain(..) {
            let (Ok(first), Ok(next)) = (RecordId::new(origin, 1), RecordId::new(origin, applied + 1)) else {
                continue;
            };
            let mut later = self.records.split_off(&first);
            self.records.append(&mut later.split_off(&next));
        }
    }
}

fn take_out(inode: &mut Inode) -> Option<Digest> {
    let Content::Inline(bytes) = &mut inode.content else { return None };
    if bytes.len() < LEN_MIN {
        return None;
    }
    Some(Digest::of(&std::mem::take(bytes)))
}

/// The contents that travel in a record.
fn inline_of(record: &Record) -> Option<Bytes> {
    match content_of(record)? {
        (_, Content::Inline(bytes)) => Some(bytes.clone()),
        _ => None,
    }
}

impl Child {
    /// A record came from the child and took effect.
    pub(crate) fn note_brought(&mut self, record: &Record) {
        let is_told = matches!(self.state, ChildState::Scanning | ChildState::Live);
        if let Some((_, Content::Inline(bytes))) = content_of(record)
            && bytes.len() >= LEN_MIN
            && is_told
        {
            self.echo_filter.add(record.id);
        }
    }
}

impl<S: MetaStore> Replica<S> {
    /// Puts contents of our own records into images from which the parent left them out.
    pub(crate) fn put_back(&self, peer: PeerId, images: &mut [KeyImage], omitted: &[Omitted]) -> Result<(), StepError> {
        let protocol_violation = || StepError::Peer(peer, "left out contents that we have not got".to_owned());
        for Omitted { index, digest } in omitted {
            let pair = images.get_mut(*index as usize).ok_or_else(protocol_violation)?;
            let Some(Image::Inode(inode)) = &mut pair.image else { return Err(protocol_violation()) };
            let bytes = self.sent_contents(inode.version)?.filter(|bytes| Digest::of(bytes) == *digest);
            Arc::make_mut(inode).content = Content::Inline(bytes.ok_or_else(protocol_violation)?);
        }
        Ok(())
    }

    fn sent_contents(&self, version: RecordId) -> Result<Option<Bytes>, StepError> {
        let record = self.logged(version)?;
        let parted = || self.uplink.session.as_ref().and_then(|upstream| upstream.parted.get(&version).cloned());
        Ok(record.as_ref().and_then(inline_of).or_else(parted))
    }

    /// Records of others are taken out of the log, and the home may be about to tell what it made of them.
    pub(crate) fn keep_parted(&mut self, entries: &[LogEntry]) {
        let Some(upstream) = self.uplink.session.as_mut() else { return };
        let contents = entries.iter().filter_map(|entry| Some((entry.record.id, inline_of(&entry.record)?)));
        let room = ECHO_MAX.saturating_sub(upstream.parted.len());
        upstream.parted.extend(contents.filter(|(_, bytes)| bytes.len() >= LEN_MIN).take(room));
    }
}
