//! What a replica is put together of: chosen once, when it is opened.
//!
//! No other part asks for the role. What only one place needs is a part that exists there alone (the watches of a tree
//! that is not whole, the duties of `contents/duty.rs`); what every part must know is asked here, by the reason why.

use crate::api::Role;
use crate::replica::Core;

/// Where a replica stands on the way of a record, from its writer to the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// Its end. Nobody is above: what is applied here is ordered, and what is lost here is decided here.
    Orders,
    /// Between: what others wrote, records and contents, goes on to a parent.
    Relays,
    /// Its beginning. The log has nobody's records but our own user's, and for their contents we answer until they are at the end.
    Writes,
}

/// How much of the volume is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tree {
    Whole,
    /// What was looked at, and what we made.
    LookedAt,
}

/// Who may be below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Below {
    Children,
    Nobody,
}

/// What a replica is put together of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Composition {
    pub(crate) position: Position,
    pub(crate) tree: Tree,
    pub(crate) below: Below,
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
