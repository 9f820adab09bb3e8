//! The UDP socket, which wakes the network's thread for what comes in and not for what went out.
//!
//! Tokio's own waits for both at once, and to the system each datagram that leaves is room that came free: every message sent
//! woke the thread that receives, for nothing. Room is waited for by a descriptor of its own here, made where there is none.

use quinn::udp::{RecvMeta, Transmit, UdpSocketState};
use quinn::{AsyncUdpSocket, UdpPoller};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(crate) struct Socket {
    udp: UdpSocket,
    state: UdpSocketState,
    /// The socket again, for what comes in.
    incoming: AsyncFd<OwnedFd>,
    /// A datagram found no room, and nobody has seen room since.
    is_full: AtomicBool,
}

impl Socket {
    /// Must be called within a tokio runtime.
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            state: UdpSocketState::new((&socket).into())?,
            incoming: waiting_for(Interest::READABLE, &socket)?,
            is_full: AtomicBool::new(false),
            udp: socket,
        })
    }
}

/// A descriptor of its own for the socket, with which one thing is waited for.
#[allow(
    deprecated,
    reason = "what succeeds it is unsafe, for types that may close their descriptor; this one does not"
)]
fn waiting_for(interest: Interest, socket: &UdpSocket) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(OwnedFd::from(socket.try_clone()?), interest)
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(RoomPoller { socket: self, outgoing: None })
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let sent = self.state.send((&self.udp).into(), transmit);
        if matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            self.is_full.store(true, Ordering::Release);
        }
        sent
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [io::IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.incoming.poll_read_ready(cx))?;
            match self.state.recv((&self.udp).into(), buffers, meta) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                received => return Poll::Ready(received),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    fn max_transmit_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.state.gro_segments()
    }
}

/// Waits for room on behalf of one connection.
#[derive(Debug)]
struct RoomPoller {
    socket: Arc<Socket>,
    /// The socket again, while there is no room.
    outgoing: Option<AsyncFd<OwnedFd>>,
}

impl UdpPoller for RoomPoller {
    fn poll_writable(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.socket.is_full.load(Ordering::Acquire) {
            this.outgoing = None;
            return Poll::Ready(Ok(()));
        }
        let outgoing = match &mut this.outgoing {
            Some(outgoing) => outgoing,
            none => none.insert(waiting_for(Interest::WRITABLE, &this.socket.udp)?),
        };
        loop {
            let mut ready = ready!(outgoing.poll_write_ready(cx))?;
            if has_room(&this.socket.udp)? {
                break;
            }
            ready.clear_ready();
        }
        this.socket.is_full.store(false, Ordering::Release);
        this.outgoing = None;
        Poll::Ready(Ok(()))
    }
}

fn has_room(socket: &UdpSocket) -> io::Result<bool> {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut polled = [PollFd::new(socket, PollFlags::OUT)];
    Ok(poll(&mut polled, Some(&now))? > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::time::Duration;

    fn transmit(to: SocketAddr, contents: &[u8]) -> Transmit<'_> {
        Transmit { destination: to, ecn: None, contents, segment_size: None, src_ip: None }
    }

    #[tokio::test]
    async fn what_is_sent_is_received() {
        let near = Socket::new(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let far = Socket::new(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
        let receiving = async {
            let mut buffer = [0; 100];
            let mut meta = [RecvMeta::default()];
            let count = poll_fn(|cx| far.poll_recv(cx, &mut [io::IoSliceMut::new(&mut buffer)], &mut meta)).await;
            assert_eq!(count.unwrap(), 1);
            buffer[..meta[0].len].to_vec()
        };
        let sending = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            near.try_send(&transmit(far.local_addr().unwrap(), b"hello")).unwrap();
        };
        let (received, ()) = tokio::join!(receiving, sending);
        assert_eq!(received, b"hello");
    }

    #[tokio::test]
    async fn who_finds_no_room_is_woken_when_there_is() {
        let socket = Arc::new(Socket::new(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap());
        let (mut first, mut second) = (Arc::clone(&socket).create_io_poller(), Arc::clone(&socket).create_io_poller());
        // The system has room all the time, so what is waited for comes at once.
        socket.is_full.store(true, Ordering::Release);
        let both = async {
            poll_fn(|cx| first.as_mut().poll_writable(cx)).await.unwrap();
            poll_fn(|cx| second.as_mut().poll_writable(cx)).await.unwrap();
        };
        tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
        assert!(!socket.is_full.load(Ordering::Acquire));
    }
}
