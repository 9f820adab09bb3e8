//! How a record comes into the log, and is read there.

use crate::contents::weight::Weight;
use crate::replica::core::Core;
use crate::state::State;
use crate::state::empty_change::EmptyChange;
use crate::state::log::{Applied, Log, dated_by, echo_hash};
use crate::state::log_entry::{Attached, LogEntry, Shadow};
use crate::state::log_item::LogItem;
use crate::state::position::{LogPosition, log_key};
use crate::state::tables::table::TOUCH;
use crate::state::tables::{PAGE, image_key, pack, parse_number_key, table, unpack};
use std::collections::{BTreeMap, BTreeSet};
use wayfs_tree::{Effect, View};
use wayfs_types::{Chain, FileId, Image, Key, Life, MetaStore, Op, Record, RecordId, StorageError, Ticket};

impl<S: MetaStore> Core<S> {
    pub(crate) fn read_log(&mut self) -> Result<Log, StorageError> {
        let mut log = Log::default();
        let (mut cancelled, mut newest) = (Vec::new(), 0);
        let mut confirmed = BTreeMap::new();
        let mut from = vec![table::LOG];
        loop {
            let pairs = self.state.store.scan(&from, &[table::LOG + 1], PAGE)?;
            let Some((last, _)) = pairs.last() else { break };
            from.clone_from(last);
            from.push(0);
            for (key, value) in pairs {
                let entry: LogEntry = unpack(&value)?;
                let id = entry.record.id;
                let applied = match confirmed.get(&id.origin()) {
                    Some(applied) => *applied,
                    None => {
                        let applied = self.state.confirmed_applied(id.origin())?;
                        confirmed.insert(id.origin(), applied);
                        applied
                    }
                };
                let item = LogItem {
                    id,
                    after: entry.record.follows(),
                    time: entry.record.time,
                    ticket: Ticket(0),
                    structural: entry.structural,
                    empty_change: EmptyChange::of(&entry.record.op),
                    chain: entry.chain,
                    life: entry.life,
                    tentative: id.sequence() > applied,
                    rewritten: false,
                    sealed: entry.seal.is_some(),
                    weight: Weight::of(&entry.record.op),
                    dated: dated_by(&entry.record.op, &entry.touched),
                };
                if self.writes() && matches!(entry.record.op, Op::Touch) {
                    cancelled.push(id);
                }
                newest = id.sequence();
                if !log.takes(&item) {
                    return Err(StorageError::Corrupt(format!("record {id} is in the log behind a later one")));
                }
                log.append(LogPosition(parse_number_key(&key)?), item);
            }
        }
        // With which of the records after them they count was known to the last life.
        cancelled.into_iter().for_each(|record| log.bind(record, newest));
        Ok(log)
    }

    /// Applies a record to the view and, unless we are the home, appends it to the log.
    pub(crate) fn take_record(&mut self, record: Record, attached: Attached) -> Result<Effect, StorageError> {
        if self.orders() {
            return wayfs_tree::apply(&mut self.state.tx(), &record);
        }
        let position = self.state.counters.position;
        self.state.counters.position = position.next();
        let (id, time, after) = (record.id, record.time, record.follows());
        let (empty_change, weight) = (EmptyChange::of(&record.op), Weight::of(&record.op));
        let Applied { effect, structural, chain, life, dated } =
            self.state.apply_tentative(position, record, attached)?;
        let item = LogItem {
            id,
            after,
            time,
            ticket: Ticket(0),
            structural,
            empty_change,
            chain,
            life,
            tentative: true,
            rewritten: false,
            sealed: attached.seal.is_some(),
            weight,
            dated,
        };
        self.state.staged.appended.push((position, item));
        Ok(effect)
    }
}

impl<S: MetaStore> State<S> {
    /// A record that the parent has not confirmed, as the log keeps it.
    pub(crate) fn logged(&self, record: RecordId) -> Result<Option<Record>, StorageError> {
        let Some(position) = self.log.position_of(record) else { return Ok(None) };
        let bytes = self.store.get(&log_key(position))?;
        bytes.map(|bytes| Ok(unpack::<LogEntry>(&bytes)?.record)).transpose()
    }

    /// The stored entry at a position.
    pub(crate) fn log_entry(&mut self, position: LogPosition) -> Result<LogEntry, StorageError> {
        let entry = self.log_entry_left(position)?;
        entry.ok_or_else(|| StorageError::Corrupt(format!("log entry {position} is gone")))
    }

    /// The same, unless this very input has taken it out of the log.
    pub(crate) fn log_entry_left(&mut self, position: LogPosition) -> Result<Option<LogEntry>, StorageError> {
        let bytes = self.tx().get_raw(&log_key(position))?;
        bytes.map(|bytes| unpack(&bytes)).transpose()
    }

    /// Those of some positions that this very input has not taken out of the log: memory hears of that with the batch.
    pub(crate) fn left_in_log(&self, mut positions: Vec<LogPosition>) -> Vec<LogPosition> {
        if !self.staged.forgotten.is_empty() {
            let taken_out: BTreeSet<LogPosition> = self.staged.forgotten.iter().copied().collect();
            positions.retain(|position| !taken_out.contains(position));
        }
        positions
    }

    /// Applies a record on top of the view, keeps shadow rows of what it touches, and writes its log entry.
    pub(crate) fn apply_tentative(
        &mut self,
        position: LogPosition,
        record: Record,
        Attached { held, seal }: Attached,
    ) -> Result<Applied, StorageError> {
        let mut tx = self.tx();
        let (_, before) = wayfs_tree::applied_chain(&tx, record.id.origin())?;
        let is_directory = |file: FileId| -> Result<bool, StorageError> {
            Ok(wayfs_tree::inode(&tx, file)?.is_some_and(|inode| inode.is_directory()))
        };
        let structural = match &record.op {
            Op::Rmdir { .. } => true,
            Op::Rename { file, .. } => is_directory(*file)?,
            Op::Exchange { file, other, .. } => is_directory(*file)? || is_directory(*other)?,
            Op::Create { .. }
            | Op::Mkdir { .. }
            | Op::Link { .. }
            | Op::Unlink { .. }
            | Op::SetAttr { .. }
            | Op::SetXattr { .. }
            | Op::Store { .. }
            | Op::Resolve { .. }
            | Op::Touch
            | Op::Skip { .. }
            | Op::Lost { .. } => false,
        };
        tx.note_touches();
        let effect = wayfs_tree::apply(&mut tx, &record)?;
        let mut touched = Vec::new();
        for (key, image) in tx.take_touches() {
            let after = tx.image(&key)?;
            let shadow_key = image_key(table::SHADOW, &key);
            if tx.get_raw(&shadow_key)?.is_none() {
                let number = tx.vouched_at(&key)?;
                tx.overlay.put_raw(shadow_key, pack(&Shadow { number, image }));
            }
            tx.overlay.put_raw(image_key(TOUCH, &key), pack(&position));
            touched.push((key, echo_hash(after.as_ref())));
        }
        let (chain, life) = match tx.image(&Key::Origin(record.id.origin()))? {
            Some(Image::Origin(origin)) => (origin.chain, origin.lives.newest()),
            _ => (Chain::START, Life::NONE),
        };
        let dated = dated_by(&record.op, &touched);
        let entry = LogEntry { record, held, structural, touched, before, chain, life, seal };
        tx.overlay.put_raw(log_key(position), pack(&entry));
        Ok(Applied { effect, structural, chain, life, dated })
    }
}
