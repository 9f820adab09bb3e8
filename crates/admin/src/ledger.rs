//! The one account of what has not come all the way: every command takes its numbers from here.

use crate::words::age_ms;
use wayfs_control::report::{AmountReport, LedgerReport};
use wayfs_node::{LiveReplica, Volume};
use wayfs_proto::Amount;

/// What helps where a disk is full.
pub const MAKE_ROOM: &str = "Make room there; it goes on by itself.";

/// What a volume holds that has not come all the way; writes that are in no record are not among it. Of a volume that has stopped
/// it is nothing: its failure is told beside.
pub fn of(volume: &Volume) -> LedgerReport {
    let known = volume.look(LiveReplica::ledger).and_then(Result::ok).unwrap_or_default();
    LedgerReport {
        not_safe: known.not_safe.map(amount),
        at_station: known.at_station.map(amount),
        home_lacks: amount(known.home_lacks),
        ..LedgerReport::default()
    }
}

fn amount(known: Amount) -> AmountReport {
    let Amount { records, versions, bytes, oldest } = known;
    AmountReport { records, versions, bytes, oldest_ms: oldest.map(age_ms) }
}
