//! Identifiers: every one a type of its own with private contents.

use data_encoding::BASE32_NOPAD;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Number of bits of a [`RecordId`] that hold the sequence.
const SEQUENCE_BITS: u32 = 40;

/// Why a number or a text is not an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// The origin needs more than 23 bits.
    #[error("origin {0} is out of range: it must be below 8388608")]
    OriginRange(u32),
    /// The sequence needs more than 40 bits, or is zero.
    #[error("sequence {0} is out of range: it must lie in 1..2^40")]
    SequenceRange(u64),
    /// A text that is no identifier of the kind asked for.
    #[error("this is no {0}: expected {1}")]
    Text(&'static str, &'static str),
}

/// A writer of records: one client's log (or a server's own), for life.
///
/// 23 bits, granted by the home when a replica joins a volume. Zero is the
/// volume's genesis and never granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct OriginId(u32);

impl OriginId {
    /// The origin of the root directory, which no replica wrote.
    pub const GENESIS: Self = Self(0);
    /// Largest origin.
    pub const MAX: Self = Self((1 << 23) - 1);

    /// Checks the range.
    ///
    /// # Errors
    /// [`IdError::OriginRange`] from 2^23 on.
    pub const fn new(value: u32) -> Result<Self, IdError> {
        if value >= 1 << 23 { Err(IdError::OriginRange(value)) } else { Ok(Self(value)) }
    }

    /// The plain number, for codecs and displays.
    pub const fn raw(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for OriginId {
    type Error = IdError;
    fn try_from(value: u32) -> Result<Self, IdError> {
        Self::new(value)
    }
}

impl From<OriginId> for u32 {
    fn from(value: OriginId) -> Self {
        value.0
    }
}

impl fmt::Display for OriginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A record's identity: origin and sequence in one 63-bit number.
///
/// The same number names what the record made: the inode number of the file it
/// created, the version of the content it stored, the version of the entry it
/// put. So every name in a volume is unique without asking anyone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct RecordId(u64);

impl RecordId {
    /// The record that never was written: it made the root directory.
    pub const GENESIS: Self = Self(1);
    /// Largest sequence of an origin.
    pub const SEQUENCE_MAX: u64 = (1 << SEQUENCE_BITS) - 1;

    /// Joins an origin and a sequence.
    ///
    /// # Errors
    /// [`IdError::SequenceRange`] if the sequence is zero or needs over 40 bits.
    pub const fn new(origin: OriginId, sequence: u64) -> Result<Self, IdError> {
        if sequence == 0 || sequence > Self::SEQUENCE_MAX {
            return Err(IdError::SequenceRange(sequence));
        }
        Ok(Self(((origin.0 as u64) << SEQUENCE_BITS) | sequence))
    }

    /// Who wrote it.
    pub const fn origin(self) -> OriginId {
        OriginId((self.0 >> SEQUENCE_BITS) as u32)
    }

    /// Its place in that origin's log, from 1.
    pub const fn sequence(self) -> u64 {
        self.0 & Self::SEQUENCE_MAX
    }

    /// The plain number, for codecs and displays.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for RecordId {
    type Error = IdError;
    fn try_from(value: u64) -> Result<Self, IdError> {
        let origin = (value >> SEQUENCE_BITS) as u32;
        OriginId::new(origin).and_then(|o| Self::new(o, value & Self::SEQUENCE_MAX))
    }
}

impl From<RecordId> for u64 {
    fn from(value: RecordId) -> Self {
        value.0
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.origin(), self.sequence())
    }
}

/// A file's identity in its volume: its inode number, never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(RecordId);

impl FileId {
    /// The root directory: inode number 1.
    pub const ROOT: Self = Self(RecordId::GENESIS);

    /// The file made by a record.
    pub const fn made_by(record: RecordId) -> Self {
        Self(record)
    }

    /// The record that made it.
    pub const fn maker(self) -> RecordId {
        self.0
    }

    /// The inode number that programs see.
    pub const fn inode_number(self) -> u64 {
        self.0.0
    }

    /// The file with an inode number.
    ///
    /// # Errors
    /// [`IdError`] if no record can have that number.
    pub fn from_inode_number(number: u64) -> Result<Self, IdError> {
        RecordId::try_from(number).map(Self)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A point in a replica's own order of changes. Zero is before the first.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CommitNumber(pub u64);

impl CommitNumber {
    /// Before any change.
    pub const ZERO: Self = Self(0);

    /// After every change.
    pub const MAX: Self = Self(u64::MAX);

    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The one before this.
    #[must_use]
    pub const fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for CommitNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Names the attributes of a file by the record that changed them last. What was changed upon other attributes is known by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AttrVersion(pub RecordId);

impl AttrVersion {
    /// Those of what no record made.
    pub const GENESIS: Self = Self(RecordId::GENESIS);
}

/// A user's number on the machine where a record was written (`uid`).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UserId(pub u32);

/// A volume's identity: 16 random bytes, written as 26 letters and digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct VolumeId([u8; 16]);

/// A machine's identity: its ed25519 public key, written as 52 letters and digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId([u8; 32]);

macro_rules! text_id {
    ($name:ident, $len:literal, $what:literal, $form:literal) => {
        impl $name {
            /// From its bytes.
            pub const fn from_bytes(bytes: [u8; $len]) -> Self {
                Self(bytes)
            }

            /// Its bytes.
            pub const fn as_bytes(&self) -> &[u8; $len] {
                &self.0
            }

            /// The first eight characters of the text: enough for people.
            pub fn short(&self) -> String {
                self.to_string().chars().take(8).collect()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&BASE32_NOPAD.encode(&self.0).to_ascii_lowercase())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), self.short())
            }
        }

        impl FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                let bytes = BASE32_NOPAD
                    .decode(text.to_ascii_uppercase().as_bytes())
                    .map_err(|_| IdError::Text($what, $form))?;
                bytes.try_into().map(Self).map_err(|_| IdError::Text($what, $form))
            }
        }
    };
}

text_id!(VolumeId, 16, "volume id", "26 letters and digits");
text_id!(NodeId, 32, "node id", "52 letters and digits");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_root_is_inode_one() {
        assert_eq!(FileId::ROOT.inode_number(), 1);
        assert_eq!(FileId::from_inode_number(1), Ok(FileId::ROOT));
    }

    #[test]
    fn zero_and_numbers_out_of_range_name_nothing() {
        assert!(RecordId::try_from(0).is_err());
        assert!(RecordId::try_from(u64::MAX).is_err());
        assert!(OriginId::new(1 << 23).is_err());
        assert!(FileId::from_inode_number(5 << SEQUENCE_BITS).is_err());
    }

    proptest! {
        #[test]
        fn record_ids_keep_origin_and_sequence(origin in 0u32..1 << 23, sequence in 1u64..1 << 40) {
            let id = RecordId::new(OriginId::new(origin).unwrap(), sequence).unwrap();
            prop_assert_eq!(id.origin().raw(), origin);
            prop_assert_eq!(id.sequence(), sequence);
            prop_assert_eq!(RecordId::try_from(id.raw()), Ok(id));
        }

        #[test]
        fn ids_survive_text(bytes in any::<[u8; 32]>()) {
            let id = NodeId::from_bytes(bytes);
            prop_assert_eq!(id.to_string().parse::<NodeId>(), Ok(id));
        }

        #[test]
        fn any_text_is_refused_or_parsed(text in ".{0,80}") {
            if let Ok(id) = text.parse::<VolumeId>() {
                prop_assert_eq!(id.to_string(), text.to_ascii_lowercase());
            }
        }
    }
}
