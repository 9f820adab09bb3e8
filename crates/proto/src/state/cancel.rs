//! Log cancellation: what a client did and undid while nobody was told need not be told.
//!
//! The rules are `wayfs_tree::Canceller`'s. They run once when a session begins,
//! over the records that were never sent to anyone: those written since the
//! replica was opened and not offered to a parent so far. (What may have been sent
//! stays: somebody may know it and wait for its contents. So does what the parent has of
//! ours all the same: another copy of this store sent it.) If anything is
//! cancelled, the log is rewritten and replayed in the same batch.
//!
//! Nothing is cancelled of a file of which a later version's bytes are gone here:
//! what they took the place of may be the last content that is whole.

use crate::contents::weight::Weight;
use crate::replica::Replica;
use crate::state::confirm::Cut;
use crate::state::log_entry::LogEntry;
use crate::state::of_record::{content_of, files_of};
use crate::state::position::{LogPosition, log_key};
use crate::state::tables::pack;
use crate::upstream::Uplink;
use std::collections::BTreeMap;
use wayfs_tree::{Canceller, CreateFolding};
use wayfs_types::{FileId, MetaStore, Record, RecordId, StorageError};

/// For each record the last one in a row about the same files: what it was about has come somewhere when that has.
fn counts_with(records: &[Record]) -> BTreeMap<RecordId, u64> {
    let mut last: BTreeMap<FileId, u64> = BTreeMap::new();
    let mut with = BTreeMap::new();
    for record in records.iter().rev() {
        let mut through = record.id.sequence();
        for file in files_of(record) {
            let of_file = last.entry(file).or_insert(through);
            through = through.max(*of_file);
        }
        with.insert(record.id, through);
    }
    with
}

impl<S: MetaStore> Replica<S> {
    /// Cancels what can be cancelled of the unsent log.
    pub(crate) fn cancel_unsent(&mut self) -> Result<(), StorageError> {
        let sent_through = self.uplink.sent_through().max(self.uplink.parent_has(self.core.config.origin));
        let unsent: Vec<LogPosition> = self
            .core
            .state
            .log
            .from(LogPosition::START)
            .filter(|(_, item)| item.tentative && item.id.sequence() > sent_through)
            .map(|(position, _)| position)
            .collect();
        if unsent.len() < 2 {
            return Ok(());
        }
        let mut positions: BTreeMap<RecordId, LogPosition> = BTreeMap::new();
        let mut originals: Vec<Record> = Vec::new();
        for position in unsent {
            let record = self.core.state.log_entry(position)?.record;
            positions.insert(record.id, position);
            originals.push(record);
        }
        let kept = Uplink::files_with_a_last_whole_content(&mut self.core, originals.iter())?;
        let mut canceller = Canceller::new(CreateFolding::Keep);
        let mut replaced: BTreeMap<RecordId, Record> = BTreeMap::new();
        for record in &originals {
            if files_of(record).any(|file| kept.contains(&file)) {
                canceller.observe(record);
                continue;
            }
            for instead in canceller.push(record) {
                replaced.insert(instead.id, instead);
            }
        }
        let with = counts_with(&originals);
        let mut is_changed = false;
        for (id, record) in replaced {
            let Some(position) = positions.get(&id).copied() else { continue };
            let old = self.core.state.log_entry(position)?;
            if old.record == record {
                continue;
            }
            is_changed = true;
            if let Some(with) = with.get(&id) {
                self.core.state.log.bind(id, *with);
            }
            if content_of(&old.record).map(|(_, content)| content) != content_of(&record).map(|(_, content)| content) {
                self.contents.release(&mut self.core, id)?;
            }
            self.core.state.staged.weighed.push((position, Weight::of(&record.op)));
            self.core.state.overlay.put_raw(log_key(position), pack(&LogEntry { record, ..old }));
        }
        if is_changed { self.rebuild(Cut::default()) } else { Ok(()) }
    }
}
