//! An end point of a connection.
//!
//! ```text
//!            open                 SYN+ACK
//! Closed ───────────► SynSent ─────────────┐
//!    │ SYN                                 ▼
//!    └──────► SynReceived ──── ACK ──► Established ──► Finished (both ends have said and heard the end)
//!                                          │
//!             RST, or too many timeouts ───┴──► Dead
//! ```
//! Either side may end its half first; the other half goes on.

use crate::receiver::Receiver;
use crate::sender::{Outgoing, Sender, TimedOut};
use crate::{Config, Flags, Segment, SenderStatistics, Seq};
use std::collections::VecDeque;
use wayfs_types::Time;

/// Where a connection stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Waits for somebody's SYN.
    Listening,
    /// SYN sent.
    SynSent,
    /// SYN heard and answered.
    SynReceived,
    /// Data flows, in one direction at least.
    Established,
    /// Both ends have said and heard the end.
    Finished,
    /// Reset, or given up.
    Dead,
}

/// What happened to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It is open.
    Connected,
    /// The peer sends nothing more, and everything that it sent has arrived.
    PeerClosed,
    /// The peer has everything, the end included.
    Delivered,
    /// The peer reset it.
    Reset,
    /// No answer for too long.
    GaveUp,
}

/// An end point.
#[derive(Debug)]
pub struct Endpoint {
    flow: u32,
    state: State,
    sender: Sender,
    receiver: Receiver,
    start: Seq,
    /// A SYN or a reset that is to leave.
    control: VecDeque<Segment>,
    events: VecDeque<Event>,
    told_delivered: bool,
    told_closed: bool,
}

impl Endpoint {
    /// Opens a connection; `start` is the first sequence number.
    pub fn connect(config: Config, flow: u32, start: Seq, now: Time) -> Self {
        let mut endpoint = Self::new(config, flow, start, now, State::SynSent);
        let syn = endpoint.sender.syn(now);
        let segment = endpoint.segment(&syn);
        endpoint.control.push_back(segment);
        endpoint
    }

    /// Waits for a connection.
    pub fn listen(config: Config, flow: u32, start: Seq, now: Time) -> Self {
        Self::new(config, flow, start, now, State::Listening)
    }

    fn new(config: Config, flow: u32, start: Seq, now: Time, state: State) -> Self {
        Self {
            flow,
            state,
            sender: Sender::new(config, start, now),
            receiver: Receiver::new(&config, config.timers),
            start,
            control: VecDeque::new(),
            events: VecDeque::new(),
            told_delivered: false,
            told_closed: false,
        }
    }

    /// Where it stands.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Gives bytes to be sent; tells how many the buffer took.
    pub fn write(&mut self, len: u32) -> u32 {
        self.sender.write(len)
    }

    /// Bytes that [`Self::write`] would take.
    pub fn writable(&self) -> u32 {
        self.sender.writable()
    }

    /// Nothing more will be written; the other half goes on.
    pub fn close(&mut self) {
        self.sender.close();
    }

    /// Ends it at once and tells the peer.
    pub fn abort(&mut self) {
        if !matches!(self.state, State::Dead | State::Finished | State::Listening) {
            let mut reset = self.empty();
            reset.flags.rst = true;
            self.control.push_back(reset);
        }
        self.state = State::Dead;
    }

    /// Bytes that can be read.
    pub const fn readable(&self) -> u32 {
        self.receiver.readable()
    }

    /// Takes up to `max` bytes; tells how many.
    pub fn read(&mut self, max: u32) -> u32 {
        self.receiver.read(max)
    }

    /// Whether everything that was written is acknowledged.
    #[cfg(test)]
    pub(crate) fn is_drained(&self) -> bool {
        self.sender.is_drained()
    }

    /// Bytes of the congestion window.
    pub const fn cwnd(&self) -> u32 {
        self.sender.cwnd()
    }

    /// Bytes that the peer last said it has room for.
    pub const fn peer_window(&self) -> u32 {
        self.sender.peer_window()
    }

    /// What the sending half did.
    pub const fn statistics(&self) -> SenderStatistics {
        self.sender.statistics()
    }

    /// What happened; call until `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Takes a segment in.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment) {
        if matches!(self.state, State::Dead | State::Finished) {
            // The last acknowledgement may have been lost: the peer's FIN is answered again.
            if self.state == State::Finished && segment.seq_len() > 0 {
                self.receiver.owe();
            }
            return;
        }
        if segment.flags.rst {
            self.handle_reset(segment);
            return;
        }
        if segment.flags.syn {
            self.handle_syn(now, segment);
            return;
        }
        if matches!(self.state, State::Listening | State::SynSent) {
            return;
        }
        self.sender.handle(now, segment);
        if self.state == State::SynReceived && self.sender.una().after(self.start) {
            self.connected();
        }
        self.receiver.handle(now, segment);
        self.after();
    }

    /// A reset counts only if it lies in the window (RFC 5961 in spirit: whoever guesses must guess well).
    fn handle_reset(&mut self, segment: &Segment) {
        let next = self.receiver.next();
        let inside = !segment.seq.before(next) && !segment.seq.after(next + self.receiver.window());
        if inside || self.state == State::SynSent && segment.ack == Some(self.start + 1) {
            self.state = State::Dead;
            self.events.push_back(Event::Reset);
        }
    }

    fn handle_syn(&mut self, now: Time, segment: &Segment) {
        match self.state {
            State::Listening => {
                self.receiver.start(segment.seq);
                self.state = State::SynReceived;
                let syn = self.sender.syn(now);
                let mut answer = self.segment(&syn);
                self.receiver.acknowledge(&mut answer);
                self.control.push_back(answer);
            }
            State::SynSent if segment.ack == Some(self.start + 1) => {
                self.receiver.start(segment.seq);
                self.sender.handle(now, segment);
                self.connected();
            }
            // The peer did not hear our acknowledgement of its SYN.
            State::Established | State::SynReceived => self.receiver.owe(),
            State::SynSent | State::Finished | State::Dead => {}
        }
    }

    fn connected(&mut self) {
        self.state = State::Established;
        self.events.push_back(Event::Connected);
    }

    fn after(&mut self) {
        if self.receiver.is_finished() && !self.told_closed {
            self.told_closed = true;
            self.events.push_back(Event::PeerClosed);
        }
        if self.sender.is_finished() && !self.told_delivered {
            self.told_delivered = true;
            self.events.push_back(Event::Delivered);
        }
        if self.told_closed && self.told_delivered {
            self.state = State::Finished;
        }
    }

    /// A segment that leaves now; call until `None`.
    pub fn poll_segment(&mut self, now: Time) -> Option<Segment> {
        if let Some(segment) = self.control.pop_front() {
            return Some(segment);
        }
        let open = match self.state {
            State::Established | State::SynReceived | State::SynSent => true,
            State::Finished => false,
            State::Listening | State::Dead => return None,
        };
        if open && let Some(out) = self.sender.poll(now) {
            let mut segment = self.segment(&out);
            if self.state != State::SynSent {
                self.receiver.acknowledge(&mut segment);
            }
            return Some(segment);
        }
        if self.receiver.owes() {
            let mut segment = self.empty();
            self.receiver.acknowledge(&mut segment);
            return Some(segment);
        }
        None
    }

    /// When to be woken by [`Self::handle_timeout`].
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        if matches!(self.state, State::Dead) {
            return None;
        }
        let sender = if self.state == State::Finished { None } else { self.sender.timeout(now) };
        sender.into_iter().chain(self.receiver.timeout()).min()
    }

    /// Lets timers end whose time has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.receiver.handle_timeout(now);
        if matches!(self.state, State::Dead | State::Finished | State::Listening) {
            return;
        }
        if self.sender.handle_timeout(now) == TimedOut::GaveUp {
            self.state = State::Dead;
            self.events.push_back(Event::GaveUp);
        }
    }

    fn empty(&self) -> Segment {
        Segment {
            flow: self.flow,
            seq: self.sender.next_seq(),
            len: 0,
            ack: None,
            window: self.receiver.window(),
            flags: Flags::default(),
            sack: Vec::new(),
            echo: None,
            loss_notice: false,
        }
    }

    fn segment(&self, out: &Outgoing) -> Segment {
        let flags = Flags { syn: out.syn, fin: out.fin, rst: false };
        Segment { seq: out.seq, len: out.len, flags, ..self.empty() }
    }
}
