//! One round of a comparison: the parent and another server, dialled some times, the least round trips of each.

use crate::api::{Input, Server};
use crate::choice::{LOOKS_MAX, Seen};
use crate::known::{Rank, View};
use crate::outbox::Outbox;
use crate::volley::{Answered, Grace, Volley, close_all, keep_least, rank};
use std::time::Duration;
use wayfs_types::{NodeId, Time};

/// A round that is under way.
#[derive(Debug)]
pub(crate) struct Round {
    other: Server,
    volley: Volley,
    looks: usize,
    /// The least of the looks so far.
    parent_rtt: Option<Duration>,
    /// What the first look made, with the least of all.
    answered: Option<Vec<Answered>>,
}

/// How far a round is.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Another look is under way.
    Goes(Round),
    /// What was seen of the parent, and the other if it answered.
    Over(Seen<Rank>, Option<Answered>),
}

impl Round {
    pub(crate) fn begin(other: Server, view: &View<'_>, out: &mut Outbox) -> Self {
        let volley = Volley::begin([view.parent.clone(), other.clone()], Grace::All, out);
        Self { other, volley, looks: 1, parent_rtt: None, answered: None }
    }

    pub(crate) fn handle(&mut self, now: Time, input: &Input) {
        self.volley.handle(now, input);
    }

    pub(crate) fn is_look_over(&self, now: Time) -> bool {
        self.volley.is_over(now)
    }

    /// A look is over: the next begins, or the round is over.
    pub(crate) fn after_look(mut self, view: &View<'_>, out: &mut Outbox) -> Progress {
        let (rtt, others) = split(self.volley.finish(out), view, out);
        let least = self.parent_rtt.map_or(rtt, |least| least.min(rtt));
        let answered = match self.answered.take() {
            None => others,
            Some(mut answered) => {
                keep_least(&mut answered, others, out);
                answered
            }
        };
        if self.looks >= LOOKS_MAX {
            let mut answered = answered.into_iter();
            let other = answered.next();
            close_all(answered, out);
            return Progress::Over(Seen { rtt: least, rank: rank(view.parent) }, other);
        }
        let volley = Volley::begin([view.parent.clone(), self.other.clone()], Grace::All, out);
        Progress::Goes(Self {
            volley,
            looks: self.looks + 1,
            parent_rtt: Some(least),
            answered: Some(answered),
            ..self
        })
    }

    pub(crate) fn abandon(self, out: &mut Outbox) {
        self.volley.abandon(out);
        close_all(self.answered.into_iter().flatten(), out);
    }
}

/// Takes the parent out of those that answered: its round trip as a new connection sees it, as it sees those of the others. That of
/// the session is an average, which remembers for long how busy this machine was.
pub(crate) fn split(answered: Vec<Answered>, view: &View<'_>, out: &mut Outbox) -> (Duration, Vec<Answered>) {
    let parent: NodeId = view.parent.node;
    let (parents, others): (Vec<_>, Vec<_>) = answered.into_iter().partition(|one| one.node() == parent);
    let rtt = parents.iter().map(Answered::rtt).min().unwrap_or(view.known.parent_rtt);
    close_all(parents, out);
    (rtt, others)
}
