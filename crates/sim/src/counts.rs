//! What is left in the end by the accounts of all hosts: nothing.
//!
//! `status`, `queue`, metrics and `sync --until stable` take their numbers from the ledger. In a healed world everybody does what its
//! users would: the owner removes the members whose disks are gone, so that what died with them can be declared lost; stations
//! are told to send what their policies hold back; and clients wait for *stable*. Then no ledger counts anything, and each wait
//! ends. A host that goes on counting what is where it should be has a `sync --until stable` that never ends.
//!
//! The one excuse: a machine that is gone and whose key another machine has, which runs on a copy of its store. It cannot be removed without
//! that one, and what only it had is waited for. That nobody who is left has such contents is looked up.

use crate::host::{Expectation, name};
use crate::world::World;
use std::time::Duration;
use wayfs_proto::{ContentInUse, ContentMissing, ContentWaiting, Input, Ledger, Replica, Role};
use wayfs_types::request::{Answer, Change, Level, Request, RequestId};
use wayfs_types::{FileId, Name, NodeId, RecordId};

/// Simulated time in which something must come home. The home asks all who are there twice before it declares something lost, and
/// waits for who was away lately.
const PATIENCE: Duration = Duration::from_secs(300);
/// Contents that each client writes in the end.
const WRITTEN: usize = 4;
/// What the last waits set in motion is heard in.
const HEARD: Duration = Duration::from_secs(5);

impl World {
    /// In the end nobody counts anything as not at the home.
    pub(crate) fn check_counts(&mut self) {
        self.remove_the_gone();
        self.write_what_is_waited_for();
        let waits = self.wait_for_stable();
        let (mut end, mut least) = (self.now + PATIENCE, u64::MAX);
        while self.violations.is_empty() && self.now < end {
            self.tell_stations_to_send();
            let next = self.now + Duration::from_millis(500);
            self.run_until(next);
            let left = self.running().into_iter().map(|index| self.left_at(index)).sum();
            if left == 0 {
                break;
            }
            if left < least {
                (end, least) = (self.now + PATIENCE, left);
            }
        }
        let heard = self.now + HEARD;
        self.run_until(heard);
        let left = self.running().into_iter().find(|index| self.left_at(*index) > 0);
        match left {
            Some(_) if self.violations.is_empty() => {
                let lines: Vec<String> = self.running().into_iter().map(|index| self.left_in_words(index)).collect();
                let line = lines.join("\n  ");
                self.violate("in the end nothing is counted as left", line);
            }
            Some(_) | None => self.check_waits(waits),
        }
    }

    /// All that was read is at the home by now. So each client writes a little more, of which the stations' policies send a part.
    fn write_what_is_waited_for(&mut self) {
        let mut clients = self.running();
        clients.retain(|index| self.hosts[*index].is_client());
        let mut asked = Vec::new();
        for index in clients {
            for number in 0..WRITTEN {
                let content = self.fresh_tree();
                for piece in content.root().map(|root| self.pieces(root)).iter().flat_map(|pieces| pieces.iter()) {
                    self.put_piece(index, *piece);
                }
                let name = Name::new(format!("last-{index}-{number}")).unwrap_or_else(|_| name(0));
                let expectation = Expectation::Published { content: content.clone() };
                let change = Change::Publish { parent: FileId::ROOT, name, mode: 0o600, uid: 0, gid: 0, content };
                asked.push((index, self.ask(index, Request::Change { user: 0, change }, expectation)));
            }
        }
        // Where the home decides at once, each waits for those before it.
        let (end, is_open) = (self.now + PATIENCE, |world: &Self, (index, id): &(usize, RequestId)| {
            world.hosts[*index].waiting.contains_key(id)
        });
        while self.now < end && asked.iter().any(|one| is_open(self, one)) {
            let next = self.now + Duration::from_millis(500);
            self.run_until(next);
        }
        let written = self.now + HEARD;
        self.run_until(written);
    }

    /// The owner removes the members whose disks are gone, but for those whose key somebody has who is there.
    fn remove_the_gone(&mut self) {
        let gone = (0..self.hosts.len()).filter(|index| self.hosts[*index].destroyed && !self.is_key_in_use(*index));
        let gone: Vec<NodeId> = gone.map(|index| self.hosts[index].config.node).collect();
        gone.into_iter().for_each(|node| self.remove_member(node));
    }

    /// A wait for *stable* has the stations send what it waits for: nobody else tells them.
    fn check_that_a_wait_brings(&mut self, index: usize, id: RequestId) {
        let end = self.now + PATIENCE;
        let is_over = |world: &Self| world.hosts[index].collected.contains_key(&id);
        while self.violations.is_empty() && self.now < end && !is_over(self) {
            let next = self.now + Duration::from_millis(500);
            self.run_until(next);
        }
        if !is_over(self) && !self.is_excused(index) && !self.is_excused(0) {
            let lines: Vec<String> = self.running().into_iter().map(|index| self.left_in_words(index)).collect();
            let line = format!("host {index} waits: {}", lines.join("\n  "));
            self.violate("a wait for stable has stations send what it waits for", line);
        }
    }

    /// Whether a machine that is there has the key of one.
    fn is_key_in_use(&self, index: usize) -> bool {
        let node = self.hosts[index].config.node;
        self.hosts.iter().any(|host| !host.destroyed && host.config.node == node)
    }

    /// As `sync --until stable` does it at a station.
    fn tell_stations_to_send(&mut self) {
        for index in self.running() {
            if self.hosts[index].role() == Role::Station {
                for ContentWaiting { file, version, .. } in self.waiting_at(index) {
                    self.feed(index, Input::Propagate { file, version });
                }
            }
        }
    }

    /// As `sync --until stable` does it at clients, one after the other: what one waits for no other brings. Any of them is the first.
    fn wait_for_stable(&mut self) -> Vec<(usize, RequestId)> {
        let mut clients: Vec<usize> =
            self.running().into_iter().filter(|index| self.hosts[*index].is_client()).collect();
        let first = usize::try_from(self.plan.seed).unwrap_or(0) % clients.len().max(1);
        clients.rotate_left(first);
        let wait = Request::Wait { record: None, until: Level::Stable };
        let patience = PATIENCE * 100;
        let mut waits = Vec::new();
        for index in clients {
            let id = self.ask_within(index, wait.clone(), Expectation::Collected, patience);
            waits.push((index, id));
            self.check_that_a_wait_brings(index, id);
        }
        waits
    }

    fn check_waits(&mut self, waits: Vec<(usize, RequestId)>) {
        // What is excused at the home is waited for below.
        if !self.violations.is_empty() || !self.lacking_at(0).is_empty() {
            return;
        }
        for (index, id) in waits {
            let outcome = self.hosts[index].collected.remove(&id);
            if !matches!(outcome, Some(Ok(Answer::Reached))) {
                let progress = self.hosts[index].replica.as_ref().map(Replica::progress);
                let line = format!("host {index} was answered {outcome:?}: {progress:?}");
                return self.violate("in the end each wait for stable ends", line);
            }
        }
    }

    /// How much a host counts that it should not.
    fn left_at(&self, index: usize) -> u64 {
        let ledger = self.hosts[index].replica.as_ref().map(Replica::ledger);
        let Some(Ok(Ledger { not_safe, at_station, home_lacks })) = ledger else { return 1 };
        let amounts = || [not_safe, at_station, Some(home_lacks)].into_iter().flatten();
        let records: u64 = amounts().map(|amount| amount.records).sum();
        let contents = amounts().map(|amount| amount.versions + u64::from(!amount.is_nothing())).sum::<u64>();
        if contents > 0 && self.is_excused(index) { records } else { records + contents }
    }

    /// Whether all contents that a host counts were at a machine only that is gone and could not be removed.
    fn is_excused(&self, index: usize) -> bool {
        let has_lost_copy = (0..self.hosts.len()).any(|gone| self.hosts[gone].destroyed && self.is_key_in_use(gone));
        let is_gone = |version: RecordId| {
            let update = self.history.updates.get(&self.history.held_by(version));
            let root = update.and_then(|update| update.content.root());
            root.is_some_and(|root| !self.running().into_iter().any(|host| self.is_whole_durable(host, root)))
        };
        has_lost_copy
            && self.lacking_at(index).iter().all(|lacking| is_gone(lacking.version))
            && self.owed_at(index).is_empty()
    }

    fn waiting_at(&self, index: usize) -> Vec<ContentWaiting> {
        let replica = self.hosts[index].replica.as_ref();
        replica.and_then(|replica| replica.contents_waiting(None, usize::MAX / 2).ok()).unwrap_or_default()
    }

    fn lacking_at(&self, index: usize) -> Vec<ContentMissing> {
        let replica = self.hosts[index].replica.as_ref();
        replica.and_then(|replica| replica.contents_missing(None, usize::MAX / 2).ok()).unwrap_or_default()
    }

    /// What a host answers for.
    fn owed_at(&self, index: usize) -> Vec<ContentInUse> {
        let replica = self.hosts[index].replica.as_ref();
        let page = replica.and_then(|replica| replica.contents_in_use(None, 1).ok());
        let all = page.map(|page| page.contents).unwrap_or_default();
        all.into_iter().filter(|content| content.owed && content.version.is_some()).collect()
    }

    /// What a host counts, row by row, and who has it.
    fn left_in_words(&self, index: usize) -> String {
        let holders = |root| {
            let at: Vec<usize> = self.running().into_iter().filter(|host| self.is_whole_durable(*host, root)).collect();
            format!("whole at {at:?}")
        };
        let owed = self.owed_at(index).into_iter().map(|content| {
            format!("answers for {:?} of {}, {:?}", content.version, content.file, content.content.root().map(holders))
        });
        let lacking = self.lacking_at(index).into_iter().map(|lacking| {
            let update = self.history.updates.get(&self.history.held_by(lacking.version));
            let at = update.and_then(|update| update.content.root()).map(holders);
            format!("lacks {} of {}, on record {:?}, {at:?}", lacking.version, lacking.file, lacking.holders)
        });
        let rows: Vec<String> = owed.chain(lacking).collect();
        let host = &self.hosts[index];
        let ledger = host.replica.as_ref().map(Replica::ledger);
        let names: Vec<_> = self.hosts.iter().map(|host| host.config.origin).collect();
        format!(
            "host {index} of {:?} (parent {:?}, hosts are {names:?}): {ledger:?}: {}",
            host.origins,
            self.parent_of(index),
            rows.join("; ")
        )
    }
}
