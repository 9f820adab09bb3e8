//! Which contents a child sent in this session, and so is not told again (`upstream/omitting.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;
use wayfs_types::{Content, Digest, Image, Inode, Key, OriginId, RecordId};
use wayfs_wire::KeyImage;

/// Shorter contents cost less than what stands for them.
pub(crate) const LEN_MIN: usize = 64;
/// Records that are remembered for one child. The contents of others come back.
pub(crate) const ECHO_MAX: usize = 65_536;

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

    pub(super) fn add(&mut self, record: RecordId) {
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
