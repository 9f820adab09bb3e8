//! Strangers in numbers.

use crate::Peer;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use wayfs_net::{Address, Connection, Ticket};
use wayfs_types::NodeId;

/// How long a connection is waited for that nobody will answer: enough to send its first packet.
const MOMENT: Duration = Duration::from_millis(5);
/// Connections that a crowd of strangers keeps; it drops the oldest.
const KEPT_MAX: usize = 128;

impl Peer {
    /// Begins so many connections to addresses where nobody answers, and gives them up.
    pub fn give_up_dialling(&self, to: &[Address], key: NodeId, number: usize) {
        let dial = async || drop(tokio::time::timeout(MOMENT, self.endpoint.connect(to, key)).await);
        self.run(side_by_side(number, dial));
    }

    /// Dials a home, so many at once, again and again until `ends`. Each connection says nothing and stays as long as the
    /// home lets it, and no longer than [`KEPT_MAX`] others take to come. Answers how many came about.
    pub fn dial_without_end(&self, ticket: &Ticket, at_once: usize, ends: &AtomicBool) -> u64 {
        let came = AtomicU64::new(0);
        let dial = async || {
            let mut kept: VecDeque<Connection> = VecDeque::new();
            while !ends.load(Ordering::Relaxed) {
                if let Ok(connection) = self.endpoint.connect(ticket.addresses(), ticket.home()).await {
                    came.fetch_add(1, Ordering::Relaxed);
                    kept.push_back(connection);
                    if kept.len() > KEPT_MAX / at_once {
                        kept.pop_front();
                    }
                }
            }
        };
        self.run(side_by_side(at_once, dial));
        came.into_inner()
    }
}

/// Does a thing as often as said, all at once.
async fn side_by_side(number: usize, what: impl AsyncFn()) {
    let mut under_way: Vec<_> = (0..number).map(|_| Box::pin(what())).collect();
    std::future::poll_fn(|context| {
        under_way.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if under_way.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
