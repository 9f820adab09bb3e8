//! Chunks on the wire: compressed when that helps, as hard as the path is worth, alone or as the difference to others.
//!
//! A difference is what zstd makes of a chunk that follows upon its bases: whatever stands in them costs a few bytes. Who unpacks
//! it needs the same bases in the same order; other ones give other bytes, which do not have the chunk's name.

use super::compression::{LEVEL_QUICK, Path};
use super::message::Form;
use bytes::Bytes;
use std::cell::RefCell;
use wayfs_content::CHUNK_MAX;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{CCtx, CParameter, DCtx, compress_bound};

/// Below this a chunk is sent as it is: the saving is less than a packet.
const WORTH_LEN_MIN: usize = 1024;
/// Bytes tried from the middle of a chunk before all of it is compressed.
const SAMPLE_LEN: usize = 8192;
/// Longest that all bases of a chunk are together.
pub(crate) const BASES_LEN_MAX: usize = CHUNK_MAX;

thread_local! {
    // Making a context costs more than what it does with a small chunk. `None`: there was no memory for one. Only of the quickest
    // level: harder ones have tables of megabytes, and take so long that a new context does not matter.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = RefCell::new(Compressor::new(LEVEL_QUICK).ok());
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = RefCell::new(Decompressor::new().ok());
}

fn compress_quickly(bytes: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| compressor.as_mut()?.compress(bytes).ok())
}

fn compress(bytes: &[u8], bases: &[u8], level: i32) -> Option<Vec<u8>> {
    let mut context = CCtx::try_create()?;
    context.set_parameter(CParameter::CompressionLevel(level)).ok()?;
    if !bases.is_empty() {
        // All of the bases must be within reach from the last byte.
        let reach = (bases.len() + bytes.len()).next_power_of_two().trailing_zeros();
        context.set_parameter(CParameter::WindowLog(reach)).ok()?;
        context.ref_prefix(bases).ok()?;
    }
    let mut packed = Vec::with_capacity(compress_bound(bytes.len()));
    context.compress2(&mut packed, bytes).ok()?;
    Some(packed)
}

fn decompress(bytes: &[u8], bases: &[u8], len: usize) -> Option<Vec<u8>> {
    if bases.is_empty() {
        return DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.as_mut()?.decompress(bytes, len).ok());
    }
    let mut context = DCtx::try_create()?;
    context.ref_prefix(bases).ok()?;
    let mut unpacked = Vec::with_capacity(len);
    context.decompress(&mut unpacked, bytes).ok()?;
    Some(unpacked)
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
pub(crate) fn pack(bytes: &Bytes, path: Path) -> (Form, Bytes) {
    let level = path.level(bytes.len());
    let packed = is_worth_it(bytes).then(|| match level {
        LEVEL_QUICK => compress_quickly(bytes),
        level => compress(bytes, &[], level),
    });
    match (packed.flatten().and_then(|packed| if_shorter(packed, bytes)), u32::try_from(bytes.len())) {
        (Some(packed), Ok(len)) => (Form::Zstd { len }, packed),
        (Some(_) | None, _) => (Form::Plain, bytes.clone()),
    }
}

/// A chunk as the difference to others; `None` if that does not make it shorter.
pub(crate) fn pack_difference(bytes: &Bytes, bases: &[u8], path: Path) -> Option<Bytes> {
    if_shorter(compress(bytes, bases, path.level_of_difference(bases.len() + bytes.len()))?, bytes)
}

/// The chunk that was sent; never more than a chunk may have, whatever the peer says. `bases`: those that the form names, one
/// after the other.
pub(crate) fn unpack(form: Form, bytes: Bytes, bases: &[u8]) -> Result<Bytes, UnpackError> {
    match form {
        Form::Plain if bytes.len() > CHUNK_MAX => Err(UnpackError::TooLong(bytes.len())),
        Form::Plain => Ok(bytes),
        Form::Zstd { len } => unpack_to(len, &bytes, &[]),
        Form::Difference { len, .. } => unpack_to(len, &bytes, bases),
    }
}

fn unpack_to(len: u32, bytes: &[u8], bases: &[u8]) -> Result<Bytes, UnpackError> {
    if len as usize > CHUNK_MAX {
        return Err(UnpackError::TooLong(len as usize));
    }
    let unpacked = decompress(bytes, bases, len as usize).ok_or(UnpackError::Damaged)?;
    if unpacked.len() == len as usize { Ok(Bytes::from(unpacked)) } else { Err(UnpackError::Damaged) }
}

fn if_shorter(packed: Vec<u8>, bytes: &[u8]) -> Option<Bytes> {
    (packed.len() + packed.len() / 16 < bytes.len()).then(|| Bytes::from(packed))
}

/// Whether a chunk is long enough and no film.
pub(crate) fn is_worth_it(bytes: &[u8]) -> bool {
    if bytes.len() <= SAMPLE_LEN {
        // The sample would be all of it.
        return bytes.len() >= WORTH_LEN_MIN;
    }
    let begin = (bytes.len() / 2).saturating_sub(SAMPLE_LEN / 2);
    let sample = &bytes[begin..bytes.len().min(begin + SAMPLE_LEN)];
    compress_quickly(sample).is_some_and(|packed| packed.len() + packed.len() / 8 < sample.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PATHS: [Path; 6] = [Path::Near, Path::Fast, Path::Moderate, Path::Far, Path::Thin, Path::VeryThin];
    const DIFFERENCE: Form = Form::Difference { len: 0, named: 1, before: 0 };

    fn difference(len: usize) -> Form {
        Form::Difference { len: u32::try_from(len).unwrap(), named: 1, before: 0 }
    }

    fn noise(len: usize, seed: u64) -> Bytes {
        Bytes::from(crate::testing::noise(len, seed))
    }

    #[test]
    fn text_is_compressed_and_noise_is_not() {
        let text = Bytes::from("every file tells a story. ".repeat(4000));
        for path in PATHS {
            let (form, packed) = pack(&text, path);
            assert!(matches!(form, Form::Zstd { .. }));
            assert!(packed.len() < text.len() / 10);
            assert_eq!(unpack(form, packed, &[]).unwrap(), text);
            assert_eq!(pack(&noise(100_000, 1), path).0, Form::Plain);
        }
    }

    #[test]
    fn an_edit_is_as_long_as_what_was_changed() {
        for len in [2000, 100_000, CHUNK_MAX - 100] {
            let before = noise(len, 2);
            let mut after = before.to_vec();
            after.splice(len / 3..len / 3, b"a few words".iter().copied());
            let after = Bytes::from(after);
            for path in PATHS {
                let packed = pack_difference(&after, &before, path).unwrap();
                assert!(packed.len() < 100 + len / 500, "{len} over {path:?}: {}", packed.len());
                assert_eq!(unpack(difference(after.len()), packed, &before).unwrap(), after);
            }
        }
        assert_eq!(pack_difference(&noise(2000, 3), &noise(2000, 4), Path::Far), None);
    }

    #[test]
    fn other_bases_never_give_the_same_chunk() {
        let (base, other) = (noise(50_000, 5), noise(50_000, 6));
        // zstd does not compare bytes with themselves, so the base is a copy.
        let packed = pack_difference(&base, &noise(50_000, 5), Path::Thin).unwrap();
        assert_ne!(unpack(difference(base.len()), packed.clone(), &other), Ok(base.clone()));
        assert_ne!(unpack(difference(base.len()), packed.clone(), &base[1..]), Ok(base.clone()));
        assert_ne!(unpack(difference(base.len()), packed, &[]), Ok(base));
    }

    #[test]
    fn a_base_that_looks_like_a_dictionary_is_taken_as_bytes() {
        let mut base = 0xEC30_A437_u32.to_le_bytes().to_vec();
        base.extend_from_slice(&noise(5000, 7));
        let chunk = Bytes::from([&base[..], b"and more"].concat());
        let packed = pack_difference(&chunk, &base, Path::Far).unwrap();
        assert_eq!(unpack(difference(chunk.len()), packed, &base).unwrap(), chunk);
    }

    #[test]
    fn a_bomb_is_refused() {
        let bomb = Bytes::from(zstd::bulk::compress(&vec![0; 64 << 20], 1).unwrap());
        for len in [1000, u32::MAX] {
            assert!(unpack(Form::Zstd { len }, bomb.clone(), &[]).is_err());
            for bases in [&[][..], &[7; 1000]] {
                assert!(unpack(Form::Difference { len, named: 1, before: 0 }, bomb.clone(), bases).is_err());
            }
        }
        assert!(unpack(Form::Plain, Bytes::from(vec![0; CHUNK_MAX + 1]), &[]).is_err());
        assert!(unpack(DIFFERENCE, bomb, &[7; 1000]).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_survive(bytes in proptest::collection::vec(any::<u8>(), 0..5000), path in 0..PATHS.len()) {
            let bytes = Bytes::from(bytes);
            let (form, packed) = pack(&bytes, PATHS[path]);
            prop_assert_eq!(unpack(form, packed, &[]).unwrap(), bytes);
        }

        #[test]
        fn any_bytes_survive_upon_any_bases(
            bytes in proptest::collection::vec(0..8u8, 0..3000),
            bases in proptest::collection::vec(0..8u8, 0..3000),
            path in 0..PATHS.len(),
        ) {
            let bytes = Bytes::from(bytes);
            if let Some(packed) = pack_difference(&bytes, &bases, PATHS[path]) {
                prop_assert!(packed.len() < bytes.len());
                prop_assert_eq!(unpack(difference(bytes.len()), packed, &bases).unwrap(), bytes);
            }
        }

        #[test]
        fn lies_are_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            bases in proptest::collection::vec(any::<u8>(), 0..300),
            len in any::<u32>(),
        ) {
            for form in [Form::Zstd { len }, Form::Difference { len, named: 1, before: 0 }] {
                if let Ok(unpacked) = unpack(form, Bytes::from(bytes.clone()), &bases) {
                    prop_assert_eq!(unpacked.len(), len as usize);
                }
            }
        }

        #[test]
        fn a_damaged_difference_is_no_more_than_wrong(at in 0..50usize, bit in 0..8u8) {
            let (base, chunk) = (noise(3000, 8), Bytes::from([&noise(3000, 8)[..2000], b"end of it"].concat()));
            let mut packed = pack_difference(&chunk, &base, Path::Far).unwrap().to_vec();
            let at = at % packed.len();
            packed[at] ^= 1 << bit;
            if let Ok(unpacked) = unpack(difference(chunk.len()), Bytes::from(packed), &base) {
                prop_assert_eq!(unpacked.len(), chunk.len());
            }
        }
    }
}
