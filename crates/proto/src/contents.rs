//! Who has the contents of which version.
//!
//! A version's contents are **missing** while a child has them and we do not;
//! **owed** while we have them and our parent does not; **lent** at their writer
//! while a server has them and the home does not. Every server on the way keeps its
//! copy until the next one said that it has its own, and the writer keeps its until
//! they are at the home: so a version is never without a holder on record, and from
//! *safe* on the loss of one disk loses none.
//!
//! ```text
//!   client        station                     home
//!   owed ───────▶ missing, awaited            missing: holder station
//!        push     │ ContentsHere              │
//!   lent  ◀─safe──┘ owed ──Have─────────────▶ │
//!     │                  push, when a policy, │
//!     │                  a reader, or a full  │
//!     │                  cache wants it       │
//!     │                                       │ ContentsHere, superseded
//!     ▼           (released) ◀────── Stable ──┘
//!   (released) ◀──Stable──┘
//! ```
//!
//! A station that is gone: `contents/lent.rs`. A client that moves before its contents are safe: `contents/held.rs`.
//!
//! Inline contents travel in their records and are everywhere.

pub(crate) mod access;
pub(crate) mod announced;
pub(crate) mod answers;
mod coming;
pub(crate) mod declared;
pub(crate) mod denied;
mod duty;
pub(crate) mod first_rows;
pub(crate) mod floors;
pub(crate) mod forgotten;
pub(crate) mod former;
pub(crate) mod haves;
pub(crate) mod held;
pub(crate) mod holders;
pub(crate) mod ledger;
pub(crate) mod lent;
pub(crate) mod losses;
pub(crate) mod lost;
pub(crate) mod missing;
pub(crate) mod named;
mod named_looks;
pub(crate) mod owed;
mod own_looks;
pub(crate) mod own_rows;
pub(crate) mod previous;
pub(crate) mod propagation;
pub(crate) mod pushing;
pub(crate) mod recount;
pub(crate) mod replaced;
pub(crate) mod replacing;
mod rest;
pub(crate) mod seeking;
pub(crate) mod superseded;
pub(crate) mod tally;
pub(crate) mod vanished;
pub(crate) mod weight;

use crate::api::Output;
use crate::children::Children;
use crate::contents::announced::Announced;
use crate::contents::duty::{Author, Carrier, Duty, Keeper, Said};
use crate::contents::floors::Floors;
use crate::contents::missing::{HOLDERS_MAX, Missing};
use crate::contents::owed::{Owed, size_of};
use crate::contents::replaced::Superseded;
use crate::replica::composition::Position;
use crate::replica::core::Core;
use crate::state::of_record::content_of;
use crate::state::tables::table::{AWAITED, PREVIOUS, VANISHED};
use crate::state::tables::{after_prefix, pack, parse_root_key, record_key, root_key, root_prefix, table, unpack};
use crate::upstream::Uplink;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wayfs_tree::Effect;
use wayfs_types::{Content, FileId, MetaStore, Op, OriginId, Record, RecordId, StorageError, Time, Top, WallTime};
use wayfs_wire::HeldVersion;

/// Most versions remembered as stable one by one.
const STABLE_MAX: usize = 65_536;

/// Whose record names a content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Our own user's: the contents are here.
    Own,
    /// A child's.
    Child {
        origin: OriginId,
        is_station: bool,
        /// It, or someone below it, has the contents.
        held: bool,
    },
}

/// What is not in the store about contents. No other part sees into it.
#[derive(Debug)]
pub(crate) struct Contents {
    /// What we do for them where we stand.
    duty: Duty,
    announced: Announced,
    /// Versions that somebody wants at our parent.
    wanted: BTreeSet<RecordId>,
    wanted_through: BTreeMap<OriginId, u64>,
    /// Server: of which origins all is wanted, and was not looked at yet: from which number, and up to which.
    wants: BTreeMap<OriginId, (u64, u64)>,
    /// Pushes under way in the present session.
    pushing: BTreeSet<RecordId>,
    /// Pushes confirmed in the present session.
    pushed: BTreeSet<RecordId>,
    /// Stable although something before is not; for display.
    stable: BTreeMap<RecordId, WallTime>,
    /// Child stations with a copy of a file, by file; and the order of coming in.
    copies: BTreeMap<FileId, BTreeSet<OriginId>>,
    copies_order: VecDeque<FileId>,
    /// Versions of which the parent is to be told that nobody here has them, and whether their writer says so.
    gone: BTreeMap<RecordId, bool>,
    /// A carrier: versions that the home looks for, and that our clients are asked about. An author: versions of ours that were
    /// declared lost and that we have: what the parent says of what came later does not hold for them.
    sought: BTreeMap<RecordId, HeldVersion>,
    /// Versions that the home declared lost: whoever waits for them waits no longer.
    lost_news: Vec<crate::contents::losses::LossNews>,
    floors: Floors,
}

impl Contents {
    /// Those of who stands there.
    pub(crate) fn at(position: Position) -> Self {
        Self {
            duty: Duty::at(position),
            announced: Announced::default(),
            wanted: BTreeSet::new(),
            wanted_through: BTreeMap::new(),
            wants: BTreeMap::new(),
            pushing: BTreeSet::new(),
            pushed: BTreeSet::new(),
            stable: BTreeMap::new(),
            copies: BTreeMap::new(),
            copies_order: VecDeque::new(),
            gone: BTreeMap::new(),
            sought: BTreeMap::new(),
            lost_news: Vec::new(),
            floors: Floors::default(),
        }
    }

    /// The sequence below which a table has no row of an origin.
    pub(crate) fn floor_of(&self, table: u8, origin: OriginId) -> u64 {
        self.floors.of(table, origin)
    }

    /// A scan saw that a table has no row of an origin below.
    pub(crate) fn raise_floor(&mut self, table: u8, origin: OriginId, floor: u64) {
        self.floors.raise(table, origin, floor);
    }

    /// A row is put.
    pub(crate) fn note_row(&mut self, table: u8, record: RecordId) {
        self.floors.note_row(table, record);
    }

    /// Versions left the view: if no parent shows another, nothing of the future can show them.
    pub(crate) fn supersede(&mut self, versions: impl IntoIterator<Item = Superseded>) {
        if let Some(keeper) = self.keeper_mut() {
            keeper.superseded.extend(versions);
        }
    }

    /// What an input did is in the store.
    pub(crate) fn committed(&mut self) {
        match &mut self.duty {
            Duty::Keeps(_) => {}
            Duty::Carries(carrier) => carrier.named.committed(),
            Duty::Answers(author) => author.own_looks.committed(),
        }
    }

    /// Rows that were seen removed are back: what an input did was dropped.
    pub(crate) fn abandon(&mut self, now: Time) {
        self.floors = Floors::default();
        match &mut self.duty {
            Duty::Keeps(_) => {}
            Duty::Carries(carrier) => carrier.named.abandon(now),
            Duty::Answers(author) => author.own_looks.abandon(now),
        }
    }

    /// A version is missing, and a client of ours is to push it.
    pub(crate) fn note_awaited(&mut self, version: RecordId) {
        self.floors.note_row(table::MISSING, version);
        self.floors.note_row(AWAITED, version);
    }

    /// A version was sent as cancelled.
    pub(crate) fn cancel(&mut self, version: RecordId) {
        self.wanted.remove(&version);
        if let Some(carrier) = self.carrier_mut() {
            carrier.cancelled.insert(version);
        }
    }

    /// Takes out what was cancelled of an origin up to a sequence.
    pub(crate) fn cancelled_through(&mut self, origin: OriginId, through: u64) -> Vec<RecordId> {
        let passed = |version: &RecordId| version.origin() == origin && version.sequence() <= through;
        self.carrier_mut().map_or_else(Vec::new, |carrier| carrier.cancelled.extract_if(.., passed).collect())
    }

    /// Client: a version is here after all. What was told of it by itself was told before.
    pub(crate) fn forget_stable_alone(&mut self, version: &RecordId) {
        self.stable.remove(version);
    }

    /// Client: whether somebody looks for a version of ours that we have.
    pub(crate) fn is_sought(&self, version: &RecordId) -> bool {
        self.sought.contains_key(version)
    }

    /// The same of one of which nobody said in this session that it is durable at the parent.
    pub(crate) fn is_sought_and_not_there(&self, version: &RecordId) -> bool {
        self.is_sought(version) && !self.pushed.contains(version)
    }

    /// The parent is to be told that we have a version.
    pub(crate) fn have(&mut self, version: RecordId) {
        if let Some(carrier) = self.carrier_mut() {
            carrier.haves.insert(version);
        }
    }

    /// A session with a parent begins, which knows which contents of our own records up to here we still hold.
    pub(crate) fn begin_session(&mut self, accounted: u64) {
        self.forget_pushes();
        if let Some(author) = self.author_mut() {
            author.said = Some(Said { accounted, ..Said::default() });
        }
    }

    /// It is over.
    pub(crate) fn end_session(&mut self) {
        self.forget_pushes();
        if let Some(author) = self.author_mut() {
            author.said = None;
        }
    }

    fn forget_pushes(&mut self) {
        self.pushing.clear();
        self.pushed.clear();
        match &mut self.duty {
            Duty::Keeps(_) => {}
            Duty::Carries(carrier) => {
                // What came to nothing meanwhile is noticed.
                self.wanted.append(&mut carrier.wanted_below);
                carrier.cancelled.clear();
            }
            Duty::Answers(author) => (author.push_cursor, author.former_pushed) = (0, false),
        }
    }

    /// Notes who has the contents that a record names. Answers the content if it must come from a child.
    pub(crate) fn note_content<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        record: &Record,
        effect: &Effect,
        source: Source,
    ) -> Result<Option<Content>, StorageError> {
        let (others, spares) = self.keeper_mut().map_or_else(Default::default, |keeper| keeper.take_early(record.id));
        let tree = content_of(record).and_then(|(file, content)| Some((file, content, content.top()?)));
        let Some((file, content, top)) = tree else {
            // They had contents of a record that was cancelled on its way: nobody needs them.
            others.into_iter().chain(spares).for_each(|child| Self::tell_stable(children, child, record.id));
            return Ok(None);
        };
        let is_end = self.keeper().is_some();
        Self::note_overwritten(core, record)?;
        let is_needed = effect.stored.is_some() || is_end && Self::is_last_whole(core, record, effect)?;
        match source {
            Source::Own => {
                if !is_end {
                    self.owe(core, record.id, file, content.clone())?;
                }
                Ok(None)
            }
            Source::Child { origin, .. } if is_end && !is_needed => {
                Self::tell_all_stable(children, &others | &spares, origin, record.id);
                Ok(None)
            }
            Source::Child { origin, .. } if self.announced.take(content) => {
                if is_end {
                    Self::tell_all_stable(children, &others | &spares, origin, record.id);
                } else {
                    self.owe(core, record.id, file, content.clone())?;
                }
                Ok(None)
            }
            Source::Child { origin, is_station, held } => {
                let stored = effect.stored.map_or((file, record.id), |stored| (stored.file, stored.version));
                let is_server = |other: &OriginId| children.is_station(*other);
                let safe = others.iter().any(is_server).then_some(core.wall);
                // It may have said so before, in its own name, and hold nothing in that of the writer.
                let is_holder = held || others.contains(&origin);
                let others = others.into_iter().filter(|other| *other != origin).take(HOLDERS_MAX - 1);
                let missing = Missing {
                    file: stored.0,
                    version: stored.1,
                    content: content.clone(),
                    safe,
                    holders: others.chain(is_holder.then_some(origin)).collect(),
                    spares: spares.into_iter().take(HOLDERS_MAX).collect(),
                    claimed: None,
                };
                if let Some(keeper) = self.keeper_mut() {
                    if missing.holders.is_empty() {
                        keeper.replacing.begin(core.now);
                    }
                    if is_holder {
                        keeper.replacing.note_told(record.id, origin);
                    }
                    core.state.stage_noted(stored.0, stored.1, top);
                }
                core.state.put_row(record_key(table::MISSING, record.id), pack(&missing));
                core.state.put_row(root_key(&top.root, record.id), Vec::new());
                self.floors.note_row(table::MISSING, record.id);
                self.floors.note_row(AWAITED, record.id);
                core.state.stage_totals().missing += 1;
                core.state.stage_totals().missing_bytes += size_of(content);
                if held && !is_station {
                    core.state.put_row(record_key(AWAITED, record.id), Vec::new());
                }
                Ok(Some(content.clone()))
            }
        }
    }

    /// The contents of a version came, or nobody needs them from below.
    pub(crate) fn settle_missing<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        record: RecordId,
        missing: &Missing,
    ) {
        core.state.delete_row(record_key(table::MISSING, record));
        core.state.delete_row(record_key(AWAITED, record));
        if self.author().is_none() {
            core.state.delete_row(record_key(VANISHED, record));
            core.state.delete_row(record_key(PREVIOUS, record));
        }
        if let Some(keeper) = self.keeper_mut() {
            keeper.seeking.end(record);
            keeper.replacing.end(record);
            for station in keeper.said_gone.remove(&record).unwrap_or_default() {
                children.tell_stable(station, record);
            }
            for child in keeper.shown_instead.remove(&missing.version).unwrap_or_default() {
                children.tell_stable(child, missing.version);
            }
        }
        self.gone.remove(&record);
        if let Some(root) = missing.content.root() {
            core.state.delete_row(root_key(&root, record));
        }
        core.state.stage_totals().missing -= 1;
        core.state.stage_totals().missing_bytes -= size_of(&missing.content);
        core.state.stage_marks(record.origin());
    }

    fn tell_all_stable(children: &mut Children, others: BTreeSet<OriginId>, origin: OriginId, record: RecordId) {
        for child in others.into_iter().filter(|other| *other != origin).chain([origin]) {
            Self::tell_stable(children, child, record);
        }
    }

    /// Tells that contents need no keeping. Whoever brought the record of what nobody has, or said that it is gone, is not on record
    /// and waits too.
    pub(crate) fn tell_who_waits(children: &mut Children, record: RecordId, missing: &Missing) {
        let on_record: BTreeSet<OriginId> = missing.everybody().collect();
        let told = if on_record.is_empty() { Self::all_who_wait(children, record, missing) } else { on_record };
        for child in told {
            Self::tell_stable(children, child, record);
        }
    }

    pub(crate) fn tell_stable(children: &mut Children, child: OriginId, record: RecordId) {
        children.tell_stable(child, record);
    }

    /// The parent says that contents need not be kept for it any more.
    pub(crate) fn handle_stable<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        versions: &[RecordId],
    ) -> Result<(), StorageError> {
        for record in versions {
            self.release(core, *record)?;
            self.take_lent(core, *record)?;
            self.sought.remove(record);
            match self.duty {
                Duty::Keeps(_) => {}
                Duty::Carries(_) => {
                    let is_awaited = core.state.tx().get_raw(&record_key(AWAITED, *record))?.is_some();
                    if is_awaited && children.peer_of(record.origin()).is_some() {
                        // Its writer is to push it to us, or to say that it need not, before we call anything safe.
                        continue;
                    }
                    if let Some(missing) = Self::missing(core, *record)? {
                        Self::note_decided(core, *record, &missing)?;
                        self.settle_missing(core, children, *record, &missing);
                    }
                    Self::tell_stable(children, record.origin(), *record);
                }
                Duty::Answers(_) => self.settle_vanished(core, *record)?,
            }
            self.stable.insert(*record, core.wall);
            if self.stable.len() > STABLE_MAX {
                self.stable.pop_first();
            }
        }
        Ok(())
    }

    /// What the home has of an origin, its writer is told and lets go, be it that it did not come to push it here: nothing of it is
    /// waited for any more, it is safe where it is. A writer that is connected first accounts for it; one that is not may have moved
    /// for good, and what it holds that the home lost meanwhile it says when it comes.
    pub(crate) fn settle_awaited<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        origin: OriginId,
    ) -> Result<(), StorageError> {
        if children.is_station(origin) {
            return Ok(());
        }
        let told = children.accounts_for(origin);
        let through = core.state.marks(origin)?.stable.min(told);
        while let Some(first) = self.first_awaited(core, origin)?.filter(|first| *first <= through) {
            let Ok(record) = RecordId::new(origin, first) else { return Ok(()) };
            if Self::is_declared(core, record)? {
                // Its writer has it after all, and the home has not.
                return Ok(());
            }
            match Self::missing(core, record)? {
                Some(missing) => self.settle_missing(core, children, record, &missing),
                None => core.state.delete_row(record_key(AWAITED, record)),
            }
            Self::tell_stable(children, origin, record);
        }
        self.settle_unheld(core, children, origin)
    }

    /// What the home has of an origin, or let go, and its writer does not hold any more: the home may have told those who waited for
    /// it before we heard of it.
    fn settle_unheld<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        origin: OriginId,
    ) -> Result<(), StorageError> {
        let stable = core.state.marks(origin)?.stable;
        while let Some(first) = self.first_missing(core, origin)?.filter(|first| *first <= stable) {
            let Ok(record) = RecordId::new(origin, first) else { return Ok(()) };
            let is_awaited = core.state.tx().get_raw(&record_key(AWAITED, record))?.is_some();
            let Some(missing) = Self::missing(core, record)?.filter(|missing| missing.everybody().next().is_none())
            else {
                return Ok(());
            };
            if is_awaited || Self::is_declared(core, record)? || Self::is_vanished(core, record)? {
                return Ok(());
            }
            self.settle_missing(core, children, record, &missing);
        }
        Ok(())
    }

    pub(crate) fn owe<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        record: RecordId,
        file: FileId,
        content: Content,
    ) -> Result<(), StorageError> {
        let key = record_key(table::OWED, record);
        if core.state.tx().get_raw(&key)?.is_none() {
            core.state.stage_totals().owed += 1;
            core.state.stage_totals().owed_bytes += size_of(&content);
        }
        core.state.put_row(key, pack(&Owed { file, content }));
        self.floors.note_row(table::OWED, record);
        match &mut self.duty {
            Duty::Keeps(_) => {}
            Duty::Carries(carrier) => {
                core.state.stage_output(Output::Owed { file, version: record });
                carrier.haves.insert(record);
                let through = self.wanted_through.get(&record.origin()).copied().unwrap_or(0);
                if carrier.wanted_below.remove(&record) || record.sequence() <= through {
                    self.wanted.insert(record);
                }
            }
            Duty::Answers(author) => {
                if record.origin() == core.config.origin {
                    // What was looked for and found may lie below what was pushed.
                    author.push_cursor = author.push_cursor.min(record.sequence() - 1);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn release<S: MetaStore>(&mut self, core: &mut Core<S>, record: RecordId) -> Result<(), StorageError> {
        let key = record_key(table::OWED, record);
        if let Some(bytes) = core.state.tx().get_raw(&key)? {
            let owed: Owed = unpack(&bytes)?;
            core.state.delete_row(key);
            core.state.stage_totals().owed -= 1;
            core.state.stage_totals().owed_bytes -= size_of(&owed.content);
            if self.carrier().is_some() {
                core.state.stage_output(Output::Released { version: record });
            }
        }
        self.wanted.remove(&record);
        self.pushed.remove(&record);
        if let Some(carrier) = self.carrier_mut() {
            carrier.wanted_below.remove(&record);
            carrier.called.remove(&record);
            carrier.haves.remove(&record);
        }
        Ok(())
    }

    /// When one version became stable, if that was told by itself.
    pub(crate) fn stable_alone(&self, version: RecordId) -> Option<WallTime> {
        self.stable.get(&version).copied()
    }

    /// A version that is overwritten within one batch never stood in the view, so nobody would see it leave.
    fn note_overwritten<S: MetaStore>(core: &mut Core<S>, record: &Record) -> Result<(), StorageError> {
        let Op::Store { file, base, .. } = record.op else { return Ok(()) };
        if !core.orders() || wayfs_tree::inode(&core.state.tx(), file)?.is_none_or(|i| i.version != record.id) {
            return Ok(());
        }
        if let Some(missing) =
            Self::missing(core, base)?.filter(|missing| missing.version == base && missing.file == file)
        {
            core.state.stage_superseded(Superseded::new(base, &missing.content, Some(record.id)));
        }
        Ok(())
    }

    pub(crate) fn missing<S: MetaStore>(core: &mut Core<S>, record: RecordId) -> Result<Option<Missing>, StorageError> {
        core.state.tx().get_raw(&record_key(table::MISSING, record))?.map(|bytes| unpack(&bytes)).transpose()
    }

    /// Records that name contents of this top, and wait for them or were declared lost.
    pub(crate) fn records_with<S: MetaStore>(core: &mut Core<S>, top: Top) -> Result<Vec<RecordId>, StorageError> {
        let prefix = root_prefix(&top.root);
        let until = after_prefix(&prefix);
        let pairs = core.state.tx().scan_raw(&prefix, &until, usize::MAX / 2)?;
        let mut records = Vec::with_capacity(pairs.len());
        for (key, _) in pairs {
            let record = parse_root_key(&key)?;
            let missing = Self::missing(core, record)?.map(|missing| missing.content);
            let content = if missing.is_some() { missing } else { Self::lost(core, record)?.map(|lost| lost.content) };
            if content.is_none_or(|content| content.top() == Some(top)) {
                records.push(record);
            }
        }
        Ok(records)
    }

    /// What was told of single versions may not be so any more.
    pub(crate) fn forget_told(&mut self, uplink: &mut Uplink) {
        self.stable.clear();
        uplink.forget_facts();
    }
}

impl Contents {
    fn keeper(&self) -> Option<&Keeper> {
        if let Duty::Keeps(keeper) = &self.duty { Some(keeper) } else { None }
    }

    fn keeper_mut(&mut self) -> Option<&mut Keeper> {
        if let Duty::Keeps(keeper) = &mut self.duty { Some(keeper) } else { None }
    }

    fn carrier(&self) -> Option<&Carrier> {
        if let Duty::Carries(carrier) = &self.duty { Some(carrier) } else { None }
    }

    fn carrier_mut(&mut self) -> Option<&mut Carrier> {
        if let Duty::Carries(carrier) = &mut self.duty { Some(carrier) } else { None }
    }

    fn author(&self) -> Option<&Author> {
        if let Duty::Answers(author) = &self.duty { Some(author) } else { None }
    }

    fn author_mut(&mut self) -> Option<&mut Author> {
        if let Duty::Answers(author) = &mut self.duty { Some(author) } else { None }
    }

    /// What our parent was told in the present session, if we answer for anything and there is one.
    fn said(&self) -> Option<&Said> {
        self.author()?.said.as_ref()
    }

    fn said_mut(&mut self) -> Option<&mut Said> {
        self.author_mut()?.said.as_mut()
    }
}
