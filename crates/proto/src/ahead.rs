//! Records sent ahead: safe in one round trip and one group commit.
//!
//! ```text
//!   client                                         parent
//!     Ahead (not yet durable here) ───────────────▶  kept in a table of its own, synced
//!       its own sync runs meanwhile                  (takes no effect, is told to nobody)
//!     Durable ────────────────────────────────────▶  takes effect, once the row is durable, too
//!     ◀─────────────────────────────────────── Safe  at once: row and record are on two disks
//! ```
//!
//! Without this a record goes up only when it is durable here, and the parent's
//! sync begins when ours has ended. A client does it only for records that
//! somebody waits for and that are small; a stream that nobody waits for is
//! cheaper in one message with one sync.
//!
//! Why nothing is lost and no number is used twice:
//! * *Safe* is said when the record is durable at both. If the parent crashes
//!   before its effect is durable, the row is still there: the client sends the
//!   record again in its next session, and if it does not come back within a
//!   lease, the row takes effect then.
//! * A client whose disk lost records that it had sent ahead goes on behind
//!   them: the first record of every life but the first is an [`Op::Skip`] over
//!   as many numbers as can have been ahead.

use crate::api::{Output, PeerId, Role};
use crate::children::Child;
use crate::contents::content_of;
use crate::replica::{Replica, Trouble};
use crate::tables::{origin_range, pack, parse_record_key, record_key, table, unpack};
use crate::upstream::Standing;
use std::collections::VecDeque;
use wayfs_types::{Admitted, MetaStore, Op, OriginId, Record, RecordId, StorageError, Ticket, UserId};
use wayfs_wire::{Down, Mark, Message, SentRecord, Up};

/// Most records of a client that are ahead: as many sequences does its next life skip.
pub(crate) const AHEAD_MAX: usize = 64;
/// Most bytes of records that are ahead.
const AHEAD_LEN: usize = 256 * 1024;

/// Most records that wait behind those: twice what a client may have on its way by default.
const QUEUED_MAX: usize = 8192;

/// What a client has sent ahead in this session.
#[derive(Debug, Default)]
pub(crate) struct SentAhead {
    /// Position in the log, sequence, bytes; the oldest first.
    items: VecDeque<(u64, u64, usize)>,
    /// The parent said *safe* up to this sequence in this session.
    safe: u64,
}

/// What a parent keeps for a client.
#[derive(Debug, Default)]
pub(crate) struct KeptAhead {
    items: VecDeque<KeptRecord>,
    /// Durable at the client up to this sequence.
    durable: u64,
}

#[derive(Debug)]
struct KeptRecord {
    sent: SentRecord,
    /// Batch that holds the row; `None` until it is committed, zero for what needs no row.
    ticket: Option<Ticket>,
}

impl KeptAhead {
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The rows of the present batch are committed.
    pub(crate) fn committed(&mut self, ticket: Ticket) {
        for item in self.items.iter_mut().rev().take_while(|item| item.ticket.is_none()) {
            item.ticket = Some(ticket);
        }
    }

    /// A record that is durable at the client has to wait behind those that are not in effect yet. `false`: more wait
    /// than an honest client has on its way.
    pub(crate) fn queue(&mut self, sent: SentRecord) -> bool {
        self.durable = self.durable.max(sent.record.id.sequence());
        self.items.push_back(KeptRecord { sent, ticket: Some(Ticket(0)) });
        self.items.len() <= QUEUED_MAX
    }

    fn rows(&self) -> usize {
        self.items.iter().filter(|item| item.ticket != Some(Ticket(0))).count()
    }

    fn newest(&self) -> Option<u64> {
        self.items.back().map(|item| item.sent.record.id.sequence())
    }

    /// Takes out the first if it is durable at both ends.
    fn pop_durable(&mut self, stored: Ticket) -> Option<SentRecord> {
        let first = self.items.front()?;
        let is_durable = first.sent.record.id.sequence() <= self.durable && first.ticket.is_some_and(|at| at <= stored);
        if is_durable { self.items.pop_front().map(|item| item.sent) } else { None }
    }
}

/// The client's half.
impl<S: MetaStore> Replica<S> {
    /// Sequence up to which a parent may know records of ours.
    pub(crate) fn own_limit(&self) -> u64 {
        self.counters.sequence + if self.skips { AHEAD_MAX as u64 } else { 0 }
    }

    /// The number of our next change.
    pub(crate) fn next_sequence(&self) -> u64 {
        let skipped = if self.skips { AHEAD_MAX as u64 + 1 } else { 0 };
        self.counters.sequence + skipped + 1
    }

    /// The first change of a life begins behind what the last one may have sent ahead and lost.
    pub(crate) fn skip_lost(&mut self) -> Result<(), StorageError> {
        if !self.skips {
            return Ok(());
        }
        let after = self.counters.sequence;
        let sequence = self.next_sequence() - 1;
        let Ok(id) = RecordId::new(self.config.origin, sequence) else { return Ok(()) };
        let record = Record { id, time: self.wall, user: UserId(0), op: Op::Skip { after } };
        self.counters.sequence = sequence;
        self.staged.skipped = true;
        self.take_record(record, true)?;
        Ok(())
    }

    /// Sends records that somebody waits for while our own disk is still at it.
    pub(crate) fn send_ahead(&mut self) -> Result<(), StorageError> {
        let Some(upstream) = &self.upstream else { return Ok(()) };
        let is_first_life_durable = self.stored > Ticket(0) || self.reopened;
        if self.config.role != Role::Client
            || !self.config.sends_ahead
            || upstream.standing != Standing::Live
            || !is_first_life_durable
            || !self.requests.has_level_waiters()
        {
            return Ok(());
        }
        let positions = self.next_ahead();
        let mut records = Vec::new();
        for position in positions {
            let entry = self.log_entry(position)?;
            let travels_apart = content_of(&entry.record).is_some_and(|(_, content)| content.root().is_some());
            if travels_apart {
                break;
            }
            let sequence = entry.record.id.sequence();
            let sent = SentRecord { held: self.is_held(&entry.record, entry.held)?, record: entry.record };
            let len = wayfs_wire::record_len(&sent);
            let Some(upstream) = self.upstream.as_mut() else { break };
            if upstream.ahead.items.iter().map(|(_, _, len)| len).sum::<usize>() + len > AHEAD_LEN {
                break;
            }
            upstream.ahead.items.push_back((position, sequence, len));
            self.sent_through = self.sent_through.max(sequence);
            records.push(sent);
        }
        if !records.is_empty() {
            self.tell_parent(Up::Ahead { records });
        }
        Ok(())
    }

    /// Positions that may go ahead now: those behind everything that was sent, if nothing durable waits for its turn.
    fn next_ahead(&self) -> Vec<u64> {
        let Some(upstream) = &self.upstream else { return Vec::new() };
        let own = self.config.origin;
        let last = upstream.ahead.items.back();
        let mut before = last.map_or_else(|| upstream.sent_of(own), |(_, sequence, _)| *sequence);
        let from = last.map_or(upstream.position, |(position, ..)| *position).max(upstream.position);
        let unanswered = before.saturating_sub(upstream.ahead.safe.max(upstream.applied_of(own)));
        let taken = usize::try_from(unanswered).unwrap_or(AHEAD_MAX).max(upstream.ahead.items.len());
        let mut next = Vec::new();
        for (position, item) in self.log.from(from + 1).take(AHEAD_MAX.saturating_sub(taken)) {
            let is_durable = item.ticket <= self.stored;
            // No number after a gap may be known to anyone before the gap is durable here: the next life counts on
            // having been at most so far ahead of its disk.
            let is_next = item.after == before && item.id.sequence() == before + 1;
            if is_durable || !item.tentative || !is_next {
                break;
            }
            before = item.id.sequence();
            next.push(position);
        }
        next
    }

    /// What was sent ahead has become durable here: the parent is told, and it counts as sent.
    pub(crate) fn confirm_ahead(&mut self) {
        let Some(upstream) = self.upstream.as_mut() else { return };
        let mut through = None;
        while let Some((position, sequence, len)) = upstream.ahead.items.front().copied() {
            let is_durable = self.log.ticket_of(position).is_none_or(|ticket| ticket <= self.stored);
            if !is_durable {
                break;
            }
            upstream.ahead.items.pop_front();
            upstream.position = upstream.position.max(position);
            upstream.note_flight(RecordId::new(self.config.origin, sequence).ok(), len);
            through = Some(sequence);
        }
        if let Some(through) = through {
            upstream.records_at = Some(self.now);
            self.tell_parent(Up::Durable { through });
        }
    }

    pub(crate) fn handle_safe(&mut self, peer: PeerId, through: u64) -> Result<(), Trouble> {
        if self.config.role != Role::Client || through > self.counters.sequence {
            return Err(Trouble::Peer(peer, "called safe what was not sent".to_owned()));
        }
        let mark = Mark { origin: self.config.origin, applied: 0, safe: through, visible: 0, stable: 0 };
        self.advance_marks(mark)?;
        self.release_safe(through)?;
        if let Some(upstream) = self.upstream.as_mut() {
            upstream.ahead.safe = upstream.ahead.safe.max(through);
        }
        Ok(())
    }
}

/// The parent's half.
impl<S: MetaStore> Replica<S> {
    /// A child's records are to be kept until they are durable there.
    pub(crate) fn handle_ahead(
        &mut self,
        peer: PeerId,
        origin: OriginId,
        records: Vec<SentRecord>,
    ) -> Result<(), Trouble> {
        let lie = |what: String| Err(Trouble::Peer(peer, what));
        let applied = wayfs_tree::applied(&self.tx(), origin)?;
        let Some(child) = self.children.by_origin.get_mut(&origin) else { return Ok(()) };
        if child.is_station || child.ahead.rows() + records.len() > AHEAD_MAX {
            return lie("sends too much ahead".to_owned());
        }
        let mut newest = child.ahead.newest().unwrap_or(applied).max(applied);
        for sent in records {
            let id = sent.record.id;
            if id.origin() == origin && id.sequence() <= applied {
                // It came by another way meanwhile: from a station that the child has left.
                continue;
            }
            if id.origin() != origin || id.sequence() <= newest || sent.record.follows() > newest {
                return lie(format!("sent record {id} ahead but {newest} is the last that came"));
            }
            if content_of(&sent.record).is_some_and(|(_, content)| content.root().is_some()) {
                return lie(format!("sent record {id} ahead, whose contents travel apart"));
            }
            newest = id.sequence();
            self.overlay.put_raw(record_key(table::AHEAD, id), pack(&sent));
            child.ahead.items.push_back(KeptRecord { sent, ticket: None });
        }
        self.staged.kept_ahead.insert(origin);
        self.sync_wanted = true;
        Ok(())
    }

    pub(crate) fn handle_durable(&mut self, peer: PeerId, origin: OriginId, through: u64) -> Result<(), Trouble> {
        let applied = wayfs_tree::applied(&self.tx(), origin)?;
        let Some(child) = self.children.by_origin.get_mut(&origin) else { return Ok(()) };
        if through > child.ahead.newest().unwrap_or(applied) {
            return Err(Trouble::Peer(peer, "calls durable what it did not send".to_owned()));
        }
        child.ahead.durable = child.ahead.durable.max(through);
        self.apply_ahead(peer, origin)
    }

    /// Our disk has come further: what waited for it takes effect.
    pub(crate) fn apply_all_ahead(&mut self) -> Result<(), Trouble> {
        for origin in self.children.ahead.clone() {
            if let Some(peer) = self.children.peer_of(origin) {
                self.apply_ahead(peer, origin)?;
            }
        }
        Ok(())
    }

    fn apply_ahead(&mut self, peer: PeerId, origin: OriginId) -> Result<(), Trouble> {
        let stored = self.stored;
        let mut through = None;
        while let Some(sent) =
            self.children.by_origin.get_mut(&origin).and_then(|child| child.ahead.pop_durable(stored))
        {
            self.staged.echo.insert(origin);
            through = Some(sent.record.id.sequence());
            self.overlay.delete_raw(record_key(table::AHEAD, sent.record.id));
            self.add_subject(origin, origin);
            self.take_child_record(peer, origin, false, sent.record, sent.held)?;
        }
        if let Some(through) = through {
            self.staged.safe_through.push((origin, through));
            self.can_wait = true;
        }
        if self.children.by_origin.get(&origin).is_none_or(|child| child.ahead.is_empty()) {
            self.children.ahead.remove(&origin);
        }
        Ok(())
    }

    /// Says *safe* of records that were durable before they took effect: nothing more is to be synced for it.
    pub(crate) fn tell_safe(&mut self) -> Result<(), StorageError> {
        for (origin, through) in std::mem::take(&mut self.children.safe_through) {
            let safe = self.mark_for_child(origin)?.safe.min(through);
            // Where others must hear first, the mark comes when they have.
            if safe == through
                && let Some(peer) = self.children.peer_of(origin)
            {
                let bytes = wayfs_wire::encode(&Message::Down(Down::Safe { through }));
                self.outputs.push_back(Output::Send { peer, bytes });
            } else {
                // The writer waits for what others are told.
                self.can_wait = false;
            }
        }
        Ok(())
    }

    /// A child begins a session: what it had sent ahead before it sends again, if it still has it.
    pub(crate) fn drop_ahead(&mut self, origin: OriginId) -> Result<(), StorageError> {
        for (key, _) in self.rows_ahead(origin)? {
            self.overlay.delete_raw(key);
        }
        Ok(())
    }

    /// A child did not come back within its lease after we restarted: what is kept of it may have been called safe,
    /// so it takes effect.
    pub(crate) fn adopt_ahead(&mut self, origin: OriginId) -> Result<(), Trouble> {
        for (key, value) in self.rows_ahead(origin)? {
            let SentRecord { record, held } = unpack(&value)?;
            self.overlay.delete_raw(key);
            let applied = wayfs_tree::applied(&self.tx(), origin)?;
            let is_next = record.id.sequence() > applied && record.follows() <= applied;
            let may_write = self.origin_image(origin)?.is_some_and(|image| image.admitted != Admitted::Reader);
            if is_next && may_write {
                self.staged.echo.insert(origin);
                self.take_child_record(PeerId(0), origin, false, record, held)?;
            }
        }
        Ok(())
    }

    fn rows_ahead(&self, origin: OriginId) -> Result<wayfs_types::Pairs, StorageError> {
        let (from, until) = origin_range(table::AHEAD, origin, 0);
        self.store.scan(&from, &until, 2 * AHEAD_MAX)
    }

    /// Origins of whom records are kept, at opening.
    pub(crate) fn origins_ahead(&self) -> Result<Vec<OriginId>, StorageError> {
        let mut origins = Vec::new();
        self.each(&[table::AHEAD], &[table::AHEAD + 1], |key, _| {
            let origin = parse_record_key(key)?.origin();
            if origins.last() != Some(&origin) {
                origins.push(origin);
            }
            Ok(())
        })?;
        Ok(origins)
    }
}

impl Child {
    /// Whether it has sent records ahead that have not taken effect.
    pub(crate) fn is_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }
}
