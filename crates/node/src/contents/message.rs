//! The headers of content requests and their replies; `docs/format/content-stream.md` draws them.

use super::history::Before;
use crate::servers::{Have, News};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use wayfs_transfer::{PIECES_MAX, Piece, Presence};
use wayfs_types::{Content, Digest, FileId, OriginId, RecordId};

/// First byte of every header.
const VERSION: u8 = 5;
/// Most members in one [`Ask::Labels`].
pub(crate) const LABELS_MAX: usize = 1024;
/// Most chunks that a question names as bases.
pub(crate) const NAMED_MAX: usize = 8;
/// Longest header: a full list of servers and the places of all, with room to spare.
const HEADER_LEN_MAX: usize = 512 << 10;

/// How a chunk travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Form {
    /// As it is.
    Plain,
    /// Compressed by zstd; this many bytes when unpacked.
    Zstd { len: u32 },
    /// The same, as the difference to other chunks, its bases: those that the question names, by the bits of `named`, and
    /// those of earlier answers, by the bits of `before` (`history.rs`).
    Difference { len: u32, named: u8, before: Before },
}

impl Form {
    /// Bytes when unpacked, if the form says so; else zero.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Zstd { len } | Self::Difference { len, .. } => len as usize,
        }
    }

    /// Whether the receiver needs other chunks for it.
    pub(crate) const fn is_difference(self) -> bool {
        matches!(self, Self::Difference { .. })
    }

    /// Whether its bases are among those that a question names.
    pub(crate) fn names_only(self, bases: &[Digest]) -> bool {
        match self {
            Self::Plain | Self::Zstd { .. } => true,
            Self::Difference { named, before, .. } => before == 0 && names_within(named, bases),
        }
    }
}

/// Whether every bit of a mask stands for one of these.
pub(crate) fn names_within(named: u8, bases: &[Digest]) -> bool {
    (u8::BITS - named.leading_zeros()) as usize <= bases.len()
}

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// How much of these have you? Reply: [`Reply::Presence`].
    Presence { pieces: Vec<Piece> },
    /// Take this chunk (the body), which may be the difference to some of these. Reply: [`Reply::Taken`], before the body
    /// was read if it is there already, or [`Reply::BaseGone`].
    Take { digest: Digest, form: Form, bases: Vec<Digest> },
    /// All chunks of this version's content were sent: check and make durable. Reply: [`Reply::Durable`] or [`Reply::Missing`].
    Complete { file: FileId, version: RecordId, content: Content },
    /// Both at once, for a content of one chunk (the body). Reply: [`Reply::Durable`], or [`Reply::BaseGone`].
    TakeWhole { file: FileId, version: RecordId, content: Content, form: Form, bases: Vec<Digest> },
    /// Give me this chunk of this version, within this time. It may be the difference to some of these chunks, and to those that
    /// answered questions with lower numbers, if this has a number, not 0. Reply: [`Reply::Found`] and the body, or
    /// [`Reply::Absent`] and others.
    Give { file: FileId, version: RecordId, digest: Digest, patience_ms: u32, number: u32, bases: Vec<Digest> },
    /// This I know of the servers, and of that you lack this. Reply: [`Reply::Servers`].
    Servers { have: Have, news: News },
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
    /// To [`Ask::Servers`], the same from this side.
    Servers { have: Have, news: News },
    /// To [`Ask::Labels`].
    Labels(Vec<(OriginId, String)>),
    /// The chunk is the difference to one that is not here: send it without bases.
    BaseGone,
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
            Self::Complete { content, .. } => content.is_well_formed(),
            Self::TakeWhole { content, form, bases, .. } => {
                content.is_well_formed() && bases.len() <= NAMED_MAX && form.names_only(bases)
            }
            Self::Take { form, bases, .. } => bases.len() <= NAMED_MAX && form.names_only(bases),
            Self::Give { bases, .. } => bases.len() <= NAMED_MAX,
            Self::Labels { origins } => origins.len() <= LABELS_MAX,
            Self::Servers { have, news } => have.is_well_formed() && news.is_well_formed(),
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
            Self::Servers { have, news } => have.is_well_formed() && news.is_well_formed(),
            Self::Labels(list) => {
                list.len() <= LABELS_MAX && list.iter().all(|(_, label)| crate::label::is_label(label))
            }
            Self::Taken | Self::Durable | Self::Found(_) | Self::Absent | Self::Unreachable | Self::NoSpace => true,
            Self::Invalid(_) | Self::Failed(_) | Self::BaseGone => true,
        };
        if is_sound { Ok(reply) } else { Err(BadHeader) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the page, byte by byte.
    #[test]
    fn headers_are_as_the_page_draws_them() {
        let page = include_str!("../../../../docs/format/content-stream.md");
        let replies = [
            (
                "Found(Difference { len: 8000, named: 0, before: 0b101 })",
                Reply::Found(Form::Difference { len: 8000, named: 0, before: 0b101 }),
            ),
            ("Found(Zstd { len: 8000 })", Reply::Found(Form::Zstd { len: 8000 })),
            ("BaseGone", Reply::BaseGone),
        ];
        for (words, reply) in replies {
            let header = encode(&reply);
            let drawn = page.lines().find_map(|line| line.strip_prefix(&format!("| `{words}` | `"))).unwrap();
            let drawn: String = drawn.chars().filter(char::is_ascii_hexdigit).collect();
            let bytes: String = header.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(drawn, bytes, "{words}");
            assert_eq!(Reply::decode(&header), Ok(reply));
        }
    }

    #[test]
    fn bits_for_nothing_and_too_many_bases_are_refused() {
        let digest = Digest::of(b"base");
        let take = |named, before, count| {
            let form = Form::Difference { len: 10, named, before };
            Ask::decode(&encode(&Ask::Take { digest, form, bases: vec![digest; count] }))
        };
        assert!(take(0b11, 0, 2).is_ok());
        assert_eq!(take(0b100, 0, 2), Err(BadHeader));
        assert_eq!(take(0b1, 1, 2), Err(BadHeader));
        assert!(take(0xff, 0, NAMED_MAX).is_ok());
        assert_eq!(take(0xff, 0, NAMED_MAX + 1), Err(BadHeader));
    }
}
