//! Finding the end of an outage: small datagrams while something is under way and nothing is heard.
//!
//! **What this side sent** is watched by [`watch`]: while the peer must acknowledge something and is silent, a datagram
//! goes out at the intervals of `silence.rs`, and the congestion controller makes room for it first (see
//! `congestion.rs`). Each end does so for what it sent itself, so an answer that is lost is found by its sender.
//!
//! **What the peer is to send** is watched while anyone holds a [`Waiting`]: when nothing was heard for a
//! [`waiting_probe`](crate::NetConfig::waiting_probe), a datagram asks for an answer. A peer whose packets go to an address
//! that this side no longer has hears the new one by this.

use crate::path_state::PathState;
use crate::silence::{Counted, Silence, Step};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

const PROBE: &[u8] = b"?";
const ANSWER: &[u8] = b"!";
/// Wants no answer: its acknowledgement is one.
pub(crate) const TICK: &[u8] = b".";
/// When a connection looks for the end of an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Probing {
    /// As soon as the path is silent for longer than its round trip, often at first, while something is under way. The
    /// default.
    #[default]
    BySilence,
    /// Every [`waiting_probe`](crate::NetConfig::waiting_probe), while somebody waits: for comparisons.
    Fixed,
}

/// Longer silence is an outage however thin the line: 1500 bytes at 12 kb/s.
const SILENCE_MAX: Duration = Duration::from_secs(1);

/// Keeps the probes of a connection going while it lives: hold it while waiting for
/// something from the peer. Any number may be held at once.
#[derive(Debug)]
#[must_use = "probes are sent only while this is held"]
pub struct Waiting {
    waits: Arc<Waits>,
}

/// How many wait.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    count: AtomicUsize,
    started: Notify,
}

impl Waits {
    pub(crate) fn hold(self: &Arc<Self>) -> Waiting {
        if self.count.fetch_add(1, Ordering::AcqRel) == 0 {
            self.started.notify_one();
        }
        Waiting { waits: Arc::clone(self) }
    }

    fn any(&self) -> bool {
        self.count.load(Ordering::Acquire) > 0
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.waits.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Watches a connection, and probes when it must; ends with the connection.
pub(crate) async fn watch(quic: quinn::Connection, path: Arc<PathState>, waits: Arc<Waits>, pause: Duration) {
    let mut silence = Silence::default();
    let mut heard = (0, Instant::now());
    loop {
        let counted = count(&quic.stats(), &path);
        let now = Instant::now();
        if counted.heard != heard.0 || !waits.any() {
            heard = (counted.heard, now);
        }
        let asks_at = heard.1 + pause;
        let asks = waits.any() && now >= asks_at;
        if asks {
            heard.1 = now;
        }
        let step = silence.look(now.into_std(), &counted);
        let sent = match step {
            Step::Probe(_) => {
                path.arm();
                send(&quic, TICK)
            }
            Step::Rest | Step::Sleep(_) if asks => send(&quic, PROBE),
            Step::Rest | Step::Sleep(_) => Ok(()),
        };
        if sent.is_err() {
            return;
        }
        let until = match step {
            Step::Rest => {
                path.begin_rest();
                // What was sent before that would wake nobody.
                if count(&quic.stats(), &path).asking != counted.asking {
                    continue;
                }
                None
            }
            Step::Sleep(until) => Some(Instant::from_std(until)),
            Step::Probe(until) => {
                // The first sign of life counts, not the end of the pause.
                path.begin_rest();
                Some(Instant::from_std(until))
            }
        };
        let until = if waits.any() { Some(until.map_or(heard.1 + pause, |at| at.min(heard.1 + pause))) } else { until };
        rest(&quic, &path, &waits, until).await;
        if quic.close_reason().is_some() {
            return;
        }
    }
}

/// Probes at once, whatever was planned, if something is under way.
pub(crate) fn probe_now(quic: &quinn::Connection, path: &PathState) {
    let view = path.view();
    if view.in_flight > 0 || view.sent_since > 0 {
        path.arm();
        // A connection that is over needs no probe.
        let _ = send(quic, TICK);
    }
}

/// Until that moment at the latest. Ends early when something moves after [`PathState::begin_rest`], when somebody begins to
/// wait, or the connection is over.
async fn rest(quic: &quinn::Connection, path: &PathState, waits: &Waits, until: Option<Instant>) {
    let sleeping = async {
        match until {
            Some(until) => sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = sleeping => {}
        () = path.rest() => {}
        () = waits.started.notified() => {}
        _ = quic.closed() => {}
    }
}

/// What [`Silence`] looks at.
pub(crate) fn count(stats: &quinn::ConnectionStats, path: &PathState) -> Counted {
    let sent = &stats.frame_tx;
    let asking = [
        sent.crypto,
        sent.datagram,
        sent.data_blocked,
        sent.max_data,
        sent.max_stream_data,
        sent.max_streams_bidi,
        sent.new_connection_id,
        sent.path_challenge,
        sent.path_response,
        sent.ping,
        sent.reset_stream,
        sent.retire_connection_id,
        sent.stop_sending,
        sent.stream,
        sent.stream_data_blocked,
        sent.streams_blocked_bidi,
    ];
    Counted { heard: stats.udp_rx.datagrams, asking: asking.iter().sum(), view: path.view() }
}

/// Sends probes while anyone waits; ends with the connection. ([`Probing::Fixed`].)
pub(crate) async fn send_probes(quic: quinn::Connection, path: Arc<PathState>, waits: Arc<Waits>, pause: Duration) {
    loop {
        while !waits.any() {
            waits.started.notified().await;
        }
        let mut silence = Quiet::begin(quic.stats().udp_rx.datagrams);
        while waits.any() {
            sleep(pause).await;
            if !waits.any() {
                break;
            }
            if silence.lasts(quic.stats().udp_rx.datagrams, pause.max(silence_at(quic.rtt()))) {
                path.arm();
            }
            if send(&quic, PROBE).is_err() {
                return;
            }
        }
    }
}

/// Answers the peer's probes, at most two in each `pause`; ends with the connection.
pub(crate) async fn answer_probes(quic: quinn::Connection, path: Arc<PathState>, pause: Duration) {
    let mut last: Option<Instant> = None;
    let mut silence = Quiet::begin(0);
    while let Ok(datagram) = quic.read_datagram().await {
        let due = last.is_none_or(|last| last.elapsed() >= pause / 2);
        if datagram.as_ref() != PROBE || !due {
            continue;
        }
        last = Some(Instant::now());
        if silence.lasts(quic.stats().frame_rx.acks, pause.max(silence_at(quic.rtt()))) {
            path.arm();
        }
        if send(&quic, ANSWER).is_err() {
            return;
        }
    }
}

/// Nothing new was heard.
struct Quiet {
    heard: u64,
    since: Instant,
}

impl Quiet {
    fn begin(heard: u64) -> Self {
        Self { heard, since: Instant::now() }
    }

    /// Whether it has lasted for so long, by a counter of what was heard.
    fn lasts(&mut self, heard: u64, long: Duration) -> bool {
        if self.heard != heard {
            *self = Self::begin(heard);
        }
        self.since.elapsed() >= long
    }
}

/// How long a path may be silent that is alive. A thin line takes longer than a pause for two packets and their
/// acknowledgement; a packet past the window at each pause would fill its queue.
fn silence_at(rtt: Duration) -> Duration {
    rtt.min(SILENCE_MAX)
}

/// Fails only when the connection is over or will never carry datagrams.
fn send(quic: &quinn::Connection, what: &'static [u8]) -> Result<(), ()> {
    use quinn::SendDatagramError as Failure;
    match quic.send_datagram(Bytes::from_static(what)) {
        Ok(()) | Err(Failure::TooLarge) => Ok(()),
        Err(Failure::UnsupportedByPeer | Failure::Disabled | Failure::ConnectionLost(_)) => Err(()),
    }
}
