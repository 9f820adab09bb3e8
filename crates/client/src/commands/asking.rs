//! Questions of users who do not own the daemon: what they may ask, and what the answers may hold.
//!
//! Who asks is told what he could find out through the mount with his own rights, and sums without names. Nothing that he asks
//! changes anything; a wait for what he wrote commits what he wrote, as `fsync` would.

use super::{MountCommands, PATIENCE, refused, syncing};
use crate::fs::Identities;
use crate::fs::permission::{READ, SEARCH};
use crate::paths;
use std::path::Path;
use std::time::Duration;
use wayfs_admin::{conflicts, queue};
use wayfs_control::report::FileInfo;
use wayfs_control::{Command, ControlError, Done, Peer, Sink, for_owner_only};
use wayfs_node::{LiveReplica, Volume};
use wayfs_types::{FileId, FsError, Inode, Name, Record, StorageError};

/// A user who asks, and by what his rights are judged.
pub(super) struct Asker<'a> {
    peer: &'a Peer,
    volume: &'a Volume,
    identities: &'a Identities,
}

/// How far a user comes on a path.
struct Seen {
    /// What is there, if anything is.
    inode: Option<Inode>,
    /// Whether he may read the directory that has the last name.
    is_listed: bool,
}

impl<'a> Asker<'a> {
    pub(super) fn new(peer: &'a Peer, volume: &'a Volume, identities: &'a Identities) -> Self {
        Self { peer, volume, identities }
    }

    /// Whether he is who wrote something, by the volume's number.
    pub(super) fn wrote(&self, user: u32) -> bool {
        self.identities.users.volume(self.peer.uid) == Some(user)
    }

    /// Whether a file is his.
    pub(super) fn owns(&self, file: FileId) -> bool {
        let inode = self.volume.look(|replica| replica.inode(file)).and_then(Result::ok).flatten();
        inode.is_some_and(|inode| self.identities.owns(self.peer, &inode))
    }

    /// Whether he may know of a file by the path that answers name, or wrote to it and the path is one that he may walk.
    pub(super) fn sees_file(&self, file: FileId, user: Option<u32>) -> bool {
        let path = self.volume.look(|replica| wayfs_node::paths::path_of(replica, file)).flatten();
        let wrote = user.is_some_and(|user| self.wrote(user));
        path.map_or(wrote, |path| self.reach(&path).is_some_and(|seen| wrote || self.shows(seen)))
    }

    /// The same for what a record is about.
    pub(super) fn sees_record(&self, record: &Record) -> bool {
        let path = self.volume.look(|replica| wayfs_node::paths::path_of_record(replica, record)).flatten();
        let wrote = self.wrote(record.user.0);
        path.map_or(wrote, |path| self.reach(&path).is_some_and(|seen| wrote || self.shows(seen)))
    }

    /// Whether he may know of a path: each directory above can be walked by him, and he finds the name there or owns the file.
    pub(super) fn sees(&self, path: &Path) -> bool {
        self.reach(path).is_some_and(|seen| self.shows(seen))
    }

    /// What a path leads to, if he can walk it.
    fn reach(&self, path: &Path) -> Option<Seen> {
        self.volume.look(|replica| self.walk(replica, path)).and_then(Result::ok).flatten()
    }

    /// Whether he may know of what he reached, had he not written to it.
    fn shows(&self, seen: Seen) -> bool {
        seen.is_listed || seen.inode.is_some_and(|inode| self.identities.owns(self.peer, &inode))
    }

    /// `None`: he does not come so far, or a directory is not known here.
    fn walk(&self, replica: &LiveReplica, path: &Path) -> Result<Option<Seen>, StorageError> {
        let Some(mut at) = replica.inode(FileId::ROOT)? else { return Ok(None) };
        let mut parent = FileId::ROOT;
        let mut is_listed = true;
        let mut names = path.iter().peekable();
        while let Some(name) = names.next() {
            if !self.may(&at, SEARCH) {
                return Ok(None);
            }
            is_listed = self.may(&at, READ);
            let Ok(name) = Name::try_from(name) else { return Ok(None) };
            let entry = replica.entry(parent, &name)?;
            let found = match &entry {
                Some(entry) => replica.inode(entry.file)?,
                None => None,
            };
            match (entry, found) {
                (Some(entry), Some(inode)) => (parent, at) = (entry.file, inode),
                // A name that is gone was in a directory whose names he may know.
                _ if names.peek().is_none() => return Ok(Some(Seen { inode: None, is_listed })),
                _ => return Ok(None),
            }
        }
        Ok(Some(Seen { inode: Some((*at).clone()), is_listed }))
    }

    fn may(&self, inode: &Inode, wanted: u16) -> bool {
        self.identities.may(self.peer, inode, wanted)
    }
}

impl MountCommands {
    /// Carries out what a user may ask.
    pub(super) fn run_for_asker(
        &self,
        asker: &Asker<'_>,
        command: Command,
        out: &mut dyn Sink,
    ) -> Result<Done, ControlError> {
        match command {
            Command::Status => Ok(Done::Status(self.status())),
            Command::Info { path, .. } => self.info_for(asker, &path).map(Done::Info),
            Command::Queue { limit, .. } => queue::run(&self.local(Some(asker)), limit).map(Done::Queue),
            Command::Sync { path, until, timeout_ms, .. } => {
                let timeout = timeout_ms.map_or(syncing::FOREVER, Duration::from_millis);
                let wanted = syncing::Wanted { path: path.as_deref(), until, asker: Some(asker) };
                self.sync(wanted, timeout, out).map(Done::Sync)
            }
            Command::ConflictsList { .. } => conflicts::list(&self.local(Some(asker))).map(Done::Conflicts),
            Command::ConflictsShow { which, .. } => {
                conflicts::find(&self.local(Some(asker)), &which).map(|(_, case)| Done::Conflict(case.report))
            }
            Command::ConflictsDiff { which, .. } => {
                conflicts::find(&self.local(Some(asker)), &which).map(|(_, case)| Done::Diff(conflicts::diff(case)))
            }
            _ => Err(for_owner_only(&command)),
        }
    }

    /// As the attributes `user.wayfs.*`, of which it tells more, it is for those who may read the file, and for its owner.
    fn info_for(&self, asker: &Asker<'_>, path: &Path) -> Result<FileInfo, ControlError> {
        let fail = |error: FsError| refused(&format!("look up {}", path.display()), error);
        let walks = |inode: &Inode| !inode.is_directory() || asker.may(inode, SEARCH);
        let (file, inode) = paths::resolve_through(self.volume(), path, PATIENCE, walks).map_err(fail)?;
        if !asker.may(&inode, READ) && !asker.identities.owns(asker.peer, &inode) {
            return Err(fail(FsError::AccessDenied));
        }
        Ok(self.info_of(path, file, &inode))
    }
}
