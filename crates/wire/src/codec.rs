//! Messages to bytes and back.

use crate::check::{self, Malformed};
use crate::down::Down;
use crate::message::Message;
use crate::parts::{KeyImage, Omitted, SentRecord};
use bytes::Bytes;
use serde::Serialize;
use wayfs_types::CommitNumber;

/// First byte of every message.
pub(crate) const FORMAT_VERSION: u8 = 7;

/// Longest message in bytes, version byte included: a frame of the network holds no more.
pub const LEN_MAX: usize = 4 * 1024 * 1024;

/// Why bytes are no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Longer than [`LEN_MAX`].
    #[error("message of {0} bytes is over the limit")]
    TooLong(usize),
    /// Written by another version of the format; the byte it begins with.
    #[error("message format {0} is not spoken here (this is format {FORMAT_VERSION})")]
    Version(u8),
    /// The bytes do not decode.
    #[error("message does not decode: {0}")]
    Encoding(String),
    /// Bytes follow the end.
    #[error("{0} bytes after the end of the message")]
    Trailing(usize),
    /// It decodes, but breaks a bound of the format.
    #[error("malformed message: {0}")]
    Malformed(#[from] Malformed),
}

/// The bytes of a message.
pub fn encode(message: &Message) -> Bytes {
    let mut bytes = Vec::with_capacity(256);
    bytes.push(FORMAT_VERSION);
    // Writing into a growing vector has no failure: every type here has a plain encoding.
    let bytes = postcard::to_extend(message, bytes).expect("messages encode into memory");
    Bytes::from(bytes)
}

/// The message in some bytes; never panics, whatever they are.
///
/// # Errors
/// [`WireError`] says what is wrong with them.
pub fn decode(bytes: &[u8]) -> Result<Message, WireError> {
    if bytes.len() > LEN_MAX {
        return Err(WireError::TooLong(bytes.len()));
    }
    let Some((&version, body)) = bytes.split_first() else {
        return Err(WireError::Encoding("empty".to_owned()));
    };
    if version != FORMAT_VERSION {
        return Err(WireError::Version(version));
    }
    let (message, rest) =
        postcard::take_from_bytes::<Message>(body).map_err(|error| WireError::Encoding(error.to_string()))?;
    if !rest.is_empty() {
        return Err(WireError::Trailing(rest.len()));
    }
    check::message(&message)?;
    Ok(message)
}

/// Bytes that a record takes in a message.
pub fn record_len(record: &SentRecord) -> usize {
    len(record)
}

/// Bytes that a key with its image takes in a message.
pub fn image_len(image: &KeyImage) -> usize {
    len(image)
}

/// What a message of images says beside them: the fields of [`Down::Images`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Counts images and answers in this session.
    pub serial: crate::parts::FrameSerial,
    /// Everything of the child's interest up to here is told, once `more` is false.
    pub through: CommitNumber,
    /// More parts of this cut follow.
    pub more: bool,
}

/// The bytes of a key with its image within a message, to be put into any number of them by [`encode_images`].
pub fn encode_image(image: &KeyImage) -> Bytes {
    Bytes::from(postcard::to_allocvec(image).expect("plain types encode into memory"))
}

/// The bytes of a message of images that are bytes already: the same as [`encode`] makes of a [`Down::Images`] with them.
pub fn encode_images(cut: Cut, images: &[Bytes], omitted: &[Omitted]) -> Bytes {
    let Cut { serial, through, more } = cut;
    let empty = Down::Images { serial, through, more, images: Vec::new(), omitted: Vec::new() };
    let len: usize = images.iter().map(Bytes::len).sum();
    let mut bytes = Vec::with_capacity(32 + len + 40 * omitted.len());
    bytes.push(FORMAT_VERSION);
    let mut bytes = postcard::to_extend(&Message::Down(empty), bytes).expect("messages encode into memory");
    // Two empty lists end the message, a byte each; in their place come the lists.
    bytes.truncate(bytes.len() - 2);
    let mut bytes = postcard::to_extend(&images.len(), bytes).expect("numbers encode into memory");
    images.iter().for_each(|image| bytes.extend_from_slice(image));
    Bytes::from(postcard::to_extend(omitted, bytes).expect("plain types encode into memory"))
}

fn len(value: &impl Serialize) -> usize {
    postcard::experimental::serialized_size(value).expect("plain types have a size")
}
