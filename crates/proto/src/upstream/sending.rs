//! Records on their way to the parent: which may go, when, and how many at a time.

use crate::children::stream::FRAME_LEN;
use crate::contents::Contents;
use crate::members::Members;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::of_record::content_of;
use crate::state::position::LogPosition;
use crate::state::tables::{record_key, table};
use crate::upstream::Uplink;
use crate::upstream::leaving::Leaving;
use crate::upstream::line::UplinkState;
use std::collections::BTreeMap;
use wayfs_types::{MetaStore, OriginId, Record, StorageError};
use wayfs_wire::{SentRecord, Up};

/// Bytes of records under way: more would delay pings and answers on a thin line by more than a lease, and gain
/// nothing on a fast one.
const IN_FLIGHT_LEN: usize = 256 * 1024;

/// What the session does at a place of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Passed {
    /// The record is sent.
    On,
    /// The record is left out: the parent has it, or has another.
    Over,
}

/// A place of the log that the session may pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NextRecord {
    position: LogPosition,
    passed: Passed,
}

impl<S: MetaStore> Replica<S> {
    /// Sends records, pushes contents.
    pub(crate) fn pump_parent(&mut self) -> Result<(), StorageError> {
        let Some(state) = self.core.standing() else { return Ok(()) };
        if matches!(state, UplinkState::Greeting | UplinkState::Forked) {
            return Ok(());
        }
        self.contents.tell_held(&mut self.core, &self.uplink)?;
        self.contents.tell_lent(&mut self.core, &self.uplink)?;
        self.contents.tell_gone(&mut self.core, &self.children, &self.uplink)?;
        if self.members.parent_has_room() {
            if self.may_send_records() {
                self.send_records()?;
            }
            self.send_ahead()?;
        }
        self.locks.send_lock_mail(&mut self.core);
        self.contents.pump_contents(&mut self.core, &mut self.children)
    }

    /// A station gathers records for a period, or for a moment if nothing is under way; a client sends at once.
    pub(crate) fn may_send_records(&mut self) -> bool {
        let Some(upstream) = &self.uplink.session else { return false };
        if upstream.leaving == Leaving::AtOnce {
            return true;
        }
        if self.core.state.rescues() {
            // What a home that was put back does not know, or not as we do, is to be written again and not to be sent.
            return false;
        }
        self.uplink.note_gathering(&self.core);
        let gathered = self.uplink.session.as_ref().and_then(|upstream| self.gathered_at(upstream));
        gathered.is_some_and(|at| self.core.now >= at)
    }

    pub(crate) fn send_records(&mut self) -> Result<(), StorageError> {
        loop {
            let len_max = self.uplink.len_together(&self.core);
            let positions = self.next_records();
            let Some(NextRecord { position: last, .. }) = positions.last().copied() else { return Ok(()) };
            let (mut records, mut len, mut is_whole) = (Vec::new(), 0, true);
            let mut written = BTreeMap::new();
            // Behind which record the message may end: how many of them that is, and its place.
            let mut end = None;
            for NextRecord { position, passed } in positions {
                if passed == Passed::Over {
                    continue;
                }
                let entry = self.core.state.log_entry(position)?;
                written.insert(entry.record.id, entry.written());
                let may_end = entry.seal.is_some() || !Members::ends_at_seals(&self.core, entry.record.id.origin());
                let record = SentRecord {
                    held: entry.held && Uplink::still_holds(&mut self.core, &entry.record)?,
                    record: entry.record,
                };
                let more = wayfs_wire::record_len(&record);
                if end.is_some() && len + more > len_max {
                    is_whole = false;
                    break;
                }
                len += more;
                records.push(record);
                if may_end {
                    end = Some((records.len(), position));
                }
            }
            // What is behind the last seal leaves with the rest of its message.
            let (count, position) = match end {
                Some(end) => end,
                None if records.is_empty() => (0, last),
                None => return Ok(()),
            };
            is_whole &= count == records.len();
            records.truncate(count);
            let (Some(upstream), Some(line)) = (self.uplink.session.as_mut(), self.core.line.as_mut()) else {
                return Ok(());
            };
            line.position = if is_whole { last } else { position };
            if records.is_empty() {
                continue;
            }
            upstream.records_at = Some(self.core.now);
            self.uplink.begin_gathering_anew(&self.core);
            for up in self.cancel_gathered(records, &written)? {
                self.send_with_history(up, &written);
            }
        }
    }

    /// These records are on their way.
    pub(crate) fn note_sent(&mut self, records: &[SentRecord]) {
        let Some(upstream) = self.uplink.session.as_mut() else { return };
        for sent in records {
            let id = sent.record.id;
            upstream.note_flight(id, wayfs_wire::record_len(sent));
            if id.origin() == self.core.config.origin {
                self.contents.account_sent(id.sequence());
                self.uplink.sent_through = self.uplink.sent_through.max(id.sequence());
            }
        }
    }

    /// The next positions of the log that the session may pass, and whether each is to be sent.
    pub(crate) fn next_records(&mut self) -> Vec<NextRecord> {
        let (Some(upstream), Some(line)) = (&self.uplink.session, &self.core.line) else { return Vec::new() };
        let mut next = Vec::new();
        let mut wanted_len = 0;
        let mut undurable = false;
        let mut sent: BTreeMap<OriginId, u64> = BTreeMap::new();
        let room = match upstream.in_flight_bytes {
            bytes if bytes >= IN_FLIGHT_LEN => 0,
            _ => self.core.config.records_in_flight_max.saturating_sub(upstream.in_flight_len),
        };
        let is_log_own = self.core.writes();
        let most = if is_log_own { room.min(self.core.config.records_per_message) } else { room };
        // A message ends behind a seal; one that is longer than there is room for waits until nothing is under way.
        let (is_flying, mut may_end) = (upstream.is_flying(), true);
        for (position, item) in self.core.state.log().from(line.position.next()) {
            if item.ticket > self.core.state.stored() {
                undurable = true;
                break;
            }
            if wanted_len >= most && (may_end || is_flying) {
                break;
            }
            let origin = item.id.origin();
            if upstream.unplaced.contains(&origin) {
                break;
            }
            if upstream.doubtful.contains(&origin) {
                // The parent has other records of it than we: its images tell, and this one is written again.
                next.push(NextRecord { position, passed: Passed::Over });
                continue;
            }
            let known = upstream.applied.get(&origin).copied().unwrap_or(0);
            if item.id.sequence() <= known {
                next.push(NextRecord { position, passed: Passed::Over });
                continue;
            }
            let before = sent.get(&origin).copied().unwrap_or(0).max(upstream.sent_of(origin));
            if self.core.writes() && item.after > before {
                // The home has the ones between, this parent not yet.
                break;
            }
            sent.insert(origin, item.id.sequence());
            next.push(NextRecord { position, passed: Passed::On });
            wanted_len += 1;
            may_end = item.sealed || !Members::ends_at_seals(&self.core, origin);
        }
        if undurable {
            self.sync_soon();
        }
        next
    }

    /// Makes the log durable, so that it can be sent: at once if somebody waits, else together with the changes of
    /// the next moment.
    pub(crate) fn sync_soon(&mut self) {
        if !self.core.writes() || self.is_somebody_waiting() {
            self.core.state.want_sync();
        } else {
            Uplink::sync_with_the_next(&mut self.core);
        }
    }

    /// Whether somebody waits for records to be sent: for a level, or with the release of a lock.
    pub(crate) fn is_somebody_waiting(&self) -> bool {
        self.requests.has_level_waiters() || self.locks.is_release_waiting()
    }

    /// Our own user waits for *stable*: the parent is asked to bring the contents home.
    pub(crate) fn want_stable(&mut self, origin: OriginId, through: u64) -> Result<(), StorageError> {
        self.contents.handle_want(&mut self.core, &mut self.children, origin, through)?;
        let ready = self.uplink.session.as_ref().is_some_and(|up| up.asked_stable < through);
        if ready {
            if let Some(upstream) = self.uplink.session.as_mut() {
                upstream.asked_stable = through;
            }
            self.core.tell_parent(Up::Want { origin, through });
        }
        Ok(())
    }
}

impl Uplink {
    /// Bytes of records that are looked at together. A station takes as much as may be under way, since it cancels among
    /// them; what is left leaves in parts where it can.
    fn len_together<S: MetaStore>(&self, core: &Core<S>) -> usize {
        let flying = self.session.as_ref().map_or(0, |upstream| upstream.in_flight_bytes);
        let gathered = if core.relays() { IN_FLIGHT_LEN.saturating_sub(flying) } else { 0 };
        core.config.message_len_max.min(gathered.max(FRAME_LEN))
    }

    pub(crate) fn records_in_flight(&self) -> u64 {
        self.session.as_ref().map_or(0, |up| up.in_flight_len as u64)
    }

    /// A client that moved has let contents go once a former parent called them safe, one by one or all up to there. So
    /// has a station that was put back to before they came: its clients do not bring them again, and nobody here has them.
    pub(crate) fn still_holds<S: MetaStore>(core: &mut Core<S>, record: &Record) -> Result<bool, StorageError> {
        if core.state.tx().get_raw(&record_key(table::OWED, record.id))?.is_some() {
            return Ok(true);
        }
        match Contents::missing(core, record.id)? {
            Some(missing) => Ok(missing.everybody().next().is_some()),
            None => {
                let travels_in_it = || content_of(record).is_none_or(|(_, content)| content.root().is_none());
                Ok(!core.writes() && travels_in_it())
            }
        }
    }

    /// Makes everything durable together with the changes of the next moment.
    pub(crate) fn sync_with_the_next<S: MetaStore>(core: &mut Core<S>) {
        if core.config.sync_gather.is_zero() {
            core.state.want_sync();
            return;
        }
        core.state.sync_within(core.now, core.config.sync_gather);
    }
}
