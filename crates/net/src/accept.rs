//! Accepting peers: many handshakes at once, none of which can hold up another.

use crate::NetConfig;
use crate::bind::Accepting;
use crate::certificate::key_in;
use crate::close::CloseCode;
use crate::connection::Connection;
use crate::door::{Door, Network};
use crate::frame::GREETING;
use crate::intake::{From, Intake, Limits, Load, Verdict};
use crate::ledger::Ledger;
use crate::path_state::PathState;
use quinn::{RecvStream, SendStream};
use rustls::pki_types::CertificateDer;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;
use wayfs_types::NodeId;

/// Does the handshakes of all that come, until the endpoint is closed or dropped.
pub(crate) async fn accept_all(
    (quic, by): (quinn::Endpoint, Accepting),
    config: Arc<NetConfig>,
    ledger: Arc<Ledger>,
    ready: mpsc::Sender<Connection>,
) {
    let mut handshakes = JoinSet::new();
    let under_way = UnderWay::default();
    let door = Door::default();
    let limits = Limits {
        handshakes_max: config.handshakes_max,
        handshakes_a_second: config.handshakes_a_second,
        connections_max: config.connections_max,
        linger: config.idle_timeout,
    };
    let mut intake = Intake::new(limits, Instant::now());
    loop {
        tokio::select! {
            incoming = quic.accept() => {
                let Some(incoming) = incoming else { return };
                let address = incoming.remote_address();
                let network = Network::of(address.ip());
                let is_proved = incoming.remote_address_validated();
                let from = From { network, is_known: door.knows(network), is_proved };
                let load = Load {
                    handshakes: handshakes.len(),
                    of_network: under_way.of(network),
                    alive: ledger.alive(),
                    held: quic.open_connections(),
                };
                match intake.decide(Instant::now(), from, load) {
                    Verdict::Refuse => {
                        debug!(from = %address, "refused: too many connections");
                        incoming.refuse();
                    }
                    Verdict::Prove if incoming.may_retry() => {
                        // Forged addresses never come back. Failing means that it just did.
                        let _ = incoming.retry();
                    }
                    Verdict::Prove | Verdict::Ignore => {
                        // Its first packet comes again.
                        debug!(from = %address, "not heard: too many begin, or came to nothing");
                        incoming.ignore();
                    }
                    Verdict::Begin => {
                        let (config, ledger) = (Arc::clone(&config), Arc::clone(&ledger));
                        let (ready, door, by) = (ready.clone(), door.clone(), by.clone());
                        let counted = under_way.count(network);
                        handshakes.spawn(async move {
                            let _counted = counted;
                            let Some(connection) = accept_one((incoming, &by), &door, &config, &ledger).await else {
                                return Some(from);
                            };
                            // Nobody accepts any more: the connection is dropped and closed.
                            let _ = ready.send(connection).await;
                            None
                        });
                    }
                }
            }
            Some(ended) = handshakes.join_next() => {
                if let Ok(Some(from)) = ended {
                    intake.came_to_nothing(Instant::now(), from);
                }
            }
        }
    }
}

/// Handshakes under way, by where they come from: no network may have more than a quarter of all.
#[derive(Clone, Default)]
struct UnderWay(Arc<Mutex<BTreeMap<Network, usize>>>);

/// A handshake that counts until this is dropped.
struct Counted(UnderWay, Network);

impl UnderWay {
    fn of(&self, network: Network) -> usize {
        self.lock().get(&network).copied().unwrap_or_default()
    }

    fn count(&self, network: Network) -> Counted {
        *self.lock().entry(network).or_default() += 1;
        Counted(self.clone(), network)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Network, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.0.lock();
        let left = counts.get(&self.1).map_or(0, |count| count - 1);
        if left == 0 {
            counts.remove(&self.1);
        } else {
            counts.insert(self.1, left);
        }
    }
}

async fn accept_one(
    (incoming, by): (quinn::Incoming, &Accepting),
    door: &Door,
    config: &Arc<NetConfig>,
    ledger: &Arc<Ledger>,
) -> Option<Connection> {
    let from = incoming.remote_address();
    let path = Arc::new(PathState::default());
    let handshake = async {
        let server = by.config(config, &path).map_err(|error| error.to_string())?;
        let accepting = incoming.accept_with(server).map_err(|error| error.to_string())?;
        let quic = accepting.await.map_err(|error| error.to_string())?;
        let peer = peer_of(&quic).ok_or("it showed no key")?;
        let pass = door.enter(Network::of(from.ip()), peer, quic.clone());
        let streams = greeted(&quic).await.inspect_err(|why| {
            quic.close(CloseCode::CONTROL_LOST.to_wire(), why.as_bytes());
        })?;
        Ok::<_, String>((quic, peer, pass, streams))
    };
    match timeout(config.connect_timeout, handshake).await {
        Ok(Ok((quic, peer, pass, streams))) => {
            Some(Connection::start((quic, path), peer, Some(pass), streams, (config, ledger)))
        }
        Ok(Err(why)) => {
            debug!(%from, why, "handshake failed");
            None
        }
        Err(_) => {
            debug!(%from, "handshake took too long");
            None
        }
    }
}

/// The key that the other side proved.
pub(crate) fn peer_of(quic: &quinn::Connection) -> Option<NodeId> {
    let chain = quic.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
    key_in(chain.first()?)
}

/// Takes the control stream, which the dialling side opens before all others.
async fn greeted(quic: &quinn::Connection) -> Result<(SendStream, RecvStream), String> {
    let (send, mut recv) = quic.accept_bi().await.map_err(|error| error.to_string())?;
    let mut greeting = [0; GREETING.len()];
    recv.read_exact(&mut greeting).await.map_err(|error| error.to_string())?;
    if greeting == GREETING { Ok((send, recv)) } else { Err("not a greeting".to_owned()) }
}
