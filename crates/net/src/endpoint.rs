//! One UDP socket that dials and accepts.

use crate::accept;
use crate::bind::{self, BindError};
use crate::close::CloseCode;
use crate::connection::Connection;
use crate::dial::{self, ConnectError, Dialler};
use crate::ledger::Ledger;
use crate::probe;
use crate::traffic::Traffic;
use crate::{Address, NetConfig, NodeIdentity};
use rustls::sign::CertifiedKey;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use wayfs_types::NodeId;

/// A machine's place in the network. Clones are the same endpoint; when the last is dropped,
/// it accepts no more, and connections live on until they are closed.
#[derive(Clone)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

struct Inner {
    quic: quinn::Endpoint,
    identity: NodeIdentity,
    own: Arc<CertifiedKey>,
    config: Arc<NetConfig>,
    ledger: Arc<Ledger>,
    accepted: Mutex<mpsc::Receiver<Connection>>,
    accepting: AbortHandle,
}

/// What a link below says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkNotice {
    /// It is down, or a hand-off is coming: what is under way may be lost.
    Down,
    /// It is up again.
    Up,
}

/// How long closing waits for the peers to be told.
const CLOSE_WAIT_MAX: Duration = Duration::from_secs(2);

/// Connections that may wait, their handshakes done, for [`Endpoint::accept`].
const ACCEPTED_LEN_MAX: usize = 64;

impl Endpoint {
    /// Takes a UDP port. Port 0 lets the system choose; `[::]` takes IPv4, too, on a system
    /// with usual settings. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Any [`BindError`].
    pub fn bind(addr: SocketAddr, identity: &NodeIdentity, config: NetConfig) -> Result<Self, BindError> {
        config.check()?;
        let own = bind::certified(identity)?;
        let (quic, by) = bind::endpoint(addr, &own, &config)?;
        let config = Arc::new(config);
        let ledger = Arc::new(Ledger::default());
        let (ready, accepted) = mpsc::channel(ACCEPTED_LEN_MAX);
        let accepting =
            tokio::spawn(accept::accept_all((quic.clone(), by), Arc::clone(&config), Arc::clone(&ledger), ready));
        let inner = Inner {
            quic,
            identity: identity.clone(),
            own,
            config,
            ledger,
            accepted: Mutex::new(accepted),
            accepting: accepting.abort_handle(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Who this machine is to its peers.
    pub fn id(&self) -> NodeId {
        self.inner.identity.id()
    }

    /// Its key, for what is to be signed in this machine's name.
    pub fn identity(&self) -> &NodeIdentity {
        &self.inner.identity
    }

    /// The address taken, with the port that the system chose.
    ///
    /// # Errors
    /// The system's, if the socket is gone.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.quic.local_addr()
    }

    /// Dials a peer at any of its addresses, the first one first and each other a little
    /// later; the first to answer with the key expected, or one that follows it ([`KeyChange`](crate::KeyChange)), is taken:
    /// [`Connection::peer`] names the key that was proved. Names are resolved anew each time. Bounded by
    /// [`connect_timeout`](NetConfig::connect_timeout). Dropping the future ends the attempt.
    ///
    /// # Errors
    /// Any [`ConnectError`].
    pub async fn connect<A>(&self, addrs: &[A], expect: NodeId) -> Result<Connection, ConnectError>
    where
        A: Clone + Into<Address>,
    {
        let inner = &self.inner;
        let dialler = Dialler {
            quic: inner.quic.clone(),
            own: Arc::clone(&inner.own),
            config: Arc::clone(&inner.config),
            peer: expect,
        };
        let addrs: Vec<Address> = addrs.iter().cloned().map(Into::into).collect();
        dial::connect(&dialler, &addrs, &inner.config, &inner.ledger).await
    }

    /// The next peer that connected: its key is proved, and nothing else is known of it, so
    /// the caller decides about admission: until [`Connection::admit`] the peer has one stream, for a greeting of 64 KiB at
    /// most, and its place at the door may be given to others. `None` when the endpoint is closed. May be
    /// cancelled.
    pub async fn accept(&self) -> Option<Connection> {
        self.inner.accepted.lock().await.recv().await
    }

    /// What went over the wire since the endpoint was bound.
    pub fn traffic(&self) -> Traffic {
        self.inner.ledger.total()
    }

    /// Goes on from another address of this machine, in the middle of whatever is under way: connections that this side
    /// dialled live on, and tell their peers at once. Those that peers dialled reach it only if they find the new address.
    ///
    /// # Errors
    /// [`BindError`] if the address cannot be taken; then everything is as it was.
    pub fn rebind(&self, addr: SocketAddr) -> Result<(), BindError> {
        let socket = bind::socket(addr, self.inner.config.socket_buffer)?;
        self.inner.quic.rebind(socket).map_err(|source| BindError::Io { addr, source })?;
        // What was under way to the old address is lost for no full queue.
        self.note_link(LinkNotice::Down);
        self.note_link(LinkNotice::Up);
        Ok(())
    }

    /// Takes in what the link below says: what it loses while it is down slows no connection down, and when it is up again
    /// each one that has something under way probes at once.
    pub fn note_link(&self, notice: LinkNotice) {
        for connection in self.inner.ledger.connections() {
            match notice {
                LinkNotice::Down => connection.path.excuse(),
                LinkNotice::Up => probe::probe_now(&connection.quic, &connection.path),
            }
        }
    }

    /// Connections open at the moment, handshakes included.
    pub fn connections(&self) -> usize {
        self.inner.quic.open_connections()
    }

    /// Closes all connections, accepts no more, and waits (2 s at most) until the peers were
    /// told. The port is free again when the last connection and endpoint are dropped.
    pub async fn close(&self, code: CloseCode, reason: &str) {
        self.inner.accepting.abort();
        self.inner.quic.close(code.to_wire(), reason.as_bytes());
        // A peer that is away cannot be told, and will find out by itself.
        let _ = timeout(CLOSE_WAIT_MAX, self.inner.quic.wait_idle()).await;
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint").field("id", &self.id()).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.accepting.abort();
        // Newcomers are refused at once rather than left to wait for a handshake.
        self.quic.set_server_config(None);
    }
}
