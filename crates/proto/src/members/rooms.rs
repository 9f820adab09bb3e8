//! How much room there is on the way to the home.
//!
//! Each server tells its children what its own disk has left, and what it was told by its own parent, so that a client can
//! say where it is that its bytes cannot go. It is news of the moment: nothing of it is stored, and what a parent
//! said is forgotten with its session.

use crate::api::Output;
use crate::children::Children;
use crate::members::Members;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::replica::errors::StepError;
use wayfs_types::request::Change;
use wayfs_types::{MetaStore, OriginId, StorageError};
use wayfs_wire::{Down, Full, ROOMS_MAX, Room, ServerRoom};

impl<S: MetaStore> Replica<S> {
    /// The room on our own disk changed.
    pub(crate) fn handle_room(&mut self, room: Room) {
        if self.members.rooms.own != Some(room) {
            self.members.rooms.own = Some(room);
            self.tell_rooms();
        }
    }

    /// Our parent's word.
    pub(crate) fn handle_rooms(&mut self, rooms: Vec<ServerRoom>) -> Result<(), StepError> {
        let full = rooms.iter().filter(|server| server.room.full != Full::No);
        let full: Vec<_> = full.map(|server| (server.is_home, server.room.full, server.label.clone())).collect();
        let is_news = full != self.members.rooms.said;
        self.members.rooms.said = full;
        self.members.rooms.above = rooms;
        self.members.rooms.are_told = true;
        self.members.note_quota_word();
        if is_news {
            self.core.outputs.push_back(Output::RoomsAbove { rooms: self.members.rooms.above.clone() });
        }
        self.tell_rooms();
        Ok(())
    }

    /// The session with the parent is over, and its word with it; but for what it said of quotas, to which we keep meanwhile.
    pub(crate) fn forget_rooms(&mut self) {
        self.members.rooms.are_told = false;
        if self.members.rooms.above.iter().any(|server| server.quota.is_none()) {
            self.members.rooms.above.retain(|server| server.quota.is_some());
            self.tell_rooms();
        }
    }

    fn tell_rooms(&mut self) {
        let greeted: Vec<OriginId> = self.children.all().collect();
        for child in greeted {
            self.tell_rooms_to(child);
        }
    }

    /// Tells a child that was welcomed.
    pub(crate) fn tell_rooms_to(&mut self, child: OriginId) {
        match self.members.rooms_for(&self.core, &mut self.children, child) {
            Ok(Some(rooms)) => self.children.tell(child, rooms),
            Ok(None) => {}
            Err(error) => self.fail(&error),
        }
    }
}

impl Members {
    /// What a child is to be told of room. `None`: nothing, and so it was told before.
    pub(crate) fn rooms_for<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        children: &mut Children,
        child: OriginId,
    ) -> Result<Option<Down>, StorageError> {
        let own = self.rooms.own.map(|room| ServerRoom {
            is_home: core.orders(),
            label: core.config.label.clone(),
            room,
            quota: None,
        });
        let quotas = self.quota_rooms(core, children, child)?;
        let above = self.rooms.above.iter().filter(|server| server.quota.is_none()).cloned();
        let rooms: Vec<ServerRoom> = own.into_iter().chain(quotas).chain(above).take(ROOMS_MAX).collect();
        Ok(children.note_rooms(child, &rooms).then_some(Down::Rooms { rooms }))
    }

    /// The room of the servers above this replica, as far as they told, nearest first.
    pub(crate) fn rooms_above(&self) -> &[ServerRoom] {
        &self.rooms.above
    }

    /// Whether our parent has room for records. One without would have to end the session when they come; they wait here, and
    /// the session goes on for everything else.
    pub(crate) fn parent_has_room(&self) -> bool {
        self.rooms.above.first().is_none_or(|parent| parent.room.full != Full::Metadata) && !self.is_over_quota()
    }

    /// Whether there is room here for a change. What takes a name away makes room in the end, and goes on into the store's
    /// own reserve.
    pub(crate) fn has_room_for(&self, change: &Change) -> bool {
        let is_full = self.rooms.own.is_some_and(|room| room.full == Full::Metadata);
        !is_full || matches!(change, Change::Unlink { .. } | Change::Rmdir { .. })
    }

    /// A parent welcomes us: what it had to say of room it said before.
    pub(crate) fn forget_rooms_of_former(&mut self) {
        if !self.rooms.are_told && !self.rooms.above.is_empty() {
            self.rooms.above.clear();
            self.note_quota_word();
        }
    }
}
