//! The tables of a replica in its flat store: keys and values as bytes.
//!
//! `docs/format/replica.md` draws them. Numbers in keys are big-endian, so that
//! byte order is number order.

use serde::Serialize;
use serde::de::DeserializeOwned;
use wayfs_tree::NameCursor;
use wayfs_types::{CommitNumber, Digest, FileId, Image, Key, MetaStore, Name, OriginId, Place, RecordId, StorageError};

/// Tables, by the first byte of their keys.
pub(crate) mod table {
    pub(crate) const VIEW: u8 = b'v';
    pub(crate) const SHADOW: u8 = b'a';
    pub(crate) const LOG: u8 = b'l';
    pub(crate) const CHANGE: u8 = b'n';
    pub(crate) const GONE: u8 = b'g';
    pub(crate) const TOMBSTONE: u8 = b'd';
    pub(crate) const META: u8 = b'm';
    pub(crate) const MARK: u8 = b'k';
    pub(crate) const MILESTONE: u8 = b't';
    pub(crate) const MISSING: u8 = b's';
    pub(crate) const ROOT: u8 = b'r';
    pub(crate) const OWED: u8 = b'o';
    pub(crate) const LENT: u8 = b'e';
    pub(crate) const WATCH: u8 = b'w';
    pub(crate) const CHILD: u8 = b'c';
    pub(crate) const NAME: u8 = b'j';
    pub(crate) const EXCLUSIVE: u8 = b'q';
    /// Sums of what members take up (`members/usage.rs`).
    pub(crate) const USAGE: u8 = b'h';
    /// Table of the position that last touched a key that has a shadow row.
    pub(crate) const TOUCH: u8 = b'x';
    /// Table of records whose contents a client below us is to push.
    pub(crate) const AWAITED: u8 = b'f';
    /// Table of versions that were declared lost: at the home, and by its word at stations and at their writers.
    pub(crate) const LOST: u8 = b'b';
    /// Table of what missing contents took the place of, by the later version.
    pub(crate) const OLDER: u8 = b'u';
    /// Table of the last whole contents, by the missing version that took their place.
    pub(crate) const PREVIOUS: u8 = b'p';
    /// Table of versions whose bytes are known to be gone: at a client its own, at a server those of which the writer said
    /// so, at the home also the versions under which a file shows that its bytes are lost.
    pub(crate) const VANISHED: u8 = b'z';
    /// Table of what records were written again as.
    pub(crate) const RENAMED: u8 = b'y';
    /// Rows of children that may have locks.
    pub(crate) const HOLDER: u8 = b'i';
    /// Rows of what was given although its holder could not be told.
    pub(crate) const GIVEN: u8 = b'1';

    /// All of them.
    const ALL: [u8; 27] = [
        VIEW, SHADOW, LOG, CHANGE, GONE, TOMBSTONE, META, MARK, MILESTONE, MISSING, ROOT, OWED, LENT, WATCH, CHILD,
        NAME, EXCLUSIVE, USAGE, AWAITED, GIVEN, HOLDER, LOST, OLDER, PREVIOUS, RENAMED, TOUCH, VANISHED,
    ];
    // Two tables of one letter would read each other's rows.
    const _: () = {
        let mut at = 0;
        while at < ALL.len() {
            let mut other = at + 1;
            while other < ALL.len() {
                assert!(ALL[at] != ALL[other], "two tables have one letter");
                other += 1;
            }
            at += 1;
        }
    };
}

/// Row of the change at which a client last came to another parent; absent: it never did.
pub(crate) const MOVED_AT: &[u8] = &[table::META, b'm'];

/// Row of the change before which what a client saw need not be known to a parent; absent: there is none.
pub(crate) const FORGOT_AT: &[u8] = &[table::META, b'f'];
/// Rows of a client's former origins whose records were lost: this prefix, and the origin.
pub(crate) const LOST_AFTER: &[u8] = &[table::META, b'q'];

/// Rows read at once when a table is gone through.
pub(crate) const PAGE: usize = 1024;

const INODE: u8 = b'i';
const ENTRY: u8 = b'e';
const CONFLICT: u8 = b'c';
const ORIGIN: u8 = b'o';

/// Where one kind of key lies in a table of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Inode,
    Conflict,
    Origin,
}

impl KeyKind {
    const fn byte(self) -> u8 {
        match self {
            Self::Inode => INODE,
            Self::Conflict => CONFLICT,
            Self::Origin => ORIGIN,
        }
    }
}

/// `table` followed by a key of the volume.
pub(crate) fn image_key(table: u8, key: &Key) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(32);
    bytes.push(table);
    match key {
        Key::Inode(file) => {
            bytes.push(INODE);
            bytes.extend(file.inode_number().to_be_bytes());
        }
        Key::Entry(parent, name) => {
            bytes.push(ENTRY);
            bytes.extend(parent.inode_number().to_be_bytes());
            bytes.extend(name.as_bytes());
        }
        Key::Conflict(record) => {
            bytes.push(CONFLICT);
            bytes.extend(record.raw().to_be_bytes());
        }
        Key::Origin(origin) => {
            bytes.push(ORIGIN);
            bytes.extend(origin.raw().to_be_bytes());
        }
    }
    bytes
}

/// The key of the volume after the table byte.
pub(crate) fn parse_image_key(bytes: &[u8]) -> Result<Key, StorageError> {
    let damaged = || StorageError::Corrupt(format!("key {bytes:?}"));
    let (&kind, rest) = bytes.get(1..).and_then(<[u8]>::split_first).ok_or_else(damaged)?;
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).map_err(|_| damaged());
    match kind {
        INODE => FileId::from_inode_number(number(rest)?).map(Key::Inode).map_err(|_| damaged()),
        ENTRY => {
            let (parent, name) = rest.split_at_checked(8).ok_or_else(damaged)?;
            let parent = FileId::from_inode_number(number(parent)?).map_err(|_| damaged())?;
            Ok(Key::Entry(parent, Name::new(name).map_err(|_| damaged())?))
        }
        CONFLICT => RecordId::try_from(number(rest)?).map(Key::Conflict).map_err(|_| damaged()),
        ORIGIN => {
            let raw = rest.try_into().map(u32::from_be_bytes).map_err(|_| damaged())?;
            OriginId::new(raw).map(Key::Origin).map_err(|_| damaged())
        }
        _ => Err(damaged()),
    }
}

/// First possible key of the entries of a directory, after `after`.
pub(crate) fn entries_from(table: u8, directory: FileId, after: Option<&Name>) -> Vec<u8> {
    let mut bytes = vec![table, ENTRY];
    bytes.extend(directory.inode_number().to_be_bytes());
    if let Some(name) = after {
        bytes.extend(name.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// First key after the entries of a directory.
pub(crate) fn entries_until(table: u8, directory: FileId) -> Vec<u8> {
    let mut bytes = vec![table, ENTRY];
    bytes.extend((directory.inode_number() + 1).to_be_bytes());
    bytes
}

/// A name of a file, in the index of names: file, directory, name.
pub(crate) fn name_key(file: FileId, place: &Place) -> Vec<u8> {
    let mut bytes = number_key(table::NAME, file.inode_number());
    bytes.extend(place.parent.inode_number().to_be_bytes());
    bytes.extend(place.name.as_bytes());
    bytes
}

/// First possible [`name_key`] of a file from a cursor on.
pub(crate) fn names_from(file: FileId, cursor: &NameCursor) -> Vec<u8> {
    let mut bytes = number_key(table::NAME, file.inode_number());
    bytes.extend(cursor.parent.to_be_bytes());
    if let Some(name) = &cursor.after {
        bytes.extend(name.as_bytes());
        bytes.push(0);
    }
    bytes
}

/// First key after all [`name_key`]s of a file.
pub(crate) fn names_until(file: FileId) -> Vec<u8> {
    number_key(table::NAME, file.inode_number() + 1)
}

/// The name in a [`name_key`].
pub(crate) fn parse_name_key(bytes: &[u8]) -> Result<Place, StorageError> {
    let damaged = || StorageError::Corrupt(format!("key {bytes:?}"));
    let (parent, name) = bytes.get(9..).and_then(|rest| rest.split_at_checked(8)).ok_or_else(damaged)?;
    let parent = parent.try_into().map(u64::from_be_bytes).map_err(|_| damaged())?;
    let parent = FileId::from_inode_number(parent).map_err(|_| damaged())?;
    Ok(Place { parent, name: Name::new(name).map_err(|_| damaged())? })
}

/// Range of all keys of one kind in a table of images.
pub(crate) fn kind_range(table: u8, kind: KeyKind) -> (Vec<u8>, Vec<u8>) {
    (vec![table, kind.byte()], vec![table, kind.byte() + 1])
}

/// `table` followed by a number.
pub(crate) fn number_key(table: u8, number: u64) -> Vec<u8> {
    let mut bytes = vec![table];
    bytes.extend(number.to_be_bytes());
    bytes
}

/// The number after the table byte.
/// The row of a change in a table that is in their order.
pub(crate) fn change_key(table: u8, change: CommitNumber) -> Vec<u8> {
    number_key(table, change.0)
}

pub(crate) fn parse_number_key(bytes: &[u8]) -> Result<u64, StorageError> {
    bytes
        .get(1..9)
        .and_then(|b| b.try_into().ok())
        .map(u64::from_be_bytes)
        .ok_or_else(|| StorageError::Corrupt(format!("key {bytes:?}")))
}

/// A row of the index of changes: its number, and the key that it is of.
pub(crate) fn parse_change((number, key): &(Vec<u8>, Vec<u8>)) -> Result<(CommitNumber, Key), StorageError> {
    let view_key: Vec<u8> = std::iter::once(table::VIEW).chain(key.iter().copied()).collect();
    Ok((CommitNumber(parse_number_key(number)?), parse_image_key(&view_key)?))
}

/// `table` followed by a record's id; records of one origin lie together, in order.
pub(crate) fn record_key(table: u8, record: RecordId) -> Vec<u8> {
    number_key(table, record.raw())
}

/// The record after the table byte.
pub(crate) fn parse_record_key(bytes: &[u8]) -> Result<RecordId, StorageError> {
    RecordId::try_from(parse_number_key(bytes)?).map_err(|_| StorageError::Corrupt(format!("key {bytes:?}")))
}

/// Range of all records of an origin in a table, from a sequence on.
pub(crate) fn origin_range(table: u8, origin: OriginId, from: u64) -> (Vec<u8>, Vec<u8>) {
    let base = u64::from(origin.raw()) << 40;
    (number_key(table, base | from.min(RecordId::SEQUENCE_MAX)), number_key(table, base + (1 << 40)))
}

/// `table` followed by an origin.
pub(crate) fn origin_key(table: u8, origin: OriginId) -> Vec<u8> {
    let mut bytes = vec![table];
    bytes.extend(origin.raw().to_be_bytes());
    bytes
}

/// The origin after the table byte.
pub(crate) fn parse_origin_key(bytes: &[u8]) -> Result<OriginId, StorageError> {
    bytes
        .get(1..5)
        .and_then(|b| b.try_into().ok())
        .map(u32::from_be_bytes)
        .and_then(|raw| OriginId::new(raw).ok())
        .ok_or_else(|| StorageError::Corrupt(format!("key {bytes:?}")))
}

/// Milestones: origin, level byte, sequence.
pub(crate) fn milestone_key(origin: OriginId, level: u8, through: u64) -> Vec<u8> {
    let mut bytes = origin_key(table::MILESTONE, origin);
    bytes.push(level);
    bytes.extend(through.to_be_bytes());
    bytes
}

/// The index from a content's root to the records that wait for it.
pub(crate) fn root_key(root: &Digest, record: RecordId) -> Vec<u8> {
    let mut bytes = root_prefix(root);
    bytes.extend(record.raw().to_be_bytes());
    bytes
}

/// Prefix of [`root_key`].
pub(crate) fn root_prefix(root: &Digest) -> Vec<u8> {
    let mut bytes = vec![table::ROOT];
    bytes.extend(root.as_bytes());
    bytes
}

/// The record at the end of a [`root_key`].
pub(crate) fn parse_root_key(bytes: &[u8]) -> Result<RecordId, StorageError> {
    bytes
        .get(33..41)
        .and_then(|b| b.try_into().ok())
        .map(u64::from_be_bytes)
        .and_then(|raw| RecordId::try_from(raw).ok())
        .ok_or_else(|| StorageError::Corrupt("index of roots".to_owned()))
}

/// First key after all that begin with a prefix.
pub(crate) fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut bytes = prefix.to_vec();
    while let Some(last) = bytes.pop() {
        if last < u8::MAX {
            bytes.push(last + 1);
            break;
        }
    }
    bytes
}

/// A value as bytes.
pub(crate) fn pack(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).expect("plain types encode into memory")
}

/// A value from its bytes.
pub(crate) fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StorageError> {
    postcard::from_bytes(bytes).map_err(|error| StorageError::Corrupt(error.to_string()))
}

/// An image of the view with the number of the change that put it there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Numbered {
    pub(crate) number: CommitNumber,
    pub(crate) image: Image,
}

/// A view value as bytes.
pub(crate) fn pack_view(number: CommitNumber, image: &Image) -> Vec<u8> {
    let bytes = number.0.to_be_bytes().to_vec();
    postcard::to_extend(image, bytes).expect("images encode into memory")
}

/// A view value from its bytes.
pub(crate) fn unpack_view(bytes: &[u8]) -> Result<Numbered, StorageError> {
    let (number, image) =
        bytes.split_at_checked(8).ok_or_else(|| StorageError::Corrupt("view value is short".to_owned()))?;
    let number = CommitNumber(u64::from_be_bytes(number.try_into().expect("split at eight")));
    Ok(Numbered { number, image: unpack(image)? })
}

/// Reads one image of the committed view.
pub(crate) fn read_view(store: &impl MetaStore, key: &Key) -> Result<Option<Numbered>, StorageError> {
    store.get(&image_key(table::VIEW, key))?.map(|bytes| unpack_view(&bytes)).transpose()
}
