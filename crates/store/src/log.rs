//! The log of the metadata store: what was committed since the last checkpoint of the [`crate::index`].
//!
//! ```text
//!   append ──▶ N.log ──turn──▶ N+1.log        N.log goes when the index holds all of it, synced
//!               └── sync: one for many batches
//! ```
//!
//! * [`format`]: the bytes;
//! * [`writer`]: appends, room ahead, the turn to the next file;
//! * [`inspection`]: reads the files at an open, and names what is torn or damaged;
//! * [`repair`]: cuts a tail, and sets aside what follows damage.
//!
//! A file is begun only when the one before it is synced. So a tail that a power cut tore is in the newest file, and
//! whatever is wrong in an older one is damage.

pub(crate) mod format;
pub(crate) mod inspection;
mod reader;
pub(crate) mod repair;
pub(crate) mod writer;

use std::path::{Path, PathBuf};

/// Number of a file of the log: 1 and on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileNumber(pub(crate) u64);

impl FileNumber {
    /// The number of the first file.
    pub(crate) const FIRST: Self = Self(1);

    /// The number of the file after this one.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Where the file is.
    pub(crate) fn path(self, directory: &Path) -> PathBuf {
        directory.join(format!("{:08}.log", self.0))
    }

    /// The number that a name stands for; `None` for another file's name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(".log").filter(|digits| digits.len() >= 8)?;
        digits.parse().ok().map(Self)
    }
}
