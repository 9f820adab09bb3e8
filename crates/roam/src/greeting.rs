//! Asks servers, the best first, to take this machine as a child.

use crate::api::{Failure, Input, Output};
use crate::outbox::Outbox;
use crate::volley::{Answered, Late, close_all};
use std::collections::VecDeque;
use std::time::Duration;

/// Greetings of a search, one after the other.
#[derive(Debug)]
pub(crate) struct Greeting {
    /// None: all that answered refused, and others may answer late.
    current: Option<Answered>,
    queue: VecDeque<Answered>,
    late: Late,
    /// What the last one that was asked said.
    refusal: Option<Failure>,
    /// How many answered the search.
    count: usize,
    may_be_unknown: bool,
}

/// How far the greetings are.
#[derive(Debug)]
pub(crate) enum Progress {
    /// A server is asked.
    Goes(Greeting),
    /// A server took this machine.
    Welcome {
        server: Answered,
        /// Round trip of the connection now.
        rtt: Duration,
        /// How many answered the search.
        count: usize,
    },
    /// None did.
    Refused {
        failure: Failure,
        /// A server may not know this machine, and a ticket may help.
        may_be_unknown: bool,
    },
}

impl Greeting {
    /// `None` if there is nobody to ask.
    pub(crate) fn begin(servers: Vec<Answered>, late: Late, out: &mut Outbox) -> Option<Self> {
        let mut queue = VecDeque::from(servers);
        let count = queue.len();
        let current = queue.pop_front()?;
        out.push(Output::Greet { dial: current.dial });
        Some(Self { current: Some(current), queue, late, refusal: None, count, may_be_unknown: false })
    }

    pub(crate) fn handle(mut self, input: &Input, out: &mut Outbox) -> Progress {
        self.late.handle(input);
        match (self.current.take(), input) {
            (Some(server), Input::Greeted { dial, rtt }) if *dial == server.dial => {
                close_all(self.queue, out);
                self.late.abandon(out);
                Progress::Welcome { server, rtt: *rtt, count: self.count }
            }
            (Some(server), Input::Refused { dial, why }) if *dial == server.dial => {
                out.close(server.dial);
                self.may_be_unknown |= why.may_not_know_us();
                self.refusal = Some(Failure::Refused { server: server.node(), why: *why });
                self.ask_next(out)
            }
            (None, _) => self.ask_next(out),
            (current, _) => Progress::Goes(Self { current, ..self }),
        }
    }

    /// Whether nobody is asked at the moment.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.current.is_none()
    }

    fn ask_next(mut self, out: &mut Outbox) -> Progress {
        self.current = self.queue.pop_front().or_else(|| self.late.next());
        match (&self.current, self.refusal) {
            (Some(next), _) => out.push(Output::Greet { dial: next.dial }),
            (None, Some(failure)) if self.late.is_over() => {
                return Progress::Refused { failure, may_be_unknown: self.may_be_unknown };
            }
            (None, _) => {}
        }
        Progress::Goes(self)
    }

    pub(crate) fn abandon(self, out: &mut Outbox) {
        close_all(self.current.into_iter().chain(self.queue), out);
        self.late.abandon(out);
    }
}
