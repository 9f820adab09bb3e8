//! Sealed datagrams (`docs/format/link.md`): encrypted, authenticated, and each taken once.
//!
//! ```text
//! version u8 = 1 | receiver's session u32 | counter u64 | sealed: kind u8, body | tag 16
//! ```
//! The counter is the nonce and is never used twice with a key. A window of the last [`WINDOW`] counters tells replays from datagrams that
//! overtook each other.

use crate::keys::Keys;
use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};

/// Version of the datagrams.
const VERSION: u8 = 1;
/// Bytes before what is sealed.
pub(crate) const HEADER_LEN: usize = 13;
/// Bytes that sealing adds at the end.
const TAG_LEN: usize = 16;
/// Bytes of a datagram beyond its body: header, kind, tag.
pub(crate) const OVERHEAD: usize = HEADER_LEN + 1 + TAG_LEN;
/// Counters that may come late.
const WINDOW: u64 = 2048;
const WORDS: usize = (WINDOW / 64) as usize;

/// What a datagram carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A frame of the hop.
    Frame,
    /// A packet as it is.
    Packet,
    /// A packet or a sum of a block.
    Piece,
    /// This end is here; the other is to say so, too.
    Ping,
    /// This end is here.
    Here,
    /// This end leaves.
    Bye,
}

impl Kind {
    const fn to_wire(self) -> u8 {
        match self {
            Self::Frame => 0,
            Self::Packet => 1,
            Self::Piece => 2,
            Self::Ping => 3,
            Self::Here => 4,
            Self::Bye => 5,
        }
    }

    const fn from_wire(kind: u8) -> Option<Self> {
        Some(match kind {
            0 => Self::Frame,
            1 => Self::Packet,
            2 => Self::Piece,
            3 => Self::Ping,
            4 => Self::Here,
            5 => Self::Bye,
            _ => return None,
        })
    }
}

/// Why a datagram is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealError {
    /// Not one of ours: too short, or of another version.
    Foreign,
    /// It was changed, or sealed with another key.
    Forged,
    /// It was taken before, or is older than the window.
    Replayed,
    /// Its kind is not known to this version.
    Unknown,
}

/// The session that a datagram names.
pub(crate) fn session_of(datagram: &[u8]) -> Result<u32, SealError> {
    match datagram {
        [VERSION, a, b, c, d, ..] if datagram.len() >= OVERHEAD => Ok(u32::from_le_bytes([*a, *b, *c, *d])),
        _ => Err(SealError::Foreign),
    }
}

/// One session's keys and counters.
#[derive(Debug)]
pub(crate) struct Seal {
    keys: Keys,
    /// What the other end calls this session.
    theirs: u32,
    counter: u64,
    /// One more than the largest counter taken, and which of those below were.
    seen: u64,
    window: [u64; WORDS],
}

impl Seal {
    /// Nothing sent or taken yet.
    pub(crate) const fn new(keys: Keys, theirs: u32) -> Self {
        Self { keys, theirs, counter: 0, seen: 0, window: [0; WORDS] }
    }

    /// Seals what `write` puts behind the header, into `datagram`, which is emptied first.
    pub(crate) fn seal(&mut self, kind: Kind, datagram: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        datagram.clear();
        datagram.push(VERSION);
        datagram.extend_from_slice(&self.theirs.to_le_bytes());
        datagram.extend_from_slice(&self.counter.to_le_bytes());
        datagram.push(kind.to_wire());
        write(datagram);
        let (header, body) = datagram.split_at_mut(HEADER_LEN);
        let tag = self
            .keys
            .seal
            .seal_in_place_separate_tag(nonce(self.counter), Aad::from(&*header), body)
            .expect("a datagram is far shorter than what the cipher can seal");
        datagram.extend_from_slice(tag.as_ref());
        self.counter += 1;
    }

    /// Opens a datagram in place; gives its kind, and where its body lies.
    pub(crate) fn open(&mut self, datagram: &mut [u8]) -> Result<(Kind, std::ops::Range<usize>), SealError> {
        session_of(datagram)?;
        let (header, body) = datagram.split_at_mut(HEADER_LEN);
        let counter = header[5..].iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        if self.was_taken(counter) {
            return Err(SealError::Replayed);
        }
        let len = open(&self.keys.open, counter, header, body).ok_or(SealError::Forged)?;
        // Only what is authentic moves the window.
        self.take(counter);
        let kind = datagram.get(HEADER_LEN).copied().and_then(Kind::from_wire).ok_or(SealError::Unknown)?;
        Ok((kind, HEADER_LEN + 1..HEADER_LEN + len))
    }

    /// Whether this is the latest datagram that was taken, so that its sender's address is the latest, too.
    pub(crate) fn is_latest(&self, datagram: &[u8]) -> bool {
        let counter = datagram.get(5..13).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        counter.is_some_and(|counter| counter + 1 == self.seen)
    }

    fn was_taken(&self, counter: u64) -> bool {
        if counter >= self.seen {
            return counter == u64::MAX;
        }
        self.seen - counter > WINDOW || self.window[word(counter)] >> (counter % 64) & 1 == 1
    }

    fn take(&mut self, counter: u64) {
        if counter >= self.seen {
            // Words that the window leaves behind are those of new counters.
            let (first, last) = (self.seen.div_ceil(64), counter / 64);
            for number in first..=last.min(first.saturating_add(WORDS as u64)) {
                self.window[number as usize % WORDS] = 0;
            }
            self.seen = counter + 1;
        }
        self.window[word(counter)] |= 1 << (counter % 64);
    }
}

const fn word(counter: u64) -> usize {
    (counter / 64) as usize % WORDS
}

fn open(key: &LessSafeKey, counter: u64, header: &[u8], body: &mut [u8]) -> Option<usize> {
    key.open_in_place(nonce(counter), Aad::from(header), body).ok().map(|plain| plain.len())
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[4..].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests;
