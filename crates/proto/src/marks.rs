//! How far each origin's records have come, and when.

use crate::api::Role;
use crate::replica::Replica;
use crate::report::VersionState;
use crate::tables::{milestone_key, origin_key, pack, record_key, table, unpack};
use serde::{Deserialize, Serialize};
use wayfs_types::request::Level;
use wayfs_types::{FileId, MetaStore, OriginId, RecordId, StorageError, WallTime};
use wayfs_wire::Mark;

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
struct Milestone {
    through: u64,
    at: WallTime,
}

impl<S: MetaStore> Replica<S> {
    /// What is known of an origin's records.
    pub(crate) fn marks(&mut self, origin: OriginId) -> Result<Marks, StorageError> {
        let bytes = self.tx().get_raw(&origin_key(table::MARK, origin))?;
        bytes.map_or_else(|| Ok(Marks::default()), |bytes| unpack(&bytes))
    }

    fn marks_committed(&self, origin: OriginId) -> Result<Marks, StorageError> {
        let bytes = self.store.get(&origin_key(table::MARK, origin))?;
        bytes.map_or_else(|| Ok(Marks::default()), |bytes| unpack(&bytes))
    }

    /// Moves an origin's marks forward, never back, and notes when.
    pub(crate) fn advance_marks(&mut self, mark: Mark) -> Result<Marks, StorageError> {
        let mut marks = self.marks(mark.origin)?;
        let before = marks;
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
            self.overlay.put_raw(milestone_key(mark.origin, level, slot), pack(&Milestone { through, at: self.wall }));
        }
        if marks != before {
            self.overlay.put_raw(origin_key(table::MARK, mark.origin), pack(&marks));
        }
        Ok(marks)
    }

    /// The marks of an origin as this replica vouches for them to a child.
    pub(crate) fn mark_for_child(&mut self, origin: OriginId) -> Result<Mark, StorageError> {
        let applied = wayfs_tree::applied(&self.tx(), origin)?;
        let awaited = self.first_awaited(origin)?.map_or(applied, |first| first - 1);
        let callbacks = self.children.first_blocked(origin).map_or(applied, |first| first - 1);
        let child = self.children.by_origin.get(&origin).filter(|child| !child.is_station && child.peer.is_some());
        let accounted = child.map_or(u64::MAX, |child| child.accounted);
        let safe = applied.min(awaited).min(callbacks).min(accounted);
        let (visible, stable) = match self.config.role {
            Role::Home => {
                let missing = self.first_missing(origin)?.map_or(applied, |first| first - 1);
                (applied, applied.min(missing))
            }
            Role::Station | Role::Client => {
                let confirmed = self.confirmed_applied(origin)?;
                (confirmed.min(applied), self.marks(origin)?.stable.min(applied))
            }
        };
        Ok(Mark { origin, applied, safe, visible, stable })
    }

    /// Last sequence of our own that is durable here.
    pub(crate) fn own_durable(&self) -> u64 {
        if self.stored >= self.ticket {
            return self.counters.sequence;
        }
        let undurable = self.requests.peek_undurable(self.stored);
        undurable.map_or(self.counters.sequence, |first| first - 1)
    }

    /// Last sequence of our own that has come so far.
    pub(crate) fn own_through(&self, level: Level) -> u64 {
        let durable = self.own_durable();
        let Ok(marks) = self.marks_committed(self.config.origin) else { return 0 };
        let applied = || self.confirmed_applied_committed(self.config.origin).unwrap_or_default();
        match (self.config.role, level) {
            (_, Level::Modified) | (Role::Home, _) | (Role::Station, Level::Safe) => durable,
            (Role::Station, Level::Visible) => durable.min(applied()),
            (Role::Client, Level::Safe) => durable.min(marks.safe),
            (Role::Client, Level::Visible) => durable.min(marks.visible),
            (Role::Station | Role::Client, Level::Stable) => durable.min(marks.stable),
        }
    }

    /// How far the current version of a file has come. `None`: no such file here.
    ///
    /// # Errors
    /// [`StorageError`] if the tables cannot be read.
    pub fn level(&self, file: FileId) -> Result<Option<VersionState>, StorageError> {
        let Some(inode) = self.inode(file)? else { return Ok(None) };
        let version = inode.version;
        let origin = version.origin();
        let level = self.version_level(version)?;
        let at = |of: u8, wanted: Level| -> Result<Option<WallTime>, StorageError> {
            if level < wanted { Ok(None) } else { self.milestone(origin, of, version.sequence()) }
        };
        let stable_at = match self.stable_alone(version) {
            Some(at) => Some(at),
            None => at(2, Level::Stable)?,
        };
        Ok(Some(VersionState {
            version,
            level,
            safe_at: at(0, Level::Safe)?,
            visible_at: at(1, Level::Visible)?,
            stable_at,
        }))
    }

    /// How far one record has come, as far as this replica knows.
    pub(crate) fn version_level(&self, version: RecordId) -> Result<Level, StorageError> {
        let (origin, sequence) = (version.origin(), version.sequence());
        if origin == OriginId::GENESIS {
            return Ok(Level::Stable);
        }
        let has = |of: u8| Ok::<bool, StorageError>(self.store.get(&record_key(of, version))?.is_some());
        let missing = has(table::MISSING)?;
        Ok(match self.config.role {
            Role::Home if missing => Level::Visible,
            Role::Home => Level::Stable,
            Role::Station => {
                let visible = sequence <= self.confirmed_applied_committed(origin)?;
                match (visible, missing, has(table::OWED)?) {
                    (true, false, false) if self.marks_committed(origin)?.stable >= sequence => Level::Stable,
                    (true, false, false) if self.stable_alone(version).is_some() => Level::Stable,
                    (true, _, _) => Level::Visible,
                    (false, true, _) => Level::Modified,
                    (false, false, _) => Level::Safe,
                }
            }
            Role::Client if origin == self.config.origin => {
                let through = |level| sequence <= self.own_through(level);
                if through(Level::Stable) || (self.stable_alone(version).is_some() && through(Level::Visible)) {
                    Level::Stable
                } else if through(Level::Visible) {
                    Level::Visible
                } else if through(Level::Safe) {
                    Level::Safe
                } else {
                    Level::Modified
                }
            }
            Role::Client => Level::Safe,
        })
    }

    fn milestone(&self, origin: OriginId, level: u8, sequence: u64) -> Result<Option<WallTime>, StorageError> {
        let (from, until) = (milestone_key(origin, level, 0), milestone_key(origin, level, MILESTONES));
        let mut best: Option<Milestone> = None;
        self.each(&from, &until, |_, value| {
            let step: Milestone = unpack(value)?;
            if step.through >= sequence && best.is_none_or(|best| step.through < best.through) {
                best = Some(step);
            }
            Ok(())
        })?;
        Ok(best.map(|step| step.at))
    }
}
