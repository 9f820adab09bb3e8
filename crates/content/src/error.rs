//! Why contents could not be read or written.

use wayfs_types::Digest;

/// Contents that are not what they claim, or not all here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// A list node is needed that the node source does not have: fetch it and try again.
    #[error("list node {0} is not here")]
    MissingNode(Digest),
    /// Bytes of a list node that break the format.
    #[error("list node {digest} is not valid: {fault}")]
    BadNode {
        /// The node's name.
        digest: Digest,
        /// What is wrong with it.
        fault: NodeFault,
    },
    /// A `Content` that breaks the bounds of the format by itself.
    #[error("content of {size} bytes and depth {depth} is outside the format")]
    BadContent {
        /// Its claimed size in bytes.
        size: u64,
        /// Its claimed depth.
        depth: u8,
    },
    /// Bytes that do not have the name they came under.
    #[error("bytes for {wanted} hash to {found}")]
    Mismatch {
        /// The name asked for.
        wanted: Digest,
        /// The name that the bytes have.
        found: Digest,
    },
    /// The file is too large for [`crate::DEPTH_MAX`] levels.
    #[error("file of {0} bytes or more is too large for the format")]
    TooLarge(u64),
    /// Whoever reads the new bytes returned another number than asked.
    #[error("asked for {asked} bytes at {offset} and got {found}: did the file change meanwhile?")]
    ShortRead {
        /// Where in the file.
        offset: u64,
        /// Bytes asked for.
        asked: usize,
        /// Bytes returned.
        found: usize,
    },
}

/// What is wrong with a list node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NodeFault {
    /// The version byte is of a format this program does not know.
    #[error("its format version {0} is unknown")]
    Version(u8),
    /// It does not decode, or bytes follow its end.
    #[error("it does not decode")]
    Encoding,
    /// It is of another level than its place in the tree asks for.
    #[error("it is of level {found}, not {wanted}")]
    Level {
        /// The level its parent implies.
        wanted: u8,
        /// The level it claims.
        found: u8,
    },
    /// No entries, or more than [`crate::FANOUT_MAX`].
    #[error("it has {0} entries")]
    Entries(usize),
    /// An entry of no bytes, or a chunk above [`crate::CHUNK_MAX`].
    #[error("an entry claims {0} bytes")]
    EntryLen(u64),
    /// The entries do not add up to what the parent says.
    #[error("its entries hold {found} bytes, not {wanted}")]
    Sum {
        /// What the parent says.
        wanted: u64,
        /// The sum of the entries.
        found: u64,
    },
}

/// Why a `Content` could not be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError<E> {
    /// The contents themselves.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// Whoever reads the new bytes or takes the chunks failed.
    #[error("move contents: {0}")]
    Io(E),
}
