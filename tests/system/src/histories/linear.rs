//! Whether a history is linearizable: whether each operation can have happened at one moment between its question and its
//! answer, so that all answers are those of one object that does one thing at a time.
//!
//! The search is that of Wing and Gong, with Lowe's memory of where it has been: what was done so far (a set, not an order) and the
//! state that it led to. An operation may be next if none that is not done yet had ended before it was asked. One of which
//! nothing is known may be next at any time, or never.
//!
//! J. Wing, C. Gong, "Testing and verifying concurrent objects", 1993; G. Lowe, "Testing for linearizability", 2016.

use super::operation::Operation;
use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// An object as it would be on one machine.
pub trait Model {
    /// What it is at a moment.
    type State: Clone + Eq + Hash + Debug;
    /// What can be asked.
    type Input: Debug;
    /// What can be answered.
    type Output: Debug;

    /// Before anything was asked.
    fn new() -> Self::State;

    /// What it is afterwards, if that answer is possible. An answer that is `None` is not known, and any is possible.
    fn step(state: &Self::State, input: &Self::Input, output: Option<&Self::Output>) -> Option<Self::State>;
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    /// There is an order that explains all answers.
    Linearizable,
    /// There is none. The operations (by their place in the history) of the longest part that can be explained; what stands in
    /// the way is among the others.
    Impossible(Vec<usize>),
    /// The search took too many steps.
    Undecided,
}

/// A set of operations, by their places.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Done(Vec<u64>);

impl Done {
    fn with_room(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    fn has(&self, at: usize) -> bool {
        self.0[at / 64] >> (at % 64) & 1 == 1
    }

    fn set(&mut self, at: usize, is_done: bool) {
        let bit = 1 << (at % 64);
        if is_done { self.0[at / 64] |= bit } else { self.0[at / 64] &= !bit }
    }
}

/// A choice that was made, and what it was made upon.
struct Choice<S> {
    at: usize,
    before: S,
}

/// Searches an order for the operations of one key, for so many steps at most.
pub fn check<M: Model>(history: &[Operation<M::Input, M::Output>], steps_max: usize) -> Checked {
    let mut order: Vec<usize> = (0..history.len()).collect();
    order.sort_by_key(|at| history[*at].asked);
    let answered = history.iter().filter(|operation| operation.told.is_some()).count();
    let mut done = Done::with_room(history.len());
    let mut been: HashSet<(Done, M::State)> = HashSet::new();
    let (mut state, mut left, mut choices) = (M::new(), answered, Vec::<Choice<M::State>>::new());
    let (mut from, mut steps, mut longest) = (0, 0, Vec::new());
    loop {
        if left == 0 {
            return Checked::Linearizable;
        }
        steps += 1;
        if steps > steps_max {
            return Checked::Undecided;
        }
        match next::<M>(history, &order, &mut done, (&state, from), &mut been) {
            Some((place, after)) => {
                let at = order[place];
                left -= usize::from(history[at].told.is_some());
                choices.push(Choice { at: place, before: std::mem::replace(&mut state, after) });
                from = 0;
                if choices.len() > longest.len() {
                    longest = choices.iter().map(|choice| order[choice.at]).collect();
                }
            }
            None => {
                let Some(last) = choices.pop() else { return Checked::Impossible(longest) };
                let at = order[last.at];
                left += usize::from(history[at].told.is_some());
                done.set(at, false);
                (state, from) = (last.before, last.at + 1);
            }
        }
    }
}

/// The next operation in the order of questions, from a place on, that may come now and leads to where the search has not been.
fn next<M: Model>(
    history: &[Operation<M::Input, M::Output>],
    order: &[usize],
    done: &mut Done,
    (state, from): (&M::State, usize),
    been: &mut HashSet<(Done, M::State)>,
) -> Option<(usize, M::State)> {
    let left = order.iter().filter(|at| !done.has(**at));
    let first_end = left.map(|at| history[*at].end()).min()?;
    for (place, at) in order.iter().enumerate().skip(from) {
        let operation = &history[*at];
        if operation.asked > first_end {
            return None;
        }
        if done.has(*at) {
            continue;
        }
        let output = operation.told.as_ref().map(|(_, output)| output);
        let Some(after) = M::step(state, &operation.input, output) else { continue };
        done.set(*at, true);
        if been.insert((done.clone(), after.clone())) {
            return Some((place, after));
        }
        done.set(*at, false);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::{
        Counter, CounterInput, Lock, LockInput, Log, LogInput, Maker, MakerInput, Register, RegisterInput,
    };
    use super::*;

    const STEPS: usize = 1_000_000;

    fn wrote(client: usize, times: (u64, u64), value: u64) -> Operation<RegisterInput, u64> {
        Operation::answered(client, times, RegisterInput::Write(value), value)
    }

    fn read(client: usize, times: (u64, u64), value: u64) -> Operation<RegisterInput, u64> {
        Operation::answered(client, times, RegisterInput::Read, value)
    }

    fn is_fine(history: &[Operation<RegisterInput, u64>]) -> bool {
        check::<Register>(history, STEPS) == Checked::Linearizable
    }

    #[test]
    fn one_after_the_other_is_fine() {
        assert!(is_fine(&[read(0, (0, 1), 0), wrote(0, (2, 3), 5), read(1, (4, 5), 5)]));
        assert!(is_fine(&[]));
    }

    #[test]
    fn a_read_of_what_was_written_over_before_is_refused() {
        let history = [wrote(0, (0, 1), 1), wrote(0, (2, 3), 2), read(1, (4, 5), 1)];
        let Checked::Impossible(longest) = check::<Register>(&history, STEPS) else { panic!() };
        assert_eq!(longest, [0, 1], "the read stands in the way");
    }

    #[test]
    fn what_goes_on_at_once_may_be_seen_or_not_but_not_back_and_forth() {
        let during = |first, second| [wrote(0, (0, 10), 7), read(1, (1, 2), first), read(1, (3, 4), second)];
        assert!(is_fine(&during(0, 0)) && is_fine(&during(0, 7)) && is_fine(&during(7, 7)));
        assert!(!is_fine(&during(7, 0)), "seen and unseen again");
        // Two readers may not disagree about the order of two writers.
        let writers = [wrote(0, (0, 20), 1), wrote(1, (0, 20), 2)];
        let readers = [read(2, (1, 2), 1), read(2, (3, 4), 2), read(3, (5, 6), 2), read(3, (7, 8), 1)];
        let history: Vec<_> = writers.into_iter().chain(readers).collect();
        assert!(!is_fine(&history));
    }

    #[test]
    fn what_is_not_known_may_have_happened_late_or_never() {
        let unknown = || Operation::unknown(0, 0, RegisterInput::Write(9));
        assert!(is_fine(&[unknown(), read(1, (10, 11), 0)]), "never");
        assert!(is_fine(&[unknown(), read(1, (10, 11), 0), read(1, (20, 21), 9)]), "late");
        assert!(!is_fine(&[unknown(), read(1, (10, 11), 9), read(1, (20, 21), 0)]), "and not undone");
        let before = [Operation::unknown(0, 30, RegisterInput::Write(9)), read(1, (10, 11), 9)];
        assert!(!is_fine(&before), "not before it was asked");
    }

    #[test]
    fn of_two_makers_one_is_told_that_it_made_it() {
        let make = |client, times, won| Operation::answered(client, times, MakerInput::Make, won);
        let remove = |client, times| Operation::answered(client, times, MakerInput::Remove, true);
        assert_eq!(check::<Maker>(&[make(0, (0, 5), true), make(1, (1, 6), false)], STEPS), Checked::Linearizable);
        let both = [make(0, (0, 5), true), make(1, (1, 6), true)];
        assert!(matches!(check::<Maker>(&both, STEPS), Checked::Impossible(_)));
        let removed = [make(0, (0, 5), true), remove(0, (6, 9)), make(1, (7, 8), true)];
        assert_eq!(check::<Maker>(&removed, STEPS), Checked::Linearizable);
        let neither = [make(0, (0, 5), false)];
        assert!(matches!(check::<Maker>(&neither, STEPS), Checked::Impossible(_)), "nobody else made it");
    }

    #[test]
    fn a_lock_has_one_holder() {
        let take = |client: usize, times| Operation::answered(client, times, LockInput::Take(client), ());
        let leave = |client: usize, times| Operation::answered(client, times, LockInput::Leave(client), ());
        let turns = [take(0, (0, 1)), leave(0, (5, 6)), take(1, (2, 7)), leave(1, (8, 9))];
        assert_eq!(check::<Lock>(&turns, STEPS), Checked::Linearizable);
        let both = [take(0, (0, 1)), take(1, (2, 3)), leave(0, (4, 5)), leave(1, (6, 7))];
        assert!(matches!(check::<Lock>(&both, STEPS), Checked::Impossible(_)));
    }

    #[test]
    fn a_count_that_is_lost_is_noticed() {
        let add = |client, times, value| Operation::answered(client, times, CounterInput::Add, value);
        assert_eq!(check::<Counter>(&[add(0, (0, 9), 2), add(1, (0, 9), 1)], STEPS), Checked::Linearizable);
        assert!(matches!(check::<Counter>(&[add(0, (0, 9), 1), add(1, (0, 9), 1)], STEPS), Checked::Impossible(_)));
    }

    #[test]
    fn lines_are_there_once_and_in_the_order_in_which_they_were_appended() {
        let append = |client, times, line| Operation::answered(client, times, LogInput::Append(line), Vec::new());
        let read = |times, lines: &[u64]| Operation::answered(9, times, LogInput::Read, lines.to_vec());
        let with =
            |lines: &[u64]| vec![append(0, (0, 1), 1), append(1, (0, 5), 2), append(0, (2, 3), 3), read((6, 7), lines)];
        for fine in [[1, 2, 3], [2, 1, 3], [1, 3, 2]] {
            assert_eq!(check::<Log>(&with(&fine), STEPS), Checked::Linearizable, "{fine:?}");
        }
        for wrong in [&[3, 1, 2][..], &[1, 3], &[1, 2, 2, 3], &[]] {
            assert!(matches!(check::<Log>(&with(wrong), STEPS), Checked::Impossible(_)), "{wrong:?}");
        }
    }

    #[test]
    fn a_search_that_takes_too_long_says_so() {
        let history: Vec<_> = (0..30).map(|value| wrote(value as usize, (0, 100), value + 1)).collect();
        let all: Vec<_> = history.into_iter().chain([read(40, (101, 102), 99)]).collect();
        assert_eq!(check::<Register>(&all, 1000), Checked::Undecided);
    }

    /// Histories that were made by one object, with questions that overlap, are fine; with one answer changed to a value that
    /// nobody wrote they are not.
    #[test]
    fn random_histories_of_one_object_are_fine_and_damaged_ones_are_not() {
        use rand::{Rng, SeedableRng};
        for seed in 0..200 {
            let mut random = rand::rngs::StdRng::seed_from_u64(seed);
            let (mut value, mut busy, mut history) = (0, [0_u64; 4], Vec::new());
            for moment in 1..40_u64 {
                let (client, at) = (random.random_range(0..4), moment * 10);
                if busy[client] >= at {
                    continue;
                }
                let asked = random.random_range(busy[client] + 1..=at);
                let told = at + random.random_range(1..30);
                busy[client] = told;
                if random.random_bool(0.5) {
                    value = moment;
                    history.push(wrote(client, (asked, told), moment));
                } else {
                    history.push(read(client, (asked, told), value));
                }
            }
            assert!(is_fine(&history), "seed {seed}: {history:?}");
            let reads: Vec<usize> = (0..history.len()).filter(|at| history[*at].input == RegisterInput::Read).collect();
            if let Some(at) = reads.first() {
                history[*at].told = Some((history[*at].end(), 1_000));
                assert!(!is_fine(&history), "seed {seed}");
            }
        }
    }
}
