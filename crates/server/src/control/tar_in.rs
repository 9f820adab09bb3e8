//! Importing a tar archive into a volume: of GNU tar, bsdtar, Python or `wayfs volume export --tar`.
//!
//! Understood are the old and POSIX formats, GNU's long names, `pax` times, extended attributes, hard links, and sparse files
//! (GNU's old format, and 1.0). What an archive says of places outside of itself (`..`) is left out. A damaged archive ends the
//! import with an error that says what is in the volume by then.

use super::copy::Copying;
use super::intake::{Attributes, Broken, Intake};
use super::tar_reader::{Filled, Found, TarReader};
use super::xattr;
use crate::served::Served;
use bytes::Bytes;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use tar::EntryType;
use wayfs_control::report::CopyReport;
use wayfs_control::{ControlError, ErrorKind, Owner, Sink};
use wayfs_types::{FileId, Kind, Name, WallTime, XattrName};

/// Bytes read at once.
const READ_LEN: usize = 256 * 1024;
/// Beginnings of compressed archives, and what undoes them.
const COMPRESSED: [(&[u8], &str); 4] =
    [(b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ", "xz"), (b"BZh", "bzip2")];

type Source = TarReader<BufReader<File>>;

struct Import<'a> {
    intake: Intake<'a>,
    into: PathBuf,
    /// Directories get their attributes when everything is in them.
    directories: Vec<(FileId, Attributes)>,
    /// Those made already.
    known: HashMap<PathBuf, FileId>,
    files: HashMap<PathBuf, FileId>,
}

/// Why it ended early.
enum Stop {
    /// The archive.
    Archive(io::Error),
    /// The volume, or the caller.
    Import(ControlError),
}

impl From<ControlError> for Stop {
    fn from(error: ControlError) -> Self {
        Self::Import(error)
    }
}

pub(super) fn run(served: &Served, into: &Path, out: &mut dyn Sink) -> Result<CopyReport, ControlError> {
    let mut source = BufReader::with_capacity(READ_LEN, wayfs_control::stream::to_read(out)?);
    check_beginning(&mut source)?;
    let mut import = Import {
        intake: Intake::new(served, Copying::new(out)),
        into: into.to_owned(),
        directories: Vec::new(),
        known: HashMap::new(),
        files: HashMap::new(),
    };
    let read = import.read(source);
    let ended = import.end_directories().and_then(|()| import.intake.finish());
    let report = &import.intake.copying.report;
    match read {
        Ok(()) => ended.map(|()| import.intake.copying.report),
        Err(Stop::Import(error)) => Err(error),
        Err(Stop::Archive(error)) => Err(ControlError::new(
            ErrorKind::Failed,
            format!(
                "the archive cannot be read on: {error}; {} files and {} directories of it are in the volume",
                report.files, report.directories
            ),
            "Import it again when it is whole: what is there is replaced, not doubled.",
        )),
    }
}

/// Nothing is touched if it is no archive at all.
fn check_beginning(source: &mut BufReader<File>) -> Result<(), ControlError> {
    let no = |why: String, next: String| Err(ControlError::new(ErrorKind::Usage, why, next));
    let beginning = source.fill_buf().map_err(|error| super::failed::failed("read archive", error))?;
    if beginning.is_empty() {
        return no("the archive is empty".into(), "Nothing was imported.".into());
    }
    match COMPRESSED.iter().find(|(magic, _)| beginning.starts_with(magic)) {
        Some((_, by)) => no(
            format!("the archive is compressed by {by}"),
            format!("Undo that on the way: `{by} -dc FILE | wayfs volume import VOLUME --tar -`."),
        ),
        None => Ok(()),
    }
}

impl Import<'_> {
    fn read(&mut self, source: BufReader<File>) -> Result<(), Stop> {
        let mut archive = TarReader::new(source);
        while let Some(found) = archive.next().map_err(Stop::Archive)? {
            let path = PathBuf::from(OsStr::from_bytes(&found.path));
            self.intake.copying.at(&path)?;
            match inside(&path) {
                Some(inside) => self.one(&mut archive, &found, &inside)?,
                None => self.intake.copying.skip(&path, "its name leads out of the archive"),
            }
        }
        Ok(())
    }

    fn one(&mut self, archive: &mut Source, found: &Found, path: &Path) -> Result<(), Stop> {
        let attributes = attributes(found).map_err(Stop::Archive)?;
        let Some(name) = path.file_name() else {
            // The root of the archive: the directory imported into keeps what it has.
            return Ok(());
        };
        let Ok(name) = Name::try_from(name) else {
            self.intake.copying.skip(path, "its name is too long");
            return Ok(());
        };
        let parent = self.directory(path.parent().unwrap_or(Path::new("")))?;
        let made = match found.header.entry_type() {
            EntryType::Directory => {
                let owner = Owner { uid: attributes.uid, gid: attributes.gid };
                let (file, is_new) = self.intake.directory(parent, name, attributes.mode, owner)?;
                self.intake.copying.report.directories += u64::from(is_new);
                self.known.insert(path.to_owned(), file);
                self.directories.push((file, attributes));
                return Ok(());
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let content = self.content(archive, found, path)?;
                self.intake.file((parent, &name), content, &attributes, path)?
            }
            EntryType::Symlink => {
                let target = Bytes::copy_from_slice(&found.link);
                self.intake.special((parent, &name), &Kind::Symlink(target), &attributes)?
            }
            EntryType::Fifo => self.intake.special((parent, &name), &Kind::Fifo, &attributes)?,
            EntryType::Link => return self.link(found, (parent, &name), path),
            _ => {
                self.intake.copying.skip(path, "devices and other special entries are not imported");
                return Ok(());
            }
        };
        self.files.extend(made.map(|file| (path.to_owned(), file)));
        Ok(())
    }

    fn link(&mut self, found: &Found, (parent, name): (FileId, &Name), path: &Path) -> Result<(), Stop> {
        let target = inside(Path::new(OsStr::from_bytes(&found.link)));
        match target.and_then(|target| self.files.get(&target).copied()) {
            Some(file) => {
                self.intake.link(file, parent, name)?;
                self.files.insert(path.to_owned(), file);
            }
            None => {
                self.intake.copying.skip(path, "it is a hard link to a file that the archive does not have before it")
            }
        }
        Ok(())
    }

    /// The bytes of an entry, holes filled in. An archive that ends in it ends the import.
    fn content(&mut self, archive: &mut Source, found: &Found, path: &Path) -> Result<wayfs_types::Content, Stop> {
        let read = match &found.sparse {
            Some(sparse) => self.intake.content(&mut Filled::new(archive, sparse), path),
            None => self.intake.content(archive, path),
        };
        read.map_err(|broken| match broken {
            Broken::Source(error) => {
                Stop::Archive(io::Error::new(error.kind(), format!("{}: {error}", path.display())))
            }
            Broken::Import(error) => Stop::Import(error),
        })
    }

    /// The directory of a path in the archive, made if no entry told of it.
    fn directory(&mut self, path: &Path) -> Result<FileId, Stop> {
        if let Some(known) = self.known.get(path) {
            return Ok(*known);
        }
        let file = self.intake.directories(&self.into.join(path))?;
        self.known.insert(path.to_owned(), file);
        Ok(file)
    }

    fn end_directories(&mut self) -> Result<(), ControlError> {
        for (file, attributes) in std::mem::take(&mut self.directories).into_iter().rev() {
            let inode = self.intake.served.volume.look(|replica| replica.inode(file)).and_then(Result::ok).flatten();
            if let Some(inode) = inode {
                self.intake.attributes(file, &inode, &attributes)?;
            }
        }
        Ok(())
    }
}

/// A path below the archive's root; `None` if it leads out of it.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut inside = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => inside.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(inside)
}

/// Mode, owner, time and extended attributes; `pax` says them better than the header, if it does.
fn attributes(found: &Found) -> io::Result<Attributes> {
    let header = &found.header;
    let said = |key: &str| found.extension(key).and_then(|value| std::str::from_utf8(value).ok());
    let id = |key: &str, plain: io::Result<u64>| -> io::Result<u32> {
        let id = said(key).and_then(|id| id.parse().ok()).map_or(plain, Ok)?;
        Ok(u32::try_from(id).unwrap_or(u32::MAX - 1))
    };
    let mtime = match said("mtime").and_then(time) {
        Some(time) => time,
        None => WallTime::from_parts(i64::try_from(header.mtime()?).unwrap_or(0).min(i64::MAX / 2_000_000_000), 0),
    };
    let xattrs = found.extensions.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix(b"SCHILY.xattr.").filter(|name| xattr::is_kept(name))?;
        Some((XattrName::new(name).ok()?, Bytes::copy_from_slice(value)))
    });
    Ok(Attributes {
        mode: u16::try_from(header.mode()? & 0o7777).expect("twelve bits fit"),
        uid: id("uid", header.uid())?,
        gid: id("gid", header.gid())?,
        mtime,
        xattrs: xattrs.collect(),
    })
}

/// Seconds since 1970, perhaps negative, perhaps with digits after a point.
fn time(text: &str) -> Option<WallTime> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let seconds: i64 = whole.parse().ok()?;
    let digits: String = part.chars().chain("000000000".chars()).take(9).collect();
    let nanos: i64 = digits.parse().ok()?;
    let signed = if whole.starts_with('-') { -nanos } else { nanos };
    seconds.checked_mul(1_000_000_000)?.checked_add(signed).map(WallTime::from_nanos)
}

/// Bytes of a sparse entry that the fuzzer looks at.
const LOOKED_AT_MAX: u64 = 1 << 16;

/// Reads an archive to its end as an import does, without a volume; for the fuzzer.
///
/// # Panics
/// If an entry is longer than it says: a fault of the reader.
pub(crate) fn read_archive(bytes: &[u8]) {
    let mut archive = TarReader::new(bytes);
    while let Ok(Some(found)) = archive.next() {
        let path = PathBuf::from(OsStr::from_bytes(&found.path));
        let leads_out = |path: PathBuf| path.components().any(|part| part == Component::ParentDir);
        assert!(!inside(&path).is_some_and(leads_out), "a name stays inside");
        let _ = attributes(&found);
        let read = match &found.sparse {
            Some(sparse) => {
                let filled = Filled::new(&mut archive, sparse);
                io::copy(&mut filled.take(LOOKED_AT_MAX), &mut io::sink()).map(|len| assert!(len <= sparse.size))
            }
            None => io::copy(&mut archive, &mut io::sink()).map(|len| assert!(len <= bytes.len() as u64)),
        };
        if read.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_inside() {
        assert_eq!(inside(Path::new("/a/./b")), Some(PathBuf::from("a/b")));
        assert_eq!(inside(Path::new("a/../../b")), None);
    }

    #[test]
    fn times_are_read_to_the_nanosecond() {
        assert_eq!(time("12.5"), Some(WallTime::from_nanos(12_500_000_000)));
        assert_eq!(time("-1.5"), Some(WallTime::from_nanos(-1_500_000_000)));
        assert_eq!(time("7"), Some(WallTime::from_nanos(7_000_000_000)));
        assert_eq!(time("x"), None);
    }
}
