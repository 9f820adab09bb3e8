//! Timelines in virtual time.

use super::*;
use crate::retry::Retry;
use crate::xdr::Writer;

/// A client, its past in milliseconds, and nobody else.
struct Timeline {
    exchange: Exchange,
    now: u64,
    /// When each message was sent, and its number.
    sent: Vec<(u64, u32)>,
}

impl Timeline {
    fn new(retry: &str, wait_policy: WaitPolicy) -> Self {
        let credentials = Credentials { machine: "test".into(), uid: 0, gid: 0, groups: vec![] };
        let policy = retry.parse::<Retry>().unwrap().begin();
        Self { exchange: Exchange::new(policy, wait_policy, credentials, 1), now: 0, sent: Vec::new() }
    }

    fn time(&self) -> Time {
        Time::from_micros(self.now * 1000)
    }

    fn call(&mut self, kind: Kind) -> Xid {
        let xid = self.exchange.submit(&Call { kind, arguments: Vec::new() });
        self.drain();
        xid
    }

    fn drain(&mut self) {
        while let Some(message) = self.exchange.poll_transmit(self.time()) {
            self.sent.push((self.now, u32::from_be_bytes(message[..4].try_into().unwrap())));
        }
    }

    /// Lets time pass without an answer.
    fn until(&mut self, end: u64) {
        let mut steps = 0;
        while let Some(at) =
            self.exchange.poll_timeout().map(|at| at.as_micros().div_ceil(1000)).filter(|at| *at <= end)
        {
            steps += 1;
            assert!(steps < 100_000, "time stands still");
            self.now = self.now.max(at);
            self.exchange.handle_timeout(self.time());
            self.drain();
        }
        self.now = end;
    }

    fn answer(&mut self, xid: u32) -> Option<Answer> {
        let mut message = Writer::new();
        message.u32(xid).u32(1).u32(0).u32(0).u32(0).u32(0).u32(0);
        self.exchange.handle_message(self.time(), &message.into_bytes()).unwrap();
        self.drain();
        self.exchange.poll_answer()
    }

    fn times_of(&self, xid: Xid) -> Vec<u64> {
        self.sent.iter().filter(|(_, sent)| *sent == xid.0).map(|(at, _)| *at).collect()
    }
}

#[test]
fn a_silent_server_is_asked_ever_more_rarely() {
    let mut line = Timeline::new("exponential:first=0.7s", WaitPolicy::Hard);
    let read = line.call(Kind::Read);
    line.until(10_000);
    assert_eq!(line.times_of(read), [0, 700, 2100, 4900]);
    let mut line = Timeline::new("hybrid:first=0.7s,r=3,c=0.1s", WaitPolicy::Hard);
    let read = line.call(Kind::Read);
    line.until(10_000);
    assert_eq!(line.times_of(read), [0, 700, 1500, 2400, 3400, 5400, 9400]);
}

#[test]
fn a_soft_call_fails_after_its_tries_and_a_hard_one_never() {
    let mut line = Timeline::new("constant:every=1s", WaitPolicy::Soft(10));
    let read = line.call(Kind::Read);
    line.until(60_000);
    assert_eq!(line.times_of(read).len(), 10);
    let answer = line.exchange.poll_answer().unwrap();
    assert_eq!((answer.xid, answer.sendings, answer.results), (read, 10, None));
    assert!(line.exchange.is_empty() && line.exchange.poll_timeout().is_none());
    let mut line = Timeline::new("ours", WaitPolicy::Hard);
    line.call(Kind::Read);
    line.until(3_600_000);
    assert_eq!((line.exchange.len(), line.exchange.poll_answer()), (1, None));
    // Nor does it flood: probes and sendings of an hour.
    assert!(line.sent.len() < 200, "{}", line.sent.len());
}

#[test]
fn a_second_answer_is_a_stray_and_a_late_one_is_taken() {
    let mut line = Timeline::new("constant:every=0.1s", WaitPolicy::Hard);
    let read = line.call(Kind::Read);
    line.until(250);
    let answer = line.answer(read.0).unwrap();
    assert_eq!((answer.sendings, answer.round_trip), (3, None));
    assert_eq!(line.answer(read.0), None);
    assert_eq!(line.answer(77), None);
    let statistics = line.exchange.statistics();
    assert_eq!((statistics.calls, statistics.resent, statistics.strays), (1, 2, 2));
}

#[test]
fn a_cancelled_call_is_never_sent_again() {
    let mut line = Timeline::new("constant:every=0.1s", WaitPolicy::Hard);
    let read = line.call(Kind::Read);
    line.exchange.cancel(read);
    line.until(1000);
    assert_eq!(line.times_of(read), [0]);
    assert_eq!(line.answer(read.0), None);
}

/// Calls of 30 ms each, four in flight, warmed up; then 300 ms in which all is lost.
fn through_a_burst(retry: &str) -> (Timeline, Vec<Xid>) {
    let mut line = Timeline::new(retry, WaitPolicy::Hard);
    let mut flight: VecDeque<Xid> = (0..4).map(|_| line.call(Kind::Read)).collect();
    for n in 0..40 {
        line.until(30 * (n + 1));
        let xid = flight.pop_front().unwrap();
        assert!(line.answer(xid.0).is_some());
        flight.push_back(line.call(Kind::Read));
    }
    line.until(1200 + 300);
    (line, flight.into())
}

#[test]
fn after_a_burst_ours_sends_everything_lost_within_an_interval_of_its_probes() {
    let (mut line, lost) = through_a_burst("ours");
    let probes: Vec<(u64, u32)> = line.sent.iter().copied().filter(|(at, _)| *at > 1200).collect();
    assert!((3..12).contains(&probes.len()), "{probes:?}");
    assert!(lost.iter().all(|xid| line.times_of(*xid).len() == 1), "nothing large is sent into the silence");
    // The path is back; the next probe passes and is answered after 3 ms.
    let before = line.sent.len();
    while line.sent.len() == before {
        line.until(line.now + 1);
    }
    let (at, probe) = *line.sent.last().unwrap();
    assert!(at - 1500 < 100, "{at}");
    line.until(at + 3);
    assert_eq!(line.answer(probe), None, "a probe is nobody's call");
    line.until(at + 3 + 3);
    assert!(lost.iter().all(|xid| line.times_of(*xid) == [line.times_of(*xid)[0], at + 6]), "{:?}", line.sent);
    // The old way: nothing for as long as the first timeout.
    let (mut line, lost) = through_a_burst("exponential");
    line.until(line.times_of(lost[0])[0] + 999);
    assert_eq!(line.times_of(lost[0]).len(), 1);
}

#[test]
fn a_single_loss_is_seen_by_three_later_answers() {
    let mut line = Timeline::new("ours", WaitPolicy::Hard);
    let calls: Vec<Xid> = (0..4).map(|_| line.call(Kind::Read)).collect();
    line.until(40);
    for xid in &calls[1..] {
        line.answer(xid.0);
    }
    line.until(50);
    assert_eq!(line.times_of(calls[0]).len(), 2);
    assert_eq!(line.exchange.statistics().overtaken, 1);
    // It was only late: the next time more patience is shown.
    line.answer(calls[0].0);
    let slack = line.exchange.slack;
    line.answer(calls[0].0);
    assert!(line.exchange.slack > slack);
}

#[test]
fn answers_that_come_further_apart_are_no_silence_for_long() {
    let mut line = Timeline::new("ours", WaitPolicy::Hard);
    let mut flight: VecDeque<Xid> = (0..4).map(|_| line.call(Kind::Read)).collect();
    let mut probes = Vec::new();
    // Blocks of 30 ms each, then of 80 ms.
    for n in 0..120 {
        let before = line.exchange.statistics().probes;
        line.until(line.now + if n < 60 { 30 } else { 80 });
        probes.push(line.exchange.statistics().probes - before);
        let xid = flight.pop_front().unwrap();
        assert!(line.answer(xid.0).is_some());
        flight.push_back(line.call(Kind::Read));
    }
    assert!(probes[60] > 0, "at first it looks like one");
    assert_eq!(probes[90..].iter().sum::<u64>(), 0, "{probes:?}");
}

impl Timeline {
    /// A call that a probe overtakes: how long after the probe's answer it is sent again, in milliseconds. Its first copy is answered `late`
    /// after the probe, or was lost; a second one 2 ms after it was sent.
    fn overtaken(&mut self, late: Option<u64>) -> Option<u64> {
        // What is usual: an answer after 20 ms.
        for _ in 0..8 {
            let call = self.call(Kind::Write);
            self.until(self.now + 20);
            assert!(self.answer(call.0).is_some());
        }
        let call = self.call(Kind::Write);
        let mut probe = call.0;
        while probe == call.0 {
            self.until(self.now + 1);
            probe = self.sent.last().unwrap().1;
        }
        self.until(self.now + 3);
        assert_eq!(self.answer(probe), None);
        let overtaken = self.now;
        while self.times_of(call).len() == 1 && late.is_none_or(|late| self.now < overtaken + late) {
            self.until(self.now + 1);
        }
        let again = self.times_of(call).get(1).map(|at| at - overtaken);
        let answers = [late, again.map(|at| at + 2)].into_iter().flatten().collect::<std::collections::BTreeSet<u64>>();
        for (number, at) in answers.into_iter().enumerate() {
            self.until(self.now.max(overtaken + at));
            assert_eq!(self.answer(call.0).is_some(), number == 0);
        }
        again
    }
}

#[test]
fn patience_grows_with_answers_that_come_late_and_is_forgotten_with_losses() {
    let mut line = Timeline::new("ours", WaitPolicy::Hard);
    let first = line.overtaken(None).unwrap();
    let needless = (0..60).filter(|_| line.overtaken(Some(40)).is_some()).count();
    assert!(needless < 30, "a server that is always late is waited for: {needless} calls went twice");
    let losses: Vec<Option<u64>> = (0..30).map(|_| line.overtaken(None)).collect();
    assert!(losses[29].unwrap() <= first + 1, "one that was late for a while is not waited for ever: {losses:?}");
}

#[test]
fn notices_stop_and_restart_the_clocks() {
    let mut line = Timeline::new("exponential", WaitPolicy::Hard);
    let read = line.call(Kind::Read);
    line.until(3500);
    assert_eq!(line.times_of(read), [0, 1000, 3000]);
    line.exchange.handle_notice(line.time(), Notice::LinkDown);
    line.drain();
    line.until(60_000);
    assert_eq!(line.times_of(read).len(), 3);
    line.exchange.handle_notice(line.time(), Notice::LinkUp);
    line.drain();
    line.until(61_500);
    assert_eq!(line.times_of(read), [0, 1000, 3000, 60_000, 61_000]);
    line.exchange.handle_notice(line.time(), Notice::HandOff);
    line.drain();
    assert_eq!(line.times_of(read).last(), Some(&61_500));
}

#[test]
fn a_link_that_is_never_said_to_be_up_again_is_tried_after_a_minute() {
    let mut line = Timeline::new("exponential", WaitPolicy::Soft(3));
    line.exchange.handle_notice(line.time(), Notice::LinkDown);
    let read = line.call(Kind::Read);
    line.until(59_999);
    assert_eq!(line.times_of(read), [0]);
    line.until(200_000);
    assert_eq!(line.times_of(read), [0, 60_000, 61_000]);
    assert!(line.exchange.poll_answer().unwrap().results.is_none(), "a soft call comes to its end");
}

#[test]
fn nonsense_is_counted_and_changes_nothing() {
    let mut line = Timeline::new("ours", WaitPolicy::Hard);
    let read = line.call(Kind::Read);
    for bytes in [&[][..], &[0; 3], &[0; 400], &[0xff; 400]] {
        assert!(line.exchange.handle_message(Time::ZERO, bytes).is_err());
    }
    assert_eq!(line.exchange.statistics().malformed, 4);
    assert!(line.answer(read.0).is_some());
}
