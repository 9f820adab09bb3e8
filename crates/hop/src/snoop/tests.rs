//! Snoop's cases, one by one.

use super::*;
use crate::packet::Sacks;

const FLOW: Flow = Flow(7);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Plain {
    header: TcpHeader,
    marked: bool,
}

impl Packet for Plain {
    fn packet_len(&self) -> usize {
        40 + self.header.len as usize
    }

    fn tcp(&self) -> Option<TcpHeader> {
        Some(self.header)
    }

    fn mark_loss(&mut self) {
        self.marked = true;
    }
}

const fn header(seq: u32, len: u32, ack: Option<u32>) -> TcpHeader {
    TcpHeader { flow: FLOW, seq, len, ack, window: 32_768, syn: false, rst: false, echo: None, sacks: Sacks::new() }
}

/// The n-th segment of 100 bytes; the places wrap around within the first ten.
const fn place(n: u32) -> u32 {
    (u32::MAX - 450).wrapping_add(100 * n)
}

fn data(n: u32) -> Plain {
    Plain { header: header(place(n), 100, Some(1)), marked: false }
}

fn ack(n: u32) -> Plain {
    Plain { header: header(1, 0, Some(place(n))), marked: false }
}

fn selective(n: u32, echo: u32) -> Plain {
    let mut ack = ack(n);
    ack.header.echo = Some(place(echo));
    ack
}

const fn ms(milliseconds: u64) -> Time {
    Time::from_micros(milliseconds * 1000)
}

/// A base station that sent segments 0 to 9 and heard that segment 0 arrived.
fn base(config: SnoopConfig) -> Snoop<Plain> {
    let mut snoop = Snoop::new(config);
    for n in 0..10 {
        snoop.handle_wire(ms(u64::from(n)), data(n));
        assert_eq!(snoop.poll_air(ms(u64::from(n))), Some(data(n)));
    }
    snoop.handle_air(ms(20), ack(1));
    assert_eq!(wire(&mut snoop), [ack(1)]);
    snoop
}

fn wire(snoop: &mut Snoop<Plain>) -> Vec<Plain> {
    std::iter::from_fn(|| snoop.poll_wire()).collect()
}

fn air(snoop: &mut Snoop<Plain>, now: Time) -> Vec<Plain> {
    std::iter::from_fn(|| snoop.poll_air(now)).collect()
}

#[test]
fn the_first_duplicate_sends_again_and_the_sender_sees_none() {
    let mut snoop = base(SnoopConfig::default());
    // Segments 2 to 9 cause eight duplicates.
    for n in 0..8 {
        snoop.handle_air(ms(21 + n), ack(1));
        let again = air(&mut snoop, ms(21 + n));
        assert_eq!(again, if n == 0 { vec![data(1)] } else { vec![] }, "{n}");
    }
    assert_eq!(wire(&mut snoop), []);
    snoop.handle_air(ms(40), ack(10));
    assert_eq!((wire(&mut snoop), snoop.kept_len()), (vec![ack(10)], 0));
    assert_eq!((snoop.statistics().retransmitted, snoop.statistics().suppressed), (1, 8));
}

#[test]
fn more_duplicates_than_expected_say_that_the_retransmission_was_lost() {
    let mut snoop = base(SnoopConfig::default());
    let mut again = 0;
    for n in 0..10 {
        snoop.handle_air(ms(21 + n), ack(1));
        again += air(&mut snoop, ms(21 + n)).len();
    }
    assert_eq!(again, 2);
}

#[test]
fn a_plain_link_layer_sends_again_and_the_sender_sees_duplicates() {
    let mut snoop = base(SnoopConfig { duplicates: Duplicates::Passed, ..SnoopConfig::default() });
    for n in 0..3 {
        snoop.handle_air(ms(21 + n), ack(1));
    }
    assert_eq!(air(&mut snoop, ms(25)), [data(1)]);
    assert_eq!(wire(&mut snoop), [ack(1), ack(1), ack(1)]);
}

#[test]
fn selective_acknowledgements_send_everything_lost_at_once_and_leave_lost_retransmissions_to_the_timer() {
    let mut snoop = base(SnoopConfig { acknowledgements: Acknowledgements::Selective, ..SnoopConfig::default() });
    // Segment 4 arrived: 1 to 3 are lost.
    snoop.handle_air(ms(21), selective(1, 4));
    assert_eq!(air(&mut snoop, ms(21)), [data(1), data(2), data(3)]);
    snoop.handle_air(ms(22), selective(1, 5));
    assert_eq!(air(&mut snoop, ms(22)), []);
    // The retransmission of 2 arrived, that of 1 did not, though it went before.
    snoop.handle_air(ms(23), selective(1, 2));
    assert_eq!(air(&mut snoop, ms(23)), [data(6), data(7), data(8), data(9)]);
    let due = snoop.poll_timeout().unwrap();
    assert_eq!(due, ms(221));
    snoop.handle_timeout(due);
    assert_eq!(air(&mut snoop, due), [data(1)]);
    assert_eq!(wire(&mut snoop), []);
}

#[test]
fn what_was_lost_on_the_wire_is_the_senders() {
    let mut snoop = Snoop::new(SnoopConfig::default());
    for n in [0, 1, 3, 4] {
        snoop.handle_wire(ms(0), data(n));
    }
    air(&mut snoop, ms(1));
    snoop.handle_air(ms(2), ack(2));
    wire(&mut snoop);
    snoop.handle_air(ms(3), ack(2));
    assert_eq!(wire(&mut snoop), [ack(2)]);
    // The sender sends it again; further duplicates are the sender's to count.
    snoop.handle_wire(ms(4), data(2));
    assert_eq!(air(&mut snoop, ms(4)), [data(2)]);
    snoop.handle_air(ms(5), ack(2));
    assert_eq!((wire(&mut snoop), air(&mut snoop, ms(5))), (vec![ack(2)], vec![]));
}

#[test]
fn old_acknowledgements_are_dropped_and_old_segments_are_answered_by_the_mobile() {
    let mut snoop = base(SnoopConfig::default());
    snoop.handle_air(ms(21), ack(5));
    snoop.handle_air(ms(22), ack(3));
    assert_eq!(wire(&mut snoop), [ack(5)]);
    let kept = snoop.kept_len();
    snoop.handle_wire(ms(23), data(2));
    assert_eq!((air(&mut snoop, ms(23)), snoop.kept_len()), (vec![data(2)], kept));
}

#[test]
fn the_timer_sends_the_first_again_doubling_and_then_leaves_it_to_the_sender() {
    let mut snoop = base(SnoopConfig { tries_max: 4, ..SnoopConfig::default() });
    let mut times = Vec::new();
    while let Some(at) = snoop.poll_timeout() {
        snoop.handle_timeout(at);
        times.extend(air(&mut snoop, at).iter().filter(|again| **again == data(1)).map(|_| at.as_micros() / 1000));
        if at > ms(100_000) {
            break;
        }
    }
    // Sent first at 1 ms; the round trip is far below the smallest timeout.
    assert_eq!(times, [201, 601, 1401]);
    assert!(snoop.statistics().given_up >= 1);
}

#[test]
fn what_waited_for_a_repair_is_no_measure_of_the_hop() {
    let mut snoop = base(SnoopConfig::default());
    // Segment 1 is lost and so is its first repetition: seconds pass. Its repair acknowledges everything that waited behind it.
    snoop.handle_air(ms(21), ack(1));
    assert_eq!(air(&mut snoop, ms(21)), [data(1)]);
    snoop.handle_timeout(ms(3000));
    assert_eq!(air(&mut snoop, ms(3000)), [data(1)]);
    snoop.handle_air(ms(3010), ack(10));
    // A segment that is lost now goes again after the smallest timeout, and not after those seconds.
    snoop.handle_wire(ms(3020), data(10));
    air(&mut snoop, ms(3020));
    assert_eq!(snoop.poll_timeout(), Some(ms(3220)));
}

#[test]
fn state_is_soft() {
    let mut snoop = base(SnoopConfig::default());
    snoop.flows.clear();
    snoop.handle_air(ms(21), ack(1));
    snoop.handle_air(ms(22), ack(1));
    assert_eq!(wire(&mut snoop), [ack(1), ack(1)]);
    snoop.handle_wire(ms(23), data(1));
    assert_eq!(air(&mut snoop, ms(23)), [data(1)]);
}

#[test]
fn a_loss_of_the_hop_is_noticed_to_the_sender_and_a_loss_of_the_wire_is_not() {
    let mut snoop =
        base(SnoopConfig { repair: Repair::NoticeOnly, duplicates: Duplicates::Passed, ..SnoopConfig::default() });
    snoop.handle_air(ms(21), ack(1));
    let [notice] = &wire(&mut snoop)[..] else { panic!("one acknowledgement") };
    assert!(notice.marked);
    snoop.handle_wire(ms(22), data(11));
    air(&mut snoop, ms(22));
    snoop.handle_air(ms(23), ack(10));
    snoop.handle_air(ms(24), ack(10));
    assert!(wire(&mut snoop).iter().all(|ack| !ack.marked));
    assert_eq!(snoop.kept_len(), 0);
}

#[test]
fn a_loss_of_what_the_mobile_sends_is_noticed_to_the_mobile() {
    let mut snoop: Snoop<Plain> = Snoop::new(SnoopConfig::default());
    let up = |n: u32| Plain { header: header(1000 + 100 * n, 100, Some(1)), marked: false };
    for n in [0, 2, 3] {
        snoop.handle_air(ms(1), up(n));
    }
    let down = Plain { header: header(1, 0, Some(1100)), marked: false };
    for _ in 0..2 {
        snoop.handle_wire(ms(2), down.clone());
    }
    assert_eq!(air(&mut snoop, ms(3)).iter().map(|ack| ack.marked).collect::<Vec<bool>>(), [false, true]);
}

#[test]
fn everything_is_bounded() {
    let config = SnoopConfig { queue_len_max: 1000, cache_len_max: 1000, ..SnoopConfig::default() };
    let mut snoop = Snoop::new(config);
    for n in 0..100 {
        snoop.handle_wire(ms(0), data(n));
    }
    assert!(snoop.kept_len() <= 1000 && snoop.statistics().dropped > 90);
    let mut snoop = Snoop::new(config);
    for n in 0..5000 {
        let mut packet = data(0);
        packet.header.flow = Flow(n);
        snoop.handle_wire(ms(n), packet);
        air(&mut snoop, ms(n));
    }
    assert_eq!(snoop.flows.len(), FLOWS_MAX);
}

#[test]
fn a_reset_and_a_new_connection_forget_the_past() {
    let mut snoop = base(SnoopConfig::default());
    let mut reset = data(10);
    reset.header.rst = true;
    snoop.handle_wire(ms(30), reset);
    assert_eq!(snoop.kept_len(), 0);
}
