//! What the controller of a path and those who use the path tell each other.
//!
//! Quinn owns the controller and gives nothing but copies of it away. So the factory that makes the controllers of one
//! connection (a path that changes gets a new one) gives all of them the same [`PathState`], and the connection keeps it, too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Round trips twice as long as this are always believed.
const RTT_STEP_MIN: Duration = Duration::from_millis(20);

/// A path as its controller saw it last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PathView {
    /// Bytes that the peer acknowledged on the present path, probes included.
    pub(crate) delivered: u64,
    /// Bytes per second, the best of the last seconds.
    pub(crate) rate: Option<u64>,
    /// The same if the path was full meanwhile.
    pub(crate) rate_when_full: Option<u64>,
    /// Bytes under way when the peer last acknowledged something, less what was found lost since.
    pub(crate) in_flight: u64,
    /// Bytes sent since then, acknowledgements of our own included.
    pub(crate) sent_since: u64,
    /// When something was last sent.
    pub(crate) sent_at: Option<Instant>,
    /// When the peer last acknowledged something.
    pub(crate) acked_at: Option<Instant>,
    /// Smoothed round trip, the peer's delay of acknowledgements included; `None` before the first.
    pub(crate) rtt: Option<Duration>,
    /// How much it varies.
    pub(crate) rtt_deviation: Duration,
}

impl PathView {
    /// An acknowledgement arrived that took so long; `in_flight` bytes are left.
    pub(crate) fn on_acked(&mut self, now: Instant, took: Option<Duration>, in_flight: u64) {
        self.in_flight = in_flight;
        self.sent_since = 0;
        self.acked_at = Some(now);
        let Some(took) = took else { return };
        let Some(rtt) = self.rtt else {
            (self.rtt, self.rtt_deviation) = (Some(took), took / 2);
            return;
        };
        // An acknowledgement that was lost in an outage comes when that is over; a path that became longer is learnt in steps.
        let took = took.min((rtt + self.rtt_deviation * 4).max(RTT_STEP_MIN) * 2);
        self.rtt_deviation = (self.rtt_deviation * 3 + rtt.abs_diff(took)) / 4;
        self.rtt = Some((rtt * 7 + took) / 8);
    }

    /// Bytes left, with or without anything that the peer must acknowledge.
    pub(crate) fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.sent_since = self.sent_since.saturating_add(bytes);
        self.sent_at = Some(now);
    }
}

/// How a connection competes for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// As any other.
    Best,
    /// It yields to everything else (see `yielding.rs`).
    LessThanBest,
}

/// Shared by a connection and the controllers of its paths.
#[derive(Debug, Default)]
pub(crate) struct PathState {
    armed: AtomicBool,
    yields: AtomicBool,
    excuses: AtomicBool,
    watcher_rests: AtomicBool,
    sent: Notify,
    view: Mutex<PathView>,
}

impl PathState {
    /// Lets the connection send one packet past its window.
    pub(crate) fn arm(&self) {
        self.armed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn disarm(&self) {
        self.armed.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_armed(&self) -> bool {
        self.armed.load(Ordering::Relaxed)
    }

    /// How what is under way competes with everything else.
    pub(crate) fn set_effort(&self, effort: Effort) {
        self.yields.store(effort == Effort::LessThanBest, Ordering::Relaxed);
    }

    pub(crate) fn yields(&self) -> bool {
        self.yields.load(Ordering::Relaxed)
    }

    /// The link said that it is down: what is under way is lost for no full queue. Taken back by the next acknowledgement
    /// of what was sent later.
    pub(crate) fn excuse(&self) {
        self.excuses.store(true, Ordering::Relaxed);
    }

    pub(crate) fn take_excuse(&self) -> bool {
        // Read first: nearly always there is none.
        self.excuses.load(Ordering::Relaxed) && self.excuses.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn view(&self) -> PathView {
        *self.lock()
    }

    /// For the controller.
    pub(crate) fn update(&self, change: impl FnOnce(&mut PathView)) {
        change(&mut self.lock());
    }

    /// For the controller, when it sent something: wakes whoever [rests](Self::rest).
    pub(crate) fn note_sent(&self, now: Instant, bytes: u64) {
        self.update(|view| view.on_sent(now, bytes));
        self.wake();
    }

    /// For the controller, when something was acknowledged: wakes whoever [rests](Self::rest).
    pub(crate) fn note_acked(&self, change: impl FnOnce(&mut PathView)) {
        self.update(change);
        self.wake();
    }

    fn wake(&self) {
        // Read first: nearly always nobody rests.
        if self.watcher_rests.load(Ordering::Acquire) && self.watcher_rests.swap(false, Ordering::AcqRel) {
            self.sent.notify_one();
        }
    }

    /// Waits until something is sent or acknowledged. For one at a time; may be cancelled. What was sent between the caller's
    /// last look and [`Self::begin_rest`] is missed, so it must look again after that.
    pub(crate) async fn rest(&self) {
        self.sent.notified().await;
    }

    /// From now on the next thing sent or acknowledged ends a [rest](Self::rest).
    pub(crate) fn begin_rest(&self) {
        self.watcher_rests.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, PathView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
