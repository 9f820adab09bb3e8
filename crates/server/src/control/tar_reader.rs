//! Reading tar archives entry by entry.
//!
//! The headers are taken apart by the library; the stream is read here, since the library's own reader takes a line break
//! in an extended attribute or a name for the end of the `pax` record, and the end of an archive for the end of a file.

use std::collections::BTreeMap;
use std::io::{self, Read};
use tar::{EntryType, GnuExtSparseHeader, Header};

/// Longest extended header or long name: several attributes of the kernel's greatest length.
const EXTENSION_LEN_MAX: u64 = 8 << 20;
/// Most segments of a sparse file.
const SEGMENTS_MAX: u64 = 1_000_000;
const BLOCK: u64 = 512;
/// Longest entry: the kernel has no longer file.
const ENTRY_LEN_MAX: u64 = i64::MAX as u64;

/// One entry.
pub(super) struct Found {
    pub(super) header: Header,
    pub(super) path: Vec<u8>,
    pub(super) link: Vec<u8>,
    /// What `pax` headers say.
    pub(super) extensions: BTreeMap<Vec<u8>, Vec<u8>>,
    /// `None` for files without holes.
    pub(super) sparse: Option<Sparse>,
}

/// Bytes of a file that stand together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Segment {
    pub(super) const fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// Which bytes of a file are in the archive: between them are holes.
pub(super) struct Sparse {
    pub(super) segments: Vec<Segment>,
    /// Of the whole file.
    pub(super) size: u64,
}

impl Found {
    /// What a `pax` header says.
    pub(super) fn extension(&self, key: &str) -> Option<&[u8]> {
        self.extensions.get(key.as_bytes()).map(Vec::as_slice)
    }
}

/// An archive. Reading from it gives the bytes of the present entry as they are stored.
pub(super) struct TarReader<R> {
    source: R,
    /// Of the present entry: bytes, and what fills up its last block.
    left: u64,
    padding: u64,
    global: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl<R: Read> TarReader<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, left: 0, padding: 0, global: BTreeMap::new() }
    }

    /// The next entry; what was not read of the last one is skipped.
    pub(super) fn next(&mut self) -> io::Result<Option<Found>> {
        let mut own: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let (mut long_path, mut long_link) = (None, None);
        loop {
            self.skip_rest()?;
            let Some(header) = self.header()? else { return Ok(None) };
            let kind = header.entry_type();
            self.begin(header.entry_size()?)?;
            match kind {
                EntryType::XHeader => own.extend(parse_pax(&self.extension()?)?),
                EntryType::XGlobalHeader => {
                    let global = self.extension()?;
                    self.global.extend(parse_pax(&global)?);
                }
                EntryType::GNULongName => long_path = Some(text(self.extension()?)),
                EntryType::GNULongLink => long_link = Some(text(self.extension()?)),
                _ => {
                    let mut extensions = self.global.clone();
                    extensions.append(&mut own);
                    return self.entry(header, extensions, long_path, long_link).map(Some);
                }
            }
        }
    }

    fn entry(
        &mut self,
        header: Header,
        extensions: BTreeMap<Vec<u8>, Vec<u8>>,
        long_path: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
    ) -> io::Result<Found> {
        let said = |key: &str| extensions.get(key.as_bytes()).cloned();
        if let Some(size) = said("size") {
            self.begin(number(&size).ok_or_else(|| damaged("a size that is no number"))?)?;
        }
        let kind = header.entry_type();
        if matches!(kind, EntryType::Link | EntryType::Symlink | EntryType::Directory | EntryType::Fifo) {
            // Some programs write the size of what is linked to, without its bytes.
            self.begin(0)?;
        }
        let path = said("path").or(long_path).unwrap_or_else(|| header.path_bytes().into_owned());
        let link = said("linkpath").or(long_link);
        let link = link.unwrap_or_else(|| header.link_name_bytes().map(|name| name.into_owned()).unwrap_or_default());
        let mut found = Found { header, path, link, extensions, sparse: None };
        let version = (
            found.extension("GNU.sparse.major").and_then(number),
            found.extension("GNU.sparse.minor").and_then(number),
        );
        if kind == EntryType::GNUSparse {
            found.sparse = Some(self.old_sparse(&found.header)?);
        } else if version == (Some(1), Some(0)) {
            let size = found
                .extension("GNU.sparse.realsize")
                .and_then(number)
                .ok_or_else(|| damaged("no length of a sparse file"))?;
            found.path = found.extension("GNU.sparse.name").map_or(found.path.clone(), <[u8]>::to_vec);
            found.sparse = Some(self.sparse_map(size)?);
        } else if version != (None, None) || found.extension("GNU.sparse.map").is_some() {
            let why = "a sparse file in a format before 1.0: make the archive with `tar --sparse-version=1.0`";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        Ok(found)
    }

    /// `None` at the end: blocks of zeros, or nothing more.
    fn header(&mut self) -> io::Result<Option<Header>> {
        let mut block = [0; BLOCK as usize];
        let mut read = 0;
        while read < block.len() {
            match self.source.read(&mut block[read..]) {
                Ok(0) if read == 0 => return Ok(None),
                Ok(0) => return Err(cut()),
                Ok(len) => read += len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let header = Header::from_byte_slice(&block).clone();
        let sum =
            block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) });
        if header.cksum().ok() != Some(sum.sum()) {
            return Err(damaged("a header's check does not fit: this is no archive, or it is damaged"));
        }
        Ok(Some(header))
    }

    fn begin(&mut self, size: u64) -> io::Result<()> {
        if size > ENTRY_LEN_MAX {
            return Err(damaged("an entry that is longer than any file"));
        }
        self.left = size;
        self.padding = size.next_multiple_of(BLOCK) - size;
        Ok(())
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        let rest = self.left + self.padding;
        let skipped = io::copy(&mut self.source.by_ref().take(rest), &mut io::sink())?;
        (self.left, self.padding) = (0, 0);
        if skipped == rest { Ok(()) } else { Err(cut()) }
    }

    fn extension(&mut self) -> io::Result<Vec<u8>> {
        if self.left > EXTENSION_LEN_MAX {
            return Err(damaged("an extended header of more than 8 MiB"));
        }
        let mut bytes = vec![0; usize::try_from(self.left).expect("8 MiB fit")];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// GNU's old format: four segments in the header, more in blocks that follow it.
    fn old_sparse(&mut self, header: &Header) -> io::Result<Sparse> {
        let gnu = header.as_gnu().ok_or_else(|| damaged("a sparse file without GNU's header"))?;
        let size = gnu.real_size()?;
        let mut segments = Segments::new(size);
        for segment in gnu.sparse.iter().filter(|segment| !segment.is_empty()) {
            segments.add(Segment { offset: segment.offset()?, len: segment.length()? })?;
        }
        let mut more = gnu.is_extended();
        while more {
            let mut block = GnuExtSparseHeader::new();
            self.source.read_exact(block.as_mut_bytes()).map_err(|_| cut())?;
            for segment in block.sparse().iter().filter(|segment| !segment.is_empty()) {
                segments.add(Segment { offset: segment.offset()?, len: segment.length()? })?;
            }
            more = block.is_extended();
        }
        Ok(Sparse { segments: segments.list, size })
    }

    /// Format 1.0: the map stands before the bytes, in decimal numbers, one on a line, filled up to whole blocks.
    fn sparse_map(&mut self, size: u64) -> io::Result<Sparse> {
        let before = self.left;
        let mut segments = Segments::new(size);
        for _ in 0..self.line()? {
            let offset = self.line()?;
            segments.add(Segment { offset, len: self.line()? })?;
        }
        while !(before - self.left).is_multiple_of(BLOCK) {
            self.read_exact(&mut [0])?;
        }
        Ok(Sparse { segments: segments.list, size })
    }

    fn line(&mut self) -> io::Result<u64> {
        let mut number: u64 = 0;
        loop {
            let mut byte = [0];
            self.read_exact(&mut byte)?;
            match byte[0] {
                digit @ b'0'..=b'9' => {
                    let more = number.checked_mul(10).and_then(|number| number.checked_add(u64::from(digit - b'0')));
                    number = more.ok_or_else(bad_map)?;
                }
                b'\n' => return Ok(number),
                _ => return Err(bad_map()),
            }
        }
    }
}

/// The bytes of the present entry. An archive that ends before them is an error.
impl<R: Read> Read for TarReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if room == 0 {
            return Ok(0);
        }
        let len = self.source.read(&mut buffer[..room])?;
        if len == 0 {
            return Err(cut());
        }
        self.left -= len as u64;
        Ok(len)
    }
}

/// The bytes of a sparse file, holes filled in.
pub(super) struct Filled<'a, R> {
    source: &'a mut R,
    segments: std::slice::Iter<'a, Segment>,
    segment: Option<&'a Segment>,
    at: u64,
    size: u64,
}

impl<'a, R: Read> Filled<'a, R> {
    pub(super) fn new(source: &'a mut R, sparse: &'a Sparse) -> Self {
        let mut segments = sparse.segments.iter();
        let segment = segments.next();
        Self { source, segments, segment, at: 0, size: sparse.size }
    }
}

impl<R: Read> Read for Filled<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.segment.is_some_and(|segment| self.at >= segment.end()) {
            self.segment = self.segments.next();
        }
        let until = match self.segment {
            Some(segment) if self.at >= segment.offset => {
                let room = usize::try_from(segment.end() - self.at).unwrap_or(usize::MAX).min(buffer.len());
                let read = self.source.read(&mut buffer[..room])?;
                if read == 0 && room > 0 {
                    return Err(bad_map());
                }
                self.at += read as u64;
                return Ok(read);
            }
            Some(segment) => segment.offset,
            None => self.size,
        };
        let len = usize::try_from(until - self.at).unwrap_or(usize::MAX).min(buffer.len());
        buffer[..len].fill(0);
        self.at += len as u64;
        Ok(len)
    }
}

/// Segments in order, within the file.
struct Segments {
    list: Vec<Segment>,
    end: u64,
    size: u64,
}

impl Segments {
    fn new(size: u64) -> Self {
        Self { list: Vec::new(), end: 0, size }
    }

    fn add(&mut self, segment: Segment) -> io::Result<()> {
        let Segment { offset, len } = segment;
        let end = offset.checked_add(len).filter(|end| offset >= self.end && *end <= self.size);
        self.end = end.ok_or_else(bad_map)?;
        if self.list.len() as u64 >= SEGMENTS_MAX {
            return Err(bad_map());
        }
        self.list.push(segment);
        Ok(())
    }
}

/// Records of `LENGTH KEY=VALUE\n`, where the length counts all of it.
fn parse_pax(mut bytes: &[u8]) -> io::Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let bad = || damaged("an extended header that makes no sense");
    let mut found = BTreeMap::new();
    while !bytes.is_empty() && bytes[0] != 0 {
        let space = bytes.iter().position(|byte| *byte == b' ').ok_or_else(bad)?;
        let len = number(&bytes[..space]).and_then(|len| usize::try_from(len).ok()).ok_or_else(bad)?;
        let record = bytes.get(space + 1..len).ok_or_else(bad)?;
        let record = record.strip_suffix(b"\n").ok_or_else(bad)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(bad)?;
        found.insert(record[..equals].to_vec(), record[equals + 1..].to_vec());
        bytes = &bytes[len..];
    }
    Ok(found)
}

/// A decimal number.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A long name ends with a zero.
fn text(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(len);
    bytes
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn bad_map() -> io::Error {
    damaged("the map of a sparse file is damaged")
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it is cut short")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn extended_headers_may_hold_line_breaks() {
        let found = parse_pax(b"12 path=a\nb\n15 x=1=2 3 4 5\n").unwrap();
        assert_eq!(found[&b"path"[..]], b"a\nb");
        assert_eq!(found[&b"x"[..]], b"1=2 3 4 5");
        for bad in [&b"3"[..], b"9 a=b\n", b"x a=b\n", b"5 ab\n\n", b"1 a=b\n"] {
            assert!(parse_pax(bad).is_err(), "{bad:?}");
        }
    }

    fn filled(map: &str, data: &[u8], size: u64) -> io::Result<Vec<u8>> {
        let mut bytes = map.as_bytes().to_vec();
        bytes.resize(512, 0);
        bytes.extend(data);
        let mut reader = TarReader::new(bytes.as_slice());
        reader.begin(bytes.len() as u64)?;
        let sparse = reader.sparse_map(size)?;
        let mut whole = Vec::new();
        Filled::new(&mut reader, &sparse).read_to_end(&mut whole)?;
        Ok(whole)
    }

    #[test]
    fn holes_are_filled_in_and_bad_maps_refused() {
        assert_eq!(filled("2\n2\n3\n8\n0\n", b"abc", 8).unwrap(), b"\0\0abc\0\0\0");
        assert_eq!(filled("0\n", b"", 3).unwrap(), b"\0\0\0");
        for bad in ["x\n", "1\n5\n4\n", "2\n4\n2\n1\n1\n", "99999999999999999999999\n"] {
            assert!(filled(bad, b"", 8).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_go_on_for_ever(bytes in proptest::collection::vec(any::<u8>(), 0..4096)) {
            let mut reader = TarReader::new(bytes.as_slice());
            while let Ok(Some(_)) = reader.next() {}
            let _ = parse_pax(&bytes);
        }
    }
}
