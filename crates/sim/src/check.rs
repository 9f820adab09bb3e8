//! The checkers: each asserts one invariant of the design on a quiet, healed world.

use crate::history::{Removal, Update};
use crate::host::Host;
use crate::tree_dump::TreeDump;
use crate::violation::Violation;
use crate::world::World;
use std::collections::{BTreeMap, BTreeSet};
use wayfs_proto::{Holder, Replica, Role};
use wayfs_types::{Content, Digest, FileId, Inode, Kind, Place, RecordId};

impl World {
    /// Invariant 1: what was reported safe is current, an ancestor of what is current, a copy,
    /// or was removed by someone who had seen it.
    pub(crate) fn check_nothing_safe_lost(&mut self, home: &TreeDump) {
        let alive = home.inodes.values().map(|inode| self.author(inode));
        let ended = self.history.removals.iter().filter(|(record, gone)| self.is_end(**record, gone, home));
        let mut kept: BTreeSet<RecordId> = BTreeSet::new();
        for end in alive.chain(ended.map(|(_, gone)| gone.version)) {
            self.keep_line(end, &mut kept);
        }
        let contents: BTreeSet<&Content> = home.inodes.values().map(|inode| &inode.content).collect();
        // Of an emptied copy that met an empty file nothing is left, and who emptied it had seen what it was (seed 166402591).
        let is_empty_and_merged = |(record, update): &(&RecordId, &Update)| {
            update.content == Content::EMPTY && self.is_merged(**record, update, &contents)
        };
        let became_another = |(record, _): &(&RecordId, &Update)| self.became_another(**record);
        let another = self.history.updates.iter().filter(|one| became_another(one) || is_empty_and_merged(one));
        another.for_each(|(record, _)| self.keep_line(*record, &mut kept));
        self.keep_equals(&mut kept);
        let lost = self.history.updates.iter().find(|(record, update)| {
            self.history.is_safe(**record)
                && !self.went_behind_a_fence(**record)
                && !kept.contains(record)
                && !self.history.is_said_lost(**record)
                && !self.history.is_lost_with_another(**record)
                && !self.is_merged(**record, update, &contents)
                && !self.history.same_as(**record).any(|other| kept.contains(&other) || self.has_trace(other))
                && !self.is_beyond_promise(**record)
                && !self.went_before_its_heir(**record)
                && !self.was_let_go_for_what_died(**record)
        });
        if let Some((record, update)) = lost {
            let line = format!("{record} of {} (upon {:?}) is nowhere", update.file, update.base);
            self.violations.push(Violation::new("no safe update is lost", line));
        }
    }

    /// Invariant 1, at the moment of the promise: a server has on its disk what its client is told is safe.
    pub(crate) fn check_safe_is_kept(&mut self, index: usize, through: RecordId, before: u64) {
        if !self.hosts[0].is_sound() {
            return;
        }
        let Ok(after) = RecordId::new(through.origin(), before + 1) else { return };
        let servers: Vec<usize> = (0..self.hosts.len()).filter(|index| !self.hosts[*index].is_client()).collect();
        let nowhere = |content: &Content| {
            let root = content.root();
            root.is_some_and(|root| !servers.iter().any(|server| self.is_whole_durable(*server, root)))
        };
        let is_new = |record: &RecordId| {
            (after..=through).contains(record)
                && self.history.is_of(*record, index)
                && !self.history.is_uncertain(*record)
                && !self.history.is_said_lost(*record)
                && !self.fences.shut_out(*record)
        };
        let mut new = self.history.updates.iter().filter(|(record, _)| is_new(record));
        // Who had said so may be gone by then: its writer has it.
        let lost = new.find(|(record, update)| {
            let is_excused = self.history.is_superseded(**record)
                || self.went_with_an_equal(**record, update)
                || (self.has_lost_server()
                    && (self.is_at_writer(**record, &update.content) || self.is_lent(**record, &update.content)))
                || self.is_hit_everywhere(**record, &update.content);
            nowhere(&update.content) && !is_excused
        });
        if let Some((record, update)) = lost {
            let line = format!("{record} of {} was called safe and its content is at no server", update.file);
            self.violations.push(Violation::new("what is called safe is kept", line));
        }
    }

    /// The record that a version was made by at first: what a fork made its writer write again has the same content. A file
    /// that is made again is made with what had been stored into it last: that is whose content stands.
    fn author(&self, inode: &Inode) -> RecordId {
        let first = self.history.first(inode.version);
        let known = self.history.updates.get(&first);
        if inode.content == Content::EMPTY || known.is_some_and(|update| update.content == inode.content) {
            return first;
        }
        let same = self.history.updates.iter().find(|(_, update)| update.content == inode.content);
        same.map_or(if known.is_some() { first } else { inode.version }, |(record, _)| *record)
    }

    /// Whether the disks that had a record were lost, all of them: a server's, and its writer's
    /// (SEMANTICS.md, "What survives"). What a home lost that is put back is lost where nobody else has it.
    pub(crate) fn is_beyond_promise(&self, record: RecordId) -> bool {
        let has_writer =
            (0..self.hosts.len()).any(|index| self.hosts[index].is_sound() && self.is_writer(index, record));
        let home = &self.hosts[0];
        let is_lost_at_home = if home.destroyed || home.is_harmed {
            true
        } else {
            let is_kept = || has_writer && !self.history.let_go.contains(&record) && self.is_kept_by_others(record);
            home.is_copy && (self.history.is_lost_at_home(record) || self.lacks_bytes_at_home(record)) && !is_kept()
        };
        is_lost_at_home || self.has_lost_server() && !has_writer
    }

    /// Whether the home, when it was put back, lost the contents of an update that it had had whole, and has them not again. Its
    /// writer had been told *stable* of them, and let them go ([S-losses], "what the copy has"; seed 473 of `home-back`). So it is with
    /// what had been written over there and swept before, and stands in the copy, which is of before its bytes came (seed 9821230).
    fn lacks_bytes_at_home(&self, record: RecordId) -> bool {
        let root = self.history.updates.get(&record).and_then(|update| update.content.root());
        let had = self.history.are_bytes_lost_at_home(record) || self.history.let_go.contains(&record);
        had && root.is_some_and(|root| !self.is_whole_durable(0, root))
    }

    /// Whether no disk that is left has the contents of an update whole.
    pub(crate) fn is_nowhere(&self, record: RecordId) -> bool {
        let root = self.history.updates.get(&record).and_then(|update| update.content.root());
        let has = |index: &usize, root| !self.hosts[*index].destroyed && self.is_whole_durable(*index, root);
        root.is_some_and(|root| !(0..self.hosts.len()).any(|index| has(&index, root)))
    }

    /// Whether a station, or its writer, has the contents of an update.
    fn is_kept_by_others(&self, record: RecordId) -> bool {
        let Some(update) = self.history.updates.get(&record) else { return false };
        let is_sound_station =
            |index: &usize| self.hosts[*index].role() == Role::Station && self.hosts[*index].is_sound();
        let mut stations = (0..self.hosts.len()).filter(is_sound_station);
        self.is_at_writer(record, &update.content)
            || update.content.root().is_some_and(|root| stations.any(|station| self.is_whole_durable(station, root)))
    }

    /// Whether a host made a record, or its store is a copy of the one that did.
    pub(crate) fn is_writer(&self, index: usize, record: RecordId) -> bool {
        if self.history.is_anybodys(record) {
            self.history.is_of(record, index)
        } else {
            self.hosts[index].origins.contains(&record.origin())
        }
    }

    /// Whether the disk of its writer has a content. A chunk that rotted there is of another content, or this one is not whole.
    pub(crate) fn is_at_writer(&self, record: RecordId, content: &Content) -> bool {
        (0..self.hosts.len()).any(|index| {
            let host = &self.hosts[index];
            let is_whole = content.root().is_none_or(|root| self.is_whole_durable(index, root));
            !host.destroyed && !host.is_copy && self.is_writer(index, record) && is_whole
        })
    }

    /// Whether its writer, be its store a copy that goes on, has a content and keeps it for its servers.
    fn is_lent(&self, record: RecordId, content: &Content) -> bool {
        (0..self.hosts.len()).any(|index| {
            let keeps = |replica: &wayfs_proto::Replica<_>| matches!(replica.lent_to(record), Ok(Some(_)));
            let is_whole = || content.root().is_none_or(|root| self.is_whole_durable(index, root));
            self.is_writer(index, record) && self.hosts[index].replica.as_ref().is_some_and(keeps) && is_whole()
        })
    }

    /// Whether a server's disk damaged a content, and its writer's did, too. What nobody has noticed yet nobody can take back
    /// ([S-losses], "a damaged chunk on one disk": it is there if another disk has it).
    fn is_hit_everywhere(&self, record: RecordId, content: &Content) -> bool {
        let Some(root) = content.root() else { return false };
        let is_hit = |index: &usize| self.is_hit_at(*index, root);
        let is_writer = |index: &usize| self.is_writer(*index, record);
        let all = 0..self.hosts.len();
        all.clone().filter(is_hit).any(|index| !self.hosts[index].is_client())
            && all.filter(is_writer).any(|w| is_hit(&w))
    }

    /// Whether the disk of a host damaged or lost a piece of a content.
    pub(crate) fn is_hit_at(&self, index: usize, root: wayfs_types::Digest) -> bool {
        self.pieces(root).iter().any(|piece| self.hosts[index].hit.contains(piece))
    }

    /// Whether a server's disk lost something.
    pub(crate) fn has_lost_server(&self) -> bool {
        self.hosts.iter().any(|host| !host.is_client() && !host.is_sound())
    }

    /// Whether a store is an older copy, or a second one.
    pub(crate) fn has_copy(&self) -> bool {
        self.hosts.iter().any(|host| host.is_copy || host.is_clone)
    }

    /// Whether a removal may have been the end of the version that it names: it took the last name, or the file is
    /// gone, or somebody else took the file's other name meanwhile (`docs/conflicts.md`, "What the rules do not save"), or
    /// the file came back with the bytes of one who had not seen the version (there, "writes `a`" against "removes `a`").
    fn is_end(&self, record: RecordId, gone: &Removal, home: &TreeDump) -> bool {
        let by_another =
            |other: &RecordId, their: &Removal| other.origin() != record.origin() && their.file == gone.file;
        let came_back =
            |inode: &Inode| inode.version != gone.version && !self.history.descends(inode.version, gone.version);
        gone.is_last
            || home.inodes.get(&gone.file).is_none_or(came_back)
            || self.history.removals.iter().any(|(other, their)| by_another(other, their))
    }

    /// A file merged with an equal one leaves only its content behind, and an empty one its inode, be it alive, an
    /// alias or a marker; what was built on it is in the other's line. (Other contents are never written twice.)
    fn is_merged(&self, record: RecordId, update: &Update, contents: &BTreeSet<&Content>) -> bool {
        if update.content != Content::EMPTY {
            return contents.contains(&update.content);
        }
        // Where tombstones are soon forgotten, those of files that became one with an equal one are, too.
        let is_forgotten = self.plan.limits.tombstones < 1000;
        is_forgotten || self.history.merged.contains(&record) || self.has_trace(record)
    }

    /// Whether the home says of the copy that an update was, that it became one with another file: both had the same bytes. What the
    /// update was built upon its writer had written over (seed 165022416: a copy that had been emptied was written again, and met another
    /// that emptied the file).
    fn became_another(&self, record: RecordId) -> bool {
        let home = self.hosts[0].replica.as_ref();
        let inode = |name| home.and_then(|home| home.inode(FileId::made_by(name)).ok()).flatten();
        self.history.names(record).filter_map(inode).any(|inode| inode.merged_into.is_some())
    }

    /// Whether an update became one with another of the same bytes in the same file, which somebody who had seen it replaced (seeds
    /// 166003359 and 166008551, where a kill had the next process store once more what another version had come to hold).
    pub(crate) fn went_with_an_equal(&self, record: RecordId, update: &Update) -> bool {
        let home = self.hosts[0].replica.as_ref();
        let inode = |name| home.and_then(|home| home.inode(FileId::made_by(name)).ok()).flatten();
        let is_copy = || {
            let mut copies = self.history.names(record).filter_map(inode);
            copies.any(|inode| inode.merged_into.is_none() && !inode.is_removed())
        };
        let is_equal = |other: &Update| other.file == update.file && other.content == update.content;
        let mut others = self.history.updates.iter().filter(|(other, made)| **other != record && is_equal(made));
        others.any(|(other, _)| self.history.is_superseded(*other)) && !is_copy()
    }

    /// Whether the home has the file of an update, be it only that it was there.
    fn has_trace(&self, record: RecordId) -> bool {
        let home = self.hosts[0].replica.as_ref();
        let own = self.history.updates.get(&record).map(|update| update.file);
        self.history.names(record).any(|name| {
            let file = own.filter(|_| name == record).unwrap_or_else(|| FileId::made_by(name));
            home.and_then(|home| home.inode(file).ok()).flatten().is_some()
        })
    }

    fn keep_line(&self, end: RecordId, kept: &mut BTreeSet<RecordId>) {
        let mut at = Some(end);
        while let Some(version) = at {
            if !kept.insert(version) {
                break;
            }
            at = self.history.built_upon(version);
        }
    }

    /// Two who stored the same bytes into one file made one version of it, without a report (docs/conflicts.md): what is built upon
    /// the one is built upon the other, and whoever had seen either is its heir (seed 260 with open files: two that emptied it). The
    /// file is the one that the home stored them into: below a station that has more of that file both had been copies beside it, of
    /// which the home, that had less, never heard (seed 174340902: a client left such a station).
    fn keep_equals(&self, kept: &mut BTreeSet<RecordId>) {
        let mut equals: BTreeMap<(FileId, &Content), Vec<RecordId>> = BTreeMap::new();
        for (record, update) in &self.history.updates {
            let home_has_it = self.history.stored_into.get(record).copied();
            for file in BTreeSet::from([update.file, home_has_it.unwrap_or(update.file)]) {
                equals.entry((file, &update.content)).or_default().push(*record);
            }
        }
        let mut before = 0;
        while kept.len() > before {
            before = kept.len();
            for records in equals.values() {
                if records.iter().any(|record| kept.contains(record)) {
                    records.iter().for_each(|record| self.keep_line(*record, kept));
                }
            }
        }
    }

    /// Invariant 2: a replica shows the home's tree.
    pub(crate) fn check_same_tree(&mut self, index: usize, home: &TreeDump, other: &TreeDump) {
        if let Some(line) = difference(home, other) {
            let line = format!("host {index}: {line}");
            self.violations.push(Violation::new("quiet and connected, all show the home's tree", line));
        }
    }

    /// Invariant 6: the tree is a tree.
    pub(crate) fn check_tree(&mut self, index: usize, dump: &TreeDump) {
        let mut places: BTreeMap<FileId, Vec<Place>> = BTreeMap::new();
        let mut subdirectories: BTreeMap<FileId, u32> = BTreeMap::new();
        for (place, file) in &dump.entries {
            places.entry(*file).or_default().push(place.clone());
            if dump.inodes.get(file).is_some_and(Inode::is_directory) {
                *subdirectories.entry(place.parent).or_default() += 1;
            }
        }
        for (file, inode) in &dump.inodes {
            let found = places.remove(file).unwrap_or_default();
            let counted = subdirectories.get(file).copied().unwrap_or(0);
            let many = inode.is_directory() && found.len() > 1;
            let listed = inode.places.iter().all(|place| found.contains(place));
            let is_named =
                listed && !inode.places.is_empty() && inode.places.len() + inode.unlisted as usize == found.len()
                    || found.is_empty() && inode.places.is_empty() && !inode.is_crowded();
            if !is_named || inode.subdirectories != counted || many || inode.is_removed() {
                let line = format!(
                    "host {index}: {file} stands at {found:?} with {counted} subdirectories, its inode says {inode:?}"
                );
                return self.violations.push(Violation::new("the tree is a tree", line));
            }
        }
    }

    /// What servers say that members take up is what their files are.
    pub(crate) fn check_usage(&mut self, index: usize) {
        let host = &self.hosts[index];
        if host.config.role == Role::Client {
            return;
        }
        let Some(replica) = &host.replica else { return };
        let wrong = replica.usage_is_wrong().unwrap_or_else(|error| Some(error.to_string()));
        if let Some(line) = wrong {
            let line = format!("host {index}: {line}");
            self.violations.push(Violation::new("what is taken up is counted right", line));
        }
    }

    /// What a replica keeps of its store in memory is what the store has.
    pub(crate) fn check_kept_rows(&mut self, index: usize) {
        let Some(replica) = &self.hosts[index].replica else { return };
        let wrong = replica.kept_row_is_wrong().unwrap_or_else(|error| Some(error.to_string()));
        if let Some(line) = wrong {
            let line = format!("host {index}: {line}");
            self.violations.push(Violation::new("rows kept in memory are those of the store", line));
        }
    }

    /// Invariant 8: every current version has a live holder on record, and it has it.
    pub(crate) fn check_holders(&mut self, home: &TreeDump) {
        for (file, inode) in &home.inodes {
            let (Kind::File, Some(root)) = (&inode.kind, inode.content.root()) else { continue };
            let author = self.author(inode);
            let is_lost = (0..self.hosts.len()).any(|at| !self.hosts[at].is_sound() && self.is_writer(at, author));
            // The home may show older bytes under a version of its own, and say of that, too, that they are lost.
            let is_promised = !self.history.is_said_lost(author)
                && !self.is_said_lost(inode.version)
                && !self.is_copy_of_what_ended(inode.version, author)
                && (!is_lost || self.history.is_safe(author))
                && !self.is_beyond_promise(author);
            if is_promised && !self.is_held(*file, inode.version, root) {
                let way = self.way_to(*file, inode.version, root);
                let line = format!("{} of {file} is not where the home has it on record: {way}", inode.version);
                return self.violations.push(Violation::new("every current version has a holder", line));
            }
        }
    }

    /// Whether a version is one that a machine, whose disk is lost, wrote again after a fork, while somebody who had seen the same by
    /// its first name replaced it. What was promised of that is kept by whatever took its place; the copy beside it is *durable only*
    /// as long as its writer was not told more of it by its own name ([S-losses], the writer's disk: lost).
    fn is_copy_of_what_ended(&self, version: RecordId, author: RecordId) -> bool {
        let is_its_writer = |host: &Host| host.origins.contains(&version.origin());
        version != author
            && self.hosts.iter().any(|host| host.destroyed && is_its_writer(host))
            && self.history.is_superseded(author)
            && !self.history.is_reported_safe(version)
    }

    /// Invariant 8, seen from below: what the home can show, every station and every client can read to the last byte.
    pub(crate) fn check_readable(&mut self, home: &TreeDump) {
        for index in self.running() {
            for (file, inode) in &home.inodes {
                let Some(root) = inode.content.root().filter(|_| inode.kind == Kind::File) else { continue };
                if self.is_said_lost(inode.version) {
                    continue;
                }
                // A client that knows the file otherwise asks when it is used.
                let is_readable =
                    !self.is_held(*file, inode.version, root) || self.can_read(index, *file, inode.version, root);
                // Its holder may have found by that very read that it is damaged there (seed 180054315).
                if !is_readable && self.is_held(*file, inode.version, root) {
                    let way = self.way_to(*file, inode.version, root);
                    let line = format!("host {index} finds no way to {} of {file}: {way}", inode.version);
                    return self.violate("what is held somewhere can be read everywhere", line);
                }
            }
        }
    }

    /// In a world that has been quiet for long, nothing waits for its contents: all is safe, and the clients know.
    pub(crate) fn check_all_is_safe(&mut self) {
        for index in self.running() {
            let Some(progress) = self.hosts[index].replica.as_ref().map(Replica::progress) else { continue };
            if progress.last_record.is_some_and(|last| progress.safe_through < last.sequence()) {
                let line = format!("host {index}: safe up to {} of {:?}", progress.safe_through, progress.last_record);
                self.violations.push(Violation::new("in the end everything is safe", line));
            }
        }
    }

    /// What the home declares lost while everybody is there is with nobody, be it a reader who is on no record.
    pub(crate) fn check_nobody_has(&mut self, version: RecordId, file: FileId) {
        let Some(root) = self.history.updates.get(&version).and_then(|update| update.content.root()) else { return };
        if let Some(index) = self.running().into_iter().find(|index| self.has_whole(*index, root)) {
            let line = format!("{version} of {file} is whole at host {index}, which was not asked");
            self.violate("what is declared lost is with nobody", line);
        }
    }

    /// Whether a content is durable at a host, and not swept away: what is removed comes back only with a crash.
    fn has_whole(&self, index: usize, root: Digest) -> bool {
        self.is_whole(index, root) && self.is_whole_durable(index, root)
    }

    /// What the home says to be lost is with nobody whom it asks.
    pub(crate) fn check_declared(&mut self) {
        let lost = self.hosts[0].replica.as_ref().and_then(|home| home.lost_contents(usize::MAX / 2).ok());
        for lost in lost.unwrap_or_default() {
            let Some(root) = self.history.updates.get(&lost.version).and_then(|update| update.content.root()) else {
                continue;
            };
            let is_asked = |index: &usize| {
                let host = &self.hosts[*index];
                !host.is_client() || host.origins.contains(&lost.version.origin())
            };
            let had = self.running().into_iter().filter(is_asked).find(|index| self.has_whole(*index, root));
            if let Some(index) = had {
                let line = format!("{} of {} is whole at host {index}", lost.version, lost.file);
                return self.violate("what is declared lost is with nobody", line);
            }
        }
    }

    /// Whether the home shows a file under this version because its bytes are lost.
    fn is_said_lost(&self, version: RecordId) -> bool {
        self.hosts[0].replica.as_ref().is_some_and(|home| home.is_lost(version) == Ok(true))
    }

    /// Who has a version, and whom each engine names, in words.
    fn way_to(&self, file: FileId, version: RecordId, root: wayfs_types::Digest) -> String {
        let tell = |index: usize| {
            let holder = self.hosts[index].replica.as_ref().map(|replica| replica.holder(file, version));
            let (whole, parent) = (self.is_whole(index, root), self.parent_of(index));
            format!("host {index} (whole {whole}, parent {parent:?}) names {holder:?}; ")
        };
        self.running().into_iter().map(tell).collect()
    }

    /// Follows the holders from the home to someone who has the bytes.
    fn is_held(&self, file: FileId, version: RecordId, root: wayfs_types::Digest) -> bool {
        let mut index = 0;
        // Home, station, client: nobody is further than two steps away.
        for _ in 0..3 {
            let Some(replica) = self.hosts[index].replica.as_ref() else { return false };
            let Ok(holder) = replica.holder(file, version) else { return false };
            match holder {
                Holder::Here => return self.is_whole(index, root),
                Holder::Child(origin, _) => {
                    let of_origin = |index: &usize| self.hosts[*index].config.origin == origin;
                    let children: Vec<usize> = (0..self.hosts.len()).filter(of_origin).collect();
                    match children.first() {
                        Some(child) if !self.hosts[*child].is_client() => index = *child,
                        _ => return children.iter().any(|child| self.is_whole(*child, root)),
                    }
                }
                // After a loss the file shows older bytes under a version of the home's, which a station has under their own.
                Holder::Parent if index != 0 && self.is_kept_at(index, root) => return self.is_whole(index, root),
                Holder::Parent | Holder::Unknown => return false,
            }
        }
        false
    }
}

/// The first difference between two trees, in words.
fn difference(home: &TreeDump, other: &TreeDump) -> Option<String> {
    for (place, file) in &home.entries {
        match other.entries.get(place) {
            Some(same) if same == file => {}
            found => return Some(format!("{place:?} is {file} at the home and {found:?} there")),
        }
    }
    if let Some((place, file)) = other.entries.iter().find(|(place, _)| !home.entries.contains_key(place)) {
        return Some(format!("{place:?} ({file}) is not at the home"));
    }
    home.inodes.iter().find_map(|(file, inode)| {
        let found = other.inodes.get(file);
        (found != Some(inode)).then(|| format!("{file} is {inode:?} at the home and {found:?} there"))
    })
}
