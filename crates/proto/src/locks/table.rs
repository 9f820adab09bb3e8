//! A table of advisory locks: byte ranges (`fcntl`) and whole files (`flock`), with
//! queues in order of arrival.
//!
//! Pure bookkeeping: who may hold what. `locks/requests.rs` connects it with users and children. While it is paused
//! (`locks/grace.rs`) nothing new is given.

mod delegated;
mod left;
#[cfg(test)]
mod tests;

use delegated::Delegations;
pub(crate) use delegated::Recall;
pub(crate) use left::ANY_OWNER;
use left::Left;
use std::collections::{BTreeMap, VecDeque};
use wayfs_types::request::{LockFamily, LockKind, LockOwner, LockRange, LockRequest, RequestId};
use wayfs_types::{FileId, OriginId};
use wayfs_wire::AskId;

/// Most locks held and waited for by one replica's users.
pub(crate) const LOCKS_MAX: usize = 16_384;

/// Whose lock: a replica's, and within it the kernel's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder {
    pub(crate) origin: OriginId,
    pub(crate) owner: LockOwner,
}

/// Who is told when a waiting lock is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A request of our own user.
    Own(RequestId),
    /// A child's question.
    Child(OriginId, AskId),
}

#[derive(Debug, Clone, Copy)]
struct Held {
    holder: Holder,
    range: LockRange,
    kind: LockKind,
    pid: u32,
    held_in: HeldIn,
}

/// In which session of its child, and which life of that, a lock was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeldIn {
    /// In its present session, or by a user of this replica.
    ThisSession,
    /// In a former session, and it has not reclaimed it in this one. The child knows what it has: what it gives to another of its
    /// own it has given.
    FormerSession,
    /// In a former life of a station, which does not know any more what its clients have. One of them may be on its way back to it.
    FormerLife,
}

impl Held {
    /// Whether a child that asks for something knows that nobody of its own has this.
    fn is_left_over_of(&self, origin: OriginId) -> bool {
        self.held_in == HeldIn::FormerSession && self.holder.origin == origin
    }
}

#[derive(Debug, Clone, Copy)]
struct Waiter {
    asker: Asker,
    holder: Holder,
    request: LockRequest,
    wish: Wish,
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Take,
    /// To have again, in a new session, what its replica has.
    Keep,
    /// To hear what is in the way, once that is known.
    Test,
}

#[derive(Debug, Default)]
struct File {
    held: Vec<Held>,
    waiting: VecDeque<Waiter>,
}

/// Which of a replica's locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    /// Claims on directories, which no program has.
    Claims,
}

impl Which {
    fn includes(self, family: LockFamily) -> bool {
        self == Self::All || family == LockFamily::Claim
    }
}

/// How an attempt at a lock ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Granted,
    Refused,
    Waiting,
    Deadlock,
    Overload,
}

/// What is known at last of a lock that waited while the table was paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decided {
    /// It was asked for.
    Taken(Verdict),
    /// What is in its way was asked for.
    Tested(Option<LockRequest>),
}

/// Locks of one family on one file.
type TableKey = (FileId, u8);

/// Locks of all files.
#[derive(Debug, Default)]
pub(crate) struct LockTable {
    files: BTreeMap<TableKey, File>,
    counts: BTreeMap<OriginId, usize>,
    /// What others have is not known yet: nothing new is given but claims, and all who ask wait.
    is_paused: bool,
    left: Left,
    delegations: Delegations,
}

const fn family_number(family: LockFamily) -> u8 {
    match family {
        LockFamily::Posix => 0,
        LockFamily::Flock => 1,
        LockFamily::Claim => 2,
    }
}

const fn family_of(number: u8) -> LockFamily {
    match number {
        0 => LockFamily::Posix,
        1 => LockFamily::Flock,
        _ => LockFamily::Claim,
    }
}

pub(crate) const fn overlaps(a: LockRange, b: LockRange) -> bool {
    a.start <= b.end && b.start <= a.end
}

const fn excludes(a: LockKind, b: LockKind) -> bool {
    !matches!((a, b), (LockKind::Read, LockKind::Read))
}

/// `flock` knows whole files only.
fn range_of(request: &LockRequest) -> LockRange {
    match request.family {
        LockFamily::Posix => request.range,
        LockFamily::Flock | LockFamily::Claim => LockRange::WHOLE,
    }
}

impl Held {
    fn request(&self, file: FileId, family: LockFamily) -> LockRequest {
        let (owner, pid, range, kind) = (self.holder.owner, self.pid, self.range, self.kind);
        LockRequest { file, family, owner, pid, range, kind, wait: false }
    }
}

impl File {
    /// What stands in the way of a lock. What a child held in a former session does not stand in its own way, unless it forgot it.
    fn obstacles(&self, holder: Holder, range: LockRange, kind: LockKind) -> impl Iterator<Item = &Held> {
        self.held.iter().filter(move |held| {
            let is_left_over = held.is_left_over_of(holder.origin);
            held.holder != holder && !is_left_over && overlaps(held.range, range) && excludes(held.kind, kind)
        })
    }

    fn is_free(&self, holder: Holder, range: LockRange, kind: LockKind) -> bool {
        self.obstacles(holder, range, kind).next().is_none()
    }

    /// Takes a range away from a holder; what lies beside it stays.
    fn cut(&mut self, holder: Holder, range: LockRange) {
        let mut kept = Vec::with_capacity(self.held.len() + 1);
        for held in self.held.drain(..) {
            if held.holder != holder || !overlaps(held.range, range) {
                kept.push(held);
                continue;
            }
            if held.range.start < range.start {
                kept.push(Held { range: LockRange { start: held.range.start, end: range.start - 1 }, ..held });
            }
            if held.range.end > range.end {
                kept.push(Held { range: LockRange { start: range.end + 1, end: held.range.end }, ..held });
            }
        }
        self.held = kept;
    }

    /// Gives a range to a holder, joined with neighbours of its own of the same kind.
    fn grant(&mut self, holder: Holder, mut range: LockRange, kind: LockKind, pid: u32) {
        self.cut(holder, range);
        self.held.retain(|held| {
            let joins = held.holder == holder
                && held.kind == kind
                && held.held_in == HeldIn::ThisSession
                && (held.range.end.checked_add(1) == Some(range.start)
                    || range.end.checked_add(1) == Some(held.range.start));
            if joins {
                range = LockRange { start: held.range.start.min(range.start), end: held.range.end.max(range.end) };
            }
            !joins
        });
        self.held.push(Held { holder, range, kind, pid, held_in: HeldIn::ThisSession });
    }

    /// Grants waiters in order, as far as nothing stands in their way; none overtakes one before it
    /// that it would exclude.
    fn wake(&mut self) -> Vec<Waiter> {
        let mut granted = Vec::new();
        let mut left: VecDeque<Waiter> = VecDeque::new();
        for waiter in std::mem::take(&mut self.waiting) {
            let range = range_of(&waiter.request);
            // Who does not wait for locks would have overtaken them, had it been known at once what is in its way.
            let overtakes = left.iter().any(|before| {
                waiter.request.wait
                    && before.takes()
                    && before.holder != waiter.holder
                    && overlaps(range_of(&before.request), range)
                    && excludes(before.request.kind, waiter.request.kind)
            });
            if !waiter.takes() || overtakes || !self.is_free(waiter.holder, range, waiter.request.kind) {
                left.push_back(waiter);
            } else {
                self.grant(waiter.holder, range, waiter.request.kind, waiter.request.pid);
                granted.push(waiter);
            }
        }
        self.waiting = left;
        granted
    }

    fn is_empty(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }
}

impl LockTable {
    fn count(&mut self, origin: OriginId) {
        let of = |file: &File| {
            file.held.iter().filter(|held| held.holder.origin == origin).count()
                + file.waiting.iter().filter(|waiter| waiter.holder.origin == origin).count()
        };
        let count = self.files.values().map(of).sum();
        self.counts.insert(origin, count);
    }

    fn is_full(&mut self, origin: OriginId) -> bool {
        let is_full = |counts: &BTreeMap<OriginId, usize>| counts.get(&origin).is_some_and(|count| *count >= LOCKS_MAX);
        if is_full(&self.counts) {
            self.count(origin);
        }
        is_full(&self.counts)
    }

    fn pauses(&self, family: LockFamily) -> bool {
        self.is_paused && family != LockFamily::Claim
    }

    /// Takes a lock, or queues for it.
    pub(crate) fn lock(&mut self, asker: Asker, holder: Holder, request: LockRequest) -> Verdict {
        if self.pauses(request.family) && !self.has_kept(holder, &request) {
            return self.queue(Waiter { asker, holder, request, wish: Wish::Take });
        }
        self.decide(Waiter { asker, holder, request, wish: Wish::Take })
    }

    fn queue(&mut self, waiter: Waiter) -> Verdict {
        if self.is_full(waiter.holder.origin) {
            return Verdict::Overload;
        }
        *self.counts.entry(waiter.holder.origin).or_insert(0) += 1;
        let key = (waiter.request.file, family_number(waiter.request.family));
        self.files.entry(key).or_default().waiting.push_back(waiter);
        self.touch(key);
        Verdict::Waiting
    }

    /// The same, also while the table is paused: for what its owner had before.
    pub(crate) fn keep(&mut self, asker: Asker, holder: Holder, request: LockRequest) -> Verdict {
        self.decide(Waiter { asker, holder, request, wish: Wish::Keep })
    }

    fn decide(&mut self, waiter: Waiter) -> Verdict {
        let Waiter { holder, request, .. } = waiter;
        if self.is_full(holder.origin) {
            return Verdict::Overload;
        }
        let range = range_of(&request);
        let file = self.files.entry((request.file, family_number(request.family))).or_default();
        if file.is_free(holder, range, request.kind) {
            file.grant(holder, range, request.kind, request.pid);
            *self.counts.entry(holder.origin).or_insert(0) += 1;
            return Verdict::Granted;
        }
        if !request.wait && !self.only_undecided_exclude(holder, &request) {
            return Verdict::Refused;
        }
        if request.family == LockFamily::Posix && self.would_deadlock(holder, &request) {
            return Verdict::Deadlock;
        }
        self.queue(waiter)
    }

    /// Gives nothing new until `resume`, but claims.
    pub(crate) fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Decides what waited meanwhile, for each file in the order of its coming. Who waits on is not named.
    pub(crate) fn resume(&mut self) -> Vec<(Asker, LockRequest, Decided)> {
        self.is_paused = false;
        let mut decided = Vec::new();
        let waiting: Vec<Waiter> = self.files.values_mut().flat_map(|file| std::mem::take(&mut file.waiting)).collect();
        for waiter in waiting {
            let Waiter { asker, holder, request, wish } = waiter;
            let what = match wish {
                Wish::Test => Decided::Tested(self.test(holder, &request)),
                Wish::Take => Decided::Taken(self.lock(asker, holder, request)),
                Wish::Keep => Decided::Taken(self.keep(asker, holder, request)),
            };
            if what != Decided::Taken(Verdict::Waiting) {
                decided.push((asker, request, what));
            }
        }
        self.files.retain(|_, file| !file.is_empty());
        decided
    }

    /// Whether what is in a lock's way is not known yet: its asker is told by `resume`, or when a child returned the file.
    pub(crate) fn defers_test(&mut self, asker: Asker, holder: Holder, request: LockRequest) -> Option<Verdict> {
        let is_deferred = self.pauses(request.family) || self.is_for_a_child_to_say(holder, &request);
        is_deferred.then(|| self.queue(Waiter { asker, holder, request, wish: Wish::Test }))
    }

    /// Whether some chain of holders that wait for others ends at this one.
    fn would_deadlock(&self, holder: Holder, request: &LockRequest) -> bool {
        let mut look = self.holders_against(holder, request);
        let mut seen = look.clone();
        while let Some(other) = look.pop() {
            if other == holder {
                return true;
            }
            for file in self.files.values() {
                for waiter in file.waiting.iter().filter(|waiter| waiter.holder == other && waiter.takes()) {
                    for next in self.holders_against(other, &waiter.request) {
                        if !seen.contains(&next) {
                            seen.push(next);
                            look.push(next);
                        }
                    }
                }
            }
        }
        false
    }

    fn holders_against(&self, holder: Holder, request: &LockRequest) -> Vec<Holder> {
        let Some(file) = self.files.get(&(request.file, family_number(request.family))) else { return Vec::new() };
        let range = range_of(request);
        file.held
            .iter()
            .filter(|held| held.holder != holder && overlaps(held.range, range) && excludes(held.kind, request.kind))
            .map(|held| held.holder)
            .collect()
    }

    /// What stands in a lock's way: of several the first in the file. What clients have that left is given to whoever asks for it.
    pub(crate) fn test(&self, holder: Holder, request: &LockRequest) -> Option<LockRequest> {
        let file = self.files.get(&(request.file, family_number(request.family)))?;
        let obstacles = file.obstacles(holder, range_of(request), request.kind);
        let there = obstacles.filter(|held| !self.left.clients.contains(&held.holder.origin));
        let held = there.min_by_key(|held| held.range.start)?;
        Some(held.request(request.file, request.family))
    }

    /// Releases a range. Answers who is granted thereby.
    pub(crate) fn unlock(
        &mut self,
        holder: Holder,
        file: FileId,
        family: LockFamily,
        range: LockRange,
    ) -> Vec<(Asker, LockRequest)> {
        let key = (file, family_number(family));
        let Some(row) = self.files.get_mut(&key) else { return Vec::new() };
        row.cut(holder, if family == LockFamily::Flock { LockRange::WHOLE } else { range });
        self.wake(key)
    }

    /// A range is let go that its holder asked to keep, and of which it is not known yet whether others have it. Answers the questions that
    /// wait no more: who let go of a part keeps none of it.
    pub(crate) fn stop_keeping(
        &mut self,
        holder: Holder,
        file: FileId,
        family: LockFamily,
        range: LockRange,
    ) -> Vec<Asker> {
        let Some(row) = self.files.get_mut(&(file, family_number(family))) else { return Vec::new() };
        let range = if family == LockFamily::Flock { LockRange::WHOLE } else { range };
        let is_let_go = |waiter: &Waiter| {
            waiter.wish == Wish::Keep && waiter.holder == holder && overlaps(range_of(&waiter.request), range)
        };
        let (ended, waiting): (VecDeque<_>, _) = std::mem::take(&mut row.waiting).into_iter().partition(is_let_go);
        row.waiting = waiting;
        ended.into_iter().map(|waiter| waiter.asker).collect()
    }

    fn wake(&mut self, key: TableKey) -> Vec<(Asker, LockRequest)> {
        let is_paused = self.pauses(family_of(key.1));
        let Some(row) = self.files.get_mut(&key) else { return Vec::new() };
        let granted = if is_paused { Vec::new() } else { row.wake() };
        if row.is_empty() {
            self.files.remove(&key);
        } else if !row.waiting.is_empty() {
            self.touch(key);
        }
        granted.into_iter().map(|waiter| (waiter.asker, waiter.request)).collect()
    }

    /// A lock was granted in place of another of its holder's, which may have been in the way of more.
    pub(crate) fn wake_beside(&mut self, request: &LockRequest) -> Vec<(Asker, LockRequest)> {
        self.wake((request.file, family_number(request.family)))
    }

    /// Someone stopped waiting.
    pub(crate) fn give_up(&mut self, asker: Asker) -> Vec<(Asker, LockRequest)> {
        let of =
            |(key, file): (&TableKey, &File)| file.waiting.iter().any(|waiter| waiter.asker == asker).then_some(*key);
        let Some(key) = self.files.iter().find_map(of) else { return Vec::new() };
        if let Some(file) = self.files.get_mut(&key) {
            file.waiting.retain(|waiter| waiter.asker != asker);
        }
        self.wake(key)
    }

    /// A child's new session: what it does not reclaim before it starts is released then. Its waiters are gone.
    pub(crate) fn mark_stale(&mut self, origin: OriginId) {
        for file in self.files.values_mut() {
            for held in
                file.held.iter_mut().filter(|held| held.holder.origin == origin && held.held_in == HeldIn::ThisSession)
            {
                held.held_in = HeldIn::FormerSession;
            }
            file.waiting.retain(|waiter| waiter.holder.origin != origin);
        }
    }

    /// The session is one of a station that forgot what its clients have: until they are back, or are over, nobody else gets it.
    pub(crate) fn mark_forgotten(&mut self, station: OriginId) {
        let held = self.files.values_mut().flat_map(|file| &mut file.held);
        for held in held.filter(|held| held.holder.origin == station && held.held_in == HeldIn::FormerSession) {
            held.held_in = HeldIn::FormerLife;
        }
    }

    /// Whether a replica has locks of a session that is over, which it has not claimed again.
    pub(crate) fn has_stale(&self, origin: OriginId) -> bool {
        let mut held = self.files.values().flat_map(|file| &file.held);
        held.any(|held| held.held_in != HeldIn::ThisSession && held.holder.origin == origin)
    }

    /// Releases all of a replica's locks that a predicate names.
    fn release_where(
        &mut self,
        which: Which,
        origin: OriginId,
        drop: impl Fn(&Held) -> bool,
    ) -> Vec<(Asker, LockRequest)> {
        let is_meant = |(_, family): &TableKey| which.includes(family_of(*family));
        let keys: Vec<TableKey> = self.files.keys().copied().filter(is_meant).collect();
        let mut granted = Vec::new();
        for key in keys {
            let Some(file) = self.files.get_mut(&key) else { continue };
            let before = file.held.len() + file.waiting.len();
            file.held.retain(|held| held.holder.origin != origin || !drop(held));
            if file.held.len() + file.waiting.len() < before || file.is_empty() {
                granted.extend(self.wake(key));
            }
        }
        self.count(origin);
        granted
    }

    /// Releases what a child did not reclaim.
    pub(crate) fn release_stale(&mut self, origin: OriginId, which: Which) -> Vec<(Asker, LockRequest)> {
        self.release_where(which, origin, |held| held.held_in != HeldIn::ThisSession)
    }

    /// Forgets what a replica waits for: its questions were of a session that is over, so nobody would hear an answer, and what
    /// was granted would be nobody's.
    pub(crate) fn forget_waiting(&mut self, origin: OriginId) -> Vec<(Asker, LockRequest)> {
        let waits = |file: &File| file.waiting.iter().any(|waiter| waiter.holder.origin == origin);
        let keys: Vec<_> = self.files.iter().filter(|(_, file)| waits(file)).map(|(key, _)| *key).collect();
        let mut granted = Vec::new();
        for key in keys {
            if let Some(file) = self.files.get_mut(&key) {
                file.waiting.retain(|waiter| waiter.holder.origin != origin);
            }
            granted.extend(self.wake(key));
        }
        self.count(origin);
        granted
    }

    /// Releases what a replica has, and all that it waits for first.
    pub(crate) fn release_all(&mut self, origin: OriginId, which: Which) -> Vec<(Asker, LockRequest)> {
        for file in self.files.values_mut() {
            file.waiting.retain(|waiter| waiter.holder.origin != origin);
        }
        self.release_where(which, origin, |_| true)
    }

    /// Everything that a replica holds.
    pub(crate) fn held_by(&self, origin: OriginId) -> Vec<LockRequest> {
        let mut held = Vec::new();
        for ((file, family), row) in &self.files {
            let family = family_of(*family);
            let its = row.held.iter().filter(|held| held.holder.origin == origin);
            held.extend(its.map(|held| held.request(*file, family)));
        }
        held
    }

    /// What one owner holds in a range of a file, cut to the range and in order.
    pub(crate) fn held_in(
        &self,
        holder: Holder,
        file: FileId,
        family: LockFamily,
        range: LockRange,
    ) -> Vec<LockRequest> {
        let Some(row) = self.files.get(&(file, family_number(family))) else { return Vec::new() };
        let range = if family == LockFamily::Flock { LockRange::WHOLE } else { range };
        let own = row.held.iter().filter(|held| held.holder == holder && overlaps(held.range, range));
        let mut held: Vec<LockRequest> = own
            .map(|held| {
                let range = LockRange { start: held.range.start.max(range.start), end: held.range.end.min(range.end) };
                let (owner, pid, kind) = (holder.owner, held.pid, held.kind);
                LockRequest { file, family, owner, pid, range, kind, wait: false }
            })
            .collect();
        held.sort_by_key(|held| held.range.start);
        held
    }

    /// Takes over what the parent granted.
    pub(crate) fn mirror(&mut self, holder: Holder, request: &LockRequest) {
        let file = self.files.entry((request.file, family_number(request.family))).or_default();
        file.grant(holder, range_of(request), request.kind, request.pid);
    }

    /// Whether a replica holds anything.
    pub(crate) fn is_holder(&self, origin: OriginId) -> bool {
        self.files.values().any(|file| file.held.iter().any(|held| held.holder.origin == origin))
    }

    /// Whether a replica has, or waits for, a lock that a program may think to have: any but a claim.
    pub(crate) fn is_of_programs(&self, origin: OriginId) -> bool {
        self.files.iter().filter(|((_, family), _)| family_of(*family) != LockFamily::Claim).any(|(_, file)| {
            file.held.iter().any(|held| held.holder.origin == origin)
                || file.waiting.iter().any(|waiter| waiter.holder.origin == origin)
        })
    }

    /// Whether an owner still has all of what it wants to keep in a new session of its replica.
    pub(crate) fn has_kept(&self, holder: Holder, request: &LockRequest) -> bool {
        let held = self.held_in(holder, request.file, request.family, range_of(request));
        let mut at = Some(range_of(request).start);
        for part in held.iter().filter(|part| part.kind == LockKind::Write || part.kind == request.kind) {
            if at == Some(part.range.start) {
                at = part.range.end.checked_add(1);
            }
        }
        !held.is_empty() && at.is_none_or(|at| at > range_of(request).end)
    }

    /// Whether nobody holds or waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}
