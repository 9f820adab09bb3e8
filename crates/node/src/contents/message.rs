//! The headers of content requests and their replies; `docs/format/content-stream.md` draws them.

use super::presence::{Piece, Presence};
use crate::server_info::ServerInfo;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use wayfs_types::{Content, Digest, FileId, OriginId, RecordId};

/// First byte of every header.
const VERSION: u8 = 1;
/// Most pieces in one [`Ask::Presence`] and most digests in one [`Reply::Missing`].
pub(crate) const PIECES_MAX: usize = 1024;
/// Most members in one [`Ask::Labels`].
pub(crate) const LABELS_MAX: usize = 1024;
/// Longest header: 1,024 pieces of at most 45 bytes, or an inline content, with room to spare.
const HEADER_LEN_MAX: usize = 128 << 10;

/// How a chunk travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    /// As it is.
    Plain,
    /// Compressed by zstd; this many bytes when unpacked.
    Zstd { len: u32 },
}

impl Form {
    /// Bytes when unpacked, if the form says so; else zero.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Zstd { len } => len as usize,
        }
    }
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// How much of these have you? Reply: [`Reply::Presence`].
    Presence { pieces: Vec<Piece> },
    /// Take this chunk (the body). Reply: [`Reply::Taken`], before the body was read if it is there already.
    Take { digest: Digest, form: Form },
    /// All chunks of this version's content were sent: check and make durable. Reply: [`Reply::Durable`] or [`Reply::Missing`].
    Complete { file: FileId, version: RecordId, content: Content },
    /// Both at once, for a content of one chunk (the body). Reply: [`Reply::Durable`].
    TakeWhole { file: FileId, version: RecordId, content: Content, form: Form },
    /// Give me this chunk of this version, within this time. Reply: [`Reply::Found`] and the body, or [`Reply::Absent`] and others.
    Give { file: FileId, version: RecordId, digest: Digest, patience_ms: u32 },
    /// Who serves this volume? Reply: [`Reply::Servers`].
    Servers,
    /// How are these members called? Reply: [`Reply::Labels`], of those that are known there.
    Labels { origins: Vec<OriginId> },
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// To [`Ask::Presence`], one for each piece.
    Presence(Vec<Presence>),
    /// The chunk is here, though not yet durable.
    Taken,
    /// The content is here, whole, checked and durable.
    Durable,
    /// These chunks lack still (some of them).
    Missing(Vec<Digest>),
    /// The chunk follows as the body.
    Found(Form),
    /// Neither here nor at anyone on record.
    Absent,
    /// Whoever has it cannot be reached in time.
    Unreachable,
    /// No room on this disk: try again later.
    NoSpace,
    /// The bytes do not have the name, or the question makes no sense.
    Invalid(String),
    /// This disk fails.
    Failed(String),
    /// To [`Ask::Servers`].
    Servers(Vec<ServerInfo>),
    /// To [`Ask::Labels`].
    Labels(Vec<(OriginId, String)>),
}

/// A header that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the header of a content request is not valid")]
pub(crate) struct BadHeader;

pub(crate) fn encode<T: Serialize>(message: &T) -> Bytes {
    let buffer = postcard::to_extend(&VERSION, Vec::with_capacity(128)).expect("memory takes any number of bytes");
    Bytes::from(postcard::to_extend(message, buffer).expect("memory takes any number of bytes"))
}

fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, BadHeader> {
    match bytes.split_first() {
        Some((&VERSION, rest)) if bytes.len() <= HEADER_LEN_MAX => match postcard::take_from_bytes(rest) {
            Ok((message, [])) => Ok(message),
            Ok(_) | Err(_) => Err(BadHeader),
        },
        Some(_) | None => Err(BadHeader),
    }
}

impl Ask {
    /// Reads a question of a peer.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let ask: Self = decode(bytes)?;
        let is_sound = match &ask {
            Self::Presence { pieces } => pieces.len() <= PIECES_MAX && pieces.iter().all(Piece::is_well_formed),
            Self::Complete { content, .. } | Self::TakeWhole { content, .. } => content.is_well_formed(),
            Self::Labels { origins } => origins.len() <= LABELS_MAX,
            Self::Take { .. } | Self::Give { .. } | Self::Servers => true,
        };
        if is_sound { Ok(ask) } else { Err(BadHeader) }
    }
}

impl Reply {
    /// Reads an answer of a peer.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        let reply: Self = decode(bytes)?;
        let is_sound = match &reply {
            Self::Presence(list) => list.len() <= PIECES_MAX,
            Self::Missing(list) => list.len() <= PIECES_MAX,
            Self::Servers(list) => list.len() <= crate::server_info::SERVERS_MAX,
            Self::Labels(list) => {
                list.len() <= LABELS_MAX && list.iter().all(|(_, label)| crate::host::is_label(label))
            }
            Self::Taken | Self::Durable | Self::Found(_) | Self::Absent | Self::Unreachable | Self::NoSpace => true,
            Self::Invalid(_) | Self::Failed(_) => true,
        };
        if is_sound { Ok(reply) } else { Err(BadHeader) }
    }
}
