//! The one account of what has not come all the way: every command takes its numbers from here.

use crate::served::Served;
use wayfs_admin::ledger::MAKE_ROOM;
use wayfs_control::report::LedgerReport;
use wayfs_node::LinkState;

/// What has not come all the way of a volume, why, and what would help.
pub(super) fn of(served: &Served) -> LedgerReport {
    let mut ledger = wayfs_admin::ledger::of(&served.volume);
    if !ledger.is_nothing() {
        (ledger.why, ledger.next_step) = why(served, &ledger);
    }
    ledger
}

fn why(served: &Served, ledger: &LedgerReport) -> (String, String) {
    let say = |why: &str, next: &str| (why.to_owned(), next.to_owned());
    let is_away = served.link.as_ref().is_some_and(|link| link.status().state != LinkState::Connected);
    if let Some(full) = served.volume.full().filter(|_| !is_away) {
        return say(&full, MAKE_ROOM);
    }
    match served.link.as_ref().map(|link| link.status().state) {
        None => say("contents are at stations or at clients", "`wayfs sync --until stable` at them sends them now."),
        Some(LinkState::Searching { last_error }) => {
            say(&format!("the home is not reached: {last_error}"), "It goes on by itself when the home is back.")
        }
        Some(LinkState::Refused { reason }) => say(&reason, "Join again with `wayfs station join TICKET`."),
        Some(LinkState::Offline) => say("set offline", ""),
        Some(LinkState::Connected) if ledger.station_amount().records > 0 => say("on its way to the home", ""),
        Some(LinkState::Connected) if ledger.station_amount().versions > 0 => {
            say("contents wait for the volume's policy or a reader", "`wayfs sync --until stable` sends them now.")
        }
        Some(LinkState::Connected) => say("contents are at clients", ""),
    }
}
