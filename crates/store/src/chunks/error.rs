//! Why the chunk store could not do what was asked.

use crate::error::is_no_space;
use crate::space::NoRoom;
use wayfs_types::Digest;

/// Why the chunk store could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum ChunkError {
    /// No room, the kept reserve counted; nothing that was acknowledged is lost.
    #[error("no space left for contents: {needed} bytes needed, {available} available")]
    NoSpace {
        /// Bytes asked for.
        needed: u64,
        /// Bytes that may still be used; zero when the disk refused although they seemed free.
        available: u64,
    },
    /// The stored bytes are not the chunk: it was put aside and is not served.
    #[error("stored chunk {0} is damaged and was put aside: fetch it from another holder")]
    Corrupt(Digest),
    /// The bytes given are not what their name says.
    #[error(transparent)]
    Misnamed(#[from] wayfs_content::ContentError),
    /// A chunk above [`crate::CHUNK_LEN_MAX`].
    #[error("a chunk of {0} bytes is too large")]
    TooLarge(usize),
    /// An earlier write or sync failed; nothing more is accepted until restart.
    #[error("the chunk store stopped after a failed write ({0}): restart the daemon after mending the cause")]
    Poisoned(String),
    /// The system said no.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What it said.
        source: std::io::Error,
    },
}

impl ChunkError {
    pub(crate) fn io(what: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| {
            if is_no_space(&source) { Self::NoSpace { needed: 0, available: 0 } } else { Self::Io { what, source } }
        }
    }
}

impl From<NoRoom> for ChunkError {
    fn from(NoRoom { needed, available }: NoRoom) -> Self {
        Self::NoSpace { needed, available }
    }
}
