//! Headers by hand, and anything at all.

use super::*;

/// A segment over IPv4 with these options (a multiple of four) and payload; its checksum is right.
pub(super) fn tcp4(flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let header_len = 20 + options.len();
    let total = 20 + header_len + payload.len();
    let mut bytes =
        vec![0x45, 0, (total >> 8) as u8, total as u8, 0, 1, 0x40, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    bytes.extend([
        0x12,
        0x34,
        0,
        80,
        0,
        0,
        0x10,
        0,
        0,
        0,
        0x20,
        0,
        (header_len as u8 / 4) << 4,
        flags,
        1,
        0,
        0,
        0,
        0,
        0,
    ]);
    bytes.extend(options);
    bytes.extend(payload);
    let sum = checksum(&bytes);
    bytes[36..38].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// The checksum of a TCP segment over IPv4, computed whole; zero if the one inside is right.
fn checksum(bytes: &[u8]) -> u16 {
    let mut pseudo = bytes[12..20].to_vec();
    pseudo.extend([0, TCP]);
    pseudo.extend(((bytes.len() - 20) as u16).to_be_bytes());
    pseudo.extend(&bytes[20..]);
    if pseudo.len() % 2 == 1 {
        pseudo.push(0);
    }
    let mut total: u32 = pseudo.chunks(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    !(total as u16)
}

fn packet(bytes: Vec<u8>) -> IpPacket {
    IpPacket::new(bytes.into()).unwrap()
}

#[test]
fn what_concerns_a_connection_is_told_from_the_rest() {
    let opening = packet(tcp4(SYN, &[], b""));
    let (from, to) = opening.opening().unwrap();
    assert_eq!((from.to_string().as_str(), to.to_string().as_str()), ("10.0.0.1:4660", "10.0.0.2:80"));
    for flags in [SYN | ACK, ACK, SYN | RST, FIN | ACK] {
        let other = packet(tcp4(flags, &[], b""));
        assert!(other.concerns_tcp() && other.opening().is_none(), "{flags}");
    }
    // A piece of a segment is one, though it has no ports.
    let mut piece = tcp4(ACK, &[], b"0123");
    piece[7] = 9;
    assert!(packet(piece.clone()).concerns_tcp() && packet(piece).opening().is_none());
    let error = |kind: u8, about: u8| {
        let mut inner = tcp4(ACK, &[], b"");
        inner[9] = about;
        let mut bytes = vec![0x45, 0, 0, 20 + 8 + 28, 0, 1, 0, 0, 64, ICMP, 0, 0, 10, 0, 0, 9, 10, 0, 0, 1];
        bytes.extend([kind, 4, 0, 0, 0, 0, 5, 0]);
        bytes.extend(&inner[..28]);
        packet(bytes)
    };
    assert!(error(3, TCP).concerns_tcp() && error(11, TCP).concerns_tcp());
    assert!(!error(3, 17).concerns_tcp() && !error(8, TCP).concerns_tcp());
    let six = |protocol: u8, body: &[u8]| {
        let mut bytes = vec![0x60, 0, 0, 0, 0, body.len() as u8, protocol, 64];
        bytes.extend([0; 32]);
        bytes.extend(body);
        packet(bytes)
    };
    let mut quoted = vec![2, 0, 0, 0, 0, 0, 5, 0, 0x60, 0, 0, 0, 0, 20, TCP, 64];
    quoted.extend([0; 32]);
    assert!(six(ICMP6, &quoted).concerns_tcp() && six(TCP, &[0; 20]).concerns_tcp());
    assert!(!six(17, &[0; 20]).concerns_tcp() && !six(ICMP6, &[128, 0, 0, 0]).concerns_tcp());
}

/// Two ranges, after two options that do nothing.
fn with_ranges() -> Vec<u8> {
    let mut options = vec![1, 1, 5, 18];
    for place in [0x2100_u32, 0x2200, 0x2300, 0x2400] {
        options.extend(place.to_be_bytes());
    }
    options
}

#[test]
fn a_segment_is_read_with_its_ranges() {
    let header = packet(tcp4(ACK, &with_ranges(), &[7; 100])).tcp().unwrap();
    assert_eq!((header.seq, header.len, header.ack, header.window), (0x1000, 100, Some(0x2000), 256));
    assert_eq!(header.sacks.ranges(), [Span { from: 0x2100, to: 0x2200 }, Span { from: 0x2300, to: 0x2400 }]);
    assert!(
        header.sacks.hold(Span { from: 0x2110, to: 0x2200 }) && !header.sacks.hold(Span { from: 0x2110, to: 0x2201 })
    );
    let syn = packet(tcp4(SYN, &[2, 4, 5, 180], &[])).tcp().unwrap();
    assert!(syn.syn && syn.ack.is_none() && syn.len == 1);
    assert_eq!(packet(tcp4(FIN | ACK, &[], &[1])).tcp().unwrap().len, 2);
}

#[test]
fn both_directions_are_one_flow_and_other_ports_another() {
    let forth = packet(tcp4(ACK, &[], &[])).tcp().unwrap().flow;
    let mut back = tcp4(ACK, &[], &[]);
    for (one, two) in [(12, 16), (13, 17), (14, 18), (15, 19), (20, 22), (21, 23)] {
        back.swap(one, two);
    }
    assert_eq!(packet(back).tcp().unwrap().flow, forth);
    let mut other = tcp4(ACK, &[], &[]);
    other[21] += 1;
    assert_ne!(packet(other).tcp().unwrap().flow, forth);
}

#[test]
fn ipv6_is_read_through_its_extensions() {
    let segment = tcp4(ACK, &[], &[9; 10])[20..].to_vec();
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
    bytes.extend([1; 16]);
    bytes.extend([2; 16]);
    bytes.extend([TCP, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(&segment);
    bytes[5] = (bytes.len() - 40) as u8;
    let read = packet(bytes.clone());
    assert_eq!(read.tcp().unwrap().len, 10);
    assert_eq!(read.source(), IpAddr::from([1_u8; 16]));
    assert_eq!(read.destination(), IpAddr::from([2_u8; 16]));
    // A fragment is none of TCP.
    bytes[6] = 44;
    assert_eq!(packet(bytes).tcp(), None);
}

#[test]
fn marks_and_hidden_ranges_keep_the_checksum_right() {
    let mut marked = packet(tcp4(ACK, &with_ranges(), &[7; 33]));
    assert_eq!(checksum(marked.bytes()), 0);
    marked.mark_loss();
    assert_eq!(marked.bytes()[32] & LOSS_NOTICE, LOSS_NOTICE);
    assert_eq!(checksum(marked.bytes()), 0);
    marked.hide_ranges();
    assert!(marked.tcp().unwrap().sacks.ranges().is_empty());
    assert_eq!(checksum(marked.bytes()), 0);
}

#[test]
fn ranges_that_are_given_twice_are_hidden_twice() {
    let option = |from: u32| [&[1, 1, 5, 10][..], &from.to_be_bytes(), &(from + 0x100).to_be_bytes()].concat();
    let mut twice = packet(tcp4(ACK, &[option(0x2100), option(0x2300)].concat(), &[]));
    twice.hide_ranges();
    assert!(twice.tcp().unwrap().sacks.ranges().is_empty());
    assert_eq!(checksum(twice.bytes()), 0);
}

#[test]
fn headers_that_lie_about_lengths_are_refused_or_not_tcp() {
    assert_eq!(IpPacket::new(Bytes::new()), Err(IpError::Version));
    assert_eq!(IpPacket::new(Bytes::from_static(&[0x45, 0])), Err(IpError::Length));
    let good = tcp4(ACK, &with_ranges(), &[1, 2, 3]);
    for cut in 1..good.len() {
        assert!(IpPacket::new(good[..cut].to_vec().into()).is_err(), "cut to {cut}");
    }
    let mut fragment = good.clone();
    fragment[6] = 0x20;
    assert_eq!(packet(fragment).tcp(), None);
    let mut long = good.clone();
    long[32] = 0xf0;
    assert_eq!(packet(long).tcp(), None);
    // Options that say more than there is name no ranges, and nothing is changed by hiding them.
    for len in [0, 1, 40] {
        let mut lying = good.clone();
        lying[43] = len;
        let mut lying = packet(lying);
        assert!(lying.tcp().unwrap().sacks.ranges().is_empty(), "{len}");
        let before = lying.clone();
        lying.hide_ranges();
        assert_eq!(lying, before);
    }
}

#[test]
fn anything_at_all_is_read_or_refused() {
    let good = tcp4(ACK, &with_ranges(), &[1, 2, 3]);
    let mut state = 12_345_u32;
    for round in 0..200_000 {
        let mut bytes = good.clone();
        for _ in 0..=round % 4 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = (state >> 8) as usize % bytes.len();
            bytes[at] = state as u8;
        }
        if let Ok(mut packet) = IpPacket::new(bytes.into()) {
            let _ = (packet.tcp(), packet.source(), packet.destination());
            packet.mark_loss();
            packet.hide_ranges();
        }
    }
}
