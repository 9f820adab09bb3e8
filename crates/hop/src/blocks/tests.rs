//! Losses within and beyond what a block can bear.

use super::*;

fn packet(number: u8, len: usize) -> IpPacket {
    let mut bytes = vec![number; len];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    IpPacket::new(bytes.into()).unwrap()
}

fn pieces(end: &mut Blocks) -> Vec<Bytes> {
    let mut all = Vec::new();
    loop {
        let mut bytes = Vec::new();
        if !end.poll_piece(&mut bytes) {
            return all;
        }
        all.push(bytes.into());
    }
}

fn arrive(end: &mut Blocks, pieces: impl IntoIterator<Item = Bytes>) -> Vec<u8> {
    pieces.into_iter().for_each(|piece| end.handle_piece(piece));
    std::iter::from_fn(|| end.poll_packet()).map(|packet| packet.bytes()[5]).collect()
}

#[test]
fn as_many_losses_as_sums_are_computed_and_more_are_not() {
    let (mut from, mut to) = (Blocks::new(Shape { n: 6, k: 4 }).unwrap(), Blocks::new(Shape { n: 6, k: 4 }).unwrap());
    for number in 0..8 {
        from.send(Time::ZERO, &packet(number, 40 + 100 * usize::from(number)));
    }
    let all = pieces(&mut from);
    assert_eq!(all.len(), 12);
    // Two of the first block, three of the second.
    let kept = |n: &usize| ![1, 3, 6, 7, 8].contains(n);
    let arrived = (0..12).filter(kept).map(|n| all[n].clone());
    assert_eq!(arrive(&mut to, arrived), [0, 2, 1, 3, 7]);
    assert_eq!(to.statistics().computed, 2);
}

#[test]
fn a_block_that_does_not_fill_is_closed_in_time() {
    let (mut from, mut to) = (Blocks::new(Shape { n: 6, k: 4 }).unwrap(), Blocks::new(Shape { n: 6, k: 4 }).unwrap());
    from.send(Time::ZERO, &packet(7, 60));
    from.send(Time::ZERO, &packet(8, 900));
    assert_eq!(pieces(&mut from).len(), 2);
    let due = from.poll_timeout().unwrap();
    assert_eq!(due, Time::ZERO + CLOSE_AFTER);
    from.handle_timeout(due);
    assert_eq!(from.poll_timeout(), None);
    let sums = pieces(&mut from);
    assert_eq!(arrive(&mut to, sums), [7, 8]);
}

#[test]
fn pieces_that_make_no_sense_are_dropped_and_nothing_grows() {
    let mut to = Blocks::new(Shape { n: 6, k: 4 }).unwrap();
    let mut state = 5_u32;
    for _ in 0..50_000 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let len = (state >> 8) as usize % 40;
        let mut bytes: Vec<u8> = (0..len).map(|n| (state.rotate_left(n as u32)) as u8).collect();
        if let Some(row) = bytes.get_mut(4) {
            *row %= 7;
        }
        if let Some(count) = bytes.get_mut(5) {
            *count %= 6;
        }
        to.handle_piece(bytes.into());
        while to.poll_packet().is_some() {}
    }
    assert!(to.arrived.len() <= BLOCKS_MAX);
}
