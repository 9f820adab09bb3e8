//! The log: records that the parent has not confirmed, and (at a client) those that the home has
//! not ordered yet and that another station may need.
//!
//! A station's log goes over all origins below it, in the order in which it took
//! them. Each stored entry remembers which keys its record touched and what
//! their images hashed to afterwards; so the parent's images of them can be
//! recognised as an echo without replaying anything.

use crate::contents::tally::{OwnProgress, Tally};
use crate::contents::weight::Weight;
use crate::state::log_item::LogItem;
use crate::state::position::LogPosition;
use crate::state::tables::pack;
use std::collections::{BTreeMap, VecDeque};
use wayfs_tree::Effect;
use wayfs_types::{Chain, Digest, FileId, Image, Inode, Key, Life, Op, OriginId, RecordId, Ticket, WallTime};

/// Cancelled records of which is known with which others they count.
const BOUND_MAX: usize = 65_536;

/// The log's index.
#[derive(Debug, Default)]
pub(crate) struct Log {
    items: BTreeMap<LogPosition, LogItem>,
    /// Tentative records by origin: sequence and position.
    tentative: BTreeMap<OriginId, VecDeque<(u64, LogPosition)>>,
    tentative_len: u64,
    tentative_weight: Weight,
    structural: u64,
    /// Files and directories whose time tentative records set, with the position of the last that does.
    dated: BTreeMap<FileId, LogPosition>,
    /// Client: its cancelled records, by sequence, each with the one that it counts with.
    bound: BTreeMap<u64, u64>,
    /// Client: its records that are not safe.
    pub(crate) not_safe: Tally,
    /// Client: its records that are not visible.
    pub(crate) not_visible: Tally,
    /// How many of an origin's tentative records were looked at in their order.
    #[cfg(test)]
    pub(crate) looks: std::cell::Cell<usize>,
}

impl Log {
    /// Whether a record comes after all of its origin that are tentative.
    pub(super) fn takes(&self, item: &LogItem) -> bool {
        let last = self.tentative.get(&item.id.origin()).and_then(|queue| queue.back());
        !item.tentative || last.is_none_or(|(sequence, _)| *sequence < item.id.sequence())
    }

    pub(crate) fn append(&mut self, position: LogPosition, item: LogItem) {
        if item.tentative {
            let queue = self.tentative.entry(item.id.origin()).or_default();
            debug_assert!(
                queue.back().is_none_or(|last| *last < (item.id.sequence(), position)),
                "an origin's records come in order"
            );
            queue.push_back((item.id.sequence(), position));
            self.tentative_len += 1;
            self.tentative_weight.add(item.weight);
            self.structural += u64::from(item.structural);
            self.dated.extend(item.dated.map(|file| (file, position)));
        }
        self.not_safe.append(&item);
        self.not_visible.append(&item);
        self.items.insert(position, item);
    }

    /// A client's record was cancelled in favour of a later one: what it was about has come somewhere when that one has.
    pub(crate) fn bind(&mut self, cancelled: RecordId, with: u64) {
        self.bound.insert(cancelled.sequence(), with);
        // Too many count together: that is later than need be, and never too early.
        while self.bound.len() > BOUND_MAX
            && let (Some((first, one)), Some((_, other))) = (self.bound.pop_first(), self.bound.pop_first())
        {
            self.bound.insert(first, one.max(other));
        }
    }

    /// How far own records have come of which all before a sequence have: not to one that was cancelled and whose
    /// meaning is still on its way.
    pub(crate) fn whole_through(&self, sequence: u64) -> u64 {
        let mut through = sequence;
        for (cancelled, with) in self.bound.range(..=sequence).rev() {
            if *cancelled <= through && *with > through {
                through = cancelled - 1;
            }
        }
        through
    }

    /// Up to a sequence everything has come wherever it goes.
    pub(crate) fn unbind(&mut self, through: u64) {
        self.bound.retain(|_, with| *with > through);
    }

    /// Own records have come as far as this.
    pub(crate) fn advance(&mut self, progress: OwnProgress) {
        self.not_safe.advance(&self.items, progress.safe);
        self.not_visible.advance(&self.items, progress.visible);
    }

    /// The log is of another origin from now on, of which nothing is safe or visible.
    pub(crate) fn tally_anew(&mut self) {
        self.bound.clear();
        (self.not_safe, self.not_visible) = (Tally::default(), Tally::default());
        for item in self.items.values() {
            self.not_safe.append(item);
            self.not_visible.append(item);
        }
    }

    /// Another record stands in a record's place, as of a batch: it was cancelled. Nobody may hear of the new one before
    /// that batch is durable, or the old one would be another history after a crash.
    pub(crate) fn rewrite(&mut self, position: LogPosition, weight: Weight, ticket: Ticket) {
        if let Some(mut item) = self.items.remove(&position) {
            (item.rewritten, item.ticket) = (true, ticket);
            self.not_safe.forget(&item);
            self.not_visible.forget(&item);
            if item.tentative {
                self.tentative_weight.subtract(item.weight);
                self.tentative_weight.add(weight);
            }
            item.weight = weight;
            self.not_safe.append(&item);
            self.not_visible.append(&item);
            self.items.insert(position, item);
        }
    }

    /// What the records weigh that the parent has not confirmed.
    pub(crate) fn tentative_weight(&self) -> Weight {
        self.tentative_weight
    }

    /// When the first record was written that the parent has not confirmed.
    pub(crate) fn oldest_tentative(&self) -> Option<WallTime> {
        let first = self.tentative.values().filter_map(|queue| queue.front()).map(|(_, position)| *position).min();
        first.and_then(|position| self.items.get(&position)).map(|item| item.time)
    }

    /// All records, by position.
    pub(crate) fn items(&self) -> &BTreeMap<LogPosition, LogItem> {
        &self.items
    }

    /// Tentative no more: all of its origin up to this record.
    pub(crate) fn confirm(&mut self, record: RecordId) {
        let Some(queue) = self.tentative.get_mut(&record.origin()) else { return };
        while let Some((sequence, position)) = queue.front().copied() {
            if sequence > record.sequence() {
                break;
            }
            queue.pop_front();
            self.tentative_len -= 1;
            if let Some(item) = self.items.get_mut(&position) {
                item.tentative = false;
                self.tentative_weight.subtract(item.weight);
                self.structural -= u64::from(item.structural);
                forget_date(&mut self.dated, item.dated, position);
            }
        }
        if queue.is_empty() {
            self.tentative.remove(&record.origin());
        }
    }

    /// A record was replayed in a batch. Upon another history it is another one, as if it was rewritten; and it may be about
    /// another file than before.
    pub(crate) fn replayed(&mut self, position: LogPosition, applied: &Applied, ticket: Ticket) {
        let Some(item) = self.items.get_mut(&position) else { return };
        if item.chain != applied.chain {
            (item.chain, item.rewritten, item.ticket) = (applied.chain, true, ticket);
        }
        let before = std::mem::replace(&mut item.dated, applied.dated);
        if before != applied.dated {
            forget_date(&mut self.dated, before, position);
        }
        if let Some(file) = applied.dated {
            let last = self.dated.entry(file).or_insert(position);
            *last = position.max(*last);
        }
    }

    /// Whether a record after a position, and not confirmed, sets the time of a file or directory.
    pub(crate) fn is_dated_after(&self, file: FileId, position: LogPosition) -> bool {
        self.dated.get(&file).is_some_and(|last| *last > position)
    }

    /// Tentative records of an origin, in order.
    pub(crate) fn tentative_of(&self, origin: OriginId) -> impl Iterator<Item = (LogPosition, &LogItem)> {
        let positions = self.tentative.get(&origin).into_iter().flatten();
        #[cfg(test)]
        let positions = positions.inspect(|_| self.looks.set(self.looks.get() + 1));
        positions.filter_map(|(_, position)| Some((*position, self.items.get(position)?)))
    }

    /// The running hash after one of the records that are still in the log. Those that are confirmed are searched for.
    pub(crate) fn chain_at(&self, record: RecordId) -> Option<Chain> {
        match self.position_of(record) {
            Some(position) => self.items.get(&position).map(|item| item.chain),
            None => self.items.values().find(|item| item.id == record).map(|item| item.chain),
        }
    }

    /// The position of a client's own record, confirmed or not: they stand in their order.
    pub(crate) fn place_of(&self, record: RecordId) -> Option<LogPosition> {
        let (mut from, mut until) = (self.items.first_key_value()?.0.0, self.newest()?.next().0);
        while from < until {
            let half = from + (until - from) / 2;
            let (position, item) = self.items.range(LogPosition(half)..LogPosition(until)).next()?;
            if item.id == record {
                return Some(*position);
            }
            if item.id.sequence() < record.sequence() { from = position.next().0 } else { until = half }
        }
        None
    }

    /// What memory keeps of a place in the log.
    pub(crate) fn item(&self, position: LogPosition) -> Option<&LogItem> {
        self.items.get(&position)
    }

    /// Takes a confirmed record out.
    pub(crate) fn forget(&mut self, position: LogPosition) {
        if let Some(item) = self.items.remove(&position) {
            self.not_safe.forget(&item);
            self.not_visible.forget(&item);
            forget_date(&mut self.dated, item.dated, position);
        }
    }

    /// Positions of an origin's tentative records up to a sequence.
    pub(crate) fn tentative_through(&self, origin: OriginId, sequence: u64) -> Vec<LogPosition> {
        let queue = self.tentative.get(&origin).into_iter().flatten();
        queue.take_while(|(at, _)| *at <= sequence).map(|(_, position)| *position).collect()
    }

    /// First position that is still tentative once each of these origins is confirmed through its sequence.
    pub(crate) fn first_tentative_after(&self, applied: &BTreeMap<OriginId, u64>) -> Option<LogPosition> {
        let first = |(origin, queue): (&OriginId, &VecDeque<(u64, LogPosition)>)| {
            let through = applied.get(origin).copied().unwrap_or(0);
            // Sequences rise along the queue, so the first beyond is found by halving.
            let at = queue.partition_point(|(sequence, _)| *sequence <= through);
            queue.get(at).map(|(_, position)| *position)
        };
        self.tentative.iter().filter_map(first).min()
    }

    /// Whether any tentative record moved or removed a directory.
    pub(crate) fn is_structural(&self) -> bool {
        self.structural > 0
    }

    /// Records that the parent has not confirmed.
    pub(crate) fn tentative_len(&self) -> u64 {
        self.tentative_len
    }

    /// All records from a position on, in order.
    pub(crate) fn from(&self, position: LogPosition) -> impl Iterator<Item = (LogPosition, &LogItem)> {
        self.items.range(position..).map(|(position, item)| (*position, item))
    }

    /// Position of the last record.
    pub(crate) fn newest(&self) -> Option<LogPosition> {
        self.items.last_key_value().map(|(position, _)| *position)
    }

    /// Origins with tentative records.
    pub(crate) fn origins(&self) -> impl Iterator<Item = OriginId> {
        self.tentative.keys().copied()
    }

    /// The batch that holds a tentative record.
    pub(crate) fn ticket_of(&self, record: RecordId) -> Option<Ticket> {
        self.items.get(&self.position_of(record)?).map(|item| item.ticket)
    }

    /// A tentative record's position.
    pub(crate) fn position_of(&self, record: RecordId) -> Option<LogPosition> {
        let queue = self.tentative.get(&record.origin())?;
        let at = queue.binary_search_by_key(&record.sequence(), |(sequence, _)| *sequence).ok()?;
        queue.get(at).map(|(_, position)| *position)
    }
}

/// A record sets the time of a file no more.
fn forget_date(dated: &mut BTreeMap<FileId, LogPosition>, file: Option<FileId>, position: LogPosition) {
    if let Some(file) = file
        && dated.get(&file) == Some(&position)
    {
        dated.remove(&file);
    }
}

/// The file whose inode a record touched that sets a time: not that which it names, where that means another.
pub(super) fn dated_by(op: &Op, touched: &[(Key, u64)]) -> Option<FileId> {
    if !matches!(op, Op::SetAttr { change, .. } if change.mtime.is_some()) {
        return None;
    }
    touched.iter().find_map(|(key, _)| if let Key::Inode(file) = key { Some(*file) } else { None })
}

/// What an image is recognised by when it comes back from the parent.
///
/// Times and the count of subdirectories of a directory are left out: others who
/// make files in it change them, too, and that must not cost a replay.
pub(crate) fn echo_hash(image: Option<&Image>) -> u64 {
    let bytes = match image {
        None => return 0,
        Some(Image::Inode(inode)) if inode.is_directory() => {
            let mut plain = Inode::clone(inode);
            plain.mtime = WallTime::EPOCH;
            plain.ctime = WallTime::EPOCH;
            plain.subdirectories = 0;
            pack(&plain)
        }
        // Another history is noticed by itself (`history`), and costs no replay.
        Some(Image::Origin(origin)) => pack(&(origin.applied, &origin.label, origin.node, origin.admitted)),
        Some(image) => pack(image),
    };
    let digest = Digest::of(&bytes);
    let (head, _) = digest.as_bytes().split_at(8);
    u64::from_be_bytes(head.try_into().expect("eight bytes")).max(1)
}

/// What became of a record that was applied on top of the view.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) effect: Effect,
    /// It moved or removed a directory.
    pub(crate) structural: bool,
    /// The running hash of its origin after it.
    pub(crate) chain: Chain,
    /// The life of the writer's store in which it was written.
    pub(crate) life: Life,
    /// File or directory whose time it set.
    pub(crate) dated: Option<FileId>,
}
