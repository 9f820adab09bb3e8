//! Who may have a chunk, as it is at a moment, and who of them is asked next.

use wayfs_types::OriginId;

/// Who is there, and who is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources<P> {
    /// Who below has the version on record, the newest first.
    pub holders: Vec<OriginId>,
    /// Sessions with machines below that work.
    pub children: Vec<Child<P>>,
    /// The machine above.
    pub parent: Parent<P>,
}

/// A session with a machine below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child<P> {
    /// The session.
    pub peer: P,
    /// Who is at its other end. For a moment there may be two of one origin.
    pub origin: OriginId,
    /// What that is.
    pub kind: ChildKind,
}

/// What a machine below is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChildKind {
    /// A station, which has contents of many.
    Station,
    /// A client.
    Client,
}

/// The machine above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent<P> {
    /// There is none: this is the home.
    None,
    /// It is away for the moment.
    Away,
    /// The session with it.
    There(P),
}

/// Who is asked next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next<P> {
    Ask(P),
    /// There is somebody, but not at the moment.
    Away,
    /// Nobody, or nobody who was not asked.
    Nobody,
}

impl<P: Copy> Sources<P> {
    /// Those on record, the newest first, then the parent, then whoever else may have a copy, of those that are usable.
    pub(super) fn next(&self, writer: OriginId, is_usable: impl Fn(P) -> bool) -> Next<P> {
        let usable = || self.children.iter().filter(|child| is_usable(child.peer));
        // Not by the session that the engine names: the child may have a new one.
        let on_record = self.holders.iter().find_map(|holder| usable().find(|child| child.origin == *holder));
        if let Some(child) = on_record {
            return Next::Ask(child.peer);
        }
        match self.parent {
            Parent::There(peer) if is_usable(peer) => return Next::Ask(peer),
            Parent::There(_) | Parent::Away | Parent::None => {}
        }
        // Who is on record is away, or was asked in vain, or it is damaged here: a record may be out of date, and who
        // wrote it or read it may have it.
        let rank = |child: &&Child<P>| (child.origin != writer, child.kind != ChildKind::Station, child.origin);
        match usable().min_by_key(rank) {
            Some(child) => Next::Ask(child.peer),
            None if self.is_somebody_away() => Next::Away,
            None => Next::Nobody,
        }
    }

    /// Whether somebody is away who is to have it.
    fn is_somebody_away(&self) -> bool {
        let is_there = |holder: &OriginId| self.children.iter().any(|child| child.origin == *holder);
        matches!(self.parent, Parent::Away) || !self.holders.iter().all(is_there)
    }
}
