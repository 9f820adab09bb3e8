//! Extended attributes: kept ones, and `user.wayfs.*`, which tell about the file and are not listed. Some of these can be set:
//! `user.wayfs.exclusive`, on directories, and on the root the numbers of whom the volume names.

use super::Error;
use super::acl::{self, Acl, is_acl};
use super::asking::refusal;
use super::caller::Caller;
use super::core::FileSystem;
use super::people;
use super::reply::{Reply, RespondWith};
use super::results::{XattrNames, XattrValue};
use crate::live::FactName;
use bytes::Bytes;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use wayfs_types::request::{Answer, Change, Request, XattrPresence};
use wayfs_types::{AttrChange, Fact, Facts, FileId, FsError, Inode, XattrName};

/// Attributes that tell; copies do not carry them along, since they are not listed.
const TELLING: &[u8] = b"user.wayfs.";
/// Tells of a root whom the volume names.
const PEOPLE: &str = "people";
/// Largest value, as the kernel has it.
const VALUE_MAX: usize = 64 * 1024;
/// Longest wait for what the servers know of a file.
const FACTS_PATIENCE: Duration = Duration::from_secs(2);

/// The label of a file. `ls -l` asks each file for it, one request each, until it hears that there are none at all.
const LABEL: &[u8] = b"security.selinux";
/// There if the kernel uses labels.
const LABELS_IN_USE: &str = "/sys/fs/selinux/enforce";

/// What is said of an attribute that a file does not have. Where nobody uses labels, `ls -l` of many files costs a
/// fraction if it is told so with the first.
fn none_of(name: &[u8]) -> FsError {
    static ARE_LABELS_USED: LazyLock<bool> = LazyLock::new(|| std::path::Path::new(LABELS_IN_USE).exists());
    if name == LABEL && !*ARE_LABELS_USED { FsError::Unsupported } else { FsError::NoAttribute }
}

impl FileSystem {
    /// Whether such an attribute is kept, and shown here.
    fn is_kept(&self, name: &[u8]) -> bool {
        let is_of_kept_space = [&b"user."[..], b"security.", b"trusted."].iter().any(|space| name.starts_with(space));
        is_of_kept_space || (is_acl(name) && self.has_lists.load(Ordering::Relaxed))
    }

    pub(crate) fn xattr<R: RespondWith<XattrValue>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        name: &OsStr,
        reply: Reply<R>,
    ) {
        let bytes = name.as_bytes();
        if let Some(what) = bytes.strip_prefix(TELLING) {
            return match std::str::from_utf8(what) {
                Ok(PEOPLE) if file == FileId::ROOT => self.with_inode(caller, file, reply, |_, reply, _, root| {
                    reply.give(XattrValue(people::People::of_volume(root).lines().into()));
                }),
                Ok(what) => self.tell(file, what, reply),
                Err(_) => reply.refuse(FsError::NoAttribute),
            };
        }
        if !self.is_kept(bytes) {
            return reply.refuse(FsError::Unsupported);
        }
        let Ok(name) = XattrName::new(bytes) else { return reply.refuse(FsError::NoAttribute) };
        self.with_inode(caller, file, reply, move |fs, reply, _, inode| match inode.xattrs.get(&name) {
            Some(value) if is_acl(name.as_bytes()) => match Acl::parse(value) {
                Some(list) => reply.give(XattrValue(list.shown(fs.identities()).to_bytes().into())),
                None => reply.refuse(FsError::NoAttribute),
            },
            Some(value) => reply.give(XattrValue(value.clone())),
            None => reply.refuse(none_of(name.as_bytes())),
        });
    }

    /// A file with uncommitted writes is *modified* and none of the facts holds of it, whatever the engine says of its last
    /// version.
    fn tell<R: RespondWith<XattrValue>>(self: &Arc<Self>, file: FileId, what: &str, reply: Reply<R>) {
        let answer = |value: Option<String>, reply: Reply<R>| match value {
            Some(value) => reply.give(XattrValue(value.into())),
            None => reply.refuse(FsError::NoAttribute),
        };
        let Ok(fact) = what.parse::<FactName>() else {
            return answer(self.engine.attribute(file, what), reply);
        };
        if self.files.find(file).is_some_and(|open| open.is_dirty()) {
            return answer(Some(fact.told(Facts { safe: Fact::No, visible: Fact::No, stable: Fact::No })), reply);
        }
        let Some(version) = self.engine.inode(file).map(|inode| inode.version) else {
            return answer(None, reply);
        };
        // What another wrote only the servers know.
        let told = move |outcome| match outcome {
            Ok(Answer::Facts(facts)) => answer(facts.first().map(|facts| fact.told(*facts)), reply),
            Ok(_) => reply.refuse(FsError::Io),
            Err(error) => reply.refuse(error),
        };
        self.engine.submit(Request::Facts { versions: vec![(file, version)] }, FACTS_PATIENCE, Box::new(told));
    }

    pub(crate) fn list_xattrs<R: RespondWith<XattrNames>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        reply: Reply<R>,
    ) {
        let is_root = caller.uid == 0;
        self.with_inode(caller, file, reply, move |fs, reply, _, inode| {
            // As on local file systems: what only the superuser may read is not even named to others.
            // What makes a directory exclusive is asked for by its name: a copy of the tree is not to be so as well.
            let kept = inode.xattrs.keys().filter(|name| !name.as_bytes().starts_with(TELLING));
            let shown = kept.filter(|name| is_root || !name.as_bytes().starts_with(b"trusted."));
            let shown = shown.filter(|name| fs.is_kept(name.as_bytes()));
            reply.give(XattrNames(shown.cloned().collect()));
        });
    }

    pub(crate) fn set_xattr<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        (name, value): (&OsStr, &[u8]),
        flags: i32,
        reply: Reply<R>,
    ) {
        let presence = match flags {
            libc::XATTR_CREATE => XattrPresence::MustBeNew,
            libc::XATTR_REPLACE => XattrPresence::MustExist,
            0 => XattrPresence::Any,
            _ => return reply.refuse(FsError::Invalid),
        };
        if value.len() > VALUE_MAX {
            return reply.refuse(FsError::TooBig);
        }
        if is_acl(name.as_bytes()) && self.has_lists.load(Ordering::Relaxed) {
            return self.set_list(caller, file, name.as_bytes(), Some(value), reply);
        }
        let value = Some(Bytes::copy_from_slice(value));
        self.change_xattr(caller, file, name, (value, presence), reply);
    }

    pub(crate) fn remove_xattr<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        name: &OsStr,
        reply: Reply<R>,
    ) {
        if is_acl(name.as_bytes()) && self.has_lists.load(Ordering::Relaxed) {
            return self.set_list(caller, file, name.as_bytes(), None, reply);
        }
        self.change_xattr(caller, file, name, (None, XattrPresence::MustExist), reply);
    }

    /// Sets or removes an access control list. The mode of the file follows its own; a list that says no more is not kept.
    fn set_list<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        which: &[u8],
        value: Option<&[u8]>,
        reply: Reply<R>,
    ) {
        let list = match value.map(|value| Acl::parse(value).ok_or(Error::Refused(FsError::Invalid))).transpose() {
            Ok(list) => list.map(|list| list.kept(self.identities())).transpose(),
            Err(error) => Err(error),
        };
        let list = match list {
            Ok(list) => list,
            Err(error) => return reply.refuse(error),
        };
        let (asker, is_own, name) = (caller.clone(), which == acl::ACCESS, acl::name(which));
        self.with_inode(caller, file, reply, move |fs, reply, file, inode| {
            if !is_own && !inode.is_directory() && list.is_some() {
                return reply.refuse(FsError::AccessDenied);
            }
            let mode = list.as_ref().filter(|_| is_own).map(|list| inode.mode & !0o777 | list.bits());
            let value = list.filter(|list| !is_own || !list.is_plain()).map(|list| Bytes::from(list.to_bytes()));
            let of_removed = fs.files.find(file).and_then(|open| {
                open.change_removed(inode, (fs.files.now(), fs.user(&asker)), |inode| {
                    inode.mode = mode.unwrap_or(inode.mode);
                    match &value {
                        Some(value) => inode.xattrs.insert(name.clone(), value.clone()),
                        None => inode.xattrs.remove(&name),
                    };
                })
            });
            if of_removed.is_some() {
                return reply.give(());
            }
            let mut changes = VecDeque::new();
            if inode.xattrs.get(&name) != value.as_ref() {
                changes.push_back(Change::SetXattr { file, name, value, presence: XattrPresence::Any });
            }
            if mode.is_some_and(|mode| mode != inode.mode) {
                changes.push_back(Change::SetAttr { file, change: AttrChange { mode, ..AttrChange::default() } });
            }
            let before = Arc::new(inode.clone());
            fs.change_all(&asker, changes, before, reply, Box::new(|_, reply, _| reply.give(())));
        });
    }

    fn change_xattr<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        name: &OsStr,
        (value, presence): (Option<Bytes>, XattrPresence),
        reply: Reply<R>,
    ) {
        let bytes = name.as_bytes();
        if bytes == Inode::EXCLUSIVE {
            return self.change_exclusive(caller, file, value, reply);
        }
        if people::names_somebody(bytes) {
            return self.change_people(caller, file, bytes, value, reply);
        }
        if bytes.starts_with(TELLING) {
            return reply.refuse(FsError::NotPermitted);
        }
        if !self.is_kept(bytes) {
            return reply.refuse(FsError::Unsupported);
        }
        let name = match XattrName::new(bytes) {
            Ok(name) => name,
            Err(error) => return reply.refuse(error),
        };
        let removed = self.files.find(file).and_then(|open| open.removed_inode());
        let with = (value.clone(), presence);
        let changed = removed.and_then(|seen| self.change_xattr_of_removed(caller, (file, &seen), &name, &with));
        if let Some(outcome) = changed {
            return reply.finish(outcome);
        }
        let change = Change::SetXattr { file, name: name.clone(), value, presence };
        let (asker, ask) = (caller.clone(), Request::Change { user: self.user(caller), change });
        self.ask(caller, ask, reply, move |fs, reply, outcome| match outcome {
            Ok(Answer::Changed { inode, .. }) => {
                fs.files.know(file, &inode);
                reply.give(());
            }
            // Another machine removed it: its handles have it still.
            Err(FsError::NotFound) => fs.with_removed(asker.pid, reply, file, move |fs, reply, file, seen| {
                let outcome = fs.change_xattr_of_removed(&asker, (file, seen), &name, &with);
                reply.finish(outcome.unwrap_or(Err(FsError::Stale)));
            }),
            other => reply.refuse(refusal(other)),
        });
    }

    /// Makes a directory exclusive, or not any more (`None`); answered when the home has it. What the value is says nothing.
    fn change_exclusive<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        value: Option<Bytes>,
        reply: Reply<R>,
    ) {
        let is_directory = self.engine.inode(file).is_some_and(|inode| inode.is_directory());
        let name = XattrName::new(Inode::EXCLUSIVE);
        let (Ok(name), true) = (name, is_directory) else { return reply.refuse(FsError::NotDirectory) };
        if !self.engine.is_connected() {
            return reply.refuse(FsError::Unreachable);
        }
        let (value, presence) = match value {
            Some(_) => (Some(Bytes::from_static(b"1")), XattrPresence::Any),
            None => (None, XattrPresence::MustExist),
        };
        self.change_ordered(caller, Change::SetXattr { file, name, value, presence }, reply);
    }

    /// Says which number somebody has in the volume; for the superuser and the owner of the root only, since it says whose files
    /// are whose. Mounts that are there keep what they began with.
    fn change_people<R: RespondWith<()>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        name: &[u8],
        value: Option<Bytes>,
        reply: Reply<R>,
    ) {
        let owner = self.engine.inode(FileId::ROOT).map(|root| self.identities().users.here(root.uid));
        if file != FileId::ROOT || (caller.uid != 0 && Some(caller.uid) != owner) {
            return reply.refuse(FsError::NotPermitted);
        }
        if value.as_ref().is_some_and(|value| !people::is_number(value)) {
            return reply.refuse(FsError::Invalid);
        }
        if !self.engine.is_connected() {
            return reply.refuse(FsError::Unreachable);
        }
        let Ok(name) = XattrName::new(name) else { return reply.refuse(FsError::Invalid) };
        let presence = if value.is_some() { XattrPresence::Any } else { XattrPresence::MustExist };
        self.change_ordered(caller, Change::SetXattr { file, name, value, presence }, reply);
    }

    /// Makes a change that is answered when the home has it.
    fn change_ordered<R: RespondWith<()>>(self: &Arc<Self>, caller: &Caller, change: Change, reply: Reply<R>) {
        let (asker, ask) = (caller.clone(), Request::Change { user: self.user(caller), change });
        self.ask(caller, ask, reply, move |fs, reply, outcome| match outcome {
            Ok(Answer::Changed { record, .. }) => fs.wait_ordered(&asker, record, reply),
            other => reply.refuse(refusal(other)),
        });
    }

    /// Of a file that lives on in its handles, which no record tells of; nothing if it has a name.
    fn change_xattr_of_removed(
        &self,
        caller: &Caller,
        (file, seen): (FileId, &Inode),
        name: &XattrName,
        (value, presence): &(Option<Bytes>, XattrPresence),
    ) -> Option<Result<(), FsError>> {
        let mut outcome = Ok(());
        let open = self.files.find(file)?;
        let value = value.as_ref();
        open.change_removed(seen, (self.files.now(), self.user(caller)), |inode| {
            let others = inode.xattrs.iter().filter(|(other, _)| *other != name);
            let taken: usize = others.map(|(other, value)| other.as_bytes().len() + value.len()).sum();
            let len = taken + value.map_or(0, |value| name.as_bytes().len() + value.len());
            outcome = match (presence, value, inode.xattrs.contains_key(name)) {
                (XattrPresence::MustBeNew, Some(_), true) => Err(FsError::Exists),
                (XattrPresence::MustExist, Some(_), false) | (_, None, false) => Err(FsError::NoAttribute),
                _ if len > Inode::XATTRS_LEN_MAX => Err(FsError::NoSpace),
                (_, Some(value), _) => {
                    inode.xattrs.insert(name.clone(), value.clone());
                    Ok(())
                }
                (_, None, true) => {
                    inode.xattrs.remove(name);
                    Ok(())
                }
            };
        })?;
        Some(outcome)
    }
}
