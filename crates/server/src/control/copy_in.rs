//! Importing a directory into a volume, as records of the home.

use super::copy::{Copying, DEPTH_MAX, STEP_MAX, io};
use super::target::failed;
use crate::served::Served;
use bytes::Bytes;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use wayfs_content::{Builder, ChunkSink as _, Chunker, Entry};
use wayfs_control::report::CopyReport;
use wayfs_control::{ControlError, ErrorKind, Sink};
use wayfs_types::request::{Answer, Change, Request};
use wayfs_types::{AttrChange, Content, Digest, FileId, FsError, Inode, Kind, Name, WallTime};

/// Bytes read from a file at once.
const READ_LEN: usize = 1 << 20;
/// Changes between two waits for the disk, so that an import does not run away from it.
const SYNC_EVERY: u64 = 2000;

struct Import<'a> {
    served: &'a Served,
    copying: Copying<'a>,
    /// Files with several names that were made already: device and inode number to what they became.
    links: HashMap<(u64, u64), FileId>,
    changes: u64,
}

pub(super) fn run(served: &Served, from: &Path, into: &Path, out: &mut dyn Sink) -> Result<CopyReport, ControlError> {
    if !from.is_absolute() {
        return Err(ControlError::new(
            ErrorKind::Usage,
            "the directory to import must be given from the root",
            "Give an absolute path.",
        ));
    }
    let found = std::fs::metadata(from).map_err(|error| io("read", from, error))?;
    if !found.is_dir() {
        return Err(ControlError::new(
            ErrorKind::Usage,
            format!("{} is not a directory", from.display()),
            "Name a directory.",
        ));
    }
    let mut import = Import { served, copying: Copying::new(out), links: HashMap::new(), changes: 0 };
    let mut target = FileId::ROOT;
    for part in into.components() {
        if let std::path::Component::Normal(name) = part {
            let name = Name::try_from(name)
                .map_err(|error| ControlError::new(ErrorKind::Usage, error.to_string(), "Choose another directory."))?;
            target = import.directory(target, name, 0o755, (0, 0))?.0;
        }
    }
    import.tree(from, target, 0)?;
    served.volume.sync(STEP_MAX).map_err(|error| failed("sync", error))?;
    Ok(import.copying.report)
}

impl Import<'_> {
    fn tree(&mut self, from: &Path, into: FileId, depth: usize) -> Result<(), ControlError> {
        let mut names: Vec<_> = match std::fs::read_dir(from) {
            Ok(entries) => entries.filter_map(Result::ok).map(|entry| entry.file_name()).collect(),
            Err(error) => {
                self.copying.skip(from, error);
                return Ok(());
            }
        };
        names.sort();
        for name in names {
            let path = from.join(&name);
            self.copying.at(&path)?;
            match (std::fs::symlink_metadata(&path), Name::try_from(name.as_os_str())) {
                (Ok(found), Ok(name)) if depth < DEPTH_MAX => self.one(&path, &found, into, name, depth)?,
                (Ok(_), Ok(_)) => self.copying.skip(&path, "the directory is too deep"),
                (Err(error), _) => self.copying.skip(&path, error),
                (_, Err(error)) => self.copying.skip(&path, error),
            }
        }
        Ok(())
    }

    fn one(
        &mut self,
        path: &Path,
        found: &Metadata,
        into: FileId,
        name: Name,
        depth: usize,
    ) -> Result<(), ControlError> {
        let mode = u16::try_from(found.mode() & 0o7777).expect("twelve bits fit");
        if found.is_dir() {
            let (directory, is_new) = self.directory(into, name, mode, (found.uid(), found.gid()))?;
            self.copying.report.directories += u64::from(is_new);
            self.tree(path, directory, depth + 1)?;
            let inode = self.served.volume.look(|replica| replica.inode(directory)).and_then(Result::ok).flatten();
            return inode.map_or(Ok(()), |inode| self.attributes(directory, &inode, found));
        }
        let key = (found.dev(), found.ino());
        if found.nlink() > 1
            && let Some(file) = self.links.get(&key).copied()
        {
            self.copying.report.files += 1;
            return self.replacing(into, &name, |import| {
                import.change(Change::Link { file, parent: into, name: name.clone() }).map(|_| ())
            });
        }
        let Some(kind) = self.kind(path, found) else { return Ok(()) };
        let content = match kind {
            Kind::File => match self.content(path)? {
                Some(content) => content,
                None => return Ok(()),
            },
            _ => Content::EMPTY,
        };
        let Some((file, inode, is_new)) = self.place(into, &name, &kind, found)? else { return Ok(()) };
        if kind == Kind::File {
            self.copying.report.bytes += content.size();
            if inode.content != content || inode.mtime != modified(found) {
                let store = Change::Store { file, base: inode.version, content, mtime: modified(found) };
                self.change(store).map_err(|error| io("import", path, error))?;
            }
        }
        if !is_new || kind != Kind::File {
            self.attributes(file, &inode, found)?;
        }
        if found.nlink() > 1 {
            self.links.insert(key, file);
        }
        self.copying.report.files += 1;
        Ok(())
    }

    fn kind(&mut self, path: &Path, found: &Metadata) -> Option<Kind> {
        let file_type = found.file_type();
        if file_type.is_file() {
            Some(Kind::File)
        } else if file_type.is_symlink() {
            match std::fs::read_link(path) {
                Ok(target) => Some(Kind::Symlink(Bytes::copy_from_slice(target.as_os_str().as_bytes()))),
                Err(error) => {
                    self.copying.skip(path, error);
                    None
                }
            }
        } else if file_type.is_fifo() {
            Some(Kind::Fifo)
        } else {
            self.copying.skip(path, "sockets and devices are not imported");
            None
        }
    }

    /// A directory of this name: the one that is there, or a new one.
    fn directory(
        &mut self,
        parent: FileId,
        name: Name,
        mode: u16,
        owner: (u32, u32),
    ) -> Result<(FileId, bool), ControlError> {
        let lookup = Request::Lookup { parent, name: name.clone() };
        match self.served.volume.request(lookup, STEP_MAX) {
            Ok(Answer::File(file, inode)) if inode.is_directory() => return Ok((file, false)),
            _ => {}
        }
        let mut made = None;
        let label = name.clone();
        let mkdir = Change::Mkdir { parent, name: name.clone(), mode, uid: owner.0, gid: owner.1 };
        self.replacing(parent, &name, |import| {
            made = Some(import.change(mkdir.clone())?.0);
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
        found: &Metadata,
    ) -> Result<Option<(FileId, Inode, bool)>, ControlError> {
        let lookup = Request::Lookup { parent: into, name: name.clone() };
        if let Ok(Answer::File(file, inode)) = self.served.volume.request(lookup, STEP_MAX)
            && inode.kind == *kind
        {
            return Ok(Some((file, *inode, false)));
        }
        let mode = u16::try_from(found.mode() & 0o7777).expect("twelve bits fit");
        let create = Change::Create {
            parent: into,
            name: name.clone(),
            kind: kind.clone(),
            mode,
            uid: found.uid(),
            gid: found.gid(),
        };
        let mut made = None;
        self.replacing(into, name, |import| {
            made = Some(import.change(create.clone())?);
            Ok(())
        })?;
        Ok(made.map(|(file, inode)| (file, *inode, true)))
    }

    /// Mode, owner and time, if they differ.
    fn attributes(&mut self, file: FileId, inode: &Inode, found: &Metadata) -> Result<(), ControlError> {
        let mode = u16::try_from(found.mode() & 0o7777).expect("twelve bits fit");
        let is_link = matches!(inode.kind, Kind::Symlink(_));
        let change = AttrChange {
            mode: Some(mode).filter(|mode| *mode != inode.mode && !is_link),
            uid: Some(found.uid()).filter(|uid| *uid != inode.uid),
            gid: Some(found.gid()).filter(|gid| *gid != inode.gid),
            mtime: Some(modified(found)).filter(|mtime| *mtime != inode.mtime),
        };
        if change == AttrChange::default() {
            return Ok(());
        }
        self.change(Change::SetAttr { file, change }).map(|_| ()).map_err(|error| failed("set attributes", error))
    }

    fn change(&mut self, change: Change) -> Result<(FileId, Box<Inode>), FsError> {
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

    /// Reads a file into the chunk store; `None` if it could not be read.
    fn content(&mut self, path: &Path) -> Result<Option<Content>, ControlError> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) => {
                self.copying.skip(path, error);
                return Ok(None);
            }
        };
        let mut sink = self.served.volume.contents().sink();
        let (mut chunker, mut builder) = (Chunker::new(), Builder::new());
        let mut is_small = true;
        let mut buffer = vec![0; READ_LEN];
        loop {
            let len = match file.read(&mut buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.copying.skip(path, error);
                    return Ok(None);
                }
            };
            let chunks = if len == 0 { std::mem::take(&mut chunker).finish() } else { chunker.push(&buffer[..len]) };
            if len == 0 && is_small && chunks.len() <= 1 {
                let bytes = chunks.into_iter().next().unwrap_or_default();
                return wayfs_content::build(&bytes, &mut sink).map(Some).map_err(|error| io("import", path, error));
            }
            for chunk in chunks {
                is_small = false;
                let entry = Entry { digest: Digest::of(&chunk), len: chunk.len() as u64 };
                sink.put(entry.digest, chunk).map_err(|error| io("import", path, error))?;
                builder.push(entry, &mut sink).map_err(|error| io("import", path, error))?;
            }
            if len == 0 {
                return builder.finish(&mut sink).map(Some).map_err(|error| io("import", path, error));
            }
            self.copying.at(path)?;
        }
    }
}

fn modified(found: &Metadata) -> WallTime {
    WallTime::from_parts(found.mtime(), u32::try_from(found.mtime_nsec()).unwrap_or(0))
}
