//! What other parts ask of the children, and note of them.

use crate::api::PeerId;
use crate::children::{Child, ChildState, Children};
use crate::histories::told::Told;
use std::collections::BTreeMap;
use wayfs_types::{CommitNumber, Life, OriginId, Quota, RecordId, Seal, WallTime};
use wayfs_wire::ServerRoom;

impl Child {
    /// The change from which on it still has to hear of what went. A client that was told that it may go on from
    /// where it left off counts on that until it has caught up; from then on each change is in its queue.
    fn needs_tombstones_from(&self) -> Option<CommitNumber> {
        match self.state {
            _ if self.is_station => Some(self.cursor),
            ChildState::Ready | ChildState::Scanning => Some(self.next),
            ChildState::Greeting | ChildState::Live | ChildState::Detached => None,
        }
    }
}

impl Children {
    /// Whether a child has a session, or is waited for.
    pub(crate) fn is_known(&self, child: OriginId) -> bool {
        self.by_origin.contains_key(&child)
    }

    /// Whether a child that is known is a station.
    pub(crate) fn is_station(&self, child: OriginId) -> bool {
        self.by_origin.get(&child).is_some_and(|child| child.is_station)
    }

    /// Whether a child that is known is a client.
    pub(crate) fn is_client(&self, child: OriginId) -> bool {
        self.by_origin.get(&child).is_some_and(|child| !child.is_station)
    }

    /// Whether a session began and the child has not yet said what it had.
    pub(crate) fn is_beginning(&self, child: OriginId) -> bool {
        let state = self.by_origin.get(&child).map(|child| child.state);
        matches!(state, Some(ChildState::Greeting | ChildState::Ready))
    }

    /// All that are known.
    pub(crate) fn all(&self) -> impl Iterator<Item = OriginId> {
        self.by_origin.keys().copied()
    }

    /// Stations that were welcomed.
    pub(crate) fn greeted_stations(&self) -> impl Iterator<Item = OriginId> {
        let greeted = self.by_origin.iter().filter(|(_, child)| child.is_station && child.is_greeted());
        greeted.map(|(origin, _)| *origin)
    }

    /// Clients that were welcomed.
    pub(crate) fn greeted_clients(&self) -> impl Iterator<Item = OriginId> {
        let greeted = self.by_origin.iter().filter(|(_, child)| !child.is_station && child.is_greeted());
        greeted.map(|(origin, _)| *origin)
    }

    /// All sessions.
    pub(crate) fn peers(&self) -> Vec<PeerId> {
        self.by_origin.values().filter_map(|child| child.peer).collect()
    }

    /// Sessions of clients that brought the cursor of another server.
    pub(crate) fn peers_from_another(&self) -> Vec<PeerId> {
        self.by_origin.values().filter(|child| child.came_from_another).filter_map(|child| child.peer).collect()
    }

    /// Children for which there may be something to do.
    pub(crate) fn busy(&self) -> impl Iterator<Item = OriginId> {
        self.busy.iter().copied()
    }

    /// Marks of these origins may have moved.
    pub(crate) fn note_marks_moved(&mut self, origins: impl IntoIterator<Item = OriginId>) {
        self.dirty.extend(origins);
    }

    /// All sessions are to begin anew, at the end of this input.
    pub(crate) fn end_all(&mut self) {
        self.ends_all = true;
    }

    /// Whether that is so. It is taken for done.
    pub(crate) fn take_end_of_all(&mut self) -> bool {
        std::mem::take(&mut self.ends_all)
    }

    /// Something new is waited for.
    pub(crate) fn check_soon(&mut self) {
        self.next_check = None;
    }

    /// From which change on somebody still has to hear of what went; [`CommitNumber::MAX`]: nobody has.
    pub(crate) fn need_tombstones_from(&self) -> CommitNumber {
        let live = self.by_origin.values().filter_map(Child::needs_tombstones_from);
        self.station_cursors.values().copied().chain(live).min().unwrap_or(CommitNumber::MAX)
    }

    /// Up to which of its records a child told us which contents it still holds; `None`: it is not known.
    pub(crate) fn accounted(&self, child: OriginId) -> Option<u64> {
        self.by_origin.get(&child).map(|child| child.accounted)
    }

    /// The same of a client with a session; nothing is waited for from any other.
    pub(crate) fn accounts_for(&self, child: OriginId) -> u64 {
        let connected = self.by_origin.get(&child).filter(|child| !child.is_station && child.peer.is_some());
        connected.map_or(u64::MAX, |child| child.accounted)
    }

    /// A child accounts for its records up to this. Answers whether it is known.
    pub(crate) fn account(&mut self, child: OriginId, through: u64) -> bool {
        let Some(child) = self.by_origin.get_mut(&child) else { return false };
        child.accounted = child.accounted.max(through);
        true
    }

    /// A child comes in this life of its store. Answers whether another came after that one already.
    pub(crate) fn note_life(&mut self, child: OriginId, life: Life) -> bool {
        self.lives.entry(child).or_default().is_outlived(life)
    }

    /// The life of a child's store, as far as it had a session here.
    pub(crate) fn life_of(&self, child: OriginId) -> Life {
        self.lives.get(&child).map_or(Life::NONE, |lives| lives.current)
    }

    /// What a child said in this session of the histories of origins.
    pub(crate) fn told_mut(&mut self, child: OriginId) -> Option<&mut Told> {
        self.by_origin.get_mut(&child).map(|child| &mut child.told)
    }

    /// Its signatures for the records of the next message.
    pub(crate) fn seals_mut(&mut self, child: OriginId) -> Option<&mut BTreeMap<RecordId, Seal>> {
        self.by_origin.get_mut(&child).map(|child| &mut child.seals)
    }

    /// Notes that a child is told a word of the home. Answers whether it was welcomed, and the word is news to it.
    pub(crate) fn note_word(&mut self, child: OriginId, at: WallTime) -> bool {
        let Some(child) = self.by_origin.get_mut(&child).filter(|child| child.is_greeted()) else { return false };
        let is_news = child.word < Some(at);
        child.word = child.word.max(Some(at));
        is_news
    }

    /// A client claims in this session what it had before. Answers whether that is its first word of it.
    pub(crate) fn note_brings_locks(&mut self, client: OriginId) -> bool {
        let Some(child) = self.by_origin.get_mut(&client) else { return false };
        !child.is_station && !std::mem::replace(&mut child.brings_locks, true)
    }

    /// Those that did.
    pub(crate) fn that_bring_locks(&self) -> Vec<OriginId> {
        let bring = self.by_origin.iter().filter(|(_, child)| child.brings_locks && child.is_greeted());
        bring.map(|(origin, _)| *origin).collect()
    }

    /// A client's own quota.
    pub(crate) fn quota_of(&self, child: OriginId) -> Quota {
        self.by_origin.get(&child).map_or(Quota::NONE, |child| child.quota)
    }

    pub(crate) fn set_quota(&mut self, child: OriginId, quota: Quota) {
        if let Some(child) = self.by_origin.get_mut(&child) {
            child.quota = quota;
        }
    }

    /// What a child was told last of room.
    pub(crate) fn rooms_told(&self, child: OriginId) -> &[ServerRoom] {
        self.by_origin.get(&child).map_or(&[], |child| &child.rooms_told)
    }

    /// Notes what a child is told of room. Answers whether there is anything to tell: of nothing it is told once.
    pub(crate) fn note_rooms(&mut self, child: OriginId, rooms: &[ServerRoom]) -> bool {
        let Some(child) = self.by_origin.get_mut(&child) else { return false };
        let is_nothing = rooms.is_empty() && child.rooms_told.is_empty();
        child.rooms_told = rooms.to_vec();
        !is_nothing
    }

    #[cfg(test)]
    pub(crate) fn has_started(&self, child: OriginId) -> bool {
        self.by_origin[&child].started
    }
}
