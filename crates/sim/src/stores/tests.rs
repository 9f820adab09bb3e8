//! Many runs of the stores alone.

use super::alone::exercise;
use super::*;

/// Runs of the test, and what each does.
const SEEDS: u64 = 120;
const ACTS: usize = 500;

#[test]
fn stores_have_what_they_said_is_durable_wherever_the_power_fails() {
    let (mut failed, mut crashes) = (0, 0);
    for seed in 0..SEEDS {
        let outcome = exercise((StoresPlan::draw(seed), seed), ACTS);
        assert_eq!(outcome.fault, None, "seed {seed}");
        failed += outcome.failed;
        crashes += outcome.crashes;
    }
    assert!(failed > 1000 && crashes > failed + 500, "{failed} of {crashes} crashes were at a write");
}
