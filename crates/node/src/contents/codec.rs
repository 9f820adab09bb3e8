//! Chunks on the wire: compressed when that helps.

use super::message::Form;
use bytes::Bytes;
use std::cell::RefCell;
use wayfs_content::CHUNK_MAX;
use zstd::bulk::{Compressor, Decompressor};

/// Below this a chunk is sent as it is: the saving is less than a packet.
const WORTH_LEN_MIN: usize = 1024;
/// Bytes tried from the middle of a chunk before all of it is compressed.
const SAMPLE_LEN: usize = 8192;
/// The fastest level: 300 MB/s and more on one core, above any path that it is meant for.
const LEVEL: i32 = 1;

thread_local! {
    // Making a context costs more than what it does with a small chunk. `None`: there was no memory for one.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = RefCell::new(Compressor::new(LEVEL).ok());
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = RefCell::new(Decompressor::new().ok());
}

fn compress(bytes: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| compressor.as_mut()?.compress(bytes).ok())
}

fn decompress(bytes: &[u8], len: usize) -> Option<Vec<u8>> {
    DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.as_mut()?.decompress(bytes, len).ok())
}

/// A body that cannot be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnpackError {
    /// It would be longer than a chunk may be.
    #[error("a chunk of {0} bytes is too long (at most {CHUNK_MAX})")]
    TooLong(usize),
    /// The compression is broken, or gives another length than was said.
    #[error("a compressed chunk is damaged")]
    Damaged,
}

/// The form and the bytes to send.
pub(crate) fn pack(bytes: &Bytes) -> (Form, Bytes) {
    if bytes.len() < WORTH_LEN_MIN || !is_compressible(bytes) {
        return (Form::Plain, bytes.clone());
    }
    match (compress(bytes), u32::try_from(bytes.len())) {
        (Some(packed), Ok(len)) if packed.len() + packed.len() / 16 < bytes.len() => {
            (Form::Zstd { len }, Bytes::from(packed))
        }
        _ => (Form::Plain, bytes.clone()),
    }
}

/// The chunk that was sent; never more than a chunk may have, whatever the peer says.
pub(crate) fn unpack(form: Form, bytes: Bytes) -> Result<Bytes, UnpackError> {
    match form {
        Form::Plain if bytes.len() > CHUNK_MAX => Err(UnpackError::TooLong(bytes.len())),
        Form::Plain => Ok(bytes),
        Form::Zstd { len } if len as usize > CHUNK_MAX => Err(UnpackError::TooLong(len as usize)),
        Form::Zstd { len } => {
            let unpacked = decompress(&bytes, len as usize).ok_or(UnpackError::Damaged)?;
            if unpacked.len() == len as usize { Ok(Bytes::from(unpacked)) } else { Err(UnpackError::Damaged) }
        }
    }
}

fn is_compressible(bytes: &[u8]) -> bool {
    if bytes.len() <= SAMPLE_LEN {
        // The sample would be all of it.
        return true;
    }
    let begin = (bytes.len() / 2).saturating_sub(SAMPLE_LEN / 2);
    let sample = &bytes[begin..bytes.len().min(begin + SAMPLE_LEN)];
    compress(sample).is_some_and(|packed| packed.len() + packed.len() / 8 < sample.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_compressed_and_noise_is_not() {
        let text = Bytes::from("every file tells a story. ".repeat(4000));
        let (form, packed) = pack(&text);
        assert!(matches!(form, Form::Zstd { .. }));
        assert!(packed.len() < text.len() / 10);
        assert_eq!(unpack(form, packed).unwrap(), text);
        let noise: Vec<u8> =
            (0..100_000u32).flat_map(|i| blake3::hash(&i.to_le_bytes()).as_bytes()[..1].to_vec()).collect();
        assert_eq!(pack(&Bytes::from(noise)).0, Form::Plain);
    }

    #[test]
    fn a_bomb_is_refused() {
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 1).unwrap();
        assert!(unpack(Form::Zstd { len: u32::MAX }, Bytes::from(bomb.clone())).is_err());
        assert!(unpack(Form::Zstd { len: 1000 }, Bytes::from(bomb)).is_err());
        assert!(unpack(Form::Plain, Bytes::from(vec![0; CHUNK_MAX + 1])).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_survive(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            let bytes = Bytes::from(bytes);
            let (form, packed) = pack(&bytes);
            prop_assert_eq!(unpack(form, packed).unwrap(), bytes);
        }

        #[test]
        fn lies_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), len in any::<u32>()) {
            let _ = unpack(Form::Zstd { len }, Bytes::from(bytes));
        }
    }
}
