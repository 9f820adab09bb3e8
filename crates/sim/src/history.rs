//! What clients did and what they were told: the evidence for the checkers.

use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::{Content, FileId, Origin, OriginId, RecordId, Time};

/// An update that a client made.
#[derive(Debug, Clone)]
pub(crate) struct Update {
    /// Its file.
    pub(crate) file: FileId,
    /// What it was built upon; `None` for a creation.
    pub(crate) base: Option<RecordId>,
    /// What it holds.
    pub(crate) content: Content,
}

/// A name taken from a file, by removing it or by a rename over it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Removal {
    /// The file as the remover knew it.
    pub(crate) file: FileId,
    /// The version that he had seen: the record says so.
    pub(crate) version: RecordId,
    /// Whether it was the file's last name where he looked.
    pub(crate) is_last: bool,
}

/// All updates by version, all removals, and what is known to be safe.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// Content versions that clients made.
    pub(crate) updates: BTreeMap<RecordId, Update>,
    /// Names taken, by the record that took them.
    pub(crate) removals: BTreeMap<RecordId, Removal>,
    /// Per store and origin: sequence up to which *safe* was reported. Where a store was copied, each copy speaks of its own records.
    safe: BTreeMap<(usize, OriginId), u64>,
    /// The same of the store that a host has now: one that was put back may give numbers below those which it reported before.
    safe_now: BTreeMap<(usize, OriginId), u64>,
    /// Records that were reported safe by one whose they are.
    promised: BTreeSet<RecordId>,
    /// Updates reported safe, with when and by which station.
    pub(crate) safe_at: Vec<SafeReport>,
    /// Creations that the home made one with an equal file: their own file may leave no trace.
    pub(crate) merged: BTreeSet<RecordId>,
    /// Empty files that were one file at the home when it was put back: what is left of one is left of the other.
    same: BTreeSet<(RecordId, RecordId)>,
    /// Versions whose bytes their holder said to be gone, and when it first did.
    gone: BTreeMap<RecordId, Time>,
    /// Versions that the home declared lost at any time.
    pub(crate) declared: BTreeSet<RecordId>,
    /// Records that a crash took from their writer, and that may have reached others.
    uncertain: BTreeSet<RecordId>,
    /// The file that the home stored an update into.
    pub(crate) stored_into: BTreeMap<RecordId, FileId>,
    /// Updates that a station had whole on its disk when the home heard so from it.
    pub(crate) heard_of: BTreeSet<RecordId>,
    /// What a client wrote over before it was sent, and what took its place.
    pub(crate) went_with: BTreeMap<RecordId, RecordId>,
    /// Versions under which the home shows an older content in place of lost bytes, and the version that has that content.
    brought_back: BTreeMap<RecordId, RecordId>,
    /// The hosts whose history has a record: its writer, and those whose store is a copy of the writer's made after it.
    keepers: BTreeMap<RecordId, BTreeSet<usize>>,
    /// Records that a host made and whose store, an older copy, has never heard of.
    forgotten: BTreeSet<(usize, RecordId)>,
    /// Updates that something took the place of which the home had whole before it was put back, or that the home alone still had then.
    pub(crate) let_go: BTreeSet<RecordId>,
    /// Updates that an older copy to which the home was put back did not have.
    lost_at_home: BTreeSet<RecordId>,
    /// Updates that no server had any more when a station was put back to an older copy.
    lost_at_stations: BTreeSet<RecordId>,
    /// Updates whose contents the home had whole, and that older copy did not, be their records in it.
    bytes_lost_at_home: BTreeSet<RecordId>,
    /// Files that were made again with what an update had stored into them: the update.
    holds: BTreeMap<RecordId, RecordId>,
    /// What a fork made its writer write again under another name: what it was called before.
    former: BTreeMap<RecordId, RecordId>,
    /// The same the other way round, with all that one record stands for: a file is made again with what was stored into it.
    went_into: BTreeMap<RecordId, BTreeSet<RecordId>>,
    /// Updates that a station did not write again by its own name, since it had what took their place.
    left_out: BTreeSet<RecordId>,
}

/// A report of *safe*.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SafeReport {
    /// The client's newest record covered.
    pub(crate) record: RecordId,
    /// When.
    pub(crate) at: Time,
    /// The station (host index) the client was attached to, if it was the same all the while.
    pub(crate) station: usize,
}

/// Hosts with one store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopiedStore {
    /// Whose it is.
    pub(crate) first: usize,
    /// It goes on with a copy of it.
    pub(crate) second: usize,
}

/// Which records a crash took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loss {
    /// Those after this one.
    pub(crate) last: u64,
    /// None after this one can have reached anybody.
    pub(crate) ahead: u64,
}

impl History {
    /// A host's client was answered that it made an update.
    pub(crate) fn updated(&mut self, host: usize, record: RecordId, mut update: Update) {
        update.base = update.base.map(|base| self.held_by(base));
        self.made_by(host, record);
        self.updates.insert(record, update);
    }

    /// A host's client was answered that it took a name.
    pub(crate) fn removed(&mut self, host: usize, record: RecordId, mut removal: Removal) {
        removal.version = self.held_by(removal.version);
        self.made_by(host, record);
        self.removals.insert(record, removal);
    }

    /// Two copies of a store give one number where their lives begin near each other by chance. Which of the two records
    /// others speak of then nobody can tell by its name, so nothing is promised of either.
    fn made_by(&mut self, host: usize, record: RecordId) {
        let keepers = self.keepers.entry(record).or_default();
        keepers.insert(host);
        if keepers.len() > 1 {
            self.uncertain.insert(record);
        }
        // Where the home decides at once, *safe* comes before the answer.
        if self.safe_now.get(&(host, record.origin())).is_some_and(|through| record.sequence() <= *through) {
            self.promised.insert(record);
        }
    }

    /// A store was copied, which has the records of its origin up to `last`.
    pub(crate) fn copied(&mut self, CopiedStore { first, second }: CopiedStore, origin: OriginId, last: u64) {
        let is_there = |record: &RecordId| record.origin() != origin || record.sequence() <= last;
        for (_, keepers) in self.keepers.iter_mut().filter(|(record, _)| is_there(record)) {
            if keepers.contains(&first) {
                keepers.insert(second);
            }
        }
    }

    /// A host's store is an older copy since, which has the records of its origin up to `last`, but for those in the gaps between
    /// its lives: a later life than those which the copy knows may have given smaller numbers (seed 2412637).
    pub(crate) fn put_back(&mut self, host: usize, origin: OriginId, (last, known): (u64, Option<&Origin>)) {
        let is_in_gap = |sequence| known.is_some_and(|known| sequence <= known.applied && !known.has(sequence));
        let is_later = |record: &&RecordId| {
            record.origin() == origin && (record.sequence() > last || is_in_gap(record.sequence()))
        };
        let own = self.keepers.iter().filter(|(_, keepers)| keepers.contains(&host)).map(|(record, _)| record);
        self.forgotten.extend(own.filter(is_later).map(|record| (host, *record)));
        if let Some(through) = self.safe_now.get_mut(&(host, origin)) {
            *through = last.min(*through);
        }
    }

    /// Two empty files were one at the home, and it is put back.
    pub(crate) fn became_one(&mut self, one: RecordId, other: RecordId) {
        let pair = (self.first(one), self.first(other));
        self.same.extend([pair, (pair.1, pair.0)]);
    }

    /// What was one file with another at the home before it was put back.
    pub(crate) fn same_as(&self, record: RecordId) -> impl Iterator<Item = RecordId> {
        self.same.iter().filter(move |(one, _)| *one == record).map(|(_, other)| *other)
    }

    /// Whether a host cannot know that it made a record.
    pub(crate) fn is_forgotten(&self, host: usize, record: RecordId) -> bool {
        self.forgotten.contains(&(host, record))
    }

    /// A record was written again under another name.
    pub(crate) fn renamed(&mut self, former: RecordId, now: RecordId) {
        self.former.insert(now, former);
        self.went_into.entry(former).or_default().insert(now);
    }

    /// A station wrote again by its own name what it had of an origin, but for what it had replaced or removed, too.
    pub(crate) fn parted(&mut self, of: OriginId, had: &Origin) {
        let is_its_own = |record: &RecordId| record.origin() == of && had.has(record.sequence());
        let left = self.updates.keys().filter(|record| is_its_own(record) && !self.went_into.contains_key(record));
        let left: Vec<RecordId> = left.copied().filter(|record| self.is_superseded(*record)).collect();
        self.left_out.extend(left);
    }

    /// Whether a station left an update out when it wrote again what it had: no server has its record then.
    pub(crate) fn is_left_out(&self, record: RecordId) -> bool {
        self.left_out.contains(&record)
    }

    /// The name under which a record was answered for.
    pub(crate) fn first(&self, record: RecordId) -> RecordId {
        let names = std::iter::successors(Some(record), |name| self.former.get(name).copied());
        names.last().unwrap_or(record)
    }

    /// A file was made again, with a content.
    pub(crate) fn made_again(&mut self, record: RecordId, content: &Content) {
        let same = self.updates.iter().find(|(_, update)| update.content == *content && *content != Content::EMPTY);
        if let Some((update, _)) = same {
            self.holds.insert(record, *update);
        }
    }

    /// The update whose content a version has, by the name under which it was answered for.
    pub(crate) fn held_by(&self, version: RecordId) -> RecordId {
        self.holds.get(&version).copied().unwrap_or_else(|| self.first(version))
    }

    /// All names that a record has had, be it that another one stands for it and more (seed 9000655).
    pub(crate) fn names(&self, record: RecordId) -> impl Iterator<Item = RecordId> {
        let (mut names, mut open) = (BTreeSet::from([record]), vec![record]);
        while let Some(name) = open.pop() {
            let later = self.went_into.get(&name).into_iter().flatten();
            open.extend(later.filter(|now| names.insert(**now)));
        }
        names.into_iter()
    }

    /// Whether a record is of a host's history.
    pub(crate) fn is_of(&self, record: RecordId, host: usize) -> bool {
        self.keepers.get(&record).is_some_and(|keepers| keepers.contains(&host))
    }

    /// Whether a record is of the history of any host.
    pub(crate) fn is_anybodys(&self, record: RecordId) -> bool {
        self.keepers.contains_key(&record)
    }

    /// Whether `ancestor` is one of the versions that `version` was built upon (not `version` itself).
    pub(crate) fn descends(&self, version: RecordId, ancestor: RecordId) -> bool {
        self.line(version).skip(1).any(|base| base == ancestor)
    }

    /// A version and those that it was built upon, the newest first.
    pub(crate) fn line(&self, version: RecordId) -> impl Iterator<Item = RecordId> {
        std::iter::successors(Some(version), |at| self.built_upon(*at))
    }

    /// The version that another one was built upon.
    pub(crate) fn built_upon(&self, version: RecordId) -> Option<RecordId> {
        match self.updates.get(&version) {
            Some(update) => update.base,
            // Whoever goes on from it has seen the content that came back.
            None => self.brought_back.get(&version).copied(),
        }
    }

    /// The home shows an older content again, under a version of its own.
    pub(crate) fn note_brought_back(&mut self, version: RecordId, content: &Content) {
        let same = self.updates.iter().find(|(_, update)| update.content == *content);
        if let Some((older, _)) = same {
            self.brought_back.insert(version, *older);
        }
    }

    /// A host reported its updates of an origin up to a sequence safe. Answers up to where they had been before.
    pub(crate) fn report_safe(&mut self, host: usize, report: SafeReport) -> u64 {
        let record = report.record;
        let safe = self.safe.entry((host, record.origin())).or_default();
        let before = *safe;
        *safe = before.max(record.sequence());
        let now = self.safe_now.entry((host, record.origin())).or_default();
        *now = record.sequence().max(*now);
        let first = RecordId::new(record.origin(), 1).unwrap_or(record);
        let own = self.keepers.range(first..=record).filter(|(_, keepers)| keepers.contains(&host));
        // What it cannot know that it made it does not speak of (seed 22000933: a life between two copies that were put back).
        let own = own.map(|(record, _)| *record).filter(|record| !self.forgotten.contains(&(host, *record)));
        self.promised.extend(own);
        self.safe_at.push(report);
        before
    }

    /// Whether a host said that this very record, by this name, is safe.
    pub(crate) fn is_reported_safe(&self, record: RecordId) -> bool {
        self.safe.iter().any(|((_, origin), through)| *origin == record.origin() && record.sequence() <= *through)
    }

    /// Whether somebody who had seen an update replaced or removed it: then its content need not be sent any more.
    pub(crate) fn is_superseded(&self, record: RecordId) -> bool {
        self.updates.values().any(|update| update.base == Some(record))
            || self.removals.values().any(|gone| gone.version == record)
    }

    /// Whether an update was replaced or removed by another than this one.
    pub(crate) fn is_replaced_beside(&self, record: RecordId, heir: RecordId) -> bool {
        self.updates.iter().any(|(other, update)| update.base == Some(record) && *other != heir)
            || self.removals.values().any(|gone| gone.version == record)
    }

    /// Updates that were made upon an update, and upon those.
    pub(crate) fn heirs_of(&self, record: RecordId) -> BTreeSet<RecordId> {
        let mut heirs = BTreeSet::new();
        let mut upon = vec![record];
        while let Some(base) = upon.pop() {
            let next = self.updates.iter().filter(|(_, update)| update.base == Some(base)).map(|(heir, _)| *heir);
            upon.extend(next.filter(|heir| heirs.insert(*heir)));
        }
        heirs
    }

    /// A crash took records of an origin from a host. What had been reported safe by then stays promised, and what a copy of
    /// its store has is the copy's.
    pub(crate) fn lose(&mut self, host: usize, origin: OriginId, Loss { last, ahead }: Loss) {
        let mut lost = BTreeSet::new();
        for (record, keepers) in &mut self.keepers {
            let is_kept = record.sequence() <= last || self.promised.contains(record);
            if record.origin() != origin || is_kept || !keepers.contains(&host) {
                continue;
            }
            if keepers.len() > 1 {
                keepers.remove(&host);
            } else {
                lost.insert(*record);
            }
        }
        let is_gone = |record: &RecordId| lost.contains(record) && record.sequence() > ahead;
        self.updates.retain(|record, _| !is_gone(record));
        self.removals.retain(|record, _| !is_gone(record));
        self.keepers.retain(|record, _| !is_gone(record));
        self.uncertain.extend(lost.into_iter().filter(|record| record.sequence() <= ahead));
    }

    /// Whether a crash took this record from its writer: nobody promised it, but it may have happened.
    pub(crate) fn is_uncertain(&self, record: RecordId) -> bool {
        self.uncertain.contains(&record)
    }

    /// All records that clients were answered for and that no crash took.
    pub(crate) fn made(&self) -> impl Iterator<Item = RecordId> {
        let all = self.updates.keys().chain(self.removals.keys()).copied();
        all.filter(|record| !self.is_uncertain(*record))
    }

    /// The holder of a version found its bytes gone.
    pub(crate) fn say_gone(&mut self, version: RecordId, at: Time) {
        self.gone.entry(self.first(version)).or_insert(at);
    }

    /// Whether the bytes of an update were said to be gone before this moment.
    pub(crate) fn was_said_gone(&self, record: RecordId, by: Time) -> bool {
        self.gone.get(&record).is_some_and(|at| *at < by)
    }

    /// The home was put back to an older copy, which has these records of each origin. A number in a gap of an origin is another
    /// copy's, though the home has later ones.
    pub(crate) fn lose_at_home(&mut self, origins: &BTreeMap<OriginId, Origin>) {
        let is_there = |name: RecordId| origins.get(&name.origin()).is_some_and(|origin| origin.has(name.sequence()));
        let lost: Vec<RecordId> =
            self.updates.keys().copied().filter(|record| !self.names(*record).any(is_there)).collect();
        self.lost_at_home.extend(lost);
    }

    /// A station was put back to an older copy: servers have these records of each origin now.
    pub(crate) fn lose_at_station(&mut self, servers: &[BTreeMap<OriginId, Origin>]) {
        let has = |origins: &BTreeMap<OriginId, Origin>, name: RecordId| {
            origins.get(&name.origin()).is_some_and(|origin| origin.has(name.sequence()))
        };
        let is_there = |name: RecordId| servers.iter().any(|origins| has(origins, name));
        let lost = self.updates.keys().copied().filter(|record| !self.names(*record).any(is_there));
        let lost: Vec<RecordId> = lost.collect();
        self.lost_at_stations.extend(lost);
    }

    /// Whether no server had an update any more when a station was put back: its writer brings it again, and until then others may see
    /// what was there before ([S-losses], "the station's disk").
    pub(crate) fn is_lost_at_a_station(&self, record: RecordId) -> bool {
        self.lost_at_stations.contains(&record)
    }

    /// Whether the home lost an update when it was put back. Others may have written it again since.
    pub(crate) fn is_lost_at_home(&self, record: RecordId) -> bool {
        self.lost_at_home.contains(&record)
    }

    /// The home was put back to an older copy, which lacks the contents of these that it had had whole.
    pub(crate) fn lose_bytes_at_home(&mut self, records: impl IntoIterator<Item = RecordId>) {
        self.bytes_lost_at_home.extend(records);
    }

    /// Whether the home lost the contents of an update when it was put back, and its record or not.
    pub(crate) fn are_bytes_lost_at_home(&self, record: RecordId) -> bool {
        self.bytes_lost_at_home.contains(&record)
    }

    /// Whether somebody said that the bytes of an update are gone, so that nobody is promised anything of them.
    pub(crate) fn is_said_lost(&self, record: RecordId) -> bool {
        self.gone.contains_key(&record) || self.declared.contains(&record)
    }

    /// Whether an update was reported safe, by one whose update it is.
    pub(crate) fn is_safe(&self, record: RecordId) -> bool {
        !self.is_uncertain(record) && self.promised.contains(&record)
    }
}
