//! Whether two stores mean the same by the same number: forks, copies that were put back, numbers that were lost, stations
//! that take over what their home forgot.

pub(crate) mod comparing;
pub(crate) mod fork;
pub(crate) mod forked;
pub(crate) mod found_lost;
pub(crate) mod gaps;
pub(crate) mod identity;
pub(crate) mod lives;
pub(crate) mod lost;
pub(crate) mod openings;
pub(crate) mod renamed;
pub(crate) mod restored;
pub(crate) mod restoring;
pub(crate) mod rewriting;
pub(crate) mod skipped;
pub(crate) mod succession;
pub(crate) mod successor;
pub(crate) mod taken_back;
pub(crate) mod takeover;
pub(crate) mod told;
pub(crate) mod written_over;

use crate::histories::forked::{Fork, Goes};
use crate::histories::openings::Lives;
use crate::histories::skipped::{Gap, Gaps};
use crate::histories::successor::Succession;
use crate::mirror::Mirror;
use crate::replica::core::Core;
use std::collections::BTreeMap;
use wayfs_types::{FileId, MetaStore, NodeId, OriginId, RecordId, Time};
use wayfs_wire::Stamp;

/// What a replica knows of the histories of its store and of others. No other part sees into it.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    /// What became of forked histories.
    fork: Fork,
    /// Numbers of our own that this store never gave.
    gaps: Gaps,
    /// The openings of this store.
    lives: Mirror<Lives>,
    /// The store was opened before in another life.
    reopened: bool,
    /// The next change of our own is behind numbers that a former life may have sent ahead and lost.
    skips: bool,
    /// Whose place this home took.
    succession: Option<Succession>,
}

/// What other parts ask, and tell.
impl Histories {
    /// What was noted with this input is in the store.
    pub(crate) fn committed(&mut self) {
        self.fork.names.committed();
        self.lives.committed();
    }

    /// It came to nothing.
    pub(crate) fn abandon<S: MetaStore>(&mut self, core: &mut Core<S>) {
        self.fork.names.abandon();
        self.lives.abandon();
        if let Some(life) = self.lives.present() {
            core.config.life = life;
        }
    }

    /// Records that were written again: the former name of each, and the present one.
    pub(crate) fn renamed(&self) -> impl Iterator<Item = (RecordId, RecordId)> {
        let all = self.fork.names.renamed.iter().map(|(former, now)| (*former, *now));
        all.filter(|(_, now)| *now != RecordId::GENESIS)
    }

    /// As what a record was written again.
    pub(crate) fn renamed_to(&self, former: RecordId) -> Option<RecordId> {
        self.fork.names.renamed.get(&former).copied()
    }

    /// The last record of our present origin that stands for something written under a former one. After a restart, when it
    /// is not known any more, the last that was there then.
    pub(crate) fn written_again_through(&self, own: OriginId, former: OriginId) -> u64 {
        let mut last = self.fork.went_on.get(&former).copied();
        // Each origin went on as a later one, so this ends.
        while let Some((origin, _)) = last.filter(|(origin, _)| *origin != own) {
            last = self.fork.went_on.get(&origin).copied();
        }
        last.map_or(self.fork.opened_at, |(_, sequence)| sequence)
    }

    /// This store wrote under another origin before.
    pub(crate) fn has_former(&self) -> bool {
        self.fork.has_former
    }

    /// Our last record at the opening of this store.
    pub(crate) fn note_opened_at(&mut self, sequence: u64) {
        self.fork.opened_at = sequence;
    }

    /// Origins whose tentative records are being taken out of the view, and which of them.
    pub(crate) fn parted(&self) -> BTreeMap<OriginId, Goes> {
        self.fork.parted.clone()
    }

    pub(crate) fn is_parted(&self, origin: OriginId) -> bool {
        self.fork.parted.contains_key(&origin)
    }

    /// What of a takeover's findings is in the store now.
    pub(crate) fn note_found_kept(&mut self, found: &(crate::histories::lost::Kind, FileId)) {
        self.fork.lost.unkept.remove(found);
    }

    /// A child knew more than we: what we had told is lost.
    pub(crate) fn note_lost(&mut self, now: Time) {
        let lives = self.lives.edit();
        lives.lost_at = lives.lost_at.or(Some(now));
    }

    /// This store was opened in a life before the present one.
    pub(crate) fn is_later_life(&self) -> bool {
        self.lives.is_later()
    }

    /// Nobody gave origins before this life of the home.
    pub(crate) fn is_first_life_of_home(&self) -> bool {
        !self.lives.is_later() && self.succession.is_none()
    }

    /// The key of the home whose place this one took.
    pub(crate) fn former_home(&self) -> Option<NodeId> {
        self.succession.and_then(|succession| succession.node)
    }

    /// The next change of our own is behind numbers that a former life may have sent ahead and lost.
    pub(crate) fn skips_numbers(&self) -> bool {
        self.skips
    }

    /// The record over the skipped numbers is in the store.
    pub(crate) fn note_gap_written(&mut self, gap: Gap) {
        self.skips = false;
        self.gaps.insert(gap);
    }

    pub(crate) fn was_opened_before(&self) -> bool {
        self.reopened
    }

    /// Client: the parent has only our records up to here, and had more.
    pub(crate) fn note_lost_after(&mut self, sequence: u64) {
        self.fork.lost_after = Some(sequence);
    }

    /// Client: and of the origins that we had before only so many.
    pub(crate) fn note_lost_before(&mut self, former: BTreeMap<OriginId, u64>) {
        self.fork.lost_before = former;
    }

    /// Client: a parent lost records of ours, and they are not written again yet.
    pub(crate) fn knows_a_loss(&self) -> bool {
        self.fork.lost_after.is_some()
    }

    /// Client: this parent has all that the home has, and lacks records of ours.
    pub(crate) fn note_caught_up(&mut self, parent: Option<Stamp>) {
        self.fork.caught_up = parent;
    }

    /// Whether this parent said so in the session before.
    pub(crate) fn take_caught_up(&mut self, parent: &Stamp) -> Option<Stamp> {
        self.fork.caught_up.take().filter(|known| known.is_same_store(parent))
    }

    /// Who had told all that is known here when this store took another number.
    pub(crate) fn take_told_by(&mut self) -> Option<Stamp> {
        self.fork.told_by.take()
    }

    /// Station: the home begins to tell its whole state.
    pub(crate) fn begin_takeover(&mut self) {
        self.fork.named.clear();
        self.fork.unwritten.clear();
        self.fork.unnamed.clear();
        self.fork.touched.clear();
    }

    /// Station: the home named these origins while it told its whole state.
    pub(crate) fn note_named(&mut self, origins: impl IntoIterator<Item = OriginId>) {
        self.fork.named.extend(origins);
    }
}
