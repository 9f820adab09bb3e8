//! Whom to ask for a chunk, one after the other, and when to give up.
//!
//! First those below that have the version on record, the newest first; then the parent; then whoever else below may have a
//! copy ([`sources`]). Nobody is asked twice in a round, nor is the one on whose behalf it is looked for. Between two rounds,
//! and while somebody is away who is to have it, there is a pause.
//!
//! ```text
//!             somebody is left                       Had ─▶ over
//!   looking ───────────────────▶ asking ──NotHad──▶ looking
//!      │  ▲                        └── no time is left, or enough were asked ─▶ over
//!      │  │ LOOK_PERIOD
//!      │  └── pausing ◀── somebody is away, or all were asked (ROUNDS_MAX times)
//!      └── nobody can have it ─▶ over
//! ```

mod sources;

use crate::patience::Patience;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use wayfs_types::{OriginId, Time};

use sources::Next;
pub use sources::{Child, ChildKind, Parent, Sources};

/// Pause between looks for somebody who is away for the moment.
pub const LOOK_PERIOD: Duration = Duration::from_millis(100);
/// Most machines asked for one chunk, again or for the first time.
const ASKED_MAX: usize = 12;
/// How often all are asked.
const ROUNDS_MAX: usize = 3;
/// A client waits so long for a parent to come back before it says that none is there.
const PARENT_WAIT_MAX: Duration = Duration::from_millis(1500);

/// How far a look for a chunk goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// So many are asked at most.
    asked_max: usize,
    /// Somebody who has it on record, or the parent, is waited for so long while it is away. `None`: nobody is.
    absence_max: Option<Duration>,
}

impl Scope {
    /// For a reader at a client.
    pub const AT_CLIENT: Self = Self { asked_max: ASKED_MAX, absence_max: Some(PARENT_WAIT_MAX) };
    /// For a reader at a server, or at a client of it.
    pub const AT_SERVER: Self = Self { asked_max: ASKED_MAX, absence_max: Some(Duration::MAX) };

    /// Everybody who is there of so many below, however many those are; nobody who is away is waited for.
    pub fn of_all_below(children: usize) -> Self {
        Self { asked_max: (children * ROUNDS_MAX).max(ASKED_MAX), absence_max: None }
    }
}

/// Who looks for what of whom.
#[derive(Debug, Clone, Copy)]
pub struct Look<P> {
    /// How far it goes.
    pub scope: Scope,
    /// Who wrote the version: who may have it though no record says so.
    pub writer: OriginId,
    /// On whose behalf: it is not asked itself.
    pub asker: Option<P>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input<P> {
    /// Who is there: the answer to [`Output::Look`].
    Sources(Sources<P>),
    /// Whoever was asked gave the chunk, and it is here.
    Had,
    /// Whoever was asked did not.
    NotHad(Failure),
    /// Something came, of this or of what shares its line.
    Moved,
    /// The time that [`Search::poll_timeout`] named has come.
    Tick,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output<P> {
    /// See who is there: [`Input::Sources`].
    Look,
    /// Ask this one: [`Input::Had`] or [`Input::NotHad`].
    Ask(P),
    /// It is over. A question under way is to be called off.
    Over(Result<(), Failure>),
}

/// Why a chunk was not had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// It is not there, nor at anybody whom that one can ask. As an end: all who are there answered so.
    NotHeld,
    /// Whoever has it cannot be reached.
    Unreachable,
    /// Nothing came for too long.
    TimedOut,
    /// It failed, or answered nonsense. Others may do better.
    Refused,
    /// This disk fails, or has no room: whom else to ask does not matter.
    Local,
}

/// A look for one chunk.
#[derive(Debug)]
pub struct Search<P> {
    look: Look<P>,
    patience: Patience,
    stage: Stage<P>,
    /// Who was asked in this round.
    refused: BTreeSet<P>,
    refusals: usize,
    rounds: usize,
    /// Since when nobody is there who could be asked. Before, a line was silent: that is another wait.
    absent_since: Option<Time>,
    /// What is said in the end: who did not answer, or failed, may have it.
    last: Failure,
    outputs: VecDeque<Output<P>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage<P> {
    Looking,
    Asking(P),
    Pausing { until: Time },
    Over,
}

impl<P: Copy + Ord> Search<P> {
    /// Begins to look, as long as something comes.
    pub fn new(look: Look<P>, patience: Patience) -> Self {
        Self {
            look,
            patience,
            stage: Stage::Looking,
            refused: BTreeSet::new(),
            refusals: 0,
            rounds: 0,
            absent_since: None,
            last: Failure::NotHeld,
            outputs: VecDeque::from([Output::Look]),
        }
    }

    /// Takes what happened. What is over takes no notice.
    pub fn handle(&mut self, now: Time, input: Input<P>) {
        match (self.stage, input) {
            (Stage::Over, _) => {}
            (_, Input::Moved) => self.patience.moved(now),
            (Stage::Looking, Input::Sources(sources)) => self.ask_next(now, &sources),
            (Stage::Asking(_), Input::Had) => self.end(Ok(())),
            (Stage::Asking(_), Input::NotHad(Failure::Local)) => self.end(Err(Failure::Local)),
            (Stage::Asking(peer), Input::NotHad(failure)) => self.refused_by(now, peer, failure),
            (Stage::Asking(peer), Input::Tick) if self.patience.left(now).is_zero() => {
                self.refused_by(now, peer, Failure::TimedOut);
            }
            (Stage::Pausing { until }, Input::Tick) if until <= now => self.look_again(),
            (Stage::Looking | Stage::Asking(_) | Stage::Pausing { .. }, Input::Tick) => {}
            (Stage::Looking | Stage::Pausing { .. }, Input::Had | Input::NotHad(_))
            | (Stage::Asking(_) | Stage::Pausing { .. }, Input::Sources(_)) => {
                unreachable!("an answer to what was not asked")
            }
        }
    }

    /// What is to be done next; to be called until there is nothing.
    pub fn poll_output(&mut self) -> Option<Output<P>> {
        self.outputs.pop_front()
    }

    /// When [`Input::Tick`] is to come if nothing else happens before.
    pub fn poll_timeout(&self) -> Option<Time> {
        match self.stage {
            Stage::Asking(_) => Some(self.patience.end()),
            Stage::Pausing { until } => Some(until),
            Stage::Looking | Stage::Over => None,
        }
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    fn ask_next(&mut self, now: Time, sources: &Sources<P>) {
        let Look { scope, writer, asker } = self.look;
        match sources.next(writer, |peer| Some(peer) != asker && !self.refused.contains(&peer)) {
            Next::Ask(peer) => {
                self.absent_since = None;
                self.stage = Stage::Asking(peer);
                self.outputs.push_back(Output::Ask(peer));
            }
            Next::Away if scope.absence_max.is_some() => {
                self.last = Failure::Unreachable;
                let since = *self.absent_since.get_or_insert(now);
                if scope.absence_max.is_some_and(|most| now.since(since) >= most) {
                    return self.end(Err(self.last));
                }
                self.pause(now);
            }
            Next::Away | Next::Nobody if self.refused.is_empty() => self.end(Err(Failure::NotHeld)),
            Next::Away | Next::Nobody => self.begin_round(now),
        }
    }

    /// All were asked. What failed for a moment may do better.
    fn begin_round(&mut self, now: Time) {
        self.rounds += 1;
        if self.rounds >= ROUNDS_MAX {
            return self.end(Err(self.last));
        }
        self.refused.clear();
        self.last = Failure::NotHeld;
        self.pause(now);
    }

    fn pause(&mut self, now: Time) {
        if self.patience.left(now) <= LOOK_PERIOD {
            return self.end(Err(self.last));
        }
        self.stage = Stage::Pausing { until: now + LOOK_PERIOD };
    }

    fn refused_by(&mut self, now: Time, peer: P, failure: Failure) {
        if failure != Failure::NotHeld {
            self.last = failure;
        }
        self.refusals += 1;
        self.refused.insert(peer);
        if self.refusals >= self.look.scope.asked_max {
            return self.end(Err(self.last));
        }
        if self.patience.left(now) > LOOK_PERIOD {
            return self.look_again();
        }
        // That one has it not says nothing of those who were not asked yet.
        self.end(Err(if self.last == Failure::NotHeld { Failure::TimedOut } else { self.last }));
    }

    fn look_again(&mut self) {
        self.stage = Stage::Looking;
        self.outputs.push_back(Output::Look);
    }

    fn end(&mut self, result: Result<(), Failure>) {
        self.stage = Stage::Over;
        self.outputs.push_back(Output::Over(result));
    }
}

#[cfg(test)]
mod tests;
