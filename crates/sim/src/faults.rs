//! What goes wrong.

use crate::coverage::Branch;
use crate::disk::{Disk, Survivors};
use crate::history::{CopiedStore, Update};
use crate::host::Host;
use crate::network::{End, IDLE_TIMEOUT, Session};
use crate::plan::Disaster;
use crate::stores::End as ProcessEnd;
use crate::world::{Event, World};
use rand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use wayfs_disk::faulty::Room;
use wayfs_proto::Role;
use wayfs_types::{Content, Digest, FileId, Image, Inode, Key, Origin, OriginId, RecordId};

/// Most machines, clones included.
const HOSTS_MAX: usize = 9;

impl World {
    /// Breaks something, and schedules the next.
    pub(crate) fn fault(&mut self) {
        let Some(every) = self.plan.fault_every.filter(|_| !self.healed) else { return };
        let next = Duration::from_micros(self.random.random_range(1..2 * every.as_micros() as u64));
        self.after(next, Event::Fault);
        self.step(0, Self::break_something);
    }

    fn break_something(&mut self) {
        let index = self.random.random_range(0..self.hosts.len());
        let disasters: Vec<Disaster> = self.plan.disasters.iter().copied().filter(|d| d.strikes()).collect();
        if !disasters.is_empty() && self.random.random_bool(0.15) {
            let disaster = disasters[self.random.random_range(0..disasters.len())];
            return self.strike(disaster);
        }
        match self.random.random_range(0..10) {
            0..3 if self.plan_power_cut(index) => {}
            0..3 => self.crash(index),
            3..6 => self.cut(index),
            6..7 => {
                let span = self.millis(100..=40_000);
                self.note(|| format!("host {index} sleeps for {span:?}"));
                // What waits for the end of a sleep waits for the first end: another sleep must not bring it forward.
                let host = &mut self.hosts[index];
                host.asleep_until = host.asleep_until.max(self.now + span);
                self.slow_down(|session| session.child == index || session.parent == index);
            }
            7..8 => {
                self.hosts[index].skew = self.random.random_range(-100_000_000..100_000_000) * 1_000_000_000;
                self.note(|| format!("the clock of host {index} is wrong"));
            }
            _ => self.disturb_roaming(index),
        }
    }

    /// Kills a process; a client's disk may go with it.
    pub(crate) fn crash(&mut self, index: usize) {
        if self.hosts[index].replica.is_none() {
            return;
        }
        let risk = self.hosts[index].disk.0.borrow().at_risk();
        if self.is_only_killed(index) {
            if self.crash_stores(index, ProcessEnd::Killed) {
                return self.end_and_come_back(index);
            }
            // What was put is with the machine.
            let batches = self.random.random_range(0..=risk.batches);
            self.note(|| format!("host {index} is killed: of {risk:?} survive {batches} batches"));
            self.hosts[index].disk.0.borrow_mut().crash(Survivors { batches, ..risk });
        } else {
            self.cut_power(index);
        }
        self.end_and_come_back(index);
    }

    /// What was in memory is gone; a client's disk may go as well.
    pub(crate) fn end_and_come_back(&mut self, index: usize) {
        self.end_life(index);
        let host = &self.hosts[index];
        if host.is_client() && self.plan.disasters.contains(&Disaster::ClientGone) && self.random.random_bool(0.15) {
            return self.destroy(index);
        }
        let (later, life) = (self.millis(10..=20_000), self.hosts[index].life);
        self.after(later, Event::Restart { host: index, life });
    }

    /// A machine loses power, of what was not durable so much survives, and it comes back.
    pub(crate) fn crash_to(&mut self, index: usize, survivors: Survivors) {
        self.hosts[index].disk.0.borrow_mut().crash(survivors);
        self.end_life(index);
        let (later, life) = (self.millis(10..=50), self.hosts[index].life);
        self.after(later, Event::Restart { host: index, life });
    }

    fn end_life(&mut self, index: usize) {
        self.hosts[index].forget_life();
        self.abandon_sessions(index);
        let host = &mut self.hosts[index];
        host.last_record = None;
        // What was answered and not yet durable may be gone, so it is no longer "seen".
        host.seen.clear();
    }

    /// A machine is gone with its disk, for good.
    pub(crate) fn destroy(&mut self, index: usize) {
        self.note(|| format!("host {index} is gone for good"));
        self.hosts[index].forget_life();
        self.abandon_sessions(index);
        let host = &mut self.hosts[index];
        host.last_record = None;
        host.seen.clear();
        host.destroyed = true;
        *host.disk.0.borrow_mut() = Disk::default();
    }

    /// Any prefix of the chunk writes and any prefix of the batches survive; without [`Disaster::Torn`] a batch comes
    /// with the chunks that were put before it.
    fn cut_power(&mut self, index: usize) {
        if self.crash_stores(index, ProcessEnd::PowerCut) {
            return;
        }
        let risk = self.hosts[index].disk.0.borrow().at_risk();
        let batches = self.random.random_range(0..=risk.batches);
        let before = self.hosts[index].disk.0.borrow().chunk_writes_before(batches).min(risk.chunk_writes);
        let least = if self.plan.disasters.contains(&Disaster::Torn) { 0 } else { before };
        let survivors = Survivors { batches, chunk_writes: self.random.random_range(least..=risk.chunk_writes) };
        self.note(|| format!("host {index} crashes: of {risk:?} survive {survivors:?}"));
        if survivors.chunk_writes < before {
            self.cover(Branch::Torn);
        }
        if batches < risk.batches {
            self.cover(Branch::Lost);
        }
        self.hosts[index].is_harmed |= survivors.chunk_writes < before;
        self.hosts[index].disk.0.borrow_mut().crash(survivors);
    }

    /// One of the rare things.
    fn strike(&mut self, disaster: Disaster) {
        let index = self.random.random_range(0..self.hosts.len());
        match disaster {
            Disaster::Torn | Disaster::ClientGone | Disaster::OpenFiles | Disaster::Stores => {}
            Disaster::Full => {
                let span = self.millis(500..=30_000);
                self.note(|| format!("the disk of host {index} is full for {span:?}"));
                self.hosts[index].disk.0.borrow_mut().set_room(Room::None);
                self.after(span, Event::Room { host: index });
            }
            Disaster::Damage | Disaster::ChunkGone => self.harm_chunk(index, disaster),
            Disaster::StationGone => self.strike_role(Role::Station, Self::destroy),
            Disaster::HomeGone => self.destroy(0),
            Disaster::ClientBack => self.strike_role(Role::Client, Self::plan_to_go_back),
            Disaster::StationBack => self.strike_role(Role::Station, Self::plan_to_go_back),
            Disaster::HomeBack => self.plan_to_go_back(0),
            Disaster::Clone => self.strike_role(Role::Client, Self::clone_store),
            Disaster::Quota => self.set_quota(),
            Disaster::Fence => self.strike_role(Role::Client, Self::draw_fence),
        }
    }

    fn strike_role(&mut self, role: Role, strike: fn(&mut Self, usize)) {
        let fit = |index: &usize| self.hosts[*index].role() == role && !self.hosts[*index].destroyed;
        let hosts: Vec<usize> = (0..self.hosts.len()).filter(fit).collect();
        if !hosts.is_empty() {
            let at = self.random.random_range(0..hosts.len());
            strike(self, hosts[at]);
        }
    }

    fn harm_chunk(&mut self, index: usize, disaster: Disaster) {
        let chunks = self.hosts[index].disk.0.borrow().durable_chunk_names();
        self.note(|| format!("a chunk of host {index} meets {disaster:?}"));
        let Some(at) = (!chunks.is_empty()).then(|| self.random.random_range(0..chunks.len())) else { return };
        self.note(|| format!("host {index}: {disaster:?} of chunk {}", chunks[at]));
        let mut disk = self.hosts[index].disk.0.borrow_mut();
        match disaster {
            Disaster::ChunkGone => disk.lose(chunks[at]),
            _ => disk.damage(chunks[at]),
        }
        drop(disk);
        self.hosts[index].hit.insert(chunks[at]);
        self.hosts[index].is_harmed = true;
    }

    /// A copy of a store is made now and put back later.
    fn plan_to_go_back(&mut self, index: usize) {
        let copy = self.hosts[index].disk.0.borrow().durable_copy();
        let later = self.millis(10..=30_000);
        self.note(|| format!("the store of host {index} is copied, and put back after {later:?}"));
        self.after(later, Event::GoBack { host: index, copy: Box::new(copy) });
    }

    /// A store is put back to a copy: the process ends, and begins anew on it.
    pub(crate) fn go_back(&mut self, index: usize, copy: Disk) {
        if self.healed || self.hosts[index].destroyed {
            return;
        }
        self.note(|| format!("host {index} is put back to an older copy"));
        self.hosts[index].reboot_open_files();
        self.hosts[index].forget_life();
        self.abandon_sessions(index);
        let host = &mut self.hosts[index];
        host.last_record = None;
        host.seen.clear();
        host.is_copy = true;
        if index == 0 {
            self.note_empty_ends();
            self.note_let_go();
            self.note_kept_here_alone();
        }
        let whole = if index == 0 { self.whole_updates(0) } else { Vec::new() };
        let host = &mut self.hosts[index];
        // What was called stable upon these is not kept for this disk any more ([S-losses], "what the copy has").
        let had = host.disk.0.borrow().durable_chunk_names();
        *host.disk.0.borrow_mut() = copy;
        let has: BTreeSet<_> = host.disk.0.borrow().durable_chunk_names().into_iter().collect();
        host.hit.extend(had.into_iter().filter(|chunk| !has.contains(chunk)));
        let lost = whole.into_iter().filter(|(_, root)| !self.is_whole_durable(index, *root)).map(|(record, _)| record);
        self.history.lose_bytes_at_home(lost.collect::<Vec<_>>());
        let reopened = self.reopened(index);
        if let Some(replica) = &reopened {
            // The copy may be of a time when it wrote under another origin.
            self.hosts[index].config.origin = replica.config().origin;
        }
        let (origin, last) = (self.hosts[index].config.origin, self.last_on_disk(index));
        let origins = reopened.as_ref().and_then(|replica| replica.origins().ok()).unwrap_or_default();
        let known = origins.iter().find(|(of, _)| *of == origin).map(|(_, image)| image);
        self.history.put_back(index, origin, (last, known));
        if index == 0
            && let Some(origins) = reopened.and_then(|home| home.origins().ok())
        {
            self.history.lose_at_home(&origins.into_iter().collect());
        }
        if self.hosts[index].role() == Role::Station {
            let servers =
                (0..self.hosts.len()).filter(|host| !self.hosts[*host].is_client() && !self.hosts[*host].destroyed);
            let origins = servers.filter_map(|host| self.reopened(host)?.origins().ok());
            let origins: Vec<BTreeMap<_, _>> = origins.map(|origins| origins.into_iter().collect()).collect();
            self.history.lose_at_station(&origins);
        }
        self.cover(Branch::WentBack);
        let (later, life) = (self.millis(10..=5000), self.hosts[index].life);
        self.after(later, Event::Restart { host: index, life });
    }

    /// Updates whose contents a host has whole.
    fn whole_updates(&self, index: usize) -> Vec<(RecordId, Digest)> {
        let roots = self.history.updates.iter().filter_map(|(record, update)| Some((*record, update.content.root()?)));
        roots.filter(|(_, root)| self.is_whole_durable(index, *root)).collect()
    }

    /// Of an empty file that was removed, or became one with an equal one, the home has a trace only. A home that is put back loses that
    /// trace, and nobody makes it again: what it has of such files now counts.
    fn note_empty_ends(&mut self) {
        let images = self.reopened(0).and_then(|home| home.images(None, usize::MAX / 2).ok()).unwrap_or_default();
        let inode = |(key, image)| {
            if let (Key::Inode(file), Image::Inode(inode)) = (key, image) { Some((file, inode)) } else { None }
        };
        let inodes: BTreeMap<FileId, Arc<Inode>> = images.into_iter().filter_map(inode).collect();
        let empty = self.history.updates.iter().filter(|(_, update)| update.content == Content::EMPTY);
        let empty: Vec<(RecordId, FileId)> = empty.map(|(record, update)| (*record, update.file)).collect();
        for (record, file) in empty {
            let names: Vec<RecordId> = self.history.names(record).collect();
            for file in names.into_iter().map(|name| if name == record { file } else { FileId::made_by(name) }) {
                match inodes.get(&file).map(|inode| (inode.is_removed(), inode.merged_into)) {
                    Some((true, Some(into))) if inodes.get(&into).is_some_and(|other| !other.is_removed()) => {
                        self.history.became_one(record, into.maker());
                    }
                    Some((true, _)) => drop(self.history.merged.insert(record)),
                    _ => {}
                }
            }
        }
    }

    /// What was written over by something that the home has whole nobody answers for any more: its writer and the stations were told
    /// *stable* of what took its place, and let it go (`Replica::supersede`). If the home loses both, each of them is held to what it still
    /// answers for ([S-losses], "what others still hold"): the later one, if somebody does, and not to bytes of the older one that
    /// happen not to be swept (seed 199 of `home-back`).
    fn note_let_go(&mut self) {
        let origins = self.reopened(0).and_then(|home| home.origins().ok()).unwrap_or_default();
        let origins: BTreeMap<OriginId, Origin> = origins.into_iter().collect();
        let is_there = |name: RecordId| origins.get(&name.origin()).is_some_and(|origin| origin.has(name.sequence()));
        let is_whole = |update: &Update| update.content.root().is_none_or(|root| self.is_whole_durable(0, root));
        let later = self.history.updates.iter().filter(|(record, update)| {
            update.base.is_some() && is_whole(update) && self.history.names(**record).any(is_there)
        });
        let let_go: Vec<RecordId> = later.filter_map(|(_, update)| update.base).collect();
        self.history.let_go.extend(let_go);
    }

    /// Small contents stand in tables alone. Their writer, and whoever saw them, forgets them once another version is shown, be its bytes at
    /// its writer only: what is left if these are lost the home keeps (`contents/previous.rs`), and a station of what came by way of it. If no
    /// table but the home's has the bytes any more of what was safe by then, a home that is put back to before both has nobody to learn them
    /// from ([S-losses], "what the copy has, and what others still hold"; seed 174230549 of `home-back`). The rows are searched for the bytes
    /// themselves, so that no engine that still has them is excused.
    fn note_kept_here_alone(&mut self) {
        let small = self.history.updates.iter().filter_map(|(record, update)| match &update.content {
            Content::Inline(bytes) if !bytes.is_empty() => Some((*record, bytes)),
            _ => None,
        });
        let was_written_over =
            |record: RecordId| self.history.is_safe(record) && !self.history.heirs_of(record).is_empty();
        let others: Vec<&Host> = self.hosts.iter().skip(1).filter(|host| !host.destroyed).collect();
        let is_elsewhere = |bytes: &[u8]| others.iter().any(|host| host.disk.0.borrow().has_bytes(bytes));
        let alone = small.filter(|(record, bytes)| was_written_over(*record) && !is_elsewhere(bytes));
        let alone: Vec<RecordId> = alone.map(|(record, _)| record).collect();
        self.note(|| format!("nobody but the home has the bytes that were written over in {alone:?}"));
        self.history.let_go.extend(alone);
    }

    /// A second machine begins to run with what a first one has on its disk.
    fn clone_store(&mut self, index: usize) {
        if self.hosts.len() >= HOSTS_MAX {
            return;
        }
        let copy = self.hosts[index].disk.0.borrow().durable_copy();
        let (config, parents) = (self.hosts[index].config.clone(), self.hosts[index].parents.clone());
        let second = self.hosts.len();
        for parent in parents.clone() {
            let link = self.new_link(Role::Client, parent);
            self.links.insert((second, parent), link);
        }
        let skew = self.random.random_range(-5_000_000_000..5_000_000_000);
        let origin = config.origin;
        let mut host = Host::new(config, parents, skew, self.plan.limits.uploads);
        host.origins.clone_from(&self.hosts[index].origins);
        // What the first one had lost or never had, the second one has not.
        host.is_copy = self.hosts[index].is_copy;
        host.is_harmed = self.hosts[index].is_harmed;
        host.hit.clone_from(&self.hosts[index].hit);
        host.is_clone = true;
        *host.disk.0.borrow_mut() = copy;
        self.hosts.push(host);
        self.note(|| format!("host {second} is a clone of host {index}"));
        let last = self.last_on_disk(second);
        self.history.copied(CopiedStore { first: index, second }, origin, last);
        self.cover(Branch::Cloned);
        self.start(second);
        self.sweep_and_plan(second);
        self.plan_to_speak(second);
        let first = self.millis(1..=3000);
        self.after(first, Event::Work { host: second });
    }

    /// Sweeps a host that runs, and plans its next sweep.
    pub(crate) fn sweep_and_plan(&mut self, index: usize) {
        if self.hosts[index].replica.is_some() {
            self.sweep(index);
            if self.hosts[index].is_harmed {
                self.scrub(index);
            }
        }
        if !self.healed {
            let later = self.millis(1000..=9000);
            self.after(later, Event::Sweep { host: index });
        }
    }

    fn abandon_sessions(&mut self, index: usize) {
        let mine: Vec<_> = self
            .sessions
            .values()
            .filter_map(|s| match (s.child == index, s.parent == index) {
                (true, _) => Some((s.peer, End::Child)),
                (_, true) => Some((s.peer, End::Parent)),
                _ => None,
            })
            .collect();
        for (peer, end) in mine {
            self.end_session(peer, end);
        }
    }

    fn cut(&mut self, index: usize) {
        let links: Vec<_> =
            self.links.keys().filter(|(child, parent)| *child == index || *parent == index).copied().collect();
        let Some(link) = (!links.is_empty()).then(|| links[self.random.random_range(0..links.len())]) else { return };
        let since = self.now;
        let state = self.links.get_mut(&link).expect("just listed");
        if state.cut_since.is_some() {
            return;
        }
        state.cut_since = Some(since);
        self.slow_down(|session| (session.child, session.parent) == link);
        let span = self.millis(100..=60_000);
        self.note(|| format!("the link {link:?} is cut for {span:?}"));
        self.after(span, Event::Reconnect { link });
        self.after(IDLE_TIMEOUT, Event::CutCheck { link, since });
    }

    fn slow_down(&mut self, is_struck: impl Fn(&Session) -> bool) {
        self.sessions.values_mut().filter(|session| is_struck(session)).for_each(|session| session.is_slow = true);
    }
}
