//! One other end, as this end knows it.

use crate::config::Addresses;
use crate::end::{Counted, End};
use crate::keys::Role;
use crate::report::PeerReport;
use crate::seal::Kind;
use crate::sessions::Sessions;
use crate::split::Split;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use wayfs_hop::{IpPacket, Signal};
use wayfs_types::{NodeId, Time};

/// An end that heard nothing for so long after it sent something asks.
const ASK_AFTER: Duration = Duration::from_secs(1);
/// An idle mobile says that it is there so often: doors in address translators stay open.
pub(crate) const IDLE_AFTER: Duration = Duration::from_secs(10);
/// Questions without an answer after which the channel is down.
const ASKED_MAX: u32 = 3;
/// A base asks so often at most; then the mobile must come back by itself.
const ASKED_BY_BASE_MAX: u32 = 10;
/// Longest time between questions.
const ASK_MAX: Duration = Duration::from_secs(10);

/// One other end.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) id: NodeId,
    pub(crate) addresses: Addresses,
    /// Its numbers begin anew with another.
    pub(crate) life: u64,
    pub(crate) scheme: String,
    pub(crate) end: End,
    /// Where its connections are joined, if its scheme does that.
    pub(crate) split: Option<Arc<Split>>,
    pub(crate) sessions: Sessions,
    /// Where it is.
    pub(crate) at: Option<SocketAddr>,
    pub(crate) heard: Time,
    /// The first thing sent since.
    pub(crate) sent_since: Option<Time>,
    pub(crate) sent_last: Time,
    asked: u32,
    asked_at: Time,
    is_down: bool,
    pub(crate) counters: Counters,
}

/// What was counted here and not by the scheme.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) packets_out: u64,
    pub(crate) packets_in: u64,
    pub(crate) dropped: u64,
    pub(crate) spoofed: u64,
    pub(crate) unsent: u64,
}

impl Peer {
    /// One that was heard now.
    pub(crate) fn new(id: NodeId, addresses: Addresses, life: u64, (scheme, end): (String, End), now: Time) -> Self {
        Self {
            id,
            addresses,
            life,
            scheme,
            end,
            split: None,
            sessions: Sessions::default(),
            at: None,
            heard: now,
            sent_since: None,
            sent_last: now,
            asked: 0,
            asked_at: now,
            is_down: false,
            counters: Counters::default(),
        }
    }

    /// A packet goes over the hop, or finds no room.
    pub(crate) fn send(&mut self, now: Time, packet: IpPacket) {
        if self.end.send(now, packet) {
            self.counters.packets_out += 1;
        } else {
            self.counters.dropped += 1;
        }
    }

    /// Something authentic came. True: the channel was down and is up.
    pub(crate) fn hear(&mut self, now: Time) -> bool {
        (self.heard, self.sent_since, self.asked) = (now, None, 0);
        std::mem::take(&mut self.is_down)
    }

    /// Something goes.
    pub(crate) fn note_sent(&mut self, now: Time) {
        self.sent_since.get_or_insert(now);
        self.sent_last = now;
    }

    /// It says that it leaves, or does not answer. True: that is news.
    pub(crate) fn put_down(&mut self) -> bool {
        !std::mem::replace(&mut self.is_down, true)
    }

    /// The next signal of its scheme that is news: down and up are told once.
    pub(crate) fn poll_signal(&mut self) -> Option<Signal> {
        loop {
            let signal = self.end.poll_signal()?;
            match signal {
                Signal::Down if !self.put_down() => {}
                // What is heard is told where it is heard.
                Signal::Up => {}
                Signal::Down | Signal::HandOffComing | Signal::Lost(_) | Signal::GivenUp(_) => return Some(signal),
            }
        }
    }

    fn ask_at(&self, role: Role) -> Option<Time> {
        let wait = ASK_AFTER.saturating_mul(1 << self.asked.saturating_sub(ASKED_MAX).min(5)).min(ASK_MAX);
        let unanswered = match self.asked {
            0 => self.sent_since.map(|at| at + ASK_AFTER),
            asked if role == Role::Base && asked >= ASKED_BY_BASE_MAX => None,
            _ => Some(self.asked_at + wait),
        };
        let idle = (role == Role::Mobile).then(|| self.sent_last + IDLE_AFTER);
        unanswered.into_iter().chain(idle).min()
    }

    /// When to be woken.
    pub(crate) fn poll_timeout(&self, now: Time, role: Role) -> Option<Time> {
        self.end.poll_timeout(now).into_iter().chain(self.ask_at(role)).min()
    }

    /// Lets timers end. Gives what is to be sent, and whether the channel went down.
    pub(crate) fn handle_timeout(&mut self, now: Time, role: Role) -> (Option<Kind>, bool) {
        self.end.handle_timeout(now);
        if self.ask_at(role).is_none_or(|at| at > now) {
            return (None, false);
        }
        let idle = self.sent_since.is_none();
        self.asked += u32::from(!idle);
        self.asked_at = now;
        let down = self.asked > ASKED_MAX && self.put_down();
        (Some(Kind::Ping), down)
    }

    /// Whether it is silent for so long that a new handshake may help.
    pub(crate) const fn is_lost(&self) -> bool {
        self.asked >= ASKED_MAX
    }

    /// As it is told.
    pub(crate) fn report(&self, now: Time) -> PeerReport {
        let (rate, round_trip) = self.end.measured();
        let channel = match (self.is_down, self.end.is_silent() || self.asked > 0) {
            (true, _) => "down",
            (false, true) => "silent",
            (false, false) => "good",
        };
        let mut report = PeerReport {
            id: self.id.to_string(),
            addresses: vec![self.addresses.v4.to_string(), self.addresses.v6.to_string()],
            at: self.at.map(|at| at.to_string()).unwrap_or_default(),
            scheme: self.scheme.clone(),
            channel: channel.to_owned(),
            heard_ms: u64::try_from(now.since(self.heard).as_millis()).unwrap_or(u64::MAX),
            packets_out: self.counters.packets_out,
            packets_in: self.counters.packets_in,
            dropped: self.counters.dropped,
            spoofed: self.counters.spoofed,
            unsent: self.counters.unsent,
            queue_bytes: self.end.queue_len() as u64,
            state_bytes: self.end.state_len() as u64,
            rate,
            round_trip_us: round_trip.map_or(0, |span| u64::try_from(span.as_micros()).unwrap_or(u64::MAX)),
            sent: self.counters.packets_out,
            ..PeerReport::default()
        };
        if let Some(split) = &self.split {
            split.tell(&self.addresses, &mut report);
        }
        match self.end.counted() {
            Counted::Nothing => {}
            Counted::Frames(counted) => {
                (report.sent, report.retransmitted) = (counted.sent, counted.retransmitted);
                (report.given_up, report.overflowed) = (counted.given_up, counted.overflowed);
                report.lost = counted.retransmitted.saturating_sub(counted.polls) + counted.given_up;
                report.hidden = report.lost.saturating_sub(counted.given_up);
            }
            Counted::Snoop(counted) => {
                (report.retransmitted, report.given_up) = (counted.retransmitted, counted.given_up);
                (report.suppressed, report.noticed) = (counted.suppressed, counted.noticed);
                report.lost = counted.retransmitted + counted.given_up;
                report.hidden = counted.retransmitted;
            }
            Counted::Blocks(counted) => {
                report.retransmitted = counted.sums;
                (report.hidden, report.given_up) = (counted.computed, counted.lost);
                report.lost = counted.computed + counted.lost;
            }
        }
        report
    }
}
