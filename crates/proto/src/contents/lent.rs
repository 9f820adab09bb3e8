//! Contents that are safe and not yet stable: their writer keeps answering for them.
//!
//! *Safe* means that one server has them on its disk. If that disk is lost before the home has them, the writer is the
//! only one who still does, so it keeps a row for each such version: **lent** to that server. It never evicts what it
//! lent, tells every other parent that it comes to that it could give it, and lets go when it is stable.
//!
//! ```text
//!   client            former station S     present parent P                 home
//!   owed ──push──▶    owed
//!   lent to S ◀─safe─┘  │ (policy)                                           missing: holder S
//!     │  Lent ────────────────────────────▶ missing: spare client ──Lent──▶ missing: holder S, spare P
//!     │                                                                        │ S has been away for a while,
//!     │ ◀───────────────────────Want────────────────────────────────────Want───┘ or nobody else is on record
//!     └──push──▶ … ──▶ P ──push──▶ home: stable, and everybody lets go
//! ```
//!
//! A **spare** is asked for contents when no holder can be; it makes nothing safe.

use crate::api::{Output, PeerId};
use crate::children::Children;
use crate::contents::Contents;
use crate::contents::answers::Offer;
use crate::contents::duty::{Author, Keeper};
use crate::contents::missing::{HOLDERS_MAX, Missing};
use crate::contents::owed::{Lent, Owed, size_of};
use crate::contents::replacing::PASS_PAUSE;
use crate::histories::Histories;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::state::tables::table::{LOST, VANISHED};
use crate::state::tables::{PAGE, origin_range, pack, parse_record_key, record_key, root_key, table, unpack};
use crate::state::totals::Totals;
use crate::upstream::Uplink;
use std::collections::BTreeMap;
use std::time::Duration;
use wayfs_types::{Admitted, Content, FileId, MetaStore, OriginId, RecordId, StorageError};
use wayfs_wire::{Down, HeldVersion, LentVersion, Stamp, Up};

/// Most versions in one message.
pub(super) const LENT_PER_MESSAGE: usize = 1024;
/// Most versions of which we remember how much has gone home.
const SENT_HOME_MAX: usize = 1024;
/// A holder that has been away for so long is replaced: long enough for a restart, short enough that its loss is
/// noticed within the minute.
pub(crate) const AWAY_MAX: Duration = Duration::from_secs(30);
/// Rows of what is missing that one part of a pass reads.
const PASS_PART: usize = 1024;

/// The client's half.
impl<S: MetaStore> Replica<S> {
    /// [`crate::Input::MakeRoom`]: the cache has no room but for contents that the home does not have.
    pub(crate) fn handle_make_room(&mut self) -> Result<(), StorageError> {
        if self.contents.author().is_none() || self.core.state.totals().lent == 0 {
            return Ok(());
        }
        let origin = self.core.config.origin;
        let safe = self.core.state.marks(origin)?.safe;
        self.want_stable(origin, safe)
    }
}

impl Contents {
    /// What nobody has on record is here, and was ours: it is given again.
    pub(crate) fn lend_again<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        uplink: &Uplink,
        version: RecordId,
        file: FileId,
        content: Content,
    ) -> Result<(), StorageError> {
        self.take_vanished(core, version)?;
        self.forget_stable_alone(&version);
        core.state.delete_row(record_key(LOST, version));
        if version.origin() == core.config.origin && version.sequence() <= core.state.marks(version.origin())?.stable {
            // A mark of before says that it need not be kept, and the next may repeat it.
            self.keep_sought(HeldVersion { version, file, content: content.clone() });
        }
        if Self::lent(core, version)?.is_none() {
            core.state.stage_totals().lent += 1;
            core.state.stage_totals().lent_bytes += size_of(&content);
        }
        let lent = Lent { file, content: content.clone(), to: None };
        core.state.put_row(record_key(table::LENT, version), pack(&lent));
        self.note_row(table::LENT, version);
        Self::offer_lent(core, uplink, LentVersion { held: HeldVersion { version, file, content }, to: None });
        Ok(())
    }

    /// Tells the parent of one that is lent. Another parent by now may not have heard of the record; when it has, this is told with the
    /// rest (`tell_lent`).
    pub(crate) fn offer_lent<S: MetaStore>(core: &mut Core<S>, uplink: &Uplink, lent: LentVersion) {
        let version = lent.held.version;
        if version.origin() != core.config.origin || version.sequence() <= uplink.parent_has(version.origin()) {
            core.tell_parent(Up::Lent { versions: vec![lent] });
        }
    }

    /// Tells a parent what we lent to others and could give it: of those of our records that it has.
    pub(crate) fn tell_lent<S: MetaStore>(&mut self, core: &mut Core<S>, uplink: &Uplink) -> Result<(), StorageError> {
        self.tell_former(core)?;
        let own = core.config.origin;
        let Some(said) = self.said_mut() else { return Ok(()) };
        let (from, through) = (said.lent, uplink.applied_of(own));
        if through <= from {
            return Ok(());
        }
        said.lent = through;
        // A store that goes on where we left off has what we lent to it.
        let present = core.parent_stamp().filter(|_| uplink.is_resumed());
        if core.state.totals().lent == 0 {
            return Ok(());
        }
        let (start, _) = origin_range(table::LENT, own, from + 1);
        let (end, _) = origin_range(table::LENT, own, through + 1);
        self.tell_lent_in(core, start, &end, present)
    }

    /// Tells of the rows of a range, but for what is lent to this very parent and nobody looked for.
    fn tell_lent_in<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        mut start: Vec<u8>,
        end: &[u8],
        present: Option<Stamp>,
    ) -> Result<(), StorageError> {
        loop {
            let pairs = core.state.tx().scan_raw(&start, end, LENT_PER_MESSAGE)?;
            let Some((last, _)) = pairs.last() else { return Ok(()) };
            start.clone_from(last);
            start.push(0);
            let mut versions = Vec::new();
            for (key, value) in &pairs {
                let Lent { file, content, to } = unpack(value)?;
                let version = parse_record_key(key)?;
                let store = |stamp: Stamp| (stamp.origin, stamp.born);
                // No mark says what became of what was looked for, and a word of it may have been cut off with the last session.
                if to.is_none() || to.map(store) != present.map(store) || self.is_sought(&version) {
                    let held = HeldVersion { version, file, content };
                    versions.push(LentVersion { held, to: to.map(|stamp| stamp.origin) });
                }
            }
            if !versions.is_empty() {
                core.tell_parent(Up::Lent { versions });
            }
        }
    }

    /// The parent vouches for our own records: those that are stable we need not keep, those that are safe it has.
    pub(crate) fn release_own<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        (safe, stable): (u64, u64),
        to: Option<Stamp>,
    ) -> Result<(), StorageError> {
        if self.author().is_none() {
            return Ok(());
        }
        // What was declared lost and is here: it goes home first.
        let is_sought = Contents::is_sought;
        self.each_own(core, table::LENT, stable, is_sought, Self::take_lent)?;
        self.each_own(core, VANISHED, stable, is_sought, Self::settle_vanished)?;
        self.each_own(core, table::OWED, stable, is_sought, Self::release)?;
        let is_sought = Contents::is_sought_and_not_there;
        self.each_own(core, table::OWED, safe, is_sought, |contents, core, record| contents.lend(core, record, to))
    }

    /// Works off the rows of our own in a table up to a sequence: each is taken out by `step`, but for what is kept.
    fn each_own<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        of: u8,
        through: u64,
        is_kept: fn(&Contents, &RecordId) -> bool,
        mut step: impl FnMut(&mut Self, &mut Core<S>, RecordId) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let origin = core.config.origin;
        let floor = self.floor_of(of, origin);
        if floor > through {
            return Ok(());
        }
        if Self::rows_of(core, of) == 0 {
            self.raise_floor(of, origin, through + 1);
            return Ok(());
        }
        let (mut from, _) = origin_range(of, origin, floor);
        let (until, _) = origin_range(of, origin, through + 1);
        let mut first_kept = None;
        loop {
            let pairs = core.state.tx().scan_raw(&from, &until, PAGE)?;
            if let Some((last, _)) = pairs.last() {
                from.clone_from(last);
                from.push(0);
            }
            let is_end = pairs.len() < PAGE;
            for (key, _) in pairs {
                let record = parse_record_key(&key)?;
                if is_kept(self, &record) {
                    first_kept = first_kept.or(Some(record.sequence()));
                    continue;
                }
                step(self, core, record)?;
            }
            if is_end {
                self.raise_floor(of, origin, first_kept.unwrap_or(through + 1));
                return Ok(());
            }
        }
    }

    /// A server took contents over: they stay here until the home has them.
    pub(crate) fn lend<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        record: RecordId,
        to: Option<Stamp>,
    ) -> Result<(), StorageError> {
        let Some(bytes) = core.state.tx().get_raw(&record_key(table::OWED, record))? else { return Ok(()) };
        let Owed { file, content } = unpack(&bytes)?;
        self.release(core, record)?;
        core.state.stage_totals().lent += 1;
        core.state.stage_totals().lent_bytes += size_of(&content);
        core.state.put_row(record_key(table::LENT, record), pack(&Lent { file, content, to }));
        self.note_row(table::LENT, record);
        Ok(())
    }

    /// Nobody will ask us for these contents any more.
    pub(crate) fn take_lent<S: MetaStore>(&mut self, core: &mut Core<S>, record: RecordId) -> Result<(), StorageError> {
        let key = record_key(table::LENT, record);
        if let Some(bytes) = core.state.tx().get_raw(&key)? {
            let lent: Lent = unpack(&bytes)?;
            core.state.delete_row(key);
            core.state.stage_totals().lent -= 1;
            core.state.stage_totals().lent_bytes -= size_of(&lent.content);
        }
        self.wanted.remove(&record);
        if let Some(author) = self.author_mut() {
            author.sent_home.remove(&record);
        }
        Ok(())
    }

    /// The server that has our contents says how much of them has gone on.
    pub(crate) fn note_sent_home(&mut self, version: RecordId, bytes: u64) {
        let Some(Author { sent_home, .. }) = self.author_mut() else { return };
        if sent_home.contains_key(&version) || sent_home.len() < SENT_HOME_MAX {
            sent_home.insert(version, bytes);
        }
    }

    /// Bytes of what is lent that have gone on to the home, as far as the server that has it told.
    pub(crate) fn bytes_sent_home(&self) -> u64 {
        self.author().map_or(0, |author| author.sent_home.values().sum())
    }

    /// Rows of a table of contents that this client answers for.
    fn rows_of<S: MetaStore>(core: &Core<S>, of: u8) -> i64 {
        let sum = |count: fn(&Totals) -> i64| core.state.total(count);
        match of {
            table::OWED => sum(|totals| totals.owed),
            table::LENT => sum(|totals| totals.lent),
            _ => sum(|totals| totals.vanished),
        }
    }

    pub(crate) fn lent<S: MetaStore>(core: &mut Core<S>, record: RecordId) -> Result<Option<Lent>, StorageError> {
        core.state.tx().get_raw(&record_key(table::LENT, record))?.map(|bytes| unpack(&bytes)).transpose()
    }

    /// To which server's store a version of ours is lent: it and we have its contents, the home does not.
    pub(crate) fn lent_to<S: MetaStore>(core: &Core<S>, version: RecordId) -> Result<Option<OriginId>, StorageError> {
        let Some(bytes) = core.state.store().get(&record_key(table::LENT, version))? else { return Ok(None) };
        Ok(unpack::<Lent>(&bytes)?.to.map(|stamp| stamp.origin))
    }

    fn note_spare<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        lent: LentVersion,
    ) -> Result<(), StorageError> {
        let LentVersion { held: HeldVersion { version, file, content }, to } = lent;
        let Some(root) = content.root() else { return Ok(()) };
        let origin = version.origin();
        let known = Self::missing(core, version)?;
        if let Some(keeper) = self.keeper_mut() {
            match known {
                Some(missing) => {
                    keeper.replacing.note_told(version, child);
                    self.put_spare(core, children, version, missing, child, to);
                }
                // Only of what is missing: a child may name any number of versions.
                None if Self::lost(core, version)?.is_some() => {
                    keeper.replacing.note_told(version, child);
                    self.is_revived(core, children, version, child, Offer::CouldGive)?;
                }
                None if Histories::has_record(core, version)? => {
                    match self.take_left_out(core, HeldVersion { version, file, content })? {
                        Some(missing) => self.put_spare(core, children, version, missing, child, to),
                        // It is here, or was replaced by somebody who had seen it.
                        None => children.tell_stable(child, version),
                    }
                }
                None => keeper.note_early_spare(version, child),
            }
            return Ok(());
        }
        if core.state.tx().get_raw(&record_key(table::OWED, version))?.is_some() {
            return Ok(());
        }
        if !Histories::has_record(core, version)? {
            // Of a former origin of its writer: it tells again in its next session. Or the home never takes it: its writer was put
            // back, and wrote on behind that number.
            return Ok(());
        }
        // What is offered as with nobody else may have been left out by its record, of which no mark tells.
        let is_lent = to.is_some();
        if is_lent && core.state.marks(origin)?.stable >= version.sequence() && !Self::is_declared(core, version)? {
            if let Some(missing) = known {
                self.settle_missing(core, children, version, &missing);
            }
            children.tell_stable(child, version);
            return Ok(());
        }
        // We were put back, and have forgotten: the home was told that we have it, and asks nobody else.
        let is_said_to_be_here = to == Some(core.config.origin);
        match known {
            Some(missing) => self.put_spare(core, children, version, missing, child, to),
            None if self.announced.take(&content) => {
                return self.owe(core, version, file, content);
            }
            None => {
                core.state.stage_totals().missing += 1;
                core.state.stage_totals().missing_bytes += size_of(&content);
                core.state.put_row(root_key(&root, version), Vec::new());
                self.note_row(table::MISSING, version);
                let output = Output::Applied { file, record: version, content: Some(content.clone()) };
                core.state.stage_output(output);
                self.put_spare(core, children, version, Missing::of(file, version, content), child, to);
            }
        }
        let mut is_wanted = self.wanted.contains(&version);
        if let Some(carrier) = self.carrier_mut() {
            carrier.spares.insert(version);
            is_wanted |= carrier.wanted_below.contains(&version);
        }
        if is_said_to_be_here || is_wanted {
            children.tell(child, Down::Want { versions: vec![version] });
        }
        Ok(())
    }

    fn put_spare<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &Children,
        version: RecordId,
        mut missing: Missing,
        child: OriginId,
        to: Option<OriginId>,
    ) {
        missing.claimed = to.or(missing.claimed);
        if children.is_client(child) {
            // A client that was to push it, and lent it to another meanwhile, pushes it no more before it is asked.
            missing.holders.retain(|holder| *holder != child);
        }
        if !missing.holders.contains(&child) && !missing.spares.contains(&child) {
            missing.spares.push(child);
            let excess = missing.spares.len().saturating_sub(HOLDERS_MAX);
            missing.spares.drain(..excess);
        }
        core.state.put_row(record_key(table::MISSING, version), pack(&missing));
        self.note_holders_moved(core);
    }

    /// A station tells the home of what somebody below it could give.
    pub(crate) fn tell_spares<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        let Some(carrier) = self.carrier_mut().filter(|carrier| !carrier.spares.is_empty()) else { return Ok(()) };
        if core.state.ticket() > core.state.stored() {
            core.state.want_sync();
            return Ok(());
        }
        let mut versions = Vec::new();
        for version in std::mem::take(&mut carrier.spares) {
            let Some(missing) = Self::missing(core, version)? else { continue };
            let held = HeldVersion { version, file: missing.file, content: missing.content };
            versions.push(LentVersion { held, to: missing.claimed });
        }
        for part in versions.chunks(LENT_PER_MESSAGE) {
            core.tell_parent(Up::Lent { versions: part.to_vec() });
        }
        Ok(())
    }

    /// In a new session a station tells again what clients below it could give.
    pub(crate) fn retell_spares<S: MetaStore>(&mut self, core: &Core<S>) -> Result<(), StorageError> {
        let mut spares = Vec::new();
        core.state.each(&[table::MISSING], &[table::MISSING + 1], |key, value| {
            if !unpack::<Missing>(value)?.spares.is_empty() {
                spares.push(parse_record_key(key)?);
            }
            Ok(())
        })?;
        if let Some(carrier) = self.carrier_mut() {
            carrier.spares.extend(spares);
        }
        Ok(())
    }

    /// A client speaks for what it wrote itself, be it under an origin that it had before.
    fn check_lent<S: MetaStore>(
        core: &mut Core<S>,
        peer: PeerId,
        child: OriginId,
        versions: &[LentVersion],
    ) -> Result<(), StepError> {
        let protocol_violation = |text: &str| Err(StepError::Peer(peer, text.to_owned()));
        let Some(image) = Children::origin_image(core, child)? else { return protocol_violation("is not known here") };
        if matches!(image.admitted, Admitted::Reader | Admitted::Revoked) {
            return protocol_violation("offers contents and may only read");
        }
        for version in versions.iter().map(|lent| lent.held.version) {
            let origin = version.origin();
            if origin == child && version.sequence() > image.applied {
                return protocol_violation("accounts for records that did not come");
            }
            if !Self::may_speak_for(core, child, origin)? {
                return protocol_violation("offers contents of another's records");
            }
        }
        Ok(())
    }

    /// Somebody came or went: perhaps another has to be asked for what is missing.
    pub(crate) fn note_holders_moved<S: MetaStore>(&mut self, core: &Core<S>) {
        if let Some(keeper) = self.keeper_mut() {
            keeper.replacing.begin(core.now);
        }
    }
}

/// The parent's half.
impl Contents {
    /// A child says that it, or somebody below it, could give contents that another server has.
    pub(crate) fn handle_lent<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        peer: PeerId,
        child: OriginId,
        versions: Vec<LentVersion>,
    ) -> Result<(), StepError> {
        let is_station = children.is_station(child);
        if !is_station {
            Self::check_lent(core, peer, child, &versions)?;
        }
        for lent in versions {
            let origin = lent.held.version.origin();
            if is_station && Children::origin_image(core, origin)?.is_some() {
                children.add_subject(core, child, origin);
            }
            self.note_spare(core, children, child, lent)?;
        }
        Ok(())
    }
}

/// Whom to ask in place of a holder that is gone.
impl Keeper {
    /// Who is to be asked for contents in place of those who have them on record: nobody as long as one of these is
    /// there, or was lately.
    fn replacements<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        children: &Children,
        missing: &Missing,
        version: RecordId,
    ) -> Replacements {
        let (spares, mut silent) = self.spares_there(children, missing, version);
        let mut is_lately = false;
        for holder in &missing.holders {
            let is_there = children.peer_of(*holder).is_some();
            // A client pushes what it has without being asked.
            let is_station = children.is_station(*holder);
            let replacing = &mut self.replacing;
            if is_there {
                replacing.away.remove(holder);
                if !is_station || replacing.has_told(version, *holder) {
                    return Replacements::Held;
                }
                silent.push(*holder);
            }
            // Who is there, and does not tell that it has them while another could give them, may have been put back.
            let since = if is_there { &mut replacing.claims } else { &mut replacing.away };
            is_lately |= core.now < *since.entry(*holder).or_insert(core.now) + AWAY_MAX;
        }
        if let Some(claimed) = missing.claimed.filter(|claimed| !missing.holders.contains(claimed)) {
            // It tells us itself when it comes, and is a holder then.
            let since = *self.replacing.claims.entry(claimed).or_insert(core.now);
            is_lately |= core.now < since + AWAY_MAX;
        }
        if is_lately {
            self.replacing.is_early = true;
            return Replacements::Early;
        }
        if spares.is_empty() && !silent.is_empty() {
            // It says that it has it, or that it has it not.
            silent.retain(|holder| self.replacing.asked.insert((version, *holder)));
            return if silent.is_empty() { Replacements::Held } else { Replacements::Silent(silent) };
        }
        Replacements::Ask(spares)
    }

    /// Who is there and could give contents; and stations that are on record as such and have not told so in their present sessions:
    /// if we were put back to an older copy, they may have been told since that we have them.
    fn spares_there(
        &self,
        children: &Children,
        missing: &Missing,
        version: RecordId,
    ) -> (Vec<OriginId>, Vec<OriginId>) {
        let there = missing.spares.iter().copied().filter(|spare| children.peer_of(*spare).is_some());
        there.partition(|spare| {
            let is_station = children.is_station(*spare);
            !is_station || self.replacing.has_told(version, *spare)
        })
    }
}

/// The home's half: a holder that is gone is replaced.
impl<S: MetaStore> Replica<S> {
    /// Goes on with the pass over what is missing, when it is time.
    pub(crate) fn replace_holders(&mut self) -> Result<(), StorageError> {
        let Some(keeper) = self.contents.keeper_mut() else { return Ok(()) };
        if keeper.replacing.at.is_none_or(|at| self.core.now < at) {
            return Ok(());
        }
        keeper.seeking.begin_part();
        keeper.ask_under_other_numbers(&mut self.core, &self.children)?;
        let mut from = vec![table::MISSING];
        if let Some(after) = keeper.replacing.after {
            from = record_key(table::MISSING, after);
            from.push(0);
        }
        let pairs = self.core.state.tx().scan_raw(&from, &[table::MISSING + 1], PASS_PART)?;
        let mut wanted: BTreeMap<OriginId, Vec<RecordId>> = BTreeMap::new();
        let mut silent: BTreeMap<OriginId, Vec<HeldVersion>> = BTreeMap::new();
        for (key, value) in &pairs {
            let (version, missing) = (parse_record_key(key)?, unpack::<Missing>(value)?);
            let Some(keeper) = self.contents.keeper_mut() else { return Ok(()) };
            match keeper.replacements(&self.core, &self.children, &missing, version) {
                Replacements::Held => keeper.seeking.end(version),
                Replacements::Early => {}
                Replacements::Silent(children) => {
                    let held = HeldVersion { version, file: missing.file, content: missing.content };
                    children.into_iter().for_each(|child| silent.entry(child).or_default().push(held.clone()));
                }
                Replacements::Ask(children) if !children.is_empty() => {
                    children.into_iter().for_each(|child| wanted.entry(child).or_default().push(version));
                }
                Replacements::Ask(_) => {
                    let is_open = self.seek(version, &missing)?;
                    if let Some(keeper) = self.contents.keeper_mut() {
                        keeper.replacing.is_early |= is_open;
                    }
                }
            }
            if let Some(keeper) = self.contents.keeper_mut() {
                keeper.replacing.after = Some(version);
            }
        }
        for (child, versions) in wanted {
            self.children.tell(child, Down::Want { versions });
        }
        for (child, versions) in silent {
            self.children.tell(child, Down::Seek { versions });
        }
        let Some(Keeper { replacing, .. }) = self.contents.keeper_mut() else { return Ok(()) };
        replacing.at = if pairs.len() == PASS_PART {
            Some(self.core.now + PASS_PAUSE)
        } else {
            replacing.after = None;
            replacing.claims.retain(|_, since| self.core.now < *since + AWAY_MAX * 2);
            let is_again = std::mem::take(&mut replacing.is_again);
            let is_early = std::mem::take(&mut replacing.is_early);
            let pause = if is_again { PASS_PAUSE } else { AWAY_MAX };
            (is_again || is_early).then_some(self.core.now + pause)
        };
        Ok(())
    }
}

/// Who is to be asked for contents in place of those who have them on record.
enum Replacements {
    /// Nobody: one of these is there.
    Held,
    /// Nobody yet: one of these was there lately.
    Early,
    /// These, whether they still have them: they are on record and there, and have not told so in their present sessions.
    Silent(Vec<OriginId>),
    /// These, who said that they could give them.
    Ask(Vec<OriginId>),
}
