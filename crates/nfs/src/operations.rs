//! Procedures until they are done: a server that asks for patience gets it, and what a call that was sent twice failed of by its own
//! success is seen for what it is ([`crate::replay`]).
//!
//! A call that makes something carries a [`Mark`]: a time of last change that nobody else would choose. What is found under the name
//! after a failure is ours if it has the mark, and somebody else's if not: two clients that make the same directory as a lock never
//! both succeed. A server that does not keep the mark makes the failure stand.

use crate::calls::{self, Call, Create, Node, Place};
use crate::replay::{Meaning, meaning};
use crate::results::{self, Found, Results};
use crate::xdr::DecodeError;
use crate::{FileAttributes, FileKind, Handle, SetAttributes, SetTime, Status, Timestamp};
use std::time::Duration;

/// Who makes calls and waits for what they give.
pub trait Calls {
    /// Why one gave nothing.
    type Error: From<DecodeError>;

    /// Makes a call; gives its results, and how often it was sent.
    ///
    /// # Errors
    /// No answer, no wish to wait any longer, a server that does not look at calls.
    fn call(&mut self, call: &Call) -> Result<(Vec<u8>, u32), Self::Error>;

    /// The server asked for patience for the `times`th time: waits, or says `false` if there is none left.
    ///
    /// # Errors
    /// No wish to wait any longer.
    fn wait_for_jukebox(&mut self, times: u32) -> Result<bool, Self::Error>;
}

/// What an operation gave: inside, why the server does not do it.
pub type Asked<T, C> = Result<Result<T, Status>, <C as Calls>::Error>;

/// How long a server that asks for patience gets for the `times`th time: a second, doubling, at most 15 s.
pub const fn jukebox_pause(times: u32) -> Duration {
    match times {
        0 | 1 => Duration::from_secs(1),
        2 => Duration::from_secs(2),
        3 => Duration::from_secs(4),
        4 => Duration::from_secs(8),
        _ => Duration::from_secs(15),
    }
}

/// By which something that was made is known again. Must never be used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(pub Timestamp);

impl Mark {
    fn verifier(self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.0.seconds.to_be_bytes());
        bytes[4..].copy_from_slice(&self.0.nanoseconds.to_be_bytes());
        bytes
    }

    const fn on(self, attributes: &SetAttributes) -> SetAttributes {
        SetAttributes { mtime: SetTime::To(self.0), ..*attributes }
    }
}

/// A file that was found or made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// By which calls name it.
    pub handle: Handle,
    /// What is known of it.
    pub attributes: FileAttributes,
}

/// What is to happen if the name of a file to be made is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfTaken {
    /// The file of that name is used.
    Use,
    /// It is an error.
    Refuse,
}

/// Unwraps what the server did; gives on what it did not.
macro_rules! done {
    ($asked:expr) => {
        match $asked? {
            Ok(value) => value,
            Err(status) => return Ok(Err(status)),
        }
    };
}

/// Makes a call until it is answered by something else than the wish for patience; also says how often it was sent.
fn ask<T, C: Calls>(
    caller: &mut C,
    call: &Call,
    read: impl Fn(&[u8]) -> Results<T>,
) -> Result<(Result<T, Status>, u32), C::Error> {
    let (mut times, mut sendings) = (0, 0);
    loop {
        let (answer, sent) = caller.call(call)?;
        sendings = sent.max(sendings);
        match read(&answer)? {
            Err(Status::JUKEBOX) => {
                times += 1;
                if !caller.wait_for_jukebox(times)? {
                    return Ok((Err(Status::JUKEBOX), sendings));
                }
            }
            other => return Ok((other, sendings)),
        }
    }
}

/// Of calls that may be made twice.
fn simple<T, C: Calls>(caller: &mut C, call: &Call, read: impl Fn(&[u8]) -> Results<T>) -> Asked<T, C> {
    Ok(ask(caller, call, read)?.0)
}

/// What is known of a file.
///
/// # Errors
/// Those of the caller, as all of these.
pub fn attributes<C: Calls>(caller: &mut C, file: &Handle) -> Asked<FileAttributes, C> {
    simple(caller, &calls::attributes(file), results::attributes)
}

/// The file of a name.
///
/// # Errors
/// Those of the caller.
pub fn lookup<C: Calls>(caller: &mut C, place: Place<'_>) -> Asked<Located, C> {
    let found = done!(simple(caller, &calls::lookup(place), results::lookup));
    complete(caller, place, found)
}

/// What a server left out is asked for.
fn complete<C: Calls>(caller: &mut C, place: Place<'_>, found: Found) -> Asked<Located, C> {
    match (found.handle, found.attributes) {
        (Some(handle), Some(attributes)) => Ok(Ok(Located { handle, attributes })),
        (Some(handle), None) => {
            let attributes = done!(attributes(caller, &handle));
            Ok(Ok(Located { handle, attributes }))
        }
        (None, _) => {
            let found = done!(simple(caller, &calls::lookup(place), results::lookup));
            let Some(handle) = found.handle else {
                return Err(DecodeError::Impossible("a file without a handle").into());
            };
            let attributes = match found.attributes {
                Some(attributes) => attributes,
                None => done!(attributes(caller, &handle)),
            };
            Ok(Ok(Located { handle, attributes }))
        }
    }
}

/// Where a symbolic link leads.
///
/// # Errors
/// Those of the caller.
pub fn read_link<C: Calls>(caller: &mut C, link: &Handle) -> Asked<Vec<u8>, C> {
    simple(caller, &calls::read_link(link), results::read_link)
}

/// Room at the server.
///
/// # Errors
/// Those of the caller.
pub fn statistics<C: Calls>(caller: &mut C, root: &Handle) -> Asked<results::Room, C> {
    simple(caller, &calls::file_system_statistics(root), results::file_system_statistics)
}

/// What is wanted of each name of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// It alone (`READDIR`).
    Names,
    /// Its handle and attributes, too (`READDIRPLUS`).
    Attributes,
}

/// A part of a listing.
///
/// # Errors
/// Those of the caller.
pub fn list<C: Calls>(
    caller: &mut C,
    directory: &Handle,
    cookie: calls::Cookie,
    len: u32,
    detail: Detail,
) -> Asked<results::Listing, C> {
    match detail {
        Detail::Names => simple(caller, &calls::read_directory(directory, cookie, len), results::read_directory),
        Detail::Attributes => {
            simple(caller, &calls::read_directory_plus(directory, cookie, len), results::read_directory_plus)
        }
    }
}

/// Makes everything of a file durable that was written before.
///
/// # Errors
/// Those of the caller.
pub fn commit<C: Calls>(caller: &mut C, file: &Handle) -> Asked<crate::WriteVerifier, C> {
    simple(caller, &calls::commit(file, 0, 0), results::commit)
}

/// Removes a file's name.
///
/// # Errors
/// Those of the caller.
pub fn remove<C: Calls>(caller: &mut C, place: Place<'_>) -> Asked<(), C> {
    removed(caller, &calls::remove(place))
}

/// Removes an empty directory.
///
/// # Errors
/// Those of the caller.
pub fn remove_directory<C: Calls>(caller: &mut C, place: Place<'_>) -> Asked<(), C> {
    removed(caller, &calls::remove_directory(place))
}

fn removed<C: Calls>(caller: &mut C, call: &Call) -> Asked<(), C> {
    let (result, sendings) = ask(caller, call, results::done)?;
    Ok(match result {
        Err(status) if meaning(call.kind, sendings, status) == Meaning::Done => Ok(()),
        other => other,
    })
}

/// Gives a file another name. `moved` is the file that has the old name.
///
/// # Errors
/// Those of the caller.
pub fn rename<C: Calls>(caller: &mut C, from: Place<'_>, to: Place<'_>, moved: &Handle) -> Asked<(), C> {
    let call = calls::rename(from, to);
    let (result, sendings) = ask(caller, &call, results::done)?;
    match result {
        Err(status) if meaning(call.kind, sendings, status) == Meaning::LookAtTheNew => {
            let is_there = matches!(lookup(caller, to)?, Ok(found) if found.handle == *moved);
            Ok(if is_there { Ok(()) } else { Err(status) })
        }
        other => Ok(other),
    }
}

/// Gives a file a further name; gives what is known of it afterwards.
///
/// # Errors
/// Those of the caller.
pub fn link<C: Calls>(caller: &mut C, file: &Handle, to: Place<'_>) -> Asked<FileAttributes, C> {
    let call = calls::link(file, to);
    let (result, sendings) = ask(caller, &call, results::done)?;
    match result {
        Ok(()) => attributes(caller, file),
        Err(status) if meaning(call.kind, sendings, status) == Meaning::LookAtTheNew => match lookup(caller, to)? {
            Ok(found) if found.handle == *file => Ok(Ok(found.attributes)),
            _ => Ok(Err(status)),
        },
        Err(status) => Ok(Err(status)),
    }
}

/// Makes a directory.
///
/// # Errors
/// Those of the caller.
pub fn make_directory<C: Calls>(
    caller: &mut C,
    place: Place<'_>,
    with: &SetAttributes,
    mark: Mark,
) -> Asked<Located, C> {
    let call = calls::make_directory(place, &mark.on(with));
    make(caller, place, &call, (FileKind::Directory, mark))
}

/// Makes a symbolic link.
///
/// # Errors
/// Those of the caller.
pub fn symlink<C: Calls>(
    caller: &mut C,
    place: Place<'_>,
    target: &[u8],
    with: &SetAttributes,
    mark: Mark,
) -> Asked<Located, C> {
    let call = calls::symlink(place, target, &mark.on(with));
    make(caller, place, &call, (FileKind::Symlink, mark))
}

/// Makes a device, socket or pipe.
///
/// # Errors
/// Those of the caller.
pub fn make_node<C: Calls>(
    caller: &mut C,
    place: Place<'_>,
    node: Node,
    with: &SetAttributes,
    mark: Mark,
) -> Asked<Located, C> {
    let kind = match node {
        Node::CharacterDevice(..) => FileKind::CharacterDevice,
        Node::BlockDevice(..) => FileKind::BlockDevice,
        Node::Socket => FileKind::Socket,
        Node::Pipe => FileKind::Pipe,
    };
    let call = calls::make_node(place, node, &mark.on(with));
    make(caller, place, &call, (kind, mark))
}

fn make<C: Calls>(caller: &mut C, place: Place<'_>, call: &Call, as_made: (FileKind, Mark)) -> Asked<Located, C> {
    let (result, sendings) = ask(caller, call, results::made)?;
    match result {
        Ok(found) => complete(caller, place, found),
        Err(status) if meaning(call.kind, sendings, status) == Meaning::LookAtTheNew => match lookup(caller, place)? {
            Ok(found) if (found.attributes.kind, Mark(found.attributes.mtime)) == as_made => Ok(Ok(found)),
            _ => Ok(Err(status)),
        },
        Err(status) => Ok(Err(status)),
    }
}

/// Makes a regular file.
///
/// # Errors
/// Those of the caller.
pub fn create<C: Calls>(
    caller: &mut C,
    place: Place<'_>,
    if_taken: IfTaken,
    with: &SetAttributes,
    mark: Mark,
) -> Asked<Located, C> {
    if if_taken == IfTaken::Use {
        // Without a size: a late copy of this call must not empty what was written meanwhile.
        let how = Create::Unchecked(SetAttributes { size: None, ..*with });
        let found = done!(simple(caller, &calls::create(place, &how), results::made));
        return complete(caller, place, found);
    }
    let exclusive = simple(caller, &calls::create(place, &Create::Exclusive(mark.verifier())), results::made)?;
    let found = match exclusive {
        Err(Status::NOTSUPP) => {
            let call = calls::create(place, &Create::Guarded(mark.on(with)));
            return make(caller, place, &call, (FileKind::Regular, mark));
        }
        Err(status) => return Ok(Err(status)),
        Ok(found) => found,
    };
    let made = done!(complete(caller, place, found));
    // Servers keep the number of an exclusive creation in the times of the file, and know nothing of other attributes yet.
    let change = SetAttributes { atime: SetTime::Now, mtime: SetTime::Now, size: None, ..*with };
    match set_attributes(caller, &made.handle, &change)? {
        Ok(attributes) => Ok(Ok(Located { attributes, ..made })),
        Err(status) => {
            // Half made is not made; should this fail, too, an empty file is left, which the program sees.
            let _ = remove(caller, place)?;
            Ok(Err(status))
        }
    }
}

/// Changes attributes other than the size; gives them as they are afterwards.
///
/// # Errors
/// Those of the caller.
pub fn set_attributes<C: Calls>(caller: &mut C, file: &Handle, change: &SetAttributes) -> Asked<FileAttributes, C> {
    let call = calls::set_attributes(file, &SetAttributes { size: None, ..*change }, None);
    match done!(simple(caller, &call, results::set_attributes)) {
        Some(attributes) => Ok(Ok(attributes)),
        None => attributes(caller, file),
    }
}

/// How often a file may be changed by others between our look at it and our truncation.
const GUARDS_MAX: u32 = 8;

/// Changes the size of a file (and what else `with` says), guarded by its `ctime`, so that a late copy of the call does nothing.
/// [`Status::NOT_SYNC`] if others change the file all the time.
///
/// # Errors
/// Those of the caller.
pub fn resize<C: Calls>(caller: &mut C, file: &Handle, size: u64, with: &SetAttributes) -> Asked<FileAttributes, C> {
    let change = SetAttributes { size: Some(size), ..*with };
    let mut may_be_done = false;
    for _ in 0..GUARDS_MAX {
        let before = done!(attributes(caller, file));
        // An earlier copy did it, and the answer to it was lost.
        if may_be_done && before.size == size {
            return Ok(Ok(before));
        }
        let call = calls::set_attributes(file, &change, Some(before.ctime));
        let (result, sendings) = ask(caller, &call, results::set_attributes)?;
        match result {
            Ok(Some(attributes)) => return Ok(Ok(attributes)),
            Ok(None) => return attributes(caller, file),
            Err(Status::NOT_SYNC) => may_be_done = sendings > 1,
            Err(status) => return Ok(Err(status)),
        }
    }
    Ok(Err(Status::NOT_SYNC))
}

#[cfg(test)]
mod tests;
