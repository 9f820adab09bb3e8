//! Calls in flight: numbers, sendings, answers, duplicates. No sockets, no clocks.
//!
//! ```text
//!  submit ──> to send ──poll_transmit──> in flight ──handle_message──> answered (poll_answer)
//!                ^                           │
//!                └── timeout, overtaken, ────┘──── soft and patience at its end ──> given up
//!                    link up, new connection
//! ```
//! Answers find their call by its number alone. One to a call that was answered or given up before is late or a duplicate: it is
//! counted and changes nothing.

use crate::calls::Call;
use crate::retry::Policy;
use crate::rpc::{self, Credentials, Refusal, Xid};
use crate::xdr::DecodeError;
use crate::{Kind, calls};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use wayfs_types::Time;

/// How long a call is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitPolicy {
    /// For ever: programs wait until the server is back.
    Hard,
    /// For so many sendings (BSD: 10); then the call fails.
    Soft(u32),
}

/// What lower layers tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notice {
    /// Nothing passes until further notice: nothing is sent again meanwhile.
    LinkDown,
    /// It passes again: what is in flight is sent again at once, and timers begin anew.
    LinkUp,
    /// Another cell: the same.
    HandOff,
    /// A new connection of a transport that loses nothing: everything in flight was lost with the old one.
    NewConnection,
}

/// What happened so far.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    /// Calls made, probes not counted.
    pub calls: u64,
    /// Messages sent again.
    pub resent: u64,
    /// Of these, because later calls were answered.
    pub overtaken: u64,
    /// Small calls that asked whether the path is back.
    pub probes: u64,
    /// Answers to a call that was answered before or given up.
    pub strays: u64,
    /// Messages that were none.
    pub malformed: u64,
    /// Calls given up.
    pub given_up: u64,
}

/// What became of a call.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which call.
    pub xid: Xid,
    /// Of which kind.
    pub kind: Kind,
    /// How often it was sent.
    pub sendings: u32,
    /// From its only sending to the answer; `None` if it was sent more than once.
    pub round_trip: Option<Duration>,
    /// Its results; `None` if it was given up.
    pub results: Option<Result<Vec<u8>, Refusal>>,
}

#[derive(Debug)]
struct InFlight {
    kind: Kind,
    message: Vec<u8>,
    sendings: u32,
    /// Sendings since timers last began anew.
    tries: u32,
    /// Place of the last sending in the order of all, and when it was.
    order: u64,
    sent_at: Time,
    /// Answers to calls that were sent later.
    overtakers: u32,
    /// When these were enough for a loss; kept when it is sent again.
    overtaken_at: Option<Time>,
    /// When it is sent again; `None` while it waits to be sent.
    deadline: Option<Time>,
    purpose: Purpose,
}

/// What a call is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Somebody asked for it.
    Work,
    /// It finds out whether the server can be reached.
    Probe,
}

impl InFlight {
    fn is_probe(&self) -> bool {
        self.purpose == Purpose::Probe
    }
}

/// So many later calls answered mean that this one was lost. Three, as everywhere: servers answer in a slightly other order.
const OVERTAKERS: u32 = 3;
/// How long the answer to an earlier call may come after that to a probe. Grows when it was too short, and shrinks by this share with
/// each loss: one slow moment of a server must not make every later burst as long.
const SLACK_FIRST: Duration = Duration::from_millis(3);
const SLACK_FORGOTTEN: u32 = 8;
const SLACK_MAX: Duration = Duration::from_millis(500);
/// A link is believed to be down for so long after it was said: nobody may wait for ever because a notice was lost.
const DOWN_MAX: Duration = Duration::from_secs(60);
/// Most numbers of past calls whose late answers are known for what they are.
const PAST_MAX: usize = 256;

/// A call that was sent more than once, and is answered.
#[derive(Debug, Clone, Copy)]
struct Past {
    xid: Xid,
    /// How long after it was overtaken its first answer came.
    late: Option<Duration>,
}

/// Calls in flight.
#[derive(Debug)]
pub struct Exchange {
    policy: Box<dyn Policy>,
    wait_policy: WaitPolicy,
    credentials: Credentials,
    next: u32,
    order: u64,
    in_flight: BTreeMap<Xid, InFlight>,
    to_send: VecDeque<Xid>,
    answers: VecDeque<Answer>,
    /// Answered calls that were sent more than once: a second answer says that sending again was not needed.
    past: VecDeque<Past>,
    /// Since when the link is said to be down.
    down_since: Option<Time>,
    last_answer: Option<Time>,
    /// Since when the path is silent: the last answer, or the first sending after nothing was in flight.
    quiet_since: Time,
    probes: u32,
    /// When the first of them was sent, and after how long a silence.
    probed_at: Option<Time>,
    quiet_at_first: Duration,
    slack: Duration,
    statistics: Statistics,
}

impl Exchange {
    /// Without calls. `first` is the number of the first: two clients of one address and port must not use the same, since servers
    /// remember answers by it.
    pub fn new(policy: Box<dyn Policy>, wait_policy: WaitPolicy, credentials: Credentials, first: u32) -> Self {
        Self {
            policy,
            wait_policy,
            credentials,
            next: first,
            order: 0,
            in_flight: BTreeMap::new(),
            to_send: VecDeque::new(),
            answers: VecDeque::new(),
            past: VecDeque::new(),
            down_since: None,
            last_answer: None,
            quiet_since: Time::ZERO,
            probes: 0,
            probed_at: None,
            quiet_at_first: Duration::ZERO,
            slack: SLACK_FIRST,
            statistics: Statistics::default(),
        }
    }

    /// Makes a call. The caller bounds how many there are.
    pub fn submit(&mut self, call: &Call) -> Xid {
        self.statistics.calls += 1;
        let credentials = self.credentials.clone();
        self.enqueue(call, &credentials, Purpose::Work)
    }

    /// Makes a call for somebody else than this process.
    pub(crate) fn submit_as(&mut self, call: &Call, credentials: &Credentials) -> Xid {
        self.statistics.calls += 1;
        self.enqueue(call, credentials, Purpose::Work)
    }

    fn enqueue(&mut self, call: &Call, credentials: &Credentials, purpose: Purpose) -> Xid {
        let xid = Xid(self.next);
        self.next = self.next.wrapping_add(1);
        let message = rpc::encode_call(xid, call.kind.procedure(), credentials, &call.arguments);
        let (sendings, tries, order, overtakers, overtaken_at) = (0, 0, 0, 0, None);
        let call = InFlight {
            kind: call.kind,
            message,
            sendings,
            tries,
            order,
            sent_at: Time::ZERO,
            overtakers,
            overtaken_at,
            deadline: None,
            purpose,
        };
        self.in_flight.insert(xid, call);
        self.to_send.push_back(xid);
        xid
    }

    /// Nobody waits for it any more; a late answer is a stray.
    pub fn cancel(&mut self, xid: Xid) {
        self.in_flight.remove(&xid);
    }

    /// The next message to send; call until `None`.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
        loop {
            let xid = self.to_send.pop_front()?;
            let others = self.in_flight.values().any(|call| call.sendings > 0);
            let Some(call) = self.in_flight.get_mut(&xid).filter(|call| call.deadline.is_none()) else { continue };
            if !others {
                self.quiet_since = now;
            }
            self.statistics.resent += u64::from(call.sendings > 0);
            call.sendings += 1;
            call.tries += 1;
            self.order += 1;
            (call.order, call.sent_at, call.overtakers) = (self.order, now, 0);
            call.deadline = Some(now + self.policy.timeout(call.kind, call.tries));
            return Some(call.message.clone());
        }
    }

    /// Takes in what came. Whatever it is, it does no harm.
    ///
    /// # Errors
    /// [`DecodeError`] if it is no answer; it was counted, and can be ignored.
    pub fn handle_message(&mut self, now: Time, bytes: &[u8]) -> Result<(), DecodeError> {
        let (xid, results) = rpc::decode_reply(bytes).inspect_err(|_| self.statistics.malformed += 1)?;
        let Some(call) = self.in_flight.remove(&xid).filter(|call| call.sendings > 0) else {
            self.stray(xid);
            return Ok(());
        };
        if let Some(last) =
            self.last_answer.filter(|_| !call.is_probe() && self.in_flight.values().any(|call| call.sendings > 0))
        {
            // A gap that a silence was part of says nothing about the path when it is good. But whatever was sent before the first probe and came
            // through shows that there was none: answers are further apart than they were, as with longer blocks.
            let gap = now.since(last);
            let needless = call.sendings == 1 && self.probed_at.is_some_and(|at| call.sent_at < at);
            if self.probes == 0 && self.quiet_since <= last {
                self.policy.on_gap(gap);
            } else if needless {
                self.policy.on_gap(gap.min(self.quiet_at_first * 2));
            }
        }
        let round_trip = (call.sendings == 1).then(|| now.since(call.sent_at));
        if let Some(round_trip) = round_trip {
            self.policy.on_answer(call.kind, round_trip);
        }
        (self.last_answer, self.quiet_since, self.probes, self.probed_at) = (Some(now), now, 0, None);
        self.note_overtaken(now, &call);
        if call.is_probe() {
            return Ok(());
        }
        if call.sendings > 1 {
            self.past.push_back(Past { xid, late: call.overtaken_at.map(|at| now.since(at)) });
            if self.past.len() > PAST_MAX {
                self.past.pop_front();
            }
        }
        let results = Some(results.map(<[u8]>::to_vec));
        self.answers.push_back(Answer { xid, kind: call.kind, sendings: call.sendings, round_trip, results });
        Ok(())
    }

    fn stray(&mut self, xid: Xid) {
        self.statistics.strays += 1;
        let place = self.past.iter().position(|past| past.xid == xid);
        if let Some(late) = place.and_then(|place| self.past.remove(place)).and_then(|past| past.late) {
            // The first answer was to the first copy: so much patience, and a quarter more, spares the second.
            self.slack = self.slack.max((self.slack * 2).min(late * 5 / 4)).min(SLACK_MAX);
        }
    }

    /// An answered call was sent after others that are still in flight: they are late, or lost.
    fn note_overtaken(&mut self, now: Time, answered: &InFlight) {
        if self.policy.probing().is_none() {
            return;
        }
        self.in_flight.retain(|_, call| !(call.is_probe() && call.sendings > 0 && call.order < answered.order));
        let slack = self.slack;
        for call in self.in_flight.values_mut() {
            if call.deadline.is_none() || call.order > answered.order {
                continue;
            }
            call.overtakers += if answered.is_probe() || answered.sendings > 1 { OVERTAKERS } else { 1 };
            if call.overtakers >= OVERTAKERS {
                call.overtaken_at.get_or_insert(now);
                let soon = now + slack;
                call.deadline = call.deadline.map(|deadline| deadline.min(soon));
            }
        }
    }

    /// Does what is due: sends again, probes, gives up.
    pub fn handle_timeout(&mut self, now: Time) {
        if let Some(since) = self.down_since {
            if now < since + DOWN_MAX {
                return;
            }
            // Whoever said so may be gone.
            self.handle_notice(now, Notice::LinkUp);
        }
        let due: Vec<Xid> = self
            .in_flight
            .iter()
            .filter(|(_, call)| call.deadline.is_some_and(|deadline| deadline <= now))
            .map(|(xid, _)| *xid)
            .collect();
        let overtaken = self.statistics.overtaken;
        for xid in due {
            self.time_out(xid);
        }
        if self.statistics.overtaken > overtaken {
            self.slack = (self.slack - self.slack / SLACK_FORGOTTEN).max(SLACK_FIRST);
        }
        if self.probe_at().is_some_and(|at| at <= now) {
            if self.probes == 0 {
                (self.probed_at, self.quiet_at_first) = (Some(now), now.since(self.quiet_since));
            }
            self.probes += 1;
            self.statistics.probes += 1;
            self.quiet_since = now;
            let credentials = self.credentials.clone();
            self.enqueue(&calls::null(), &credentials, Purpose::Probe);
        }
    }

    fn time_out(&mut self, xid: Xid) {
        let Some(call) = self.in_flight.get_mut(&xid) else { return };
        let out_of_patience = matches!(self.wait_policy, WaitPolicy::Soft(tries) if call.sendings >= tries);
        if call.is_probe() || (out_of_patience && call.overtakers < OVERTAKERS) {
            let call = self.in_flight.remove(&xid).expect("it is there: its reference was held a line above");
            if !call.is_probe() {
                self.statistics.given_up += 1;
                let (kind, sendings) = (call.kind, call.sendings);
                self.answers.push_back(Answer { xid, kind, sendings, round_trip: None, results: None });
            }
            return;
        }
        if call.overtakers >= OVERTAKERS {
            // The server answers: it was the path.
            self.statistics.overtaken += 1;
            call.tries = 0;
        }
        call.deadline = None;
        self.to_send.push_back(xid);
    }

    /// When the path was silent for too long.
    fn probe_at(&self) -> Option<Time> {
        let probing = self.policy.probing()?;
        let sent = || self.in_flight.values().filter(|call| call.deadline.is_some() && !call.is_probe());
        // The one that takes longest decides: transfers before everything else.
        let slowest = sent().map(|call| call.kind).max_by_key(|kind| match kind {
            Kind::Commit => 3,
            Kind::Write => 2,
            Kind::Read => 1,
            _ => 0,
        })?;
        Some(self.quiet_since + probing.silence(self.probes, slowest, sent().count()))
    }

    /// When [`Self::handle_timeout`] has something to do next.
    pub fn poll_timeout(&self) -> Option<Time> {
        if let Some(since) = self.down_since {
            return (!self.in_flight.is_empty()).then_some(since + DOWN_MAX);
        }
        self.in_flight.values().filter_map(|call| call.deadline).chain(self.probe_at()).min()
    }

    /// Takes in what lower layers tell.
    pub fn handle_notice(&mut self, now: Time, notice: Notice) {
        if notice == Notice::LinkDown {
            self.down_since = Some(now);
            return;
        }
        self.down_since = None;
        (self.probes, self.quiet_since) = (0, now);
        for (xid, call) in &mut self.in_flight {
            call.tries = 0;
            if call.deadline.take().is_some() {
                self.to_send.push_back(*xid);
            }
        }
    }

    /// The next answer; call until `None`.
    pub fn poll_answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Calls that are not answered, probes not counted.
    pub fn len(&self) -> usize {
        self.in_flight.values().filter(|call| !call.is_probe()).count()
    }

    /// Whether all are answered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What happened so far.
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }
}

#[cfg(test)]
mod tests;
