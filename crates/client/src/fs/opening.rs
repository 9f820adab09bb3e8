//! Opening and making files.

use super::asking::{Answered, refusal};
use super::caller::Caller;
use super::core::FileSystem;
use super::handles::{Handle, OpenHandle};
use super::ids::HandleId;
use super::kernel::NotRegistered;
use super::names::{NewMode, checked, set_lists};
use super::reply::{Delivery, Reply, RespondWith};
use super::results::{Created, Opened};
use super::shown::Shown;
use super::write_pattern::{Kind as FileKind, WritePattern};
use crate::files::body::BodyFile;
use crate::files::kernel_way::{BackingId, PASSTHROUGH_MIN};
use crate::files::{Access, OpenFile, Writes};
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wayfs_types::request::{Answer, Change, Request as Ask};
use wayfs_types::{AttrChange, FileId, FsError, Inode, Kind};

/// What an open asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenRequest {
    pub(crate) flags: i32,
    pub(crate) kill_suid_gid: bool,
}

/// What a create asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewFile {
    pub(crate) flags: i32,
    pub(crate) mode: NewMode,
}

fn access(flags: i32) -> Access {
    if flags & libc::O_ACCMODE == libc::O_RDONLY { Access::Read } else { Access::Write }
}

/// What an open finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// A file that it made itself.
    New,
    /// One that was there.
    Old,
}

/// Flags of programs that want to know their bytes on the disk, or where they end: their writes come by request.
const BY_REQUEST: i32 = libc::O_APPEND | libc::O_SYNC | libc::O_DSYNC | libc::O_DIRECT;

impl FileSystem {
    /// Where the home decides at once, who opens to write sees all that it has, or is told that it cannot be asked: what is
    /// written upon an older version would be a conflict.
    pub(crate) fn open<R: RespondWith<Opened>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        request: OpenRequest,
        reply: Reply<R>,
    ) {
        if access(request.flags) == Access::Read || !self.engine.is_exclusive(file) {
            return self.open_as_known(caller, file, request, reply);
        }
        let asker = caller.clone();
        self.ask(caller, Ask::Refresh, reply, move |fs, reply, outcome| match outcome {
            Ok(_) => fs.open_as_known(&asker, file, request, reply),
            other => reply.refuse(refusal(other)),
        });
    }

    fn open_as_known<R: RespondWith<Opened>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        request: OpenRequest,
        reply: Reply<R>,
    ) {
        let asker = caller.clone();
        self.with_inode(caller, file, reply, move |fs, reply, file, inode| {
            fs.second_walks.end(asker.pid);
            match fs.open_inode(&asker, file, (inode, Found::Old), request.flags) {
                Ok(opened) => {
                    if request.kill_suid_gid {
                        fs.drop_set_id_bits(&asker, file, inode);
                    }
                    if reply.deliver(opened) == Delivery::Gone {
                        fs.close_handle(opened.handle);
                    }
                }
                Err(error) => reply.refuse(error),
            }
        });
    }

    /// Opens a file whose inode is known. What is no file (a symlink, made where the kernel knew of nothing) would be
    /// refused by the kernel, who then never closes what was opened: it is told to walk the path again.
    fn open_inode(
        &self,
        caller: &Caller,
        id: FileId,
        (inode, found): (&Inode, Found),
        flags: i32,
    ) -> Result<Opened, FsError> {
        match inode.kind {
            Kind::File => {}
            Kind::Directory => return Err(FsError::IsDirectory),
            _ => return Err(FsError::Stale),
        }
        let access = access(flags);
        let kind = written_only(inode, found, flags);
        let may_be_copy = self.sources.has(caller.pid);
        let kind_by_passthrough = kind.as_ref().filter(|_| !may_be_copy);
        let writes = kind_by_passthrough.map_or(Writes::ByRequest, |kind| self.guess(inode, kind, flags));
        let file = self.files.open_file(id, inode, access);
        if flags & libc::O_TRUNC != 0
            && access == Access::Write
            && let Err(error) = self.files.empty(&file, self.user(caller))
        {
            self.files.close_file(&file, access);
            return Err(error);
        }
        let way = self.files.kernel_open(&file, access, writes, &|body| self.register(body));
        let copier = self.sources.opened(caller.pid, access, inode.content.size());
        let handle = self.handles.insert(Handle::File(Arc::new(OpenHandle { file, access, way, kind, copier })));
        Ok(Opened { handle, access, way })
    }

    /// Whether a file that is made or emptied to be written is better written by passthrough.
    fn guess(&self, inode: &Inode, kind: &FileKind, flags: i32) -> Writes {
        if flags & BY_REQUEST != 0 || !self.has_passthrough.load(Ordering::Relaxed) {
            return Writes::ByRequest;
        }
        let is_large = match self.write_patterns.last(kind) {
            Some(write_pattern) => write_pattern == WritePattern::Large,
            // What is made for the first time may be anything; what is made anew is taken to be as it was.
            None => inode.content.size() == 0 || inode.content.size() >= PASSTHROUGH_MIN,
        };
        // Nobody refuses a write by passthrough while there is room on the disk for it, though the commit needs as much again.
        let has_room = self
            .free()
            .is_none_or(|free| free >= self.settings.free_min.saturating_add(self.settings.passthrough_room));
        if is_large && has_room { Writes::Passthrough } else { Writes::ByRequest }
    }

    fn register(&self, body: &BodyFile) -> Option<BackingId> {
        if !self.has_passthrough.load(Ordering::Relaxed) {
            return None;
        }
        match self.kernel.get()?.register(body) {
            Ok(backing) => Some(backing),
            Err(NotRegistered::Never) => {
                self.has_passthrough.store(false, Ordering::Relaxed);
                None
            }
            Err(NotRegistered::ThisOne) => None,
        }
    }

    pub(crate) fn create<R: RespondWith<Created>>(
        self: &Arc<Self>,
        caller: &Caller,
        parent: FileId,
        name: &OsStr,
        new: NewFile,
        reply: Reply<R>,
    ) {
        let Some((name, reply)) = checked(name, reply) else { return };
        let owner = match self.ownership(caller, parent, new.mode) {
            Ok(owner) => owner,
            Err(error) => return reply.refuse(error),
        };
        let change = Change::Create {
            parent,
            name: name.clone(),
            kind: Kind::File,
            mode: owner.mode,
            uid: owner.uid,
            gid: owner.gid,
        };
        let asker = caller.clone();
        let lists = owner.lists.of_file();
        let ask = Ask::Change { user: self.user(caller), change };
        let known = self.ask(caller, ask, reply, move |fs, reply, outcome| match outcome {
            Ok(Answer::Changed { file, inode, .. }) => {
                let changes = set_lists(file, lists);
                fs.change_all(
                    &asker.clone(),
                    changes,
                    inode,
                    reply,
                    Box::new(move |fs, reply, inode| {
                        fs.answer_created_new(&asker, file, inode, new.flags, reply);
                    }),
                );
            }
            // Somebody made it since the kernel looked: without O_EXCL that is as good.
            Err(FsError::Exists) if new.flags & libc::O_EXCL == 0 => {
                let again = asker.clone();
                fs.ask(&again, Ask::Lookup { parent, name }, reply, move |fs, reply, outcome| match outcome {
                    Ok(Answer::File(file, inode)) => {
                        fs.answer_created(&asker, file, (&inode, Found::Old), new.flags, reply);
                    }
                    other => reply.refuse(refusal(other)),
                });
            }
            other => reply.refuse(refusal(other)),
        });
        if known == Answered::Elsewhere {
            self.warm(parent);
        }
    }

    pub(super) fn answer_created_new<R: RespondWith<Created>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        inode: &Inode,
        flags: i32,
        reply: Reply<R>,
    ) {
        self.answer_created(caller, file, (inode, Found::New), flags & !libc::O_TRUNC, reply);
    }

    fn answer_created<R: RespondWith<Created>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        (inode, found): (&Inode, Found),
        flags: i32,
        reply: Reply<R>,
    ) {
        match self.open_inode(caller, file, (inode, found), flags) {
            Ok(opened) => {
                let Shown { version, what: entry, .. } =
                    self.entry(file, inode, caller.since, self.file_ttl(caller, file, inode));
                let fs = Arc::clone(self);
                self.in_step(file, version, reply, move |reply| {
                    if reply.deliver(Created { entry, opened }) == Delivery::Gone {
                        fs.close_handle(opened.handle);
                    }
                });
            }
            Err(error) => reply.refuse(error),
        }
    }

    /// Clears the set-user-id bit, and the set-group-id bit of a program, as writing to a file does.
    pub(super) fn drop_set_id_bits(&self, caller: &Caller, file: FileId, inode: &Inode) {
        let mode = without_set_id(inode.mode);
        if mode == inode.mode {
            return;
        }
        let change = Change::SetAttr { file, change: AttrChange { mode: Some(mode), ..AttrChange::default() } };
        let ask = Ask::Change { user: self.user(caller), change };
        let log = Box::new(move |outcome| {
            if let Err(error) = outcome {
                tracing::warn!(%file, %error, "clear set-id bits after a write");
            }
        });
        self.engine.submit(ask, self.settings.metadata_timeout, log);
    }

    /// Closes a handle: its way through the kernel, its locks, its file.
    pub(super) fn close_handle(&self, handle: HandleId) -> Option<Arc<OpenHandle>> {
        let Some(Handle::File(open)) = self.handles.remove(handle) else { return None };
        if let (Some(kind), Some(write_pattern)) = (&open.kind, write_pattern(&open.file)) {
            self.write_patterns.note(kind.clone(), write_pattern);
        }
        if let Some(backing) = self.files.kernel_close(&open.file, open.access, open.way)
            && let Some(kernel) = self.kernel.get()
        {
            kernel.unregister(backing);
        }
        if let Some(pid) = open.copier {
            self.sources.closed(pid);
        }
        let missed = self.files.catch_up(&open.file);
        self.files.close_file(&open.file, open.access);
        // When the handle is gone, so that the kernel does not hear of what it saw once more.
        if missed {
            self.forget_pages(open.file.id());
        }
        Some(open)
    }
}

/// The kind of a file that an open makes or empties to write it only.
fn written_only(inode: &Inode, found: Found, flags: i32) -> Option<FileKind> {
    let is_fresh = found == Found::New || flags & libc::O_TRUNC != 0;
    let is_written_only = flags & libc::O_ACCMODE == libc::O_WRONLY;
    let place = inode.places.first().filter(|_| is_fresh && is_written_only)?;
    Some(FileKind::of(place.name.as_bytes()))
}

/// How a file was written that is closed; an empty one says nothing.
fn write_pattern(file: &OpenFile) -> Option<WritePattern> {
    match file.overlay().size {
        0 => None,
        _ if file.is_syncer() => Some(WritePattern::Syncing),
        PASSTHROUGH_MIN.. => Some(WritePattern::Large),
        _ => Some(WritePattern::Small),
    }
}

/// A mode after a write: set-group-id without group execution means something else and stays.
pub(super) fn without_set_id(mode: u16) -> u16 {
    let mode = mode & !0o4000;
    if mode & 0o010 != 0 { mode & !0o2000 } else { mode }
}
