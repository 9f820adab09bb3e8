//! What is recorded while programs work, and what is said of it in the end.

use super::linear::{Checked, Model, check};
use super::operation::Operation;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Steps of the search for one key.
const STEPS_MAX: usize = 20_000_000;

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
                let first = left.iter().map(|at| &history[*at]).min_by_key(|operation| operation.asked).map(|first| {
                    format!(
                        "client {} asked {:?} at {}, was told {:?}",
                        first.client, first.input, first.asked, first.told
                    )
                });
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
