//! Stays with a session as long as it is the best, and moves it.

use crate::api::{DialId, Input, Output, Server, Why};
use crate::choice::{Draw, has_decayed};
use crate::known::{Known, View};
use crate::measuring::{Best, Measuring, Progress};
use crate::outbox::Outbox;
use std::time::Duration;
use wayfs_types::Time;

/// How often a decayed path is looked for.
const LOOK_PERIOD: Duration = Duration::from_secs(5);

/// A session, and what is done beside it.
#[derive(Debug)]
pub(crate) struct Attached {
    pub(crate) parent: Server,
    pub(crate) dial: DialId,
    /// When the search before it ended.
    pub(crate) since: Time,
    rtt_when_chosen: Duration,
    measure_at: Time,
    work: Work,
}

#[derive(Debug)]
enum Work {
    /// Nothing until then.
    Resting(Time),
    Measuring {
        measuring: Measuring,
        /// The user wanted it.
        was_wanted: bool,
    },
    /// A better server is asked to take this machine.
    Moving(Best),
}

impl Attached {
    pub(crate) fn begin(now: Time, (parent, dial): (Server, DialId), known: &Known) -> Self {
        let measure_at = now + known.config.measure_period.min(LOOK_PERIOD);
        // What the user wished meanwhile is looked at as soon as the session is there.
        let is_due = known.measure_now || known.is_unwanted(parent.node);
        let work = Work::Resting(if is_due { now } else { measure_at });
        Self { parent, dial, since: now, rtt_when_chosen: known.parent_rtt, measure_at, work }
    }

    pub(crate) const fn measures_at(&self) -> Time {
        self.measure_at
    }

    pub(crate) fn handle(&mut self, now: Time, input: &Input, known: &mut Known, out: &mut Outbox) {
        match std::mem::replace(&mut self.work, Work::Resting(now)) {
            Work::Resting(until) if until <= now => self.look(now, known, out),
            Work::Resting(until) => self.work = Work::Resting(until),
            Work::Measuring { measuring, was_wanted } => {
                let view = View { known, parent: &self.parent };
                match measuring.handle(now, input, view, out) {
                    Progress::Goes(measuring) => self.work = Work::Measuring { measuring, was_wanted },
                    Progress::Over(best) => self.measured(now, best, known, out),
                }
            }
            Work::Moving(best) => self.work = self.greeted(now, input, best, known, out),
        }
    }

    /// The user wants something else, or the servers are others: that is looked at first.
    pub(crate) fn look_again(&mut self, now: Time, known: &mut Known, out: &mut Outbox) {
        if let Work::Measuring { was_wanted: true, .. } = self.work {
            known.measure_now = true;
        }
        self.abandon(out);
        self.look(now, known, out);
    }

    /// Servers are others. What is under way goes on.
    pub(crate) fn note_servers(&mut self, now: Time, known: &mut Known, out: &mut Outbox) {
        if matches!(self.work, Work::Resting(_)) {
            self.look(now, known, out);
        }
    }

    /// Measures if that is due.
    fn look(&mut self, now: Time, known: &mut Known, out: &mut Outbox) {
        let was_wanted = std::mem::take(&mut known.measure_now);
        let by_hand = known.is_unwanted(self.parent.node);
        let is_due = was_wanted || now >= self.measure_at || has_decayed(self.rtt_when_chosen, known.parent_rtt);
        self.work = if by_hand || is_due {
            Work::Measuring { measuring: Measuring::begin(by_hand, out), was_wanted }
        } else {
            self.rest(now)
        };
    }

    fn rest(&self, now: Time) -> Work {
        Work::Resting(self.measure_at.min(now + LOOK_PERIOD))
    }

    fn measured(&mut self, now: Time, best: Option<Best>, known: &Known, out: &mut Outbox) {
        self.measure_at = now + known.config.measure_period;
        self.work = match best {
            Some(best) => {
                out.push(Output::Greet { dial: best.server.dial });
                Work::Moving(best)
            }
            None => self.rest(now),
        };
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "all else is for another phase")]
    fn greeted(&mut self, now: Time, input: &Input, best: Best, known: &mut Known, out: &mut Outbox) -> Work {
        let Best { server, draw } = best;
        match input {
            Input::Greeted { dial, rtt } if *dial == server.dial => {
                let why = if known.pinned == Some(server.node()) {
                    Why::Pinned
                } else if draw == Draw::Shared {
                    Why::Shared
                } else {
                    Why::Near { answered: 1 }
                };
                if draw == Draw::Nearer {
                    known.note_left(now, self.parent.node);
                }
                out.push(Output::MoveTo { dial: server.dial, why });
                known.parent_rtt = *rtt;
                (self.parent, self.dial, self.rtt_when_chosen) = (server.server, server.dial, *rtt);
                self.rest(now)
            }
            Input::Refused { dial, .. } if *dial == server.dial => {
                out.close(server.dial);
                self.rest(now)
            }
            _ => Work::Moving(Best { server, draw }),
        }
    }

    pub(crate) const fn poll_timeout(&self) -> Option<Time> {
        match &self.work {
            Work::Resting(until) => Some(*until),
            Work::Measuring { measuring, .. } => measuring.poll_timeout(),
            Work::Moving(_) => None,
        }
    }

    /// Ends what is done beside the session.
    pub(crate) fn abandon(&mut self, out: &mut Outbox) {
        match std::mem::replace(&mut self.work, Work::Resting(self.measure_at)) {
            Work::Resting(_) => {}
            Work::Measuring { measuring, .. } => measuring.abandon(out),
            Work::Moving(best) => out.close(best.server.dial),
        }
    }
}
