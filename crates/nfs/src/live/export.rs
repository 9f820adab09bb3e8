//! An export of a server: its files by path, its directories.

use super::{Block, Blocks, Caller, LiveError, Options, SharedCaller, Transport};
use crate::calls::{self, Call, Cookie, Create, Place};
use crate::replay::{Meaning, meaning};
use crate::results::{self, Entry, Limits, Results};
use crate::{
    BlockSize, Carrier, FileAttributes, FileKind, Handle, Kind, Notice, SetAttributes, Statistics, Status, WaitPolicy,
    Window,
};
use crate::{mount_protocol, portmap};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Where the programs of a server are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ports {
    /// As the port mapper says.
    Mapped,
    /// NFS at this one; mount as the port mapper says, or at the other.
    Fixed {
        /// Of NFS.
        nfs: u16,
        /// Of mount.
        mount: Option<u16>,
    },
}

/// A file of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// By which calls name it.
    pub handle: Handle,
    /// What is known of it.
    pub attributes: FileAttributes,
}

/// Bytes of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Of the next one that is read.
    pub read: u32,
    /// Of the next one that is written.
    pub write: u32,
}

/// An export. Dropping it tells the server nothing: it keeps no state of us.
#[derive(Debug)]
pub struct Export {
    pub(super) caller: Caller,
    root: Handle,
    wait_policy: WaitPolicy,
    pub(super) read_block: BlockSize,
    pub(super) write_block: BlockSize,
    pub(super) window: Window,
    statistics: Statistics,
}

/// How long a server that asks for patience gets (RFC 1813: NFS3ERR_JUKEBOX).
const JUKEBOX: Duration = Duration::from_secs(1);
/// Most symbolic links and parts of a path.
const LINKS_MAX: usize = 40;
/// Bytes of names that are asked for at once.
const LISTING_LEN: u32 = 8192;
/// Most names of a directory: a server that never ends would fill the memory.
const NAMES_MAX: usize = 5_000_000;

impl Export {
    /// Finds the programs, mounts the export, asks for limits.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn connect(server: IpAddr, ports: Ports, path: &str, options: &Options) -> Result<Self, LiveError> {
        let at = |port| SocketAddr::new(server, port);
        let root = Self::find_root(server, ports, path, options)?;
        let nfs = match ports {
            Ports::Fixed { nfs, .. } => nfs,
            Ports::Mapped => mapped(at(portmap::PORT), Kind::Null, options)?,
        };
        let mut caller = Caller::connect(at(nfs), options)?;
        let (answer, _) = caller.call(&calls::file_system_info(&root))?;
        let limits = results::file_system_info(&answer)?.unwrap_or(Limits { read_max: 8192, write_max: 8192 });
        let carrier = match options.transport {
            Transport::Udp => Carrier::Datagrams,
            Transport::Tcp => Carrier::Stream,
        };
        let block = |max| match options.block {
            Block::Auto => BlockSize::auto(carrier, max),
            Block::Fixed(size) => {
                BlockSize::fixed(size).at_most(max.min(if carrier == Carrier::Stream { 65_536 } else { 32_768 }))
            }
        };
        let (read_block, write_block) = (block(limits.read_max), block(limits.write_max));
        let (wait_policy, window) = (options.wait_policy, Window::new(options.in_flight_max));
        Ok(Self { caller, root, wait_policy, read_block, write_block, window, statistics: Statistics::default() })
    }

    /// Mounts the export; no more.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn find_root(server: IpAddr, ports: Ports, path: &str, options: &Options) -> Result<Handle, LiveError> {
        let at = |port| SocketAddr::new(server, port);
        let mount = match ports {
            Ports::Fixed { mount: Some(mount), .. } => mount,
            Ports::Fixed { mount: None, .. } | Ports::Mapped => mapped(at(portmap::PORT), Kind::Mount, options)?,
        };
        let call = Call { kind: Kind::Mount, arguments: mount_protocol::mount_arguments(path) };
        let (answer, _) = Caller::connect(at(mount), options)?.call(&call)?;
        let refused = |status| LiveError::Status { what: format!("mount {path} of {server}"), status };
        mount_protocol::mount_results(&answer)?.map_err(refused)
    }

    /// The same export for many threads, and its root.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn share(self, options: &Options) -> Result<(SharedCaller, Handle), LiveError> {
        let blocks = Blocks { read: self.read_block, write: self.write_block };
        Ok((SharedCaller::start(self.caller, blocks, options)?, self.root))
    }

    /// Paths of the exports of a server.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn exports(server: IpAddr, mount: Option<u16>, options: &Options) -> Result<Vec<String>, LiveError> {
        let mount = match mount {
            Some(mount) => mount,
            None => mapped(SocketAddr::new(server, portmap::PORT), Kind::Mount, options)?,
        };
        let call = Call { kind: Kind::Exports, arguments: Vec::new() };
        let (answer, _) = Caller::connect(SocketAddr::new(server, mount), options)?.call(&call)?;
        let exports = mount_protocol::exports_results(&answer)?;
        Ok(exports.iter().map(|export| String::from_utf8_lossy(export).into_owned()).collect())
    }

    /// What calls cost so far.
    pub const fn statistics(&self) -> Statistics {
        self.caller.statistics()
    }

    /// What calls cost since the last time this was asked.
    pub fn take_statistics(&mut self) -> Statistics {
        let (before, now) = (self.statistics, self.statistics());
        self.statistics = now;
        Statistics {
            calls: now.calls - before.calls,
            resent: now.resent - before.resent,
            overtaken: now.overtaken - before.overtaken,
            probes: now.probes - before.probes,
            strays: now.strays - before.strays,
            malformed: now.malformed - before.malformed,
            given_up: now.given_up - before.given_up,
        }
    }

    /// Bytes of the next blocks.
    pub const fn block_sizes(&self) -> BlockSizes {
        BlockSizes { read: self.read_block.size(), write: self.write_block.size() }
    }

    /// Tells what lower layers told.
    pub fn notice(&mut self, notice: Notice) {
        self.caller.notice(notice);
    }

    /// The root.
    pub const fn root(&self) -> &Handle {
        &self.root
    }

    /// A file by its path from the root; symbolic links are followed within the export.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn locate(&mut self, path: &str) -> Result<Located, LiveError> {
        let mut parts: Vec<Vec<u8>> = split(path.as_bytes());
        parts.reverse();
        let root = self.root.clone();
        let mut above = vec![Located { attributes: self.attributes(&root)?, handle: root }];
        let mut links = 0;
        while let Some(name) = parts.pop() {
            let here = above.last().expect("the root stays").handle.clone();
            if name == b".." {
                above.truncate((above.len() - 1).max(1));
                continue;
            }
            let found = self.lookup(Place { directory: &here, name: &name })?;
            if found.attributes.kind != FileKind::Symlink {
                above.push(found);
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(LiveError::Status { what: path.to_owned(), status: Status::NOENT });
            }
            let target = self.read_link(&found.handle)?;
            if target.first() == Some(&b'/') {
                above.truncate(1);
            }
            parts.extend(split(&target).into_iter().rev());
        }
        Ok(above.pop().expect("the root stays"))
    }

    /// The file of a name.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn lookup(&mut self, place: Place<'_>) -> Result<Located, LiveError> {
        let found = self.ask(&shown(place.name), &calls::lookup(place), results::lookup)?;
        let handle = found.handle.expect("a lookup that succeeds gives a handle");
        let attributes = match found.attributes {
            Some(attributes) => attributes,
            None => self.attributes(&handle)?,
        };
        Ok(Located { handle, attributes })
    }

    /// What is known of a file.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn attributes(&mut self, file: &Handle) -> Result<FileAttributes, LiveError> {
        self.ask("look at a file", &calls::attributes(file), results::attributes)
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn read_link(&mut self, link: &Handle) -> Result<Vec<u8>, LiveError> {
        self.ask("read a link", &calls::read_link(link), results::read_link)
    }

    /// All names of a directory but `.` and `..`.
    ///
    /// # Errors
    /// [`LiveError`]; [`crate::xdr::DecodeError::Impossible`] from a server whose listing does not end.
    pub fn list(&mut self, directory: &Handle) -> Result<Vec<Entry>, LiveError> {
        let mut plus = true;
        let mut entries = Vec::new();
        let mut cookie = Some(Cookie::default());
        let mut places = BTreeSet::new();
        while let Some(from) = cookie {
            let answered = match plus {
                true => self.ask(
                    "list",
                    &calls::read_directory_plus(directory, from, LISTING_LEN),
                    results::read_directory_plus,
                ),
                false => {
                    self.ask("list", &calls::read_directory(directory, from, LISTING_LEN), results::read_directory)
                }
            };
            let listing = match answered {
                Err(LiveError::Status { status: Status::NOTSUPP, .. }) if plus => {
                    plus = false;
                    continue;
                }
                other => other?,
            };
            cookie = listing.next();
            if cookie.is_some_and(|cookie| !places.insert(cookie.place)) || entries.len() > NAMES_MAX {
                return Err(crate::xdr::DecodeError::Impossible("a listing without end").into());
            }
            entries.extend(listing.entries.into_iter().filter(|entry| entry.name != b"." && entry.name != b".."));
        }
        Ok(entries)
    }

    /// Makes a file, or finds the one of that name and empties it.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn create(&mut self, place: Place<'_>, mode: u32) -> Result<Handle, LiveError> {
        // Without a size: a late copy of this call must not empty what was written meanwhile.
        let how = Create::Unchecked(SetAttributes { mode: Some(mode), ..SetAttributes::default() });
        let found = self.ask(&shown(place.name), &calls::create(place, &how), results::made)?;
        let (handle, attributes) = match (found.handle, found.attributes) {
            (Some(handle), Some(attributes)) => (handle, attributes),
            _ => {
                let located = self.lookup(place)?;
                (located.handle, located.attributes)
            }
        };
        if attributes.size > 0 {
            self.truncate(&handle, attributes)?;
        }
        Ok(handle)
    }

    fn truncate(&mut self, file: &Handle, before: FileAttributes) -> Result<(), LiveError> {
        let change = SetAttributes { size: Some(0), ..SetAttributes::default() };
        let call = calls::set_attributes(file, &change, Some(before.ctime));
        match self.ask("empty a file", &call, results::done) {
            Err(LiveError::Status { status: Status::NOT_SYNC, .. }) if self.attributes(file)?.size == 0 => Ok(()),
            other => other,
        }
    }

    /// Removes a name.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn remove(&mut self, place: Place<'_>) -> Result<(), LiveError> {
        self.ask(&shown(place.name), &calls::remove(place), results::done)
    }

    /// Makes a call until it is answered by something else than the wish for patience.
    fn ask<T: Outcome>(&mut self, what: &str, call: &Call, read: impl Fn(&[u8]) -> Results<T>) -> Result<T, LiveError> {
        let mut tries = 0;
        loop {
            let (answer, sendings) = self.caller.call(call)?;
            match read(&answer)? {
                Ok(result) => return Ok(result),
                Err(status) if status == Status::JUKEBOX => {
                    tries += 1;
                    if matches!(self.wait_policy, WaitPolicy::Soft(most) if tries >= most) {
                        return Err(LiveError::Status { what: what.to_owned(), status });
                    }
                    self.caller.pause(JUKEBOX)?;
                }
                Err(status) => {
                    if meaning(call.kind, sendings, status) == Meaning::Done
                        && let Some(done) = T::of_nothing()
                    {
                        return Ok(done);
                    }
                    return Err(LiveError::Status { what: what.to_owned(), status });
                }
            }
        }
    }
}

/// Results that say nothing but that it was done.
trait Outcome: Sized {
    fn of_nothing() -> Option<Self> {
        None
    }
}

impl Outcome for () {
    fn of_nothing() -> Option<Self> {
        Some(())
    }
}
impl Outcome for FileAttributes {}
impl Outcome for results::Found {}
impl Outcome for results::Listing {}
impl Outcome for Vec<u8> {}

fn mapped(mapper: SocketAddr, kind: Kind, options: &Options) -> Result<u16, LiveError> {
    let protocol = match options.transport {
        Transport::Udp => 17,
        Transport::Tcp => 6,
    };
    let call = Call { kind: Kind::Port, arguments: portmap::port_arguments(kind.procedure(), protocol) };
    let (answer, _) = Caller::connect(mapper, options)?.call(&call)?;
    portmap::port_results(&answer)?.ok_or(LiveError::Refused(crate::rpc::Refusal::NoProgram))
}

fn split(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".").map(<[u8]>::to_vec).collect()
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
