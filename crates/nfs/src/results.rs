//! Results of the procedures, a function each. What a server says is bounded by what was asked.

use crate::calls::Cookie;
use crate::xdr::{DecodeError, Reader};
use crate::{FileAttributes, Handle, Status, WriteVerifier};

/// What a call gave: the server's no is not an error of the message.
pub type Results<T> = Result<Result<T, Status>, DecodeError>;

/// Longest name and longest target of a link.
const NAME_LEN_MAX: usize = 255;
const TARGET_LEN_MAX: usize = 4096;
/// Most names of one answer: the smallest entry has 24 bytes, the longest answer 64 KiB.
const ENTRIES_MAX: usize = 4096;

/// A file that was found or made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The file; a server may leave it out of what was made.
    pub handle: Option<Handle>,
    /// Its attributes, if the server says them.
    pub attributes: Option<FileAttributes>,
}

/// Bytes that were read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadBytes<'a> {
    /// The file's attributes, if the server says them.
    pub attributes: Option<FileAttributes>,
    /// Whether the file ends behind them.
    pub is_end: bool,
    /// The bytes: at most as many as were asked for.
    pub bytes: &'a [u8],
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The file's attributes, if the server says them.
    pub attributes: Option<FileAttributes>,
    /// Bytes taken: at least one, at most as many as were given.
    pub count: u32,
    /// Whether they are durable.
    pub is_durable: bool,
    /// Changes when the server forgets what is not durable.
    pub verifier: WriteVerifier,
}

/// A name in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The file's number.
    pub file_id: u64,
    /// The name: no slash, no zero, not empty.
    pub name: Vec<u8>,
    /// Where the listing goes on behind it.
    pub place: u64,
    /// Attributes, if the server says them.
    pub attributes: Option<FileAttributes>,
    /// The file, if the server says it.
    pub handle: Option<Handle>,
}

/// A part of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// To be shown with the place where it goes on.
    pub verifier: [u8; 8],
    /// Names.
    pub entries: Vec<Entry>,
    /// Whether there are no more.
    pub is_end: bool,
}

/// Room at the server, in bytes and files.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes in all.
    pub bytes: u64,
    /// Free.
    pub bytes_free: u64,
    /// Free for the caller.
    pub bytes_available: u64,
    /// Files in all.
    pub files: u64,
    /// Free.
    pub files_free: u64,
}

/// What a server can do, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most that one read gives.
    pub read_max: u32,
    /// Most that one write takes.
    pub write_max: u32,
}

fn begin(results: &[u8]) -> Result<(Reader<'_>, Option<Status>), DecodeError> {
    let mut reader = Reader::new(results);
    let status = Status::new(reader.u32("a status")?);
    Ok((reader, status))
}

/// Splits a failure off, whose attributes nobody needs.
macro_rules! success {
    ($results:expr) => {
        match begin($results)? {
            (_, Some(status)) => return Ok(Err(status)),
            (reader, None) => reader,
        }
    };
}

/// Whether it was done, of procedures whose other results nobody needs (set attributes, remove, rename, link).
///
/// # Errors
/// [`DecodeError`], as all of these.
pub fn done(results: &[u8]) -> Results<()> {
    success!(results);
    Ok(Ok(()))
}

/// Of get attributes.
///
/// # Errors
/// [`DecodeError`].
pub fn attributes(results: &[u8]) -> Results<FileAttributes> {
    let mut reader = success!(results);
    FileAttributes::read(&mut reader).map(Ok)
}

/// Of set attributes: as they are afterwards, if the server says so.
///
/// # Errors
/// [`DecodeError`].
pub fn set_attributes(results: &[u8]) -> Results<Option<FileAttributes>> {
    let mut reader = success!(results);
    FileAttributes::read_change(&mut reader).map(Ok)
}

/// Of lookup.
///
/// # Errors
/// [`DecodeError`].
pub fn lookup(results: &[u8]) -> Results<Found> {
    let mut reader = success!(results);
    let handle = Some(Handle::read(&mut reader)?);
    Ok(Ok(Found { handle, attributes: FileAttributes::read_optional(&mut reader)? }))
}

/// Of access: the rights there are.
///
/// # Errors
/// [`DecodeError`].
pub fn access(results: &[u8]) -> Results<u32> {
    let mut reader = success!(results);
    FileAttributes::read_optional(&mut reader)?;
    reader.u32("rights").map(Ok)
}

/// Of read link.
///
/// # Errors
/// [`DecodeError`].
pub fn read_link(results: &[u8]) -> Results<Vec<u8>> {
    let mut reader = success!(results);
    FileAttributes::read_optional(&mut reader)?;
    Ok(Ok(reader.opaque("the target of a link", TARGET_LEN_MAX)?.to_vec()))
}

/// Of a read of `asked` bytes.
///
/// # Errors
/// [`DecodeError`]; also if there are more bytes than asked for, or the count is not theirs.
pub fn read(results: &[u8], asked: u32) -> Results<ReadBytes<'_>> {
    let mut reader = success!(results);
    let attributes = FileAttributes::read_optional(&mut reader)?;
    let count = reader.u32("a count")?;
    let is_end = reader.bool("whether the file ends")?;
    let bytes = reader.opaque("bytes of a file", asked as usize)?;
    if bytes.len() != count as usize {
        return Err(DecodeError::Impossible("a count that is not that of its bytes"));
    }
    Ok(Ok(ReadBytes { attributes, is_end, bytes }))
}

/// Of a write of `given` bytes.
///
/// # Errors
/// [`DecodeError`]; also if the server took more than it was given, or nothing.
pub fn write(results: &[u8], given: u32) -> Results<Written> {
    let mut reader = success!(results);
    let attributes = FileAttributes::read_change(&mut reader)?;
    let count = reader.u32("a count")?;
    if count > given || (count == 0 && given > 0) {
        return Err(DecodeError::Impossible("a write of more than was given, or of nothing"));
    }
    let is_durable = reader.u32("how durable it is")? > 0;
    Ok(Ok(Written { attributes, count, is_durable, verifier: WriteVerifier(reader.fixed("a verifier")?) }))
}

/// Of create, make directory, make node and symlink.
///
/// # Errors
/// [`DecodeError`].
pub fn made(results: &[u8]) -> Results<Found> {
    let mut reader = success!(results);
    let handle = if reader.bool("whether a handle follows")? { Some(Handle::read(&mut reader)?) } else { None };
    Ok(Ok(Found { handle, attributes: FileAttributes::read_optional(&mut reader)? }))
}

/// Of read directory.
///
/// # Errors
/// [`DecodeError`].
pub fn read_directory(results: &[u8]) -> Results<Listing> {
    listing(results, |_| Ok((None, None)))
}

/// Of read directory plus.
///
/// # Errors
/// [`DecodeError`].
pub fn read_directory_plus(results: &[u8]) -> Results<Listing> {
    listing(results, |reader| {
        let attributes = FileAttributes::read_optional(reader)?;
        let handle = if reader.bool("whether a handle follows")? { Some(Handle::read(reader)?) } else { None };
        Ok((attributes, handle))
    })
}

type Beside = (Option<FileAttributes>, Option<Handle>);

fn listing(results: &[u8], beside: impl Fn(&mut Reader<'_>) -> Result<Beside, DecodeError>) -> Results<Listing> {
    let mut reader = success!(results);
    FileAttributes::read_optional(&mut reader)?;
    let verifier = reader.fixed("a verifier")?;
    let mut entries = Vec::new();
    while reader.bool("whether a name follows")? {
        let file_id = reader.u64("the number of a file")?;
        let name = reader.opaque("a name", NAME_LEN_MAX)?.to_vec();
        let place = reader.u64("a cookie")?;
        let (attributes, handle) = beside(&mut reader)?;
        if entries.len() >= ENTRIES_MAX {
            return Err(DecodeError::Impossible("more names than fit into an answer"));
        }
        // A name that is none would lead a program elsewhere: it is not shown.
        if !name.is_empty() && !name.contains(&b'/') && !name.contains(&0) {
            entries.push(Entry { file_id, name, place, attributes, handle });
        }
    }
    Ok(Ok(Listing { verifier, entries, is_end: reader.bool("whether the listing ends")? }))
}

impl Listing {
    /// Where it goes on; `None` at its end, and from an answer without names, which would go on for ever.
    pub fn next(&self) -> Option<Cookie> {
        let last = self.entries.last()?;
        (!self.is_end).then_some(Cookie { place: last.place, verifier: self.verifier })
    }
}

/// Of file system statistics.
///
/// # Errors
/// [`DecodeError`].
pub fn file_system_statistics(results: &[u8]) -> Results<Room> {
    let mut reader = success!(results);
    FileAttributes::read_optional(&mut reader)?;
    let mut next = || reader.u64("statistics");
    Ok(Ok(Room { bytes: next()?, bytes_free: next()?, bytes_available: next()?, files: next()?, files_free: next()? }))
}

/// Of file system info. Limits below 512 bytes are taken for 512.
///
/// # Errors
/// [`DecodeError`].
pub fn file_system_info(results: &[u8]) -> Results<Limits> {
    let mut reader = success!(results);
    FileAttributes::read_optional(&mut reader)?;
    let mut next = || reader.u32("limits");
    let (read_max, _, _, write_max) = (next()?, next()?, next()?, next()?);
    Ok(Ok(Limits { read_max: read_max.max(512), write_max: write_max.max(512) }))
}

/// Of commit.
///
/// # Errors
/// [`DecodeError`].
pub fn commit(results: &[u8]) -> Results<WriteVerifier> {
    let mut reader = success!(results);
    FileAttributes::read_change(&mut reader)?;
    Ok(Ok(WriteVerifier(reader.fixed("a verifier")?)))
}
