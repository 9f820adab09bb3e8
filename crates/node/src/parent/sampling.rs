//! How fast the present session is, read off its counters.

use super::shared::Shared;
use super::throughput::BUSY_LEN;
use crate::clock;
use std::sync::Weak;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use wayfs_net::{BodyStarts, Traffic};
use wayfs_types::NodeId;

/// Pause between two looks at the counters of the connection.
const CALM_PERIOD: Duration = Duration::from_millis(500);
/// The same while much goes over it.
const BUSY_PERIOD: Duration = Duration::from_millis(100);
/// The same at rest, after [`CALM_LOOKS_MAX`] looks that saw little. A body that begins ends it, and so does a new session.
const REST_PERIOD: Duration = Duration::from_secs(10);
const CALM_LOOKS_MAX: u32 = 10;

/// Reads the counters of the present connection: seldom, often while much goes over it, and hardly ever at rest.
pub(super) async fn sample(link: Weak<Shared>) {
    let mut sampler = Sampler::default();
    let mut pace = Pace::Calm(0);
    loop {
        rest(&link, &sampler, pace).await;
        let Some(link) = link.upgrade() else { return };
        pace = sampler.look(&link, pace);
    }
}

/// Until the next look.
async fn rest(link: &Weak<Shared>, sampler: &Sampler, pace: Pace) {
    match pace {
        Pace::Busy => tokio::time::sleep(BUSY_PERIOD).await,
        Pace::Calm(_) => tokio::time::sleep(CALM_PERIOD).await,
        Pace::Rest => {
            let Some(attached) = link.upgrade().map(|link| link.attached.clone()) else { return };
            let body = async {
                match &sampler.starts {
                    Some(starts) => starts.next().await,
                    None => std::future::pending().await,
                }
            };
            let either = async {
                tokio::select! {
                    () = body => {}
                    () = attached.notified() => {}
                }
            };
            // That the time is over is a reason to look, too.
            let _ = timeout(REST_PERIOD, either).await;
        }
    }
}

/// How soon the counters are looked at again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Much goes over the connection.
    Busy,
    /// Little did at so many looks.
    Calm(u32),
    /// Little has for long, or there is no connection.
    Rest,
}

impl Pace {
    /// After a look that saw little.
    fn calmer(self) -> Self {
        match self {
            Self::Busy => Self::Calm(0),
            Self::Calm(looks) if looks < CALM_LOOKS_MAX => Self::Calm(looks + 1),
            Self::Calm(_) | Self::Rest => Self::Rest,
        }
    }
}

/// What was seen at the last look.
#[derive(Default)]
struct Sampler {
    last: Option<Look>,
    starts: Option<BodyStarts>,
}

#[derive(Clone, Copy)]
struct Look {
    connection: u64,
    at: Instant,
    traffic: Traffic,
}

impl Sampler {
    fn look(&mut self, link: &Shared, pace: Pace) -> Pace {
        let mut state = link.lock();
        state.heard = state.last_heard();
        let Some((connection, node)) = state.connection.clone().zip(state.parent.as_ref().map(|parent| parent.node))
        else {
            *self = Self::default();
            return pace.calmer();
        };
        let look = Look { connection: connection.number(), at: Instant::now(), traffic: connection.stats().traffic };
        let before = self.last.replace(look).filter(|before| before.connection == look.connection);
        let Some(before) = before else {
            self.starts = Some(connection.body_starts());
            return Pace::Calm(0);
        };
        let sent = payload_sent(&look.traffic) - payload_sent(&before.traffic);
        let received = payload_received(&look.traffic) - payload_received(&before.traffic);
        if pace == Pace::Rest {
            // A stretch of which most was rest says nothing of the path. The next one may.
            let was_busy = look.at - before.at < REST_PERIOD || sent.max(received) >= BUSY_LEN;
            return if was_busy { Pace::Calm(0) } else { Pace::Rest };
        }
        // What is handed to the transport leaves later, so the wire says how fast it went; without contents under way
        // there are acknowledgements on it only.
        let on_wire = look.traffic.wire_bytes_sent - before.traffic.wire_bytes_sent;
        let sent = if sent >= BUSY_LEN { on_wire } else { 0 };
        let is_busy = state.note_stretch(node, Stretch { sent, received, took: look.at - before.at });
        if is_busy { Pace::Busy } else { pace.calmer() }
    }
}

fn payload_sent(traffic: &Traffic) -> u64 {
    traffic.body_bytes_sent + traffic.frame_bytes_sent
}

fn payload_received(traffic: &Traffic) -> u64 {
    traffic.body_bytes_received + traffic.frame_bytes_received
}

/// Bytes that went up and down in a while.
struct Stretch {
    sent: u64,
    received: u64,
    took: Duration,
}

impl super::shared::State {
    /// Notes a stretch; whether it was busy.
    fn note_stretch(&mut self, node: NodeId, Stretch { sent, received, took }: Stretch) -> bool {
        let (measured, now) = (self.measured.entry(node).or_default(), clock::now());
        let (up, down) = (measured.up.observe(now, sent, took), measured.down.observe(now, received, took));
        up || down
    }
}
