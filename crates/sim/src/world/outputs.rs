//! What an engine wants, carried out: disks, answers, neighbours.

use super::{Event, World};
use crate::coverage::Branch;
use crate::dcache::cache::Notice;
use crate::disk::SyncPoint;
use crate::history::Update;
use crate::network::End;
use crate::planted::Bug;
use crate::stores::Synced;
use crate::violation::Violation;
use std::time::Duration;
use wayfs_proto::{Input, Output, PeerId, Replica, Role};
use wayfs_types::{FileId, Op, OriginId, Record, RecordId, Ticket};

/// Pause before a sync that found no room is tried again.
const SYNC_AGAIN: Duration = Duration::from_millis(100);

impl World {
    /// Carries out what an engine wants, and tells it what its policy sends ahead.
    pub(crate) fn drain(&mut self, index: usize) {
        self.drain_engine(index);
        while let Some(input) = self.poll_policy(index) {
            let (now, host) = (self.now, &mut self.hosts[index]);
            let wall = host.wall(now);
            let Some(replica) = host.replica.as_mut() else { break };
            replica.handle(now, wall, input);
            self.drain_engine(index);
        }
        self.arm_policy(index);
        self.arm(index);
    }

    fn drain_engine(&mut self, index: usize) {
        while let Some(output) = self.hosts[index].replica.as_mut().and_then(Replica::poll_output) {
            self.tell_policy(index, &output);
            self.note(|| match &output {
                Output::Send { peer, bytes } => {
                    format!("  host {index} Send {{ {peer:?}, {:?} }}", wayfs_wire::decode(bytes))
                }
                _ => format!("  host {index} {output:?}"),
            });
            self.carry_out(index, output);
        }
    }

    fn arm(&mut self, index: usize) {
        let now = self.now;
        let host = &mut self.hosts[index];
        let Some(due) = host.replica.as_ref().and_then(Replica::poll_timeout) else { return };
        // A timer that is due at once must still let time pass, or a wrong engine would hang the run.
        let due = due.max(now + Duration::from_micros(50));
        if host.wake_at.is_none_or(|at| at > due) {
            host.wake_at = Some(due);
            let life = host.life;
            self.at(due, Event::Wake { host: index, life });
        }
    }

    pub(super) fn carry_out(&mut self, index: usize, output: Output) {
        let life = self.hosts[index].life;
        match output {
            Output::Answer { id, outcome } => self.answered(index, id, outcome),
            Output::Send { peer, bytes } => self.send(index, peer, bytes),
            Output::Disconnect { peer, reason } => self.disconnected(index, peer, &reason),
            Output::Sync { ticket } => {
                // What is put or committed after this moment is for the next sync.
                let point = SyncPoint { ticket, ..self.hosts[index].disk.0.borrow_mut().begin_sync() };
                let lies = self.bug == Some(Bug::StoredBeforeDurable) && self.hosts[index].role() == Role::Station;
                let span = if lies { Duration::from_micros(1) } else { self.sync_span() };
                self.after(span, Event::Synced { host: index, life, point });
            }
            Output::Push { file, version, content } => self.upload(index, file, version, content),
            Output::Seek { file, version, content } => {
                let later = self.millis(1..=500);
                self.after(later, Event::Look { host: index, life, file, version, content });
            }
            Output::LookHere { version, content, .. } => self.plan_look_here(index, version, &content),
            Output::Applied { file, record, content } => {
                self.note_ordered(index, file, record);
                content.and_then(|content| content.root()).into_iter().for_each(|root| self.note_whole(index, root));
            }
            Output::GiveBack { serial, expire: expires, .. } => {
                self.note_give_back(index);
                // Programs of the simulated hosts close nothing in the background.
                let later = self.millis(0..=20);
                self.after(later, Event::GivenBack { host: index, life, serial, expires });
            }
            Output::Failed { reason } => {
                self.violations.push(Violation::new("a sound disk never fails", format!("host {index}: {reason}")));
            }
            Output::Renewed { origin, .. } => {
                self.hosts[index].config.origin = origin;
                self.hosts[index].origins.push(origin);
                self.note_renamed(index);
                self.hosts[index].follow_renamed();
                self.cover(Branch::Renewed);
            }
            Output::InvalidateAll => {
                self.tell_open_files(index, None);
                self.expire_kernel_names(index);
                self.cover(Branch::InvalidateAll);
            }
            Output::InvalidateInode { file, .. } => {
                self.tell_open_files(index, Some(file));
                self.tell_kernel_names(index, Notice::Attributes(file));
            }
            Output::InvalidateEntry { parent, name } => {
                self.tell_kernel_names(index, Notice::Name(parent, name));
                self.tell_kernel_names(index, Notice::Attributes(parent));
            }
            Output::Shared { .. } => self.cover(Branch::Shared),
            Output::Conflict { conflict } => {
                self.sharing.note_conflict(index, conflict, self.now);
                self.cover(Branch::Conflict);
            }
            Output::Forked { reason } => {
                if !self.has_copy() {
                    self.violate("nobody takes itself for a copy", format!("host {index}: {reason}"));
                }
            }
            Output::Lost { .. } => self.note_declared(index),
            Output::Happened(_)
            | Output::WentBack { .. }
            | Output::Owed { .. }
            | Output::Released { .. }
            | Output::RoomsAbove { .. } => {}
            Output::Rescued { of, .. } => self.note_parted(index, of),
            Output::Recovered { .. } => self.note_renamed(index),
        }
    }

    /// A host gave a record its place in the order, and has what it is about in a file. Only the home's word is the last.
    fn note_ordered(&mut self, index: usize, file: FileId, record: RecordId) {
        if index != 0 {
            return;
        }
        let first = self.history.first(record);
        let is_other =
            |update: &Update| update.base.is_none() && update.file != FileId::made_by(self.history.first(file.maker()));
        if self.history.updates.get(&first).is_some_and(is_other) {
            self.history.merged.insert(first);
        }
        self.history.stored_into.insert(first, file);
    }

    /// What a store wrote again stands for what it had written, or taken from a child, before. A file is made again with what had been
    /// stored into it last: whoever goes on from that version has seen what it holds (seed 448 of `home-back`).
    pub(super) fn note_renamed(&mut self, index: usize) {
        let Some(replica) = self.hosts[index].replica.as_ref() else { return };
        for (former, now) in replica.renamed() {
            self.history.renamed(former, now);
            if let Ok(Some(Record { op: Op::Create { content, .. }, .. })) = replica.logged(now) {
                self.history.made_again(now, &content);
            }
        }
    }

    /// A station wrote again what it had of an origin. Its disk has what it had before: what it does now is not durable yet.
    fn note_parted(&mut self, index: usize, of: OriginId) {
        self.note_renamed(index);
        let origins = self.reopened(index).and_then(|station| station.origins().ok()).unwrap_or_default();
        if let Some((_, had)) = origins.into_iter().find(|(origin, _)| *origin == of) {
            self.history.parted(of, &had);
        }
    }

    /// An engine ends a session. Silence, newer sessions, strangers and records that came by two ways are good reasons between
    /// honest peers; anything else means that one of them broke the protocol.
    pub(super) fn disconnected(&mut self, index: usize, peer: PeerId, reason: &str) {
        const GOOD: [&str; 7] = [
            "for a lease",
            "kept others waiting",
            "another session",
            "its origin is not known here",
            "revoked",
            "came by another way",
            "no space left",
        ];
        // A server that lost something, and those that followed it, have less than they had said: the session that shows it is
        // ended, and the next begins by comparing.
        const GOOD_AFTER_LOSS: [&str; 3] = ["went back behind record", "is the last that came", "begin anew"];
        /// Where a store is an older copy, histories do part. A station that took records of the one copy, and hears that the home has
        /// those of the other, writes them again by its own name: it has less of their origin than it had said, and what comes next
        /// from there follows what it has not any more (seed 9608615).
        const PARTED: [&str; 4] =
            ["history of", "of another history", "went back behind record", "is the last that came"];
        self.cover(Branch::Disconnected);
        let is_good = GOOD.iter().any(|good| reason.contains(good))
            || self.has_lost_server() && GOOD_AFTER_LOSS.iter().any(|good| reason.contains(good))
            || self.has_quotas && reason.contains("sent records beyond")
            || self.has_copy() && PARTED.iter().any(|good| reason.contains(good));
        if !is_good {
            let line = format!("host {index} disconnected {peer:?}: {reason}");
            self.violations.push(Violation::new("honest peers get along", line));
        }
        let Some(session) = self.sessions.get(&peer) else { return };
        let end = if session.child == index { End::Child } else { End::Parent };
        self.after(Duration::ZERO, Event::Notice { session: peer, end });
    }

    pub(super) fn synced(&mut self, index: usize, life: u32, point: SyncPoint) {
        if self.hosts[index].life != life {
            return;
        }
        let ticket = point.ticket;
        let is_client = self.hosts[index].is_client();
        let is_station = self.hosts[index].role() == Role::Station;
        let mut disk = self.hosts[index].disk.0.borrow_mut();
        let newest = disk.sync_point().ticket;
        let (through, stored) = match self.bug {
            Some(Bug::StoredBeforeDurable) if is_station => (None, ticket),
            Some(Bug::DiskLies) if is_client => (None, ticket),
            Some(Bug::OneBatchEarly) => (Some(Ticket(ticket.0.saturating_sub(1))), ticket),
            Some(Bug::ChunksSyncedFirst) => (Some(newest), newest),
            _ => (Some(ticket), ticket),
        };
        if let Some(through) = through {
            let is_synced = disk.sync_chunks(point.chunk_writes);
            let synced = if is_synced { disk.sync_records(through) } else { Synced::Failed };
            drop(disk);
            match synced {
                Synced::Through(_) => {}
                Synced::Later => return self.after(SYNC_AGAIN, Event::Synced { host: index, life, point }),
                Synced::Failed => return,
            }
        } else {
            drop(disk);
        }
        self.tell_open_files_of_disk(index);
        self.feed(index, Input::Stored { ticket: stored });
    }
}
