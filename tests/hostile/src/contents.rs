//! Questions about contents, as `docs/format/content-stream.md` draws them.

use bytes::Bytes;
use serde::Serialize;
use wayfs_types::{Content, Digest, FileId, RecordId};

/// First byte of every header.
const VERSION: u8 = 5;

/// How a chunk travels.
#[derive(Debug, Clone, Copy, Serialize)]
pub enum Form {
    /// As it is.
    Plain,
}

/// A question.
#[derive(Debug, Clone, Serialize)]
pub enum Ask {
    /// How much of these is there? Never asked here: it keeps the numbers of the others.
    Presence {
        /// None.
        pieces: Vec<()>,
    },
    /// Take this chunk.
    Take {
        /// Its name.
        digest: Digest,
        /// How it travels.
        form: Form,
        /// None.
        bases: Vec<Digest>,
    },
    /// Everything of this version is there.
    Complete {
        /// Its file.
        file: FileId,
        /// The version.
        version: RecordId,
        /// What it is said to be.
        content: Content,
    },
}

/// An answer, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// The chunk is there.
    Taken,
    /// All is there.
    Durable,
    /// Something is missing.
    Missing,
    /// The question makes no sense, or may not be asked.
    Invalid,
    /// Something else.
    Other(u8),
}

pub(crate) fn encode(ask: &Ask) -> Bytes {
    let bytes = postcard::to_extend(ask, vec![VERSION]).expect("memory takes any number of bytes");
    Bytes::from(bytes)
}

impl Reply {
    pub(crate) fn decode(header: &[u8]) -> Self {
        assert_eq!(header.first(), Some(&VERSION), "the version of content requests");
        match header.get(1).copied().expect("an answer") {
            1 => Self::Taken,
            2 => Self::Durable,
            3 => Self::Missing,
            8 => Self::Invalid,
            other => Self::Other(other),
        }
    }
}
