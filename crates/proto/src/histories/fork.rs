//! What happens when a history forked: two go on under one origin, and each has records that the other has not.
//!
//! ```text
//!   own origin    noticed ──Renew──▶ (stations pass it on) ──▶ home grants ──Renewed──▶ written again, attached anew
//!   a child's     the home's image of its origin parts from our log ──▶ written again under our own origin
//! ```
//!
//! Whoever notices gives way: it takes a new origin and writes again, in order and as new records, all that nobody
//! confirmed. Names of what those made change with them (`renamed`). So two copies of one store become two members,
//! and a store that was put back to an older copy goes on beside what it had forgotten. Nothing is taken out of the
//! tree: what met what is settled by the rules for conflicts like anything else.
//!
//! A station does the same under its own origin for what it took from a child and the home has not: the child may be
//! gone, and was told *safe*. If it is not gone it writes its records again as well; the same contents under one
//! name are one file.

use crate::api::{Output, PeerId};
use crate::children::Children;
use crate::contents::answers::ByWriter;
use crate::contents::{Contents, Source};
use crate::histories::Histories;
use crate::histories::forked::Goes;
use crate::histories::lost::Lost;
use crate::histories::renamed::Again;
use crate::histories::rewriting::{Rewrite, Rewritten, rewritten};
use crate::histories::skipped::Gaps;
use crate::members::Members;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::{GrantError, StepError};
use crate::state::log_entry::{Attached, LogEntry};
use crate::state::log_item::LogItem;
use crate::state::position::{LogPosition, log_key};
use crate::state::tables::table::RENAMED;
use crate::state::tables::{pack, record_key, table};
use crate::upstream::line::UplinkState;
use crate::upstream::{FORMER_NAMED_MAX, Uplink};
use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::{
    Admitted, FileId, Image, Key, Life, MetaStore, Op, Origin, OriginId, Record, RecordId, Renewal, Seal, StorageError,
    Time, WallTime,
};
use wayfs_wire::{Down, KeyImage, Up};

/// Most new origins in place of one: who wants more is refused.
const RENEWALS_MAX: usize = 1024;
/// Wishes of children that a station passes on at a time.
const ASKED_MAX: usize = 4096;
/// Records that were written again and whose former names are understood. The oldest are forgotten first.
const RENAMED_MAX: usize = 65_536;

/// Records of an origin that the home has not, though it has others by their numbers or will not take them any more.
#[derive(Debug)]
pub(crate) struct Parted {
    of: OriginId,
    goes: Goes,
    /// They are written again.
    entries: Vec<LogEntry>,
}

/// The child's half.
impl<S: MetaStore> Replica<S> {
    /// Our own history forked: nothing that the parent says of it is taken any more, and a new origin is asked for.
    pub(crate) fn begin_fork(&mut self, reason: String) {
        if self.histories.fork.noticed.is_none() {
            tracing::warn!(reason, "the history of this store forked");
            self.core.outputs.push_back(Output::Forked { reason: reason.clone() });
            self.histories.fork.noticed = Some(reason);
        }
        self.set_standing(UplinkState::Forked);
        Histories::ask_renewal(&mut self.core);
    }

    pub(crate) fn handle_renewed(
        &mut self,
        (of, life): (OriginId, Life),
        (origin, admission): (OriginId, Option<Seal>),
    ) -> Result<(), StepError> {
        if of == self.core.config.origin && life == self.core.config.life {
            if self.histories.fork.noticed.is_none() {
                return Ok(());
            }
            // What is written again would be mixed with what was written before, by the same numbers.
            let is_used = origin == of
                || Histories::is_former(&self.core, origin)?
                || self.core.state.log().origins().any(|known| known == origin);
            if is_used && let Some(peer) = self.core.parent() {
                return Err(StepError::Peer(peer, format!("granted origin {origin}, which is not new")));
            }
            return self.take_new_origin(origin, admission);
        }
        if let Some(child) = self.histories.fork.asked.remove(&(of, life)) {
            self.children.tell(child, Down::Renewed { of, life, origin, admission });
        }
        Ok(())
    }

    /// The home granted this machine another origin, since it does not know the one that it had: all that it made or stored
    /// under that is written again.
    ///
    /// # Errors
    /// The store failed.
    pub fn adopt_origin(&mut self, now: Time, wall: WallTime, origin: OriginId) -> Result<(), GrantError> {
        self.core.now = self.core.now.max(now);
        self.core.wall = wall;
        self.histories.fork.lost_after = Some(0);
        // Whom it does not know under this one it knows under none of those before: it would have given this one back (`admit_again`).
        let former = Histories::former_origins(&mut self.core, FORMER_NAMED_MAX)?;
        self.histories.fork.lost_before = former.into_iter().map(|origin| (origin, 0)).collect();
        match self.take_new_origin(origin, None) {
            Ok(()) => {
                self.core.ask_sync();
                Ok(())
            }
            Err(StepError::Storage(error)) => {
                self.abandon();
                Err(error.into())
            }
            Err(StepError::Peer(_, why)) => Err(StorageError::Corrupt(why).into()),
        }
    }

    fn take_new_origin(&mut self, origin: OriginId, admission: Option<Seal>) -> Result<(), StepError> {
        let former = self.core.config.origin;
        let (skips, has_former) = (self.histories.skips, self.histories.fork.has_former);
        let sent_through = self.uplink.sent_through();
        let done = self.go_on_as(origin, admission).and_then(|records| self.commit().map(|()| records));
        let records = match done {
            Ok(records) => records,
            Err(error) => {
                self.core.config.origin = former;
                (self.histories.skips, self.histories.fork.has_former) = (skips, has_former);
                self.uplink.set_sent_through(sent_through);
                return Err(error.into());
            }
        };
        tracing::info!(%former, %origin, records, "goes on under another origin");
        self.histories.fork.noticed = None;
        self.histories.gaps = Gaps::default();
        self.histories.fork.went_on.insert(former, (origin, self.core.state.sequence()));
        self.core.state.tally_log_anew();
        self.histories.fork.lost_after = None;
        self.histories.fork.lost_before.clear();
        self.core.state.forget_own();
        self.lose_locks_of(former);
        if records > 0 {
            self.core.state.note_own(1);
        }
        self.requests.note_levels_moved();
        self.core.state.want_sync();
        self.core.outputs.push_back(Output::Renewed { former, origin, records });
        self.core.outputs.push_back(Output::InvalidateAll);
        if let Some(peer) = self.core.parent() {
            self.disconnect(peer, format!("goes on as origin {origin}, since the history of {former} forked"));
        }
        Ok(())
    }

    /// Takes out of the view what nobody confirmed, and writes it again under a new origin. Answers how many records.
    fn go_on_as(&mut self, origin: OriginId, admission: Option<Seal>) -> Result<u64, StorageError> {
        let former = self.core.config.origin;
        let own: Vec<(LogPosition, LogItem)> = self
            .core
            .state
            .log()
            .from(LogPosition::START)
            .filter(|(_, item)| item.id.origin() == former)
            .map(|(at, item)| (at, *item))
            .collect();
        // What the home has stays as it is, though it was kept here until its contents were safe. So does what the parent has that grants
        // this origin: it has brought that home (`has_of`). Another one that was said to have it may be gone for good.
        let (visible, has) = (self.core.state.marks(former)?.visible, self.uplink.parent_has(former));
        let unconfirmed = own.iter().filter(|(_, item)| {
            let (sequence, is_home) = (item.id.sequence(), !item.tentative && item.id.sequence() <= visible);
            match self.histories.fork.lost_after {
                Some(after) => sequence > after || !is_home && sequence > has,
                None => !is_home,
            }
        });
        let unconfirmed: Vec<LogPosition> = unconfirmed.map(|(position, _)| *position).collect();
        let entries = Histories::entries(&mut self.core, &unconfirmed)?;
        let image = Histories::confirmed_origin(&mut self.core, former)?;
        self.part(former, Vec::new())?;
        // Of what the parent had confirmed: what was to be done upon it is written again after it.
        let mut lost_of = self.histories.fork.lost_before.clone();
        lost_of.extend(self.histories.fork.lost_after.map(|after| (former, after)));
        let lost =
            if self.core.writes() { Histories::find_own_lost(&mut self.core, &lost_of)? } else { Lost::default() };
        for (position, _) in own {
            self.core.state.delete_row(log_key(position));
            self.core.state.stage_forgotten(position);
        }
        self.histories.change_origin(&mut self.core, origin)?;
        Members::keep_admission(&mut self.core, admission);
        let last = self.core.state.sequence();
        self.histories.fork.told_by = self.core.state.resume().map(|known| known.stamp);
        self.core.state.set_sequence(0);
        self.core.state.set_resume(None);
        self.histories.skips = false;
        self.uplink.set_sent_through(0);
        if let Some(image) = image {
            let renewed = Origin::admitted(image.admitted, image.node, image.label.clone()).limited(image.limits);
            self.core.state.put_image(Key::Origin(origin), Some(Image::Origin(renewed.into())))?;
        }
        for (origin, after) in &lost_of {
            self.note_lost_after(*origin, (*after, u64::MAX));
        }
        if self.histories.fork.lost_after.is_none() {
            // What we saw of it at a station that wrote it again, too, comes from nobody by this name.
            self.note_lost_after(former, (visible, last));
        }
        let stand_ins = Histories::take_out_lost(&mut self.core, &lost, &entries)?;
        let lost = lost.without(&entries);
        let written = self.write_lost(lost)? + self.write_again(entries)?;
        Histories::call_as_before(&mut self.core, stand_ins)?;
        if self.histories.fork.lost_after.is_some() {
            for (origin, after) in lost_of {
                self.take_over_lost(origin, after)?;
            }
            // What was taken out of the view and put back counts as known anew, and may bear what others lost.
            self.uplink.forget_what_was_seen(&mut self.core);
        }
        Ok(written)
    }

    /// Takes a cut of the parent over, and takes out of the view all that is tentative of an origin.
    fn part(&mut self, origin: OriginId, cut: Vec<KeyImage>) -> Result<(), StorageError> {
        self.histories.fork.parted.insert(origin, Goes::All);
        let taken = self.take_cut(cut);
        self.histories.fork.parted.remove(&origin);
        taken
    }

    /// Writes records again, as new ones of our own.
    fn write_again(&mut self, entries: Vec<LogEntry>) -> Result<u64, StorageError> {
        let kept = Uplink::files_with_a_last_whole_content(&mut self.core, entries.iter().map(|entry| &entry.record))?;
        let Rewritten { left, dropped } = rewritten(entries, &kept);
        for former in dropped {
            self.let_go(former)?;
            self.histories.note_renamed(&mut self.core, former, Again::nothing());
        }
        let mut count = 0;
        for Rewrite { record, held, formers } in left {
            let Ok(id) = RecordId::new(self.core.config.origin, self.next_sequence()) else { break };
            let record = self.histories.as_written_now(&self.core, record, id);
            self.skip_lost()?;
            self.core.state.set_sequence(id.sequence());
            let is_directory = matches!(record.op, Op::Mkdir { .. });
            let effect = self.core.take_record(record.clone(), Attached { held, seal: None })?;
            let (mut source, mut is_gone) = (None, false);
            for former in formers {
                self.histories.note_renamed(&mut self.core, former, Again::of(&record));
                // What the last one stored is what the record names.
                is_gone = Contents::is_vanished(&mut self.core, former)?;
                source = self.let_go(former)?;
            }
            if let Some(source) = source {
                self.contents.note_content(&mut self.core, &mut self.children, &record, &effect, source)?;
            } else if is_gone && self.core.writes() {
                self.note_gone_again(&record)?;
            } else if self.core.writes() && self.histories.fork.lost_after.is_some() {
                // The home had them, and lost them.
                self.look_for_own(&record)?;
            }
            if is_directory {
                self.watch_own_directory(FileId::made_by(id));
            }
            count += 1;
        }
        self.core.state.stage_marks(self.core.config.origin);
        Ok(count)
    }

    /// The bytes of what was written again are gone, as they were under its former name.
    fn note_gone_again(&mut self, record: &Record) -> Result<(), StorageError> {
        let Some((file, content)) = crate::state::of_record::content_of(record) else { return Ok(()) };
        self.contents.put_vanished(&mut self.core, record.id, file, content.clone())?;
        self.contents.note_gone(record.id, ByWriter::Yes);
        Ok(())
    }

    /// Nobody asks for contents by a former name any more. Answers where they come from.
    pub(crate) fn let_go(&mut self, former: RecordId) -> Result<Option<Source>, StorageError> {
        if self.core.state.tx().get_raw(&record_key(table::OWED, former))?.is_some() {
            self.contents.release(&mut self.core, former)?;
            return Ok(Some(Source::Own));
        }
        if self.core.writes() {
            self.contents.take_vanished(&mut self.core, former)?;
        }
        if Contents::lent(&mut self.core, former)?.is_some() {
            // Whoever has it has it under a name that nobody will confirm.
            self.contents.take_lent(&mut self.core, former)?;
            return Ok(Some(Source::Own));
        }
        let Some(missing) = Contents::missing(&mut self.core, former)? else { return Ok(None) };
        self.contents.settle_missing(&mut self.core, &mut self.children, former, &missing);
        let origin = missing.holders.first().copied().unwrap_or(self.core.config.origin);
        Ok(Some(Source::Child { origin, is_station: true, held: !missing.holders.is_empty() }))
    }
}

impl Histories {
    /// Asks for a new origin, and again with every ping until it comes.
    pub(crate) fn ask_renewal<S: MetaStore>(core: &mut Core<S>) {
        if core.standing() == Some(UplinkState::Forked) {
            core.tell_parent(Up::Renew { of: core.config.origin, life: core.config.life });
        }
    }

    pub(crate) fn note_renamed<S: MetaStore>(&mut self, core: &mut Core<S>, former: RecordId, again: Again) {
        core.state.put_row(record_key(RENAMED, former), pack(&again));
        let Again { record: id, stored_into } = again;
        self.fork.renames_waiting = true;
        let names = self.fork.names.edit();
        names.renamed.insert(former, id);
        names.stored_into.extend(stored_into.map(|file| (id, file)));
        if names.stored_into.len() > RENAMED_MAX {
            names.stored_into.pop_first();
        }
        // What a record became last is what it holds.
        names.stands_for.insert(id, former);
        if names.stands_for.len() > RENAMED_MAX {
            names.stands_for.pop_first();
        }
        while names.renamed.len() > RENAMED_MAX {
            if let Some((oldest, _)) = names.renamed.pop_first() {
                core.state.delete_row(record_key(RENAMED, oldest));
            }
        }
    }

    fn entries<S: MetaStore>(core: &mut Core<S>, positions: &[LogPosition]) -> Result<Vec<LogEntry>, StorageError> {
        positions.iter().map(|position| core.state.log_entry(*position)).collect()
    }

    /// Before the home's state is taken over: what tentative records touch as it was.
    pub(crate) fn note_touched<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        if !core.state.rescues() || !self.fork.touched.is_empty() {
            return Ok(());
        }
        let tentative = core.state.log().from(LogPosition::START).filter(|(_, item)| item.tentative);
        let positions: Vec<LogPosition> = tentative.map(|(position, _)| position).collect();
        for position in positions {
            let entry = core.state.log_entry(position)?;
            self.fork.touched.insert(entry.record.id, entry.touched.into_iter().map(|(key, _)| key).collect());
        }
        Ok(())
    }

    /// Origins of which the home has other records than our log, with what the home has not. `passed`: those whose records this
    /// session has left out.
    pub(crate) fn parted_in<S: MetaStore>(
        core: &mut Core<S>,
        passed: &BTreeSet<OriginId>,
        cut: &[KeyImage],
    ) -> Result<Vec<Parted>, StorageError> {
        let mut parted = Vec::new();
        if !core.relays() {
            return Ok(parted);
        }
        for pair in cut {
            let (Key::Origin(origin), Some(Image::Origin(image))) = (&pair.key, &pair.image) else { continue };
            if *origin == core.config.origin {
                continue;
            }
            let (goes, positions) = Self::parted_of(core, passed, (*origin, image))?;
            if !positions.is_empty() {
                parted.push(Parted { of: *origin, goes, entries: Self::entries(core, &positions)? });
            }
        }
        Ok(parted)
    }

    /// Whether this life of a child's store was followed by another before: then there are two of it.
    pub(crate) fn is_outlived(children: &mut Children, child: OriginId, life: Life) -> bool {
        life != Life::NONE && children.note_life(child, life)
    }

    /// Whether we have records of an origin that the home lacks. Whoever gives that origin up relies on it that they come home, and keeps them
    /// no longer.
    fn has_of<S: MetaStore>(core: &Core<S>, origin: OriginId) -> bool {
        core.state.log().origins().any(|known| known == origin)
    }
}

/// The station's half.
impl<S: MetaStore> Replica<S> {
    /// Takes a cut over, and writes again what children wrote and the home has not.
    pub(crate) fn take_parted(&mut self, cut: Vec<KeyImage>, parted: Vec<Parted>) -> Result<(), StorageError> {
        self.histories.fork.parted.extend(parted.iter().map(|parted| (parted.of, parted.goes)));
        let taken = self.take_cut(cut);
        self.histories.fork.parted.clear();
        taken?;
        let parted: Vec<_> = parted.into_iter().map(|parted| (parted.of, parted.entries)).collect();
        if self.core.state.rescues() && self.core.state.reset().is_some() {
            // What was lost is made again first: it may be what these records are about.
            self.histories.fork.unwritten.extend(parted);
            return Ok(());
        }
        self.write_parted(parted)
    }

    /// What we or our children wrote and the home, that was put back, would not take or not understand: under an origin that it
    /// does not know any more, or about what it lost. `stale`: what it does not name.
    pub(crate) fn take_orphans(&mut self, stale: &[Key]) -> Result<(), StorageError> {
        let named = std::mem::take(&mut self.histories.fork.named);
        let touched = std::mem::take(&mut self.histories.fork.touched);
        let mut lost = BTreeSet::new();
        for key in stale {
            if self.core.state.shadow(key)?.is_some_and(|shadow| shadow.image.is_some()) {
                lost.insert(key);
            }
        }
        let tentative = self.core.state.log().from(LogPosition::START).filter(|(_, item)| item.tentative);
        let tentative: Vec<(LogPosition, OriginId)> =
            tentative.map(|(position, item)| (position, item.id.origin())).collect();
        let mut entries: BTreeMap<OriginId, Vec<LogEntry>> = BTreeMap::new();
        let mut orphans = BTreeSet::new();
        for (position, origin) in tentative {
            if self.core.state.tx().get_raw(&log_key(position))?.is_none() {
                // The home named it just now.
                continue;
            }
            let entry = self.core.state.log_entry(position)?;
            let is_about_lost = |key: &Key| lost.contains(key) || self.histories.fork.lost.is_about(key);
            // Replayed upon what the home shows it may have met a conflict, and touched something else.
            let before = touched.get(&entry.record.id).into_iter().flatten();
            let is_about_lost = before.chain(entry.touched.iter().map(|(key, _)| key)).any(is_about_lost);
            if !named.contains(&origin) || is_about_lost {
                orphans.insert(origin);
            }
            entries.entry(origin).or_default().push(entry);
        }
        let entries = entries.into_iter().filter(|(origin, _)| orphans.contains(origin));
        let parted: Vec<Parted> = entries.map(|(of, entries)| Parted { of, goes: Goes::All, entries }).collect();
        let unnamed = orphans.into_iter().filter(|origin| !named.contains(origin));
        let gone = unnamed.map(|origin| KeyImage { key: Key::Origin(origin), image: None }).collect();
        if parted.is_empty() {
            return Ok(());
        }
        // Our own new records begin behind those that nobody will have.
        self.histories.skips |= parted.iter().any(|parted| parted.of == self.core.config.origin);
        self.take_parted(gone, parted)
    }

    /// Writes again under our own origin what children wrote.
    pub(crate) fn write_parted(&mut self, parted: Vec<(OriginId, Vec<LogEntry>)>) -> Result<(), StorageError> {
        for (of, entries) in parted {
            self.uplink.keep_parted(&entries);
            let records = self.write_again(entries)?;
            tracing::warn!(%of, records, "the home has other records of a member: ours are written again");
            self.core.state.stage_output(Output::Rescued { of, records });
        }
        // Who was to bring the contents may have them no more, and knows nothing of their new names.
        self.contents.note_child_away(&self.core);
        Ok(())
    }
}

/// The parent's half.
impl<S: MetaStore> Replica<S> {
    pub(crate) fn handle_renew(
        &mut self,
        peer: PeerId,
        child: OriginId,
        of: OriginId,
        life: Life,
    ) -> Result<(), StepError> {
        let is_station = self.children.is_station(child);
        if of != child && !is_station {
            return Err(StepError::Peer(peer, "wants a new origin for another".to_owned()));
        }
        if !self.core.orders() {
            if Histories::has_of(&self.core, of) {
                // It asks again.
                return Ok(());
            }
            if self.histories.fork.asked.len() >= ASKED_MAX {
                self.histories.fork.asked.pop_first();
            }
            self.histories.fork.asked.insert((of, life), child);
            self.core.tell_parent(Up::Renew { of, life });
            return Ok(());
        }
        let granted = match self.renew(peer, of, life) {
            // A station passes on what others want, and may not have heard yet that they have no access.
            Err(StepError::Peer(_, why)) if of != child => {
                tracing::warn!(%child, %of, why, "a wish that a station passed on is not granted");
                return Ok(());
            }
            granted => granted?,
        };
        let Some(origin) = granted else { return Ok(()) };
        let node = Children::origin_image(&mut self.core, origin)?.map(|image| image.node);
        let admission = node.and_then(|node| Members::sign_admission(&self.core, node, origin));
        self.children.tell(child, Down::Renewed { of, life, origin, admission });
        Ok(())
    }

    /// The origin in place of another: the one that this life got before, or a new one.
    fn renew(&mut self, peer: PeerId, of: OriginId, life: Life) -> Result<Option<OriginId>, StepError> {
        let renewal = Renewal { of, life };
        let all = self.core.state.origins()?;
        if let Some((origin, _)) = all.iter().find(|(_, image)| image.renews == Some(renewal)) {
            return Ok(Some(*origin));
        }
        let Some((_, image)) = all.iter().find(|(origin, _)| *origin == of) else { return Ok(None) };
        let refused = |why: &str| Err(StepError::Peer(peer, why.to_owned()));
        match image.admitted {
            Admitted::Station | Admitted::Client | Admitted::Reader => {}
            Admitted::Home | Admitted::Revoked => return refused("wants a new origin for one that has no access"),
        }
        if all.iter().filter(|(_, image)| image.renews.is_some_and(|renews| renews.of == of)).count() >= RENEWALS_MAX {
            return refused("wants too many new origins");
        }
        let Some(origin) = self.free_origin()? else { return refused("wants an origin, and none is left") };
        let renewed = Origin::admitted(image.admitted, image.node, image.label.clone()).limited(image.limits);
        let renewed = Origin { renews: Some(renewal), ..renewed };
        self.core.state.put_image(Key::Origin(origin), Some(Image::Origin(renewed.into())))?;
        Ok(Some(origin))
    }
}
