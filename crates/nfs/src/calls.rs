//! Arguments of the procedures, a function each.

use crate::xdr::Writer;
use crate::{Handle, Kind, SetAttributes, Timestamp};

/// A call that has no number yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Of which procedure.
    pub kind: Kind,
    /// Its arguments.
    pub arguments: Vec<u8>,
}

/// A name in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The directory.
    pub directory: &'a Handle,
    /// The name.
    pub name: &'a [u8],
}

/// How durable a write is when it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// After the next commit.
    Unstable,
    /// At once, with all about the file.
    FileSync,
}

/// How a file is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Create {
    /// Or found, if there is one.
    Unchecked(SetAttributes),
    /// Refused if there is one.
    Guarded(SetAttributes),
    /// Refused if there is one, unless it was made with this number: safe to be sent twice.
    Exclusive([u8; 8]),
}

fn call(kind: Kind, write: impl FnOnce(&mut Writer)) -> Call {
    let mut writer = Writer::new();
    write(&mut writer);
    Call { kind, arguments: writer.into_bytes() }
}

fn of(kind: Kind, file: &Handle) -> Call {
    call(kind, |writer| file.write(writer))
}

fn at(kind: Kind, place: Place<'_>) -> Call {
    call(kind, |writer| put(place, writer))
}

fn put(place: Place<'_>, writer: &mut Writer) {
    place.directory.write(writer);
    writer.opaque(place.name);
}

/// Nothing but an answer.
pub fn null() -> Call {
    call(Kind::Null, |_| ())
}

/// Attributes of a file.
pub fn attributes(file: &Handle) -> Call {
    of(Kind::GetAttributes, file)
}

/// Changes attributes. With a guard the server refuses ([`crate::Status::NOT_SYNC`]) if the file was changed since that `ctime`, so
/// that a late copy of the call does nothing.
pub fn set_attributes(file: &Handle, change: &SetAttributes, guard: Option<Timestamp>) -> Call {
    call(Kind::SetAttributes, |writer| {
        file.write(writer);
        change.write(writer);
        match guard {
            Some(ctime) => ctime.write(writer.u32(1)),
            None => drop(writer.u32(0)),
        }
    })
}

/// The file of a name.
pub fn lookup(place: Place<'_>) -> Call {
    at(Kind::Lookup, place)
}

/// Which of some rights (bits of RFC 1813, 3.3.4) the caller has.
pub fn access(file: &Handle, rights: u32) -> Call {
    call(Kind::Access, |writer| {
        file.write(writer);
        writer.u32(rights);
    })
}

/// Where a symbolic link leads.
pub fn read_link(link: &Handle) -> Call {
    of(Kind::ReadLink, link)
}

/// Bytes of a file.
pub fn read(file: &Handle, offset: u64, count: u32) -> Call {
    call(Kind::Read, |writer| {
        file.write(writer);
        writer.u64(offset).u32(count);
    })
}

/// Bytes into a file.
pub fn write(file: &Handle, offset: u64, bytes: &[u8], stability: Stability) -> Call {
    let stable = match stability {
        Stability::Unstable => 0,
        Stability::FileSync => 2,
    };
    call(Kind::Write, |writer| {
        file.write(writer);
        writer.u64(offset).u32(bytes.len() as u32).u32(stable).opaque(bytes);
    })
}

/// Makes a file.
pub fn create(place: Place<'_>, how: &Create) -> Call {
    call(Kind::Create, |writer| {
        put(place, writer);
        match how {
            Create::Unchecked(attributes) => attributes.write(writer.u32(0)),
            Create::Guarded(attributes) => attributes.write(writer.u32(1)),
            Create::Exclusive(verifier) => drop(writer.u32(2).fixed(verifier)),
        }
    })
}

/// Makes a directory.
pub fn make_directory(place: Place<'_>, attributes: &SetAttributes) -> Call {
    call(Kind::MakeDirectory, |writer| {
        put(place, writer);
        attributes.write(writer);
    })
}

/// Makes a symbolic link.
pub fn symlink(place: Place<'_>, target: &[u8], attributes: &SetAttributes) -> Call {
    call(Kind::Symlink, |writer| {
        put(place, writer);
        attributes.write(writer);
        writer.opaque(target);
    })
}

/// What else a name can stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// A character device, major and minor.
    CharacterDevice(u32, u32),
    /// A block device, major and minor.
    BlockDevice(u32, u32),
    /// A socket.
    Socket,
    /// A pipe.
    Pipe,
}

/// Makes a device, socket or pipe.
pub fn make_node(place: Place<'_>, node: Node, attributes: &SetAttributes) -> Call {
    call(Kind::MakeNode, |writer| {
        put(place, writer);
        let (kind, device) = match node {
            Node::BlockDevice(major, minor) => (3, Some((major, minor))),
            Node::CharacterDevice(major, minor) => (4, Some((major, minor))),
            Node::Socket => (6, None),
            Node::Pipe => (7, None),
        };
        attributes.write(writer.u32(kind));
        if let Some((major, minor)) = device {
            writer.u32(major).u32(minor);
        }
    })
}

/// Removes a file's name.
pub fn remove(place: Place<'_>) -> Call {
    at(Kind::Remove, place)
}

/// Removes an empty directory.
pub fn remove_directory(place: Place<'_>) -> Call {
    at(Kind::RemoveDirectory, place)
}

/// Gives a file another name.
pub fn rename(from: Place<'_>, to: Place<'_>) -> Call {
    call(Kind::Rename, |writer| {
        put(from, writer);
        put(to, writer);
    })
}

/// Gives a file a further name.
pub fn link(file: &Handle, to: Place<'_>) -> Call {
    call(Kind::Link, |writer| {
        file.write(writer);
        put(to, writer);
    })
}

/// Where a listing goes on.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Cookie {
    /// The place.
    pub place: u64,
    /// What the server wants to see again with it.
    pub verifier: [u8; 8],
}

/// Names in a directory, in an answer of at most `len` bytes.
pub fn read_directory(directory: &Handle, cookie: Cookie, len: u32) -> Call {
    call(Kind::ReadDirectory, |writer| {
        directory.write(writer);
        writer.u64(cookie.place).fixed(&cookie.verifier).u32(len);
    })
}

/// The same with handles and attributes.
pub fn read_directory_plus(directory: &Handle, cookie: Cookie, len: u32) -> Call {
    call(Kind::ReadDirectoryPlus, |writer| {
        directory.write(writer);
        // The first bound is of names alone; servers that heed it should not send less for it.
        writer.u64(cookie.place).fixed(&cookie.verifier).u32(len).u32(len);
    })
}

/// Room at the server.
pub fn file_system_statistics(root: &Handle) -> Call {
    of(Kind::FileSystemStatistics, root)
}

/// What the server can do.
pub fn file_system_info(root: &Handle) -> Call {
    of(Kind::FileSystemInfo, root)
}

/// Makes unstable writes durable: all of them if `count` is zero.
pub fn commit(file: &Handle, offset: u64, count: u32) -> Call {
    call(Kind::Commit, |writer| {
        file.write(writer);
        writer.u64(offset).u32(count);
    })
}
