//! The machine: its phases, and what leads from one to another.
//!
//! ```text
//!                 GoOffline                          SessionEnded, or the parent was removed
//!  Offline ◀────────────────── any phase   Attached ──────────────────────────────▶ Searching (or Resting, if it died young)
//!     └── GoOnline ──▶ Searching ── answered ──▶ Greeting ── taken ──▶ Attached ── a better one ──▶ Attached to that
//!                        ▲   │ none answers         │ none takes it
//!                        │   │                      ├──▶ AskingIn ──┐   (a server may not know this machine)
//!                        │   ├──▶ LookingAround ────┼───────────────┤   (the parent may be elsewhere)
//!                        └───┴───── Resting ◀───────┴───────────────┘
//! ```
//!
//! While searching, all known servers are dialled at the same time, and of the nearest that answer the one is taken that other
//! machines of the site take, too. While attached, the others are measured from time to time, and one that is nearer, or about as
//! near and the one that others take, is moved to. A move makes the new session before it leaves the old one, so that only the
//! engine notices.

use crate::api::{AskedIn, Config, DialId, Failure, Input, Leaving, Output, TaskId, Why};
use crate::attached::Attached;
use crate::greeting::{self, Greeting};
use crate::known::Known;
use crate::outbox::Outbox;
use crate::pauses::{AROUND_PATIENCE, DIED_YOUNG, Pauses, REFUSED_PAUSE};
use crate::searching::{self, Search};
use crate::volley::Answered;
use std::time::Duration;
use wayfs_types::{NodeId, Time};

/// Decides which server is the parent of this machine.
#[derive(Debug)]
pub struct Roam {
    known: Known,
    phase: Phase,
    pauses: Pauses,
    /// The user wants something else than what is under way: the next pause is left out.
    is_hurried: bool,
    out: Outbox,
}

#[derive(Debug)]
enum Phase {
    Offline,
    Searching(Search),
    Greeting(Greeting),
    /// What the home grants must be taken: nothing ends this but its answer.
    AskingIn(TaskId, Failure),
    /// Until when at most.
    LookingAround(TaskId, Time, Failure),
    Resting(Time, EndedBy),
    Attached(Box<Attached>),
}

/// What ends a pause before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndedBy {
    /// The user's word.
    User,
    /// That, and news of the servers.
    UserOrNews,
}

impl Roam {
    /// A machine that knows no server yet. It begins with the first input.
    pub fn new(config: Config, now: Time) -> Self {
        let phase = if config.is_online { Phase::Resting(now, EndedBy::UserOrNews) } else { Phase::Offline };
        let (known, pauses) = (Known::new(config), Pauses::new(now));
        Self { known, phase, pauses, is_hurried: false, out: Outbox::default() }
    }

    /// Takes in what happened. Time must not go backwards; what belongs to a dial or a task that is over does nothing.
    pub fn handle(&mut self, now: Time, input: Input) {
        match input {
            Input::ParentRtt(rtt) => self.known.parent_rtt = rtt,
            Input::HoldsLocks(holds) => self.known.holds_locks = holds,
            Input::Renamed { was, is } if self.known.pinned == Some(was) => self.known.pinned = Some(is),
            Input::Renamed { .. } => {}
            Input::Servers(servers) => {
                self.known.servers = servers;
                self.note_servers(now);
            }
            Input::GoOffline => self.go_offline(),
            Input::GoOnline => {
                self.known.is_online = true;
                self.hurry(now);
            }
            Input::Pinned(server) => {
                self.known.pinned = server;
                self.hurry(now);
            }
            Input::MeasureNow => {
                self.known.measure_now = true;
                self.hurry(now);
            }
            Input::LookAgain => self.hurry(now),
            Input::SessionEnded { dial } => self.session_ended(now, dial),
            input @ (Input::Dialled { .. }
            | Input::DialFailed { .. }
            | Input::Greeted { .. }
            | Input::Refused { .. }
            | Input::Looked { .. }
            | Input::NewsSwapped { .. }
            | Input::LookedAround { .. }
            | Input::AskedIn { .. }
            | Input::Tick) => self.go_on(now, &input),
        }
    }

    /// What the driver is to do next; `None`: nothing more.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop()
    }

    /// When to feed [`Input::Tick`]; `None`: only what was asked of the driver, or the user, brings anything.
    pub const fn poll_timeout(&self) -> Option<Time> {
        match &self.phase {
            Phase::Offline | Phase::Greeting(_) | Phase::AskingIn(..) => None,
            Phase::Searching(search) => search.poll_timeout(),
            Phase::LookingAround(_, until, _) | Phase::Resting(until, _) => Some(*until),
            Phase::Attached(attached) => attached.poll_timeout(),
        }
    }

    /// The parent, while there is a session.
    pub fn parent(&self) -> Option<NodeId> {
        self.attached().map(|attached| attached.parent.node)
    }

    /// While there is a session: when the other servers are measured again.
    pub fn measures_at(&self) -> Option<Time> {
        self.attached().map(Attached::measures_at)
    }

    fn attached(&self) -> Option<&Attached> {
        match &self.phase {
            Phase::Attached(attached) => Some(attached),
            Phase::Offline
            | Phase::Searching(_)
            | Phase::Greeting(_)
            | Phase::AskingIn(..)
            | Phase::LookingAround(..)
            | Phase::Resting(..) => None,
        }
    }

    /// What was asked of the driver is answered, or a time has come.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all else is for another phase")]
    fn go_on(&mut self, now: Time, input: &Input) {
        match std::mem::replace(&mut self.phase, Phase::Offline) {
            Phase::Offline => {}
            Phase::Searching(search) => {
                let progress = search.handle(now, input, &mut self.out);
                self.searched(now, progress);
            }
            Phase::Greeting(greeting) => {
                let progress = greeting.handle(input, &mut self.out);
                self.greeted(now, progress);
            }
            Phase::AskingIn(task, failure) => match input {
                Input::AskedIn { task: done, outcome } if *done == task => self.asked_in(now, *outcome, failure),
                _ => self.phase = Phase::AskingIn(task, failure),
            },
            Phase::LookingAround(task, until, failure) => match input {
                Input::LookedAround { task: done } if *done == task => self.looked_around(now, failure),
                _ if until <= now => {
                    self.out.push(Output::StopTask { task });
                    self.looked_around(now, failure);
                }
                _ => self.phase = Phase::LookingAround(task, until, failure),
            },
            Phase::Resting(until, _) if until <= now => self.search(now),
            Phase::Resting(until, ended_by) => self.phase = Phase::Resting(until, ended_by),
            Phase::Attached(mut attached) => {
                attached.handle(now, input, &mut self.known, &mut self.out);
                self.phase = Phase::Attached(attached);
            }
        }
    }

    /// The servers are others, or elsewhere.
    fn note_servers(&mut self, now: Time) {
        match std::mem::replace(&mut self.phase, Phase::Offline) {
            Phase::Searching(search) => {
                let progress = search.note_servers(now, &self.known, &mut self.out);
                self.searched(now, progress);
            }
            Phase::Resting(_, EndedBy::UserOrNews) => self.search(now),
            Phase::Attached(mut attached) if !self.known.has(attached.parent.node) => {
                attached.abandon(&mut self.out);
                self.out.push(Output::Leave { why: Leaving::Removed });
                self.pauses.reset();
                self.search(now);
            }
            Phase::Attached(mut attached) => {
                attached.note_servers(now, &mut self.known, &mut self.out);
                self.phase = Phase::Attached(attached);
            }
            phase @ (Phase::Offline
            | Phase::Greeting(_)
            | Phase::AskingIn(..)
            | Phase::LookingAround(..)
            | Phase::Resting(..)) => self.phase = phase,
        }
    }

    /// The user's word: what waits for a pause is done at once, and what is done for another wish is begun anew.
    fn hurry(&mut self, now: Time) {
        match std::mem::replace(&mut self.phase, Phase::Offline) {
            Phase::Offline if self.known.is_online => {
                self.out.push(Output::Online);
                self.search(now);
            }
            Phase::Offline => {}
            Phase::Resting(..) => self.search(now),
            Phase::Searching(search) => {
                self.is_hurried = true;
                let progress = search.note_servers(now, &self.known, &mut self.out);
                self.searched(now, progress);
            }
            Phase::Attached(mut attached) => {
                attached.look_again(now, &mut self.known, &mut self.out);
                self.phase = Phase::Attached(attached);
            }
            Phase::Greeting(greeting) if greeting.is_waiting() => {
                greeting.abandon(&mut self.out);
                self.search(now);
            }
            phase @ (Phase::Greeting(_) | Phase::AskingIn(..) | Phase::LookingAround(..)) => {
                self.is_hurried = true;
                self.phase = phase;
            }
        }
    }

    fn go_offline(&mut self) {
        self.known.is_online = false;
        match std::mem::replace(&mut self.phase, Phase::Offline) {
            Phase::Offline => return,
            phase @ Phase::AskingIn(..) => {
                self.phase = phase;
                return;
            }
            Phase::Resting(..) => {}
            Phase::Searching(search) => search.abandon(&mut self.out),
            Phase::Greeting(greeting) => greeting.abandon(&mut self.out),
            Phase::LookingAround(task, _, _) => self.out.push(Output::StopTask { task }),
            Phase::Attached(mut attached) => {
                attached.abandon(&mut self.out);
                self.out.push(Output::Leave { why: Leaving::WentOffline });
                self.pauses.reset();
            }
        }
        self.out.push(Output::Offline);
    }

    fn search(&mut self, now: Time) {
        let wanted = self.known.wanted();
        if wanted.is_empty() {
            return self.fail(now, Failure::NoServers);
        }
        self.phase = Phase::Searching(Search::begin(wanted, &mut self.out));
    }

    fn searched(&mut self, now: Time, progress: searching::Progress) {
        match progress {
            searching::Progress::Goes(search) => self.phase = Phase::Searching(search),
            searching::Progress::Over(answered, late) => match Greeting::begin(answered, late, &mut self.out) {
                Some(greeting) => self.phase = Phase::Greeting(greeting),
                None => self.fail(now, Failure::Unreachable),
            },
        }
    }

    fn greeted(&mut self, now: Time, progress: greeting::Progress) {
        match progress {
            greeting::Progress::Goes(greeting) => self.phase = Phase::Greeting(greeting),
            greeting::Progress::Welcome { server, rtt, count } => self.attach(now, server, rtt, count),
            greeting::Progress::Refused { failure, may_be_unknown: true } => {
                let task = self.out.begin(|task| Output::AskIn { task });
                self.phase = Phase::AskingIn(task, failure);
            }
            greeting::Progress::Refused { failure, may_be_unknown: false } => self.rest(now, failure),
        }
    }

    fn attach(&mut self, now: Time, server: Answered, rtt: Duration, count: usize) {
        let is_pinned = self.known.pinned == Some(server.node());
        let why = if is_pinned { Why::Pinned } else { Why::Near { answered: count } };
        self.out.push(Output::Adopt { dial: server.dial, why });
        self.pauses.reset_around();
        self.is_hurried = false;
        self.known.parent_rtt = rtt;
        let attached = Attached::begin(now, (server.server, server.dial), &self.known);
        self.phase = Phase::Attached(Box::new(attached));
    }

    fn session_ended(&mut self, now: Time, dial: DialId) {
        match std::mem::replace(&mut self.phase, Phase::Offline) {
            Phase::Attached(mut attached) if attached.dial == dial => {
                attached.abandon(&mut self.out);
                if now.since(attached.since) < DIED_YOUNG {
                    // Whatever ended it will end the next one as well, and many can make many of them.
                    self.phase = Phase::Resting(now + self.pauses.take(), EndedBy::User);
                } else {
                    self.pauses.reset();
                    self.search(now);
                }
            }
            phase @ (Phase::Offline
            | Phase::Searching(_)
            | Phase::Greeting(_)
            | Phase::AskingIn(..)
            | Phase::LookingAround(..)
            | Phase::Resting(..)
            | Phase::Attached(_)) => self.phase = phase,
        }
    }

    fn asked_in(&mut self, now: Time, outcome: AskedIn, failure: Failure) {
        match outcome {
            AskedIn::NoTicket => self.rest(now, failure),
            AskedIn::Failed => self.fail(now, Failure::Ticket { is_final: false }),
            AskedIn::TicketRefused => self.fail(now, Failure::Ticket { is_final: true }),
            AskedIn::TakenIn => {
                self.is_hurried = true;
                self.fail(now, Failure::TakenIn);
            }
        }
    }

    /// A search was in vain. Servers that may not be the parent may know where it is.
    fn fail(&mut self, now: Time, failure: Failure) {
        let may = self.known.is_online && self.known.looks_around() && self.pauses.may_look_around(now);
        if !may {
            return self.rest(now, failure);
        }
        let task = self.out.begin(|task| Output::LookAround { task });
        self.phase = Phase::LookingAround(task, now + AROUND_PATIENCE, failure);
    }

    fn looked_around(&mut self, now: Time, failure: Failure) {
        self.pauses.looked_around(now);
        self.rest(now, failure);
    }

    fn rest(&mut self, now: Time, failure: Failure) {
        self.out.push(Output::Failed(failure));
        if !self.known.is_online {
            self.phase = Phase::Offline;
            return self.out.push(Output::Offline);
        }
        let pause = self.pauses.take();
        let wait = if failure.is_final() { REFUSED_PAUSE } else { pause };
        self.phase = Phase::Resting(now + wait, EndedBy::UserOrNews);
        if std::mem::take(&mut self.is_hurried) {
            self.search(now);
        }
    }
}
