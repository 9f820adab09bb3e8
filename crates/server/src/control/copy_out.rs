//! Exporting a volume into a directory.

use super::copy::{Copying, DEPTH_MAX, STEP_MAX, io, is_written, mode_of, note_stripped};
use super::failed::failed;
use super::pieces::Pieces;
use super::xattr;
use crate::served::Served;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{Seek as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use wayfs_control::report::CopyReport;
use wayfs_control::{ControlError, ErrorKind, Privileges, Sink};
use wayfs_types::request::{Answer, Request};
use wayfs_types::{FileId, FsError, Inode, Kind, Name, WallTime};

/// Entries asked for at once.
const PAGE: usize = 1024;

struct Export<'a> {
    served: &'a Served,
    copying: Copying<'a>,
    /// Files with several names that were written already.
    links: HashMap<FileId, PathBuf>,
    is_root: bool,
    privileges: Privileges,
}

pub(super) fn run(
    served: &Served,
    to: &Path,
    privileges: Privileges,
    out: &mut dyn Sink,
) -> Result<CopyReport, ControlError> {
    if !to.is_absolute() {
        return Err(ControlError::new(
            ErrorKind::Usage,
            "the directory to export to must be given from the root",
            "Give an absolute path.",
        ));
    }
    std::fs::create_dir_all(to).map_err(|error| io("make", to, error))?;
    let mut there = std::fs::read_dir(to).map_err(|error| io("read", to, error))?;
    if there.next().is_some() {
        let message = format!("{} is not empty", to.display());
        return Err(ControlError::new(ErrorKind::Usage, message, "Name a directory that is empty or not there."));
    }
    let is_root = rustix::process::geteuid().is_root();
    let mut export = Export { served, copying: Copying::new(out), links: HashMap::new(), is_root, privileges };
    export.directory(FileId::ROOT, to, 0)?;
    Ok(export.copying.report)
}

impl Export<'_> {
    fn directory(&mut self, directory: FileId, to: &Path, depth: usize) -> Result<(), ControlError> {
        let mut after: Option<Name> = None;
        loop {
            let request = Request::List { directory, after: after.clone(), limit: PAGE };
            let (entries, end) = match self.served.volume.request(request, STEP_MAX) {
                Ok(Answer::List { entries, end }) => (entries, end),
                // Removed by someone in the meantime: what is written of it stays.
                Err(FsError::NotFound) => return Ok(()),
                Ok(_) => return Err(failed("list", "the engine answered another question")),
                Err(error) => return Err(io("list", to, error)),
            };
            after = entries.last().map(|(name, _, _)| name.clone());
            for (name, file, inode) in entries {
                let path = to.join(name.as_os_str());
                self.copying.at(&path)?;
                if depth >= DEPTH_MAX {
                    self.copying.skip(&path, "the directory is too deep");
                    continue;
                }
                self.one(file, &inode, &path, depth)?;
            }
            if end || after.is_none() {
                return Ok(());
            }
        }
    }

    fn one(&mut self, file: FileId, inode: &Inode, path: &Path, depth: usize) -> Result<(), ControlError> {
        if let Some(first) = self.links.get(&file) {
            std::fs::hard_link(first, path).map_err(|error| io("link", path, error))?;
            self.copying.report.files += 1;
            return Ok(());
        }
        let made = match &inode.kind {
            Kind::Directory => {
                std::fs::create_dir(path).map_err(|error| io("make", path, error))?;
                self.copying.report.directories += 1;
                self.directory(file, path, depth + 1)?;
                self.attributes(inode, path).map_err(|error| io("set attributes of", path, error))?;
                return Ok(());
            }
            Kind::File => self.file(file, inode, path)?,
            Kind::Symlink(target) => {
                symlink(OsStr::from_bytes(target), path).map_err(|error| io("make", path, error))?;
                if self.is_root {
                    lchown(path, Some(inode.uid), Some(inode.gid)).map_err(|error| io("set owner of", path, error))?;
                }
                true
            }
            Kind::Fifo | Kind::Socket | Kind::CharDevice(_) | Kind::BlockDevice(_) => {
                self.copying.skip(path, "pipes, sockets and devices are not exported");
                false
            }
        };
        if made {
            self.copying.report.files += 1;
            if inode.links() > 1 {
                self.links.insert(file, path.to_owned());
            }
        }
        Ok(())
    }

    fn file(&mut self, file: FileId, inode: &Inode, path: &Path) -> Result<bool, ControlError> {
        let mut target = File::create_new(path).map_err(|error| io("make", path, error))?;
        if let Err(error) = self.bytes(file, inode, &mut target, path) {
            // Half a file under its right name would be taken for the whole.
            drop(target);
            let _ = std::fs::remove_file(path);
            match error {
                Stopped::Caller(error) => return Err(error),
                Stopped::File(why) => {
                    self.copying.skip(path, why);
                    return Ok(false);
                }
            }
        }
        drop(target);
        self.attributes(inode, path).map_err(|error| io("set attributes of", path, error))?;
        self.copying.report.bytes += inode.content.size();
        Ok(true)
    }

    fn bytes(&mut self, file: FileId, inode: &Inode, target: &mut File, path: &Path) -> Result<(), Stopped> {
        let whole = |error: std::io::Error| Stopped::Caller(io("write", path, error));
        let reader = Pieces::new(self.served, file, inode);
        let mut offset = 0;
        while let Some(piece) = reader.at(offset).map_err(Stopped::File)? {
            if piece.is_hole() {
                target.seek_relative(i64::try_from(piece.len()).unwrap_or(i64::MAX)).map_err(whole)?;
            } else {
                target.write_all(&reader.bytes(&piece).map_err(Stopped::File)?).map_err(whole)?;
            }
            offset += piece.len();
            self.copying.at(path).map_err(Stopped::Caller)?;
        }
        // A hole at the end is there only if the file is as long.
        target.set_len(inode.content.size()).map_err(whole)
    }

    fn attributes(&mut self, inode: &Inode, path: &Path) -> std::io::Result<()> {
        let privileges = self.privileges;
        note_stripped(&mut self.copying, inode, path, privileges);
        if self.is_root {
            chown(path, Some(inode.uid), Some(inode.gid))?;
        }
        xattr::write(path, &inode.xattrs, |name| is_written(name, privileges)).or_else(|error| match error.kind() {
            // The file system has none, or these need rights that this server lacks.
            std::io::ErrorKind::Unsupported | std::io::ErrorKind::PermissionDenied => Ok(()),
            _ => Err(error),
        })?;
        let file = File::open(path)?;
        file.set_modified(system_time(inode.mtime))?;
        std::fs::set_permissions(path, Permissions::from_mode(mode_of(inode, privileges)))
    }
}

/// Why a file was not written.
enum Stopped {
    /// The whole export ends.
    Caller(ControlError),
    /// This file is left out.
    File(String),
}

fn system_time(time: WallTime) -> SystemTime {
    let span = Duration::from_nanos(time.as_nanos().unsigned_abs());
    let time = if time.as_nanos() >= 0 {
        SystemTime::UNIX_EPOCH.checked_add(span)
    } else {
        SystemTime::UNIX_EPOCH.checked_sub(span)
    };
    time.unwrap_or(SystemTime::UNIX_EPOCH)
}
