//! Rows of a replica in one file.
//!
//! ```text
//! "WAYFS-TABLES 1\n"  (key length u32, value length u32, key, value)*  u32::MAX u32::MAX
//! ```
//! Numbers are little-endian. The digest in `backup.json` covers the whole file.

use std::io::{self, Read, Write};

const MAGIC: &[u8] = b"WAYFS-TABLES 1\n";
/// Longest key and value read: beyond what any store writes.
const KEY_MAX: u32 = 64 * 1024;
const VALUE_MAX: u32 = 256 << 20;
const END: u32 = u32::MAX;

/// A row: key and value.
pub(super) type Row = (Vec<u8>, Vec<u8>);

/// Writes rows and hashes what it writes.
pub(super) struct Writer<W> {
    out: W,
    hasher: blake3::Hasher,
    pub(super) rows: u64,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(out: W) -> io::Result<Self> {
        let mut writer = Self { out, hasher: blake3::Hasher::new(), rows: 0 };
        writer.write(MAGIC)?;
        Ok(writer)
    }

    pub(super) fn row(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let long = |_| io::Error::other("a row is too long for a backup");
        self.write(&u32::try_from(key.len()).map_err(long)?.to_le_bytes())?;
        self.write(&u32::try_from(value.len()).map_err(long)?.to_le_bytes())?;
        self.write(key)?;
        self.write(value)?;
        self.rows += 1;
        Ok(())
    }

    /// Ends the file; its digest.
    pub(super) fn end(mut self) -> io::Result<(W, String, u64)> {
        self.write(&END.to_le_bytes())?;
        self.write(&END.to_le_bytes())?;
        self.out.flush()?;
        Ok((self.out, self.hasher.finalize().to_hex().to_string(), self.rows))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.out.write_all(bytes)
    }
}

/// Reads rows and hashes what it reads.
pub(super) struct Reader<R> {
    input: R,
    hasher: blake3::Hasher,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(input: R) -> io::Result<Self> {
        let mut reader = Self { input, hasher: blake3::Hasher::new() };
        if reader.bytes(MAGIC.len())? != MAGIC {
            return Err(io::Error::other("these are no tables of a backup, or of a newer format"));
        }
        Ok(reader)
    }

    /// The next row; `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Row>> {
        let (key, value) = (self.number()?, self.number()?);
        if (key, value) == (END, END) {
            return Ok(None);
        }
        if key > KEY_MAX || value > VALUE_MAX {
            return Err(io::Error::other("a row of the tables is damaged"));
        }
        Ok(Some((self.bytes(key as usize)?, self.bytes(value as usize)?)))
    }

    /// The digest of what was read.
    pub(super) fn digest(&self) -> String {
        self.hasher.finalize().to_hex().to_string()
    }

    fn number(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.input.read_exact(&mut bytes)?;
        self.hasher.update(&bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn bytes(&mut self, len: usize) -> io::Result<Vec<u8>> {
        // Room is made as the bytes come: a damaged length asks for no more than there is.
        let mut bytes = Vec::new();
        (&mut self.input).take(len as u64).read_to_end(&mut bytes)?;
        if bytes.len() != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.hasher.update(&bytes);
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> (Vec<u8>, String) {
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.row(b"a", b"one").unwrap();
        writer.row(b"b", b"").unwrap();
        let (bytes, digest, rows) = writer.end().unwrap();
        assert_eq!(rows, 2);
        (bytes, digest)
    }

    #[test]
    fn what_was_written_is_read() {
        let (bytes, digest) = written();
        let mut reader = Reader::new(bytes.as_slice()).unwrap();
        assert_eq!(reader.next().unwrap(), Some((b"a".to_vec(), b"one".to_vec())));
        assert_eq!(reader.next().unwrap(), Some((b"b".to_vec(), Vec::new())));
        assert_eq!(reader.next().unwrap(), None);
        assert_eq!(reader.digest(), digest);
    }

    #[test]
    fn a_file_cut_short_or_of_another_kind_is_an_error() {
        let (bytes, _) = written();
        for len in 0..bytes.len() {
            let outcome = Reader::new(&bytes[..len]).and_then(|mut reader| {
                while reader.next()?.is_some() {}
                Ok(())
            });
            assert!(outcome.is_err(), "{len}");
        }
        assert!(Reader::new(b"something else entirely".as_slice()).is_err());
    }
}
