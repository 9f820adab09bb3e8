//! When a silent path is probed: pure, in whatever time it is told.
//!
//! An outage of a wireless hop lasts 20 to 500 ms, and everything under way is lost. QUIC's own timer finds its end after
//! twice the time that it lasted, since each probe doubles the wait for the next. Here probes are sent at intervals that
//! grow **linearly** at first, and then exponentially up to a bound:
//!
//! ```text
//! heard ── patience ──▶ ? ─ 10 ms ─▶ ? ─ 10.2 ─▶ ? … 32 of them … ─ 15 ─▶ ? ─ 19 ─▶ ? ─ 23 ─▶ … ─ 40 ─▶ ? ─ 40 ─▶ ?
//! ```
//!
//! *Patience* is the measured round trip and four times its deviation: what comes later is no more expected. A path is
//! **silent** while something is under way that the peer must acknowledge and nothing is heard. Nothing is sent while
//! nothing is under way: either end probes for what it has sent itself. The first probe that comes through is acknowledged
//! at once, and with it what is older than three packets is known to be lost and is sent again. For what is younger, a
//! few more probes follow at once when anything is heard again.
//!
//! A probe takes 65 bytes on the line. On a slow one the intervals are as long as 2,200 bytes take there: 3 % of the line,
//! and as much as a packet that is filled with data needs which waits to be sent.

use crate::path_state::PathView;
use std::time::{Duration, Instant};

/// The first interval on a fast and near path.
const INTERVAL_MIN: Duration = Duration::from_millis(10);
/// The first interval on a far path.
const INTERVAL_FAR: Duration = Duration::from_millis(20);
/// How many intervals grow linearly, and each by which part of the first.
const LINEAR: u32 = 32;
const STEP: u32 = 64;
/// Intervals do not grow past this, but on a line so slow that the first is longer.
const INTERVAL_MAX: Duration = Duration::from_millis(40);
/// As many as make the last packet before them older than QUIC's reordering threshold, and their pause.
const FLUSH: u32 = 3;
const FLUSH_PAUSE: Duration = Duration::from_millis(1);
/// So many bytes of the line's time for each probe.
const SPREAD: u64 = 2200;
/// No shorter: a thread that answers wakes up late on a busy machine.
const DEVIATION_MIN: Duration = Duration::from_millis(10);
/// Before anything was measured.
const PATIENCE_UNKNOWN: Duration = Duration::from_millis(250);
/// Longer silence is an outage however thin the line: 1500 bytes at 12 kb/s.
const PATIENCE_MAX: Duration = Duration::from_secs(1);
/// Who sends much is not woken for each message: so long it looks by itself. Who sends again within this time after it went to rest sends
/// much; a machine that says something every second or so is woken for it, and rests at once when that is acknowledged.
const LINGER: Duration = Duration::from_millis(100);
/// How often it looks while nothing is under way.
const LOOK: Duration = Duration::from_millis(25);

/// What is counted at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted {
    /// Datagrams received.
    pub(crate) heard: u64,
    /// Frames sent that the peer must acknowledge.
    pub(crate) asking: u64,
    /// What the controller knows.
    pub(crate) view: PathView,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Look again when something is sent.
    Rest,
    /// Look again then.
    Sleep(Instant),
    /// Send a probe, and look again then.
    Probe(Instant),
}

/// Watches one connection.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    heard: u64,
    asking: u64,
    acked_at: Option<Instant>,
    /// Frames were sent since the last acknowledgement, first at this moment or later.
    asked_at: Option<Instant>,
    /// When something else than an acknowledgement was last heard, or a little later.
    heard_at: Option<Instant>,
    /// When something was last under way.
    busy_at: Option<Instant>,
    /// When it went to rest, while it does.
    rested_at: Option<Instant>,
    /// It was woken soon after it had gone to rest: more is likely to be sent.
    lingers: bool,
    probes: u32,
    /// When the next is due.
    next_at: Option<Instant>,
    /// Probes that follow as soon as something was heard again.
    flush: u32,
}

impl Silence {
    /// Looks at the path.
    pub(crate) fn look(&mut self, now: Instant, counted: &Counted) -> Step {
        let Some(since) = self.silent_since(now, counted) else {
            (self.probes, self.flush, self.next_at) = (0, 0, None);
            return self.linger(now);
        };
        self.busy_at = Some(now);
        if let Some(at) = self.rested_at.take() {
            self.lingers = now.saturating_duration_since(at) < LINGER;
        }
        if self.flush > 0 {
            self.flush -= 1;
            return Step::Probe(now + FLUSH_PAUSE);
        }
        let due = self.next_at.unwrap_or(since + patience(&counted.view));
        if now < due {
            return Step::Sleep(due);
        }
        let next = now + interval(&counted.view, self.probes);
        self.probes = self.probes.saturating_add(1);
        self.next_at = Some(next);
        Step::Probe(next)
    }

    /// Nothing is under way.
    fn linger(&mut self, now: Instant) -> Step {
        let is_recent = self.busy_at.is_some_and(|at| now.saturating_duration_since(at) < LINGER);
        if self.lingers && is_recent {
            return Step::Sleep(now + LOOK);
        }
        self.rested_at.get_or_insert(now);
        Step::Rest
    }

    /// Since when something is under way and nothing was heard.
    fn silent_since(&mut self, now: Instant, counted: &Counted) -> Option<Instant> {
        let Counted { heard, asking, view } = counted;
        let is_acked = self.acked_at != view.acked_at;
        if is_acked {
            self.asked_at = None;
        }
        if *heard != self.heard {
            if self.probes > 0 {
                self.flush = FLUSH;
            }
            (self.probes, self.next_at) = (0, None);
            self.heard_at = if is_acked { None } else { Some(now) };
        }
        if *asking != self.asking && view.sent_since > 0 {
            // Of several, the last: rather late than at a path that is alive.
            self.asked_at.get_or_insert(view.sent_at.unwrap_or(now));
        }
        (self.heard, self.asking, self.acked_at) = (*heard, *asking, view.acked_at);
        let under_way = if view.in_flight > 0 { view.acked_at.or(self.asked_at) } else { self.asked_at };
        under_way.map(|at| self.heard_at.map_or(at, |heard| heard.max(at)))
    }
}

/// How long a path may be silent that is alive.
fn patience(view: &PathView) -> Duration {
    let Some(rtt) = view.rtt else { return PATIENCE_UNKNOWN };
    (rtt + (view.rtt_deviation * 4).max(DEVIATION_MIN)).min(PATIENCE_MAX)
}

/// The pause after a probe, by how many were sent before it.
fn interval(view: &PathView, before: u32) -> Duration {
    let by_distance = (view.rtt.unwrap_or_default() / 16).clamp(INTERVAL_MIN, INTERVAL_FAR);
    let by_rate =
        view.rate_when_full.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(SPREAD as f64 / rate.max(1) as f64));
    let first = by_distance.max(by_rate.min(PATIENCE_MAX));
    let linear = first + first / STEP * before.min(LINEAR);
    let mut pause = linear;
    for _ in LINEAR..before {
        if pause >= INTERVAL_MAX {
            break;
        }
        pause = (pause * 5 / 4).min(INTERVAL_MAX);
    }
    pause.max(first)
}

#[cfg(test)]
mod tests;
