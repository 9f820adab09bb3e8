//! Exporting a volume as a tar archive (POSIX.1-2001, `pax`): what GNU tar, bsdtar and Python read.
//!
//! Times to the nanosecond, extended attributes (`SCHILY.xattr.`), hard links, and holes (GNU's sparse format 1.0) are kept.

use super::copy::{Copying, DEPTH_MAX, STEP_MAX, io, is_written, mode_of, note_stripped};
use super::failed::failed;
use super::pieces::{Piece, Pieces};
use super::tar_reader::Segment;
use crate::served::Served;
use bytes::Bytes;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};
use wayfs_control::report::CopyReport;
use wayfs_control::{ControlError, Privileges, Sink};
use wayfs_types::request::{Answer, Request};
use wayfs_types::{FileId, FsError, Inode, Kind, Name, WallTime};

/// Entries asked for at once.
const PAGE: usize = 1024;
/// Bytes gathered for one write.
const WRITE_LEN: usize = 256 * 1024;
/// Archives are made of such blocks.
const BLOCK: u64 = 512;

struct Export<'a> {
    served: &'a Served,
    copying: Copying<'a>,
    tar: Builder<BufWriter<File>>,
    /// Files with several names that were written already.
    links: HashMap<FileId, PathBuf>,
    privileges: Privileges,
}

pub(super) fn run(served: &Served, privileges: Privileges, out: &mut dyn Sink) -> Result<CopyReport, ControlError> {
    let file = wayfs_control::stream::to_write(out)?;
    let tar = Builder::new(BufWriter::with_capacity(WRITE_LEN, file));
    let mut export = Export { served, copying: Copying::new(out), tar, links: HashMap::new(), privileges };
    export.directory(FileId::ROOT, Path::new(""), 0)?;
    let Export { tar, copying, .. } = export;
    let ended = tar.into_inner().and_then(|writer| writer.into_inner().map_err(std::io::IntoInnerError::into_error));
    ended.map_err(|error| failed("end the archive", error))?;
    Ok(copying.report)
}

impl Export<'_> {
    fn directory(&mut self, directory: FileId, at: &Path, depth: usize) -> Result<(), ControlError> {
        let mut after: Option<Name> = None;
        loop {
            let request = Request::List { directory, after: after.clone(), limit: PAGE };
            let (entries, end) = match self.served.volume.request(request, STEP_MAX) {
                Ok(Answer::List { entries, end }) => (entries, end),
                // Removed by someone in the meantime: what is written of it stays.
                Err(FsError::NotFound) => return Ok(()),
                Ok(_) => return Err(failed("list", "the engine answered another question")),
                Err(error) => return Err(io("list", at, error)),
            };
            after = entries.last().map(|(name, _, _)| name.clone());
            for (name, file, inode) in entries {
                let path = at.join(name.as_os_str());
                self.copying.at(&path)?;
                if depth >= DEPTH_MAX {
                    self.copying.skip(&path, "the directory is too deep");
                    continue;
                }
                self.one(file, &inode, &path)?;
                if inode.is_directory() {
                    self.directory(file, &path, depth + 1)?;
                }
            }
            if end || after.is_none() {
                return Ok(());
            }
        }
    }

    fn one(&mut self, file: FileId, inode: &Inode, path: &Path) -> Result<(), ControlError> {
        if let Some(first) = self.links.get(&file).cloned() {
            self.copying.report.files += 1;
            return self.append(inode, path, Part { link: Some(&first), ..Part::of(EntryType::Link) });
        }
        match &inode.kind {
            Kind::Directory => {
                self.append(inode, path, Part::of(EntryType::Directory))?;
                self.copying.report.directories += 1;
                return Ok(());
            }
            Kind::File if !self.file(file, inode, path)? => return Ok(()),
            Kind::File => {}
            Kind::Symlink(target) => {
                let target = Path::new(OsStr::from_bytes(target));
                self.append(inode, path, Part { link: Some(target), ..Part::of(EntryType::Symlink) })?;
            }
            Kind::Fifo => self.append(inode, path, Part::of(EntryType::Fifo))?,
            Kind::Socket | Kind::CharDevice(_) | Kind::BlockDevice(_) => {
                self.copying.skip(path, "sockets and devices are not exported");
                return Ok(());
            }
        }
        self.copying.report.files += 1;
        if inode.links() > 1 {
            self.links.insert(file, path.to_owned());
        }
        Ok(())
    }

    /// Writes a regular file; answers whether its bytes could be had.
    fn file(&mut self, file: FileId, inode: &Inode, path: &Path) -> Result<bool, ControlError> {
        let pieces = Pieces::new(self.served, file, inode);
        // What cannot be had is left out before its header is written: an archive cannot take a word back.
        let plan = match self.plan(&pieces, path)? {
            Ok(plan) => plan,
            Err(why) => {
                self.copying.skip(path, why);
                return Ok(false);
            }
        };
        let mut data = Data { pieces: &pieces, left: plan.kept.into(), map: Bytes::new(), at: Bytes::new() };
        let mut part = Part { size: plan.len, ..Part::of(EntryType::Regular) };
        if !plan.holes.is_empty() {
            data.map = Bytes::from(sparse_map(&plan.holes, inode.content.size()));
            part.size += data.map.len() as u64;
            part.sparse_of = Some(inode.content.size());
        }
        part.data = Some(&mut data);
        self.append(inode, path, part)?;
        self.copying.report.bytes += inode.content.size();
        Ok(true)
    }

    /// Brings all of a file here and finds its holes.
    fn plan(&mut self, pieces: &Pieces<'_>, path: &Path) -> Result<Result<Plan, String>, ControlError> {
        let (mut plan, mut offset) = (Plan::default(), 0);
        loop {
            let piece = match pieces.at(offset).and_then(|piece| {
                piece.as_ref().map_or(Ok(()), |piece| pieces.bring(piece))?;
                Ok(piece)
            }) {
                Ok(Some(piece)) => piece,
                Ok(None) => return Ok(Ok(plan)),
                Err(why) => return Ok(Err(why)),
            };
            let len = piece.len();
            if piece.is_hole() {
                plan.holes.push(Segment { offset, len });
            } else {
                plan.len += len;
                plan.kept.push(piece);
            }
            offset += len;
            self.copying.at(path)?;
        }
    }

    fn append(&mut self, inode: &Inode, path: &Path, part: Part<'_>) -> Result<(), ControlError> {
        let fail = |error: std::io::Error| io("write to the archive", path, error);
        let mut header = Header::new_ustar();
        let mut pax: Vec<(String, Vec<u8>)> = Vec::new();
        header.set_entry_type(part.kind);
        header.set_mode(mode_of(inode, self.privileges));
        header.set_uid(u64::from(inode.uid));
        header.set_gid(u64::from(inode.gid));
        header.set_mtime(u64::try_from(inode.mtime.as_nanos().div_euclid(1_000_000_000)).unwrap_or(0));
        header.set_size(part.size);
        pax.push(("mtime".into(), seconds(inode.mtime).into_bytes()));
        let mut name = path.as_os_str().as_bytes().to_vec();
        if part.kind == EntryType::Directory {
            name.push(b'/');
        }
        if let Some(size) = part.sparse_of {
            pax.push(("GNU.sparse.major".into(), b"1".to_vec()));
            pax.push(("GNU.sparse.minor".into(), b"0".to_vec()));
            pax.push(("GNU.sparse.name".into(), name));
            pax.push(("GNU.sparse.realsize".into(), size.to_string().into_bytes()));
            name = b"GNUSparseFile.0/sparse".to_vec();
        }
        if header.set_path(Path::new(OsStr::from_bytes(&name))).is_err() {
            // Whoever knows no pax sees the beginning of the name.
            header.set_path("long-name").map_err(fail)?;
            pax.push(("path".into(), name));
        }
        if let Some(link) = part.link
            && header.set_link_name_literal(link.as_os_str().as_bytes()).is_err()
        {
            pax.push(("linkpath".into(), link.as_os_str().as_bytes().to_vec()));
        }
        if part.kind != EntryType::Link {
            note_stripped(&mut self.copying, inode, path, self.privileges);
            let xattrs = inode.xattrs.iter().filter(|(name, _)| is_written(name.as_bytes(), self.privileges));
            pax.extend(xattrs.filter_map(|(name, value)| {
                let name = std::str::from_utf8(name.as_bytes()).ok()?;
                Some((format!("SCHILY.xattr.{name}"), value.to_vec()))
            }));
        }
        header.set_cksum();
        let extensions = pax.iter().map(|(key, value)| (key.as_str(), value.as_slice()));
        self.tar.append_pax_extensions(extensions).map_err(fail)?;
        match part.data {
            Some(data) => self.tar.append(&header, data).map_err(fail),
            None => self.tar.append(&header, std::io::empty()).map_err(fail),
        }
    }
}

/// What an entry is, beside what the inode says.
struct Part<'a> {
    kind: EntryType,
    link: Option<&'a Path>,
    size: u64,
    sparse_of: Option<u64>,
    data: Option<&'a mut dyn Read>,
}

impl Part<'_> {
    fn of(kind: EntryType) -> Self {
        Self { kind, link: None, size: 0, sparse_of: None, data: None }
    }
}

/// A file before it is written.
#[derive(Default)]
struct Plan {
    kept: Vec<Piece>,
    len: u64,
    holes: Vec<Segment>,
}

/// The map before the data of a sparse file: how many segments, then offset and length of each, in decimal, one a line,
/// filled up to whole blocks.
fn sparse_map(holes: &[Segment], size: u64) -> Vec<u8> {
    let mut segments = Vec::new();
    let mut at = 0;
    for hole in holes {
        if hole.offset > at {
            segments.push(Segment { offset: at, len: hole.offset - at });
        }
        at = hole.end();
    }
    // Readers learn the length of a file that ends with a hole from an empty segment there.
    segments.push(Segment { offset: at, len: size - at });
    let mut map = format!("{}\n", segments.len());
    for Segment { offset, len } in segments {
        map.push_str(&format!("{offset}\n{len}\n"));
    }
    let mut map = map.into_bytes();
    map.resize(map.len().next_multiple_of(usize::try_from(BLOCK).expect("512 fits")), 0);
    map
}

/// Seconds since 1970 with all digits.
fn seconds(time: WallTime) -> String {
    let nanos = time.as_nanos();
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    format!("{sign}{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// The bytes of an entry: a map, then the pieces that are no holes.
struct Data<'a> {
    pieces: &'a Pieces<'a>,
    left: std::collections::VecDeque<Piece>,
    map: Bytes,
    at: Bytes,
}

impl Read for Data<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if !self.map.is_empty() {
            self.at = std::mem::take(&mut self.map);
        }
        while self.at.is_empty() {
            let Some(piece) = self.left.pop_front() else { return Ok(0) };
            self.at = self.pieces.bytes(&piece).map_err(std::io::Error::other)?;
        }
        let len = buffer.len().min(self.at.len());
        buffer[..len].copy_from_slice(&self.at.split_to(len));
        Ok(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_and_times_are_as_other_programs_write_them() {
        let map = sparse_map(&[Segment { offset: 0, len: 10 }, Segment { offset: 15, len: 5 }], 20);
        assert_eq!(map.len(), 512);
        assert!(map.starts_with(b"2\n10\n5\n20\n0\n\0"));
        assert_eq!(seconds(WallTime::from_nanos(-1_500_000_000)), "-1.500000000");
        assert_eq!(seconds(WallTime::from_nanos(7)), "0.000000007");
    }
}
