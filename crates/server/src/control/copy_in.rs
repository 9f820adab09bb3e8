//! Importing a directory into a volume, as records of the home.

use super::copy::{Copying, DEPTH_MAX, io};
use super::intake::{Attributes, Broken, Intake};
use super::xattr;
use crate::served::Served;
use bytes::Bytes;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use wayfs_control::report::CopyReport;
use wayfs_control::{ControlError, ErrorKind, Owner, Sink};
use wayfs_types::{Content, FileId, Kind, Name, WallTime};

struct Import<'a> {
    intake: Intake<'a>,
    /// Files with several names that were made already: device and inode number to what they became.
    links: HashMap<(u64, u64), FileId>,
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
            "Name a directory, or an archive with --tar.",
        ));
    }
    let mut import = Import { intake: Intake::new(served, Copying::new(out)), links: HashMap::new() };
    let target = import.intake.directories(into)?;
    import.tree(from, target, 0)?;
    import.intake.finish()?;
    Ok(import.intake.copying.report)
}

impl Import<'_> {
    fn tree(&mut self, from: &Path, into: FileId, depth: usize) -> Result<(), ControlError> {
        let mut names: Vec<_> = match std::fs::read_dir(from) {
            Ok(entries) => entries.filter_map(Result::ok).map(|entry| entry.file_name()).collect(),
            Err(error) => {
                self.intake.copying.skip(from, error);
                return Ok(());
            }
        };
        names.sort();
        for name in names {
            let path = from.join(&name);
            self.intake.copying.at(&path)?;
            match (std::fs::symlink_metadata(&path), Name::try_from(name.as_os_str())) {
                (Ok(found), Ok(name)) if depth < DEPTH_MAX => self.one(&path, &found, into, name, depth)?,
                (Ok(_), Ok(_)) => self.intake.copying.skip(&path, "the directory is too deep"),
                (Err(error), _) => self.intake.copying.skip(&path, error),
                (_, Err(error)) => self.intake.copying.skip(&path, error),
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
        let attributes = self.attributes(path, found);
        if found.is_dir() {
            let owner = Owner { uid: attributes.uid, gid: attributes.gid };
            let (directory, is_new) = self.intake.directory(into, name, attributes.mode, owner)?;
            self.intake.copying.report.directories += u64::from(is_new);
            self.tree(path, directory, depth + 1)?;
            let inode = self.intake.served.volume.look(|replica| replica.inode(directory));
            let inode = inode.and_then(Result::ok).flatten();
            return inode.map_or(Ok(()), |inode| self.intake.attributes(directory, &inode, &attributes));
        }
        let key = (found.dev(), found.ino());
        if found.nlink() > 1
            && let Some(file) = self.links.get(&key).copied()
        {
            return self.intake.link(file, into, &name);
        }
        let made = match self.kind(path, found) {
            None => None,
            Some(Kind::File) => match self.content(path)? {
                Some(content) => self.intake.file((into, &name), content, &attributes, path)?,
                None => None,
            },
            Some(kind) => self.intake.special((into, &name), &kind, &attributes)?,
        };
        if let Some(file) = made.filter(|_| found.nlink() > 1) {
            self.links.insert(key, file);
        }
        Ok(())
    }

    fn attributes(&mut self, path: &Path, found: &Metadata) -> Attributes {
        let is_link = found.file_type().is_symlink();
        let xattrs = if is_link { Ok(Default::default()) } else { xattr::read(path) };
        let xattrs = xattrs.unwrap_or_else(|error| {
            self.intake.copying.skip(path, format_args!("its extended attributes: {error}"));
            Default::default()
        });
        Attributes {
            mode: u16::try_from(found.mode() & 0o7777).expect("twelve bits fit"),
            uid: found.uid(),
            gid: found.gid(),
            mtime: WallTime::from_parts(found.mtime(), u32::try_from(found.mtime_nsec()).unwrap_or(0)),
            xattrs,
        }
    }

    fn kind(&mut self, path: &Path, found: &Metadata) -> Option<Kind> {
        let file_type = found.file_type();
        if file_type.is_file() {
            Some(Kind::File)
        } else if file_type.is_symlink() {
            match std::fs::read_link(path) {
                Ok(target) => Some(Kind::Symlink(Bytes::copy_from_slice(target.as_os_str().as_bytes()))),
                Err(error) => {
                    self.intake.copying.skip(path, error);
                    None
                }
            }
        } else if file_type.is_fifo() {
            Some(Kind::Fifo)
        } else {
            self.intake.copying.skip(path, "sockets and devices are not imported");
            None
        }
    }

    /// Reads a file into the chunk store; `None` if it could not be read.
    fn content(&mut self, path: &Path) -> Result<Option<Content>, ControlError> {
        let read = match File::open(path) {
            Ok(mut file) => self.intake.content(&mut file, path),
            Err(error) => Err(Broken::Source(error)),
        };
        match read {
            Ok(content) => Ok(Some(content)),
            Err(Broken::Source(error)) => {
                self.intake.copying.skip(path, error);
                Ok(None)
            }
            Err(Broken::Import(error)) => Err(error),
        }
    }
}
