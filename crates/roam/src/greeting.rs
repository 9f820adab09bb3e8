//! Asks servers, the best first, to take this machine as a child.

use crate::api::{DialId, Failure, GreetRefusal, Input, Output};
use crate::outbox::Outbox;
use crate::volley::{Answered, close_all};
use std::collections::VecDeque;
use std::time::Duration;

/// Greetings of a search, one after the other.
#[derive(Debug)]
pub(crate) struct Greeting {
    current: Answered,
    queue: VecDeque<Answered>,
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
    pub(crate) fn begin(servers: Vec<Answered>, out: &mut Outbox) -> Option<Self> {
        let mut queue = VecDeque::from(servers);
        let count = queue.len();
        let current = queue.pop_front()?;
        out.push(Output::Greet { dial: current.dial });
        Some(Self { current, queue, count, may_be_unknown: false })
    }

    pub(crate) fn handle(self, input: &Input, out: &mut Outbox) -> Progress {
        match input {
            Input::Greeted { dial, rtt } if *dial == self.dial() => {
                close_all(self.queue, out);
                Progress::Welcome { server: self.current, rtt: *rtt, count: self.count }
            }
            Input::Refused { dial, why } if *dial == self.dial() => self.refused(*why, out),
            _ => Progress::Goes(self),
        }
    }

    fn refused(mut self, why: GreetRefusal, out: &mut Outbox) -> Progress {
        out.close(self.dial());
        self.may_be_unknown |= why.may_not_know_us();
        let Some(next) = self.queue.pop_front() else {
            let failure = Failure::Refused { server: self.current.node(), why };
            return Progress::Refused { failure, may_be_unknown: self.may_be_unknown };
        };
        out.push(Output::Greet { dial: next.dial });
        self.current = next;
        Progress::Goes(self)
    }

    const fn dial(&self) -> DialId {
        self.current.dial
    }

    pub(crate) fn abandon(self, out: &mut Outbox) {
        out.close(self.dial());
        close_all(self.queue, out);
    }
}
