//! Frames that go through bytes, and bytes that are none.

use super::*;

fn packet(len: usize) -> IpPacket {
    let mut bytes = vec![0; len];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    IpPacket::new(bytes.into()).unwrap()
}

fn full() -> Frame<IpPacket> {
    let have = vec![(11, 13), (20, 21), (30, 60)];
    Frame {
        order: (1 << 40) + 5,
        number: 1 << 33,
        floor: 7,
        backlog: 12,
        packets: vec![packet(40), packet(1000)],
        report: Some(Report { next: 10, order: 99, have, told: u64::MAX, room: 70_000 }),
        wants_report: true,
        request: Some(4000),
    }
}

fn encoded(frame: &Frame<IpPacket>, len_max: usize) -> Bytes {
    let mut bytes = Vec::new();
    encode_frame(frame, len_max, &mut bytes);
    bytes.into()
}

#[test]
fn a_frame_survives_its_bytes() {
    let frame = full();
    assert_eq!(decode_frame(encoded(&frame, 1500)).unwrap(), frame);
    let bare = Frame { packets: Vec::new(), report: None, request: None, wants_report: false, ..frame };
    assert_eq!(encoded(&bare, 1500).len(), FRAME_HEADER_LEN);
    assert_eq!(decode_frame(encoded(&bare, 1500)).unwrap(), bare);
}

#[test]
fn ranges_that_do_not_fit_are_left_out_and_that_is_told() {
    let frame = full();
    let fits_two = encoded(&frame, 1500).len() - 4;
    let read = decode_frame(encoded(&frame, fits_two)).unwrap();
    let report = read.report.unwrap();
    assert_eq!(report.have, [(11, 13), (20, 21)]);
    assert_eq!(report.told, 21);
    let report = decode_frame(encoded(&frame, 0)).unwrap().report.unwrap();
    assert_eq!((report.have.len(), report.told), (0, 10));
}

#[test]
fn cuts_and_lies_are_refused() {
    let good = encoded(&full(), 1500);
    for cut in 0..good.len() {
        // A cut at the end of a packet leaves a shorter frame.
        let result = decode_frame(good.slice(..cut));
        assert!(result.is_err() || result.unwrap().packets.len() < 2, "cut to {cut}");
    }
    let mut bytes = good.to_vec();
    bytes[0] |= 0x80;
    assert!(matches!(decode_frame(bytes.into()), Err(FrameError::Flags(_))));
    let mut bytes = good.to_vec();
    bytes[FRAME_HEADER_LEN + 4 + 16] = 255;
    assert_eq!(decode_frame(bytes.into()), Err(FrameError::TooMany));
    let mut many = encoded(&Frame { packets: Vec::new(), report: None, request: None, ..full() }, 1500).to_vec();
    many[0] |= PACKETS;
    for _ in 0..=PACKETS_MAX {
        many.extend([20, 0]);
        many.extend(packet(20).bytes());
    }
    assert_eq!(decode_frame(many.into()), Err(FrameError::TooMany));
}

#[test]
fn anything_at_all_is_read_or_refused_and_an_end_stays_within_its_bounds() {
    use crate::arq::{Arq, ArqConfig};
    use wayfs_types::Time;
    let good = encoded(&full(), 1500);
    let mut end = Arq::new(ArqConfig::default());
    let (mut state, mut read) = (99_u32, 0);
    for round in 0..100_000_u64 {
        let now = Time::from_micros(round * 100);
        let mut bytes = good.to_vec();
        for _ in 0..=round % 5 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = (state >> 8) as usize % bytes.len();
            bytes[at] = state as u8;
        }
        if let Ok(frame) = decode_frame(bytes.into()) {
            read += 1;
            end.handle_frame(now, frame);
        }
        let _ = end.send(now, packet(500));
        let _ = (end.poll_frame(now), end.poll_timeout(now));
        end.handle_timeout(now);
        while end.poll_packet(now).is_some() {}
        while end.poll_signal().is_some() {}
        assert!(end.state_len() < 1024 * 1024, "{}", end.state_len());
    }
    assert!(read > 1000, "{read} frames were whole");
}
