//! Finding the end of an outage: small datagrams while something waits.
//!
//! While anyone holds a [`Waiting`], this side sends a datagram every
//! [`waiting_probe`](crate::NetConfig::waiting_probe). The peer answers with one of its own,
//! because an answer that was lost is sent again only when *its* sender hears that something
//! later arrived. If the peer has been silent for longer than a living path is, the congestion
//! controller is told to make room for it first (see `congestion.rs`).

use crate::congestion;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

const PROBE: &[u8] = b"?";
const ANSWER: &[u8] = b"!";
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

/// Sends probes while anyone waits; ends with the connection.
pub(crate) async fn send_probes(quic: quinn::Connection, waits: Arc<Waits>, pause: Duration) {
    loop {
        while !waits.any() {
            waits.started.notified().await;
        }
        let mut silence = Silence::begin(quic.stats().udp_rx.datagrams);
        while waits.any() {
            sleep(pause).await;
            if !waits.any() {
                break;
            }
            if silence.lasts(quic.stats().udp_rx.datagrams, longest(pause, quic.rtt())) {
                congestion::arm(&quic);
            }
            if send(&quic, PROBE).is_err() {
                return;
            }
        }
    }
}

/// Answers the peer's probes, at most two in each `pause`; ends with the connection.
pub(crate) async fn answer_probes(quic: quinn::Connection, pause: Duration) {
    let mut last: Option<Instant> = None;
    let mut silence = Silence::begin(0);
    while let Ok(datagram) = quic.read_datagram().await {
        let due = last.is_none_or(|last| last.elapsed() >= pause / 2);
        if datagram.as_ref() != PROBE || !due {
            continue;
        }
        last = Some(Instant::now());
        if silence.lasts(quic.stats().frame_rx.acks, longest(pause, quic.rtt())) {
            congestion::arm(&quic);
        }
        if send(&quic, ANSWER).is_err() {
            return;
        }
    }
}

/// Nothing new was heard.
struct Silence {
    heard: u64,
    since: Instant,
}

impl Silence {
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
fn longest(pause: Duration, rtt: Duration) -> Duration {
    pause.max(rtt.min(SILENCE_MAX))
}

/// Fails only when the connection is over or will never carry datagrams.
fn send(quic: &quinn::Connection, what: &'static [u8]) -> Result<(), ()> {
    use quinn::SendDatagramError as Failure;
    match quic.send_datagram(Bytes::from_static(what)) {
        Ok(()) | Err(Failure::TooLarge) => Ok(()),
        Err(Failure::UnsupportedByPeer | Failure::Disabled | Failure::ConnectionLost(_)) => Err(()),
    }
}
