//! A station cancels among the records that it gathered, before they cross the wide area.
//!
//! The rules are `wayfs_tree::Canceller`'s, one for each origin, over the
//! records that are gathered. Only what is sent changes: the station's log and view
//! keep every record as it came, so *safe* means what it meant, and a message
//! that is lost is made anew from the log. A cancelled record travels as an
//! empty one: it counts for the marks and waits of its writer as if it had been
//! sent.
//!
//! A client that moves sends its records through another station, too, as they
//! were. If the home took some of them that way and the rest in the form that
//! stands for all, a file could stay that was removed. So the form that stands
//! for all is taken whole or not at all: the station names the **spans** that
//! belong together, all of a span is in one message, and a parent that has a
//! part of one ends the session. In the next one the station hears how far
//! the parent is, and cancels among what is left.

use crate::api::Config;
use crate::children::stream::FRAME_LEN;
use crate::contents::Contents;
use crate::contents::answers::{ByWriter, Denial};
use crate::members::Members;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::state::log_entry::Written;
use crate::state::of_record::{content_of, files_of};
use crate::state::tables::{record_key, table};
use crate::upstream::leaving::{Gathering, Leaving};
use crate::upstream::{Uplink, Upstream};
use std::collections::{BTreeMap, BTreeSet};
use wayfs_tree::{Canceller, CreateFolding};
use wayfs_types::{Chain, Content, FileId, MetaStore, OriginId, Record, RecordId, StorageError, Time};
use wayfs_wire::{SentRecord, Span, Up};

/// Files that records of several origins are about: nothing of theirs is cancelled. `resolve` leads from an id to the file
/// that it was merged into here.
fn shared_files(
    records: &[SentRecord],
    mut resolve: impl FnMut(FileId) -> Result<FileId, StorageError>,
) -> Result<BTreeSet<FileId>, StorageError> {
    let mut first: BTreeMap<FileId, OriginId> = BTreeMap::new();
    let mut shared = BTreeSet::new();
    for SentRecord { record, .. } in records {
        for file in files_of(record) {
            let known = resolve(file)?;
            let is_foreign = *first.entry(known).or_insert(record.id.origin()) != record.id.origin();
            if is_foreign || known != file {
                shared.extend([file, known]);
            }
        }
        // A directory in which another works must be there for him.
        for directory in wayfs_tree::parents_of(&record.op) {
            let known = resolve(directory)?;
            if first.get(&known).is_some_and(|origin| *origin != record.id.origin()) {
                shared.extend([directory, known]);
            }
        }
    }
    Ok(shared)
}

/// What is to be sent in place of some of the records.
fn cancelled(records: &[SentRecord], shared: &BTreeSet<FileId>) -> BTreeMap<RecordId, Record> {
    let mut cancellers: BTreeMap<OriginId, Canceller> = BTreeMap::new();
    let mut instead = BTreeMap::new();
    for SentRecord { record, .. } in records {
        let canceller = cancellers.entry(record.id.origin()).or_insert_with(|| Canceller::new(CreateFolding::Keep));
        if files_of(record).any(|file| shared.contains(&file)) {
            canceller.observe(record);
        } else {
            instead.extend(canceller.push(record).into_iter().map(|record| (record.id, record)));
        }
    }
    instead
}

fn widen(spans: &mut BTreeMap<OriginId, Span>, id: RecordId, chain: Chain) {
    let (origin, sequence) = (id.origin(), id.sequence());
    let span = spans.entry(origin).or_insert(Span { origin, from: sequence, through: sequence, chain });
    span.from = span.from.min(sequence);
    if sequence >= span.through {
        (span.through, span.chain) = (sequence, chain);
    }
}

/// Records in messages of a size that delays nobody for long; all of the spans in one, whatever its size.
fn messages(
    mut records: Vec<SentRecord>,
    spans: &BTreeMap<OriginId, Span>,
    (most, may_end): (usize, &dyn Fn(RecordId) -> bool),
) -> Vec<Up> {
    let is_bound = |sent: &SentRecord| {
        let (origin, sequence) = (sent.record.id.origin(), sent.record.id.sequence());
        spans.get(&origin).is_some_and(|span| (span.from..=span.through).contains(&sequence))
    };
    let Some(first) = records.iter().position(is_bound) else { return frames(records, (most, may_end)) };
    let last = records.iter().rposition(is_bound).unwrap_or(first);
    let behind = records.split_off(last + 1);
    let bound = records.split_off(first);
    let mut messages = frames(records, (most, may_end));
    messages.push(Up::Cancelled { spans: spans.values().copied().collect(), records: bound });
    messages.extend(frames(behind, (most, may_end)));
    messages
}

fn frames(records: Vec<SentRecord>, (most, may_end): (usize, &dyn Fn(RecordId) -> bool)) -> Vec<Up> {
    let mut frames: Vec<Vec<SentRecord>> = Vec::new();
    let is_open = |frame: &Vec<SentRecord>| frame.last().is_some_and(|last| !may_end(last.record.id));
    let mut len = 0;
    for record in records {
        let more = wayfs_wire::record_len(&record);
        match frames.last_mut().filter(|frame| is_open(frame) || frame.len() < most && len + more <= FRAME_LEN) {
            Some(frame) => frame.push(record),
            None => {
                frames.push(vec![record]);
                len = 0;
            }
        }
        len += more;
    }
    frames.into_iter().map(|records| Up::Records { records }).collect()
}

/// The station's half.
impl<S: MetaStore> Replica<S> {
    /// Puts records into the form in which they are sent, as messages.
    ///
    /// # Errors
    /// [`StorageError`] if the view cannot be read.
    pub(crate) fn cancel_gathered(
        &mut self,
        mut records: Vec<SentRecord>,
        written: &BTreeMap<RecordId, Written>,
    ) -> Result<Vec<Up>, StorageError> {
        if !self.core.relays() || records.len() < 2 {
            return Ok(vec![Up::Records { records }]);
        }
        let mut shared = shared_files(&records, |file| wayfs_tree::resolve(&self.core.state.tx(), file))?;
        shared
            .extend(Uplink::files_with_a_last_whole_content(&mut self.core, records.iter().map(|sent| &sent.record))?);
        let mut instead = cancelled(&records, &shared);
        let mut spans = BTreeMap::new();
        for sent in &mut records {
            let Some(record) = instead.remove(&sent.record.id).filter(|record| *record != sent.record) else {
                continue;
            };
            widen(&mut spans, record.id, written.get(&record.id).map_or(Chain::START, |of| of.after));
            if content_of(&sent.record).map(|(_, content)| content) != content_of(&record).map(|(_, content)| content) {
                self.contents.cancel(record.id);
            }
            sent.record = record;
        }
        Members::seal_spans(&self.core, &mut spans, &records, written);
        let may_end = |id: RecordId| {
            let is_sealed = written.get(&id).is_some_and(|of| of.seal.is_some());
            is_sealed || !Members::ends_at_seals(&self.core, id.origin())
        };
        Ok(messages(records, &spans, (self.core.config.records_per_message, &may_end)))
    }

    /// When the records that wait may leave: after a period if others are under way; else after the moment that is
    /// given to what may undo them. While more keep coming somebody is at work, and may hold a lock for as long: then
    /// that moment begins anew, for a period at most. What was made and left empty may be such a lock, of somebody who
    /// reads for a while: all wait for that period.
    pub(crate) fn gathered_at(&self, upstream: &Upstream) -> Option<Time> {
        let Leaving::Gathered(Some(Gathering { since, newest_at, empty, .. })) = &upstream.leaving else { return None };
        let Config { reconcile_period, reconcile_gather, .. } = self.core.config;
        // Somebody waits for a lock until what was done under it is there.
        if self.locks.is_release_waiting() {
            return Some(self.core.now);
        }
        if let Some(at) = upstream.records_at.filter(|_| upstream.is_flying()) {
            return Some(at + reconcile_period);
        }
        let latest = *since + reconcile_gather.max(reconcile_period);
        let is_patient = !empty.is_empty() && !reconcile_gather.is_zero();
        Some(if is_patient { latest } else { latest.min(*newest_at + reconcile_gather) })
    }
}

impl Uplink {
    /// Notes since when records wait to be sent.
    pub(crate) fn note_gathering<S: MetaStore>(&mut self, core: &Core<S>) {
        let now = core.now;
        let newest = core.state.log().newest();
        let (Some(upstream), Some(line)) = (self.session.as_mut(), core.line.as_ref()) else { return };
        let Leaving::Gathered(gathering) = &mut upstream.leaving else { return };
        let Some(newest) = newest.filter(|newest| *newest > line.position) else {
            *gathering = None;
            return;
        };
        let gathering = gathering.get_or_insert_with(|| Gathering::of_old(line.position, now));
        if gathering.newest < newest {
            for (_, item) in core.state.log().from(gathering.newest.next()) {
                item.empty_change.note(item.id, &mut gathering.empty);
            }
            (gathering.newest, gathering.newest_at) = (newest, now);
        }
    }

    /// A message left. What comes behind it has waited.
    pub(crate) fn begin_gathering_anew<S: MetaStore>(&mut self, core: &Core<S>) {
        let now = core.now;
        let newest = core.state.log().newest();
        let (Some(upstream), Some(line)) = (self.session.as_mut(), core.line.as_ref()) else { return };
        let left = newest.filter(|newest| *newest > line.position);
        if let Leaving::Gathered(gathering) = &mut upstream.leaving {
            *gathering = left.map(|newest| Gathering::of_old(newest, now));
        }
    }

    /// Files of which a content took another's place and is not here, or not any more, or with nobody below: if it dies with its
    /// writer, or has died, the one before is what is left. That one may be on its way here still, and be called safe first.
    pub(crate) fn files_with_a_last_whole_content<'a, S: MetaStore>(
        core: &mut Core<S>,
        records: impl Iterator<Item = &'a Record>,
    ) -> Result<BTreeSet<FileId>, StorageError> {
        let (mut earlier, mut found) = (BTreeSet::new(), BTreeSet::new());
        for record in records {
            let Some((file, content)) = content_of(record).filter(|(_, content)| **content != Content::EMPTY) else {
                continue;
            };
            if !earlier.insert(file)
                && content.root().is_some()
                && (Contents::missing(core, record.id)?.is_some()
                    || Contents::is_vanished(core, record.id)?
                    || !Self::still_holds(core, record)?)
            {
                found.insert(file);
            }
        }
        Ok(found)
    }
}

/// The parent's half.
impl<S: MetaStore> Replica<S> {
    /// Takes records of which some stand for more than they say.
    pub(crate) fn handle_cancelled(
        &mut self,
        peer: crate::PeerId,
        child: OriginId,
        spans: &[Span],
        records: Vec<SentRecord>,
    ) -> Result<(), StepError> {
        if !self.children.is_station(child) {
            return Err(StepError::Peer(peer, "cancels what it did not gather".to_owned()));
        }
        for Span { origin, from, through, .. } in spans {
            let (origin, from, through) = (*origin, *from, *through);
            let applied = wayfs_tree::applied(&self.core.state.tx(), origin)?;
            if (from..through).contains(&applied) {
                let text = format!(
                    "cancelled records {from} to {through} of {origin}, of which {applied} came by another way"
                );
                return Err(StepError::Peer(peer, text));
            }
        }
        self.handle_records(peer, child, records, spans)
    }

    /// What was cancelled has been passed by the parent: it is told that we have the contents, or that nobody below has, and answers
    /// that they need not be kept, or waited for.
    pub(crate) fn release_cancelled(&mut self, origin: OriginId, through: u64) -> Result<(), StorageError> {
        for version in self.contents.cancelled_through(origin, through) {
            if self.core.state.tx().get_raw(&record_key(table::OWED, version))?.is_some() {
                self.contents.have(version);
            } else if Contents::missing(&mut self.core, version)?
                .is_some_and(|missing| missing.everybody().next().is_none())
            {
                self.contents.deny(version, Denial::Missing(ByWriter::No));
            }
        }
        Ok(())
    }
}
