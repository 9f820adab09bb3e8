//! Contents on their way to the parent: which it wants, which are due, which it is told of.

use crate::api::Output;
use crate::children::Children;
use crate::contents::Contents;
use crate::contents::duty::Duty;
use crate::contents::lent::LENT_PER_MESSAGE;
use crate::contents::owed::Owed;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::tables::{origin_range, parse_record_key, record_key, table, unpack};
use std::collections::BTreeMap;
use wayfs_types::{FileId, MetaStore, OriginId, RecordId, StorageError};
use wayfs_wire::{Down, HeldVersion, LentVersion, Up};

/// Most versions in one message.
const VERSIONS_PER_MESSAGE: usize = 4096;
/// Times that more of what is wanted is looked at in one step.
const LOOKS_MAX: usize = 4;

impl<S: MetaStore> Replica<S> {
    pub(crate) fn handle_pushed(&mut self, versions: &[RecordId]) -> Result<(), StorageError> {
        for version in versions {
            if self.contents.pushing.remove(version) {
                self.contents.pushed.insert(*version);
            }
            self.lend_what_was_sought(*version)?;
        }
        let is_former = |version: &RecordId| version.origin() != self.core.config.origin;
        if versions.iter().any(is_former) {
            self.contents.ask_about_former(&mut self.core, &mut self.uplink)
        } else {
            Ok(())
        }
    }
}

impl Contents {
    /// Pushes what is to be pushed, and tells the parent what we have.
    pub(crate) fn pump_contents<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
    ) -> Result<(), StorageError> {
        // A home that was put back has forgotten records whose contents go by another name when its state was taken over.
        if !core.state.rescues() {
            self.tell_haves(core)?;
            self.tell_spares(core)?;
        }
        let due = match self.duty {
            Duty::Keeps(_) => return Ok(()),
            Duty::Carries(_) => self.due_of_wanted(core, children)?,
            Duty::Answers(_) => {
                let mut due = self.owed_due(core)?;
                due.extend(self.lent_due(core)?);
                let room = core.config.pushes_max.saturating_sub(self.pushing.len() + due.len());
                due.extend(self.former_due(core, room)?);
                due
            }
        };
        for (version, owed) in due {
            self.pushing.insert(version);
            core.outputs.push_back(Output::Push { file: owed.file, version, content: owed.content });
        }
        Ok(())
    }

    pub(crate) fn owed_due<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<Vec<(RecordId, Owed)>, StorageError> {
        let durable = core.state.own_durable();
        let room = core.config.pushes_max.saturating_sub(self.pushing.len());
        let Duty::Answers(author) = &mut self.duty else { return Ok(Vec::new()) };
        if room == 0 || author.push_cursor >= durable || core.state.totals().owed == 0 {
            return Ok(Vec::new());
        }
        let origin = core.config.origin;
        let (until, _) = origin_range(table::OWED, origin, durable + 1);
        let mut due = Vec::new();
        while due.len() < room {
            let (from, _) = origin_range(table::OWED, origin, author.push_cursor + 1);
            let rows = core.state.tx().scan_raw(&from, &until, room)?;
            let is_end = rows.len() < room;
            for (key, value) in rows {
                let version = parse_record_key(&key)?;
                if due.len() == room {
                    break;
                }
                author.push_cursor = version.sequence();
                if !self.pushing.contains(&version) && !self.pushed.contains(&version) {
                    due.push((version, unpack(&value)?));
                }
            }
            // What did not fit is looked for again from the last that did.
            if is_end && due.len() < room {
                author.push_cursor = durable;
                break;
            }
        }
        Ok(due)
    }

    /// [`crate::Input::Propagate`]: a policy, or someone who waits, wants a version at our parent.
    pub(crate) fn handle_propagate<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        version: RecordId,
    ) {
        match self.duty {
            Duty::Keeps(_) => Self::want_from_children(core, children, &[version]),
            Duty::Carries(_) | Duty::Answers(_) => {
                self.wanted.insert(version);
            }
        }
    }

    /// A child, or our own user, waits until an origin's records are stable.
    pub(crate) fn handle_want<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        origin: OriginId,
        through: u64,
    ) -> Result<(), StorageError> {
        if self.author().is_none() {
            // A client pushes all that it owes as it is.
            self.want_of(core, children, origin, through)?;
        }
        if self.keeper().is_none() {
            let known = self.wanted_through.entry(origin).or_insert(0);
            *known = (*known).max(through);
        }
        Ok(())
    }

    /// A server's half.
    fn want_of<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        origin: OriginId,
        through: u64,
    ) -> Result<(), StorageError> {
        // A home lacks nothing of whom it does not know. A station may owe what a home that was put back has forgotten.
        if self.keeper().is_some() && Children::origin_image(core, origin)?.is_none() {
            return Ok(());
        }
        let (from, known) = self.wants.entry(origin).or_default();
        (*from, *known) = (0, through.max(*known));
        self.look_at_wants(core, children).map(|_| ())
    }

    /// Looks at some of what is wanted. Answers whether there was anything to look at: an origin may have more than one step is to hold up.
    pub(crate) fn look_at_wants<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
    ) -> Result<bool, StorageError> {
        let Some((&origin, &(from, through))) = self.wants.first_key_value() else { return Ok(false) };
        let (is_end, most) = (self.keeper().is_some(), core.config.wants_max);
        let of = if is_end { table::MISSING } else { table::OWED };
        let (first, _) = origin_range(of, origin, from);
        let (until, _) = origin_range(of, origin, through.saturating_add(1).min(RecordId::SEQUENCE_MAX));
        let pairs = core.state.tx().scan_raw(&first, &until, most)?;
        let versions = pairs.iter().map(|(key, _)| parse_record_key(key)).collect::<Result<Vec<_>, _>>()?;
        match versions.last().filter(|_| versions.len() == most) {
            Some(last) => self.wants.insert(origin, (last.sequence() + 1, through)),
            None => self.wants.remove(&origin),
        };
        if is_end {
            Self::want_from_children(core, children, &versions);
        } else {
            self.wanted.extend(versions);
        }
        Ok(true)
    }

    /// In a new session the parent is told again who waits below us, be it that it heard nothing of it in the last: it is
    /// to bring the contents home, and tells only those who asked how far an origin has come. It is asked as well whether all is there
    /// that it told to be stable: it may have been put back to a copy that lacks nothing but contents.
    pub(crate) fn retell_wants<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        for (origin, through) in std::mem::take(&mut self.wanted_through) {
            if core.state.marks(origin)?.stable < through {
                self.wanted_through.insert(origin, through);
            }
        }
        let mut wants = self.wanted_through.clone();
        for origin in core.state.marked()? {
            let stable = core.state.marks(origin)?.stable;
            let through = wants.entry(origin).or_insert(0);
            *through = stable.max(*through);
        }
        for (origin, through) in wants {
            core.tell_parent(Up::Want { origin, through });
        }
        Ok(())
    }

    pub(crate) fn want_from_children<S: MetaStore>(core: &mut Core<S>, children: &mut Children, versions: &[RecordId]) {
        let mut by_child: BTreeMap<OriginId, Vec<RecordId>> = BTreeMap::new();
        for version in versions {
            if let Ok(Some(missing)) = Self::missing(core, *version) {
                for holder in missing.everybody() {
                    by_child.entry(holder).or_default().push(*version);
                }
            }
        }
        for (child, versions) in by_child {
            for part in versions.chunks(VERSIONS_PER_MESSAGE) {
                children.tell(child, Down::Want { versions: part.to_vec() });
            }
        }
    }

    /// The parent wants contents that we have.
    pub(crate) fn handle_wanted<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        versions: Vec<RecordId>,
    ) -> Result<(), StorageError> {
        if let Some(carrier) = self.carrier_mut() {
            // What is below us has to come here first.
            Self::want_from_children(core, children, &versions);
            carrier.called.extend(&versions);
        }
        for version in versions {
            let is_ours = Self::owed(core, version)?.is_some() || Self::lent(core, version)?.is_some();
            if self.author().is_some() && !is_ours {
                // We were put back to before we wrote it: somebody else is to be asked.
                let writer = Self::is_vanished(core, version)?;
                self.gone.insert(version, writer);
            } else {
                self.wanted.insert(version);
            }
        }
        Ok(())
    }

    /// Tells the parent of what we have, so much in one step.
    pub(crate) fn tell_haves<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        let Some(carrier) = self.carrier_mut().filter(|carrier| !carrier.haves.is_empty()) else { return Ok(()) };
        if core.state.ticket() > core.state.stored() {
            core.state.want_sync();
            return Ok(());
        }
        let take = |_| carrier.haves.pop_first();
        let versions: Vec<RecordId> = (0..VERSIONS_PER_MESSAGE).map_while(take).collect();
        core.more_work |= !carrier.haves.is_empty();
        Self::tell_replaced(core, &versions)?;
        core.tell_parent(Up::Have { versions });
        Ok(())
    }

    /// Says of what file and content versions are that the view shows no more: the home may have heard of their records without these
    /// (`contents/previous.rs`).
    fn tell_replaced<S: MetaStore>(core: &mut Core<S>, versions: &[RecordId]) -> Result<(), StorageError> {
        let mut replaced = Vec::new();
        for version in versions {
            let Some(Owed { file, content }) = Self::owed(core, *version)? else { continue };
            let inode = core.state.inode(file)?.filter(|inode| !inode.is_removed());
            if inode.is_some_and(|inode| inode.version != *version) {
                let held = HeldVersion { version: *version, file, content };
                replaced.push(LentVersion { held, to: None });
            }
        }
        for part in replaced.chunks(LENT_PER_MESSAGE) {
            core.tell_parent(Up::Lent { versions: part.to_vec() });
        }
        Ok(())
    }

    /// What is due of what is wanted. Where that leaves room, more is looked at.
    fn due_of_wanted<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
    ) -> Result<Vec<(RecordId, Owed)>, StorageError> {
        let mut due = self.wanted_due(core)?;
        let room = core.config.pushes_max.saturating_sub(self.pushing.len());
        for _ in 0..LOOKS_MAX {
            if due.len() >= room || !self.look_at_wants(core, children)? {
                return Ok(due);
            }
            due = self.wanted_due(core)?;
        }
        core.more_work |= due.len() < room && !self.wants.is_empty();
        Ok(due)
    }

    /// As many as there is room for. What is wanted and still below us is looked at once, or it would take the room of what is here.
    fn wanted_due<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<Vec<(RecordId, Owed)>, StorageError> {
        loop {
            let candidates = self.wanted_next(core);
            let due = self.due_among(core, &candidates)?;
            if due.len() == candidates.len() {
                return Ok(due);
            }
        }
    }

    fn wanted_next<S: MetaStore>(&self, core: &Core<S>) -> Vec<RecordId> {
        let Some(carrier) = self.carrier() else { return Vec::new() };
        let room = core.config.pushes_max.saturating_sub(self.pushing.len());
        self.wanted
            .iter()
            .filter(|version| !self.pushing.contains(version) && !self.pushed.contains(version))
            .filter(|version| !carrier.cancelled.contains(version) && Self::is_sent(core, **version))
            .take(room)
            .copied()
            .collect()
    }

    /// Contents do not overtake their record, which may yet be cancelled.
    pub(crate) fn is_sent<S: MetaStore>(core: &Core<S>, version: RecordId) -> bool {
        let sent = core.sent_position().unwrap_or_default();
        core.state.log().position_of(version).is_none_or(|position| position <= sent)
    }

    /// In a new session everything that we hold is told again: what the home has by now it answers as stable.
    pub(crate) fn retell_haves<S: MetaStore>(&mut self, core: &Core<S>) -> Result<(), StorageError> {
        let mut owed = Vec::new();
        core.state.each(&[table::OWED], &[table::OWED + 1], |key, _| {
            owed.push(parse_record_key(key)?);
            Ok(())
        })?;
        if let Some(carrier) = self.carrier_mut() {
            carrier.haves.extend(owed);
        }
        Ok(())
    }

    /// What we lent to another parent and this one wants.
    fn lent_due<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<Vec<(RecordId, Owed)>, StorageError> {
        let room = core.config.pushes_max.saturating_sub(self.pushing.len());
        let known = |version: &&RecordId| !self.pushing.contains(version) && !self.pushed.contains(version);
        let candidates: Vec<RecordId> = self.wanted.iter().filter(known).take(room).copied().collect();
        let mut due = Vec::new();
        for version in candidates {
            match Self::lent(core, version)? {
                Some(lent) => due.push((version, Owed { file: lent.file, content: lent.content })),
                // What nobody has of us is pushed without being asked for.
                None => {
                    self.wanted.remove(&version);
                }
            }
        }
        Ok(due)
    }

    /// Those that are here. The others are wanted no more, or when they come.
    fn due_among<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        candidates: &[RecordId],
    ) -> Result<Vec<(RecordId, Owed)>, StorageError> {
        let mut due = Vec::new();
        let Duty::Carries(carrier) = &mut self.duty else { return Ok(due) };
        for version in candidates.iter().copied() {
            match core.state.tx().get_raw(&record_key(table::OWED, version))? {
                Some(bytes) => {
                    let owed: Owed = unpack(&bytes)?;
                    // Of a removed file nobody needs them any more: the home says so when it has the removal. (What became one
                    // with an equal file is there.)
                    let is_gone = Self::is_gone(core, owed.file)? && Self::is_gone(core, FileId::made_by(version))?;
                    if is_gone && !carrier.called.contains(&version) {
                        self.wanted.remove(&version);
                    } else {
                        due.push((version, owed));
                    }
                }
                None if Self::missing(core, version)?.is_none() => {
                    self.wanted.remove(&version);
                    if carrier.called.remove(&version) {
                        // The home has us on record for what we know by another name, or not any more: it is to ask others.
                        self.gone.insert(version, false);
                    }
                }
                None => {
                    self.wanted.remove(&version);
                    carrier.wanted_below.insert(version);
                }
            }
        }
        Ok(due)
    }

    /// Whether nothing is left to push.
    pub(crate) fn pushes_done(&self) -> bool {
        self.pushing.is_empty() && self.carrier().is_none_or(|carrier| carrier.haves.is_empty())
    }

    /// Whether nobody needs what a file holds. A version that became a copy has its record's number for its file, and may be shown there
    /// while the file into which it was stored is removed.
    fn is_gone<S: MetaStore>(core: &Core<S>, file: FileId) -> Result<bool, StorageError> {
        Ok(core.state.inode_meant(file)?.is_none_or(|inode| inode.is_removed()))
    }
}
