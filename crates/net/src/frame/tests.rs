use super::*;
use proptest::prelude::*;

fn layout() -> FrameLayout {
    FrameLayout::new(Packer::new())
}

fn find_all(finder: &mut FrameFinder) -> Result<Vec<Bytes>, FrameFault> {
    let mut frames = Vec::new();
    while let Some(found) = finder.next()? {
        frames.push(found.frame);
    }
    Ok(frames)
}

fn find_in(bytes: &[u8]) -> Result<Vec<Bytes>, FrameFault> {
    let mut finder = FrameFinder::new();
    finder.extend(bytes);
    find_all(&mut finder)
}

#[test]
fn frames_are_laid_out_in_order_whatever_their_length() {
    let frames: Vec<Bytes> = [3, COPY_LEN_MAX + 1, 0, COPY_LEN_MAX].map(|len| Bytes::from(vec![7; len])).to_vec();
    let mut layout = layout();
    frames.iter().for_each(|frame| assert_eq!(layout.push(frame.clone(), Form::Plain), frame.len()));
    let mut wire: BytesMut = layout.take().concat().as_slice().into();
    for frame in frames {
        assert_eq!(wire.get_u8(), KIND_MESSAGE);
        let len = wire.get_u32_le() as usize;
        assert_eq!(wire.split_to(len), frame);
    }
    assert!(wire.is_empty() && layout.take().is_empty());
}

#[test]
fn short_frames_are_not_packed() {
    let mut layout = layout();
    layout.push(Bytes::from(vec![7; PACKING_LEN_MIN - 1]), Form::Packed);
    layout.push(Bytes::from(vec![7; PACKING_LEN_MIN]), Form::Packed);
    let wire = layout.take().concat();
    assert_eq!((wire[0], wire[HEAD_LEN + PACKING_LEN_MIN - 1]), (KIND_MESSAGE, KIND_PACKED));
}

/// The example of `docs/format/control-stream.md`. If this fails, peers of the same protocol number no longer
/// understand each other.
#[test]
fn frames_of_the_format_page_are_understood() {
    let wire = data_encoding::HEXLOWER.decode(EXAMPLE.replace([' ', '\n'], "").as_bytes()).unwrap();
    let text = "to and fro, to and fro, to and fro";
    assert_eq!(find_in(&wire).unwrap(), [text, "plain", text]);
}

const EXAMPLE: &str = "
    02 1b000000 28b52ffd003894000060746f20616e642066726f2c200100574a12
    01 05000000 706c61696e
    02 0b000000 4400000002008083542610";

#[test]
fn a_head_that_claims_too_much_is_refused_before_its_body() {
    for (kind, len_max) in [(KIND_MESSAGE, FRAME_LEN_MAX), (KIND_PACKED, PACKED_LEN_MAX)] {
        let head = |len: usize| [&[kind][..], &u32::try_from(len).unwrap().to_le_bytes()].concat();
        assert_eq!(find_in(&head(len_max)), Ok(vec![]));
        assert_eq!(find_in(&head(len_max + 1)), Err(FrameFault::TooLong(len_max + 1)));
    }
    assert_eq!(find_in(&GREETING), Err(FrameFault::Kind(0)), "one greeting is enough");
    assert_eq!(find_in(&[3, 0, 0, 0, 0]), Err(FrameFault::Kind(3)));
}

#[test]
fn the_longest_frame_goes_in_either_form_whether_it_shrinks_or_not() {
    let mut noise = vec![0; FRAME_LEN_MAX];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    for frame in [Bytes::from(noise), Bytes::from(vec![0; FRAME_LEN_MAX])] {
        for form in [Form::Plain, Form::Packed] {
            let mut layout = layout();
            layout.push(Bytes::from_static(b"one before it, so that blocks do not begin with the frame"), Form::Packed);
            let carried = layout.push(frame.clone(), form);
            assert!(carried <= PACKED_LEN_MAX);
            assert!(find_in(&layout.take().concat()).unwrap()[1] == frame);
        }
    }
}

#[test]
fn damage_in_a_packed_frame_is_named() {
    let wire = [&[KIND_PACKED, 8, 0, 0, 0][..], b"rubbish!"].concat();
    assert!(matches!(find_in(&wire), Err(FrameFault::Unpack(UnpackError::Damaged(_)))));
}

fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec(any::<u8>(), 0..400);
    let text = proptest::collection::vec(prop_oneof!["[a-d]{1,8}", Just("the same again ".to_owned())], 0..60)
        .prop_map(|words| words.concat().into_bytes());
    let long = (any::<u8>(), 0..300_000usize).prop_map(|(byte, len)| vec![byte; len]);
    prop_oneof![4 => noise, 4 => text, 1 => long]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn frames_of_both_forms_come_back_in_order_however_the_stream_is_cut(
        frames in proptest::collection::vec((any_frame(), any::<bool>()), 1..40),
        cuts in proptest::collection::vec(1..5000usize, 1..20),
        batch in 1..10usize,
    ) {
        let (mut layout, mut finder) = (layout(), FrameFinder::new());
        let (mut found, mut cut) = (Vec::new(), cuts.iter().cycle());
        for frames in frames.chunks(batch) {
            for (frame, is_packed) in frames {
                let form = if *is_packed { Form::Packed } else { Form::Plain };
                layout.push(Bytes::from(frame.clone()), form);
            }
            let wire = layout.take().concat();
            let mut rest = wire.as_slice();
            while !rest.is_empty() {
                let (piece, after) = rest.split_at((*cut.next().unwrap()).min(rest.len()));
                finder.extend(piece);
                found.extend(find_all(&mut finder).unwrap());
                rest = after;
            }
            prop_assert!(finder.is_empty());
        }
        prop_assert_eq!(found.len(), frames.len());
        prop_assert!(found.iter().zip(&frames).all(|(found, (sent, _))| found == sent));
    }

    #[test]
    fn garbage_is_no_frame_or_keeps_to_the_limit(
        bytes in proptest::collection::vec(any::<u8>(), 0..600), kind in 0..3u8, piece_len in 1..100usize,
    ) {
        let len = u32::try_from(bytes.len()).unwrap().to_le_bytes();
        crate::fuzzing::read_frames(&[&[kind][..], &len, &bytes].concat(), piece_len);
        crate::fuzzing::read_frames(&bytes, piece_len);
    }
}
