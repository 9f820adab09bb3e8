//! Calls over a socket.

use super::Options;
use super::socket::{Socket, Transport, buffer};
use crate::calls::Call;
use crate::retry::{Exponential, Retry, TIMEOUT_MAX};
use crate::rpc::{Refusal, Xid};
use crate::xdr::DecodeError;
use crate::{Answer, Exchange, Notice, Statistics, Status, WaitPolicy};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tracing::debug;
use wayfs_types::Time;

/// Why a call gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// This machine cannot.
    #[error("{doing}: {error}")]
    Io {
        /// Verb and object.
        doing: String,
        /// What the kernel says.
        error: io::Error,
    },
    /// The server did not answer, and the mount is soft.
    #[error("no answer from {0}")]
    NoAnswer(SocketAddr),
    /// Somebody wants to end.
    #[error("interrupted")]
    Interrupted,
    /// The server did not look at the call.
    #[error("the server refuses the call: {0}")]
    Refused(#[from] Refusal),
    /// The server says no.
    #[error("{what}: {status}")]
    Status {
        /// To what.
        what: String,
        /// And why.
        status: Status,
    },
    /// The server's answer makes no sense.
    #[error("{0}")]
    Decode(#[from] DecodeError),
}

impl LiveError {
    pub(super) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        |error| Self::Io { doing, error }
    }
}

/// Longest wait before the interrupt is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Time between two tries to connect.
const RECONNECT: Duration = Duration::from_secs(1);

/// Calls to one program of a server. Its socket belongs to the network of the thread that made it; a connection that is made anew, to
/// that of the thread that calls.
#[derive(Debug)]
pub struct Caller {
    server: SocketAddr,
    transport: Transport,
    wait_policy: WaitPolicy,
    interrupt: Arc<AtomicBool>,
    socket: Option<Socket>,
    exchange: Exchange,
    began: Instant,
    buffer: Vec<u8>,
}

impl Caller {
    /// Connects.
    ///
    /// # Errors
    /// [`LiveError`]; a hard client waits until the server is there.
    pub fn connect(server: SocketAddr, options: &Options) -> Result<Self, LiveError> {
        let transport = options.transport;
        let retry = match transport {
            Transport::Udp => options.retry,
            // What gets lost on the way is the kernel's matter.
            Transport::Tcp => Retry::Exponential(Exponential { first: TIMEOUT_MAX }),
        };
        let exchange = Exchange::new(retry.begin(), options.wait_policy, options.credentials.clone(), 0);
        let (wait_policy, interrupt) = (options.wait_policy, Arc::clone(&options.interrupt));
        let (began, buffer) = (Instant::now(), buffer());
        let mut caller = Self { server, transport, wait_policy, interrupt, socket: None, exchange, began, buffer };
        caller.reconnect()?;
        let port = caller.socket.as_ref().map_or(Ok(0), Socket::port).map_err(LiveError::io("make a socket"))?;
        // The server remembers answers by address, port and number: a port that is used again must not meet old numbers.
        let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        let first = (u32::from(port) << 16) ^ clock;
        caller.exchange = Exchange::new(retry.begin(), options.wait_policy, options.credentials.clone(), first);
        Ok(caller)
    }

    /// What happened so far.
    pub const fn statistics(&self) -> Statistics {
        self.exchange.statistics()
    }

    /// Where the server is.
    pub const fn server(&self) -> SocketAddr {
        self.server
    }

    /// Its socket and its calls, for a driver of another kind.
    pub(super) fn into_parts(self) -> (Option<Socket>, Exchange) {
        (self.socket, self.exchange)
    }

    /// Tells what lower layers told.
    pub fn notice(&mut self, notice: Notice) {
        let now = self.now();
        self.exchange.handle_notice(now, notice);
    }

    /// Makes a call; it leaves with the next wait.
    pub fn submit(&mut self, call: &Call) -> Xid {
        self.exchange.submit(call)
    }

    /// Forgets calls that nobody waits for any more.
    pub fn cancel(&mut self, xid: Xid) {
        self.exchange.cancel(xid);
    }

    /// Waits for the next answer, to whatever call.
    ///
    /// # Errors
    /// [`LiveError`]: the calls that are in flight stay so.
    pub fn next_answer(&mut self) -> Result<Answer, LiveError> {
        loop {
            if let Some(answer) = self.exchange.poll_answer() {
                return Ok(answer);
            }
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(LiveError::Interrupted);
            }
            if let Err(error) = self.turn() {
                debug!(server = %self.server, %error, "the connection broke");
                self.socket = None;
                self.reconnect()?;
            }
        }
    }

    /// Makes a call and waits for its results. No other call may be in flight.
    ///
    /// # Errors
    /// [`LiveError`].
    pub fn call(&mut self, call: &Call) -> Result<(Vec<u8>, u32), LiveError> {
        let xid = self.submit(call);
        let answer = self.next_answer().inspect_err(|_| self.exchange.cancel(xid))?;
        Ok((self.results(answer.results)?, answer.sendings))
    }

    /// The results of an answer.
    pub(super) fn results(&self, results: Option<Result<Vec<u8>, Refusal>>) -> Result<Vec<u8>, LiveError> {
        Ok(results.ok_or(LiveError::NoAnswer(self.server))??)
    }

    /// Sleeps, but not through an interrupt.
    pub(super) fn pause(&self, time: Duration) -> Result<(), LiveError> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if self.interrupt.load(Ordering::Relaxed) {
                return Err(LiveError::Interrupted);
            }
            std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    fn now(&self) -> Time {
        Time::from_micros(u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Sends what is to be sent, waits, takes in what came.
    fn turn(&mut self) -> io::Result<()> {
        let now = self.now();
        self.exchange.handle_timeout(now);
        let socket = self.socket.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        while let Some(message) = self.exchange.poll_transmit(now) {
            socket.send(&message)?;
        }
        let wait = self.exchange.poll_timeout().map_or(LOOK, |at| at.since(now).min(LOOK));
        let messages = socket.wait(wait, &mut self.buffer)?;
        let now = self.now();
        for message in messages {
            if let Err(error) = self.exchange.handle_message(now, &message) {
                debug!(server = %self.server, %error, "a message that is no answer");
            }
        }
        Ok(())
    }

    fn reconnect(&mut self) -> Result<(), LiveError> {
        let mut tries = 0;
        loop {
            match Socket::connect(self.transport, self.server) {
                Ok(socket) => {
                    self.socket = Some(socket);
                    self.notice(Notice::NewConnection);
                    return Ok(());
                }
                Err(error) => {
                    tries += 1;
                    let is_soft = matches!(self.wait_policy, WaitPolicy::Soft(most) if tries >= most);
                    if is_soft || self.transport == Transport::Udp {
                        return Err(LiveError::io(format!("connect to {}", self.server))(error));
                    }
                    self.pause(RECONNECT)?;
                }
            }
        }
    }
}
