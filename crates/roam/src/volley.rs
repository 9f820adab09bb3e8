//! Dials of several servers at the same time.

use crate::api::{DialId, Input, Server};
use crate::choice::Seen;
use crate::known::Rank;
use crate::outbox::Outbox;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use wayfs_types::{NodeId, Time};

/// Others get this long after the first answered, or twice its round trip.
const GRACE_MIN: Duration = Duration::from_millis(30);

/// How long to wait for all of several dials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grace {
    /// A little longer than the first took.
    AfterFirst,
    /// Until each has answered or failed.
    All,
}

/// A server that answered a dial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) dial: DialId,
    pub(crate) server: Server,
    /// The shortest round trip that was seen.
    pub(crate) rtt: Duration,
}

impl Answered {
    pub(crate) const fn node(&self) -> NodeId {
        self.server.node
    }

    pub(crate) const fn rtt(&self) -> Duration {
        self.rtt
    }

    /// Which of those that are about as near all choose.
    pub(crate) fn rank(&self) -> Rank {
        rank(&self.server)
    }

    pub(crate) fn seen(&self) -> Seen<Rank> {
        Seen { rtt: self.rtt, rank: self.rank() }
    }
}

pub(crate) const fn rank(server: &Server) -> Rank {
    (server.kind, server.node)
}

/// Dials that were begun together.
#[derive(Debug)]
pub(crate) struct Volley {
    waiting: BTreeMap<DialId, Server>,
    answered: Vec<Answered>,
    grace: Grace,
    end: Option<Time>,
}

impl Volley {
    pub(crate) fn begin(servers: impl IntoIterator<Item = Server>, grace: Grace, out: &mut Outbox) -> Self {
        let waiting = servers.into_iter().map(|server| (out.dial(server.node), server)).collect();
        Self { waiting, answered: Vec::new(), grace, end: None }
    }

    /// Takes in what became of a dial.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all else is for another phase")]
    pub(crate) fn handle(&mut self, now: Time, input: &Input) {
        match input {
            Input::Dialled { dial, node, rtt } => self.answered(now, *dial, (*node, *rtt)),
            Input::DialFailed { dial } => drop(self.waiting.remove(dial)),
            _ => {}
        }
    }

    fn answered(&mut self, now: Time, dial: DialId, (node, rtt): (NodeId, Duration)) {
        let Some(server) = self.waiting.remove(&dial) else { return };
        if self.grace == Grace::AfterFirst && self.end.is_none() {
            self.end = Some(now + (rtt * 2).max(GRACE_MIN));
        }
        // The home may answer with a new key, which follows the one that is known.
        self.answered.push(Answered { dial, server: Server { node, ..server }, rtt });
    }

    pub(crate) fn is_over(&self, now: Time) -> bool {
        self.waiting.is_empty() || self.end.is_some_and(|end| end <= now)
    }

    pub(crate) const fn poll_timeout(&self) -> Option<Time> {
        self.end
    }

    /// Those that answered, and the others, which may still answer.
    pub(crate) fn split(self) -> (Vec<Answered>, Late) {
        (self.answered, Late { waiting: self.waiting, answered: VecDeque::new() })
    }

    /// Those that answered; the others are waited for no longer.
    pub(crate) fn finish(self, out: &mut Outbox) -> Vec<Answered> {
        self.waiting.into_keys().for_each(|dial| out.close(dial));
        self.answered
    }

    pub(crate) fn abandon(self, out: &mut Outbox) {
        close_all(self.finish(out), out);
    }
}

/// Dials that were not answered in time. Who answers late is asked if none of the others takes this machine: two stations next door
/// that do not know a member once kept it from the home for ever, which does.
#[derive(Debug, Default)]
pub(crate) struct Late {
    waiting: BTreeMap<DialId, Server>,
    answered: VecDeque<Answered>,
}

impl Late {
    /// Takes in what became of a dial.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all else is for another phase")]
    pub(crate) fn handle(&mut self, input: &Input) {
        match input {
            Input::Dialled { dial, node, rtt } => {
                if let Some(server) = self.waiting.remove(dial) {
                    let server = Server { node: *node, ..server };
                    self.answered.push_back(Answered { dial: *dial, server, rtt: *rtt });
                }
            }
            Input::DialFailed { dial } => drop(self.waiting.remove(dial)),
            _ => {}
        }
    }

    /// The next that has answered.
    pub(crate) fn next(&mut self) -> Option<Answered> {
        self.answered.pop_front()
    }

    /// Whether nobody is waited for.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(crate) fn abandon(self, out: &mut Outbox) {
        self.waiting.into_keys().for_each(|dial| out.close(dial));
        close_all(self.answered, out);
    }
}

pub(crate) fn close_all(answered: impl IntoIterator<Item = Answered>, out: &mut Outbox) {
    answered.into_iter().for_each(|one| out.close(one.dial));
}

/// Of what was measured before and again the least counts.
pub(crate) fn keep_least(measured: &mut [Answered], again: Vec<Answered>, out: &mut Outbox) {
    for again in again {
        if let Some(first) = measured.iter_mut().find(|one| one.node() == again.node()) {
            first.rtt = first.rtt.min(again.rtt);
        }
        out.close(again.dial);
    }
}
