//! Files as the protocol shows them.

use crate::xdr::{DecodeError, Reader, Writer};

/// Longest handle.
const HANDLE_LEN_MAX: usize = 64;

/// A file as the server names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Handle(Vec<u8>);

impl Handle {
    /// The bytes, which mean something to the server only.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`DecodeError`] if it is longer than handles are.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.opaque("a handle", HANDLE_LEN_MAX).map(|bytes| Self(bytes.to_vec()))
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.opaque(&self.0);
    }
}

/// A time of the server.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Since 1970.
    pub seconds: u32,
    /// Below a second.
    pub nanoseconds: u32,
}

impl Timestamp {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let seconds = reader.u32("a time")?;
        // Nanoseconds beyond a second would make no time of any kernel.
        Ok(Self { seconds, nanoseconds: reader.u32("a time")?.min(999_999_999) })
    }

    pub(crate) fn write(self, writer: &mut Writer) {
        writer.u32(self.seconds).u32(self.nanoseconds);
    }
}

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they say what they are")]
pub enum FileKind {
    Regular,
    Directory,
    BlockDevice,
    CharacterDevice,
    Symlink,
    Socket,
    Pipe,
}

/// What is known of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileAttributes {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits.
    pub mode: u32,
    /// Names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Bytes on disk.
    pub used: u64,
    /// Number of a device, major and minor.
    pub device: (u32, u32),
    /// The file system at the server.
    pub file_system: u64,
    /// Its number there.
    pub file_id: u64,
    /// Last read.
    pub atime: Timestamp,
    /// Last written.
    pub mtime: Timestamp,
    /// Last changed in any way.
    pub ctime: Timestamp,
}

impl FileAttributes {
    /// Reads them.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let what = "attributes";
        let kind = match reader.u32(what)? {
            1 => FileKind::Regular,
            2 => FileKind::Directory,
            3 => FileKind::BlockDevice,
            4 => FileKind::CharacterDevice,
            5 => FileKind::Symlink,
            6 => FileKind::Socket,
            7 => FileKind::Pipe,
            value => return Err(DecodeError::Unknown { what: "kind of file", value }),
        };
        Ok(Self {
            kind,
            mode: reader.u32(what)? & 0o7777,
            links: reader.u32(what)?,
            uid: reader.u32(what)?,
            gid: reader.u32(what)?,
            size: reader.u64(what)?,
            used: reader.u64(what)?,
            device: (reader.u32(what)?, reader.u32(what)?),
            file_system: reader.u64(what)?,
            file_id: reader.u64(what)?,
            atime: Timestamp::read(reader)?,
            mtime: Timestamp::read(reader)?,
            ctime: Timestamp::read(reader)?,
        })
    }

    /// Reads what may be there.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub(crate) fn read_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.bool("whether attributes follow")? { Self::read(reader).map(Some) } else { Ok(None) }
    }

    /// Reads what a file was like before and is like after a change; gives the latter.
    pub(crate) fn read_change(reader: &mut Reader<'_>) -> Result<Option<Self>, DecodeError> {
        if reader.bool("whether earlier attributes follow")? {
            reader.u64("earlier attributes")?;
            Timestamp::read(reader)?;
            Timestamp::read(reader)?;
        }
        Self::read_optional(reader)
    }
}

/// What becomes of a time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum SetTime {
    /// Nothing.
    #[default]
    Keep,
    /// The present time of the server.
    Now,
    /// This.
    To(Timestamp),
}

/// What is to be changed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// Last read.
    pub atime: SetTime,
    /// Last written.
    pub mtime: SetTime,
}

impl SetAttributes {
    pub(crate) fn write(&self, writer: &mut Writer) {
        for number in [self.mode, self.uid, self.gid] {
            match number {
                Some(number) => writer.u32(1).u32(number),
                None => writer.u32(0),
            };
        }
        match self.size {
            Some(size) => writer.u32(1).u64(size),
            None => writer.u32(0),
        };
        for time in [self.atime, self.mtime] {
            match time {
                SetTime::Keep => drop(writer.u32(0)),
                SetTime::Now => drop(writer.u32(1)),
                SetTime::To(time) => time.write(writer.u32(2)),
            }
        }
    }
}

/// By which a client sees that a server lost what it had not committed: it changes when the server restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteVerifier(pub [u8; 8]);
