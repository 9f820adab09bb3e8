//! Bounds-checked reading of the kernel's fixed-layout messages (native byte order).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::decode::DecodeError;

/// The unread rest of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        if self.rest.len() < len {
            return Err(DecodeError::Truncated { missing: len - self.rest.len() });
        }
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(taken)
    }

    fn array<const LEN: usize>(&mut self) -> Result<[u8; LEN], DecodeError> {
        let bytes = self.take(LEN)?;
        Ok(bytes.try_into().expect("take returned exactly LEN bytes"))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_ne_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_ne_bytes)
    }

    pub(crate) fn skip(&mut self, len: usize) -> Result<(), DecodeError> {
        self.take(len).map(|_| ())
    }

    /// A string that ends with a zero byte; the zero is consumed and not returned.
    pub(crate) fn string(&mut self) -> Result<&'a OsStr, DecodeError> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(DecodeError::Unterminated)?;
        let bytes = self.take(end)?;
        self.skip(1)?;
        Ok(OsStr::from_bytes(bytes))
    }

    /// As [`Cursor::string`], refusing the empty one: every name in a directory has a byte at least.
    pub(crate) fn name(&mut self) -> Result<&'a OsStr, DecodeError> {
        let name = self.string()?;
        if name.is_empty() { Err(DecodeError::EmptyName) } else { Ok(name) }
    }
}
