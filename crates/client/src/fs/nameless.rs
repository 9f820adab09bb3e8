//! Files that are made without a name (`O_TMPFILE`), and given one later or never (`linkat` of `/proc/self/fd/N`).
//!
//! They are on this machine only, as files whose last name went: nothing of them is in the log, and a daemon that begins
//! empties the directory in which their bytes lie. With its name such a file gets a record that makes it with all that it
//! holds, so nobody ever sees a part of it. Whether it may get one (`O_EXCL`: no) the kernel knows.

use super::caller::Caller;
use super::core::FileSystem;
use super::names::Ownership;
use super::opening::NewFile;
use super::reply::{Reply, RespondWith};
use super::results::{Created, Entry};
use crate::files::{OpenFile, OperationError, Stored};
use std::sync::Arc;
use wayfs_types::request::{Answer, Change, Request as Ask, XattrPresence};
use wayfs_types::{AttrChange, Content, FileId, FsError, Inode, Kind, Name, Place, RecordId, WallTime};

impl FileSystem {
    pub(crate) fn create_nameless<R: RespondWith<Created>>(
        self: &Arc<Self>,
        caller: &Caller,
        parent: FileId,
        new: NewFile,
        reply: Reply<R>,
    ) {
        let owner = match self.ownership(caller, parent, new.mode) {
            Ok(owner) => owner,
            Err(error) => return reply.refuse(error),
        };
        let Some(file) = self.notices.numbers.give() else { return reply.refuse(FsError::NoSpace) };
        let mut inode = nameless(parent, &owner, self.files.now());
        inode.xattrs.extend(owner.lists.of_file());
        self.files.begin_nameless(file, Arc::new(inode.clone()));
        self.answer_created_new(caller, file, &inode, new.flags, reply);
    }

    /// Gives such a file a name.
    pub(super) fn give_name<R: RespondWith<Entry>>(
        self: &Arc<Self>,
        caller: &Caller,
        file: FileId,
        place: (FileId, Name),
        reply: Reply<R>,
    ) {
        let Some(open) = self.files.find(file) else { return reply.refuse(FsError::Stale) };
        let asker = caller.clone();
        self.on_worker(&self.savers, caller, reply, move |fs, slot| {
            let outcome = fs.publish(&asker, &open, place);
            let Some(reply) = slot.take() else { return };
            match outcome {
                Ok(()) => fs.with_inode(&asker.clone(), open.id(), reply, move |fs, reply, file, inode| {
                    fs.answer_entry(fs.entry(file, inode, asker.since, fs.file_ttl(&asker, file, inode)), reply);
                }),
                Err(slow) => reply.refuse(slow.into_error()),
            }
        });
    }

    fn publish(
        &self,
        caller: &Caller,
        open: &Arc<OpenFile>,
        (parent, name): (FileId, Name),
    ) -> Result<(), OperationError> {
        let first = open.id();
        let before = open.removed_inode().ok_or(FsError::NotFound)?;
        let user = self.user(caller);
        let mut written = WallTime::EPOCH;
        let mut make = |content: Content, mtime: WallTime| {
            written = mtime;
            let (name, mode, uid, gid) = (name.clone(), before.mode, before.uid, before.gid);
            self.changed_here(user, Change::Publish { parent, name, mode, uid, gid, content })
        };
        let stored = self.files.give_name(open, self.read_patience(), &mut make)?;
        let file = open.id();
        self.notices.numbers.named(first, file);
        for (name, value) in before.xattrs.clone() {
            let presence = XattrPresence::Any;
            self.changed_here(user, Change::SetXattr { file, name, value: Some(value), presence })?;
        }
        if stored.inode.mtime != written {
            let change = AttrChange { mtime: Some(written), ..AttrChange::default() };
            self.changed_here(user, Change::SetAttr { file, change })?;
        }
        Ok(())
    }

    fn changed_here(&self, user: u32, change: Change) -> Result<Stored, FsError> {
        match self.engine.request(Ask::Change { user, change }, self.settings.metadata_timeout)? {
            Answer::Changed { record, inode, .. } => Ok(Stored { record, inode }),
            answer => {
                tracing::error!(?answer, "the replica answered a change with something else");
                Err(FsError::Io)
            }
        }
    }
}

/// The inode of a file that has no name: like one that lost its last.
fn nameless(parent: FileId, owner: &Ownership, now: WallTime) -> Inode {
    Inode {
        kind: Kind::File,
        mode: owner.mode,
        uid: owner.uid,
        gid: owner.gid,
        content: Content::EMPTY,
        version: RecordId::GENESIS,
        attr_version: wayfs_types::AttrVersion::GENESIS,
        mtime: now,
        ctime: now,
        btime: now,
        places: Vec::new(),
        removed_from: Some(Place { parent, name: Name::new("nameless").expect("a valid name") }),
        merged_into: None,
        subdirectories: 0,
        unlisted: 0,
        xattrs: std::collections::BTreeMap::new(),
    }
}
