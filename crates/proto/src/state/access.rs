//! What other parts ask of the state, and change in it.

use crate::api::Output;
use crate::contents::replaced::Superseded;
use crate::contents::tally::OwnProgress;
use crate::histories::lost::Kind;
use crate::histories::skipped::Gap;
use crate::replica::composition::Tree;
use crate::state::State;
use crate::state::log::Log;
use crate::state::overlay::{Overlay, Tx};
use crate::state::position::LogPosition;
use crate::state::staged::{Answered, Staged};
use crate::state::tables::Numbered;
use crate::state::totals::Totals;
use std::time::Duration;
use wayfs_types::ConflictKind;
use wayfs_types::{
    CommitNumber, FileId, Image, Key, MetaStore, Name, OriginId, RecordId, StorageError, Ticket, Time, Top,
};
use wayfs_wire::{Resume, Stamp};

/// The store and its rows.
impl<S: MetaStore> State<S> {
    /// Whether the whole volume is in it: then what is not here is nowhere, and nobody need be asked.
    pub(crate) fn holds_all(&self) -> bool {
        self.tree == Tree::Whole
    }

    pub(crate) fn store(&self) -> &S {
        &self.store
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) fn into_store(self) -> S {
        self.store
    }

    /// The store seen through what this input changed so far.
    pub(crate) fn tx(&mut self) -> Tx<'_, S> {
        Tx { store: &self.store, views: &self.views, overlay: &mut self.overlay, is_whole: self.tree == Tree::Whole }
    }

    pub(crate) fn put_image(&mut self, key: Key, image: Option<Image>) -> Result<(), StorageError> {
        wayfs_tree::ViewMut::put(&mut self.tx(), key, image)
    }
}

/// Rows of the committed view.
impl<S: MetaStore> State<S> {
    /// Looks at one, and must not look at another meanwhile.
    pub(crate) fn look<T>(&self, key: &Key, look: impl FnOnce(Option<&Numbered>) -> T) -> Result<T, StorageError> {
        self.views.look(&self.store, key, look)
    }

    /// A row that is kept in memory and is another one in the store, if there is one. Reads all that are kept.
    pub(crate) fn kept_row_is_wrong(&self) -> Result<Option<String>, StorageError> {
        let generations = self.views.generations.borrow();
        for (key, kept) in generations.young.iter().chain(&generations.old) {
            let stored = crate::state::tables::read_view(&self.store, key)?;
            if stored != *kept {
                return Ok(Some(format!("{key:?} is kept as {kept:?} and stored as {stored:?}")));
            }
        }
        Ok(None)
    }

    /// A row of the committed view.
    pub(crate) fn row_of(&self, key: &Key) -> Result<Option<Numbered>, StorageError> {
        self.views.look(&self.store, key, |row| row.cloned())
    }

    /// Its image.
    pub(crate) fn image(&self, key: &Key) -> Result<Option<Image>, StorageError> {
        self.views.look(&self.store, key, |row| row.map(|row| row.image.clone()))
    }
}

/// What this input does.
impl<S> State<S> {
    /// Writes a row of a table that is not the view's.
    pub(crate) fn put_row(&mut self, key: Vec<u8>, value: Vec<u8>) {
        self.overlay.put_raw(key, value);
    }

    /// Removes one.
    pub(crate) fn delete_row(&mut self, key: Vec<u8>) {
        self.overlay.delete_raw(key);
    }

    pub(crate) fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// An image counts as changed, though it is as it was.
    pub(crate) fn renew(&mut self, key: Key) {
        self.overlay.renew(key);
    }

    /// Puts what this input did by for as long as something else is committed.
    pub(crate) fn take_overlay(&mut self) -> Overlay {
        std::mem::take(&mut self.overlay)
    }

    pub(crate) fn set_overlay(&mut self, overlay: Overlay) {
        self.overlay = overlay;
    }

    /// Forgets what this input did.
    pub(crate) fn abandon(&mut self) {
        self.overlay = Overlay::default();
        self.staged = Staged::default();
        self.counters = self.saved;
    }

    /// Goes out when this input is committed.
    pub(crate) fn stage_output(&mut self, output: Output) {
        self.staged.outputs.push(output);
    }

    /// The marks of an origin may have moved.
    pub(crate) fn stage_marks(&mut self, origin: OriginId) {
        self.staged.marks.insert(origin);
    }

    /// Those of our own records did.
    pub(crate) fn stage_own_marks(&mut self) {
        self.staged.marks_moved = true;
    }

    /// A record leaves the log.
    pub(crate) fn stage_forgotten(&mut self, position: LogPosition) {
        self.staged.forgotten.push(position);
    }

    /// Changes of the running sums.
    pub(crate) fn stage_totals(&mut self) -> &mut Totals {
        &mut self.staged.totals
    }

    /// The parent answered a question.
    pub(crate) fn stage_answered(&mut self, answered: Answered) {
        self.staged.answered.push(answered);
    }

    /// Names that an answer brings and of which nobody here was told anything yet.
    pub(crate) fn stage_learned(&mut self, names: impl IntoIterator<Item = (FileId, Name)>) {
        self.staged.kernel.learned.extend(names);
    }

    /// Children that write under this origin are told of every key that changed.
    pub(crate) fn stage_echo(&mut self, origin: OriginId) {
        self.staged.echo.insert(origin);
    }

    /// A record was taken from a child client, of whose change others must have heard.
    pub(crate) fn stage_taken(&mut self, record: RecordId) {
        self.staged.taken.push(record);
    }

    /// The change was made by our own user, so that the kernel knows of it, unless it met another.
    pub(crate) fn stage_own(&mut self, met: Option<ConflictKind>) {
        self.staged.kernel.own = met.is_none();
    }

    /// The record over lost numbers is written.
    pub(crate) fn stage_gap(&mut self, gap: Gap) {
        self.staged.gap = Some(gap);
    }

    /// Whether this input writes one.
    pub(crate) fn has_staged_gap(&self) -> bool {
        self.staged.gap.is_some()
    }

    /// Something of a takeover's findings is written.
    pub(crate) fn stage_found(&mut self, kind: Kind, file: FileId) {
        self.staged.found.push((kind, file));
    }

    /// Home: contents of a version are missing from now on.
    pub(crate) fn stage_noted(&mut self, file: FileId, version: RecordId, top: Top) {
        self.staged.noted.push((file, version, top));
    }

    /// A version was overwritten before it stood in the view.
    pub(crate) fn stage_superseded(&mut self, superseded: impl IntoIterator<Item = Superseded>) {
        self.staged.superseded.extend(superseded);
    }
}

/// Numbers, sums and the log.
impl<S> State<S> {
    /// Newest change of the view, in this replica's own numbering.
    pub(crate) fn change(&self) -> CommitNumber {
        self.counters.change
    }

    pub(crate) fn set_change(&mut self, change: CommitNumber) {
        self.counters.change = change;
    }

    /// Last sequence of our own.
    pub(crate) fn sequence(&self) -> u64 {
        self.counters.sequence
    }

    pub(crate) fn set_sequence(&mut self, sequence: u64) {
        self.counters.sequence = sequence;
    }

    /// Tombstones are purged up to this change.
    pub(crate) fn purged(&self) -> CommitNumber {
        self.counters.purged
    }

    #[cfg(any(test, fuzzing))]
    pub(crate) fn purge_all(&mut self) {
        self.counters.purged = self.counters.change;
    }

    /// Names this store for children: this, if it has no name yet.
    pub(crate) fn name_store(&mut self, stamp: Stamp) -> Stamp {
        *self.counters.stamp.get_or_insert(stamp)
    }

    /// Where we left off with our parent.
    pub(crate) fn resume(&self) -> Option<Resume> {
        self.counters.resume
    }

    pub(crate) fn set_resume(&mut self, resume: Option<Resume>) {
        self.counters.resume = resume;
    }

    /// A station that takes over the whole state: what has a number up to here at the end is no more.
    pub(crate) fn reset(&self) -> Option<CommitNumber> {
        self.counters.reset
    }

    pub(crate) fn set_reset(&mut self, reset: Option<CommitNumber>) {
        self.counters.reset = reset;
    }

    /// The home was put back to an older copy: what it lost is written again.
    pub(crate) fn rescues(&self) -> bool {
        self.counters.rescues
    }

    pub(crate) fn begin_rescue(&mut self) {
        self.counters.rescues = true;
    }

    /// Whether it was so. It is done.
    pub(crate) fn take_rescues(&mut self) -> bool {
        std::mem::take(&mut self.counters.rescues)
    }

    /// The parent's whole state has been here once.
    pub(crate) fn synced(&self) -> bool {
        self.counters.synced
    }

    pub(crate) fn note_synced(&mut self) {
        self.counters.synced = true;
    }

    /// Running sums over the tables, as committed.
    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The same with what this input changes.
    pub(crate) fn total(&self, count: fn(&Totals) -> i64) -> i64 {
        count(&self.totals) + count(&self.staged.totals)
    }

    pub(crate) fn set_totals(&mut self, totals: Totals) {
        self.totals = totals;
    }

    pub(crate) fn log(&self) -> &Log {
        &self.log
    }

    pub(crate) fn set_log(&mut self, log: Log) {
        self.log = log;
    }

    /// What our own records are elsewhere: the log's sums go by it.
    pub(crate) fn advance_log(&mut self, progress: OwnProgress) {
        self.log.advance(progress);
    }

    /// Our own records bear another origin: their sums begin anew.
    pub(crate) fn tally_log_anew(&mut self) {
        self.log.tally_anew();
    }

    /// All up to this sequence of our own is safe, visible and stable: what was cancelled in favour of it has come as far.
    pub(crate) fn unbind_log(&mut self, through: u64) {
        self.log.unbind(through);
    }

    /// How often the log was replayed.
    pub(crate) fn replays(&self) -> u64 {
        self.replays
    }
}

/// What is durable.
impl<S> State<S> {
    /// Newest batch committed.
    pub(crate) fn ticket(&self) -> Ticket {
        self.durable.ticket
    }

    /// Newest batch durable.
    pub(crate) fn stored(&self) -> Ticket {
        self.durable.stored
    }

    /// The newest batch holds this record of our own.
    pub(crate) fn note_own(&mut self, sequence: u64) {
        self.durable.note_own(sequence);
    }

    /// Own records are numbered anew.
    pub(crate) fn forget_own(&mut self) {
        self.durable.forget_own();
    }

    /// Forgets which of our own records are durable by now.
    pub(crate) fn trim_own(&mut self) {
        self.durable.trim_own();
    }

    /// Somebody waits for the newest batch.
    pub(crate) fn want_sync(&mut self) {
        self.durable.sync_wanted = true;
    }

    /// What is committed is to be durable within this time.
    pub(crate) fn sync_within(&mut self, now: Time, gather: Duration) {
        self.durable.sync_within(now, gather);
    }

    /// When a batch that nobody waits for is to be synced after all.
    pub(crate) fn timeout(&self) -> Option<Time> {
        self.durable.sync_at
    }

    /// Looks whether that time has come.
    pub(crate) fn check_timers(&mut self, now: Time) {
        self.durable.check(now);
    }
}
