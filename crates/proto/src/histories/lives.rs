//! The lives of this store: how far each came, so that a cursor of a life that is not known here is noticed.
//!
//! A server draws a number whenever its store is opened, and writes down at which change. A child's cursor names the
//! life in which it was told. If the store is put back to an older copy, it does not know the lives after the copy,
//! and of the last one before only as much as the copy has: a cursor beyond that is of a history that is lost here. A crash
//! alone never shows so, since a child is told only what is durable.

use crate::children::{ChildKind, Children};
use crate::histories::Histories;
use crate::histories::openings::{BEGIN_ANEW, Cursor, Lives, Opened};
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::tables::{pack, parse_number_key, table, unpack};
use wayfs_types::{Digest, Life, MetaStore, StorageError};
use wayfs_wire::{Resume, Stamp};

/// Table rows of lives: this prefix, and a counter.
const LIFE: &[u8] = &[table::META, b'v'];
/// Lives that are remembered. A child that was away for more begins anew.
const LIVES_MAX: usize = 1024;

fn life_key(number: u64) -> Vec<u8> {
    let mut key = LIFE.to_vec();
    key.extend(number.to_be_bytes());
    key
}

impl<S: MetaStore> Replica<S> {
    /// Reads the lives and notes the present one, if the driver drew one. It is durable before any child hears of it,
    /// since what a child is told waits for all that was committed before.
    pub(crate) fn begin_life(&mut self) -> Result<(), StorageError> {
        if self.core.config.life == Life::NONE {
            return Ok(());
        }
        let mut rows = Vec::new();
        let mut until = LIFE.to_vec();
        until.push(u8::MAX);
        self.core.state.each(LIFE, &until, |key, value| {
            let (life, at) = unpack(value)?;
            rows.push((parse_number_key(&key[1..])?, Opened { life, at }));
            Ok(())
        })?;
        let number = rows.last().map_or(0, |(number, _)| number + 1);
        let opened = Opened { life: self.core.config.life, at: self.core.state.change() };
        self.core.state.put_row(life_key(number), pack(&(opened.life, opened.at)));
        rows.push((number, opened));
        let excess = rows.len().saturating_sub(LIVES_MAX);
        for (old, _) in rows.drain(..excess) {
            self.core.state.delete_row(life_key(old));
        }
        let is_cut = rows.first().is_some_and(|(number, _)| *number > 0);
        // Its row may come later.
        *self.histories.lives.as_stored() = Lives {
            opened: rows.into_iter().map(|(_, opened)| opened).collect(),
            is_cut,
            present: Some((number, opened)),
            went_back: false,
            lost_at: None,
        };
        match self.commit() {
            // A full disk is opened all the same: the row is tried again before any child is welcomed.
            Err(StorageError::NoSpace) if self.histories.reopened => {
                self.abandon();
                Ok(())
            }
            done => done,
        }
    }

    pub(crate) fn end_children(&mut self) {
        if self.children.take_end_of_all() {
            for peer in self.children.peers() {
                self.disconnect(peer, BEGIN_ANEW.to_owned());
            }
        }
    }
}

impl Histories {
    /// The home went back, and so did we: what children know may be of what was lost. They begin anew, and are told so.
    pub(crate) fn begin_after_loss<S: MetaStore>(&mut self, core: &mut Core<S>, children: &mut Children) {
        let Some((number, _)) = self.lives.present.filter(|_| core.relays()) else {
            return;
        };
        // Each opening draws its life, and this one is as good as another opening.
        let mut bytes = core.config.life.0.to_be_bytes().to_vec();
        bytes.extend(core.state.change().0.to_be_bytes());
        let drawn = Digest::of(&bytes).as_bytes().iter().take(4).fold(0, |life, byte| life << 8 | u32::from(*byte));
        let opened = Opened { life: Life(drawn.max(1)), at: core.state.change() };
        (0..=number).for_each(|old| core.state.delete_row(life_key(old)));
        // From the first row on, so that no life counts as forgotten: what is not known here is lost.
        core.state.put_row(life_key(0), pack(&(opened.life, opened.at)));
        core.config.life = opened.life;
        let lives = self.lives.edit();
        lives.opened = vec![opened];
        lives.is_cut = false;
        lives.lost_at = Some(core.now);
        lives.present = Some((0, opened));
        children.end_all();
    }

    /// Before a child hears of this life it must be written down.
    pub(crate) fn write_life<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        let Some((number, opened)) = self.lives.present else { return Ok(()) };
        let key = life_key(number);
        if core.state.tx().get_raw(&key)?.is_none() {
            core.state.put_row(key, pack(&(opened.life, opened.at)));
        }
        Ok(())
    }

    /// Whether a child that comes from another server may have seen there what is lost here, and would wait for it. After so
    /// long nobody waits any more.
    pub(crate) fn has_lost_lately<S: MetaStore>(&self, core: &Core<S>) -> bool {
        self.lives.lost_at.is_some_and(|at| core.now < at + core.config.seen_kept)
    }

    /// Whether a child's cursor is of our history.
    pub(crate) fn place_cursor<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        resume: &Resume,
        kind: ChildKind,
    ) -> Cursor {
        let stamp = Self::own_stamp(core);
        let current = core.state.change();
        if resume.stamp.origin != stamp.origin {
            // A station has no other parent than the home: this one took the place of the one that it knew.
            let is_of_former = kind == ChildKind::Station && self.succession.is_some();
            return if is_of_former { Cursor::Former } else { Cursor::Foreign };
        }
        if resume.stamp.born != stamp.born {
            // No two stores are named after one origin: ours was put back to before it had its name, and got another.
            return Cursor::Lost;
        }
        if stamp.life == Life::NONE || resume.stamp.life == Life::NONE {
            return if resume.cursor <= current { Cursor::Ours } else { Cursor::Foreign };
        }
        self.lives.place(resume, current)
    }

    /// Names this store for children, and its present life; made at the first need, since only then the date is known.
    pub(crate) fn own_stamp<S: MetaStore>(core: &mut Core<S>) -> Stamp {
        let life = core.config.life;
        let stamp = Stamp { origin: core.config.origin, born: core.wall, life };
        let first = core.state.name_store(stamp);
        Stamp { life, ..first }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_types::{CommitNumber, OriginId, WallTime};

    #[test]
    fn a_cursor_beyond_the_end_of_its_life_is_of_a_lost_history() {
        let opened = |life, at| Opened { life: Life(life), at: CommitNumber(at) };
        let lives = Lives {
            opened: vec![opened(7, 0), opened(8, 10), opened(9, 20)],
            is_cut: false,
            present: None,
            went_back: false,
            lost_at: None,
        };
        let cursor = |life, at| {
            let stamp = Stamp { origin: OriginId::GENESIS, born: WallTime::EPOCH, life: Life(life) };
            lives.place(&Resume { stamp, cursor: CommitNumber(at) }, CommitNumber(30))
        };
        assert_eq!(cursor(7, 10), Cursor::Ours);
        assert_eq!(cursor(7, 11), Cursor::Lost, "that life was longer than is known here");
        assert_eq!(cursor(9, 30), Cursor::Ours);
        assert_eq!(cursor(9, 31), Cursor::Lost);
        assert_eq!(cursor(5, 1), Cursor::Lost, "that life is not known at all");
    }
}
