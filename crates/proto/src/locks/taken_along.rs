//! Client: what its programs had by a server that it left, and have still.
//!
//! The server keeps such a lock for the client until another wants it, and then says so by way of the home (`locks/left.rs`). Only who
//! had given a lock can take it back so: the home says by whose word it is asked, and it is lost only if that server's it was.
//! What a program let go of is no more of that server, also if it was taken anew since.

use crate::children::Children;
use crate::locks::Locks;
use crate::locks::relays::Row;
use crate::locks::table::LockTable;
use crate::replica::core::Core;
use wayfs_types::request::{LockFamily, LockRange, LockRequest};
use wayfs_types::{MetaStore, OriginId};
use wayfs_wire::{LOCKS_TOLD_MAX, Up};

impl Locks {
    /// A session with a parent is over that gave locks, or confirmed them.
    pub(crate) fn note_taken_along<S: MetaStore>(&mut self, core: &Core<S>) {
        if !Self::locks_go_up(core) {
            return;
        }
        let Some(stamp) = core.parent_stamp() else { return };
        for held in self.table.held_by(core.config.origin) {
            if held.family != LockFamily::Claim {
                let row = (held.file, held.family, Self::own_holder(core, held.owner));
                self.taken_along.servers.entry(row).or_default().insert(stamp.origin);
            }
        }
    }

    /// A server that we left gives others what they want (nothing named: all), or gave it meanwhile. Answers what we have of it still.
    pub(crate) fn give_taken_along<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        from: OriginId,
        wanted: &[LockRequest],
    ) -> Vec<LockRequest> {
        let of_it = self.taken_along.servers.iter().filter(|(_, servers)| servers.contains(&from));
        let rows: Vec<Row> = of_it.map(|(row, _)| *row).collect();
        let held: Vec<LockRequest> = rows.into_iter().flat_map(|row| self.held_of(row)).collect();
        for mine in held {
            if wanted.is_empty() {
                self.give_up_lock(core, children, &mine, mine.range);
            }
            for theirs in wanted.iter().filter(|theirs| LockTable::conflict(&mine, theirs)) {
                let range = LockRange {
                    start: mine.range.start.max(theirs.range.start),
                    end: mine.range.end.min(theirs.range.end),
                };
                let is_whole = mine.family == LockFamily::Flock;
                self.give_up_lock(core, children, &mine, if is_whole { LockRange::WHOLE } else { range });
            }
        }
        self.told_of(core, children, from)
    }

    fn give_up_lock<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        LockRequest { file, family, owner, .. }: &LockRequest,
        range: LockRange,
    ) {
        self.lose_lock(core, children, *file, *family, *owner, range);
        self.post_in_turn(core, Up::Unlock { file: *file, family: *family, owner: *owner, range });
    }

    /// What of a server we have. What no message has room for is lost: nobody would know of it.
    fn told_of<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        server: OriginId,
    ) -> Vec<LockRequest> {
        let of_it = self.taken_along.servers.iter().filter(|(_, servers)| servers.contains(&server));
        let rows: Vec<Row> = of_it.map(|(row, _)| *row).collect();
        let mut has: Vec<LockRequest> = rows.into_iter().flat_map(|row| self.held_of(row)).collect();
        for beyond in has.split_off(has.len().min(LOCKS_TOLD_MAX)) {
            self.give_up_lock(core, children, &beyond, beyond.range);
        }
        has
    }

    fn held_of(&self, (file, family, holder): Row) -> Vec<LockRequest> {
        self.table.held_in(holder, file, family, LockRange::WHOLE)
    }
}
