//! How much room there is on the way to the home.
//!
//! Each server tells its children what its own disk has left, and what it was told by its own parent, so that a client can
//! say where it is that its bytes cannot go. It is news of the moment: nothing of it is stored, and what a parent
//! said is forgotten with its session.

use crate::api::{Output, Role};
use crate::replica::{Replica, Trouble};
use wayfs_types::{MetaStore, OriginId};
use wayfs_wire::{Down, ROOMS_MAX, Room, ServerRoom};

/// Of the servers above us and of our own disk.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    own: Option<Room>,
    /// Nearest first.
    above: Vec<ServerRoom>,
}

impl<S: MetaStore> Replica<S> {
    /// The room of the servers above this replica, as far as they told, nearest first.
    pub fn rooms_above(&self) -> &[ServerRoom] {
        &self.rooms.above
    }

    /// The room on our own disk changed.
    pub(crate) fn handle_room(&mut self, room: Room) {
        if self.rooms.own != Some(room) {
            self.rooms.own = Some(room);
            self.tell_rooms();
        }
    }

    /// Our parent's word.
    pub(crate) fn handle_rooms(&mut self, rooms: Vec<ServerRoom>) -> Result<(), Trouble> {
        let full = |rooms: &[ServerRoom]| -> Vec<_> {
            rooms.iter().map(|server| (server.is_home, server.room.full, server.label.clone())).collect()
        };
        let is_news = full(&rooms) != full(&self.rooms.above);
        self.rooms.above = rooms;
        if is_news {
            self.outputs.push_back(Output::RoomsAbove { rooms: self.rooms.above.clone() });
        }
        self.tell_rooms();
        Ok(())
    }

    /// The session with the parent is over, and its word with it.
    pub(crate) fn forget_rooms(&mut self) {
        if !self.rooms.above.is_empty() {
            self.rooms.above.clear();
            self.tell_rooms();
        }
    }

    fn tell_rooms(&mut self) {
        let greeted: Vec<OriginId> = self.children.by_origin.keys().copied().collect();
        for child in greeted {
            self.tell_rooms_to(child);
        }
    }

    /// Tells a child that was welcomed.
    pub(crate) fn tell_rooms_to(&mut self, child: OriginId) {
        let own = self.rooms.own.map(|room| ServerRoom {
            is_home: self.config.role == Role::Home,
            label: self.config.label.clone(),
            room,
        });
        let rooms: Vec<ServerRoom> = own.into_iter().chain(self.rooms.above.iter().cloned()).take(ROOMS_MAX).collect();
        if !rooms.is_empty() {
            self.children.tell(child, Down::Rooms { rooms });
        }
    }
}
