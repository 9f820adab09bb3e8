//! Records that somebody wants to hear of: when they are safe, visible, stable.

use crate::live_replica::LiveReplica;
use crate::paths::path_of;
use crate::volume::Volume;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::PathBuf;
use wayfs_types::request::Level;
use wayfs_types::{Content, FileId, RecordId, Ticket};

/// Most records watched; past it, newer ones are only counted.
const WATCHED_MAX: usize = 16_384;
/// Records looked at with the volume's lock held once. The next look goes on behind them: the oldest may wait for long, since a policy
/// keeps their contents at a station.
const LOOKED_AT_MAX: usize = 512;

/// A record that came so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The record; the version of its file, if it gave it a content.
    pub record: RecordId,
    /// Which fact holds now.
    pub level: Level,
    /// Its file's path from the volume's root, if that is known here.
    pub path: Option<PathBuf>,
    /// Bytes of its file.
    pub size_bytes: u64,
}

#[derive(Debug)]
struct Watched {
    file: FileId,
    path: Option<PathBuf>,
    size_bytes: u64,
    /// What it names, if that is known.
    content: Option<Content>,
    /// The facts that were told: each by itself, since they come in any order.
    told: BTreeSet<Level>,
}

/// Records on their way.
#[derive(Debug, Default)]
pub struct LevelWatch {
    watched: BTreeMap<RecordId, Watched>,
    overlooked: u64,
    /// The state that was looked at last with all that was watched then. `None`: something is watched that was not looked at.
    looked_at: Option<(u64, Ticket)>,
    /// The state of the present round, and how many are left of it.
    round: Option<((u64, Ticket), usize)>,
    /// The record that was looked at last.
    last: Option<RecordId>,
}

impl LevelWatch {
    /// Watches a record from now on.
    pub fn note(&mut self, record: RecordId, file: FileId, size_bytes: u64) {
        if self.watched.len() < WATCHED_MAX {
            let watched = Watched { file, path: None, size_bytes, content: None, told: BTreeSet::new() };
            self.watched.insert(record, watched);
            (self.looked_at, self.round) = (None, None);
        } else {
            self.overlooked += 1;
        }
    }

    /// Forgets all: nobody listens any more.
    pub fn clear(&mut self) {
        self.watched.clear();
        self.overlooked = 0;
        (self.looked_at, self.round) = (None, None);
    }

    /// What came further since the last look, and how many records were not watched because there were too many.
    pub fn steps(&mut self, volume: &Volume) -> (Vec<Reached>, u64) {
        let reached = if self.watched.is_empty() { None } else { volume.look(|replica| self.look(replica)) };
        (reached.unwrap_or_default(), std::mem::take(&mut self.overlooked))
    }

    /// A record that is stable is watched no longer, nor is one whose contents were declared lost.
    fn look(&mut self, replica: &LiveReplica) -> Vec<Reached> {
        let revision = (replica.store().commits(), replica.stored());
        if self.looked_at == Some(revision) {
            return Vec::new();
        }
        let part = self.next_part(revision);
        let mut reached = Vec::new();
        let mut done = Vec::new();
        for record in &part {
            let Some(watched) = self.watched.get_mut(record) else { continue };
            if watched.path.is_none() {
                watched.path = path_of(replica, watched.file);
                let inode = replica.inode(watched.file).ok().flatten();
                let own = inode.filter(|inode| inode.version == *record);
                watched.size_bytes = own.as_ref().map_or(watched.size_bytes, |inode| inode.content.size());
                watched.content = own.map(|inode| inode.content.clone());
            }
            let Ok(facts) = replica.facts_of(*record, watched.content.as_ref()) else { continue };
            let steps = [(Level::Safe, facts.safe), (Level::Visible, facts.visible), (Level::Stable, facts.stable)];
            for (step, _) in steps.into_iter().filter(|(step, fact)| fact.holds() && !watched.told.contains(step)) {
                let (path, size_bytes) = (watched.path.clone(), watched.size_bytes);
                reached.push(Reached { record: *record, level: step, path, size_bytes });
            }
            watched.told.extend(steps.into_iter().filter(|(_, fact)| fact.holds()).map(|(step, _)| step));
            // What is lost comes no further, and is told of by its report.
            if facts.stable.holds() || replica.is_declared_lost(*record).unwrap_or(false) {
                done.push(*record);
            }
        }
        for record in done {
            self.watched.remove(&record);
        }
        reached
    }

    /// The records that are looked at now. When all have been in a state of the volume, that has been looked at.
    fn next_part(&mut self, revision: (u64, Ticket)) -> Vec<RecordId> {
        let left = match self.round {
            Some((of, left)) if of == revision => left,
            Some(_) | None => self.watched.len(),
        };
        let behind = self.last.map_or(Bound::Unbounded, Bound::Excluded);
        let to_end = self.watched.range((behind, Bound::Unbounded));
        let from_begin = self.watched.range(..=self.last.unwrap_or(RecordId::GENESIS));
        let part: Vec<RecordId> =
            to_end.chain(from_begin).map(|(record, _)| *record).take(left.min(LOOKED_AT_MAX)).collect();
        self.last = part.last().copied();
        let left = left - part.len();
        self.round = Some((revision, left));
        self.looked_at = (left == 0).then_some(revision);
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ChildRole;
    use crate::testing::{Machine, create};

    /// The contents of many stay at a station, as its policy has it, and more are written.
    #[test]
    fn who_waits_for_long_does_not_keep_the_younger_from_being_looked_at() {
        let [at_home, at_client] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let home = Machine::home(at_home.path());
        let client = Machine::below(&home, at_client.path(), ChildRole::Client, &[&home]);
        let (file, inode) = client.change(create("young"));
        client.wait(Level::Visible);
        let mut watch = LevelWatch::default();
        for number in 0..u64::try_from(LOOKED_AT_MAX).unwrap() + 3 {
            // Records of the home's own that it has not made yet are visible nowhere.
            watch.note(RecordId::new(home.origin(), 1_000_000 + number).unwrap(), file, 0);
        }
        watch.note(inode.version, file, 0);
        let mut looks = (0..4).flat_map(|_| watch.steps(&home.volume).0);
        assert!(looks.any(|reached| reached.record == inode.version && reached.level == Level::Visible));
        client.stop();
        home.stop();
    }
}
