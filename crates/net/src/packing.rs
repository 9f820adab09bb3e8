//! Packing: frames compressed by zstd, with a history that all packed frames of one direction share.
//!
//! Images and records look like the ones before them: names, directories, times, the shape of it all. A frame of 150
//! bytes alone holds hardly anything twice; beside the last 128 KiB it is two thirds as long, and program text a
//! third. So a direction of a session is one zstd stream, which never ends. Each frame ends with a flush: what was
//! packed can be unpacked at once.
//!
//! Both ends make their context when the first packed frame comes: a session on a fast path never has one. At a
//! sender it is 1.0 MiB, at a receiver 0.6 MiB.
//!
//! The receiver trusts nothing. zstd checks the window that a stream asks for against [`WINDOW_LOG`], and a frame
//! grows step by step to what it really unpacks to, at most to the limit. After the first error the history is worth
//! nothing, so nothing is unpacked any more.

use std::fmt;
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_flush;
use zstd::zstd_safe::{CCtx, CParameter, DCtx, DParameter, ErrorCode, InBuffer, OutBuffer, get_error_name};

/// The window is two to the power of this: 128 KiB. Half of it costs 2 % on program text, and saves half of the
/// memory.
const WINDOW_LOG: u32 = 17;
/// How hard the packer tries. Level 1 makes 4 to 9 % more bytes in about the same time; level 4 gains nothing.
const LEVEL: i32 = 3;
/// Tables of 16,384 places, enough for this window. The level's own, for longer ones, make 0.5 % less and take half as
/// long again.
const TABLE_LOG: u32 = 14;
/// Shortest repetition looked for, in bytes. The level's own 5 makes single images 2 % longer.
const MATCH_LEN_MIN: u32 = 4;
/// Room for the head of a block in a frame that hardly shrinks.
const BLOCK_HEAD_ROOM: usize = 64;
/// How far the room for an unpacked frame is guessed from its packed length: text shrinks to a third.
const GROWTH_GUESSED: usize = 4;
/// The least and the most room that is made before anything was unpacked.
const ROOM_MIN: usize = 256;
const ROOM_GUESSED_MAX: usize = 64 << 10;

/// Why a packed frame could not be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// It unpacks to more than [`FRAME_LEN_MAX`](crate::FRAME_LEN_MAX) bytes.
    #[error("it unpacks to more than a frame may have")]
    TooLong,
    /// It ends the stream of packed frames, which goes on as long as the session.
    #[error("it ends the packed stream")]
    Ended,
    /// It is not what zstd wrote, or asks for a larger window than is allowed.
    #[error("zstd: {0}")]
    Damaged(&'static str),
}

/// A context that is made when it is needed first.
enum Context<T> {
    Unused,
    Ready(T),
    /// Something went wrong, and the history with it.
    Lost,
}

/// Packs the frames of one direction.
pub(crate) struct Packer(Context<CCtx<'static>>);

/// Unpacks the frames of one direction.
pub(crate) struct Unpacker(Context<DCtx<'static>>);

impl Packer {
    pub(crate) const fn new() -> Self {
        Self(Context::Unused)
    }

    /// The frame packed. `None` if there is no memory: then, and ever after, frames go as they are, which the
    /// receiver does not mind.
    pub(crate) fn pack(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        if matches!(self.0, Context::Unused) {
            self.0 = compressor().map_or(Context::Lost, Context::Ready);
        }
        let Context::Ready(context) = &mut self.0 else { return None };
        let packed = flush_through(context, frame);
        if packed.is_err() {
            self.0 = Context::Lost;
        }
        packed.ok()
    }
}

impl Unpacker {
    pub(crate) const fn new() -> Self {
        Self(Context::Unused)
    }

    /// The frame unpacked, at most `len_max` bytes.
    pub(crate) fn unpack(&mut self, packed: &[u8], len_max: usize) -> Result<Vec<u8>, UnpackError> {
        if matches!(self.0, Context::Unused) {
            self.0 = Context::Ready(decompressor()?);
        }
        let Context::Ready(context) = &mut self.0 else {
            return Err(UnpackError::Damaged("a frame before this one was damaged"));
        };
        let frame = unpack_through(context, packed, len_max);
        if frame.is_err() {
            self.0 = Context::Lost;
        }
        frame
    }
}

fn compressor() -> Option<CCtx<'static>> {
    let mut context = CCtx::try_create()?;
    let parameters = [
        CParameter::CompressionLevel(LEVEL),
        CParameter::WindowLog(WINDOW_LOG),
        CParameter::HashLog(TABLE_LOG),
        CParameter::ChainLog(TABLE_LOG),
        CParameter::MinMatch(MATCH_LEN_MIN),
    ];
    for parameter in parameters {
        context.set_parameter(parameter).ok()?;
    }
    Some(context)
}

fn decompressor() -> Result<DCtx<'static>, UnpackError> {
    let mut context = DCtx::try_create().ok_or(UnpackError::Damaged("not enough memory"))?;
    context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG)).map_err(damaged)?;
    Ok(context)
}

fn flush_through(context: &mut CCtx<'static>, frame: &[u8]) -> Result<Vec<u8>, ErrorCode> {
    let mut packed = Vec::with_capacity(frame.len() / 2 + BLOCK_HEAD_ROOM);
    let mut input = InBuffer::around(frame);
    loop {
        let len = packed.len();
        let left = context.compress_stream2(&mut OutBuffer::around_pos(&mut packed, len), &mut input, ZSTD_e_flush)?;
        if left == 0 && input.pos() == frame.len() {
            return Ok(packed);
        }
        packed.reserve(frame.len() / 2 + BLOCK_HEAD_ROOM);
    }
}

fn unpack_through(context: &mut DCtx<'static>, packed: &[u8], len_max: usize) -> Result<Vec<u8>, UnpackError> {
    // One byte more than is allowed shows that a frame is too long.
    let room_max = len_max + 1;
    let room = packed.len().saturating_mul(GROWTH_GUESSED).clamp(ROOM_MIN, ROOM_GUESSED_MAX);
    let mut frame = Vec::with_capacity(room.min(room_max));
    let mut input = InBuffer::around(packed);
    loop {
        let len = frame.len();
        let mut output = OutBuffer::around_pos(&mut frame, len);
        let wanted = context.decompress_stream(&mut output, &mut input).map_err(damaged)?;
        if frame.len() > len_max {
            return Err(UnpackError::TooLong);
        }
        if wanted == 0 {
            return Err(UnpackError::Ended);
        }
        if frame.len() < frame.capacity() {
            if input.pos() == packed.len() {
                return Ok(frame);
            }
        } else {
            let room = frame.capacity().saturating_mul(2).min(room_max);
            frame.reserve_exact(room - frame.len());
        }
    }
}

fn damaged(code: ErrorCode) -> UnpackError {
    UnpackError::Damaged(get_error_name(code))
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Packer")
    }
}

impl fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Unpacker")
    }
}

#[cfg(test)]
mod measured;
#[cfg(test)]
mod tests;
