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

/// What is on a mount's machine only. Writes to open files may have no byte: a file that was cut.
fn only_here(ledger: &LedgerReport) -> String {
    if ledger.is_safe() {
        return "nothing".to_owned();
    }
    let mut parts = Vec::new();
    if !ledger.unsafe_amount().is_nothing() {
        parts.push(amount(&ledger.unsafe_amount()));
    }
    if ledger.open_files > 0 {
        parts.push(format!("{} with changes", count(ledger.open_files, "open file")));
    }
    format!("{} (`wayfs queue`)", parts.join("; "))
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
            lines.insert(0, ("only here", only_here(ledger)));
        }
        VolumeRole::Station => {
            more("at clients", ledger.unsafe_amount());
            lines.insert(0, ("not home yet", hint(&ledger.station_amount())));
        }
        VolumeRole::Home => lines.push(("not here yet", hint(&ledger.home_lacks))),
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_file_that_is_open_is_only_here_without_a_byte() {
        let mut ledger = LedgerReport::default();
        let only_here = |ledger: &LedgerReport| lines(ledger, VolumeRole::Client)[0].clone();
        assert_eq!(only_here(&ledger), ("only here", "nothing".to_owned()));
        ledger.open_files = 1;
        assert_eq!(only_here(&ledger), ("only here", "1 open file with changes (`wayfs queue`)".to_owned()));
        ledger.not_safe = Some(AmountReport { records: 2, bytes: 1, ..AmountReport::default() });
        let text = "2 updates, 1 B; 1 open file with changes (`wayfs queue`)".to_owned();
        assert_eq!(only_here(&ledger), ("only here", text));
    }
}
