//! How far each origin's records have come, and when.

use crate::contents::Contents;
use crate::contents::missing::{HOLDERS_MAX, Missing};
use crate::replica::Replica;
use crate::replica::composition::Position;
use crate::replica::core::Core;
use crate::report::VersionState;
use crate::state::State;
use crate::state::of_record::content_named;
use crate::state::tables::{
    after_prefix, milestone_key, origin_key, pack, parse_origin_key, parse_root_key, record_key, root_prefix, table,
    unpack,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use wayfs_tree::ALIAS_CHAIN_MAX;
use wayfs_types::request::Level;
use wayfs_types::{Content, Fact, Facts, FileId, Inode, MetaStore, OriginId, RecordId, StorageError, WallTime};
use wayfs_wire::Mark;

/// The place of *stable* among the steps.
const STABLE: usize = 2;
/// Steps of each level of an origin whose times are kept.
const MILESTONES: u64 = 1024;

/// Marks of one origin.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marks {
    pub(crate) safe: u64,
    pub(crate) visible: u64,
    pub(crate) stable: u64,
    /// Steps noted of each level, for the ring of milestones.
    steps: [u64; 3],
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Milestone {
    through: u64,
    at: WallTime,
    /// The server that said so; `None`: this replica saw it itself.
    by: Option<OriginId>,
}

impl<S: MetaStore> Replica<S> {
    /// The marks of an origin as this replica vouches for them to a child.
    pub(crate) fn mark_for_child(&mut self, origin: OriginId) -> Result<Mark, StorageError> {
        let (applied, chain) = wayfs_tree::applied_chain(&self.core.state.tx(), origin)?;
        let awaited = self.contents.first_awaited(&mut self.core, origin)?.map_or(applied, |first| first - 1);
        let callbacks = self.children.first_blocked(origin).map_or(applied, |first| first - 1);
        let accounted = self.children.accounts_for(origin);
        let safe = applied.min(awaited).min(callbacks).min(accounted);
        let (visible, stable) = if self.core.orders() {
            let missing = self.contents.first_missing(&mut self.core, origin)?.map_or(applied, |first| first - 1);
            (applied, applied.min(missing))
        } else {
            let confirmed = self.core.state.confirmed_applied(origin)?;
            (confirmed.min(applied), self.core.state.marks(origin)?.stable.min(applied))
        };
        Ok(Mark { origin, applied, safe, visible, stable, check: chain.check() })
    }

    /// Last sequence of our own up to which every fact holds that a level implies.
    ///
    /// What is stable is safe, too: record and contents are durable at the home. A wait for *safe* alone asks for the
    /// station's word, which comes after the caches of its other clients were told.
    pub(crate) fn own_through(&self, level: Level) -> u64 {
        let Ok(marks) = self.core.state.marks_committed(self.core.config.origin) else { return 0 };
        let through = |fact| self.own_fact_through(&marks, fact);
        let (safe, stable) = (through(Level::Safe), through(Level::Stable));
        let reached = match level {
            Level::Modified => u64::MAX,
            Level::Safe => safe,
            Level::Visible => through(Level::Visible).min(safe.max(stable)),
            Level::Stable if self.is_recounting() => 0,
            Level::Stable => through(Level::Visible).min(stable),
        };
        self.core.state.own_durable().min(reached)
    }

    /// Last sequence of our own of which one fact holds, whatever the others say.
    fn own_fact_through(&self, marks: &Marks, fact: Level) -> u64 {
        match (self.core.composition.position, fact) {
            (Position::Orders, _) | (_, Level::Modified) | (Position::Relays, Level::Safe) => u64::MAX,
            (Position::Relays, Level::Visible) => {
                self.core.state.confirmed_applied_committed(self.core.config.origin).unwrap_or_default()
            }
            (Position::Writes, Level::Safe) => self.contents.up_to_rows(&self.core, &[table::OWED], marks.safe),
            (Position::Writes, Level::Visible) => marks.visible,
            (Position::Writes, Level::Stable) => {
                self.contents.up_to_rows(&self.core, &[table::OWED, table::LENT], marks.stable)
            }
            (Position::Relays, Level::Stable) => marks.stable,
        }
    }

    /// How far the current version of a file has come, as far as this replica knows. `None`: no such file here.
    ///
    /// # Errors
    /// [`StorageError`] if the tables cannot be read.
    pub fn level(&self, file: FileId) -> Result<Option<VersionState>, StorageError> {
        let Some(inode) = self.core.state.inode_meant(file)? else { return Ok(None) };
        let version = inode.version;
        let facts = self.record_facts(version, content_named(&inode))?;
        let is_own = self.histories.is_our_own(&self.core, version);
        let safe_at = if is_own && facts.safe.holds() {
            self.core.state.milestone_row(version.origin(), 0, version.sequence())?.and_then(|step| step.by)
        } else {
            None
        };
        Ok(Some(VersionState { version, facts, safe_at }))
    }

    /// What this replica knows of one record. `content`: what it names, [`Content::EMPTY`] if it names none; `None`: that
    /// is not known.
    pub(crate) fn record_facts(&self, record: RecordId, content: Option<&Content>) -> Result<Facts, StorageError> {
        if record.origin() == OriginId::GENESIS {
            return Ok(Facts::GENESIS);
        }
        let mut facts = match self.core.composition.position {
            Position::Orders => self.core.state.facts_at_home(record, content)?,
            Position::Relays => self.core.state.facts_at_station(record, content)?,
            Position::Writes if self.histories.is_our_own(&self.core, record) => self.core.facts_of_own(record)?,
            // Nothing is shown to a client that is not durable at a server.
            Position::Writes => {
                let safe = if is_in_record(content) { Fact::Holds(None) } else { Fact::Unknown };
                Facts { safe, ..Facts::default() }.or(self.uplink.facts().lasting(record))
            }
        };
        if let Some(at) = self.contents.stable_alone(record) {
            facts.stable = Fact::Holds(Some(at));
        }
        if is_in_record(content) && facts.visible.holds() {
            facts.stable = facts.stable.or(facts.visible);
        }
        let facts = Contents::as_fate_says(&self.core, record, facts)?;
        if self.core.writes() { Contents::as_rows_say(&self.core, record, facts) } else { Ok(facts) }
    }
}

impl<S: MetaStore> State<S> {
    /// Last sequence of our own that is durable here.
    pub(crate) fn own_durable(&self) -> u64 {
        if self.durable.stored >= self.durable.ticket {
            return self.counters.sequence;
        }
        let undurable = self.durable.first_undurable();
        undurable.map_or(self.counters.sequence, |first| first - 1)
    }

    /// What is known of an origin's records.
    pub(crate) fn marks(&mut self, origin: OriginId) -> Result<Marks, StorageError> {
        let bytes = self.tx().get_raw(&origin_key(table::MARK, origin))?;
        bytes.map_or_else(|| Ok(Marks::default()), |bytes| unpack(&bytes))
    }

    /// As [`State::marks`], of the committed state.
    pub(crate) fn marks_committed(&self, origin: OriginId) -> Result<Marks, StorageError> {
        let bytes = self.store.get(&origin_key(table::MARK, origin))?;
        bytes.map_or_else(|| Ok(Marks::default()), |bytes| unpack(&bytes))
    }

    /// Origins of which a mark is known.
    pub(crate) fn marked(&self) -> Result<Vec<OriginId>, StorageError> {
        let mut origins = Vec::new();
        self.each(&[table::MARK], &[table::MARK + 1], |key, _| {
            origins.push(parse_origin_key(key)?);
            Ok(())
        })?;
        Ok(origins)
    }

    /// The inode of a file, be it asked for by the id of one that was merged into it: such a marker names no content.
    pub(crate) fn inode_meant(&self, file: FileId) -> Result<Option<Arc<Inode>>, StorageError> {
        let mut inode = self.inode(file)?;
        for _ in 0..ALIAS_CHAIN_MAX {
            let Some(into) = inode.as_ref().and_then(|inode| inode.merged_into) else { break };
            inode = self.inode(into)?;
        }
        Ok(inode)
    }

    /// The file that one became which was found equal to another, or itself.
    pub(crate) fn file_meant(&self, mut file: FileId) -> Result<FileId, StorageError> {
        for _ in 0..ALIAS_CHAIN_MAX {
            let Some(into) = self.inode(file)?.and_then(|inode| inode.merged_into) else { break };
            file = into;
        }
        Ok(file)
    }

    fn facts_at_home(&self, record: RecordId, content: Option<&Content>) -> Result<Facts, StorageError> {
        let is_applied = record.sequence() <= self.confirmed_applied_committed(record.origin())?;
        // What a power cut would take is not at the home yet: its writer, or its station, sends it once more.
        if !is_applied || self.durable.is_applied_undurable(record) {
            return Ok(Facts { safe: Fact::Unknown, visible: Fact::No, stable: Fact::No });
        }
        let visible = Fact::Holds(self.milestone(record.origin(), 1, record.sequence())?);
        let Some(missing) = self.missing_row(record, content)? else {
            let stable = Fact::Holds(self.milestone(record.origin(), 2, record.sequence())?);
            return Ok(Facts { safe: Fact::Unknown, visible, stable });
        };
        let is_awaited = self.store.get(&record_key(table::AWAITED, record))?.is_some();
        let safe = match missing.safe {
            Some(since) => Fact::Holds(Some(since)),
            None if is_awaited => Fact::No,
            // A station may be waiting for its client.
            None => Fact::Unknown,
        };
        Ok(Facts { safe, visible, stable: Fact::No })
    }

    fn facts_at_station(&self, record: RecordId, content: Option<&Content>) -> Result<Facts, StorageError> {
        let (origin, sequence) = (record.origin(), record.sequence());
        let is_visible = sequence <= self.confirmed_applied_committed(origin)?;
        let is_owed = self.store.get(&record_key(table::OWED, record))?.is_some();
        let missing = self.missing_row(record, content)?;
        let is_awaited = self.store.get(&record_key(table::AWAITED, record))?.is_some();
        let is_logged = self.log.position_of(record).is_some();
        let is_durable = self.log.ticket_of(record).is_none_or(|ticket| ticket <= self.durable.stored);
        let safe = match (missing, is_awaited) {
            (_, true) => Fact::No,
            // Another server vouched for it: its client lets it go.
            (Some(_), false) => Fact::Unknown,
            (None, false) if !is_durable => Fact::No,
            (None, false) if is_owed || is_logged || is_in_record(content) => {
                Fact::Holds(self.milestone(origin, 0, sequence)?)
            }
            (None, false) => Fact::Unknown,
        };
        let visible = if is_visible { Fact::Holds(self.milestone(origin, 1, sequence)?) } else { Fact::No };
        let stable = if self.marks_committed(origin)?.stable >= sequence {
            Fact::Holds(self.milestone(origin, 2, sequence)?)
        } else if is_owed {
            Fact::No
        } else {
            Fact::Unknown
        };
        Ok(Facts { safe, visible, stable })
    }

    /// The row that says that contents are not here, be it under the name of another record whose contents are equal.
    fn missing_row(&self, record: RecordId, content: Option<&Content>) -> Result<Option<Missing>, StorageError> {
        if let Some(bytes) = self.store.get(&record_key(table::MISSING, record))? {
            return Ok(Some(unpack(&bytes)?));
        }
        let Some(root) = content.and_then(Content::root) else { return Ok(None) };
        let prefix = root_prefix(&root);
        for (key, _) in self.store.scan(&prefix, &after_prefix(&prefix), HOLDERS_MAX)? {
            if let Some(bytes) = self.store.get(&record_key(table::MISSING, parse_root_key(&key)?))? {
                let missing: Missing = unpack(&bytes)?;
                if missing.version == record {
                    return Ok(Some(missing));
                }
            }
        }
        Ok(None)
    }

    fn milestone(&self, origin: OriginId, level: u8, sequence: u64) -> Result<Option<WallTime>, StorageError> {
        Ok(self.milestone_row(origin, level, sequence)?.map(|step| step.at))
    }

    /// The first step kept of a level that reached a record.
    ///
    /// Steps only go forward, so the ring is sorted from its oldest step on: ten reads, however many are kept.
    fn milestone_row(&self, origin: OriginId, level: u8, sequence: u64) -> Result<Option<Milestone>, StorageError> {
        let steps = self.marks_committed(origin)?.steps[usize::from(level)];
        let (mut from, mut until) = (steps.saturating_sub(MILESTONES), steps);
        let mut first = None;
        while from < until {
            let middle = from.midpoint(until);
            let bytes = self.store.get(&milestone_key(origin, level, middle % MILESTONES))?;
            let Some(bytes) = bytes else { return Ok(None) };
            let step: Milestone = unpack(&bytes)?;
            if step.through >= sequence {
                first = Some(step);
                until = middle;
            } else {
                from = middle + 1;
            }
        }
        Ok(first)
    }
}

impl<S: MetaStore> Core<S> {
    /// What the parent told of our own records.
    fn facts_of_own(&self, record: RecordId) -> Result<Facts, StorageError> {
        let (origin, sequence) = (record.origin(), record.sequence());
        let marks = self.state.marks_committed(origin)?;
        let fact = |of: u8, through: u64| {
            Ok::<_, StorageError>(if sequence <= through {
                Fact::Holds(self.state.milestone(origin, of, sequence)?)
            } else {
                Fact::No
            })
        };
        // What was sent ahead of our own disk is called safe when that has it, too.
        let safe = marks.safe.min(self.state.own_durable());
        let stable = match fact(2, marks.stable)? {
            // Of a number that this machine gave up no mark is told any more.
            Fact::No if origin != self.config.origin => Fact::Unknown,
            told @ (Fact::Unknown | Fact::No | Fact::Holds(_)) => told,
        };
        Ok(Facts { safe: fact(0, safe)?, visible: fact(1, marks.visible)?, stable })
    }

    /// Moves an origin's marks forward, never back, and notes when. (`taken_back` tells when what is stable goes back.)
    pub(crate) fn advance_marks(&mut self, mark: Mark) -> Result<Marks, StorageError> {
        let mut marks = self.state.marks(mark.origin)?;
        let before = marks;
        let by = self.parent_stamp().map(|stamp| stamp.origin);
        let levels = [(0, mark.safe), (1, mark.visible), (2, mark.stable)];
        for (level, through) in levels {
            let known = match level {
                0 => &mut marks.safe,
                1 => &mut marks.visible,
                _ => &mut marks.stable,
            };
            if through <= *known {
                continue;
            }
            *known = through;
            let step = &mut marks.steps[usize::from(level)];
            let slot = *step % MILESTONES;
            *step += 1;
            self.state
                .overlay
                .put_raw(milestone_key(mark.origin, level, slot), pack(&Milestone { through, at: self.wall, by }));
        }
        if marks != before {
            self.state.overlay.put_raw(origin_key(table::MARK, mark.origin), pack(&marks));
            self.state.staged.marks_moved |= mark.origin == self.config.origin;
        }
        Ok(marks)
    }

    /// Moves the mark of what is stable of an origin back; answers where it was, if it was further.
    pub(crate) fn lower_stable(&mut self, origin: OriginId, through: u64) -> Result<Option<u64>, StorageError> {
        let mut marks = self.state.marks(origin)?;
        let before = marks.stable;
        if through >= before {
            return Ok(None);
        }
        // Steps only go forward, so those of before go, too.
        (marks.stable, marks.steps[STABLE]) = (through, 0);
        self.state.overlay.put_raw(origin_key(table::MARK, origin), pack(&marks));
        self.state.staged.marks_moved |= origin == self.config.origin;
        self.state.staged.marks.insert(origin);
        Ok(Some(before))
    }
}

/// Whether contents are known to travel in their record, or there are none.
fn is_in_record(content: Option<&Content>) -> bool {
    content.is_some_and(|content| content.root().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Role;
    use crate::tests::world::{HOME, World, small};

    /// The ring of steps is searched by halves; a look at every row must find the same.
    #[test]
    fn the_first_step_that_reached_a_record_is_found_after_the_ring_went_round() {
        let mut world = World::new();
        let client = world.add(Role::Client, "ann@a");
        world.connect(client, HOME);
        world.settle();
        let file = world.create(client, FileId::ROOT, "log");
        for line in 0..MILESTONES + 40 {
            world.store(client, file, small(&format!("{line}")));
            world.settle();
        }
        let replica = &world.hosts[client].replica;
        let origin = replica.core.config.origin;
        let steps = replica.core.state.marks_committed(origin).unwrap().steps;
        assert!(steps.iter().all(|steps| *steps > MILESTONES), "the rings went round: {steps:?}");
        let last = replica.core.state.marks_committed(origin).unwrap().safe;
        for level in 0..3 {
            for sequence in (0..last + 2).step_by(7) {
                let mut rows: Vec<u64> = Vec::new();
                let (from, until) = (milestone_key(origin, level, 0), milestone_key(origin, level, MILESTONES));
                let note = |value: &[u8]| -> Result<u64, StorageError> { Ok(unpack::<Milestone>(value)?.through) };
                let mut take = |value: &[u8]| -> Result<(), StorageError> {
                    rows.push(note(value)?);
                    Ok(())
                };
                replica.core.state.each(&from, &until, |_, value| take(value)).unwrap();
                let first = rows.into_iter().filter(|through| *through >= sequence).min();
                let found = replica.core.state.milestone_row(origin, level, sequence).unwrap().map(|step| step.through);
                assert_eq!(found, first, "level {level}, sequence {sequence}");
            }
        }
    }
}
