//! Where a backup goes: a directory, or a tar archive.

use super::{CHUNKS, FACTS, TABLES};
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek as _, SeekFrom};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use wayfs_types::Digest;

/// The path of a chunk in a backup.
pub(super) fn chunk_path(digest: &Digest) -> PathBuf {
    let name = digest.to_string();
    Path::new(CHUNKS).join(&name[..2]).join(name)
}

/// Takes the files of a backup. `facts` is the last call.
pub(super) trait Sink {
    /// Whether a chunk is there, whole, from an earlier backup.
    fn has(&self, digest: &Digest, len: u32) -> bool;
    /// A chunk.
    fn chunk(&mut self, digest: &Digest, bytes: &[u8]) -> io::Result<()>;
    /// A small file.
    fn small(&mut self, name: &str, bytes: &[u8]) -> io::Result<()>;
    /// The tables, from their begin.
    fn tables(&mut self, name: &str, from: &mut File) -> io::Result<()>;
    /// `backup.json`: from now on the backup is whole. Then what it does not need goes: the number of chunks removed.
    fn facts(&mut self, bytes: &[u8], tables: &str, is_needed: &dyn Fn(&Digest) -> bool) -> io::Result<u64>;
}

/// A directory, new or of an earlier backup.
pub(super) struct Directory {
    root: PathBuf,
    made: BTreeSet<PathBuf>,
}

impl Directory {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        private(root)?;
        private(&root.join(CHUNKS))?;
        Ok(Self { root: root.to_owned(), made: BTreeSet::new() })
    }

    /// Writes a file under its name only when it is whole and durable.
    fn write(&self, name: &Path, from: &mut dyn Read) -> io::Result<()> {
        let path = self.root.join(name);
        let fresh = path.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        io::copy(from, &mut file)?;
        file.sync_all()?;
        std::fs::rename(&fresh, &path)
    }
}

impl Sink for Directory {
    fn has(&self, digest: &Digest, len: u32) -> bool {
        let there = std::fs::symlink_metadata(self.root.join(chunk_path(digest)));
        there.is_ok_and(|metadata| metadata.is_file() && metadata.len() == u64::from(len))
    }

    fn chunk(&mut self, digest: &Digest, mut bytes: &[u8]) -> io::Result<()> {
        let path = chunk_path(digest);
        let directory = self.root.join(path.parent().unwrap_or(Path::new(CHUNKS)));
        if self.made.insert(directory.clone()) {
            private(&directory)?;
        }
        self.write(&path, &mut bytes)
    }

    fn small(&mut self, name: &str, mut bytes: &[u8]) -> io::Result<()> {
        self.write(Path::new(name), &mut bytes)
    }

    fn tables(&mut self, name: &str, from: &mut File) -> io::Result<()> {
        self.write(Path::new(name), from)
    }

    fn facts(&mut self, mut bytes: &[u8], tables: &str, is_needed: &dyn Fn(&Digest) -> bool) -> io::Result<u64> {
        // The names of the chunks are durable before anything says that they are there.
        for directory in self.made.iter().map(PathBuf::as_path).chain([self.root.join(CHUNKS).as_path(), &self.root]) {
            File::open(directory)?.sync_all()?;
        }
        self.write(Path::new(FACTS), &mut bytes)?;
        File::open(&self.root)?.sync_all()?;
        for entry in std::fs::read_dir(&self.root)? {
            let name = entry?.file_name();
            if name.to_str().is_some_and(|name| name.starts_with(TABLES) && name != tables) {
                std::fs::remove_file(self.root.join(name))?;
            }
        }
        let mut removed = 0;
        for directory in std::fs::read_dir(self.root.join(CHUNKS))? {
            for chunk in std::fs::read_dir(directory?.path())? {
                let chunk = chunk?;
                let digest = chunk.file_name().to_str().and_then(parse);
                if !digest.is_some_and(|digest| is_needed(&digest)) {
                    std::fs::remove_file(chunk.path())?;
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }
}

/// The digest that a chunk's file is named by.
pub(super) fn parse(name: &str) -> Option<Digest> {
    let bytes = data_encoding::BASE32_NOPAD.decode(name.to_ascii_uppercase().as_bytes()).ok()?;
    Some(Digest::from_bytes(bytes.try_into().ok()?))
}

fn private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// A tar archive on its way through a stream.
pub(super) struct Archive<W: io::Write> {
    tar: tar::Builder<W>,
}

impl<W: io::Write> Archive<W> {
    pub(super) fn new(out: W) -> Self {
        Self { tar: tar::Builder::new(out) }
    }

    fn append(&mut self, name: &Path, len: u64, from: &mut dyn Read) -> io::Result<()> {
        let mut header = tar::Header::new_ustar();
        header.set_size(len);
        header.set_mode(0o600);
        self.tar.append_data(&mut header, name, from)
    }
}

impl<W: io::Write> Sink for Archive<W> {
    fn has(&self, _: &Digest, _: u32) -> bool {
        false
    }

    fn chunk(&mut self, digest: &Digest, mut bytes: &[u8]) -> io::Result<()> {
        self.append(&chunk_path(digest), bytes.len() as u64, &mut bytes)
    }

    fn small(&mut self, name: &str, mut bytes: &[u8]) -> io::Result<()> {
        self.append(Path::new(name), bytes.len() as u64, &mut bytes)
    }

    fn tables(&mut self, name: &str, from: &mut File) -> io::Result<()> {
        let len = from.seek(SeekFrom::End(0))?;
        from.rewind()?;
        self.append(Path::new(name), len, from)
    }

    fn facts(&mut self, mut bytes: &[u8], _: &str, _: &dyn Fn(&Digest) -> bool) -> io::Result<u64> {
        self.append(Path::new(FACTS), bytes.len() as u64, &mut bytes)?;
        self.tar.finish()?;
        self.tar.get_mut().flush()?;
        Ok(0)
    }
}
