use super::*;
use crate::frame::FRAME_LEN_MAX;
use proptest::prelude::*;
use zstd::zstd_safe::zstd_sys::ZSTD_EndDirective::{self, ZSTD_e_end};

fn unpack(unpacker: &mut Unpacker, packed: &[u8]) -> Result<Vec<u8>, UnpackError> {
    unpacker.unpack(packed, FRAME_LEN_MAX)
}

/// Bytes that do not shrink, the same each time.
fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

/// What a sender would make that keeps to no limit.
fn forge(bytes: &[u8], window_log: u32, end: ZSTD_EndDirective) -> Vec<u8> {
    let mut context = CCtx::create();
    context.set_parameter(CParameter::WindowLog(window_log)).unwrap();
    let mut packed = Vec::with_capacity(bytes.len() + bytes.len() / 128 + 1024);
    let mut input = InBuffer::around(bytes);
    while context.compress_stream2(&mut OutBuffer::around(&mut packed), &mut input, end).unwrap() > 0 {}
    packed
}

#[test]
fn a_frame_that_came_before_costs_hardly_anything() {
    let (mut packer, mut unpacker) = (Packer::new(), Unpacker::new());
    let frame = noise(1000);
    let lens: Vec<usize> = (0..3)
        .map(|_| {
            let packed = packer.pack(&frame).unwrap();
            assert_eq!(unpack(&mut unpacker, &packed).unwrap(), frame);
            packed.len()
        })
        .collect();
    assert!(lens[0] > 1000 && lens[1] < 30 && lens[2] < 30, "{lens:?}");
}

#[test]
fn nothing_is_made_before_it_is_needed_and_what_is_made_is_bounded() {
    let (mut packer, mut unpacker) = (Packer::new(), Unpacker::new());
    assert!(matches!((&packer.0, &unpacker.0), (Context::Unused, Context::Unused)));
    for len in [40, 300_000, 5, FRAME_LEN_MAX] {
        let packed = packer.pack(&noise(len)).unwrap();
        assert_eq!(unpack(&mut unpacker, &packed).unwrap(), noise(len));
    }
    let (Context::Ready(packing), Context::Ready(unpacking)) = (&packer.0, &unpacker.0) else {
        panic!("both were used")
    };
    assert!(packing.sizeof() < 1100 << 10, "{}", packing.sizeof());
    assert!(unpacking.sizeof() < 700 << 10, "{}", unpacking.sizeof());
}

#[test]
fn a_frame_at_the_limit_unpacks_and_one_byte_more_does_not() {
    for (frame, is_fine) in [
        (vec![0; FRAME_LEN_MAX], true),
        (noise(FRAME_LEN_MAX), true),
        (vec![0; FRAME_LEN_MAX + 1], false),
        (noise(FRAME_LEN_MAX + 1), false),
    ] {
        let packed = Packer::new().pack(&frame).unwrap();
        let unpacked = unpack(&mut Unpacker::new(), &packed);
        assert!(if is_fine { unpacked == Ok(frame) } else { unpacked == Err(UnpackError::TooLong) });
    }
}

#[test]
fn a_bomb_is_refused_at_the_limit() {
    let bomb = forge(&vec![0; 256 << 20], WINDOW_LOG, ZSTD_e_flush);
    assert!(bomb.len() < 32 << 10);
    assert_eq!(unpack(&mut Unpacker::new(), &bomb), Err(UnpackError::TooLong));
}

#[test]
fn a_window_larger_than_ours_is_refused() {
    let greedy = forge(&vec![1; 1000], WINDOW_LOG + 1, ZSTD_e_flush);
    let Err(UnpackError::Damaged(why)) = unpack(&mut Unpacker::new(), &greedy) else { panic!("it was taken") };
    assert!(why.contains("too much memory"), "{why}");
}

#[test]
fn the_end_of_the_stream_is_refused() {
    let ended = forge(b"the end", WINDOW_LOG, ZSTD_e_end);
    assert_eq!(unpack(&mut Unpacker::new(), &ended), Err(UnpackError::Ended));
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    assert_eq!(unpack(&mut Unpacker::new(), &skippable), Err(UnpackError::Ended));
}

#[test]
fn after_damage_nothing_is_unpacked_any_more() {
    let (mut packer, mut unpacker) = (Packer::new(), Unpacker::new());
    let good = packer.pack(b"good").unwrap();
    assert_eq!(unpack(&mut unpacker, &good).unwrap(), b"good");
    assert!(unpack(&mut unpacker, &[0xff; 20]).is_err());
    let next = packer.pack(b"next").unwrap();
    assert!(unpack(&mut unpacker, &next).is_err());
}

#[test]
fn nothing_unpacks_to_nothing() {
    assert_eq!(unpack(&mut Unpacker::new(), b"").unwrap(), b"");
}

proptest! {
    #[test]
    fn garbage_is_refused_or_stays_within_the_limit(
        valid in proptest::collection::vec(any::<u8>(), 0..2000),
        garbage in proptest::collection::vec(any::<u8>(), 0..300),
        at in any::<prop::sample::Index>(),
    ) {
        let len_max = 5000;
        if let Ok(frame) = Unpacker::new().unpack(&garbage, len_max) {
            prop_assert!(frame.len() <= len_max);
        }
        // The same in the middle of what began well.
        let mut packed = Packer::new().pack(&valid).unwrap();
        let at = at.index(packed.len() + 1);
        packed.splice(at..(at + garbage.len()).min(packed.len()), garbage);
        let mut unpacker = Unpacker::new();
        for _ in 0..3 {
            if let Ok(frame) = unpacker.unpack(&packed, len_max) {
                prop_assert!(frame.len() <= len_max && frame.capacity() <= len_max + 1);
            }
        }
    }
}
