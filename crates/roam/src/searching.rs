//! Dials all servers that may be the parent, until it is known which are nearest.

use crate::api::{Input, Server};
use crate::choice::{LOOKS_MAX, in_order_of_choice, is_contested};
use crate::known::Known;
use crate::outbox::Outbox;
use crate::volley::{Answered, Grace, Late, Volley, close_all, keep_least};
use wayfs_types::Time;

/// How often a dial is begun anew because addresses changed meanwhile.
const REDIALS_MAX: u32 = 8;

/// A search that is under way.
#[derive(Debug)]
pub(crate) struct Search {
    wanted: Vec<Server>,
    redials: u32,
    volley: Volley,
    /// Those that answered first; each with its least round trip so far.
    answered: Option<Vec<Answered>>,
    late: Late,
    looks: usize,
}

/// How far a search is.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Dials are under way.
    Goes(Search),
    /// Those that answered, the best first, and those that may answer late.
    Over(Vec<Answered>, Late),
}

impl Search {
    pub(crate) fn begin(wanted: Vec<Server>, out: &mut Outbox) -> Self {
        let volley = Volley::begin(wanted.clone(), Grace::AfterFirst, out);
        Self { wanted, redials: 0, volley, answered: None, late: Late::default(), looks: 1 }
    }

    pub(crate) fn handle(mut self, now: Time, input: &Input, out: &mut Outbox) -> Progress {
        self.volley.handle(now, input);
        self.late.handle(input);
        self.settle(now, out)
    }

    /// The servers that may be the parent are others, or elsewhere: until one has answered, all are dialled anew.
    pub(crate) fn note_servers(mut self, now: Time, known: &Known, out: &mut Outbox) -> Progress {
        let wanted = known.wanted();
        if self.answered.is_none() && self.redials < REDIALS_MAX && wanted != self.wanted {
            self.redials += 1;
            let volley = Volley::begin(wanted.clone(), Grace::AfterFirst, out);
            std::mem::replace(&mut self.volley, volley).abandon(out);
            self.wanted = wanted;
        }
        self.settle(now, out)
    }

    pub(crate) const fn poll_timeout(&self) -> Option<Time> {
        self.volley.poll_timeout()
    }

    pub(crate) fn abandon(self, out: &mut Outbox) {
        self.volley.abandon(out);
        self.late.abandon(out);
        close_all(self.answered.into_iter().flatten(), out);
    }

    /// Dials servers that answered again, as long as noise may be why one of them looks farther than it is.
    fn settle(mut self, now: Time, out: &mut Outbox) -> Progress {
        while self.volley.is_over(now) {
            let answered = match self.answered.take() {
                None => {
                    let (answered, late) = self.volley.split();
                    self.late = late;
                    answered
                }
                Some(mut answered) => {
                    keep_least(&mut answered, self.volley.finish(out), out);
                    answered
                }
            };
            if self.looks >= LOOKS_MAX || !is_contested(answered.iter().map(|one| (one.rtt, one.rank()))) {
                return Progress::Over(in_order_of_choice(answered, Answered::rtt, Answered::rank), self.late);
            }
            self.looks += 1;
            let servers: Vec<Server> = answered.iter().map(|one| one.server.clone()).collect();
            self.volley = Volley::begin(servers, Grace::AfterFirst, out);
            self.answered = Some(answered);
        }
        Progress::Goes(self)
    }
}
