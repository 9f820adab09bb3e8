//! Contents that this replica vouches for and does not have.
//!
//! A client's record and its chunks become durable together, by one group commit. A power cut before that leaves what
//! the system happened to write, which may be the record without a chunk. Nobody was told that it was durable, but
//! nobody can have the bytes either: the parent waits for them, and nothing later of this replica counts as safe until the
//! file is written again or removed. That must not happen without a word.

use crate::contents::{CallOff, Walk, walk};
use crate::volume::Volume;
use tracing::error;
use wayfs_transfer::Piece;
use wayfs_types::{FileId, StorageError};

/// Files named in the log at a start; a disk that lost more than these lost them all.
const NAMED_MAX: usize = 20;

impl Volume {
    /// Files whose current or unsent content should be here, since others will ask this replica for it, and is not whole.
    /// Reads the list nodes of what the parent has not yet, not its chunks.
    ///
    /// # Errors
    /// [`StorageError`] if the tables cannot be read.
    pub fn torn(&self) -> Result<Vec<FileId>, StorageError> {
        // The first page names all that is owed, beside some of the rest.
        let Some(page) = self.look(|replica| replica.contents_in_use(None, 0)) else { return Ok(Vec::new()) };
        let mut torn: Vec<FileId> = page?
            .contents
            .iter()
            .filter(|content| content.owed)
            .filter(|content| Piece::top(&content.content).is_some_and(|top| !self.is_whole(top)))
            .map(|content| content.file)
            .collect();
        torn.sort_unstable();
        torn.dedup();
        Ok(torn)
    }

    fn is_whole(&self, top: Piece) -> bool {
        matches!(walk(&self.contents, top, 1, &CallOff::default()), Walk::Complete)
    }

    /// Looks once, at the start.
    pub(crate) fn report_torn(&self) {
        match self.torn() {
            Ok(torn) => torn.iter().take(NAMED_MAX).for_each(|file| {
                error!(%file, "bytes of a file that was written just before a crash are lost: see `wayfs doctor`");
            }),
            Err(error) => error!(%error, "look for lost contents"),
        }
    }
}
