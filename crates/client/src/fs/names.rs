//! Operations on names.

use super::Error;
use super::acl::{self, Acl};
use super::asking::{Answered, Changed, refusal};
use super::attributes::FileKind;
use super::caller::Caller;
use super::core::FileSystem;
use super::reply::{Reply, Respond, RespondWith};
use super::results::{Absent, Entry, LinkTarget};
use crate::numbers::is_first;
use bytes::Bytes;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wayfs_types::request::{Answer, Change, Removed, RenameTarget, Request as Ask, XattrPresence};
use wayfs_types::{FileId, FsError, Inode, Kind, Name, Place, XattrName};

/// Longest target of a symbolic link in bytes (`PATH_MAX` less the zero).
const TARGET_MAX: usize = 4095;
/// Permission bits of a mode.
const MODE_BITS: u32 = 0o7777;
/// The set-group-id bit.
const SET_GID: u16 = 0o2000;

/// What `mknod` asks for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewNode {
    pub(crate) kind: FileKind,
    pub(crate) mode: NewMode,
    pub(crate) device: u32,
}

/// The mode that a program asks for, and what it wants taken off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewMode {
    pub(crate) asked: u32,
    pub(crate) umask: u32,
}

/// What is done with a file when all changes of it are made.
pub(super) type WithInode<R> = Box<dyn FnOnce(&Arc<FileSystem>, Reply<R>, &Inode) + Send>;

/// Checks a name; answers the refusal itself.
pub(super) fn checked<R: Respond>(name: &OsStr, reply: Reply<R>) -> Option<(Name, Reply<R>)> {
    match Name::try_from(name) {
        Ok(name) => Some((name, reply)),
        Err(error) => {
            reply.refuse(error);
            None
        }
    }
}

impl FileSystem {
    pub(crate) fn lookup<R: RespondWith<Entry> + RespondWith<Absent>>(
        self: &Arc<Self>,
        caller: &Caller,
        parent: FileId,
        name: &OsStr,
        reply: Reply<R>,
    ) {
        match name.as_encoded_bytes() {
            b"." => return self.find_by_handle(caller, parent, reply),
            b".." => return self.find_parent(caller, parent, reply),
            _ => {}
        }
        let Some((name, reply)) = checked(name, reply) else { return };
        let asker = caller.clone();
        let known = self.ask(caller, Ask::Lookup { parent, name }, reply, move |fs, reply, outcome| match outcome {
            Ok(Answer::File(file, inode)) => {
                let ttl = fs.ttl(&asker, parent);
                fs.second_walks.found(asker.pid, ttl, (file, &inode));
                fs.answer_entry(fs.entry(file, &inode, asker.since, ttl), reply);
            }
            Err(FsError::NotFound) => reply.give(Absent { ttl: fs.ttl(&asker, parent) }),
            other => reply.refuse(refusal(other)),
        });
        if known == Answered::Elsewhere {
            self.warm(parent);
        }
    }

    /// A file by its number: the kernel was given a handle of it (`open_by_handle_at`, NFS re-export) and has forgotten the
    /// file. Numbers are never given twice, so a handle is good for the life of the file, on every machine.
    fn find_by_handle<R: RespondWith<Entry>>(self: &Arc<Self>, caller: &Caller, file: FileId, reply: Reply<R>) {
        let is_gone =
            self.engine.inode(file).is_some_and(|inode| inode.is_removed()) && self.files.find(file).is_none();
        if is_gone {
            return reply.refuse(FsError::Stale);
        }
        self.entry_of(caller, file, reply);
    }

    /// A file by its number.
    pub(crate) fn entry_of<R: RespondWith<Entry>>(self: &Arc<Self>, caller: &Caller, file: FileId, reply: Reply<R>) {
        let asker = caller.clone();
        self.with_inode(caller, file, reply, move |fs, reply, file, inode| {
            fs.answer_entry(fs.entry(file, inode, asker.since, fs.file_ttl(&asker, file, inode)), reply);
        });
    }

    fn find_parent<R: RespondWith<Entry>>(self: &Arc<Self>, caller: &Caller, directory: FileId, reply: Reply<R>) {
        let asker = caller.clone();
        self.with_inode(caller, directory, reply, move |fs, reply, directory, inode| {
            let parent = inode.places.first().map_or(directory, |place| place.parent);
            fs.find_by_handle(&asker, parent, reply);
        });
    }

    /// Owner, group and mode of something new: a directory with the set-group-id bit hands on its group.
    pub(super) fn ownership(&self, caller: &Caller, parent: FileId, mode: NewMode) -> Result<Ownership, Error> {
        let (identities, directory) = (self.identities(), self.engine.inode(parent));
        let uid = identities.owner_of_new(directory.as_deref(), caller.uid)?;
        let mut gid = identities.group_of_new(directory.as_deref(), caller.gid)?;
        let (mut mode, lists) = self.inherited(directory.as_deref(), mode);
        if let Some(directory) = directory
            && directory.mode & SET_GID != 0
        {
            // Only root and members of the group may make set-group-id files for it; who is a member
            // cannot be known here, so others than root lose the bit, as they would without a group list.
            if gid != directory.gid && caller.uid != 0 && mode & 0o2010 == 0o2010 {
                mode &= !SET_GID;
            }
            gid = directory.gid;
            return Ok(Ownership { uid, gid, mode, lists, inherits_group: true });
        }
        Ok(Ownership { uid, gid, mode, lists, inherits_group: false })
    }

    /// Mode and access control lists of something new: those that its directory hands on, or what the umask leaves.
    fn inherited(&self, directory: Option<&Inode>, mode: NewMode) -> (u16, Lists) {
        let asked = (mode.asked & MODE_BITS) as u16;
        if !self.has_lists.load(Ordering::Relaxed) {
            return (asked, Lists::default());
        }
        match directory.and_then(|directory| acl::of(directory, acl::DEFAULT)) {
            None => (asked & !(mode.umask as u16), Lists::default()),
            Some(default) => {
                let own = default.inherited(asked);
                (
                    asked & !0o777 | own.bits(),
                    Lists { own: Some(own).filter(|own| !own.is_plain()), default: Some(default) },
                )
            }
        }
    }

    fn make<R: RespondWith<Entry>>(
        self: &Arc<Self>,
        caller: &Caller,
        change: Change,
        lists: Vec<(XattrName, Bytes)>,
        reply: Reply<R>,
    ) {
        let asker = caller.clone();
        self.change(caller, change, reply, move |fs, reply, Changed { file, inode, .. }| {
            let changes = set_lists(file, lists);
            fs.change_all(
                &asker.clone(),
                changes,
                inode,
                reply,
                Box::new(move |fs, reply, inode| {
                    fs.answer_entry(fs.entry(file, inode, asker.since, fs.file_ttl(&asker, file, inode)), reply);
                }),
            );
        });
    }

    /// Makes several changes, one after the other; `then` gets the inode after the last, or the one that was given.
    pub(super) fn change_all<R: Respond>(
        self: &Arc<Self>,
        caller: &Caller,
        mut changes: VecDeque<Change>,
        inode: Arc<Inode>,
        reply: Reply<R>,
        then: WithInode<R>,
    ) {
        let Some(change) = changes.pop_front() else { return then(self, reply, &inode) };
        let asker = caller.clone();
        self.change(caller, change, reply, move |fs, reply, changed| {
            fs.change_all(&asker, changes, changed.inode, reply, then);
        });
    }

    pub(crate) fn symlink<R: RespondWith<Entry>>(
        self: &Arc<Self>,
        caller: &Caller,
        parent: FileId,
        name: &OsStr,
        target: &OsStr,
        reply: Reply<R>,
    ) {
        let Some((name, reply)) = checked(name, reply) else { return };
        if target.len() > TARGET_MAX {
            reply.refuse(FsError::NameTooLong);
            return;
        }
        let (uid, gid) = match self.ownership(caller, parent, NewMode { asked: 0o777, umask: 0 }) {
            Ok(owner) => (owner.uid, owner.gid),
            Err(error) => return reply.refuse(error),
        };
        let kind = Kind::Symlink(Bytes::copy_from_slice(target.as_bytes()));
        self.make(caller, Change::Create { parent, name, kind, mode: 0o777, uid, gid }, Vec::new(), reply);
    }

    pub(crate) fn make_node<R: RespondWith<Entry>>(
        self: &Arc<Self>,
        caller: &Caller,
        parent: FileId,
        name: &OsStr,
        node: NewNode,
        reply: Reply<R>,
    ) {
        let Some((name, reply)) = checked(name, reply) else { return };
        let kind = match node.kind {
            FileKind::Regular => Kind::File,
            FileKind::Pipe => Kind::Fifo,
            FileKind::Socket => Kind::Socket,
            FileKind::CharacterDevice => Kind::CharDevice(node.device),
            FileKind::BlockDevice => Kind::BlockDevice(node.device),
            FileKind::Directory | FileKind::Symlink => {
                reply.refuse(FsError::Invalid);
                return;
            }
        };
        let Ownership { uid, gid, mode, lists, .. } = match self.ownership(caller, parent, node.mode) {
            Ok(owner) => owner,
            Err(error) => return reply.refuse(error),
        };
        self.make(caller, Change::Create { parent, name, kind, mode, uid, gid }, lists.of_file(), reply);
    }

    pub(crate) fn make_directory<R: RespondWith<Entry>>(
        self: &Arc<Self>,
        caller: &Caller,
        parent: FileId,
        name: &OsStr,
        mode: NewMode,
        reply: Reply<R>,
    ) {
        let Some((name, reply)) = checked(name, reply) else { return };
        let owner = match self.ownership(caller, parent, mode) {
            Ok(owner) => owner,
            Err(error) => return reply.refuse(error),
        };
        let mode = if owner.inherits_group { owner.mode | SET_GID } else { owner.mode };
        let change = Change::Mkdir { parent, name, mode, uid: owner.uid, gid: owner.gid };
        self.make(caller, change, owner.lists.of_directory(), reply);
    }

    pub(crate) fn unlink<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        parent: FileId,
        name: &OsStr,
        reply: Reply<R>,
    ) {
        let Some((name, reply)) = checked(name, reply) else { return };
        self.change(caller, Change::Unlink { parent, name }, reply, |fs, reply, changed| {
            fs.keep_removed(changed.removed);
            reply.give(());
        });
    }

    pub(crate) fn remove_directory<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        parent: FileId,
        name: &OsStr,
        reply: Reply<R>,
    ) {
        let Some((name, reply)) = checked(name, reply) else { return };
        self.change(caller, Change::Rmdir { parent, name }, reply, |_, reply, _| reply.give(()));
    }

    pub(crate) fn rename<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        (from_parent, from_name): (FileId, &OsStr),
        (to_parent, to_name): (FileId, &OsStr),
        target: RenameTarget,
        reply: Reply<R>,
    ) {
        let Some((from_name, reply)) = checked(from_name, reply) else { return };
        let Some((to_name, reply)) = checked(to_name, reply) else { return };
        let asker = caller.clone();
        let (from, to) = ((from_parent, from_name.clone()), (to_parent, to_name.clone()));
        let change = Change::Rename { from_parent, from_name, to_parent, to_name, target };
        self.when_whole(caller, from, reply, move |fs, reply| match target {
            RenameTarget::Exchange => {
                let again = asker.clone();
                fs.when_whole(&again, to, reply, move |fs, reply| fs.rename_whole(&asker, change, reply));
            }
            RenameTarget::Replace | RenameTarget::MustBeFree => fs.rename_whole(&asker, change, reply),
        });
    }

    fn rename_whole<R: RespondWith<()>>(self: &Arc<Self>, caller: &Caller, change: Change, reply: Reply<R>) {
        let moved = moved_names(&change);
        self.change(caller, change, reply, move |fs, reply, changed| {
            fs.keep_removed(changed.removed);
            fs.expire_moved(moved);
            reply.give(());
        });
    }

    /// The kernel moves what it had under one name to the other, and not what was renamed: where it has yet to hear that somebody else
    /// changed the one, the other leads astray as well. It hears of both when it lets go of the directories.
    fn expire_moved(&self, moved: Vec<(Place, Place)>) {
        for (from, to) in moved {
            if self.notices.is_entry_due(from.parent, &from.name) {
                self.notices.entry(to.parent, to.name);
            }
        }
    }

    pub(crate) fn link<R: RespondWith<Entry>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        parent: FileId,
        name: &OsStr,
        reply: Reply<R>,
    ) {
        let Some((name, reply)) = checked(name, reply) else { return };
        match file {
            file if is_first(file) => self.give_name(caller, file, (parent, name), reply),
            file => {
                let asker = caller.clone();
                self.when_file_whole(caller, file, reply, move |fs, reply| {
                    fs.make(&asker, Change::Link { file, parent, name }, Vec::new(), reply);
                });
            }
        }
    }

    pub(crate) fn read_link<R: RespondWith<LinkTarget>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        reply: Reply<R>,
    ) {
        self.with_inode(caller, file, reply, |_, reply, _, inode| match &inode.kind {
            Kind::Symlink(target) => reply.give(LinkTarget(target.clone())),
            _ => reply.refuse(FsError::Invalid),
        });
    }

    /// The last name of a file went: its open handles keep it to themselves.
    fn keep_removed(&self, removed: Option<Removed>) {
        if let Some(removed) = removed {
            self.files.removed(removed);
        }
    }
}

/// From which name to which a rename moves what the kernel has.
fn moved_names(change: &Change) -> Vec<(Place, Place)> {
    let Change::Rename { from_parent, from_name, to_parent, to_name, target } = change else { return Vec::new() };
    let from = Place { parent: *from_parent, name: from_name.clone() };
    let to = Place { parent: *to_parent, name: to_name.clone() };
    match target {
        RenameTarget::Exchange => vec![(from.clone(), to.clone()), (to, from)],
        RenameTarget::Replace | RenameTarget::MustBeFree => vec![(from, to)],
    }
}

/// Who a new file belongs to.
pub(super) struct Ownership {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mode: u16,
    pub(super) lists: Lists,
    inherits_group: bool,
}

/// Access control lists that something new gets from its directory.
#[derive(Debug, Default)]
pub(super) struct Lists {
    own: Option<Acl>,
    default: Option<Acl>,
}

impl Lists {
    /// As attributes of a file.
    pub(super) fn of_file(&self) -> Vec<(XattrName, Bytes)> {
        self.own.iter().map(|own| (acl::name(acl::ACCESS), own.to_bytes().into())).collect()
    }

    /// As attributes of a directory, which hands them on.
    fn of_directory(&self) -> Vec<(XattrName, Bytes)> {
        let default = self.default.iter().map(|default| (acl::name(acl::DEFAULT), default.to_bytes().into()));
        self.of_file().into_iter().chain(default).collect()
    }
}

/// Changes that give a file lists.
pub(super) fn set_lists(file: FileId, lists: Vec<(XattrName, Bytes)>) -> VecDeque<Change> {
    let set = |(name, value)| Change::SetXattr { file, name, value: Some(value), presence: XattrPresence::Any };
    lists.into_iter().map(set).collect()
}
