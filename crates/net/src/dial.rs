//! Dialling one peer at several addresses.
//!
//! A name is resolved when its turn comes, and each address that it has is tried in the same way.
//! The addresses are tried in the order given, each a moment after the one before without
//! waiting for it to fail. The first that proves the key wins, and only it is greeted: the
//! others end as handshakes that nobody on the other side hears of.

use crate::accept::peer_of;
use crate::bind;
use crate::certificate::{self, ExpectedKey, SERVER_NAME};
use crate::close::Closed;
use crate::connection::Connection;
use crate::frame::GREETING;
use crate::ledger::Ledger;
use crate::path_state::PathState;
use crate::{Address, NetConfig};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use wayfs_types::NodeId;

/// Addresses tried in one dial; more are ignored.
const ADDRESSES_MAX: usize = 16;

/// Why no connection came about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// There was no address to dial.
    #[error("no address is known of {}", .0.short())]
    NoAddress(NodeId),
    /// No address led to the peer.
    #[error("cannot reach {}: {}", peer.short(), Attempts(attempts))]
    Unreachable {
        /// The peer dialled.
        peer: NodeId,
        /// What became of each address.
        attempts: Vec<(Address, AttemptError)>,
    },
    /// TLS could not be set up.
    #[error("set up TLS: {0}")]
    Tls(String),
    /// This endpoint is closed.
    #[error("this endpoint is closed")]
    EndpointClosed,
}

/// What became of one address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttemptError {
    /// Nothing was heard in the time allowed.
    #[error("no answer")]
    NoAnswer,
    /// The name has no address at the moment.
    #[error("the name cannot be resolved ({0})")]
    NoSuchName(String),
    /// Another machine answered.
    #[error("another machine answers there ({}), or the same with a new key, which a new ticket tells", .0.short())]
    WrongKey(NodeId),
    /// The address cannot be dialled from this socket, such as IPv6 from an IPv4 one.
    #[error("cannot be dialled from this socket")]
    BadAddress,
    /// The peer, or what is there in its place, ended the handshake.
    #[error("{0}")]
    Failed(#[from] Closed),
}

/// What every attempt of a dial shares.
#[derive(Clone)]
pub(crate) struct Dialler {
    pub(crate) quic: quinn::Endpoint,
    pub(crate) own: Arc<CertifiedKey>,
    pub(crate) config: Arc<NetConfig>,
    pub(crate) peer: NodeId,
}

pub(crate) async fn connect(
    dialler: &Dialler,
    addrs: &[Address],
    config: &Arc<NetConfig>,
    ledger: &Arc<Ledger>,
) -> Result<Connection, ConnectError> {
    let deadline = Instant::now() + config.connect_timeout;
    let mut racing = JoinSet::new();
    let mut order: Vec<Address> = Vec::new();
    for addr in addrs.iter().take(ADDRESSES_MAX) {
        if !order.contains(addr) {
            order.push(addr.clone());
        }
    }
    if order.is_empty() {
        return Err(ConnectError::NoAddress(dialler.peer));
    }
    let mut stagger = std::time::Duration::ZERO;
    for addr in &order {
        let (dialler, addr, settings, head_start) = (dialler.clone(), addr.clone(), Arc::clone(config), stagger);
        racing.spawn(async move {
            sleep(head_start).await;
            let outcome = attempt_all(&dialler, &addr, &settings).await;
            (addr, outcome)
        });
        stagger += config.connect_stagger;
    }
    let mut failed = Vec::new();
    while let Ok(Some(joined)) = timeout_at(deadline, racing.join_next()).await {
        let Ok((addr, outcome)) = joined else { continue };
        match outcome {
            Ok(quic) => match greet(&quic.0).await {
                Ok(streams) => {
                    let around = (config, ledger);
                    let peer = peer_of(&quic.0).unwrap_or(dialler.peer);
                    return Ok(Connection::start(quic, peer, None, streams, around));
                }
                Err(closed) => failed.push((addr, closed.into())),
            },
            Err(Outcome::Dial(error)) => return Err(error),
            Err(Outcome::Address(error)) => failed.push((addr, error)),
        }
    }
    let attempts = order
        .into_iter()
        .map(|addr| {
            let known = failed.iter().find(|(a, _)| *a == addr);
            let error = known.map_or(AttemptError::NoAnswer, |(_, error)| error.clone());
            (addr, error)
        })
        .collect();
    Err(ConnectError::Unreachable { peer: dialler.peer, attempts })
}

/// What a failed attempt ends: the whole dial, or its own address only.
enum Outcome {
    Dial(ConnectError),
    Address(AttemptError),
}

/// Tries an address, or all those of a name, each a moment after the one before.
async fn attempt_all(dialler: &Dialler, addr: &Address, config: &NetConfig) -> Result<Dialled, Outcome> {
    if let Some(addr) = addr.ip() {
        return attempt(dialler, addr).await;
    }
    let unknown = |error: std::io::Error| Outcome::Address(AttemptError::NoSuchName(error.to_string()));
    let mut racing = JoinSet::new();
    let mut stagger = std::time::Duration::ZERO;
    for addr in config.resolver.resolve(addr).await.map_err(unknown)? {
        let (dialler, head_start) = (dialler.clone(), stagger);
        racing.spawn(async move {
            sleep(head_start).await;
            attempt(&dialler, addr).await
        });
        stagger += config.connect_stagger;
    }
    let mut last = Outcome::Address(AttemptError::NoAnswer);
    while let Some(joined) = racing.join_next().await {
        match joined {
            Ok(Err(outcome)) => last = outcome,
            Ok(connected) => return connected,
            Err(_) => {}
        }
    }
    Err(last)
}

async fn attempt(dialler: &Dialler, addr: SocketAddr) -> Result<Dialled, Outcome> {
    let path = Arc::new(PathState::default());
    let expected = ExpectedKey::new(dialler.peer);
    let client = dialler.client_config(Arc::clone(&expected), &path);
    let client = client.map_err(|why| Outcome::Dial(ConnectError::Tls(why)))?;
    let connecting = dialler.quic.connect_with(client, addr, SERVER_NAME).map_err(|error| match error {
        quinn::ConnectError::EndpointStopping => Outcome::Dial(ConnectError::EndpointClosed),
        quinn::ConnectError::CidsExhausted
        | quinn::ConnectError::InvalidServerName(_)
        | quinn::ConnectError::InvalidRemoteAddress(_)
        | quinn::ConnectError::NoDefaultClientConfig
        | quinn::ConnectError::UnsupportedVersion => Outcome::Address(AttemptError::BadAddress),
    })?;
    let quic = connecting.await.map_err(|error| {
        Outcome::Address(match (&error, expected.other()) {
            (_, Some(other)) => AttemptError::WrongKey(other),
            (quinn::ConnectionError::TimedOut, None) => AttemptError::NoAnswer,
            (_, None) => AttemptError::Failed(Closed::from(&error)),
        })
    })?;
    Ok((quic, path))
}

/// A connection and what its controllers tell of its path.
type Dialled = (quinn::Connection, Arc<PathState>);

impl Dialler {
    fn client_config(&self, expected: Arc<ExpectedKey>, path: &Arc<PathState>) -> Result<quinn::ClientConfig, String> {
        let transport = bind::transport(&self.config, path).map_err(|error| error.to_string())?;
        let tls = certificate::client_config(&self.own, expected).map_err(|e| e.to_string())?;
        let tls = quinn::crypto::rustls::QuicClientConfig::try_from(tls).map_err(|e| e.to_string())?;
        let mut client = quinn::ClientConfig::new(Arc::new(tls));
        client.transport_config(Arc::new(transport));
        Ok(client)
    }
}

/// Opens the control stream. This waits for no answer, and cannot be held up: the peer's
/// limits that came with its handshake allow at least one stream.
async fn greet(quic: &quinn::Connection) -> Result<(quinn::SendStream, quinn::RecvStream), Closed> {
    let (mut send, recv) = quic.open_bi().await.map_err(|error| Closed::from(&error))?;
    match send.write_all(&GREETING).await {
        Ok(()) => Ok((send, recv)),
        Err(quinn::WriteError::ConnectionLost(error)) => Err(Closed::from(&error)),
        Err(error) => Err(Closed::Transport(error.to_string())),
    }
}

struct Attempts<'a>(&'a [(Address, AttemptError)]);

impl fmt::Display for Attempts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (addr, error)) in self.0.iter().enumerate() {
            write!(f, "{}{addr}: {error}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}
