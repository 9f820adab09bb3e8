//! The home's word that contents are lost, and how it is taken back.
//!
//! Nobody is asked for ever. When all who have a version on record are revoked or said no, and its writer is revoked or
//! said no, the home **seeks** it: all stations and the writer are asked once more. If it turns up nowhere within
//! [`SEEK_WAIT`], the home's driver looks at its own chunks and asks everybody who is there for what lacks, readers too,
//! who are on no record. If that is in vain, a record of the home ([`Op::Lost`]) takes the version out of the way: the line
//! of its writer's *safe* and *stable* moves on, everybody hears of it by a report, and the file shows the last content
//! that is whole.
//!
//! A machine that is only away may have it for all that anybody knows, and is waited for: until it comes, is revoked, or
//! somebody who runs the volume accepts the loss ([`Replica::accept_loss`]). If the bytes turn up after all, they are
//! taken: nothing is declared that cannot be taken back.

use crate::api::Output;
use crate::children::Children;
use crate::contents::Contents;
use crate::contents::answers::{Found, Offer};
use crate::contents::duty::{Duty, Keeper};
use crate::contents::losses::{LossNews, Lost, Vanished};
use crate::contents::missing::{HOLDERS_MAX, Missing};
use crate::contents::owed::size_of;
use crate::contents::replaced::Previous;
use crate::contents::seeking::{Look, Sought};
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::{GrantError, StepError};
use crate::report::LostContent;
use crate::state::tables::table::{AWAITED, LOST, VANISHED};
use crate::state::tables::{
    KeyKind, kind_range, pack, parse_image_key, parse_record_key, record_key, root_key, table, unpack, unpack_view,
};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use wayfs_types::{
    Admitted, Conflict, Content, FileId, Image, Key, MetaStore, Op, OriginId, RecordId, StorageError, Time, Top,
    WallTime,
};
use wayfs_wire::{Down, HeldVersion};

/// So long everybody who is there has time to say that it has contents after all.
pub(crate) const SEEK_WAIT: Duration = Duration::from_secs(20);
/// Most versions that are sought at a time; the others wait for their turn.
const SEEKING_MAX: usize = 16_384;
/// Most versions in one message.
const SEEK_PER_MESSAGE: usize = 1024;
/// Most declarations that can be taken back; the oldest go first.
const LOST_MAX: usize = 65_536;

/// What was given up by somebody's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenUp {
    /// The version.
    pub version: RecordId,
    /// Its file.
    pub file: FileId,
    /// The path of that file at present, if it has one.
    pub path: Option<String>,
    /// What it holds.
    pub content: Content,
    /// Machines that may have it, as far as is known: its writer, and who has it on record.
    pub waits_for: Vec<OriginId>,
    /// Whether an older content of the file takes its place, as far as is known.
    pub has_older: bool,
    /// That older content, if the home keeps it itself and nobody has read it since: it is to be looked for before the version is
    /// given up, and [`crate::Input::Sought`] says if it is nowhere.
    pub instead: Option<Content>,
}

impl<S: MetaStore> Replica<S> {
    /// Nobody who is there has contents on record: all are asked, and it is declared lost when nobody is left who may come.
    /// Answers whether that is yet to be decided.
    pub(crate) fn seek(&mut self, version: RecordId, missing: &Missing) -> Result<bool, StorageError> {
        let Some(keeper) = self.contents.keeper_mut() else { return Ok(false) };
        let by_version = &mut keeper.seeking.by_version;
        if !by_version.contains_key(&version) && by_version.len() >= SEEKING_MAX {
            return Ok(true);
        }
        let now = self.core.now;
        let mut there: Vec<OriginId> = self.children.greeted_stations().collect();
        there.extend(Contents::writers_below(&mut self.core, &self.children, version.origin())?);
        let sought = by_version.entry(version);
        let sought = sought.or_insert_with(|| Sought { since: now, asked: BTreeSet::new(), look: Look::Ahead });
        let (since, look) = (sought.since, sought.look);
        let asked: Vec<OriginId> = there.into_iter().filter(|origin| sought.asked.insert(*origin)).collect();
        for child in asked {
            let held = HeldVersion { version, file: missing.file, content: missing.content.clone() };
            self.children.tell(child, Down::Seek { versions: vec![held] });
        }
        if !Contents::nobody_may_come(&mut self.core, &self.children, version, missing)?
            || keeper.has_namesake(&mut self.core, &self.children, version, &missing.content)?
        {
            return Ok(false);
        }
        if now < since + SEEK_WAIT {
            return Ok(true);
        }
        if look == Look::InVain {
            self.declare_lost(version)?;
            return Ok(false);
        }
        if look == Look::Ahead
            && let Some(sought) = keeper.seeking.by_version.get_mut(&version)
        {
            sought.look = Look::UnderWay;
            let (file, content) = (missing.file, missing.content.clone());
            self.core.state.stage_output(Output::Seek { file, version, content });
        }
        Ok(true)
    }

    /// The home's driver looked for contents, and asked everybody: those of a version that is sought, or what would be shown instead.
    pub(crate) fn end_look(&mut self, version: RecordId, content: &Content, found: Found) -> Result<(), StepError> {
        if let Some(top) = content.top().filter(|_| found == Found::Here) {
            self.handle_contents_here(&[top])?;
        }
        let to_read = Contents::previous_to_read(&mut self.core, version, content, found)?;
        let Some(keeper) = self.contents.keeper_mut() else { return Ok(()) };
        let Some(sought) = keeper.seeking.by_version.get_mut(&version) else { return Ok(()) };
        if let Some(Previous { file, content, .. }) = to_read {
            self.core.state.stage_output(Output::Seek { file, version, content });
        } else {
            sought.look = Look::InVain;
            keeper.replacing.begin(self.core.now);
        }
        Ok(())
    }

    /// Says that nobody has the bytes of a version, and puts what is left in their place.
    fn declare_lost(&mut self, version: RecordId) -> Result<(), StorageError> {
        let Some(missing) = Contents::missing(&mut self.core, version)? else { return Ok(()) };
        let (previous, older) =
            (Contents::previous(&mut self.core, version)?, Contents::newest_older(&mut self.core, version)?);
        self.contents.settle_missing(&mut self.core, &mut self.children, version, &missing);
        for child in Contents::all_who_wait(&self.children, version, &missing) {
            self.children.tell_stable(child, version);
        }
        if Contents::lost(&mut self.core, version)?.is_some() {
            // It had been declared, and whoever offered it since is gone again.
            Contents::keep_root(&mut self.core, version, &missing.content);
            return Ok(());
        }
        let Some(inode) = wayfs_tree::inode(&self.core.state.tx(), missing.file)? else { return Ok(()) };
        if inode.version != missing.version || inode.is_removed() {
            return Ok(());
        }
        let is_replaced = previous.is_some() || older.is_some();
        let (instead, mtime) = match (&older, previous) {
            (Some((older, missing)), _) => (Some(missing.content.clone()), older.mtime),
            (None, Some(Previous { content, mtime, .. })) => (Some(content), mtime),
            (None, None) => (None, inode.mtime),
        };
        tracing::error!(%version, file = %missing.file, is_replaced, "nobody has the bytes of this version: declared lost");
        let op = Op::Lost { file: missing.file, version: missing.version, instead, mtime };
        if self.write_op(op, inode.uid, None)? == 0 {
            return Ok(());
        }
        let Ok(report) = RecordId::new(self.core.config.origin, self.core.state.sequence()) else { return Ok(()) };
        if !is_replaced {
            self.contents.put_vanished(&mut self.core, report, missing.file, missing.content.clone())?;
        }
        self.contents.let_go_between(&mut self.core, version, older.as_ref().map(|(older, _)| older.record))?;
        if let Some((older, instead)) = older {
            // The file shows it under the report's version, and whoever has it has it under its own.
            let instead = Missing { version: report, ..instead };
            self.core.state.put_row(record_key(table::MISSING, older.record), pack(&instead));
            if let Some(keeper) = self.contents.keeper_mut() {
                keeper.note_shown_instead(report);
            }
        }
        Contents::keep_root(&mut self.core, version, &missing.content);
        let lost = Lost { file: missing.file, content: missing.content, report, is_replaced, mtime: inode.mtime };
        self.core.state.put_row(record_key(LOST, version), pack(&lost));
        Contents::limit_lost(&mut self.core)
    }

    /// The home declared versions lost: nobody below us is waited for any more, and who comes with them is heard.
    pub(crate) fn settle_lost(&mut self) -> Result<(), StorageError> {
        for news in std::mem::take(&mut self.contents.lost_news) {
            let version = news.version;
            match self.contents.duty {
                // It declared them itself.
                Duty::Keeps(_) => {}
                Duty::Answers(_) => {
                    self.contents.take_vanished(&mut self.core, version)?;
                    if self.histories.is_our_own(&self.core, version) {
                        Contents::put_declared(&mut self.core, news, None)?;
                    }
                }
                Duty::Carries(_) => {
                    if Contents::owed(&mut self.core, version)?.is_some() {
                        self.contents.have(version);
                    }
                    let missing = Contents::missing(&mut self.core, version)?;
                    if let Some(missing) = &missing {
                        self.contents.settle_missing(&mut self.core, &mut self.children, version, missing);
                    }
                    Contents::put_declared(&mut self.core, news, missing.map(|missing| missing.content))?;
                }
            }
        }
        Ok(())
    }

    /// Bytes that were declared lost are here: the file shows them again, or they come beside what stands there now.
    pub(crate) fn take_back(&mut self, version: RecordId) -> Result<(), StorageError> {
        let Some(lost) = Contents::lost(&mut self.core, version)? else { return Ok(()) };
        tracing::warn!(%version, file = %lost.file, "bytes that were declared lost turned up");
        Contents::forget_lost(&mut self.core, version, &lost);
        self.core.state.delete_row(record_key(VANISHED, lost.report));
        // Whatever the file shows by now, this is not lost any more.
        Contents::take_back_report(&mut self.core, lost.report)?;
        let Some(inode) = wayfs_tree::inode(&self.core.state.tx(), lost.file)?.filter(|inode| !inode.is_removed())
        else {
            return Ok(());
        };
        let is_shown = inode.version == lost.report;
        if is_shown && !lost.is_replaced {
            return Ok(());
        }
        let base = if is_shown { lost.report } else { version };
        let op = Op::Store { file: lost.file, base, content: lost.content, mtime: lost.mtime };
        self.write_op(op, inode.uid, None)?;
        Ok(())
    }

    /// Somebody who runs the volume gives up what waits for machines that are away. `versions`: only these, for which
    /// everybody who is there was asked in vain, and for what would be shown instead ([`GivenUp::instead`]). Answers what is declared lost by it, at most 65,536 versions.
    ///
    /// # Errors
    /// [`GrantError::NotHome`], or the store failed.
    pub fn accept_loss(
        &mut self,
        now: Time,
        wall: WallTime,
        versions: &BTreeSet<RecordId>,
    ) -> Result<Vec<GivenUp>, GrantError> {
        if !self.core.orders() {
            return Err(GrantError::NotHome);
        }
        self.core.now = self.core.now.max(now);
        self.core.wall = wall;
        let mut given_up = Contents::contents_away(&self.core, &self.children, LOST_MAX)?;
        given_up.retain(|away| versions.contains(&away.version));
        for away in &given_up {
            if let Err(error) = self.declare_lost(away.version) {
                self.abandon();
                return Err(error.into());
            }
        }
        self.finish_admission()?;
        Ok(given_up)
    }
}

impl Contents {
    /// What is lost of the file that shows this version, if anything is, as far as this replica was told.
    pub(crate) fn lost_of<S: MetaStore>(
        core: &Core<S>,
        file: FileId,
        version: RecordId,
    ) -> Result<Option<LostContent>, StorageError> {
        let key = Key::Conflict(version);
        if let Some(Image::Conflict(report)) = core.state.image(&key)?
            && report.is_loss()
        {
            let path = core.state.path_of(file)?;
            let shows_older = !report.is_bare_loss();
            let (lost, since) = (report.record, report.time);
            return Ok(Some(LostContent { version: lost, file, path, report: Some(version), since, shows_older }));
        }
        if !core.writes() {
            return Ok(None);
        }
        let Some(bytes) = core.state.store().get(&record_key(VANISHED, version))? else { return Ok(None) };
        let path = core.state.path_of(file)?;
        let since = unpack::<Vanished>(&bytes)?.at;
        Ok(Some(LostContent { version, file, path, report: None, since, shows_older: false }))
    }

    /// Versions whose bytes nobody has, at most so many of each sort: those that the home has not decided upon first.
    pub(crate) fn lost_contents<S: MetaStore>(core: &Core<S>, limit: usize) -> Result<Vec<LostContent>, StorageError> {
        let mut lost = Vec::new();
        if core.writes() {
            for (key, value) in core.state.store().scan(&[VANISHED], &[VANISHED + 1], limit)? {
                let (version, Vanished { file, at, .. }) = (parse_record_key(&key)?, unpack(&value)?);
                let path = core.state.path_of(file)?;
                lost.push(LostContent { version, file, path, report: None, since: at, shows_older: false });
            }
        }
        let (from, until) = kind_range(table::VIEW, KeyKind::Conflict);
        core.state.each(&from, &until, |key, value| {
            if let (Key::Conflict(id), Image::Conflict(report)) = (parse_image_key(key)?, unpack_view(value)?.image)
                && report.is_loss()
                && lost.len() < limit
            {
                lost.push(LostContent {
                    version: report.record,
                    file: report.file,
                    path: core.state.path_of(report.file)?,
                    report: Some(id),
                    since: report.time,
                    shows_older: !report.is_bare_loss(),
                });
            }
            Ok(())
        })?;
        Ok(lost)
    }

    /// Contents that nobody who is there has, and machines that may have them: what waits until they come.
    pub(crate) fn contents_away<S: MetaStore>(
        core: &Core<S>,
        children: &Children,
        limit: usize,
    ) -> Result<Vec<GivenUp>, StorageError> {
        let mut away = Vec::new();
        core.state.each(&[table::MISSING], &[table::MISSING + 1], |key, value| {
            let (version, missing): (_, Missing) = (parse_record_key(key)?, unpack(value)?);
            let mut all: Vec<OriginId> = missing.everybody().chain([version.origin()]).collect();
            all.sort_unstable();
            all.dedup();
            if away.len() < limit && all.iter().all(|origin| children.peer_of(*origin).is_none()) {
                let (has_older, instead) = Self::shown_instead(core, version)?;
                away.push(GivenUp {
                    version,
                    file: missing.file,
                    path: core.state.path_of(missing.file)?,
                    content: missing.content,
                    waits_for: all,
                    has_older,
                    instead,
                });
            }
            Ok(())
        })?;
        Ok(away)
    }

    /// Whether all who may have contents said no, or are turned away for good.
    fn nobody_may_come<S: MetaStore>(
        core: &mut Core<S>,
        children: &Children,
        version: RecordId,
        missing: &Missing,
    ) -> Result<bool, StorageError> {
        for origin in missing.everybody().chain(missing.claimed).collect::<Vec<_>>() {
            if !Self::is_turned_away(core, origin)? && !Self::is_former_station(core, children, origin)? {
                return Ok(false);
            }
        }
        Ok(Self::is_vanished(core, version)? || Self::is_turned_away(core, version.origin())?)
    }

    /// Whether a number is one that a station had before it was put back. It is there under another one, by which it says what it has.
    fn is_former_station<S: MetaStore>(
        core: &mut Core<S>,
        children: &Children,
        former: OriginId,
    ) -> Result<bool, StorageError> {
        let Some(image) = Children::origin_image(core, former)?.filter(|image| image.admitted == Admitted::Station)
        else {
            return Ok(false);
        };
        let others: Vec<OriginId> = children.greeted_stations().filter(|origin| *origin != former).collect();
        for other in others {
            if Children::origin_image(core, other)?.is_some_and(|other| other.node == image.node) {
                return Ok(children.peer_of(former).is_none());
            }
        }
        Ok(false)
    }

    fn two_that_may_come<S: MetaStore>(
        core: &mut Core<S>,
        children: &Children,
        top: Top,
    ) -> Result<Vec<RecordId>, StorageError> {
        let mut two = Vec::new();
        for version in Self::records_with(core, top)? {
            if let Some(missing) = Self::missing(core, version)?
                && !Self::nobody_may_come(core, children, version, &missing)?
            {
                two.push(version);
            }
            if two.len() == 2 {
                break;
            }
        }
        Ok(two)
    }

    /// Everybody who may wait to hear of a version that nobody has on record: who said that it is gone is on none.
    pub(crate) fn all_who_wait(children: &Children, version: RecordId, missing: &Missing) -> BTreeSet<OriginId> {
        let stations = children.all().filter(|child| children.is_station(*child));
        stations.chain(missing.everybody()).chain([version.origin()]).collect()
    }

    /// A writer says hello: before it hears how far its records have come it is asked for what was declared lost of them,
    /// since it would let that go. A station asks it for what the home looks for, too: it may not have been here when the
    /// home asked.
    pub(crate) fn ask_for_lost_of<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
    ) -> Result<(), StorageError> {
        let mut all: Vec<HeldVersion> = Vec::new();
        if self.carrier().is_some() {
            all.extend(self.sought.values().cloned());
        }
        core.state.each(&[LOST], &[LOST + 1], |key, value| {
            let (version, lost): (_, Lost) = (parse_record_key(key)?, unpack(value)?);
            all.push(HeldVersion { version, file: lost.file, content: lost.content });
            Ok(())
        })?;
        let Some(node) = Children::origin_image(core, child)?.map(|image| image.node) else { return Ok(()) };
        let mut own: BTreeMap<OriginId, bool> = BTreeMap::new();
        let mut versions = Vec::new();
        for held in all {
            let origin = held.version.origin();
            let is_own = match own.get(&origin) {
                Some(is_own) => *is_own,
                None => Children::origin_image(core, origin)?.is_some_and(|image| image.node == node),
            };
            own.insert(origin, is_own);
            if is_own {
                versions.push(held);
            }
        }
        for part in versions.chunks(SEEK_PER_MESSAGE) {
            children.tell(child, Down::Seek { versions: part.to_vec() });
        }
        Ok(())
    }

    /// A child has contents that were declared lost: they are wanted. Answers whether that is so.
    pub(crate) fn is_revived<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        version: RecordId,
        child: OriginId,
        offer: Offer,
    ) -> Result<bool, StorageError> {
        if self.keeper().is_none() {
            return Ok(false);
        }
        let Some(lost) = Self::lost(core, version)? else { return Ok(false) };
        let mut missing =
            Self::missing(core, version)?.unwrap_or_else(|| Missing::of(lost.file, version, lost.content.clone()));
        if Self::missing(core, version)?.is_none() {
            core.state.stage_totals().missing += 1;
            core.state.stage_totals().missing_bytes += size_of(&lost.content);
            Self::keep_root(core, version, &lost.content);
            self.note_row(table::MISSING, version);
        }
        let is_client = children.is_client(child);
        if offer == Offer::Holds && is_client {
            core.state.put_row(record_key(AWAITED, version), Vec::new());
            self.note_awaited(version);
            core.state.stage_marks(version.origin());
        }
        let row = match offer {
            Offer::Holds => &mut missing.holders,
            Offer::CouldGive => &mut missing.spares,
        };
        if !row.contains(&child) && row.len() < HOLDERS_MAX {
            row.push(child);
        }
        core.state.put_row(record_key(table::MISSING, version), pack(&missing));
        children.tell(child, Down::Want { versions: vec![version] });
        Ok(true)
    }

    /// There is a report of a loss.
    pub(crate) fn announce_loss<S: MetaStore>(&mut self, core: &mut Core<S>, id: RecordId, report: &Conflict) {
        let (file, version) = (report.file, report.record);
        core.state.note_loss();
        self.lost_news.push(LossNews::of(id, report));
        core.outputs.push_back(Output::Lost { version, file, shows_older: !report.is_bare_loss() });
    }

    fn is_turned_away<S: MetaStore>(core: &mut Core<S>, origin: OriginId) -> Result<bool, StorageError> {
        if origin == core.config.origin {
            return Ok(true);
        }
        Ok(Children::origin_image(core, origin)?.is_none_or(|image| image.admitted == Admitted::Revoked))
    }

    /// Whether the home declared a version lost, and it did not turn up as far as is known here.
    pub(crate) fn is_declared<S: MetaStore>(core: &mut Core<S>, version: RecordId) -> Result<bool, StorageError> {
        Ok(core.state.tx().get_raw(&record_key(LOST, version))?.is_some())
    }

    pub(super) fn keep_root<S: MetaStore>(core: &mut Core<S>, version: RecordId, content: &Content) {
        if let Some(root) = content.root() {
            core.state.put_row(root_key(&root, version), Vec::new());
        }
    }

    pub(crate) fn lost<S: MetaStore>(core: &mut Core<S>, version: RecordId) -> Result<Option<Lost>, StorageError> {
        core.state.tx().get_raw(&record_key(LOST, version))?.map(|bytes| unpack(&bytes)).transpose()
    }

    pub(crate) fn limit_lost<S: MetaStore>(core: &mut Core<S>) -> Result<(), StorageError> {
        let rows = core.state.tx().scan_raw(&[LOST], &[LOST + 1], LOST_MAX + 1)?;
        if rows.len() > LOST_MAX
            && let Some((key, value)) = rows.into_iter().next()
        {
            let (version, lost): (_, Lost) = (parse_record_key(&key)?, unpack(&value)?);
            Self::forget_lost(core, version, &lost);
        }
        Ok(())
    }

    fn forget_lost<S: MetaStore>(core: &mut Core<S>, version: RecordId, lost: &Lost) {
        core.state.delete_row(record_key(LOST, version));
        if let Some(root) = lost.content.root() {
            core.state.delete_row(root_key(&root, version));
        }
    }

    fn take_back_report<S: MetaStore>(core: &mut Core<S>, report: RecordId) -> Result<(), StorageError> {
        let key = Key::Conflict(report);
        let known = wayfs_tree::View::image(&core.state.tx(), &key)?;
        if matches!(known, Some(Image::Conflict(report)) if report.is_loss()) {
            core.state.put_image(key, None)?;
        }
        Ok(())
    }
}

/// Who may still come with what is sought.
impl Keeper {
    /// While a session of a machine is open, what it says under another of its numbers of contents that it wrote under this one is not its
    /// writer's word (`note_gone`): two copies may run. When the session has ended the other is asked again.
    pub(super) fn ask_under_other_numbers<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &Children,
    ) -> Result<(), StorageError> {
        for went in std::mem::take(&mut self.seeking.went) {
            let there: Vec<OriginId> = children.all().filter(|other| *other != went).collect();
            for other in there {
                if children.peer_of(other).is_some() && Contents::speaks_for(core, other, went)? {
                    self.seeking.ask_again(other);
                }
            }
        }
        Ok(())
    }

    /// Whether a machine that may still come has the same contents on record under another name.
    fn has_namesake<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &Children,
        version: RecordId,
        content: &Content,
    ) -> Result<bool, StorageError> {
        let Some(top) = content.top() else { return Ok(false) };
        let two = match self.seeking.may_come.entry(top) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Contents::two_that_may_come(core, children, top)?),
        };
        Ok(two.iter().any(|other| *other != version))
    }
}

/// Whether contents wait for one of these; `None`: for anybody.
pub fn is_waiting_for(away: &GivenUp, of: Option<&[OriginId]>) -> bool {
    of.is_none_or(|of| away.waits_for.iter().any(|origin| of.contains(origin)))
}
