//! Contents that a client wrote under origins which it had before, and still answers for.
//!
//! Their records were confirmed before the history forked, so they are not written again, and no mark tells how far they
//! came. So the client offers them to each parent, pushes what nobody took over, and asks what became of them. While somebody
//! waits for *stable* it asks that they be brought home.
//!
//! ```text
//!   client, now of another origin     parent
//!     Lent, a push of what is owed ─▶ missing: spare client
//!     Facts ─────────────────────────▶
//!     ◀── safe: lent. stable: let go. ─
//! ```

use crate::children::Children;
use crate::contents::Contents;
use crate::contents::duty::Duty;
use crate::contents::owed::{Lent, Owed};
use crate::replica::core::Core;
use crate::state::tables::{origin_range, parse_record_key, table, unpack};
use crate::upstream::Uplink;
use crate::upstream::line::UplinkState;
use std::collections::BTreeMap;
use wayfs_types::{Content, Fact, Facts, FileId, MetaStore, OriginId, RecordId, StorageError};
use wayfs_wire::{AskedVersion, FACTS_MAX, HeldVersion, LentVersion, Up};

/// Keys and values.
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

/// Most versions in one message.
const OFFERED_PER_MESSAGE: usize = 1024;

impl Contents {
    /// Asks the parent what became of it: when something of it was pushed, and with every ping.
    pub(crate) fn ask_about_former<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        uplink: &mut Uplink,
    ) -> Result<(), StorageError> {
        let (Some(said), Some(state)) = (self.said(), core.standing()) else { return Ok(()) };
        let is_asked = said.former_ask.is_some_and(|ask| uplink.is_fact_asked(ask));
        let is_greeted = !matches!(state, UplinkState::Greeting | UplinkState::Forked);
        let is_any = core.state.totals().owed > 0 || core.state.totals().lent > 0;
        if is_asked || !is_greeted || !is_any {
            return Ok(());
        }
        let mut versions = Vec::new();
        for of in [table::OWED, table::LENT] {
            for (key, value) in Self::former_rows(core, of, &[of], FACTS_MAX - versions.len())? {
                let version = parse_record_key(&key)?;
                versions.push(AskedVersion { file: parse_row(of, &value)?.0, version });
            }
        }
        if versions.is_empty() {
            return Ok(());
        }
        let ask = uplink.ask_facts_of_our_own(core, versions);
        if let Some(said) = self.said_mut() {
            said.former_ask = ask;
        }
        Ok(())
    }

    /// The parent said how far a version has come.
    pub(crate) fn settle_former<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        uplink: &Uplink,
        version: RecordId,
        facts: Facts,
    ) -> Result<(), StorageError> {
        if self.author().is_none() || version.origin() == core.config.origin {
            return Ok(());
        }
        if facts.stable.holds() {
            self.release(core, version)?;
            self.take_lent(core, version)?;
        } else if facts.safe.holds() {
            self.lend(core, version, None)?;
        } else if facts.visible == Fact::No && uplink.was_written_again(version) {
            // Nobody who orders records has this one: it is answered for by the name by which it was written again.
            self.take_lent(core, version)?;
        } else if Self::is_unknown_to_all(core, uplink, version, facts) {
            // It was seen before the home lost it, and whoever wrote it, or has it, wrote it again by another name.
            self.take_lent(core, version)?;
        }
        Ok(())
    }

    /// Whether nobody will ask by this name for what we handed over: neither the parent has the record, nor the home. That something is not
    /// stable is the home's word: a station that cannot reach it, or was put back, says nothing of what it does not know.
    fn is_unknown_to_all<S: MetaStore>(core: &Core<S>, uplink: &Uplink, version: RecordId, facts: Facts) -> bool {
        let nowhere = Facts { safe: Fact::Unknown, visible: Fact::No, stable: Fact::No };
        facts == nowhere && core.is_trusted() && uplink.parent_has(version.origin()) < version.sequence()
    }

    /// Offers all of it to a parent, once in a session.
    pub(crate) fn tell_former<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        let Some(said) = self.said_mut().filter(|said| !said.former) else { return Ok(()) };
        if core.parent_stamp().is_none() {
            return Ok(());
        }
        said.former = true;
        let tables = [(table::LENT, core.state.totals().lent), (table::OWED, core.state.totals().owed)];
        for (of, _) in tables.into_iter().filter(|(_, count)| *count > 0) {
            let mut from = vec![of];
            loop {
                let rows = Self::former_rows(core, of, &from, OFFERED_PER_MESSAGE)?;
                let Some((last, _)) = rows.last() else { break };
                from.clone_from(last);
                from.push(0);
                let mut versions = Vec::new();
                for (key, value) in &rows {
                    let (file, content, to) = parse_row(of, value)?;
                    let held = HeldVersion { version: parse_record_key(key)?, file, content };
                    versions.push(LentVersion { held, to });
                }
                core.tell_parent(Up::Lent { versions });
            }
        }
        Ok(())
    }

    /// Somebody looks for a version that is owed.
    pub(crate) fn offer_former<S: MetaStore>(core: &mut Core<S>, version: RecordId, file: FileId, content: Content) {
        if version.origin() != core.config.origin && core.writes() {
            let held = HeldVersion { version, file, content };
            core.tell_parent(Up::Lent { versions: vec![LentVersion { held, to: None }] });
        }
    }

    /// Somebody waits for *stable*: the parent is asked, once in a session, to bring home what is lent.
    pub(crate) fn want_former<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        let mut from = vec![table::LENT];
        let mut through: BTreeMap<OriginId, u64> = BTreeMap::new();
        while core.state.totals().lent > 0 {
            let rows = Self::former_rows(core, table::LENT, &from, OFFERED_PER_MESSAGE)?;
            let Some((last, _)) = rows.last() else { break };
            from.clone_from(last);
            from.push(0);
            for (key, _) in &rows {
                let record = parse_record_key(key)?;
                through.insert(record.origin(), record.sequence());
            }
        }
        for (origin, through) in through {
            let Some(said) = self.said_mut() else { break };
            if said.former_wanted.get(&origin).is_none_or(|asked| *asked < through) {
                said.former_wanted.insert(origin, through);
                core.tell_parent(Up::Want { origin, through });
            }
        }
        Ok(())
    }

    /// What nobody took over of it and is to be pushed.
    pub(crate) fn former_due<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        room: usize,
    ) -> Result<Vec<(RecordId, Owed)>, StorageError> {
        let Duty::Answers(author) = &mut self.duty else { return Ok(Vec::new()) };
        let is_told = author.said.as_ref().is_some_and(|said| said.former);
        if room == 0 || author.former_pushed || core.state.totals().owed == 0 || !is_told {
            return Ok(Vec::new());
        }
        let under_way = self.pushing.len() + self.pushed.len();
        let rows = Self::former_rows(core, table::OWED, &[table::OWED], room + under_way)?;
        let mut due = Vec::new();
        for (key, value) in rows {
            let version = parse_record_key(&key)?;
            let is_known = self.pushing.contains(&version) || self.pushed.contains(&version);
            if !is_known && due.len() < room {
                due.push((version, unpack(&value)?));
            }
        }
        author.former_pushed = due.len() < room;
        Ok(due)
    }

    /// Rows of a table that are of former origins, from a key on.
    fn former_rows<S: MetaStore>(core: &mut Core<S>, of: u8, from: &[u8], limit: usize) -> Result<Rows, StorageError> {
        let (own, beyond) = origin_range(of, core.config.origin, 0);
        let mut rows = Vec::new();
        if from < own.as_slice() {
            rows = core.state.tx().scan_raw(from, &own, limit)?;
        }
        let rest = limit - rows.len();
        if rest > 0 {
            rows.extend(core.state.tx().scan_raw(from.max(&beyond), &[of + 1], rest)?);
        }
        Ok(rows)
    }

    /// Whether a client may speak for an origin: its own, or one that it had before.
    pub(crate) fn speaks_for<S: MetaStore>(
        core: &mut Core<S>,
        client: OriginId,
        of: OriginId,
    ) -> Result<bool, StorageError> {
        if of == client {
            return Ok(true);
        }
        let (Some(own), Some(former)) = (Children::origin_image(core, client)?, Children::origin_image(core, of)?)
        else {
            return Ok(false);
        };
        Ok(own.node == former.node)
    }

    /// Whether a client may be about to tell the truth of an origin's contents: it speaks for that, or nothing is known of it
    /// here. A home that was put back has forgotten the origins that it gave since the copy was made.
    pub(crate) fn may_speak_for<S: MetaStore>(
        core: &mut Core<S>,
        client: OriginId,
        of: OriginId,
    ) -> Result<bool, StorageError> {
        Ok(Self::speaks_for(core, client, of)? || Children::origin_image(core, of)?.is_none())
    }
}

/// What a row of what is lent or owed is about, and to whose store it is lent.
fn parse_row(of: u8, value: &[u8]) -> Result<(FileId, Content, Option<OriginId>), StorageError> {
    if of == table::OWED {
        let Owed { file, content } = unpack(value)?;
        return Ok((file, content, None));
    }
    let Lent { file, content, to } = unpack(value)?;
    Ok((file, content, to.map(|stamp| stamp.origin)))
}
