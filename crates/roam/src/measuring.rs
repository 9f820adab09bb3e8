//! Measures the other servers beside the parent, and says which is worth a move.
//!
//! ```text
//!  Swapping ──▶ Comparing ──▶ Hearing ──▶ Pausing ──▶ Rounds ──▶ the best, worth a move
//!     │                          ▲           ▲           │
//!     └─ the parent alone ─▶ Asking          └── again ──┘
//! ```
//!
//! News of the servers are swapped with the parent first, and with each of the others that is not the best: a parent that was
//! removed would not tell. A server that the user chose is taken without rounds.

use crate::api::{DialId, Input, Output, Server, TaskId};
use crate::choice::{Draw, ROUND_PAUSE, ROUNDS, Seen, in_order_of_choice};
use crate::known::View;
use crate::outbox::Outbox;
use crate::round::{self, Round, split};
use crate::volley::{Answered, Grace, Volley, close_all, rank};
use std::collections::VecDeque;
use wayfs_types::Time;

/// A server that is worth a move, and why.
#[derive(Debug)]
pub(crate) struct Best {
    pub(crate) server: Answered,
    pub(crate) draw: Draw,
}

/// A measurement that is under way.
#[derive(Debug)]
pub(crate) struct Measuring {
    /// The user wants another server than the parent.
    by_hand: bool,
    step: Step,
}

#[derive(Debug)]
enum Step {
    Swapping(TaskId),
    Asking(Volley),
    Comparing(Volley),
    /// The first of the queue is being asked for news.
    Hearing(VecDeque<Answered>, Option<Best>),
    /// Until when, how many rounds are left, and for whom.
    Pausing(Time, usize, Best),
    Rounds(Round, usize, Best),
    Over(Option<Best>),
}

/// How far a measurement is.
#[derive(Debug)]
pub(crate) enum Progress {
    Goes(Measuring),
    Over(Option<Best>),
}

impl Measuring {
    pub(crate) fn begin(by_hand: bool, out: &mut Outbox) -> Self {
        Self { by_hand, step: Step::Swapping(out.begin(|task| Output::SwapNews { task })) }
    }

    pub(crate) fn handle(self, now: Time, input: &Input, view: View<'_>, out: &mut Outbox) -> Progress {
        let by_hand = self.by_hand;
        let mut step = match (self.step, input) {
            (Step::Swapping(task), Input::NewsSwapped { task: done }) if task == *done => dial_others(view, out),
            (Step::Asking(mut volley), _) => {
                volley.handle(now, input);
                Step::Asking(volley)
            }
            (Step::Comparing(mut volley), _) => {
                volley.handle(now, input);
                Step::Comparing(volley)
            }
            (Step::Hearing(queue, best), Input::Looked { dial }) => hear_next(queue, Some(*dial), best, out),
            (Step::Rounds(mut round, left, best), _) => {
                round.handle(now, input);
                Step::Rounds(round, left, best)
            }
            (step, _) => step,
        };
        loop {
            step = match step {
                Step::Asking(volley) if volley.is_over(now) => hear(volley.finish(out).into(), None, out),
                Step::Comparing(volley) if volley.is_over(now) => compare(now, volley, by_hand, view, out),
                Step::Hearing(queue, best) if queue.is_empty() => heard(now, best),
                Step::Pausing(until, left, best) if until <= now => {
                    Step::Rounds(Round::begin(best.server.server.clone(), &view, out), left, best)
                }
                Step::Rounds(round, left, best) if round.is_look_over(now) => {
                    after_look(now, round, (left, best), view, out)
                }
                Step::Over(best) => return Progress::Over(best.and_then(|best| still_a_server(best, view, out))),
                step @ (Step::Swapping(_)
                | Step::Asking(_)
                | Step::Comparing(_)
                | Step::Hearing(..)
                | Step::Pausing(..)
                | Step::Rounds(..)) => return Progress::Goes(Self { by_hand, step }),
            };
        }
    }

    pub(crate) const fn poll_timeout(&self) -> Option<Time> {
        match &self.step {
            Step::Pausing(until, _, _) => Some(*until),
            Step::Swapping(_)
            | Step::Asking(_)
            | Step::Comparing(_)
            | Step::Hearing(..)
            | Step::Rounds(..)
            | Step::Over(_) => None,
        }
    }

    pub(crate) fn abandon(self, out: &mut Outbox) {
        match self.step {
            Step::Swapping(task) => out.push(Output::StopTask { task }),
            Step::Asking(volley) | Step::Comparing(volley) => volley.abandon(out),
            Step::Hearing(queue, best) => close_all(queue.into_iter().chain(best.map(|best| best.server)), out),
            Step::Pausing(_, _, best) => out.close(best.server.dial),
            Step::Rounds(round, _, best) => {
                round.abandon(out);
                out.close(best.server.dial);
            }
            Step::Over(best) => close_all(best.map(|best| best.server), out),
        }
    }
}

fn dial_others(view: View<'_>, out: &mut Outbox) -> Step {
    let wanted = view.known.wanted();
    let is_other = |server: &Server| server.node != view.parent.node;
    if wanted.iter().any(is_other) {
        return Step::Comparing(Volley::begin(wanted, Grace::All, out));
    }
    // The user chose it. Only the others would tell that the home removed it.
    let others: Vec<Server> = view.known.candidates().filter(|server| is_other(server)).cloned().collect();
    Step::Asking(Volley::begin(others, Grace::All, out))
}

/// Finds the best of those that answered; the rest are asked what they know of the servers.
fn compare(now: Time, volley: Volley, by_hand: bool, view: View<'_>, out: &mut Outbox) -> Step {
    let (rtt, others) = split(volley.finish(out), &view, out);
    let parent = Seen { rtt, rank: rank(view.parent) };
    let nearest = others.iter().map(Answered::rtt).min().unwrap_or(rtt);
    let (mut best, mut rest) = (None, VecDeque::new());
    for server in in_order_of_choice(others, Answered::rtt, Answered::rank) {
        let drawn = || view.known.drawn_to(now, &parent, (server.node(), &server.seen()), nearest);
        let draw = if by_hand { Some(Draw::ByHand) } else { drawn() };
        match draw.filter(|_| best.is_none()) {
            Some(draw) => best = Some(Best { server, draw }),
            None => rest.push_back(server),
        }
    }
    hear(rest, best, out)
}

fn hear(queue: VecDeque<Answered>, best: Option<Best>, out: &mut Outbox) -> Step {
    if let Some(first) = queue.front() {
        out.push(Output::Look { dial: first.dial });
    }
    Step::Hearing(queue, best)
}

fn hear_next(mut queue: VecDeque<Answered>, done: Option<DialId>, best: Option<Best>, out: &mut Outbox) -> Step {
    if queue.front().map(|first| first.dial) != done {
        return Step::Hearing(queue, best);
    }
    queue.pop_front();
    hear(queue, best, out)
}

/// All have been heard: what noise may have made is measured again.
fn heard(now: Time, best: Option<Best>) -> Step {
    match best {
        Some(best) if best.draw != Draw::ByHand => Step::Pausing(now + ROUND_PAUSE, ROUNDS - 1, best),
        best => Step::Over(best),
    }
}

/// Goes on with a round, or with the next, until the best was worth a move as often as it must be.
fn after_look(now: Time, round: Round, (left, best): (usize, Best), view: View<'_>, out: &mut Outbox) -> Step {
    let (parent, other) = match round.after_look(&view, out) {
        round::Progress::Goes(round) => return Step::Rounds(round, left, best),
        round::Progress::Over(parent, other) => (parent, other),
    };
    out.close(best.server.dial);
    let Some(other) = other else { return Step::Over(None) };
    let draw = view.known.drawn_to(now, &parent, (other.node(), &other.seen()), other.rtt);
    if draw != Some(best.draw) {
        out.close(other.dial);
        return Step::Over(None);
    }
    let best = Best { server: other, ..best };
    if left > 1 { Step::Pausing(now + ROUND_PAUSE, left - 1, best) } else { Step::Over(Some(best)) }
}

/// What was heard may be that the best is a server no longer.
fn still_a_server(best: Best, view: View<'_>, out: &mut Outbox) -> Option<Best> {
    if view.known.has(best.server.node()) {
        return Some(best);
    }
    out.close(best.server.dial);
    None
}
