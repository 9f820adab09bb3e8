//! The checker of claims: what a host says of itself and its files, compared with the disks that it speaks of.
//!
//! At random moments a host is asked what its screens would show: how far its records have come, what is at risk,
//! where versions are. Each statement is compared at that moment with the **durable** disks of others: tables are
//! opened as after a power cut, contents are compared chunk by chunk. A client may lose its disk for good right
//! after; what it had said is in the history by then, and the checks of the healed world hold the others to it.
//!
//! What a host says too carefully is no violation: it may not have heard yet. Once a station's disk lost something
//! (`World::has_lost_server`), *safe* is what SEMANTICS.md, [S-losses], makes of it: a server that is left has it, or its
//! writer. Once the home's did, only what hosts say of their own disk is compared.

use crate::coverage::Branch;
use crate::disk::DiskHandle;
use crate::disk::Kept;
use crate::history::{SafeReport, Update};
use crate::plan::Disaster;
use crate::world::{Event, World};
use rand::Rng;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use wayfs_proto::{Config, Holder, Ledger, Progress, Replica, Role};
use wayfs_types::{Content, Fact, Facts, FileId, Life, Origin, OriginId, RecordId};

/// Chance that a client that has spoken loses its disk at once.
const GONE: f64 = 0.03;

/// What a power cut would leave of a server.
struct Server {
    host: usize,
    /// What it knows of each origin: which of its records it has.
    origins: BTreeMap<OriginId, Origin>,
}

impl Server {
    fn has(&self, record: RecordId) -> bool {
        self.origins.get(&record.origin()).is_some_and(|origin| origin.has(record.sequence()))
    }
}

/// Where an update is, whatever anybody says.
#[derive(Debug, Clone, Copy)]
struct Truth {
    /// A server has the record on its disk, and one all contents.
    is_safe: bool,
    /// The home has the record on its disk.
    is_visible: bool,
    /// The home has the record and all contents on its disk.
    is_stable: bool,
}

impl World {
    pub(crate) fn plan_to_speak(&mut self, index: usize) {
        let later = self.millis(500..=8000);
        self.after(later, Event::Speak { host: index });
    }

    /// A host says where it stands; sometimes these are its last words.
    pub(crate) fn speak_and_plan(&mut self, index: usize) {
        if self.healed || self.hosts[index].destroyed {
            return;
        }
        self.plan_to_speak(index);
        self.check_claims(index);
        let may_go = self.hosts[index].is_client() && self.plan.disasters.contains(&Disaster::ClientGone);
        if may_go && self.random.random_bool(GONE) {
            self.cover(Branch::Gone);
            self.destroy(index);
        }
    }

    /// Compares what a host says with what is so.
    pub(crate) fn check_claims(&mut self, index: usize) {
        let Some(replica) = self.hosts[index].replica.as_ref() else { return };
        let progress = replica.progress();
        let Ok(ledger) = replica.ledger() else { return self.violate("its ledger can be read", format!("{index}")) };
        let servers = self.servers();
        self.check_own_disk(index, &progress);
        if self.hosts[0].is_sound() {
            match self.hosts[index].role() {
                Role::Client => self.check_own_records(index, &progress, &ledger, &servers),
                Role::Station => self.check_station(index, &ledger, &servers),
                Role::Home => {}
            }
            self.check_facts(index, &servers);
        }
        self.check_holders_here(index);
        self.check_kernel_names(index);
    }

    /// The servers as a power cut at this moment would leave them.
    fn servers(&self) -> Vec<Server> {
        let is_server = |index: &usize| !self.hosts[*index].is_client() && !self.hosts[*index].destroyed;
        let open = |host: usize| {
            let replica = self.reopened(host)?;
            let origins = replica.origins().ok()?.into_iter().collect();
            Some(Server { host, origins })
        };
        (0..self.hosts.len()).filter(is_server).filter_map(open).collect()
    }

    /// A host's engine as a power cut at this moment would leave it.
    pub(crate) fn reopened(&self, index: usize) -> Option<Replica<DiskHandle>> {
        let host = &self.hosts[index];
        let disk = host.disk.0.borrow().durable_records();
        let config = Config { life: Life::NONE, ..host.settings() };
        Replica::open(config, DiskHandle(Rc::new(RefCell::new(disk))), self.now).ok()
    }

    /// The last record of a host's own that a power cut at this moment would leave.
    pub(crate) fn last_on_disk(&self, index: usize) -> u64 {
        let origin = self.hosts[index].config.origin;
        let last = self.reopened(index).and_then(|replica| replica.progress().last_record);
        last.filter(|last| last.origin() == origin).map_or(0, RecordId::sequence)
    }

    fn truth(&self, record: RecordId, update: &Update, servers: &[Server]) -> Truth {
        let root = update.content.root();
        // Somebody who had seen it replaced it: its content need not be anywhere.
        let is_over = root.is_none() || self.history.is_superseded(record);
        let is_at = |server: &Server| {
            let is_whole = root.is_none_or(|root| self.is_whole_durable(server.host, root));
            is_over || is_whole || self.went_with_an_equal(record, update)
        };
        let home = servers.iter().find(|server| server.host == 0);
        // A station that the home's history parted from writes again by its own name what it had called safe.
        let names: Vec<RecordId> = self.history.names(record).collect();
        let has = |server: &Server| names.iter().any(|name| server.has(*name));
        let is_visible = home.is_some_and(has);
        let is_lost = self.has_lost_server();
        let kept = if is_over { &Content::EMPTY } else { &update.content };
        // What a station had and left out, for what took its place, need be at no server any more (seed 9000655).
        let is_kept = self.history.is_left_out(record)
            || is_lost && (self.is_at_writer(record, kept) || self.is_beyond_promise(record));
        Truth {
            is_safe: is_kept || servers.iter().any(has) && servers.iter().any(is_at),
            is_visible,
            is_stable: is_visible && home.is_some_and(is_at),
        }
    }

    /// What a client says of the records that it made.
    fn check_own_records(&mut self, index: usize, progress: &Progress, ledger: &Ledger, servers: &[Server]) {
        let origin = self.hosts[index].config.origin;
        let Some(last) = progress.last_record else { return };
        let own: Vec<(RecordId, Update)> = self
            .history
            .updates
            .iter()
            .filter(|(record, _)| self.history.is_of(**record, index))
            .filter(|(record, _)| record.origin() == origin && !self.history.is_uncertain(**record))
            .filter(|(record, _)| record.sequence() <= last.sequence() && !self.history.is_said_lost(**record))
            .map(|(record, update)| (*record, update.clone()))
            .collect();
        let (mut here_only, mut home_lacks) = (0, 0);
        for (record, update) in own {
            let truth = self.truth(record, &update, servers);
            let said = [
                ("what is said to be safe is at a server", progress.safe_through, truth.is_safe),
                ("what is said to be visible is at the home", progress.visible_through, truth.is_visible),
                ("what is said to be stable is whole at the home", progress.stable_through, truth.is_stable),
            ];
            // What a store that was put back had written since the copy lies in a gap of numbers for it: what it says of numbers
            // beyond is about the records that it knows ([S-old-copy]; seed 2109413: its station had them, and the home heard of the
            // numbers behind the gap first). That they are safe stays promised.
            let is_spoken_of = !self.history.is_forgotten(index, record);
            for (promise, through, is_so) in said {
                if is_spoken_of && record.sequence() <= through && !is_so {
                    let line = format!("host {index} says so through {through}, and {record} is {truth:?}");
                    return self.violate(promise, line);
                }
            }
            // What a store that was put back had written since the copy is on the account of the server that has it only:
            // nobody tells the writer what its records name ([S-old-copy]).
            let is_counted = !self.history.is_superseded(record) && !self.history.is_forgotten(index, record);
            let size = if is_counted { update.content.size() } else { 0 };
            here_only += if truth.is_safe { 0 } else { size };
            home_lacks += if truth.is_stable { 0 } else { size };
        }
        let at_risk = ledger.not_safe.unwrap_or_default();
        if !at_risk.is_nothing() {
            self.cover(Branch::SaidAtRisk);
        }
        if at_risk.is_nothing() && !ledger.home_lacks.is_nothing() {
            self.cover(Branch::SaidSafe);
        }
        if ledger.home_lacks.is_nothing() {
            self.cover(Branch::SaidStable);
        }
        if at_risk.bytes < here_only || ledger.home_lacks.bytes < home_lacks {
            let line = format!(
                "host {index} says {ledger:?}, and {here_only} bytes are at no server, {home_lacks} not at home"
            );
            return self.violate("no fewer bytes are at risk than are said to be", line);
        }
        // What it said is promised, be its disk lost the next moment.
        if let Ok(record) = RecordId::new(origin, progress.safe_through) {
            self.history.report_safe(index, SafeReport { record, at: self.now, station: usize::MAX });
        }
    }

    /// What is on the own disk of a client that says "durable".
    fn check_own_disk(&mut self, index: usize, progress: &Progress) {
        let host = &self.hosts[index];
        if !host.is_client() || !host.is_sound() {
            return;
        }
        let origin = host.config.origin;
        let last = self.last_on_disk(index);
        let is_own = |record: &RecordId| record.origin() == origin && self.history.is_of(*record, index);
        // Numbers that a new life leaves out stand for nothing.
        let is_gone = |record: &RecordId| {
            is_own(record) && record.sequence() > last && record.sequence() <= progress.durable_through
        };
        let gone = self.history.made().find(is_gone);
        if let Some(record) = gone {
            let line = format!("host {index} says through {}, its disk has {last}: {record}", progress.durable_through);
            return self.violate("what is said to be durable is on the disk", line);
        }
        let is_here_only = |record: &RecordId| {
            let sequence = record.sequence();
            is_own(record) && sequence <= progress.durable_through && sequence > progress.safe_through
        };
        let lost = self.history.updates.iter().find(|(record, update)| {
            is_here_only(record)
                && !self.history.is_uncertain(**record)
                && !self.history.is_superseded(**record)
                // What is stable by itself may have been let go, be what was before it not safe.
                && update.content.root().is_some_and(|root| {
                    // Nor is it kept for a home whose disk damaged it since.
                    !self.has_what_it_made(index, **record, root, Kept::Durably)
                        && !self.lacks_only_what_went_with_its_base(index, **record, root, Kept::Durably)
                        && !self.is_whole_durable(0, root)
                        && !self.is_hit_at(0, root)
                })
        });
        if let Some((record, _)) = lost {
            let line = format!("host {index} says so through {}, and {record} is not", progress.durable_through);
            self.violate("contents of what is said to be durable are on the disk", line);
        }
    }

    /// What a station says that the home lacks.
    fn check_station(&mut self, index: usize, ledger: &Ledger, servers: &[Server]) {
        let Some(own) = servers.iter().find(|server| server.host == index) else { return };
        let others: Vec<usize> = (0..self.hosts.len()).filter(|other| *other != index).collect();
        // What a fence shuts out does nothing, and nobody answers for its contents (seeds 9304389 and 9304629).
        let is_here_only = |(record, update): &(&RecordId, &Update)| {
            let is_here = |root| self.is_whole_durable(index, root);
            own.has(**record)
                && !self.fences.shut_out(**record)
                && update.content.root().is_some_and(|root| {
                    // Its writer answers for it until its push is through, and has not noticed yet what its disk lost (seed 50000059).
                    let writer_answers =
                        |other: &usize| self.is_writer(*other, **record) && self.is_hit_at(*other, root);
                    is_here(root)
                        && !others.iter().any(|other| self.is_whole_durable(*other, root) || writer_answers(other))
                })
                && !self.history.is_superseded(**record)
                && !self.history.is_uncertain(**record)
                && !self.history.is_said_lost(**record)
        };
        let here_only: u64 = self.history.updates.iter().filter(is_here_only).map(|(_, u)| u.content.size()).sum();
        if ledger.home_lacks.bytes < here_only {
            let line = format!("station {index} says {ledger:?}, and {here_only} bytes are on its disk only");
            self.violate("a station names what it alone has", line);
        }
    }

    /// What a host says of the current versions of files, its own and others'.
    fn check_facts(&mut self, index: usize, servers: &[Server]) {
        for file in self.hosts[index].files.clone() {
            let Some(replica) = self.hosts[index].replica.as_ref() else { return };
            let Ok(Some(state)) = replica.level(file) else { continue };
            let Some(update) = self.history.updates.get(&state.version) else { continue };
            if self.history.is_uncertain(state.version)
                || self.history.is_said_lost(state.version)
                || self.fences.shut_out(state.version)
            {
                continue;
            }
            let truth = self.truth(state.version, update, servers);
            let Facts { safe, visible, stable } = state.facts;
            if safe.holds() && !truth.is_safe
                || visible.holds() && !truth.is_visible
                || stable.holds() && !truth.is_stable
            {
                let line = format!("host {index} says {:?} of {} of {file}: {truth:?}", state.facts, state.version);
                return self.violate("facts of a version are so", line);
            }
            // A version is what its record is: of that the same is said, by whatever the file shows of it meanwhile (a marker
            // names no contents). This is seen where the truth excuses what is said, too: a removed version need be nowhere.
            let by_record = replica.facts_of(state.version, Some(&update.content)).unwrap_or_default();
            let is_more = |of_file: Fact, of_record: Fact| of_file.holds() && of_record == Fact::No;
            if is_more(safe, by_record.safe) || is_more(visible, by_record.visible) || is_more(stable, by_record.stable)
            {
                let line =
                    format!("host {index} says {:?} of {} of {file}, and {by_record:?}", state.facts, state.version);
                return self.violate("what is said of a file is said of its record", line);
            }
        }
    }

    /// What a host says that it has itself.
    fn check_holders_here(&mut self, index: usize) {
        if !self.hosts[index].is_sound() {
            return;
        }
        for file in self.files_known(index) {
            let Some(inode) = self.inode(index, file) else { continue };
            let Some(root) = inode.content.root() else { continue };
            let Some(replica) = self.hosts[index].replica.as_ref() else { return };
            let is_client = self.hosts[index].is_client();
            // The driver of a client looks whether all is there before it says so ([S-facts]); its engine knows what the client made.
            let is_here = self.is_whole(index, root)
                || is_client
                    && (self.has_what_it_made(index, inode.version, root, Kept::Here)
                        || self.lacks_only_what_went_with_its_base(index, inode.version, root, Kept::Here));
            if replica.holder(file, inode.version) == Ok(Holder::Here) && !is_here {
                let line = format!("host {index} says so of {} of {file}", inode.version);
                return self.violate("what is said to be here is whole here", line);
            }
        }
    }

    /// Files of which a host may be asked.
    fn files_known(&self, index: usize) -> Vec<FileId> {
        let mut files: Vec<FileId> = self.hosts.iter().flat_map(|host| host.files.iter().copied()).collect();
        if self.hosts[index].is_client() {
            files.clone_from(&self.hosts[index].files);
        }
        files.sort();
        files.dedup();
        files
    }
}
