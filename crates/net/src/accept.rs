//! Accepting peers: many handshakes at once, none of which can hold up another.

use crate::NetConfig;
use crate::certificate::key_in;
use crate::close::CloseCode;
use crate::connection::{Connection, Side};
use crate::frame::GREETING;
use crate::traffic::Ledger;
use quinn::{RecvStream, SendStream};
use rustls::pki_types::CertificateDer;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;
use wayfs_types::NodeId;

/// Does the handshakes of all that come, until the endpoint is closed or dropped.
pub(crate) async fn accept_all(
    quic: quinn::Endpoint,
    config: Arc<NetConfig>,
    ledger: Arc<Ledger>,
    ready: mpsc::Sender<Connection>,
) {
    let mut handshakes = JoinSet::new();
    loop {
        tokio::select! {
            incoming = quic.accept() => {
                let Some(incoming) = incoming else { return };
                if handshakes.len() >= config.handshakes_max
                    || quic.open_connections() >= config.connections_max
                {
                    debug!(from = %incoming.remote_address(), "refused: too many connections");
                    incoming.refuse();
                } else if handshakes.len() >= config.handshakes_max / 4 && incoming.may_retry() {
                    // Under load, an address must prove that it is there before it costs
                    // memory: forged ones never come back. Failing means it just did.
                    let _ = incoming.retry();
                } else {
                    let (config, ledger) = (Arc::clone(&config), Arc::clone(&ledger));
                    let ready = ready.clone();
                    handshakes.spawn(async move {
                        if let Some(connection) = accept_one(incoming, &config, &ledger).await {
                            // Nobody accepts any more: the connection is dropped and closed.
                            let _ = ready.send(connection).await;
                        }
                    });
                }
            }
            Some(_) = handshakes.join_next() => {}
        }
    }
}

async fn accept_one(incoming: quinn::Incoming, config: &Arc<NetConfig>, ledger: &Arc<Ledger>) -> Option<Connection> {
    let from = incoming.remote_address();
    let handshake = async {
        let quic = incoming.await.map_err(|error| error.to_string())?;
        let peer = peer_of(&quic).ok_or("it showed no key")?;
        let streams = greeted(&quic).await.inspect_err(|why| {
            quic.close(CloseCode::CONTROL_LOST.to_wire(), why.as_bytes());
        })?;
        Ok::<_, String>((quic, peer, streams))
    };
    match timeout(config.connect_timeout, handshake).await {
        Ok(Ok((quic, peer, streams))) => Some(Connection::start(quic, peer, Side::Accepted, streams, (config, ledger))),
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

fn peer_of(quic: &quinn::Connection) -> Option<NodeId> {
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
