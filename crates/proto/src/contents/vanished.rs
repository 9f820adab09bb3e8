//! Bytes that turned out to be gone where a record says they are.
//!
//! A chunk rots, a segment is lost, a disk is put back: whoever owes contents finds that it cannot give them. If nobody
//! whom its driver can ask has them either, it says so upward, and answers for them no more. What becomes of the version
//! the home decides (`contents/lost.rs`): somebody else may have it.
//!
//! ```text
//!   client                      station                                home
//!   owed ── chunk is gone ──▶ vanished ──Gone──▶ missing, nobody on record ──Gone──▶ missing, nobody on record
//!                                 │ not awaited: *safe* of what came later goes on      │ all others are asked
//!                                 ▼                                                     ▼
//!                             (dropped) ◀───────────────────── Stable ───────────────  lost, or found elsewhere
//! ```

use crate::api::{Output, PeerId};
use crate::children::Children;
use crate::contents::Contents;
use crate::contents::answers::{ByWriter, Denial, Found};
use crate::contents::duty::{Duty, Keeper};
use crate::contents::lent::AWAY_MAX;
use crate::contents::losses::Vanished;
use crate::contents::missing::Missing;
use crate::contents::owed::{Lent, Owed, size_of};
use crate::histories::Histories;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::state::tables::table::{AWAITED, VANISHED};
use crate::state::tables::{pack, parse_record_key, record_key, root_key, table, unpack};
use crate::upstream::Uplink;
use std::collections::BTreeMap;
use wayfs_types::{Content, FileId, MetaStore, OriginId, RecordId, StorageError};
use wayfs_wire::{Down, HeldVersion, LentVersion, Up};

/// Most versions in one message.
const GONE_PER_MESSAGE: usize = 4096;
/// Versions of which a home remembers who said that they are gone. Stations hear of others in their next sessions.
const SAID_GONE_MAX: usize = 65_536;
/// Most versions that a station asks its clients about at a time.
const SOUGHT_MAX: usize = 16_384;

/// The half of whoever had them.
impl<S: MetaStore> Replica<S> {
    /// [`crate::Input::Sought`]: what the driver found of what was looked for.
    pub(crate) fn handle_found(
        &mut self,
        (file, version): (FileId, RecordId),
        content: Content,
        found: Found,
    ) -> Result<(), StepError> {
        if self.contents.author().is_some() {
            self.requests.note_levels_moved();
        }
        if self.contents.is_stale_look(version) {
            return Ok(());
        }
        match self.contents.duty {
            Duty::Keeps(_) => self.end_look(version, &content, found)?,
            Duty::Carries(_) if found == Found::Here => {
                if let Some(missing) = Contents::missing(&mut self.core, version)? {
                    self.contents.settle_missing(&mut self.core, &mut self.children, version, &missing);
                }
                self.contents.owe(&mut self.core, version, file, content)?;
            }
            // The home may have us on record for it.
            Duty::Carries(_) => {
                if !Contents::is_held_below(&mut self.core, &self.children, version)? {
                    self.contents.gone.insert(version, false);
                }
            }
            Duty::Answers(_) if found == Found::Here => self.answer_again(version, file, content)?,
            Duty::Answers(_) => {
                self.contents.gone.insert(version, true);
            }
        }
        Ok(())
    }

    /// Contents of ours that were looked for are here.
    fn answer_again(&mut self, version: RecordId, file: FileId, content: Content) -> Result<(), StorageError> {
        if Contents::owed(&mut self.core, version)?.is_some() {
            return Ok(());
        }
        let own = self.core.config.origin;
        let sent = self.uplink.sent_through().max(self.uplink.parent_has(own));
        if version.origin() != own || version.sequence() <= sent {
            // Only writers are asked.
            return self.contents.lend_again(&mut self.core, &self.uplink, version, file, content);
        }
        // Written again, and not sent yet: it goes up like all that is new.
        self.contents.take_vanished(&mut self.core, version)?;
        self.contents.owe(&mut self.core, version, file, content)?;
        self.core.state.stage_own_marks();
        Ok(())
    }
}

impl Contents {
    /// Tells the parent of what is gone, as far as it has the records.
    pub(crate) fn tell_gone<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &Children,
        uplink: &Uplink,
    ) -> Result<(), StorageError> {
        if self.gone.is_empty() || !core.has_parent() {
            return Ok(());
        }
        let (mut by_writer, mut others) = (Vec::new(), Vec::new());
        for (version, writer) in self.gone.clone() {
            if !Self::is_known_above(core, uplink, version) {
                continue;
            }
            self.gone.remove(&version);
            if self.carrier().is_some() && Self::is_held_below(core, children, version)? {
                continue;
            }
            if writer { by_writer.push(version) } else { others.push(version) }
        }
        for (versions, writer) in [(by_writer, true), (others, false)] {
            for part in versions.chunks(GONE_PER_MESSAGE) {
                core.tell_parent(Up::Gone { versions: part.to_vec(), writer });
            }
        }
        Ok(())
    }

    /// Whether the parent has the record of a version of our log, so that a word about its contents says something to it.
    fn is_known_above<S: MetaStore>(core: &Core<S>, uplink: &Uplink, version: RecordId) -> bool {
        let applied = uplink.applied_of(version.origin());
        let is_ours = if core.writes() {
            version.origin() == core.config.origin
        } else {
            let item = core.state.log().position_of(version).and_then(|position| core.state.log().item(position));
            item.is_some_and(|item| item.tentative)
        };
        !is_ours || version.sequence() <= applied
    }

    /// Tells the home, when it is time, which contents nobody below us has who is there. What we wrote again, and a client who is there
    /// may have by another name, is looked for first.
    pub(crate) fn look_for_gone<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        uplink: &Uplink,
    ) -> Result<(), StorageError> {
        let Some(carrier) = self.carrier_mut() else { return Ok(()) };
        if carrier.gone_at.is_none_or(|at| core.now < at) {
            return Ok(());
        }
        carrier.gone_at = None;
        let (mut gone, mut doubtful) = (Vec::new(), Vec::new());
        core.state.each(&[table::MISSING], &[table::MISSING + 1], |key, value| {
            let (version, missing) = (parse_record_key(key)?, unpack::<Missing>(value)?);
            if missing.everybody().all(|child| children.peer_of(child).is_none()) {
                gone.push((version, missing));
            } else if !missing.everybody().any(|child| Self::will_bring(core, children, child, version)) {
                doubtful.push((version, missing));
            }
            Ok(())
        })?;
        for (version, missing) in gone {
            let writer = Self::is_vanished(core, version)?;
            if !writer && !Self::writers_below(core, children, version.origin())?.is_empty() {
                // It is there by another number, and the only one who can say that it has nothing.
                let held = HeldVersion { version, file: missing.file, content: missing.content };
                self.handle_sought(core, children, uplink, vec![held])?;
            } else {
                let by = if writer { ByWriter::Yes } else { ByWriter::No };
                self.deny(version, Denial::Missing(by));
            }
        }
        for (version, missing) in doubtful {
            self.look(core, missing.file, version, missing.content);
        }
        Ok(())
    }

    /// The home looks for contents that nobody has on record.
    pub(crate) fn handle_sought<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        uplink: &Uplink,
        versions: Vec<HeldVersion>,
    ) -> Result<(), StorageError> {
        let mut below = Vec::new();
        for HeldVersion { version, file, content } in versions {
            if Self::owed(core, version)?.is_some() {
                if self.author().is_some() {
                    // It is told and pushed like all that nobody has called safe, whatever is said of what came later.
                    self.keep_sought(HeldVersion { version, file, content: content.clone() });
                    Self::offer_former(core, version, file, content);
                } else {
                    self.have(version);
                }
                continue;
            }
            if let Some(Lent { file, content, to }) = Self::lent(core, version)? {
                let held = HeldVersion { version, file, content };
                self.keep_sought(held.clone());
                let to = to.map(|stamp| stamp.origin);
                Self::offer_lent(core, uplink, LentVersion { held, to });
                continue;
            }
            if content.root().is_none() {
                self.gone.insert(version, true);
                continue;
            }
            let is_held_below = Self::is_held_below(core, children, version)?;
            if let Some(carrier) = self.carrier_mut() {
                if is_held_below {
                    carrier.spares.insert(version);
                    continue;
                }
                let held = HeldVersion { version, file, content: content.clone() };
                self.keep_sought(held.clone());
                below.push(held);
            }
            self.look(core, file, version, content);
        }
        let mut by_child: BTreeMap<OriginId, Vec<HeldVersion>> = BTreeMap::new();
        for held in below {
            for child in Self::writers_below(core, children, held.version.origin())? {
                by_child.entry(child).or_default().push(held.clone());
            }
        }
        for (child, versions) in by_child {
            children.tell(child, Down::Seek { versions });
        }
        Ok(())
    }

    /// Records of ours are written again by other names: what the driver looks for by these is nobody's business any more.
    pub(crate) fn call_looks_off(&mut self, uplink: &Uplink) {
        let Some(author) = self.author_mut() else { return };
        author.own_looks.call_off(|version| uplink.was_written_again(version));
    }

    /// [`crate::Input::ContentGone`]: the contents of a version are not in the chunk store, and whoever could be asked has
    /// them not.
    pub(crate) fn handle_content_gone<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        file: FileId,
        version: RecordId,
        content: &Content,
    ) -> Result<(), StorageError> {
        self.pushing.remove(&version);
        match self.duty {
            Duty::Answers(_) => {
                let was_owed = Self::owed(core, version)?.is_some();
                if let Some((file, content)) = self.take_duty(core, version)? {
                    tracing::error!(%version, was_owed, "the bytes of a version are gone here");
                    // What it lent a server has, unless that looks for it.
                    let is_sought = self.is_sought(&version);
                    if was_owed {
                        self.put_vanished(core, version, file, content)?;
                    }
                    self.gone.insert(version, was_owed || is_sought);
                    core.state.stage_own_marks();
                }
            }
            Duty::Carries(_) => {
                let Some((file, content)) = self.take_duty(core, version)? else { return Ok(()) };
                self.put_unheld(core, version, file, content)?;
                self.gone.insert(version, false);
                // Its writer keeps its copy until the home has one.
                children.tell(version.origin(), Down::Want { versions: vec![version] });
            }
            Duty::Keeps(_) => {
                let is_shown = wayfs_tree::inode(&core.state.tx(), file)?
                    .is_some_and(|inode| inode.version == version && inode.content == *content);
                let is_known = Self::missing(core, version)?.is_some() || Self::is_vanished(core, version)?;
                if is_shown && !is_known {
                    self.put_unheld(core, version, file, content.clone())?;
                    self.note_holders_moved(core);
                }
            }
        }
        Ok(())
    }

    /// Whether we, or somebody below us who is there, have contents by the records.
    fn is_held_below<S: MetaStore>(
        core: &mut Core<S>,
        children: &Children,
        version: RecordId,
    ) -> Result<bool, StorageError> {
        if Self::owed(core, version)?.is_some() {
            return Ok(true);
        }
        let Some(missing) = Self::missing(core, version)? else { return Ok(false) };
        Ok(missing.everybody().any(|child| Self::will_bring(core, children, child, version)))
    }

    /// Whether a child is there that brings contents by this name. What we wrote again in place of a client it knows by another one:
    /// it brings it by that, if it still has it.
    fn will_bring<S: MetaStore>(core: &Core<S>, children: &Children, child: OriginId, version: RecordId) -> bool {
        let is_station = || children.is_station(child);
        children.peer_of(child).is_some() && (version.origin() != core.config.origin || is_station())
    }

    /// Clients of ours with a session who wrote under an origin, be it one that they had before.
    pub(crate) fn writers_below<S: MetaStore>(
        core: &mut Core<S>,
        children: &Children,
        origin: OriginId,
    ) -> Result<Vec<OriginId>, StorageError> {
        let Some(node) = Children::origin_image(core, origin)?.map(|image| image.node) else {
            return Ok(Vec::new());
        };
        let clients: Vec<OriginId> = children.greeted_clients().collect();
        let mut writers = Vec::new();
        for client in clients {
            if Children::origin_image(core, client)?.is_some_and(|image| image.node == node) {
                writers.push(client);
            }
        }
        Ok(writers)
    }

    /// Takes out the row by which this replica answers for contents. Answers what it was about.
    fn take_duty<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        version: RecordId,
    ) -> Result<Option<(FileId, Content)>, StorageError> {
        if let Some(Owed { file, content }) = Self::owed(core, version)? {
            self.release(core, version)?;
            return Ok(Some((file, content)));
        }
        let Some(Lent { file, content, .. }) = Self::lent(core, version)? else { return Ok(None) };
        self.take_lent(core, version)?;
        Ok(Some((file, content)))
    }

    pub(crate) fn put_vanished<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        version: RecordId,
        file: FileId,
        content: Content,
    ) -> Result<(), StorageError> {
        let key = record_key(VANISHED, version);
        if self.author().is_some() && core.state.tx().get_raw(&key)?.is_none() {
            core.state.stage_totals().vanished += 1;
            core.state.stage_totals().vanished_bytes += size_of(&content);
        }
        core.state.put_row(key, pack(&Vanished { file, content, at: core.wall }));
        self.note_row(VANISHED, version);
        Ok(())
    }

    /// The home has decided what became of a version, or it turned up.
    pub(crate) fn take_vanished<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        version: RecordId,
    ) -> Result<(), StorageError> {
        let key = record_key(VANISHED, version);
        if let Some(bytes) = core.state.tx().get_raw(&key)? {
            let vanished: Vanished = unpack(&bytes)?;
            core.state.delete_row(key);
            if self.author().is_some() {
                core.state.stage_totals().vanished -= 1;
                core.state.stage_totals().vanished_bytes -= size_of(&vanished.content);
            }
        }
        self.gone.remove(&version);
        Ok(())
    }

    /// Contents that nobody has on record.
    fn put_unheld<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        version: RecordId,
        file: FileId,
        content: Content,
    ) -> Result<(), StorageError> {
        let Some(root) = content.root() else { return Ok(()) };
        if Self::missing(core, version)?.is_some() {
            return Ok(());
        }
        core.state.stage_totals().missing += 1;
        core.state.stage_totals().missing_bytes += size_of(&content);
        core.state.stage_marks(version.origin());
        core.state.put_row(root_key(&root, version), Vec::new());
        core.state.put_row(record_key(table::MISSING, version), pack(&Missing::of(file, version, content)));
        self.note_row(table::MISSING, version);
        Ok(())
    }

    /// In a new session all of it is told again: the home answers what it has decided.
    pub(crate) fn retell_gone<S: MetaStore>(&mut self, core: &Core<S>) -> Result<(), StorageError> {
        if self.carrier().is_some() {
            self.note_child_away(core);
            return Ok(());
        }
        let mut gone = BTreeMap::new();
        core.state.each(&[VANISHED], &[VANISHED + 1], |key, _| {
            gone.insert(parse_record_key(key)?, true);
            Ok(())
        })?;
        self.gone.extend(gone);
        Ok(())
    }

    /// A child went: if it stays away, what it alone has cannot be had through us.
    pub(crate) fn note_child_away<S: MetaStore>(&mut self, core: &Core<S>) {
        if let Some(carrier) = self.carrier_mut() {
            let at = core.now + AWAY_MAX;
            carrier.gone_at = Some(carrier.gone_at.map_or(at, |known| known.min(at)));
        }
    }

    /// Has the driver look for contents.
    pub(crate) fn look<S: MetaStore>(&mut self, core: &mut Core<S>, file: FileId, version: RecordId, content: Content) {
        if let Some(author) = self.author_mut() {
            author.own_looks.look_begun(version);
        }
        core.state.stage_output(Output::Seek { file, version, content });
    }

    /// The driver has looked. Whether nobody wants to know any more what it found.
    fn is_stale_look(&mut self, version: RecordId) -> bool {
        self.author_mut().is_some_and(|author| author.own_looks.look_ended(version))
    }

    pub(crate) fn keep_sought(&mut self, held: HeldVersion) {
        if self.sought.len() < SOUGHT_MAX {
            self.sought.insert(held.version, held);
        }
    }

    pub(crate) fn owed<S: MetaStore>(core: &mut Core<S>, version: RecordId) -> Result<Option<Owed>, StorageError> {
        core.state.tx().get_raw(&record_key(table::OWED, version))?.map(|bytes| unpack(&bytes)).transpose()
    }

    pub(crate) fn is_vanished<S: MetaStore>(core: &mut Core<S>, version: RecordId) -> Result<bool, StorageError> {
        Ok(core.state.tx().get_raw(&record_key(VANISHED, version))?.is_some())
    }
}

/// The parent's half.
impl Contents {
    /// A child says that neither it nor anybody below it has contents.
    pub(crate) fn handle_gone<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        peer: PeerId,
        child: OriginId,
        (versions, by): (Vec<RecordId>, ByWriter),
    ) -> Result<(), StepError> {
        let is_station = children.is_station(child);
        if !is_station {
            for version in &versions {
                if !Self::may_speak_for(core, child, version.origin())? {
                    return Err(StepError::Peer(peer, "says of another's contents that they are gone".to_owned()));
                }
            }
        }
        for version in versions {
            self.note_nowhere(core, children, child, version, by)?;
        }
        self.note_holders_moved(core);
        Ok(())
    }

    /// Whether the writer of an origin's records is on record under a number under which it has no session: it said that it has
    /// nothing by the one that it has. (A copy that goes on under this one, and has it after all, tells so when it comes.)
    fn is_of_writer<S: MetaStore>(
        core: &mut Core<S>,
        children: &Children,
        other: OriginId,
        origin: OriginId,
    ) -> Result<bool, StorageError> {
        Ok(children.peer_of(other).is_none() && Self::speaks_for(core, origin, other)?)
    }

    fn note_nowhere<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        version: RecordId,
        by: ByWriter,
    ) -> Result<(), StorageError> {
        let (origin, is_station, writer) = (version.origin(), children.is_station(child), by == ByWriter::Yes);
        let Some(mut missing) = Self::missing(core, version)? else {
            let is_owed = Self::owed(core, version)?.is_some();
            if self.sought.remove(&version).is_some() && !is_owed {
                self.gone.insert(version, writer);
                return Ok(());
            }
            if self.keeper().is_some() && Histories::has_record(core, version)?
                || !is_owed && core.state.marks(origin)?.stable >= version.sequence()
            {
                // It is here, was replaced, or is declared lost.
                children.tell_stable(child, version);
            } else if self.carrier().is_some() && !is_owed {
                self.gone.insert(version, writer);
            }
            return Ok(());
        };
        if let Some(Keeper { said_gone, .. }) = self.keeper_mut().filter(|_| is_station)
            && said_gone.len() < SAID_GONE_MAX
        {
            said_gone.entry(version).or_default().insert(child);
        }
        // What a station wrote itself, in place of others, it answers for alone; under a number that it had before, too.
        let is_its_own =
            origin == child || children.peer_of(origin).is_none() && Self::speaks_for(core, child, origin)?;
        let writer = writer || is_station && is_its_own;
        let (mut holders, mut spares) = (Vec::new(), Vec::new());
        for (of, kept) in [(missing.holders, &mut holders), (missing.spares, &mut spares)] {
            for other in of {
                if other != child && !(writer && Self::is_of_writer(core, children, other, origin)?) {
                    kept.push(other);
                }
            }
        }
        (missing.holders, missing.spares) = (holders, spares);
        // Another said that this one has it.
        missing.claimed = missing.claimed.filter(|claimed| *claimed != child);
        if writer {
            self.put_vanished(core, version, missing.file, missing.content.clone())?;
        }
        // The key is that of every copy of the writer's store: the one that is there under this number, and has it, goes on to bring it.
        let is_there = child != origin && missing.holders.contains(&origin) && children.peer_of(origin).is_some();
        if (writer || !is_station) && !is_there {
            core.state.delete_row(record_key(AWAITED, version));
        }
        core.state.stage_marks(origin);
        if self.carrier().is_some() && missing.everybody().next().is_none() {
            self.deny(version, Denial::Missing(if writer { ByWriter::Yes } else { ByWriter::No }));
        } else if !missing.everybody().any(|child| children.peer_of(child).is_some()) {
            // The others may be away for good, or be numbers that this one had before.
            self.note_child_away(core);
        }
        core.state.put_row(record_key(table::MISSING, version), pack(&missing));
        Ok(())
    }
}
