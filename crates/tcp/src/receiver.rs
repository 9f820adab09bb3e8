//! The receiving half: order, the advertised window, when to acknowledge, and what to tell about gaps.

use crate::rto::Rto;
use crate::{Config, Scheme, Segment, Seq, Timers};
use wayfs_types::Time;

/// Blocks that an acknowledgement can tell.
const BLOCKS: usize = 3;

/// What a segment calls for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owed {
    Nothing,
    /// An acknowledgement, when the timer ends or a second segment comes.
    Later(Time),
    Now,
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    mss: u32,
    buffer: u32,
    scheme: Scheme,
    timers: Rto,
    /// Next byte wanted.
    next: Seq,
    /// Bytes in order that nobody read.
    unread: u32,
    /// Runs that arrived out of order, by place.
    runs: Vec<(Seq, Seq)>,
    /// The same, the one that grew last first.
    recent: Vec<Seq>,
    echo: Option<Seq>,
    /// End of the window as the peer knows it.
    told: Seq,
    owed: Owed,
    /// Place of a FIN that is not yet reached.
    fin: Option<Seq>,
    finished: bool,
}

impl Receiver {
    pub(crate) fn new(config: &Config, timers: Timers) -> Self {
        Self {
            mss: config.mss,
            buffer: config.buffer,
            scheme: config.scheme,
            timers: Rto::new(timers),
            next: Seq::default(),
            unread: 0,
            runs: Vec::new(),
            recent: Vec::new(),
            echo: None,
            told: Seq::default(),
            owed: Owed::Nothing,
            fin: None,
            finished: false,
        }
    }

    /// The peer's SYN.
    pub(crate) fn start(&mut self, syn: Seq) {
        self.next = syn + 1;
        self.told = self.next;
        self.owed = Owed::Now;
    }

    /// Everything before this has arrived.
    pub(crate) const fn next(&self) -> Seq {
        self.next
    }

    /// Whether the peer's FIN was reached.
    pub(crate) const fn is_finished(&self) -> bool {
        self.finished
    }

    pub(crate) const fn readable(&self) -> u32 {
        self.unread
    }

    /// Takes up to `max` bytes out of the buffer. The peer is told when that gives room for two segments or half of the buffer.
    pub(crate) fn read(&mut self, max: u32) -> u32 {
        let len = self.unread.min(max);
        self.unread -= len;
        let news = (self.next + self.window()).since(self.told);
        if len > 0 && !self.finished && (news >= 2 * self.mss || news >= self.buffer / 2) {
            self.owed = Owed::Now;
        }
        len
    }

    /// Room in the buffer.
    pub(crate) const fn window(&self) -> u32 {
        self.buffer - self.unread
    }

    /// Takes the payload of a segment in.
    pub(crate) fn handle(&mut self, now: Time, segment: &Segment) {
        if segment.seq_len() == 0 {
            return;
        }
        self.echo = Some(segment.seq);
        let limit = self.next + self.window();
        let end = (segment.seq + segment.len).min(limit);
        if segment.flags.fin && end == segment.seq + segment.len {
            self.fin = Some(end);
        }
        let from = segment.seq.max(self.next);
        let in_order = segment.seq == self.next && self.runs.is_empty() && !segment.flags.fin;
        if from.before(end) {
            self.insert(from, end);
            self.take_in_order();
        }
        if self.fin == Some(self.next) && !self.finished {
            self.finished = true;
            self.next += 1;
        }
        let old = !from.before(end);
        self.owed = match (in_order && !old, self.owed) {
            (true, Owed::Nothing) => Owed::Later(self.timers.ack_deadline(now)),
            (false, _) | (true, Owed::Later(_) | Owed::Now) => Owed::Now,
        };
    }

    fn insert(&mut self, from: Seq, to: Seq) {
        let (mut from, mut to) = (from, to);
        let mut starts = Vec::new();
        self.runs.retain(|(a, b)| {
            let apart = b.before(from) || a.after(to);
            if !apart {
                starts.push(*a);
                (from, to) = (from.min(*a), to.max(*b));
            }
            apart
        });
        self.recent.retain(|start| !starts.contains(start));
        let place = self.runs.iter().position(|(a, _)| a.after(from)).unwrap_or(self.runs.len());
        self.runs.insert(place, (from, to));
        self.recent.insert(0, from);
    }

    fn take_in_order(&mut self) {
        if let Some((from, to)) = self.runs.first().copied()
            && !from.after(self.next)
        {
            self.unread += to.since(self.next);
            self.next = to;
            self.runs.remove(0);
            self.recent.retain(|start| *start != from);
        }
    }

    /// When an acknowledgement goes by itself.
    pub(crate) const fn timeout(&self) -> Option<Time> {
        match self.owed {
            Owed::Later(at) => Some(at),
            Owed::Nothing | Owed::Now => None,
        }
    }

    /// The delayed acknowledgement goes if its time has come.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if self.timeout().is_some_and(|at| at <= now) {
            self.owed = Owed::Now;
        }
    }

    /// Whether an acknowledgement is to go now.
    pub(crate) fn owes(&self) -> bool {
        self.owed == Owed::Now
    }

    /// An acknowledgement is wanted whatever came (a segment that repeats, a probe).
    pub(crate) const fn owe(&mut self) {
        self.owed = Owed::Now;
    }

    /// Puts the acknowledgement on a segment that leaves.
    pub(crate) fn acknowledge(&mut self, segment: &mut Segment) {
        self.owed = Owed::Nothing;
        self.told = self.told.max(self.next + self.window());
        segment.ack = Some(self.next);
        segment.window = self.told.since(self.next);
        match self.scheme {
            Scheme::Smart => segment.echo = self.echo,
            Scheme::Sack | Scheme::Cubic | Scheme::Bbr => segment.sack = self.blocks(),
            Scheme::Reno | Scheme::NewReno | Scheme::Eln | Scheme::ElnFirst => {}
        }
    }

    fn blocks(&self) -> Vec<(Seq, Seq)> {
        let run = |start: &Seq| self.runs.iter().find(|(from, _)| from == start).copied();
        self.recent.iter().filter_map(run).take(BLOCKS).collect()
    }
}
