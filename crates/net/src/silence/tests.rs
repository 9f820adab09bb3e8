use super::*;

const MS: Duration = Duration::from_millis(1);

/// A connection seen by its counters.
struct Line {
    start: Instant,
    counted: Counted,
    silence: Silence,
}

impl Line {
    fn new(rtt: Duration, rate: Option<u64>) -> Self {
        let start = Instant::now();
        let view = PathView { rtt: Some(rtt), rate_when_full: rate, acked_at: Some(start), ..PathView::default() };
        let counted = Counted { heard: 1, asking: 1, view };
        let mut silence = Silence::default();
        silence.look(start, &counted);
        Self { start, counted, silence }
    }

    fn send(&mut self, ms: u32, asks: bool) {
        self.counted.view.on_sent(self.start + MS * ms, 100);
        self.counted.asking += u64::from(asks);
    }

    fn hear(&mut self, ms: u32, acknowledges: bool) {
        self.counted.heard += 1;
        if acknowledges {
            self.counted.view.on_acked(self.start + MS * ms, None, 0);
        }
    }

    /// When it probes, in milliseconds, from one moment to another.
    fn probes(&mut self, from: u32, until: u32) -> Vec<u128> {
        let (mut now, mut probes) = (self.start + MS * from, Vec::new());
        while now < self.start + MS * until {
            match self.silence.look(now, &self.counted) {
                Step::Rest => break,
                Step::Sleep(at) => now = at,
                Step::Probe(at) => {
                    probes.push(now.saturating_duration_since(self.start).as_millis());
                    self.counted.asking += 1;
                    self.counted.view.on_sent(now, 65);
                    now = at;
                }
            }
        }
        probes
    }
}

#[test]
fn intervals_grow_by_a_step_and_then_by_a_quarter_up_to_a_bound() {
    let mut line = Line::new(20 * MS, None);
    line.send(0, true);
    let probes = line.probes(0, 6000);
    assert_eq!(probes[0], 30, "a round trip and its least deviation");
    let pauses: Vec<u128> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses[..33].iter().all(|pause| (10..=16).contains(pause)), "{pauses:?}");
    assert!(pauses.windows(2).all(|pair| pair[1] + 1 >= pair[0]), "{pauses:?}");
    assert_eq!(pauses.last(), Some(&40));
    assert!(probes.iter().filter(|at| **at <= 530).count() >= 35, "often while a burst may last: {probes:?}");
}

#[test]
fn a_slow_line_is_probed_in_a_thirtieth_of_its_time_and_a_thinner_one_less_often() {
    for (rate, longest) in [(125_000, 85), (8_000, 2)] {
        let mut line = Line::new(20 * MS, Some(rate));
        line.send(0, true);
        let probes = line.probes(0, 1030).len();
        let bytes = probes as u64 * 65;
        assert!(bytes as f64 <= 0.0301 * rate as f64 + 65.0, "{probes} probes at {rate} B/s");
        assert!(probes <= longest + 2, "{probes}");
    }
}

#[test]
fn acknowledgements_of_ours_ask_for_nothing() {
    let mut line = Line::new(20 * MS, None);
    line.send(5, false);
    assert_eq!(line.probes(5, 5000), Vec::<u128>::new());
    assert_eq!(line.silence.look(line.start + 5000 * MS, &line.counted), Step::Rest);
}

#[test]
fn what_is_heard_ends_the_silence_and_begins_it_anew() {
    let mut line = Line::new(20 * MS, None);
    line.send(0, true);
    assert!(!line.probes(0, 300).is_empty());
    line.hear(300, false);
    let probes = line.probes(300, 500);
    assert_eq!(probes[..3], [300, 301, 302], "what was sent last is found lost by these");
    assert_eq!(probes[3], 330, "it is still under way");
    assert_eq!(probes[4] - probes[3], 10, "as often as at first");
    line.hear(500, true);
    assert_eq!(line.probes(500, 3000), Vec::<u128>::new());
}

#[test]
fn a_message_after_a_pause_is_not_late_at_once() {
    let mut line = Line::new(20 * MS, None);
    line.send(5, false);
    line.probes(5, 900);
    line.send(900, true);
    assert_eq!(line.probes(900, 1000)[0], 930);
}

#[test]
fn a_path_whose_round_trips_vary_is_given_more_time() {
    let mut line = Line::new(20 * MS, None);
    line.counted.view.rtt_deviation = 30 * MS;
    line.send(0, true);
    assert_eq!(line.probes(0, 300)[0], 140);
    let mut unknown = Line::new(20 * MS, None);
    unknown.counted.view.rtt = None;
    unknown.send(0, true);
    assert_eq!(unknown.probes(0, 300)[0], 250);
}

#[test]
fn nothing_it_is_told_makes_it_panic_or_stop() {
    let mut line = Line::new(Duration::from_secs(1 << 30), Some(0));
    line.counted.view.rtt_deviation = Duration::from_secs(1 << 30);
    line.silence.probes = u32::MAX;
    line.counted.view.in_flight = u64::MAX;
    line.send(0, true);
    assert!(!line.probes(0, 5000).is_empty());
}

#[test]
fn who_speaks_seldom_rests_at_once_and_who_speaks_often_does_not() {
    let mut line = Line::new(20 * MS, None);
    for (at, step) in [(1000, Step::Rest), (2000, Step::Rest), (2050, Step::Sleep(line.start + 2085 * MS))] {
        line.send(at, true);
        assert!(matches!(line.silence.look(line.start + at * MS, &line.counted), Step::Sleep(_)), "under way");
        line.hear(at + 5, true);
        assert_eq!(line.silence.look(line.start + (at + 10) * MS, &line.counted), step, "after {at} ms");
    }
    assert_eq!(line.silence.look(line.start + 2200 * MS, &line.counted), Step::Rest, "no more came");
}
