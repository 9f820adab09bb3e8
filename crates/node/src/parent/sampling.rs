//! How fast the present session is, read off its counters.

use super::link::Shared;
use super::throughput::BUSY_LEN;
use crate::clock;
use std::sync::Weak;
use std::time::Duration;
use tokio::time::Instant;

/// Pause between two looks at the counters of the connection.
const CALM_PERIOD: Duration = Duration::from_millis(500);
/// The same while much goes over it.
const BUSY_PERIOD: Duration = Duration::from_millis(100);

/// Reads the counters of the present connection: seldom, and often while much goes over it.
pub(super) async fn sample(link: Weak<Shared>) {
    let mut last: Option<(u64, Instant, wayfs_net::Traffic)> = None;
    let mut pause = CALM_PERIOD;
    loop {
        tokio::time::sleep(pause).await;
        let Some(link) = link.upgrade() else { return };
        let mut state = link.lock();
        let Some((connection, node)) = state.connection.clone().zip(state.parent.as_ref().map(|parent| parent.node))
        else {
            last = None;
            continue;
        };
        let (now, traffic) = (Instant::now(), connection.stats().traffic);
        let known =
            last.replace((connection.number(), now, traffic)).filter(|(number, ..)| *number == connection.number());
        let Some((_, at, before)) = known else { continue };
        if traffic.wire_bytes_received > before.wire_bytes_received {
            state.heard = Some(clock::wall());
        }
        let took = now - at;
        let measured = state.measured.entry(node).or_default();
        let sent = payload_sent(&traffic) - payload_sent(&before);
        let received = payload_received(&traffic) - payload_received(&before);
        // What is handed to the transport leaves later, so the wire says how fast it went; without contents under way
        // there are acknowledgements on it only.
        let on_wire = traffic.wire_bytes_sent - before.wire_bytes_sent;
        let up = measured.up.observe(clock::now(), if sent >= BUSY_LEN { on_wire } else { 0 }, took);
        let down = measured.down.observe(clock::now(), received, took);
        pause = if up || down { BUSY_PERIOD } else { CALM_PERIOD };
    }
}

fn payload_sent(traffic: &wayfs_net::Traffic) -> u64 {
    traffic.body_bytes_sent + traffic.frame_bytes_sent
}

fn payload_received(traffic: &wayfs_net::Traffic) -> u64 {
    traffic.body_bytes_received + traffic.frame_bytes_received
}
