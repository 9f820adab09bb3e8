//! The thread behind a [`super::SharedCaller`].

use super::{Blocks, Class, Done, Shared, Ticket};
use crate::calls::Call;
use crate::live::socket::{Socket, Transport, buffer};
use crate::live::{Caller, LiveError, Options};
use crate::rpc::{Credentials, Xid};
use crate::{Answer, AnsweredBlock, Exchange, Notice, WaitPolicy, Window, learn};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tracing::{debug, info};
use wayfs_types::Time;

/// Longest wait before queues and flags are looked at, whatever wakes.
const LOOK: Duration = Duration::from_millis(500);
/// Time between two tries to connect.
const RECONNECT: Duration = Duration::from_secs(1);
/// A connection over which nothing was answered for so long while something is in flight is made anew: the server may have lost it.
const STREAM_SILENCE: Duration = Duration::from_secs(60);

/// A call that waits to leave.
pub(super) struct Submission {
    pub(super) ticket: Ticket,
    pub(super) call: Call,
    pub(super) credentials: Arc<Credentials>,
    pub(super) class: Class,
    pub(super) done: Done,
}

impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submission")
            .field("ticket", &self.ticket)
            .field("kind", &self.call.kind)
            .finish_non_exhaustive()
    }
}

struct Waiting {
    ticket: Ticket,
    class: Class,
    done: Done,
}

/// Owns socket and exchange.
pub(super) struct Driver {
    shared: Arc<Shared>,
    transport: Transport,
    socket: Option<Socket>,
    exchange: Exchange,
    waiting: BTreeMap<Xid, Waiting>,
    transfers: usize,
    window: Window,
    blocks: Blocks,
    buffer: Vec<u8>,
    /// When the next try to connect may be made, and how many failed.
    connect_at: Instant,
    connects_failed: u32,
}

impl Driver {
    pub(super) fn new(caller: Caller, shared: Arc<Shared>, blocks: Blocks, options: &Options) -> Self {
        let (socket, exchange) = caller.into_parts();
        Self {
            shared,
            transport: options.transport,
            socket,
            exchange,
            waiting: BTreeMap::new(),
            transfers: 0,
            window: Window::new(options.in_flight_max),
            blocks,
            buffer: buffer(),
            connect_at: Instant::now(),
            connects_failed: 0,
        }
    }

    pub(super) fn run(mut self) {
        while !self.shared.is_stopping.load(Ordering::SeqCst) {
            self.take_in();
            if let Err(error) = self.turn() {
                debug!(%error, "the connection broke");
                self.socket = None;
            }
            self.deliver();
            self.publish();
        }
        self.fail_all();
    }

    fn now(&self) -> Time {
        Time::from_micros(u64::try_from(self.shared.began.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Moves what was submitted into the exchange, transfers as the window has room.
    fn take_in(&mut self) {
        let mut taken = Vec::new();
        let (cancelled, notices) = {
            let mut queues = self.shared.queues();
            taken.extend(queues.control.drain(..));
            let cancelled = std::mem::take(&mut queues.cancelled);
            if !cancelled.is_empty() {
                queues.transfers.retain(|it| !cancelled.contains(&it.ticket));
                taken.retain(|it: &Submission| !cancelled.contains(&it.ticket));
            }
            let room = self.window.calls().saturating_sub(self.transfers).min(queues.transfers.len());
            taken.extend(queues.transfers.drain(..room));
            (cancelled, std::mem::take(&mut queues.notices))
        };
        for ticket in cancelled {
            self.forget(ticket);
        }
        let now = self.now();
        for notice in notices {
            info!(?notice, "the link tells");
            self.exchange.handle_notice(now, notice);
        }
        if self.waiting.is_empty() && !taken.is_empty() {
            self.shared.owed_since.store(self.shared.milliseconds(), Ordering::Relaxed);
        }
        for Submission { ticket, call, credentials, class, done } in taken {
            let xid = self.exchange.submit_as(&call, &credentials);
            self.transfers += usize::from(class != Class::Control);
            self.waiting.insert(xid, Waiting { ticket, class, done });
        }
        self.shared.in_flight.store(self.waiting.len(), Ordering::Relaxed);
    }

    fn forget(&mut self, ticket: Ticket) {
        let found = self.waiting.iter().find(|(_, waiting)| waiting.ticket == ticket).map(|(xid, _)| *xid);
        if let Some(xid) = found {
            self.exchange.cancel(xid);
            self.remove(xid);
        }
    }

    fn remove(&mut self, xid: Xid) -> Option<Waiting> {
        let waiting = self.waiting.remove(&xid)?;
        self.transfers -= usize::from(waiting.class != Class::Control);
        Some(waiting)
    }

    /// Sends what is to be sent, waits, takes in what came.
    fn turn(&mut self) -> io::Result<()> {
        let now = self.now();
        self.exchange.handle_timeout(now);
        if self.socket.is_none() && !self.reconnect() {
            return Ok(());
        }
        self.check_stream()?;
        let socket = self.socket.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        while let Some(message) = self.exchange.poll_transmit(now) {
            socket.send(&message)?;
        }
        let wait = self.exchange.poll_timeout().map_or(LOOK, |at| at.since(now).min(LOOK));
        let messages = socket.wait_or(wait, Some(&self.shared.wake), &mut self.buffer)?;
        let _ = rustix::io::read(&self.shared.wake, &mut [0; 8]);
        let now = self.now();
        for message in messages {
            match self.exchange.handle_message(now, &message) {
                Ok(()) => self.shared.answered_at.store(self.shared.milliseconds(), Ordering::Relaxed),
                Err(error) => debug!(%error, "a message that is no answer"),
            }
        }
        Ok(())
    }

    fn check_stream(&self) -> io::Result<()> {
        let since = self.shared.answered_at.load(Ordering::Relaxed).max(self.shared.owed_since.load(Ordering::Relaxed));
        let silence = Duration::from_millis(self.shared.milliseconds().saturating_sub(since));
        if self.transport == Transport::Tcp && !self.waiting.is_empty() && silence > STREAM_SILENCE {
            self.shared.owed_since.store(self.shared.milliseconds(), Ordering::Relaxed);
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Tries once to connect, at most once a second. Whether there is a connection.
    fn reconnect(&mut self) -> bool {
        let wait = self.connect_at.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            // Whoever submits wakes us; nothing can be sent yet.
            std::thread::sleep(wait.min(Duration::from_millis(100)));
            return false;
        }
        match Socket::connect(self.transport, self.shared.server) {
            Ok(socket) => {
                self.socket = Some(socket);
                self.connects_failed = 0;
                let now = self.now();
                self.exchange.handle_notice(now, Notice::NewConnection);
                true
            }
            Err(error) => {
                debug!(%error, "connect again");
                self.connects_failed += 1;
                self.connect_at = Instant::now() + RECONNECT;
                if matches!(self.shared.wait_policy, WaitPolicy::Soft(most) if self.connects_failed >= most) {
                    self.give_up();
                }
                false
            }
        }
    }

    /// A soft mount whose server cannot be reached.
    fn give_up(&mut self) {
        let xids: Vec<Xid> = self.waiting.keys().copied().collect();
        for xid in xids {
            self.exchange.cancel(xid);
            if let Some(waiting) = self.remove(xid) {
                (waiting.done)(Err(LiveError::NoAnswer(self.shared.server)));
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(answer) = self.exchange.poll_answer() {
            let Some(waiting) = self.remove(answer.xid) else { continue };
            self.learn(waiting.class, &answer);
            let outcome = match answer.results {
                None => Err(LiveError::NoAnswer(self.shared.server)),
                Some(Err(refusal)) => Err(LiveError::Refused(refusal)),
                Some(Ok(results)) => Ok((results, answer.sendings)),
            };
            (waiting.done)(outcome);
        }
    }

    /// What an answer tells of the path goes to window and block size.
    fn learn(&mut self, class: Class, answer: &Answer) {
        let (block, len) = match class {
            Class::Control => return,
            Class::Read(len) => (&mut self.blocks.read, len),
            Class::Write(len) => (&mut self.blocks.write, len),
        };
        let Answer { sendings, round_trip, .. } = *answer;
        learn(block, &mut self.window, AnsweredBlock { len, sendings, round_trip });
    }

    fn publish(&self) {
        self.shared.read_block.store(self.blocks.read.size(), Ordering::Relaxed);
        self.shared.write_block.store(self.blocks.write.size(), Ordering::Relaxed);
        self.shared.in_flight.store(self.waiting.len(), Ordering::Relaxed);
        *self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner) = self.exchange.statistics();
    }

    fn fail_all(&mut self) {
        let queued: Vec<Submission> = {
            let mut queues = self.shared.queues();
            let control = std::mem::take(&mut queues.control);
            control.into_iter().chain(std::mem::take(&mut queues.transfers)).collect()
        };
        let waiting = std::mem::take(&mut self.waiting).into_values().map(|waiting| waiting.done);
        for done in waiting.chain(queued.into_iter().map(|it| it.done)) {
            done(Err(LiveError::Interrupted));
        }
        self.shared.in_flight.store(0, Ordering::Relaxed);
    }
}
