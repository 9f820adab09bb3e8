//! The one account of what has not come all the way: `status`, `queue`, `umount`, `doctor` and the metrics show this.

use serde::{Deserialize, Serialize};

/// So much of something.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AmountReport {
    /// Updates.
    pub records: u64,
    /// Versions of files whose contents travel by themselves.
    pub versions: u64,
    /// Bytes of contents, those that travel within their records included.
    pub bytes: u64,
    /// Age of the oldest, in milliseconds; `None`: there is none, or that is not known here.
    #[serde(default)]
    pub oldest_ms: Option<u64>,
}

impl AmountReport {
    /// Whether it is nothing.
    pub const fn is_nothing(&self) -> bool {
        self.records == 0 && self.versions == 0 && self.bytes == 0
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            records: self.records.saturating_add(other.records),
            versions: self.versions.saturating_add(other.versions),
            bytes: self.bytes.saturating_add(other.bytes),
            oldest_ms: self.oldest_ms.into_iter().chain(other.oldest_ms).max(),
        }
    }
}

/// What has not come all the way, all of one moment.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerReport {
    /// Of a mount: what is on that machine only, as far as it was told, writes to open files included. Of a station:
    /// contents that its clients have and it does not. `None`: a home does not know it apart.
    #[serde(default)]
    pub not_safe: Option<AmountReport>,
    /// What a station has and the home does not. `None`: a home does not know it apart.
    #[serde(default)]
    pub at_station: Option<AmountReport>,
    /// What the home lacks of either: record or contents.
    #[serde(default)]
    pub home_lacks: AmountReport,
    /// Files with writes that are in no record yet; their bytes are counted above.
    #[serde(default)]
    pub open_files: u64,
    /// Why it is not further, one line; empty when nothing waits.
    #[serde(default)]
    pub why: String,
    /// What would help; empty when it goes on by itself.
    #[serde(default)]
    pub next_step: String,
}

impl LedgerReport {
    /// What is not safe; nothing where that is not known apart.
    pub fn unsafe_amount(&self) -> AmountReport {
        self.not_safe.unwrap_or_default()
    }

    /// What is at a station only; nothing where that is not known apart.
    pub fn station_amount(&self) -> AmountReport {
        self.at_station.unwrap_or_default()
    }

    /// Whether nothing is on a mount's machine only. A file that was cut or made, and not closed, may have no byte to count.
    pub fn is_safe(&self) -> bool {
        self.unsafe_amount().is_nothing() && self.open_files == 0
    }

    /// All that is counted, without ages and words: two of the same moment have the same.
    pub fn counts(&self) -> [u64; 10] {
        let of = |amount: AmountReport| [amount.records, amount.versions, amount.bytes];
        let [not_safe, at_station, lacks] = [self.unsafe_amount(), self.station_amount(), self.home_lacks].map(of);
        let mut counts = [self.open_files; 10];
        for (place, amount) in counts.chunks_mut(3).zip([not_safe, at_station, lacks]) {
            place.copy_from_slice(&amount);
        }
        counts
    }

    /// Whether all has come all the way.
    pub const fn is_nothing(&self) -> bool {
        self.home_lacks.is_nothing() && self.open_files == 0
    }

    /// Of several volumes together; the first reason stands.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let both = |a: Option<AmountReport>, b: Option<AmountReport>| match (a, b) {
            (Some(a), Some(b)) => Some(a.plus(b)),
            (one, None) | (None, one) => one,
        };
        let (why, next_step) =
            if self.why.is_empty() { (other.why, other.next_step) } else { (self.why, self.next_step) };
        Self {
            not_safe: both(self.not_safe, other.not_safe),
            at_station: both(self.at_station, other.at_station),
            home_lacks: self.home_lacks.plus(other.home_lacks),
            open_files: self.open_files + other.open_files,
            why,
            next_step,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_moves_shows_in_the_counts_and_age_does_not() {
        let ledger = LedgerReport::default();
        let amount = |records, versions, bytes| AmountReport { records, versions, bytes, oldest_ms: None };
        let aged = AmountReport { oldest_ms: Some(7), ..AmountReport::default() };
        assert_eq!(LedgerReport { home_lacks: aged, ..ledger.clone() }.counts(), ledger.counts());
        for change in [amount(1, 0, 0), amount(0, 1, 0), amount(0, 0, 1)] {
            for changed in [
                LedgerReport { not_safe: Some(change), ..ledger.clone() },
                LedgerReport { at_station: Some(change), ..ledger.clone() },
                LedgerReport { home_lacks: change, ..ledger.clone() },
            ] {
                assert_ne!(changed.counts(), ledger.counts());
            }
        }
        assert_ne!(LedgerReport { open_files: 1, ..ledger.clone() }.counts(), ledger.counts());
    }
}
