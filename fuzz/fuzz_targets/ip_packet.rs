//! Any bytes are a packet of IP or are refused; what is read out of it and changed in it never leaves it.
#![no_main]

use wayfs_hop::{IpPacket, Packet};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(mut packet) = IpPacket::new(bytes::Bytes::copy_from_slice(data)) else { return };
    let before = packet.tcp();
    let _ = (packet.source(), packet.destination());
    packet.mark_loss();
    packet.hide_ranges();
    assert_eq!(packet.packet_len(), data.len());
    if let (Some(before), Some(after)) = (before, packet.tcp()) {
        assert!(after.sacks.ranges().is_empty());
        assert_eq!((before.seq, before.ack, before.len, before.flow), (after.seq, after.ack, after.len, after.flow));
    }
});
