//! Attributes: reading and changing.

use super::Error;
use super::acl;
use super::asking::refusal;
use super::caller::Caller;
use super::core::FileSystem;
use super::ids::HandleId;
use super::names::set_lists;
use super::opening::without_set_id;
use super::reply::{Reply, RespondWith};
use super::results::CachedAttributes;
use crate::files::{Access, OpenFile, OperationError, WaitPolicy};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Request as Ask};
use wayfs_types::{AttrChange, FileId, FsError, Inode, Kind, WallTime, XattrName};

/// Changes of attributes; what is `None` stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// New permission bits; bits above them are ignored.
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New length: what is beyond it goes, what is missing is zeros.
    pub size: Option<u64>,
    /// New time of change of contents.
    pub mtime: Option<TimeChange>,
    /// The handle through which the caller asks, if through one.
    pub handle: Option<HandleId>,
    /// A truncation clears the set-user-id and set-group-id bits.
    pub kill_suid_gid: bool,
}

/// How a time is to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeChange {
    /// To the present.
    Now,
    /// To this time.
    To(WallTime),
}

/// How long the kernel may believe the attributes of the root, which are answered unchecked.
const ROOT_TTL: Duration = Duration::from_secs(1);

impl FileSystem {
    pub(crate) fn attributes_of<R: RespondWith<CachedAttributes>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        reply: Reply<R>,
    ) {
        if file == FileId::ROOT {
            // The root is always there, so that `df`, `cd` and unmounting never wait for anyone. What is
            // cached of it may be out of date, so the kernel asks again soon.
            let inode = self.engine.inode(file).unwrap_or_else(|| Arc::new(unknown_root()));
            return self.answer_attributes(self.attributes(file, &inode, caller.since), ROOT_TTL, reply);
        }
        let asker = caller.clone();
        self.with_inode(caller, file, reply, move |fs, reply, actual, inode| {
            let mut shown = fs.attributes(actual, inode, asker.since);
            shown.what.file = file;
            fs.answer_attributes(shown, fs.file_ttl(&asker, file, inode), reply);
        });
    }

    pub(crate) fn set_attributes<R: RespondWith<CachedAttributes>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        changes: SetAttributes,
        reply: Reply<R>,
    ) {
        let asker = caller.clone();
        self.with_inode(caller, file, reply, move |fs, reply, file, inode| {
            let Some(size) = changes.size else { return fs.change_attributes(&asker, file, inode, &changes, reply) };
            if !matches!(inode.kind, Kind::File) {
                return reply.refuse(FsError::Invalid);
            }
            if size > inode.content.size() && !fs.has_room(0) {
                return reply.refuse(FsError::NoSpace);
            }
            fs.resize(&asker, file, inode, (size, changes), reply);
        });
    }

    fn resize<R: RespondWith<CachedAttributes>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        inode: &Inode,
        (size, changes): (u64, SetAttributes),
        reply: Reply<R>,
    ) {
        if self.is_of_lost_memory(file) {
            return reply.refuse(FsError::Io);
        }
        let through = changes.handle.and_then(|handle| self.handles.file(handle));
        if let Some(open) = through.filter(|open| open.file.id() == file && open.access == Access::Write) {
            return match self.files.truncate(&open.file, size, self.user(caller)) {
                Ok(()) => self.change_attributes(caller, file, inode, &changes, reply),
                Err(error) => reply.refuse(error),
            };
        }
        let open = self.files.open_file(file, inode, Access::Write);
        if let Err(error) = self.files.truncate(&open, size, self.user(caller)) {
            self.files.close_file(&open, Access::Write);
            return reply.refuse(error);
        }
        let is_little = open.dirty_len() <= super::saving::INLINE_COMMIT_MAX;
        let outcome =
            if is_little { self.commit_file(&open, WaitPolicy::None) } else { Err(OperationError::WouldBlock) };
        match outcome {
            Err(OperationError::WouldBlock) => {}
            outcome => return self.resized(caller, &open, outcome.map(|_| ()), (&changes, inode), reply),
        }
        let (asker, inode) = (caller.clone(), inode.clone());
        self.on_worker(&self.savers, caller, reply, move |fs, slot| {
            let outcome = fs.commit_file(&open, fs.read_patience()).map(|_| ());
            match slot.take() {
                Some(reply) => fs.resized(&asker, &open, outcome, (&changes, &inode), reply),
                None => fs.files.close_file(&open, Access::Write),
            }
        });
    }

    fn resized<R: RespondWith<CachedAttributes>>(
        self: &Arc<Self>,
        caller: &Caller,
        open: &OpenFile,
        outcome: Result<(), OperationError>,
        (changes, before): (&SetAttributes, &Inode),
        reply: Reply<R>,
    ) {
        self.files.close_file(open, Access::Write);
        if let Err(slow) = outcome {
            return reply.refuse(slow.into_error());
        }
        let inode = self.engine.inode(open.id());
        self.change_attributes(caller, open.id(), inode.as_deref().unwrap_or(before), changes, reply);
    }

    /// Everything but the size.
    fn change_attributes<R: RespondWith<CachedAttributes>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        inode: &Inode,
        changes: &SetAttributes,
        reply: Reply<R>,
    ) {
        let mut change = match self.attribute_change(inode, changes) {
            Ok(change) => change,
            Err(error) => return reply.refuse(error),
        };
        if let Some(inode) = self.change_removed(caller, file, inode, &change) {
            let shown = self.attributes(file, &inode, caller.since);
            return self.answer_attributes(shown, self.file_ttl(caller, file, &inode), reply);
        }
        if let Some(mtime) = change.mtime
            && self.files.find(file).is_some_and(|open| open.set_mtime_if_dirty(mtime))
        {
            change.mtime = None;
        }
        if changes_nothing(&change, inode) {
            let shown = self.attributes(file, inode, caller.since);
            return self.answer_attributes(shown, self.file_ttl(caller, file, inode), reply);
        }
        let ask = Ask::Change { user: self.user(caller), change: Change::SetAttr { file, change } };
        let asker = caller.clone();
        self.ask(caller, ask, reply, move |fs, reply, outcome| match outcome {
            Ok(Answer::Changed { inode, .. }) => {
                fs.files.know(file, &inode);
                let lists = change.mode.and_then(|mode| list_of_mode(&inode, mode));
                let changes = set_lists(file, lists.into_iter().collect());
                fs.change_all(
                    &asker.clone(),
                    changes,
                    inode,
                    reply,
                    Box::new(move |fs, reply, inode| {
                        let shown = fs.attributes(file, inode, asker.since);
                        fs.answer_attributes(shown, fs.file_ttl(&asker, file, inode), reply);
                    }),
                );
            }
            // Gone between the look and the change.
            Err(FsError::NotFound) => fs.with_removed(asker.pid, reply, file, move |fs, reply, file, seen| {
                let changed = fs.change_removed(&asker, file, seen, &change);
                match changed.map(|inode| fs.attributes(file, &inode, asker.since)) {
                    Some(shown) => fs.answer_attributes(shown, Duration::ZERO, reply),
                    None => reply.refuse(FsError::Stale),
                }
            }),
            other => reply.refuse(refusal(other)),
        });
    }

    /// Changes attributes of a file that has no name any more; answers what it is then, or nothing if it has one.
    fn change_removed(&self, caller: &Caller, file: FileId, seen: &Inode, change: &AttrChange) -> Option<Arc<Inode>> {
        self.files.find(file)?.change_removed(seen, (self.files.now(), self.user(caller)), |inode| {
            if let Some(mode) = change.mode {
                inode.mode = mode;
                inode.xattrs.extend(list_of_mode(inode, mode));
            }
            inode.uid = change.uid.unwrap_or(inode.uid);
            inode.gid = change.gid.unwrap_or(inode.gid);
            inode.mtime = change.mtime.unwrap_or(inode.mtime);
        })
    }

    fn attribute_change(&self, inode: &Inode, changes: &SetAttributes) -> Result<AttrChange, Error> {
        let identities = self.identities();
        let mut change = AttrChange {
            mode: changes.mode.map(|mode| identities.mode_to_keep(inode, (mode & 0o7777) as u16)),
            uid: identities.owner_to_keep(changes.uid)?,
            gid: identities.group_to_keep(changes.gid)?,
            mtime: changes.mtime.map(|time| self.time(time)),
        };
        let gives_away = changes.uid.is_some() || changes.gid.is_some();
        let drops_set_id = (gives_away && !inode.is_directory()) || changes.kill_suid_gid;
        if drops_set_id {
            let mode = change.mode.unwrap_or(inode.mode);
            let dropped = without_set_id(mode);
            if dropped != mode || change.mode.is_some() {
                change.mode = Some(dropped);
            }
        }
        Ok(change)
    }

    fn time(&self, time: TimeChange) -> WallTime {
        match time {
            TimeChange::Now => self.files.now(),
            TimeChange::To(time) => time,
        }
    }
}

/// The access control list of a file that has one and gets another mode.
fn list_of_mode(inode: &Inode, mode: u16) -> Option<(XattrName, Bytes)> {
    let list = acl::of(inode, acl::ACCESS)?.with_mode(mode);
    Some((acl::name(acl::ACCESS), list.to_bytes().into()))
}

/// Whether a file has all that it is to get, as when an archive is unpacked by the one whom its files belong to.
/// A record that only moves the time of change would cost everyone as much as any other.
fn changes_nothing(change: &AttrChange, inode: &Inode) -> bool {
    change.mode.is_none_or(|mode| mode == inode.mode)
        && change.uid.is_none_or(|uid| uid == inode.uid)
        && change.gid.is_none_or(|gid| gid == inode.gid)
        && change.mtime.is_none_or(|mtime| mtime == inode.mtime)
}

/// What stands for the root before anything was ever heard of it.
fn unknown_root() -> Inode {
    Inode {
        kind: Kind::Directory,
        mode: 0o755,
        uid: 0,
        gid: 0,
        content: wayfs_types::Content::EMPTY,
        version: wayfs_types::RecordId::GENESIS,
        attr_version: wayfs_types::AttrVersion::GENESIS,
        mtime: WallTime::EPOCH,
        ctime: WallTime::EPOCH,
        btime: WallTime::EPOCH,
        places: Vec::new(),
        removed_from: None,
        merged_into: None,
        subdirectories: 0,
        unlisted: 0,
        xattrs: std::collections::BTreeMap::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_to_what_is_there_already_is_none() {
        let inode = Inode { uid: 7, gid: 8, mtime: WallTime::from_nanos(9), ..unknown_root() };
        let none = AttrChange::default();
        assert!(changes_nothing(&none, &inode));
        let same = AttrChange { mode: Some(0o755), uid: Some(7), gid: Some(8), mtime: Some(inode.mtime) };
        assert!(changes_nothing(&same, &inode));
        for differs in [
            AttrChange { mode: Some(0o700), ..same },
            AttrChange { uid: Some(0), ..same },
            AttrChange { gid: Some(0), ..same },
            AttrChange { mtime: Some(WallTime::from_nanos(10)), ..none },
        ] {
            assert!(!changes_nothing(&differs, &inode), "{differs:?}");
        }
    }
}
