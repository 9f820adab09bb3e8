//! Who waits for which chunk, and how many look for it.
//!
//! Any number may want the same chunk: one look gets it, all wait for that, each as long as it bears: so long a silence, for as
//! long as bytes come a wait goes on. Who asked us is not asked back, nor kept waiting for its own answer: when the look of others asks
//! it, it gets a look of its own. So no machine waits for itself by way of others.
//!
//! ```text
//!              nobody looks for it                    ┌── it comes, and that is enough ──▶ Comes
//!   Want ──┬────────────────────────▶ waits for ──────┼── the look ended ────────────────▶ Over
//!          │                           a look         ├── silence for too long ──────────▶ Over(TimedOut)
//!          └── somebody does ──────▶ (joined)         └── nobody waits any more (GaveUp)
//!                                        │  ▲
//!                                        │  └── the other's patience was over, not this one's: once more, joined or begun
//!                                        └───── the look asks the asker: a look of its own
//! ```

use crate::patience::Patience;
use crate::search::{Failure, LOOK_PERIOD};
use crate::want::Want;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use wayfs_types::{Digest, Time};

/// A wait for a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitId(u64);

/// A look for a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LookId(u64);

/// What a wait for a chunk is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// It is here.
    Here,
    /// The same, or it comes in a way in which it can go on.
    Comes,
}

/// What happened.
#[derive(Debug, Clone, Copy)]
pub enum Input<P> {
    /// Somebody wants a chunk that is not here.
    Want {
        /// The name that this wait has from now on.
        wait: WaitId,
        /// The chunk.
        want: Want,
        /// The session on whose behalf; it is not asked itself.
        asker: Option<P>,
        /// When it is content.
        until: Until,
        /// How long it goes on.
        patience: Patience,
    },
    /// Somebody waits for a chunk if it is looked for, whatever becomes of that.
    Join {
        /// The name that this wait has from now on.
        wait: WaitId,
        /// The chunk.
        digest: Digest,
        /// How long it goes on.
        patience: Patience,
    },
    /// Nobody waits any more.
    GaveUp(WaitId),
    /// A look asks this one from now on.
    Asks(LookId, P),
    /// Something came of a look.
    Moved(LookId),
    /// The chunk of a look begins to come, in a way in which it can go on.
    Comes(LookId),
    /// A look is over: the chunk is here, or not to be had.
    Ended(LookId, Result<(), Failure>),
    /// The time that [`Fetches::poll_timeout`] named has come.
    Tick,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output<P> {
    /// See whether the chunk is here, and look for it: [`Input::Ended`]. It goes on when nobody waits any more.
    Look {
        /// Its name.
        look: LookId,
        /// The chunk.
        want: Want,
        /// Who is not to be asked.
        asker: Option<P>,
        /// How much silence it bears.
        patience: Duration,
    },
    /// A look is of no use any more. What is still said of it is not heeded.
    CallOff(LookId),
    /// Something came for a wait.
    Moved(WaitId),
    /// The chunk of a wait begins to come, by this look; the wait is over.
    Comes(WaitId, LookId),
    /// A wait is over.
    Over(WaitId, Result<(), Failure>),
}

/// Chunks that are looked for, and who waits for them.
#[derive(Debug)]
pub struct Fetches<P> {
    looks: BTreeMap<LookId, UnderWay<P>>,
    /// The looks that others may join.
    shared: BTreeMap<Digest, LookId>,
    waits: BTreeMap<WaitId, Waiting<P>>,
    named: u64,
    outputs: VecDeque<Output<P>>,
}

#[derive(Debug)]
struct UnderWay<P> {
    digest: Digest,
    asked: Option<P>,
    is_coming: bool,
    waits: BTreeSet<WaitId>,
}

#[derive(Debug, Clone, Copy)]
struct Waiting<P> {
    look: LookId,
    patience: Patience,
    until: Until,
    /// None: it is not looked for on behalf of this wait.
    demand: Option<Demand<P>>,
    /// It joined the look of others for the first time: if their patience is over, that is not its own. Of many who wait for an
    /// absent parent none waits for all the others.
    has_another_try: bool,
}

#[derive(Debug, Clone, Copy)]
struct Demand<P> {
    want: Want,
    asker: Option<P>,
}

impl<P> Default for Fetches<P> {
    fn default() -> Self {
        let (looks, shared, waits) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { looks, shared, waits, named: 0, outputs: VecDeque::new() }
    }
}

impl<P: Copy + Ord> Fetches<P> {
    /// A name for a wait.
    pub fn name_wait(&mut self) -> WaitId {
        self.named += 1;
        WaitId(self.named)
    }

    /// Takes what happened. What is said of looks and waits that are over is not heeded.
    pub fn handle(&mut self, now: Time, input: Input<P>) {
        match input {
            Input::Want { wait, want, asker, until, patience } => {
                let demand = Some(Demand { want, asker });
                self.begin_or_join(now, wait, want.digest, Waiting::new(until, demand, patience));
            }
            Input::Join { wait, digest, patience } if self.shared.contains_key(&digest) => {
                self.begin_or_join(now, wait, digest, Waiting::new(Until::Here, None, patience));
            }
            Input::Join { wait, .. } => self.outputs.push_back(Output::Over(wait, Ok(()))),
            Input::GaveUp(wait) => drop(self.leave(wait)),
            Input::Asks(look, peer) => self.asks(now, look, peer),
            Input::Moved(look) => self.moved(now, look),
            Input::Comes(look) => self.comes(look),
            Input::Ended(look, result) => self.ended(now, look, result),
            Input::Tick => self.time_out(now),
        }
    }

    /// What is to be done next; to be called until there is nothing.
    pub fn poll_output(&mut self) -> Option<Output<P>> {
        self.outputs.pop_front()
    }

    /// When the next wait is over if nothing comes for it: [`Input::Tick`] is to come then.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.waits.values().map(|waiting| waiting.patience.end()).min()
    }

    /// Chunks that are looked for, in looks that others may join.
    pub fn len(&self) -> usize {
        self.shared.len()
    }

    /// Whether no chunk is looked for.
    pub fn is_empty(&self) -> bool {
        self.looks.is_empty()
    }

    fn begin_or_join(&mut self, now: Time, wait: WaitId, digest: Digest, waiting: Waiting<P>) {
        match (self.shared.get(&digest).copied(), waiting.demand) {
            (Some(look), _) => self.join(now, wait, look, waiting),
            (None, Some(demand)) => {
                let look = self.begin(now, wait, demand, waiting);
                self.shared.insert(digest, look);
            }
            (None, None) => unreachable!("only what is looked for is joined"),
        }
    }

    fn join(&mut self, now: Time, wait: WaitId, look: LookId, waiting: Waiting<P>) {
        let under_way = self.looks.get_mut(&look).expect("a shared look is under way");
        let asked = under_way.asked;
        match waiting.demand {
            Some(demand) if asked.is_some() && asked == demand.asker => drop(self.begin(now, wait, demand, waiting)),
            _ if under_way.is_coming && waiting.until == Until::Comes => {
                self.outputs.push_back(Output::Comes(wait, look));
            }
            _ => {
                under_way.waits.insert(wait);
                self.waits.insert(wait, Waiting { look, ..waiting });
            }
        }
    }

    /// Begins a look for a wait.
    fn begin(&mut self, now: Time, wait: WaitId, demand: Demand<P>, waiting: Waiting<P>) -> LookId {
        self.named += 1;
        let look = LookId(self.named);
        let Demand { want, asker } = demand;
        let waits = BTreeSet::from([wait]);
        self.looks.insert(look, UnderWay { digest: want.digest, asked: None, is_coming: false, waits });
        self.waits.insert(wait, Waiting { look, has_another_try: false, ..waiting });
        self.outputs.push_back(Output::Look { look, want, asker, patience: waiting.patience.left(now) });
        look
    }

    /// Takes a wait out. A look that nobody else can join ends with it.
    fn leave(&mut self, wait: WaitId) -> Option<Waiting<P>> {
        let waiting = self.waits.remove(&wait)?;
        if let Some(under_way) = self.looks.get_mut(&waiting.look) {
            under_way.waits.remove(&wait);
            if self.shared.get(&under_way.digest) != Some(&waiting.look) {
                self.looks.remove(&waiting.look);
                self.outputs.push_back(Output::CallOff(waiting.look));
            }
        }
        Some(waiting)
    }

    fn waits_of(&self, look: LookId) -> Vec<WaitId> {
        self.looks.get(&look).map(|under_way| under_way.waits.iter().copied().collect()).unwrap_or_default()
    }

    fn asks(&mut self, now: Time, look: LookId, peer: P) {
        let Some(under_way) = self.looks.get_mut(&look) else { return };
        under_way.asked = Some(peer);
        under_way.is_coming = false;
        for wait in self.waits_of(look) {
            let demand = self.waits.get(&wait).and_then(|waiting| waiting.demand);
            if let Some(demand) = demand.filter(|demand| demand.asker == Some(peer))
                && let Some(waiting) = self.leave(wait)
            {
                self.begin(now, wait, demand, waiting);
            }
        }
    }

    fn moved(&mut self, now: Time, look: LookId) {
        for wait in self.waits_of(look) {
            if let Some(waiting) = self.waits.get_mut(&wait) {
                waiting.patience.moved(now);
                self.outputs.push_back(Output::Moved(wait));
            }
        }
    }

    fn comes(&mut self, look: LookId) {
        let Some(under_way) = self.looks.get_mut(&look) else { return };
        // A look of one's own ends with its wait: it is waited for to the end.
        if self.shared.get(&under_way.digest) != Some(&look) {
            return;
        }
        under_way.is_coming = true;
        for wait in self.waits_of(look) {
            if self.waits.get(&wait).is_some_and(|waiting| waiting.until == Until::Comes) {
                self.outputs.push_back(Output::Comes(wait, look));
                self.leave(wait);
            }
        }
    }

    fn ended(&mut self, now: Time, look: LookId, result: Result<(), Failure>) {
        let Some(under_way) = self.looks.remove(&look) else { return };
        if self.shared.get(&under_way.digest) == Some(&look) {
            self.shared.remove(&under_way.digest);
        }
        for wait in under_way.waits {
            let waiting = self.waits.remove(&wait).expect("a look knows the waits there are");
            if waiting.tries_again_after(result, now) {
                let waiting = Waiting { has_another_try: false, ..waiting };
                self.begin_or_join(now, wait, under_way.digest, waiting);
            } else {
                self.outputs.push_back(Output::Over(wait, result));
            }
        }
    }

    fn time_out(&mut self, now: Time) {
        let is_over = |waiting: &Waiting<P>| waiting.patience.left(now).is_zero();
        let over: Vec<WaitId> =
            self.waits.iter().filter(|(_, waiting)| is_over(waiting)).map(|(wait, _)| *wait).collect();
        for wait in over {
            self.leave(wait);
            self.outputs.push_back(Output::Over(wait, Err(Failure::TimedOut)));
        }
    }
}

impl<P: Copy> Waiting<P> {
    fn new(until: Until, demand: Option<Demand<P>>, patience: Patience) -> Self {
        // The look is put in when it is joined or begun.
        Self { look: LookId(0), patience, until, demand, has_another_try: demand.is_some() }
    }

    /// Whether a look ended because the patience of another was over, and this one's is not.
    fn tries_again_after(&self, result: Result<(), Failure>, now: Time) -> bool {
        let is_of_time = matches!(result, Err(Failure::TimedOut | Failure::Unreachable));
        is_of_time && self.has_another_try && self.patience.left(now) > LOOK_PERIOD
    }
}

#[cfg(test)]
mod tests;
