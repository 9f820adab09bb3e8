//! Records sent ahead of our own disk: safe in one round trip and one group commit.
//!
//! ```text
//!   client                                         parent
//!     Records (not yet durable here) ─────────────▶  taken like any others: applied, synced
//!       its own sync runs meanwhile
//!     ◀──────────────────────────────────────── Marks  durable there; safe once they are durable here, too
//! ```
//!
//! Otherwise a record goes up only when it is durable here, and the parent's
//! sync begins when ours has ended. A client sends ahead only records that
//! somebody waits for and that are small; a stream that nobody waits for is
//! cheaper in one message with one sync.
//!
//! Why nothing is lost and no number is used twice:
//! * *Safe* is what is durable at both: the parent's mark counts as far as our own
//!   disk has come (`Replica::own_through`).
//! * A client that loses records which it had sent ahead gets their effects back
//!   as images, and goes on behind their numbers: the first record of every life
//!   is an [`Op::Skip`] over as many numbers as can have been ahead.

use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::log_entry::Attached;
use crate::state::of_record::content_of;
use crate::state::position::LogPosition;
use crate::upstream::Uplink;
use crate::upstream::line::UplinkState;
use std::collections::BTreeMap;
use wayfs_types::{MetaStore, Op, Record, RecordId, StorageError, Ticket, UserId};
use wayfs_wire::{SentRecord, Up};

/// Most records of a client that are ahead of its disk: as many sequences does its next life skip.
pub const AHEAD_MAX: u64 = 64;
/// The first number of a life lies so far behind the last one at most: of 2^40 numbers, 2^17 on average each time is
/// enough for eight million lives.
const LIFE_STEPS: u32 = 1 << 18;
/// Most bytes of records that go ahead at a time.
const AHEAD_LEN: usize = 256 * 1024;

impl<S: MetaStore> Replica<S> {
    /// Sequence up to which a parent may know records of ours.
    pub(crate) fn own_limit(&self) -> u64 {
        self.core.state.sequence() + if self.histories.skips_numbers() { AHEAD_MAX } else { 0 }
    }

    /// The number of our next change.
    pub(crate) fn next_sequence(&self) -> u64 {
        // A copy of this store that is opened elsewhere begins its life somewhere else, so that nearly always what the
        // two write has different numbers, and so different names, even before anybody notices.
        let skipped =
            if self.begins_life() { AHEAD_MAX + 1 + u64::from(self.core.config.life.0 % LIFE_STEPS) } else { 0 };
        self.core.state.sequence() + skipped + 1
    }

    /// Whether our next record is the first of a life.
    fn begins_life(&self) -> bool {
        self.histories.skips_numbers() && !self.core.state.has_staged_gap()
    }

    /// The first change of a life begins behind what the last one may have sent ahead and lost.
    pub(crate) fn skip_lost(&mut self) -> Result<(), StorageError> {
        if !self.begins_life() {
            return Ok(());
        }
        // Those that were taken out of the view since (`take_orphans`) nobody has.
        let own = self.core.config.origin;
        let after = self.core.state.sequence().min(wayfs_tree::applied(&self.core.state.tx(), own)?);
        let sequence = self.next_sequence() - 1;
        let Ok(id) = RecordId::new(self.core.config.origin, sequence) else { return Ok(()) };
        let record =
            Record { id, time: self.core.wall, user: UserId(0), op: Op::Skip { after, life: self.core.config.life } };
        self.core.state.set_sequence(sequence);
        self.histories.note_gap(&mut self.core, (after, sequence));
        self.core.take_record(record, Attached::OWN)?;
        Ok(())
    }

    /// Sends records that somebody waits for while our own disk is still at it.
    pub(crate) fn send_ahead(&mut self) -> Result<(), StorageError> {
        let is_first_life_durable = self.core.state.stored() > Ticket(0) || self.histories.was_opened_before();
        if !self.core.writes()
            || !self.core.config.sends_ahead
            || self.core.standing() != Some(UplinkState::Live)
            || !is_first_life_durable
            || !self.is_somebody_waiting()
        {
            return Ok(());
        }
        let (mut records, mut len, mut sent) = (Vec::new(), 0, None);
        let mut written = BTreeMap::new();
        for position in self.uplink.next_ahead(&self.core) {
            let entry = self.core.state.log_entry(position)?;
            written.insert(entry.record.id, entry.written());
            let travels_apart = content_of(&entry.record).is_some_and(|(_, content)| content.root().is_some());
            if travels_apart {
                break;
            }
            let record = SentRecord {
                held: entry.held && Uplink::still_holds(&mut self.core, &entry.record)?,
                record: entry.record,
            };
            len += wayfs_wire::record_len(&record);
            if len > AHEAD_LEN {
                break;
            }
            sent = Some(position);
            records.push(record);
        }
        if let (Some(position), Some(upstream), Some(line)) =
            (sent, self.uplink.session.as_mut(), self.core.line.as_mut())
        {
            line.position = position;
            upstream.records_at = Some(self.core.now);
            self.send_with_history(Up::Records { records }, &written);
        }
        Ok(())
    }
}

impl Uplink {
    /// Positions that may go ahead now: those behind everything that was sent, if nothing durable waits for its turn.
    fn next_ahead<S: MetaStore>(&self, core: &Core<S>) -> Vec<LogPosition> {
        let (Some(upstream), Some(line)) = (&self.session, &core.line) else { return Vec::new() };
        let mut before = upstream.sent_of(core.config.origin);
        // The next life counts on the present one having been at most so far ahead of its disk.
        let last = core.state.own_durable().saturating_add(AHEAD_MAX);
        let mut next = Vec::new();
        for (position, item) in core.state.log().from(line.position.next()) {
            let is_durable = item.ticket <= core.state.stored();
            // No number after a gap may be known to anyone before the gap is durable here.
            let is_next = item.after == before && item.id.sequence() == before + 1;
            // A rewritten one is not lost with a crash: the one before it comes back.
            if is_durable || item.rewritten || !item.tentative || !is_next || item.id.sequence() > last {
                break;
            }
            before = item.id.sequence();
            next.push(position);
        }
        next
    }
}
