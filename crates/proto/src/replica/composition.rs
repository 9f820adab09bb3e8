//! What a replica is put together of: chosen once, when it is opened.
//!
//! No other part asks for the role. What only one place needs is a part that exists there alone (the watches of a tree
//! that is not whole, the duties of `contents/duty.rs`); what every part must know is asked here, by the reason why.

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
