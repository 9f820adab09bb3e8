//! A station that takes the place of its home: what its driver knows and the engine does not, namely which contents lie here.

use crate::contents::{CallOff, Walk, walk};
use crate::volume::Volume;
use std::sync::Arc;
use wayfs_proto::{Input, Prospect, Role, Succession};
use wayfs_transfer::Piece;
use wayfs_types::{FileId, StorageError};

/// Files looked at in one step.
const PAGE: usize = 512;
/// Files named in a report.
const NAMED_MAX: usize = 1000;

/// Contents that do not lie here whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Elsewhere {
    /// Files.
    pub files: u64,
    /// Their bytes, whether a part of them is here or not.
    pub bytes: u64,
    /// The first thousand of them.
    pub named: Vec<FileId>,
}

impl Volume {
    /// What is known of this station as a successor of its home; `None`: the volume has stopped.
    pub fn prospect(&self) -> Option<Prospect> {
        self.look(wayfs_proto::Replica::prospect)
    }

    /// Whose place this home took.
    pub fn succession(&self) -> Option<Succession> {
        self.look(wayfs_proto::Replica::succession).flatten()
    }

    /// Files whose contents do not lie here whole: if the home is gone for good, they are there only as far as another
    /// machine has them in its cache. Reads the list nodes of every file, so it takes a while.
    ///
    /// # Errors
    /// [`StorageError`] if the tables cannot be read.
    pub fn elsewhere(&self) -> Result<Elsewhere, StorageError> {
        let mut found = Elsewhere::default();
        self.each_content(|_, file, size, is_here| {
            if !is_here {
                found.files += 1;
                found.bytes += size;
                if found.named.len() < NAMED_MAX {
                    found.named.push(file);
                }
            }
        })?;
        Ok(found)
    }

    /// A home that took the place of another says which contents lie here, in the background: until then it calls none of
    /// them stable.
    pub(crate) fn begin_as_successor(self: &Arc<Self>) {
        if self.role() != Role::Home || self.succession().is_none() {
            return;
        }
        self.directory.trust_home(self.settings().identity.id());
        if self.prospect().is_none_or(|prospect| prospect.missing == 0) {
            return;
        }
        let volume = Arc::downgrade(self);
        self.settings().runtime.spawn_blocking(move || {
            let Some(volume) = volume.upgrade() else { return };
            if let Err(error) = volume.each_content(|top, _, _, is_here| {
                if is_here {
                    volume.step(Input::ContentsHere { tops: vec![top] });
                }
            }) {
                tracing::error!(%error, "look which contents the new home has");
            }
        });
    }

    /// Visits each content of the volume: its top, a file that has it, its size, whether it lies here whole.
    fn each_content(&self, mut visit: impl FnMut(wayfs_types::Top, FileId, u64, bool)) -> Result<(), StorageError> {
        let mut after = None;
        while !self.is_stopped() {
            let Some(page) = self.look(|replica| replica.contents_in_use(after, PAGE)) else { return Ok(()) };
            let page = page?;
            for used in page.contents.iter().filter(|used| !used.owed) {
                let (Some(top), Some(piece)) = (used.content.top(), Piece::top(&used.content)) else { continue };
                let is_here = matches!(walk(&self.contents, piece, 1, &CallOff::default()), Walk::Complete);
                visit(top, used.file, used.content.size(), is_here);
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }
}
