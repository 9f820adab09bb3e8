//! What every part of a replica may use.

use crate::api::{Config, Output, Role};
use crate::replica::composition::{Below, Composition, Position, Tree};
use crate::state::State;
use crate::upstream::line::Line;
use std::collections::VecDeque;
use wayfs_types::request::{Outcome, RequestId};
use wayfs_types::{Time, WallTime};

/// Settings, state, time, and what goes out: handed to the parts' functions beside the part itself.
pub(crate) struct Core<S> {
    pub(crate) config: Config,
    pub(crate) composition: Composition,
    pub(crate) state: State<S>,
    /// The time of this input.
    pub(crate) now: Time,
    /// The same by the clock on the wall.
    pub(crate) wall: WallTime,
    /// When the replica was opened.
    pub(crate) opened: Time,
    /// What waits for [`crate::Replica::poll_output`].
    pub(crate) outputs: VecDeque<Output>,
    /// The session with the parent; `None`: there is none.
    pub(crate) line: Option<Line>,
    /// What parts have for requests that wait.
    pub(crate) for_requests: Vec<ForRequests>,
    /// Work is left over that did not fit into this input's share.
    pub(crate) more_work: bool,
}

/// Something for requests that wait.
#[derive(Debug)]
pub(crate) enum ForRequests {
    /// One ends so.
    End {
        id: RequestId,
        outcome: Outcome,
        /// Its answer goes out behind so many outputs.
        behind: usize,
    },
    /// These look again.
    Wake(Vec<RequestId>),
}

impl<S> Core<S> {
    /// Ends a waiting request with an outcome.
    pub(crate) fn end_request(&mut self, id: RequestId, outcome: Outcome) {
        let behind = self.outputs.len();
        self.for_requests.push(ForRequests::End { id, outcome, behind });
    }

    /// Those look again.
    pub(crate) fn wake_requests(&mut self, ids: Vec<RequestId>) {
        self.for_requests.push(ForRequests::Wake(ids));
    }
}

impl Composition {
    /// That of a role.
    pub(crate) const fn of(role: Role) -> Self {
        let (position, tree, below) = match role {
            Role::Home => (Position::Orders, Tree::Whole, Below::Children),
            Role::Station => (Position::Relays, Tree::Whole, Below::Children),
            Role::Client => (Position::Writes, Tree::LookedAt, Below::Nobody),
        };
        Self { position, tree, below }
    }
}

/// What parts that are in every replica ask.
impl<S> Core<S> {
    /// Nobody is above us: what is applied here is ordered, and what is lost is lost by our word.
    pub(crate) fn orders(&self) -> bool {
        self.composition.position == Position::Orders
    }

    /// What others wrote goes on from here to a parent.
    pub(crate) fn relays(&self) -> bool {
        self.composition.position == Position::Relays
    }

    /// The log is our own user's alone, and for his contents we answer.
    pub(crate) fn writes(&self) -> bool {
        self.composition.position == Position::Writes
    }

    /// Others may be below us, who hear what changes here and ask for what we have.
    pub(crate) fn serves(&self) -> bool {
        self.composition.below == Below::Children
    }
}
