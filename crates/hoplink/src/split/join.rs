//! One connection: asks the other side, lets the opening in, and carries.

use super::{Ends, Inner, Side, carry, plain, socket};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, oneshot};
use tracing::debug;
use wayfs_hop::IpPacket;

/// Longest time from the opening's arrival in its room until its handshake is complete: as long as a kernel repeats its answer.
const HANDSHAKE_WITHIN: Duration = Duration::from_secs(75);
/// Pause of a listener that got nothing: descriptors are short.
const AGAIN: Duration = Duration::from_millis(50);

/// One connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) opener: Side,
    ends: Ends,
    is_open: AtomicBool,
    taker: Mutex<Option<oneshot::Sender<TcpStream>>>,
    streams: OnceLock<Streams>,
    ended: Notify,
}

/// Both sides of one, and the bytes that are in neither's kernel.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) mobile: TcpStream,
    pub(super) wire: TcpStream,
    pub(super) to_mobile: AtomicU64,
    pub(super) to_wire: AtomicU64,
}

/// Bytes that were acknowledged to one side and not by the other.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Owed {
    pub(super) to_mobile: u64,
    pub(super) to_wire: u64,
}

impl Connection {
    pub(super) fn new(opener: Side, ends: Ends) -> Self {
        Self {
            opener,
            ends,
            is_open: AtomicBool::new(false),
            taker: Mutex::new(None),
            streams: OnceLock::new(),
            ended: Notify::new(),
        }
    }

    /// The mobile's address.
    pub(super) const fn mobile(&self) -> IpAddr {
        match self.opener {
            Side::Mobile => self.ends.from.ip(),
            Side::Wire => self.ends.to.ip(),
        }
    }

    /// Whether the other side has answered, so that its opening may go in.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Ends it with a reset to both sides.
    pub(super) fn end(&self) {
        self.ended.notify_one();
    }

    /// What each side is to get still.
    pub(super) fn owed(&self) -> Owed {
        let Some(streams) = self.streams.get() else { return Owed::default() };
        let (mobile, wire) = (streams.mobile.as_fd(), streams.wire.as_fd());
        let held = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Owed {
            to_mobile: socket::unread(wire) + held(&streams.to_mobile) + socket::unacknowledged(mobile),
            to_wire: socket::unread(mobile) + held(&streams.to_wire) + socket::unacknowledged(wire),
        }
    }

    fn taker(&self) -> std::sync::MutexGuard<'_, Option<oneshot::Sender<TcpStream>>> {
        self.taker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All of it, until both sides have everything, or one of them is gone. Sockets that are dropped before that send a reset.
pub(super) async fn run(inner: Arc<Inner>, connection: Arc<Connection>, opening: IpPacket) {
    let Ends { from, to } = connection.ends;
    tokio::select! {
        result = inner.join(&connection, &opening) => match result {
            Ok(()) => debug!(%from, %to, "a joined connection ended"),
            Err(error) => debug!(%from, %to, %error, "a joined connection broke"),
        },
        () = connection.ended.notified() => debug!(%from, %to, "a joined connection was ended"),
    }
    inner.table().connections.remove(&connection.ends);
    // Its sockets are closed with the last that holds it.
    drop(connection);
    inner.joined.fetch_sub(1, Ordering::Release);
}

impl Inner {
    async fn join(self: &Arc<Self>, connection: &Connection, opening: &IpPacket) -> io::Result<()> {
        let near = connection.opener;
        let far_stream = match self.dial(near.other(), connection.ends).await {
            Ok(stream) => stream,
            Err(error) => {
                if error.kind() == io::ErrorKind::ConnectionRefused {
                    // Nothing listens in the room, so its kernel says the same.
                    self.let_in(near, opening)?;
                }
                return Err(error);
            }
        };
        let (taker, taken) = oneshot::channel();
        *connection.taker() = Some(taker);
        let listening = self.listen(near, connection.ends.to)?;
        connection.is_open.store(true, Ordering::Release);
        self.let_in(near, opening)?;
        let near_stream = tokio::time::timeout(HANDSHAKE_WITHIN, taken).await.map_err(io::Error::other)?;
        let near_stream = near_stream.map_err(io::Error::other)?;
        drop(listening);
        let (mobile, wire) = match near {
            Side::Mobile => (near_stream, far_stream),
            Side::Wire => (far_stream, near_stream),
        };
        let streams = Streams { mobile, wire, to_mobile: AtomicU64::new(0), to_wire: AtomicU64::new(0) };
        carry::carry(connection.streams.get_or_init(|| streams)).await
    }

    fn let_in(&self, side: Side, opening: &IpPacket) -> io::Result<()> {
        self.room(side).tun.write(opening.bytes()).map_err(io::Error::other)
    }

    async fn dial(&self, side: Side, ends: Ends) -> io::Result<TcpStream> {
        let socket = self.room(side).inside(|| socket::connecting(ends))?;
        let stream = TcpStream::from_std(socket.into())?;
        stream.writable().await?;
        match stream.take_error()? {
            Some(error) => Err(error),
            None => Ok(stream),
        }
    }

    /// Lets openings for an address in, as long as the answer lives.
    fn listen(self: &Arc<Self>, side: Side, at: SocketAddr) -> io::Result<Listening> {
        let mut table = self.table();
        if let Some((_, count)) = table.listeners.get_mut(&(side, at)) {
            *count += 1;
        } else {
            let socket = self.room(side).inside(|| socket::listening(at))?;
            let listener = Listener { socket: TcpListener::from_std(socket.into())?, open: Open::new(self) };
            let task = tokio::spawn(take_all(listener));
            table.listeners.insert((side, at), (task.abort_handle(), 1));
        }
        Ok(Listening { inner: Arc::downgrade(self), side, at })
    }

    /// A connection whose handshake is complete.
    fn hand_over(&self, ends: Ends, stream: TcpStream) {
        let connection = self.table().connections.get(&ends).cloned();
        let taker = connection.and_then(|connection| connection.taker().take());
        if let Some(taker) = taker {
            // Nobody may be on the other side any more: dropped, it is reset.
            let _ = taker.send(stream);
        }
    }
}

/// A listening socket. With it go the connections that nobody has taken from it yet: they are reset.
struct Listener {
    socket: TcpListener,
    // Dropped last: what is counted as closed is closed.
    open: Open,
}

/// Counts a listening socket as open.
struct Open(Weak<Inner>);

impl Open {
    fn new(inner: &Arc<Inner>) -> Self {
        inner.joined.fetch_add(1, Ordering::Release);
        Self(Arc::downgrade(inner))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Some(inner) = self.0.upgrade() {
            inner.joined.fetch_sub(1, Ordering::Release);
        }
    }
}

async fn take_all(listener: Listener) {
    loop {
        let taken = listener.socket.accept().await;
        let Some(inner) = listener.open.0.upgrade() else { return };
        match taken {
            Ok((stream, from)) => {
                if let Ok(to) = stream.local_addr() {
                    inner.hand_over(Ends { from: plain(from), to: plain(to) }, stream);
                }
            }
            Err(_) => tokio::time::sleep(AGAIN).await,
        }
    }
}

/// Openings for an address are let in as long as this lives.
#[derive(Debug)]
struct Listening {
    inner: Weak<Inner>,
    side: Side,
    at: SocketAddr,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let Some(inner) = self.inner.upgrade() else { return };
        let mut table = inner.table();
        if let Some((task, count)) = table.listeners.get_mut(&(self.side, self.at)) {
            *count -= 1;
            if *count == 0 {
                task.abort();
                table.listeners.remove(&(self.side, self.at));
            }
        }
    }
}
