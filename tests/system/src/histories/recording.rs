//! What is recorded while programs work, and what is said of it in the end.

use super::linear::{Checked, Model, check};
use super::operation::Operation;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Steps of the search for one key.
const STEPS_MAX: usize = 20_000_000;

/// Moments before and after what cannot be explained of which all is told.
const AROUND: u64 = 500;

/// What was done, by key.
pub type Histories<I, O> = Mutex<BTreeMap<usize, Vec<Operation<I, O>>>>;

/// One clock for all, in which no two moments are one.
static CLOCK: AtomicU64 = AtomicU64::new(1);

/// The moment.
pub fn now() -> u64 {
    CLOCK.fetch_add(1, Ordering::SeqCst)
}

/// Records an operation on a key.
///
/// # Panics
/// If another thread panicked with the histories in hand.
pub fn note<I, O>(all: &Histories<I, O>, key: usize, operation: Operation<I, O>) {
    all.lock().expect("nobody panicked").entry(key).or_default().push(operation);
}

/// What was asked about then.
fn around<I, O>(history: &[Operation<I, O>], asked: u64) -> Vec<&Operation<I, O>> {
    let span = asked.saturating_sub(AROUND)..asked + AROUND;
    let mut around: Vec<_> = history.iter().filter(|operation| span.contains(&operation.asked)).collect();
    around.sort_by_key(|operation| operation.asked);
    around
}

/// Searches an order for what was done with each key. Answers how many operations there were.
///
/// # Panics
/// If there is none.
pub fn judge<M: Model>(what: &str, all: &Histories<M::Input, M::Output>) -> usize {
    let mut operations = 0;
    for (key, history) in all.lock().expect("nobody panicked").iter() {
        operations += history.len();
        match check::<M>(history, STEPS_MAX) {
            Checked::Linearizable => {}
            Checked::Undecided => println!("{what} {key}: not decided ({} operations)", history.len()),
            Checked::Impossible(longest) => {
                let left: Vec<_> = (0..history.len()).filter(|at| !longest.contains(at)).collect();
                let first = left.iter().map(|at| &history[*at]).min_by_key(|operation| operation.asked);
                for operation in first.iter().flat_map(|first| around(history, first.asked)) {
                    println!("{what} {key}: {operation:?}");
                }
                panic!(
                    "{what} {key}: {} operations have no order; of {} left the first: {first:?}",
                    history.len(),
                    left.len()
                );
            }
        }
    }
    operations
}
