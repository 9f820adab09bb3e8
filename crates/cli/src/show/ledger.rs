//! What has not come all the way, the same words on every screen.

use super::quantity::{bytes, count, duration};
use wayfs_control::report::{AmountReport, LedgerReport, VolumeRole};

/// An amount in words.
pub(crate) fn amount(amount: &AmountReport) -> String {
    if amount.is_nothing() {
        return "nothing".to_owned();
    }
    let mut parts = Vec::new();
    if amount.records > 0 {
        parts.push(count(amount.records, "update"));
    }
    if amount.versions > 0 {
        parts.push(format!("contents of {}", count(amount.versions, "file")));
    }
    parts.push(bytes(amount.bytes));
    if let Some(oldest) = amount.oldest_ms {
        parts.push(format!("the oldest for {}", duration(oldest)));
    }
    parts.join(", ")
}

/// The lines of a screen: what is on one machine only stands there even if it is nothing.
pub(crate) fn lines(ledger: &LedgerReport, role: VolumeRole) -> Vec<(&'static str, String)> {
    let hint = |known: &AmountReport| {
        let more = if known.is_nothing() { "" } else { " (`wayfs queue`)" };
        format!("{}{more}", amount(known))
    };
    let mut lines = Vec::new();
    let mut more = |name: &'static str, known: AmountReport| {
        if !known.is_nothing() {
            lines.push((name, hint(&known)));
        }
    };
    match role {
        VolumeRole::Client => {
            more("at station", ledger.station_amount());
            lines.insert(0, ("only here", hint(&ledger.unsafe_amount())));
        }
        VolumeRole::Station => {
            more("at clients", ledger.unsafe_amount());
            lines.insert(0, ("not home yet", hint(&ledger.station_amount())));
        }
        VolumeRole::Home => lines.push(("not here yet", hint(&ledger.home_lacks))),
    }
    lines
}
