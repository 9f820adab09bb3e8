//! Quotas of members and of a volume: how they are kept to, and how a client learns what it has left.
//!
//! A server counts what its view shows ([`crate::members::usage`]), and refuses what a client sends beyond: the session ends, and nothing of that
//! message is kept. It tells each client before the welcome, and whenever that is news, what is left, and up to which of its records that is counted;
//! the client takes off what it wrote since. So an honest client refuses by itself, before anything is acknowledged. What it wrote
//! where nobody told it (offline, a quota that was lowered, a volume's quota that others used up meanwhile) waits in its log, as for
//! a full disk. If it cannot know that it goes beyond, it is refused once; from then on it is told so, and sends
//! again when there is more room, or when it removed something itself.
//!
//! What a station took its home takes, too, whatever the sums are there: it was acknowledged.

use crate::api::PeerId;
use crate::children::Children;
use crate::members::Members;
use crate::members::quota_left::{Grown, Growth, Left};
use crate::members::usage_sums::{ALL, Change, Usage, UsageChange};
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::{GrantError, StepError};
use crate::state::overlay::Changed;
use std::collections::BTreeSet;
use wayfs_types::request::Change as Asked;
use wayfs_types::{
    Admitted, FileId, Image, Key, MetaStore, NodeId, Origin, OriginId, Quota, StorageError, Time, WallTime,
};
use wayfs_wire::{Full, QuotaRoom, Room, ServerRoom};

/// A server takes this part of a quota beyond it, at least [`SLACK_MIN`] bytes and files: several clients may each use what was left
/// for all of them.
const SLACK_PART: u64 = 64;
const SLACK_MIN: u64 = 64;
/// A client is told anew when this part of its quota was used.
const NEWS_PART: u64 = 128;

fn slack(max: u64) -> u64 {
    (max / SLACK_PART).max(SLACK_MIN)
}

impl<S: MetaStore> Replica<S> {
    /// Home only: sets the quota of a machine, or of the whole volume. In force at once. Answers how many origins the machine has.
    ///
    /// # Errors
    /// [`GrantError::NotHome`], or the store failed.
    pub fn set_quota(
        &mut self,
        now: Time,
        wall: WallTime,
        node: Option<NodeId>,
        quota: Quota,
    ) -> Result<usize, GrantError> {
        if !self.core.orders() {
            return Err(GrantError::NotHome);
        }
        self.core.now = self.core.now.max(now);
        self.core.wall = wall;
        let mut count = 0;
        for (origin, mut image) in self.core.state.origins()? {
            let is_meant = match node {
                Some(node) => image.node == node && image.admitted != Admitted::Home,
                None => image.admitted == Admitted::Home,
            };
            if is_meant {
                image.limits.quota = quota;
                self.core.state.put_image(Key::Origin(origin), Some(Image::Origin(image.into())))?;
                count += 1;
            }
        }
        self.finish_admission()?;
        Ok(count)
    }

    /// Reads quotas anew if a change of origins is one of quotas.
    pub(crate) fn handle_quotas_changed(&mut self, changed: &[Changed]) -> Result<(), StorageError> {
        let of = |image: &Option<Image>| match image {
            Some(Image::Origin(image)) => (image.limits.quota, image.admitted == Admitted::Home),
            _ => (Quota::NONE, false),
        };
        if self.core.serves() && changed.iter().any(|change| of(&change.old) != of(&change.new)) {
            self.note_quotas()?;
        }
        Ok(())
    }

    /// Quotas may have changed: those of the children are read anew, and they are told.
    pub(crate) fn note_quotas(&mut self) -> Result<(), StorageError> {
        self.members.quotas.of_volume = Members::quota_of_volume(&self.core)?;
        let clients: Vec<OriginId> = self.children.all().filter(|child| self.children.is_client(*child)).collect();
        for child in clients {
            Members::read_quota(&mut self.core, &mut self.children, child)?;
            self.tell_rooms_to(child);
        }
        Ok(())
    }

    /// Tells clients what they have left, where that is news: those that have something to hear anyway, those that wait, and all when
    /// much of the volume's quota was used or became free.
    pub(crate) fn tell_quotas(&mut self) -> Result<(), StorageError> {
        let mut due: BTreeSet<OriginId> = self.members.quotas.refused.keys().copied().collect();
        if self.members.quotas.of_volume == Quota::NONE {
            due.extend(self.children.busy().filter(|child| self.children.quota_of(*child) != Quota::NONE));
        } else {
            due.extend(self.children.busy());
            let (quota, used) = (self.members.quotas.of_volume, Members::usage_of_volume(&self.core)?);
            if is_news(Left::of(quota, used), Left::of(quota, self.members.quotas.told), quota) {
                self.members.quotas.told = used;
                due.extend(self.children.all());
            }
        }
        due.into_iter().try_for_each(|child| self.tell_quota(child))
    }

    /// Tells a client what it has left, if that is news.
    fn tell_quota(&mut self, child: OriginId) -> Result<(), StorageError> {
        let rooms = self.members.quota_rooms(&self.core, &self.children, child)?;
        if self.children.peer_of(child).is_none() {
            return Ok(());
        }
        let of_member = self.children.quota_of(child);
        let told: Vec<&ServerRoom> =
            self.children.rooms_told(child).iter().filter(|room| room.quota.is_some()).collect();
        let is_same = |(now, told): (&ServerRoom, &ServerRoom)| {
            let is_refused = |server: &ServerRoom| server.quota.is_some_and(|quota| quota.is_refused);
            let quota =
                if now.quota.is_some_and(|quota| quota.is_members) { of_member } else { self.members.quotas.of_volume };
            is_refused(now) == is_refused(told)
                && now.room.size == told.room.size
                && !is_news(left_of(now), left_of(told), quota)
        };
        if rooms.len() != told.len() || !rooms.iter().zip(told).all(is_same) {
            self.tell_rooms_to(child);
        }
        Ok(())
    }
}

impl Members {
    /// Notes which quota a child has that greets.
    pub(crate) fn read_quota<S: MetaStore>(
        core: &mut Core<S>,
        children: &mut Children,
        child: OriginId,
    ) -> Result<(), StorageError> {
        let quota = Children::origin_image(core, child)?.map_or(Quota::NONE, |image| image.limits.quota);
        children.set_quota(child, quota);
        Ok(())
    }

    fn quotas_of(&self, children: &Children, child: OriginId) -> [(Quota, OriginId); 2] {
        let own = children.quota_of(child);
        [(own, child), (self.quotas.of_volume, ALL)]
    }

    fn lefts<S: MetaStore>(
        &self,
        core: &Core<S>,
        children: &Children,
        child: OriginId,
    ) -> Result<[Left; 2], StorageError> {
        let [own, all] = self.quotas_of(children, child);
        Ok([Left::of(own.0, Self::usage_under(core, own.1)?), Left::of(all.0, Self::usage_under(core, all.1)?)])
    }

    /// What a client's quotas leave, as a disk would be told.
    pub(crate) fn quota_rooms<S: MetaStore>(
        &self,
        core: &Core<S>,
        children: &Children,
        child: OriginId,
    ) -> Result<Vec<ServerRoom>, StorageError> {
        let mut rooms = Vec::new();
        let quotas = self.quotas_of(children, child);
        let is_station = !children.is_client(child);
        if is_station || quotas.iter().all(|(quota, _)| *quota == Quota::NONE) {
            return Ok(rooms);
        }
        let lefts = self.lefts(core, children, child)?;
        let is_refused = self.quotas.refused.get(&child).is_some_and(|then| !has_more(&lefts, then));
        let through = Self::applied_by(core, child)?;
        for ((quota, of), left) in quotas.into_iter().zip(lefts) {
            if quota == Quota::NONE {
                continue;
            }
            let size = quota.bytes.unwrap_or(u64::MAX);
            let full = if left.is_none() { Full::Quota } else { Full::No };
            let is_members = of != ALL;
            let label = if is_members { "of this member" } else { "of the volume" }.to_owned();
            let quota = Some(QuotaRoom { through, files_left: left.files, is_members, is_refused });
            rooms.push(ServerRoom { is_home: true, label, room: Room { full, left: left.bytes, size }, quota });
        }
        Ok(rooms)
    }

    /// Refuses what a client sent in one message, if that goes beyond a quota. Nothing of it is kept.
    pub(crate) fn check_quota<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        children: &Children,
        peer: PeerId,
        child: OriginId,
    ) -> Result<(), StepError> {
        let quotas = self.quotas_of(children, child);
        let is_station = !children.is_client(child);
        if is_station || quotas.iter().all(|(quota, _)| *quota == Quota::NONE) {
            return Ok(());
        }
        let change = UsageChange::of(core.state.overlay());
        for (quota, of) in quotas {
            let (used, more) = (Self::usage_under(core, of)?, change.for_origin(of));
            let goes_beyond = |max: Option<u64>, used: u64, more: i64| {
                more > 0 && max.is_some_and(|max| used.saturating_add_signed(more) > max.saturating_add(slack(max)))
            };
            if goes_beyond(quota.bytes, used.bytes, more.bytes) || goes_beyond(quota.files, used.files, more.files) {
                let lefts = self.lefts(core, children, child)?;
                self.quotas.refused.insert(child, lefts);
                let whose = if of == ALL { "the volume's" } else { "its" };
                return Err(StepError::Peer(peer, format!("sent records beyond {whose} quota")));
            }
        }
        self.quotas.refused.remove(&child);
        Ok(())
    }

    /// Reads the quota of the volume at opening.
    pub(crate) fn begin_quotas<S: MetaStore>(&mut self, core: &Core<S>) -> Result<(), StorageError> {
        self.quotas.of_volume = Self::quota_of_volume(core)?;
        Ok(())
    }

    /// Notes what a record of our own takes up, before it is committed.
    pub(crate) fn note_growth<S: MetaStore>(&mut self, core: &Core<S>, sequence: u64) {
        if !self.has_quota() {
            return;
        }
        let change = UsageChange::of(core.state.overlay());
        let growth = Growth { own: change.for_origin(core.config.origin), all: change.for_origin(ALL) };
        self.grown.note(sequence, growth);
    }

    /// Whether a server told of a quota.
    pub(crate) fn has_quota(&self) -> bool {
        self.rooms_above().iter().any(|server| server.quota.is_some())
    }

    /// A server said anew what quotas leave.
    pub(crate) fn note_quota_word(&mut self) {
        let words = || self.rooms_above().iter().filter_map(|server| server.quota);
        let (through, is_held) = (words().map(|word| word.through).next(), words().any(|word| word.is_refused));
        self.grown.is_held = is_held;
        match through {
            Some(through) => self.grown.counted_through(through),
            None => self.grown = Grown::default(),
        }
    }

    /// Whether our quotas, as far as we were told of any, allow that a file becomes so long.
    pub(crate) fn has_quota_for<S: MetaStore>(
        &self,
        core: &Core<S>,
        file: FileId,
        size: u64,
    ) -> Result<bool, StorageError> {
        Ok(!self.has_quota() || self.allows(Self::growth_of(core, file, size)?))
    }

    /// The least room of the servers on the way to the home, quotas included, and how many files those leave. What was written here
    /// since counts as used. `None`: nobody told.
    pub(crate) fn room_on_the_way(&self) -> Option<(Room, u64)> {
        let left = |left: u64, grown: i64| if left == u64::MAX { left } else { left.saturating_add_signed(-grown) };
        let rooms = self.rooms_above().iter().map(|server| match &server.quota {
            None => (server.room, u64::MAX),
            Some(quota) => {
                let grown = self.grown.of(quota);
                let bytes = if server.room.size == u64::MAX { u64::MAX } else { left(server.room.left, grown.bytes) };
                (Room { left: bytes, ..server.room }, left(quota.files_left, grown.files))
            }
        });
        rooms.reduce(|one, other| (std::cmp::min_by_key(one.0, other.0, |room| room.left), one.1.min(other.1)))
    }

    /// Whether our quotas, as far as we were told of any, allow a change.
    pub(crate) fn quota_allows<S: MetaStore>(&self, core: &Core<S>, change: &Asked) -> Result<bool, StorageError> {
        if !self.has_quota() {
            return Ok(true);
        }
        let made = |bytes: u64| {
            let change = Change { bytes: signed(bytes), files: 1 };
            Growth { own: change, all: change }
        };
        let more = match change {
            Asked::Create { .. } | Asked::Mkdir { .. } => made(0),
            Asked::Publish { content, .. } => made(content.size()),
            Asked::Store { file, content, .. } | Asked::Append { file, content, .. } => {
                Self::growth_of(core, *file, content.size())?
            }
            Asked::Link { .. }
            | Asked::Unlink { .. }
            | Asked::Rmdir { .. }
            | Asked::Rename { .. }
            | Asked::SetAttr { .. }
            | Asked::SetXattr { .. }
            | Asked::Resolve { .. } => return Ok(true),
        };
        Ok(self.allows(more))
    }

    /// Whoever has more waiting than a quota takes adds nothing, of files either: it would wait behind that, and nobody would see it.
    fn allows(&self, more: Growth) -> bool {
        if more.grows() && self.is_over_quota() {
            return false;
        }
        let fits = |left: u64, grown: i64, more: i64| {
            more <= 0 || !self.grown.is_held && signed(left).saturating_sub(grown) >= more
        };
        self.rooms_above().iter().all(|server| {
            let Some(quota) = &server.quota else { return true };
            let (grown, more) =
                if quota.is_members { (self.grown.sum.own, more.own) } else { (self.grown.sum.all, more.all) };
            fits(server.room.left, grown.bytes, more.bytes) && fits(quota.files_left, grown.files, more.files)
        })
    }

    /// Whether what we have to send would be refused for a quota: it waits here then, and the session goes on.
    pub(crate) fn is_over_quota(&self) -> bool {
        let is_over = |left: u64, size: u64, grown: i64| grown > 0 && grown > signed(left.saturating_add(slack(size)));
        self.rooms_above().iter().any(|server| {
            let Some(quota) = &server.quota else { return false };
            let grown = self.grown.of(quota);
            self.grown.is_held
                || is_over(server.room.left, server.room.size, grown.bytes)
                || is_over(quota.files_left, 0, grown.files)
        })
    }

    /// The quota of the whole volume: it stands in the row of its home.
    pub(crate) fn quota_of_volume<S: MetaStore>(core: &Core<S>) -> Result<Quota, StorageError> {
        let of_home = |(_, image): (OriginId, Origin)| (image.admitted == Admitted::Home).then_some(image.limits.quota);
        Ok(core.state.origins()?.into_iter().find_map(of_home).unwrap_or(Quota::NONE))
    }

    fn usage_under<S: MetaStore>(core: &Core<S>, origin: OriginId) -> Result<Usage, StorageError> {
        if origin == ALL { Self::usage_of_volume(core) } else { Self::usage(core, origin) }
    }

    fn applied_by<S: MetaStore>(core: &Core<S>, origin: OriginId) -> Result<u64, StorageError> {
        Ok(match core.state.image(&Key::Origin(origin))? {
            Some(Image::Origin(image)) => image.applied,
            _ => 0,
        })
    }

    fn growth_of<S: MetaStore>(core: &Core<S>, file: FileId, size: u64) -> Result<Growth, StorageError> {
        let known = core.state.inode(file)?.map(|inode| (inode.content.size(), inode.version.origin()));
        let (before, writer) = known.unwrap_or((0, core.config.origin));
        let own_before = if writer == core.config.origin { before } else { 0 };
        let bytes = |before: u64| Change { bytes: signed(size).saturating_sub(signed(before)), files: 0 };
        Ok(Growth { own: bytes(own_before), all: bytes(before) })
    }
}

/// Whether a bound that held somebody back has moved.
fn has_more(now: &[Left; 2], then: &[Left; 2]) -> bool {
    now.iter().zip(then).any(|(now, then)| now.bytes > then.bytes || now.files > then.files)
}

/// Whether a client is to be told: something is left again or no more, or much was used or became free.
fn is_news(now: Left, told: Left, quota: Quota) -> bool {
    let differs = |now: u64, told: u64, max: Option<u64>| {
        (now == 0) != (told == 0) || max.is_some_and(|max| now.abs_diff(told) > max / NEWS_PART)
    };
    differs(now.bytes, told.bytes, quota.bytes) || differs(now.files, told.files, quota.files)
}

fn left_of(server: &ServerRoom) -> Left {
    let bytes = if server.room.size == u64::MAX { u64::MAX } else { server.room.left };
    Left { bytes, files: server.quota.map_or(u64::MAX, |quota| quota.files_left) }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
