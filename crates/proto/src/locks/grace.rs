//! After a start: no new lock while those who may have one are not back.
//!
//! ```text
//!   first question about a lock ──▶ HOLDER row, durable before the answer
//!   opened ──row──▶ awaited ──started in the life of the row──▶ known
//!                      └────────── its locks are over ────────────┘      nobody is awaited: the table gives again
//! ```
//!
//! A server keeps its table of locks in memory, and on its disk only who may have any. When it was restarted, these come back
//! and claim what they had (`Up::KeepLock`). What is new waits for them, or until they must know that they have lost it: a client
//! a lease after we heard it last, the clients of a station two (`locks/kept.rs`). A station that was restarted as well speaks for
//! none of its clients, which come back to it in that time. Claims do not wait: no program has them, and a change under one is answered when we have it.
//!
//! A row is written when a child asks for a lock and there is none, and taken back a lease later or more, when it has nothing here.
//! So whoever takes locks in turn costs one small write, and nobody waits for those who had none.

use crate::children::Children;
use crate::locks::Locks;
use crate::locks::absent::{ALL, HolderRow, LockGrace};
use crate::locks::asks::own_outcome;
use crate::locks::table::{Asker, Decided};
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::state::tables::table::HOLDER;
use crate::state::tables::{origin_key, pack, parse_origin_key, unpack};
use wayfs_types::request::{Answer, LockFamily};
use wayfs_types::{Life, MetaStore, OriginId, StorageError};

impl<S: MetaStore> Replica<S> {
    /// Writes down that a child may have locks from now on. Answers whether there was room for it.
    pub(crate) fn note_may_hold(&mut self, child: OriginId, family: LockFamily) -> Result<bool, StepError> {
        let is_station = self.children.is_station(child);
        let life = if is_station { self.children.life_of(child) } else { Life::NONE };
        let row = HolderRow { is_station, life };
        let known = self.locks.grace.rows.get(&child);
        // What it had in a former life its clients may come for yet.
        let speaks_for_all = !self.locks.grace.waits_for(child) && !self.locks.kept.is_forgetful(child);
        if family == LockFamily::Claim || known.is_some_and(|(known, _)| *known == row || !speaks_for_all) {
            return Ok(true);
        }
        self.core.state.put_row(origin_key(HOLDER, child), pack(&row));
        match self.commit() {
            Err(StorageError::NoSpace) => {
                self.abandon();
                return Ok(false);
            }
            done => done?,
        }
        self.locks.grace.rows.insert(child, (row, self.core.now + self.core.config.lease));
        self.children.check_soon();
        Ok(true)
    }
}

impl Locks {
    /// A child has reclaimed what it knows of.
    pub(crate) fn end_grace_of<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children, child: OriginId) {
        let awaited = &mut self.grace.awaited;
        if awaited.get(&child).is_some_and(|awaited| !awaited.forgot) {
            awaited.remove(&child);
            self.give_locks_again(core, children);
        }
    }

    /// Ends the wait for those who must know by now that they lost what they had, and forgets who has nothing.
    pub(crate) fn check_lock_grace<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children) {
        let now = core.now;
        let grace = &mut self.grace;
        let over = grace.awaited.iter().filter(|(_, awaited)| now >= awaited.until).map(|(child, _)| *child);
        let over: Vec<OriginId> = over.collect();
        grace.awaited.retain(|_, awaited| now < awaited.until);
        let rows = &grace.rows;
        let is_client = |child: &&OriginId| **child != ALL && rows.get(child).is_some_and(|(row, _)| !row.is_station);
        for client in over.iter().filter(is_client).copied().collect::<Vec<_>>() {
            self.locks_left_unseen(core, client);
        }
        if !over.is_empty() {
            self.give_locks_again(core, children);
        }
        self.forget_idle_holders(core);
    }

    /// Unless somebody is awaited still, what waited is decided.
    fn give_locks_again<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children) {
        if !self.grace.awaited.is_empty() {
            return;
        }
        for (asker, request, decided) in self.table.resume() {
            match (asker, decided) {
                (Asker::Child(child, ask), Decided::Taken(verdict)) => {
                    self.tell_child_verdict(core, children, child, ask, &request, verdict);
                }
                (Asker::Child(child, ask), Decided::Tested(held)) => {
                    Self::tell_child_tested(children, child, ask, held)
                }
                (Asker::Own(id), Decided::Taken(verdict)) => {
                    if let Some(outcome) = own_outcome(verdict) {
                        core.end_request(id, outcome);
                    }
                }
                (Asker::Own(id), Decided::Tested(held)) => core.end_request(id, Ok(Answer::Lock(held))),
            }
        }
    }

    /// Reads who may have locks, and waits for them.
    pub(crate) fn begin_lock_grace<S: MetaStore>(&mut self, core: &Core<S>) -> Result<(), StorageError> {
        let mut grace = LockGrace::default();
        let (now, lease) = (core.now, core.config.lease);
        core.state.each(&[HOLDER], &[HOLDER + 1], |key, value| {
            grace.rows.insert(parse_origin_key(key)?, (unpack(value)?, now + lease));
            Ok(())
        })?;
        grace.await_all(now, lease);
        if !grace.awaited.is_empty() {
            self.table.pause();
        }
        self.grace = grace;
        Ok(())
    }

    fn forget_idle_holders<S: MetaStore>(&mut self, core: &mut Core<S>) {
        let (now, lease) = (core.now, core.config.lease);
        let rows = &self.grace.rows;
        let due: Vec<OriginId> = rows.iter().filter(|(_, (_, look))| now >= *look).map(|(child, _)| *child).collect();
        for child in due {
            let is_needed = self.grace.awaited.contains_key(&child)
                || self.kept.is_forgetful(child)
                || self.left.has_left(child)
                || self.table.is_of_programs(child);
            if !is_needed {
                self.grace.rows.remove(&child);
                core.state.delete_row(origin_key(HOLDER, child));
            } else if let Some((_, look)) = self.grace.rows.get_mut(&child) {
                *look = now + lease;
            }
        }
    }

    /// Writes down that any member may have locks.
    pub(crate) fn note_all_may_hold<S: MetaStore>(core: &mut Core<S>) {
        core.state.put_row(origin_key(HOLDER, ALL), pack(&HolderRow { is_station: true, life: Life::NONE }));
    }
}
