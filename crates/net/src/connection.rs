//! A connection to one peer, whose key is known.

use crate::body::BodyStarts;
use crate::close::{CloseCode, Closed};
use crate::control::{self, FrameReceiver, FrameSender};
use crate::door::{self, Pass};
use crate::frame::FRAME_LEN_MAX;
use crate::gate::Gate;
use crate::ledger::Ledger;
use crate::path_state::PathState;
use crate::probe::{self, Probing, Waits};
use crate::respond::{self, IncomingRequest, Queued};
use crate::shared::Shared;
use crate::stream::Moved;
use crate::traffic::{ConnectionStats, Counters};
use crate::turns::Turns;
use crate::yielding::Yielding;
use crate::{NetConfig, Waiting};
use quinn::{RecvStream, SendStream};
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use wayfs_types::NodeId;

/// A connection. Clones are the same connection; when the last is dropped, it is closed with
/// [`CloseCode::DROPPED`], whatever senders, bodies and responders are left of it.
#[derive(Clone)]
pub struct Connection {
    inner: Arc<Inner>,
}

/// Which end of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Dialled,
    Accepted,
}

struct Inner {
    shared: Arc<Shared>,
    side: Side,
    control: Mutex<Option<(FrameSender, FrameReceiver)>>,
    /// Kept for [`Connection::finish`], which must say the last frame.
    sender: FrameSender,
    requests: tokio::sync::Mutex<mpsc::Receiver<Queued>>,
    tasks: Vec<AbortHandle>,
    ledger: Arc<Ledger>,
    /// The peer's place at the door, until it is admitted.
    pass: Mutex<Option<Pass>>,
}

/// 32 bytes that both ends of one connection know and nobody else: what is proved about
/// them is proved about this connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ChannelBinding([u8; 32]);

impl ChannelBinding {
    /// From its bytes: for tests, and for whoever has them by another way.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for ChannelBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ChannelBinding")
    }
}

/// Connections that this process has had.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

const BINDING_LABEL: &[u8] = b"EXPORTER-wayfs-channel-binding";

impl Connection {
    /// Who the peer is: the key that it proved to hold.
    pub fn peer(&self) -> NodeId {
        self.inner.shared.peer
    }

    /// Whether this side dialled (else the peer did).
    pub fn dialled(&self) -> bool {
        self.inner.side == Side::Dialled
    }

    /// Where the peer is at the moment; it may move without the connection being lost.
    pub fn remote_addr(&self) -> SocketAddr {
        let addr = self.inner.shared.quic.remote_address();
        SocketAddr::new(addr.ip().to_canonical(), addr.port())
    }

    /// Smoothed round-trip time.
    pub fn rtt(&self) -> Duration {
        self.inner.shared.quic.rtt()
    }

    /// Bytes per second that the path delivered to the peer when it was full, if it was within the last 10 s.
    pub fn rate_when_full(&self) -> Option<u64> {
        self.inner.shared.path.view().rate_when_full
    }

    /// Tells connections of this process apart. (The transport's own number is an address, and given again.)
    pub fn number(&self) -> u64 {
        self.inner.shared.number
    }

    /// Counters of this connection, and the path as it looks at the moment.
    pub fn stats(&self) -> ConnectionStats {
        self.inner.shared.stats()
    }

    /// When the peer last acknowledged something.
    pub fn acked_at(&self) -> Option<Instant> {
        self.inner.shared.path.view().acked_at
    }

    /// To be told of bodies, either way. Does not keep the connection.
    pub fn body_starts(&self) -> BodyStarts {
        BodyStarts(Arc::clone(&self.inner.shared.bodies))
    }

    /// What it moved until now, to be compared with what it moves later.
    pub fn moved(&self) -> Moved {
        Moved::by(self.shared())
    }

    /// Bytes of bodies that came over this connection.
    pub fn body_bytes_received(&self) -> u64 {
        self.inner.shared.counters.body_bytes_received.load(Ordering::Relaxed)
    }

    /// Both halves of the control stream. There is one pair: the first call gets it, every
    /// later one gets `None`.
    pub fn control(&self) -> Option<(FrameSender, FrameReceiver)> {
        self.inner.control.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sends probes while the result is held. Requests and bodies do this by themselves;
    /// whoever waits for a frame does it here.
    pub fn waiting(&self) -> Waiting {
        self.inner.shared.waits.hold()
    }

    /// The next request of the peer, in the order in which they came in whole. May be
    /// cancelled; may be called from several tasks.
    ///
    /// # Errors
    /// [`Closed`] when the connection is over.
    pub async fn accept_request(&self) -> Result<IncomingRequest, Closed> {
        let mut requests = self.inner.requests.lock().await;
        match requests.recv().await {
            Some((request, _memory)) => Ok(request),
            None => Err(Closed::from(&self.inner.shared.quic.closed().await)),
        }
    }

    /// From now on, bodies of [`Priority::Background`](crate::Priority) that this side sends keep the queue of the line
    /// short while no others are under way: what is more urgent passes them sooner, and they yield to the traffic of
    /// others. For paths on which nobody waits for such bodies.
    pub fn yield_in_background(&self) {
        self.inner.shared.yielding.enable();
    }

    /// What names this connection in proofs; the same on both ends.
    pub fn channel_binding(&self) -> ChannelBinding {
        let mut bytes = [0; 32];
        self.inner
            .shared
            .quic
            .export_keying_material(&mut bytes, BINDING_LABEL, b"")
            .expect("32 bytes are within what the exporter of TLS 1.3 can give");
        ChannelBinding(bytes)
    }

    /// Lets a peer in that connected to this side: it may send requests and long frames from now on. Nothing changes for
    /// one that is in, or that was dialled.
    pub fn admit(&self) {
        let Some(pass) = self.inner.pass.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        pass.admit();
        let Shared { quic, config, frame_len_max, .. } = &**self.shared();
        let window = Gate::shared_window(config);
        frame_len_max.store(FRAME_LEN_MAX, Ordering::Release);
        quic.set_receive_window(quinn::VarInt::from_u64(window).unwrap_or(quinn::VarInt::MAX));
        // The control stream, which the peer opened, is one more.
        quic.set_max_concurrent_bi_streams(quinn::VarInt::from_u32(config.requests_max + 1));
    }

    /// Waits until the connection is over, and says why.
    pub async fn closed(&self) -> Closed {
        Closed::from(&self.inner.shared.quic.closed().await)
    }

    /// Why the connection is over, if it is.
    pub fn close_reason(&self) -> Option<Closed> {
        self.inner.shared.quic.close_reason().as_ref().map(Closed::from)
    }

    /// Ends the connection at once. What was not yet delivered is lost; the peer learns the
    /// code and the reason. Only the first call has an effect.
    pub fn close(&self, code: CloseCode, reason: &str) {
        self.inner.shared.quic.close(code.to_wire(), reason.as_bytes());
    }

    /// Delivers the frames queued so far, waiting at most `patience` for the peer to have
    /// them, and then closes. Requests under way are lost.
    pub async fn finish(&self, code: CloseCode, reason: &str, patience: Duration) {
        let _waiting = self.waiting();
        // Past the patience the frames are lost, which is what the caller asked for.
        let _ = timeout(patience, control::finish(&self.inner.sender)).await;
        self.close(code, reason);
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// A connection whose handshake is done and whose control stream is open. `pass`: that of a peer that connected to this
    /// side; `None`: this side dialled.
    pub(crate) fn start(
        (quic, path): (quinn::Connection, Arc<PathState>),
        peer: NodeId,
        pass: Option<Pass>,
        (send, recv): (SendStream, RecvStream),
        (config, ledger): (&Arc<NetConfig>, &Arc<Ledger>),
    ) -> Self {
        let waits = Arc::new(Waits::default());
        let pause = config.waiting_probe;
        let shared = Arc::new(Shared {
            number: CONNECTIONS.fetch_add(1, Ordering::Relaxed),
            quic: quic.clone(),
            path: Arc::clone(&path),
            peer,
            config: Arc::clone(config),
            gate: Gate::new(config.path_capacity),
            waits: Arc::clone(&waits),
            counters: Counters::default(),
            yielding: Arc::new(Yielding::new(Arc::clone(&path))),
            turns: Turns::default(),
            bodies: Arc::default(),
            frame_len_max: AtomicUsize::new(if pass.is_some() { door::FRAME_LEN_MAX } else { FRAME_LEN_MAX }),
        });
        let (sender, receiver, writer) = control::start(&shared, send, recv);
        let (queue, requests) = respond::queue();
        let probing = match config.probing {
            Probing::BySilence => tokio::spawn(probe::watch(quic.clone(), Arc::clone(&path), waits, pause)),
            Probing::Fixed => tokio::spawn(probe::send_probes(quic.clone(), Arc::clone(&path), waits, pause)),
        };
        let tasks = vec![
            writer.abort_handle(),
            tokio::spawn(respond::read_requests(Arc::clone(&shared), queue)).abort_handle(),
            probing.abort_handle(),
            tokio::spawn(probe::answer_probes(quic, path, pause)).abort_handle(),
        ];
        ledger.enter(&shared);
        let inner = Inner {
            shared,
            side: if pass.is_some() { Side::Accepted } else { Side::Dialled },
            control: Mutex::new(Some((sender.clone(), receiver))),
            sender,
            requests: tokio::sync::Mutex::new(requests),
            tasks,
            ledger: Arc::clone(ledger),
            pass: Mutex::new(pass),
        };
        Self { inner: Arc::new(inner) }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("peer", &self.peer()).field("side", &self.inner.side).finish_non_exhaustive()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.quic.close(CloseCode::DROPPED.to_wire(), b"");
        for task in &self.tasks {
            task.abort();
        }
        self.ledger.leave(&self.shared);
    }
}
