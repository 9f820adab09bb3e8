//! The one account of what has not come all the way: every screen, metric and wait takes its numbers from here.
//!
//! Bytes are those of contents wherever they travel: within their records, too. They are kept as running sums: the
//! cost of a look grows neither with the log nor with the number of versions.

use crate::contents::Contents;
use crate::contents::duty::Duty;
use crate::contents::owed::waiting_row;
use crate::contents::tally::OwnProgress;
use crate::contents::weight::Weight;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::log::Log;
use crate::state::log_item::LogItem;
use crate::state::tables::{origin_range, parse_record_key, table};
use std::ops::Add;
use wayfs_types::{MetaStore, StorageError, WallTime};

/// Writers of whom the oldest version is looked up for a look.
const WRITERS_MAX: usize = 256;
/// Versions of each that are looked at until the age of one is known.
const VERSIONS_MAX: usize = 8;

/// So much of something.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Records: updates.
    pub records: u64,
    /// Versions whose contents travel by themselves.
    pub versions: u64,
    /// Bytes of contents, those within records included.
    pub bytes: u64,
    /// When the oldest of it was written, by its writer's clock, or came to a server; `None`: there is nothing, or that is not known. Of
    /// versions, those of 256 writers at most are looked at.
    pub oldest: Option<WallTime>,
}

impl Amount {
    /// Whether it is nothing.
    pub const fn is_nothing(&self) -> bool {
        self.records == 0 && self.versions == 0 && self.bytes == 0
    }
}

impl Add for Amount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            records: self.records + other.records,
            versions: self.versions + other.versions,
            bytes: self.bytes.saturating_add(other.bytes),
            oldest: self.oldest.into_iter().chain(other.oldest).min(),
        }
    }
}

/// What has not come all the way, all of one moment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Ledger {
    /// At a client: what is on this machine only, as far as it was told. At a station: contents that its clients have and
    /// it does not, be it that another station has them. `None`: a home does not know it apart.
    pub not_safe: Option<Amount>,
    /// What a station has and the home does not. `None`: a home does not know it apart.
    pub at_station: Option<Amount>,
    /// What the home lacks: record or contents. At a client of its own records, at a station of all below it.
    pub home_lacks: Amount,
}

impl Log {
    /// Whether a record of the log has not come all the way: at a client it may stay there until the parent's state holds it.
    pub(crate) fn is_on_its_way(&self, item: &LogItem) -> bool {
        item.weight != Weight::default() && (self.not_safe.has_beyond(item) || self.not_visible.has_beyond(item))
    }
}

impl<S: MetaStore> Replica<S> {
    /// What has not come all the way.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be read.
    pub fn ledger(&self) -> Result<Ledger, StorageError> {
        Ok(match self.contents.duty {
            Duty::Keeps(_) => {
                let home_lacks = self.amount_missing()?;
                Ledger { not_safe: None, at_station: None, home_lacks }
            }
            Duty::Carries(_) => {
                let (not_safe, at_station) = (self.amount_missing()?, self.amount_at_station()?);
                Ledger { not_safe: Some(not_safe), at_station: Some(at_station), home_lacks: not_safe + at_station }
            }
            Duty::Answers(_) => {
                let (not_safe, at_station) = self.amounts_of_own()?;
                Ledger { not_safe: Some(not_safe), at_station: Some(at_station), home_lacks: not_safe + at_station }
            }
        })
    }

    /// Contents that somebody below us has and we do not.
    fn amount_missing(&self) -> Result<Amount, StorageError> {
        let (versions, bytes) =
            (positive(self.core.state.totals().missing), positive(self.core.state.totals().missing_bytes));
        Ok(Amount { records: 0, versions, bytes, oldest: self.oldest_version(table::MISSING)? })
    }

    /// What we have and the home does not.
    fn amount_at_station(&self) -> Result<Amount, StorageError> {
        let waiting = self.core.state.log().tentative_weight();
        // What is being looked for may be here, and nowhere else.
        let (looks, looked_for) = self.contents.carrier().map_or((0, 0), |carrier| carrier.named.under_way());
        let owed_bytes = positive(self.core.state.totals().owed_bytes).saturating_add(looked_for);
        Ok(Amount {
            records: waiting.records,
            versions: positive(self.core.state.totals().owed) + looks,
            bytes: waiting.bytes.saturating_add(owed_bytes),
            oldest: self.core.state.log().oldest_tentative().into_iter().chain(self.oldest_version(table::OWED)?).min(),
        })
    }

    /// When the oldest version of a table was written: of each writer the first whose age is known.
    fn oldest_version(&self, of: u8) -> Result<Option<WallTime>, StorageError> {
        let (mut from, mut oldest) = (vec![of], None);
        for _ in 0..WRITERS_MAX {
            let rows = self.core.state.store().scan(&from, &[of + 1], VERSIONS_MAX)?;
            let Some((first, _)) = rows.first() else { break };
            let writer = parse_record_key(first)?.origin();
            for (key, row) in &rows {
                let version = parse_record_key(key)?;
                if version.origin() != writer {
                    break;
                }
                let (file, content) = waiting_row(of, row)?;
                let facts = self.record_facts(version, Some(&content))?;
                if let Some(since) = self.core.state.waits_since(file, version, facts)? {
                    oldest = oldest.into_iter().chain([since]).min();
                    break;
                }
            }
            from = origin_range(of, writer, 0).1;
        }
        Ok(oldest)
    }

    /// What of our own is on this machine only, and what is at a station.
    fn amounts_of_own(&self) -> Result<(Amount, Amount), StorageError> {
        let (not_safe, not_visible) = (&self.core.state.log().not_safe, &self.core.state.log().not_visible);
        let here = Amount {
            records: not_safe.beyond.records,
            versions: positive(self.core.state.totals().owed),
            bytes: not_safe.beyond.bytes.saturating_add(positive(self.core.state.totals().owed_bytes)),
            oldest: not_safe
                .oldest(self.core.state.log().items())
                .into_iter()
                .chain(self.oldest_version(table::OWED)?)
                .min(),
        };
        // What is not visible and safe; nothing, if the home was faster than the station's word.
        let records = not_visible.beyond.records.saturating_sub(not_safe.beyond.records);
        let at_station = Amount {
            records,
            versions: positive(self.core.state.totals().lent),
            bytes: not_visible
                .beyond
                .bytes
                .saturating_sub(not_safe.beyond.bytes)
                .saturating_add(positive(self.core.state.totals().lent_bytes)),
            oldest: not_visible
                .oldest(self.core.state.log().items())
                .filter(|_| records > 0)
                .into_iter()
                .chain(self.oldest_version(table::LENT)?)
                .min(),
        };
        Ok((here, at_station))
    }
}

impl Contents {
    /// The marks of our own records moved, or our disk went on.
    pub(crate) fn advance_tallies<S: MetaStore>(core: &mut Core<S>) -> Result<(), StorageError> {
        if core.writes() {
            let marks = core.state.marks_committed(core.config.origin)?;
            // What is stable is at the home, though its other clients' caches may not have been told yet.
            let safe = marks.safe.max(marks.stable.min(marks.visible)).min(core.state.own_durable());
            core.state.advance_log(OwnProgress { safe, visible: marks.visible });
        }
        Ok(())
    }
}

fn positive(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}
