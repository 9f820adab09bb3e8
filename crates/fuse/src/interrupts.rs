//! Which requests are in hand, and which of them the caller has given up.
//!
//! The kernel sends an interrupt as a message of its own. Two threads may read the two messages in
//! either order, so an interrupt can be seen before its request is registered. It is then *parked*,
//! and the request is born interrupted. (The protocol's own remedy, answering the interrupt with
//! EAGAIN so that it is sent again, would spin until the other thread gets to run; it is not needed
//! when nothing is lost.) An interrupt can also arrive after its request was answered; such a parked
//! entry is garbage and is pushed out by later ones, request numbers being never used twice.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Unique;

/// Parked interrupts kept at most. A live one is claimed within the time that a thread needs from
/// the end of its read to registration, so a handful would do; the rest is margin.
const PARKED_MAX: usize = 256;

/// Tells whether the caller of a request still wants the answer. Cheap to clone and to ask.
#[derive(Clone, Debug, Default)]
pub struct InterruptFlag(Arc<AtomicBool>);

impl InterruptFlag {
    /// True once a signal interrupted the caller; the right answer is then EINTR, soon.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The flag itself, for those who know nothing of this protocol. It is only ever set.
impl From<InterruptFlag> for Arc<AtomicBool> {
    fn from(flag: InterruptFlag) -> Self {
        flag.0
    }
}

/// The requests in hand. The lock is a leaf: nothing else is locked and nothing called while it is held.
#[derive(Debug, Default)]
pub(crate) struct Interrupts {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    in_hand: BTreeMap<Unique, InterruptFlag>,
    parked: VecDeque<Unique>,
}

impl Interrupts {
    fn state(&self) -> MutexGuard<'_, State> {
        // No code between lock and unlock can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request; its flag is set already if the interrupt was faster.
    pub(crate) fn register(&self, unique: Unique) -> InterruptFlag {
        let flag = InterruptFlag::default();
        let mut state = self.state();
        if let Some(place) = state.parked.iter().position(|parked| *parked == unique) {
            state.parked.remove(place);
            flag.set();
        }
        state.in_hand.insert(unique, flag.clone());
        flag
    }

    /// Notes that a request is answered.
    pub(crate) fn finish(&self, unique: Unique) {
        self.state().in_hand.remove(&unique);
    }

    /// Sets the flag of a request in hand and says so; else parks the interrupt.
    pub(crate) fn interrupt(&self, unique: Unique) -> bool {
        let mut state = self.state();
        if let Some(flag) = state.in_hand.get(&unique) {
            flag.set();
            return true;
        }
        if state.parked.len() == PARKED_MAX {
            state.parked.pop_front();
        }
        state.parked.push_back(unique);
        false
    }

    #[cfg(test)]
    pub(crate) fn in_hand_len(&self) -> usize {
        self.state().in_hand.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_finds_its_request() {
        let interrupts = Interrupts::default();
        let flag = interrupts.register(Unique::new(4));
        assert!(!flag.is_set());
        assert!(interrupts.interrupt(Unique::new(4)));
        assert!(flag.is_set());
        interrupts.finish(Unique::new(4));
        assert_eq!(interrupts.in_hand_len(), 0);
    }

    #[test]
    fn an_interrupt_may_be_faster_than_its_request() {
        let interrupts = Interrupts::default();
        assert!(!interrupts.interrupt(Unique::new(4)));
        assert!(!interrupts.register(Unique::new(6)).is_set());
        assert!(interrupts.register(Unique::new(4)).is_set());
        assert!(!interrupts.register(Unique::new(4)).is_set(), "a parked interrupt counts once");
    }

    #[test]
    fn late_interrupts_do_not_pile_up() {
        let interrupts = Interrupts::default();
        for number in 0..10_000 {
            interrupts.interrupt(Unique::new(number));
        }
        assert_eq!(interrupts.state().parked.len(), PARKED_MAX);
        assert!(interrupts.register(Unique::new(9_999)).is_set());
        assert!(!interrupts.register(Unique::new(0)).is_set());
    }
}
