//! The running hash over an origin's records.
//!
//! ```text
//! chain(0)   = zeros
//! chain(n)   = BLAKE3(chain(n - 1) ‖ record n), 16 bytes of it
//! chain(n)   = BLAKE3(zeros ‖ record n) for a record that skips numbers
//! ```
//!
//! A record that skips numbers begins anew: the parent may have records with those numbers that its writer lost in a
//! crash, so what comes before is not the same for both. It names the life of the writer's store, so that nobody
//! else's is the same.

use wayfs_types::{Chain, Op, Record};

/// The chain after a record, from the one after its origin's record before.
#[must_use]
pub fn chained(before: Chain, record: &Record) -> Chain {
    let bytes = postcard::to_allocvec(record).expect("records encode into memory");
    let before = if matches!(record.op, Op::Skip { .. }) { Chain::START } else { before };
    before.then(&bytes)
}
