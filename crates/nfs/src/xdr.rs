//! XDR (RFC 4506) with bounds: nothing is allocated for a length before that many bytes are there.

/// Why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end too early.
    #[error("the message ends in the middle of {0}")]
    Short(&'static str),
    /// A length beyond what the protocol allows there.
    #[error("{what} of {len} bytes: at most {max} are allowed")]
    TooLong {
        /// Of what.
        what: &'static str,
        /// As the message says.
        len: u64,
        /// As the protocol says.
        max: u64,
    },
    /// A number that names nothing.
    #[error("{value} is no {what}")]
    Unknown {
        /// Of which kind.
        what: &'static str,
        /// The number.
        value: u32,
    },
    /// Something is said that cannot be: a count beyond what was asked for, a cookie that comes again.
    #[error("the server answers what cannot be: {0}")]
    Impossible(&'static str),
}

/// Reads what a peer sent.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// From the first byte on.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not read.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Bytes that are not padded.
    ///
    /// # Errors
    /// [`DecodeError::Short`], as all of these.
    pub fn fixed<const LEN: usize>(&mut self, what: &'static str) -> Result<[u8; LEN], DecodeError> {
        let (bytes, rest) = self.rest.split_first_chunk::<LEN>().ok_or(DecodeError::Short(what))?;
        self.rest = rest;
        Ok(*bytes)
    }

    /// A number.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.fixed(what).map(u32::from_be_bytes)
    }

    /// A long number.
    ///
    /// # Errors
    /// [`DecodeError::Short`].
    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        self.fixed(what).map(u64::from_be_bytes)
    }

    /// Yes or no.
    ///
    /// # Errors
    /// [`DecodeError::Unknown`] for anything but 0 and 1.
    pub fn bool(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        match self.u32(what)? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::Unknown { what, value }),
        }
    }

    /// Bytes with their length before and padding behind, at most `max`.
    ///
    /// # Errors
    /// [`DecodeError::TooLong`] above `max`.
    pub fn opaque(&mut self, what: &'static str, max: usize) -> Result<&'a [u8], DecodeError> {
        let len = self.u32(what)? as usize;
        if len > max {
            return Err(DecodeError::TooLong { what, len: len as u64, max: max as u64 });
        }
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(DecodeError::Short(what))?;
        self.rest = rest.get(len.next_multiple_of(4) - len..).ok_or(DecodeError::Short(what))?;
        Ok(bytes)
    }
}

/// Writes what a peer is sent.
#[derive(Debug, Default, Clone)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self { bytes: Vec::new() }
    }

    /// A number.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.fixed(&value.to_be_bytes())
    }

    /// A long number.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.fixed(&value.to_be_bytes())
    }

    /// Bytes as they are; a multiple of four.
    pub fn fixed(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Bytes with their length and padding. They are ours, and never near 4 GiB.
    pub fn opaque(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(u32::try_from(bytes.len()).expect("messages of ours are short"));
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// Everything written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::new();
        writer.u32(7).opaque(b"abcde").u64(1 << 40).u32(1);
        let bytes = writer.into_bytes();
        assert_eq!(bytes.len(), 4 + 4 + 8 + 8 + 4);
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.u32("number"), Ok(7));
        assert_eq!(reader.opaque("bytes", 5), Ok(&b"abcde"[..]));
        assert_eq!(reader.u64("number"), Ok(1 << 40));
        assert_eq!(reader.bool("flag"), Ok(true));
        assert_eq!(reader.u32("number"), Err(DecodeError::Short("number")));
    }

    #[test]
    fn a_length_that_lies_costs_nothing() {
        let bytes = [0xff, 0xff, 0xff, 0xff, 1, 2];
        let too_long = DecodeError::TooLong { what: "name", len: 0xffff_ffff, max: 255 };
        assert_eq!(Reader::new(&bytes).opaque("name", 255), Err(too_long));
        assert_eq!(Reader::new(&bytes).opaque("name", usize::MAX), Err(DecodeError::Short("name")));
        // The padding belongs to it.
        assert_eq!(Reader::new(&[0, 0, 0, 1, 9, 0, 0]).opaque("name", 9), Err(DecodeError::Short("name")));
    }
}
