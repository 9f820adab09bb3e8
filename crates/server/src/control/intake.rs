//! Putting what comes from outside into a volume, as records of the home. From directories and from archives alike.

use super::copy::{Copying, STEP_MAX, io};
use super::failed::failed;
use crate::served::Served;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use wayfs_content::{Builder, ChunkSink as _, Chunker, Entry};
use wayfs_control::{ControlError, ErrorKind, Owner};
use wayfs_types::request::{Answer, Change, Request, XattrPresence};
use wayfs_types::{AttrChange, Content, Digest, FileId, FsError, Inode, Kind, Name, WallTime, XattrName};

/// Bytes read from a file at once.
const READ_LEN: usize = 1 << 20;
/// Changes between two waits for the disk, so that an import does not run away from it.
const SYNC_EVERY: u64 = 2000;

/// What a file from outside has beside its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attributes {
    /// Permission bits, twelve of them.
    pub(super) mode: u16,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) mtime: WallTime,
    /// Only of namespaces that are kept.
    pub(super) xattrs: BTreeMap<XattrName, Bytes>,
}

/// Why contents were not taken in.
pub(super) enum Broken {
    /// They could not be read.
    Source(std::io::Error),
    /// Everything ends.
    Import(ControlError),
}

/// A volume that takes something in.
pub(super) struct Intake<'a> {
    pub(super) served: &'a Served,
    pub(super) copying: Copying<'a>,
    changes: u64,
}

impl<'a> Intake<'a> {
    pub(super) fn new(served: &'a Served, copying: Copying<'a>) -> Self {
        Self { served, copying, changes: 0 }
    }

    /// The directory of a path, made if it is not there.
    pub(super) fn directories(&mut self, path: &Path) -> Result<FileId, ControlError> {
        let mut at = FileId::ROOT;
        for part in path.components() {
            if let std::path::Component::Normal(name) = part {
                let name = Name::try_from(name).map_err(|error| {
                    ControlError::new(ErrorKind::Usage, error.to_string(), "Choose another directory.")
                })?;
                at = self.directory(at, name, 0o755, Owner { uid: 0, gid: 0 })?.0;
            }
        }
        Ok(at)
    }

    /// Waits until all is on the disk.
    pub(super) fn finish(&self) -> Result<(), ControlError> {
        self.served.volume.sync(STEP_MAX).map_err(|error| failed("sync", error))
    }

    /// A regular file with these bytes, in place of whatever stands there. Answers which it is, if it was made.
    pub(super) fn file(
        &mut self,
        (into, name): (FileId, &Name),
        content: Content,
        found: &Attributes,
        path: &Path,
    ) -> Result<Option<FileId>, ControlError> {
        let Some((file, inode, _)) = self.place(into, name, &Kind::File, found)? else { return Ok(None) };
        self.copying.report.bytes += content.size();
        let mut inode = inode;
        if inode.content != content || inode.mtime != found.mtime {
            let store = Change::Store { file, base: inode.version, content, mtime: found.mtime };
            inode = Arc::unwrap_or_clone(self.change(store).map_err(|error| io("import", path, error))?.1);
        }
        self.attributes(file, &inode, found)?;
        self.copying.report.files += 1;
        Ok(Some(file))
    }

    /// Anything without bytes: a symbolic link, a fifo.
    pub(super) fn special(
        &mut self,
        (into, name): (FileId, &Name),
        kind: &Kind,
        found: &Attributes,
    ) -> Result<Option<FileId>, ControlError> {
        let Some((file, inode, _)) = self.place(into, name, kind, found)? else { return Ok(None) };
        self.attributes(file, &inode, found)?;
        self.copying.report.files += 1;
        Ok(Some(file))
    }

    /// One more name of a file.
    pub(super) fn link(&mut self, file: FileId, into: FileId, name: &Name) -> Result<(), ControlError> {
        self.replacing(into, name, |intake| {
            intake.change(Change::Link { file, parent: into, name: name.clone() }).map(|_| ())
        })?;
        self.copying.report.files += 1;
        Ok(())
    }

    /// A directory of this name: the one that is there, or a new one.
    pub(super) fn directory(
        &mut self,
        parent: FileId,
        name: Name,
        mode: u16,
        owner: Owner,
    ) -> Result<(FileId, bool), ControlError> {
        let lookup = Request::Lookup { parent, name: name.clone() };
        match self.served.volume.request(lookup, STEP_MAX) {
            Ok(Answer::File(file, inode)) if inode.is_directory() => return Ok((file, false)),
            _ => {}
        }
        let mut made = None;
        let label = name.clone();
        let mkdir = Change::Mkdir { parent, name: name.clone(), mode, uid: owner.uid, gid: owner.gid };
        self.replacing(parent, &name, |intake| {
            made = Some(intake.change(mkdir.clone())?.0);
            Ok(())
        })?;
        made.map(|made| (made, true)).ok_or_else(|| failed("import", format!("directory {label} was not made")))
    }

    /// Does something under a name; what stands there of an earlier import is replaced.
    fn replacing(
        &mut self,
        parent: FileId,
        name: &Name,
        mut make: impl FnMut(&mut Self) -> Result<(), FsError>,
    ) -> Result<(), ControlError> {
        let mut result = make(self);
        if result == Err(FsError::Exists) {
            result = self.change(Change::Unlink { parent, name: name.clone() }).map(|_| ()).and_then(|()| make(self));
        }
        result.map_err(|error| io("import", Path::new(name.as_os_str()), error))
    }

    /// The file to import into: one of the same kind that is there already, or a new one.
    fn place(
        &mut self,
        into: FileId,
        name: &Name,
        kind: &Kind,
        found: &Attributes,
    ) -> Result<Option<(FileId, Inode, bool)>, ControlError> {
        let lookup = Request::Lookup { parent: into, name: name.clone() };
        if let Ok(Answer::File(file, inode)) = self.served.volume.request(lookup, STEP_MAX)
            && inode.kind == *kind
        {
            return Ok(Some((file, Arc::unwrap_or_clone(inode), false)));
        }
        let create = Change::Create {
            parent: into,
            name: name.clone(),
            kind: kind.clone(),
            mode: found.mode,
            uid: found.uid,
            gid: found.gid,
        };
        let mut made = None;
        self.replacing(into, name, |intake| {
            made = Some(intake.change(create.clone())?);
            Ok(())
        })?;
        Ok(made.map(|(file, inode)| (file, Arc::unwrap_or_clone(inode), true)))
    }

    /// Mode, owner, time and extended attributes, as far as they differ.
    pub(super) fn attributes(&mut self, file: FileId, inode: &Inode, found: &Attributes) -> Result<(), ControlError> {
        for (name, value) in &found.xattrs {
            if inode.xattrs.get(name) != Some(value) {
                let (name, value) = (name.clone(), Some(value.clone()));
                let change = Change::SetXattr { file, name, value, presence: XattrPresence::Any };
                self.change(change).map_err(|error| failed("set extended attribute", error))?;
            }
        }
        let is_link = matches!(inode.kind, Kind::Symlink(_));
        let change = AttrChange {
            mode: Some(found.mode).filter(|mode| *mode != inode.mode && !is_link),
            uid: Some(found.uid).filter(|uid| *uid != inode.uid),
            gid: Some(found.gid).filter(|gid| *gid != inode.gid),
            mtime: Some(found.mtime).filter(|mtime| *mtime != inode.mtime),
        };
        if change == AttrChange::default() {
            return Ok(());
        }
        self.change(Change::SetAttr { file, change }).map(|_| ()).map_err(|error| failed("set attributes", error))
    }

    pub(super) fn change(&mut self, change: Change) -> Result<(FileId, Arc<Inode>), FsError> {
        self.changes += 1;
        if self.changes.is_multiple_of(SYNC_EVERY) {
            self.served.volume.sync(STEP_MAX).map_err(|_| FsError::Io)?;
        }
        let user = rustix::process::geteuid().as_raw();
        match self.served.volume.request(Request::Change { user, change }, STEP_MAX)? {
            Answer::Changed { file, inode, .. } => Ok((file, inode)),
            _ => Err(FsError::Io),
        }
    }

    /// Reads bytes into the chunk store.
    pub(super) fn content(&mut self, source: &mut dyn Read, path: &Path) -> Result<Content, Broken> {
        let fail = |error: &dyn std::fmt::Display| Broken::Import(io("import", path, error));
        let mut sink = self.served.volume.contents().sink();
        let (mut chunker, mut builder) = (Chunker::new(), Builder::new());
        let mut is_small = true;
        let mut buffer = vec![0; READ_LEN];
        loop {
            let len = match source.read(&mut buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Broken::Source(error)),
            };
            let chunks = if len == 0 { std::mem::take(&mut chunker).finish() } else { chunker.push(&buffer[..len]) };
            if len == 0 && is_small && chunks.len() <= 1 {
                let bytes = chunks.into_iter().next().unwrap_or_default();
                return wayfs_content::build(&bytes, &mut sink).map_err(|error| fail(&error));
            }
            for chunk in chunks {
                is_small = false;
                let entry = Entry { digest: Digest::of(&chunk), len: chunk.len() as u64 };
                sink.put(entry.digest, chunk).map_err(|error| fail(&error))?;
                builder.push(entry, &mut sink).map_err(|error| fail(&error))?;
            }
            if len == 0 {
                return builder.finish(&mut sink).map_err(|error| fail(&error));
            }
            self.copying.at(path).map_err(Broken::Import)?;
        }
    }
}
