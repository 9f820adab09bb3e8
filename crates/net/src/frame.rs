//! Frames as bytes: laid out for the control stream, and found in it again.
//!
//! `docs/format/control-stream.md` draws them.

use crate::packing::{Packer, UnpackError, Unpacker};
use crate::packing_rule::Form;
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Longest frame, in bytes: 4 MiB.
pub const FRAME_LEN_MAX: usize = 4 << 20;

const KIND_GREETING: u8 = 0;
const KIND_MESSAGE: u8 = 1;
const KIND_PACKED: u8 = 2;
const HEAD_LEN: usize = 5;
/// Longest frame as packed, in bytes: zstd's own bound for what does not shrink, rounded up.
const PACKED_LEN_MAX: usize = FRAME_LEN_MAX + FRAME_LEN_MAX / 256 + 1024;
/// Shorter frames are never packed. Numbers of 18 bytes grow to 21, of 32 bytes shrink to 24; what a packet costs
/// besides is more than either.
const PACKING_LEN_MIN: usize = 32;
/// Frames up to this length are copied together; longer ones are handed over as they are.
const COPY_LEN_MAX: usize = 8 << 10;

/// The greeting as it goes over the wire.
pub(crate) const GREETING: [u8; HEAD_LEN] = [KIND_GREETING, 0, 0, 0, 0];

/// Bytes that are no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameFault {
    /// Longer than allowed, by its head.
    TooLong(usize),
    /// Of an unknown kind.
    Kind(u8),
    /// Packed, and not to be unpacked.
    Unpack(UnpackError),
}

/// Frames laid out for the stream: short ones copied together, long ones left where they are.
#[derive(Debug)]
pub(crate) struct FrameLayout {
    packer: Packer,
    whole: Vec<Bytes>,
    open: BytesMut,
}

impl FrameLayout {
    pub(crate) fn new(packer: Packer) -> Self {
        Self { packer, whole: Vec::new(), open: BytesMut::new() }
    }

    /// Lays out one frame, and says how many bytes it takes without its head.
    pub(crate) fn push(&mut self, frame: Bytes, form: Form) -> usize {
        let packed = match form {
            Form::Packed if frame.len() >= PACKING_LEN_MIN => self.packer.pack(&frame),
            Form::Packed | Form::Plain => None,
        };
        match packed {
            // Sent as it is even where it did not shrink: the history holds it already.
            Some(packed) => self.put(KIND_PACKED, Bytes::from(packed)),
            None => self.put(KIND_MESSAGE, frame),
        }
    }

    /// What was laid out since the last time.
    pub(crate) fn take(&mut self) -> Vec<Bytes> {
        if !self.open.is_empty() {
            self.whole.push(self.open.split().freeze());
        }
        std::mem::take(&mut self.whole)
    }

    fn put(&mut self, kind: u8, body: Bytes) -> usize {
        let len = body.len();
        self.open.put_u8(kind);
        self.open.put_u32_le(u32::try_from(len).expect("a frame is at most 4 MiB, and packing adds little"));
        if len <= COPY_LEN_MAX {
            self.open.extend_from_slice(&body);
        } else {
            self.whole.push(self.open.split().freeze());
            self.whole.push(body);
        }
        len
    }
}

/// A frame found in the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) frame: Bytes,
    /// What it took on the stream, without its head.
    pub(crate) len_carried: usize,
}

/// Finds the frames in the bytes of a stream, however they are cut.
#[derive(Debug)]
pub(crate) struct FrameFinder {
    buffer: BytesMut,
    len_max: usize,
    unpacker: Unpacker,
}

impl FrameFinder {
    pub(crate) fn new() -> Self {
        Self { buffer: BytesMut::new(), len_max: FRAME_LEN_MAX, unpacker: Unpacker::new() }
    }

    /// Frames longer than this are refused from now on; [`FRAME_LEN_MAX`] at most, and at first.
    pub(crate) fn limit(&mut self, len_max: usize) {
        self.len_max = len_max.min(FRAME_LEN_MAX);
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Whether no frame has begun.
    pub(crate) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The next frame; `None` until more bytes have come.
    pub(crate) fn next(&mut self) -> Result<Option<Found>, FrameFault> {
        let Some(mut head) = self.buffer.get(..HEAD_LEN) else { return Ok(None) };
        let (kind, len) = (head.get_u8(), head.get_u32_le() as usize);
        let len_max = match kind {
            KIND_MESSAGE => self.len_max,
            KIND_PACKED => PACKED_LEN_MAX.min(self.len_max + self.len_max / 256 + 1024),
            other => return Err(FrameFault::Kind(other)),
        };
        if len > len_max {
            return Err(FrameFault::TooLong(len));
        }
        if self.buffer.len() < HEAD_LEN + len {
            return Ok(None);
        }
        self.buffer.advance(HEAD_LEN);
        let body = self.buffer.split_to(len);
        let frame = if kind == KIND_PACKED {
            self.unpacker.unpack(&body, self.len_max).map_err(FrameFault::Unpack)?.into()
        } else {
            body.freeze()
        };
        Ok(Some(Found { frame, len_carried: len }))
    }
}

#[cfg(test)]
mod tests;
