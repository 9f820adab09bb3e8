//! What a client still holds of records that its parent has by another way.
//!
//! A record can reach a parent without its writer: the home passes on what a
//! former station sent. Its contents may then be at the writer only, and the
//! parent must not call it safe. So a client accounts for its records: it sends
//! them itself, or, of those that the parent has already, tells whose contents
//! nobody called safe. A parent calls nothing safe beyond what its client
//! accounted for, and waits for what it is told to be held.

use crate::api::{Output, PeerId};
use crate::children::Children;
use crate::contents::Contents;
use crate::contents::answers::Offer;
use crate::contents::missing::Missing;
use crate::contents::owed::{Owed, size_of};
use crate::histories::Histories;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use crate::state::tables::table::AWAITED;
use crate::state::tables::{origin_range, pack, parse_record_key, record_key, root_key, table, unpack};
use crate::upstream::Uplink;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use wayfs_types::{Content, FileId, MetaStore, OriginId, RecordId, StorageError};
use wayfs_wire::{HeldVersion, LentVersion, Up};

/// Most versions in one message.
const HELD_MAX: usize = 1024;

impl Contents {
    /// A record of our own was sent, and so accounted for.
    pub(crate) fn account_sent(&mut self, sequence: u64) {
        if let Some(said) = self.said_mut() {
            said.accounted = said.accounted.max(sequence);
        }
    }
}

/// The client's half.
impl Contents {
    /// Accounts for records of ours that came to the parent by another way.
    pub(crate) fn tell_held<S: MetaStore>(&mut self, core: &mut Core<S>, uplink: &Uplink) -> Result<(), StorageError> {
        let own = core.config.origin;
        let Some(said) = self.said() else { return Ok(()) };
        let (from, through) = (said.accounted, uplink.applied_of(own));
        if through <= from {
            return Ok(());
        }
        let (start, _) = origin_range(table::OWED, own, from + 1);
        let (end, _) = origin_range(table::OWED, own, through + 1);
        let mut versions = Vec::new();
        for (key, value) in core.state.tx().scan_raw(&start, &end, usize::MAX / 2)? {
            let Owed { file, content } = unpack(&value)?;
            versions.push(HeldVersion { version: parse_record_key(&key)?, file, content });
        }
        if Self::is_back(core, through)? {
            // Our records may have left them out there, and marks tell nothing of that: the home decides of each.
            versions.iter().for_each(|held| self.keep_sought(held.clone()));
            for part in versions.chunks(HELD_MAX) {
                let offer = |held: &HeldVersion| LentVersion { held: held.clone(), to: None };
                core.tell_parent(Up::Lent { versions: part.iter().map(offer).collect() });
            }
        }
        while versions.len() > HELD_MAX {
            let rest = versions.split_off(HELD_MAX);
            let through = versions.last().map_or(from, |held| held.version.sequence());
            core.tell_parent(Up::Holds { through, versions: std::mem::replace(&mut versions, rest) });
        }
        core.tell_parent(Up::Holds { through, versions });
        if let Some(said) = self.said_mut() {
            said.accounted = through;
        }
        Ok(())
    }
}

impl Contents {
    /// Whether our store was put back to before the newest record of ours that the parent has.
    fn is_back<S: MetaStore>(core: &mut Core<S>, through: u64) -> Result<bool, StorageError> {
        let own = core.config.origin;
        Ok(through > core.state.confirmed_applied(own)? && Histories::known_chain(core, own, through)?.is_none())
    }
}

/// The parent's half.
impl Contents {
    /// A child accounts for a record by sending it.
    pub(crate) fn account<S: MetaStore>(
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        record: RecordId,
    ) {
        if record.origin() == child && children.account(child, record.sequence()) {
            core.state.stage_marks(child);
        }
    }

    pub(crate) fn handle_holds<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        peer: PeerId,
        child: OriginId,
        through: u64,
        versions: Vec<HeldVersion>,
    ) -> Result<(), StepError> {
        let applied = wayfs_tree::applied(&core.state.tx(), child)?;
        let foreign = |held: &HeldVersion| held.version.origin() != child || held.version.sequence() > through;
        if through > applied || versions.iter().any(foreign) {
            return Err(StepError::Peer(peer, "accounts for records that did not come".to_owned()));
        }
        let held: BTreeSet<RecordId> = versions.iter().map(|held| held.version).collect();
        for HeldVersion { version, file, content } in versions {
            self.note_held(core, children, child, version, file, content)?;
        }
        let from = children.accounted(child).unwrap_or(through);
        self.note_let_go(core, child, from + 1..=through, &held)?;
        children.account(child, through);
        core.state.stage_marks(child);
        Ok(())
    }

    /// A client of ours holds nothing of its records of some sequences but these: another parent called the rest safe, and
    /// nobody is going to push it to us.
    pub(crate) fn note_let_go<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        child: OriginId,
        sequences: RangeInclusive<u64>,
        held: &BTreeSet<RecordId>,
    ) -> Result<(), StorageError> {
        let (start, _) = origin_range(AWAITED, child, *sequences.start());
        let beyond = sequences.end().saturating_add(1).min(RecordId::SEQUENCE_MAX);
        let (end, _) = origin_range(AWAITED, child, beyond);
        for (key, _) in core.state.tx().scan_raw(&start, &end, usize::MAX / 2)? {
            let record = parse_record_key(&key)?;
            if held.contains(&record) {
                continue;
            }
            core.state.delete_row(key);
            core.state.stage_marks(child);
            let Some(mut missing) = Self::missing(core, record)? else { continue };
            if missing.holders.iter().any(|holder| *holder != child) {
                missing.holders.retain(|holder| *holder != child);
                core.state.put_row(record_key(table::MISSING, record), pack(&missing));
            } else if self.carrier().is_some() {
                self.deny_let_go(core, record, missing);
            } else {
                // It was put back, or is a copy: it has less than it had said. It is looked for like all that nobody has.
                missing.holders.clear();
                core.state.put_row(record_key(table::MISSING, record), pack(&missing));
                self.note_holders_moved(core);
            }
        }
        Ok(())
    }

    /// A client of ours holds the contents of a version that came to us by another way, and will push them.
    pub(crate) fn note_held<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
        version: RecordId,
        file: FileId,
        content: Content,
    ) -> Result<(), StorageError> {
        let Some(root) = content.root() else { return Ok(()) };
        let is_owed = core.state.tx().get_raw(&record_key(table::OWED, version))?.is_some();
        if is_owed {
            return Ok(());
        }
        let is_stable = core.state.marks(child)?.stable >= version.sequence() && !Self::is_declared(core, version)?;
        // What the home looks for, since its own copy is gone, the mark says nothing of. A station does not know of that: the writer may
        // have been told so while its line was broken, and answers for it again when it has pushed it.
        let is_settled = self.keeper().is_none() || Self::missing(core, version)?.is_some();
        if is_stable && is_settled {
            return Ok(());
        }
        let known = core.state.tx().get_raw(&record_key(table::MISSING, version))?;
        let missing = match known.map(|bytes| unpack::<Missing>(&bytes)).transpose()? {
            Some(missing) if missing.holders.contains(&child) => missing,
            Some(mut missing) => {
                missing.holders.push(child);
                missing
            }
            None if self.is_revived(core, children, version, child, Offer::Holds)? => return Ok(()),
            None if self.keeper().is_some() => {
                match self.take_left_out(core, HeldVersion { version, file, content })? {
                    Some(missing) => Missing { holders: vec![child], ..missing },
                    None => {
                        // It is here, or was replaced by somebody who had seen it.
                        children.tell_stable(child, version);
                        return Ok(());
                    }
                }
            }
            None if self.announced.take(&content) => {
                // Its push was faster than its account.
                return self.owe(core, version, file, content);
            }
            None => {
                core.state.stage_totals().missing += 1;
                core.state.stage_totals().missing_bytes += size_of(&content);
                core.state.put_row(root_key(&root, version), Vec::new());
                let output = Output::Applied { file, record: version, content: Some(content.clone()) };
                core.state.stage_output(output);
                Missing { holders: vec![child], ..Missing::of(file, version, content) }
            }
        };
        if let Some(carrier) = self.carrier_mut() {
            // The home may have been told that nobody here has it.
            carrier.spares.insert(version);
        }
        core.state.put_row(record_key(table::MISSING, version), pack(&missing));
        core.state.put_row(record_key(AWAITED, version), Vec::new());
        self.note_awaited(version);
        core.state.stage_marks(child);
        Ok(())
    }
}
