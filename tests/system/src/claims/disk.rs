//! Names of disks and moments.

use std::fmt;

/// The disk of one machine, from when the machine came until its disk is lost for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Disk(u32);

/// The disk of the home; a home that is put back keeps its disk.
pub(super) const HOME: Disk = Disk::new(0);

impl Disk {
    /// The number of a disk; no number is given twice in a world.
    pub(super) const fn new(number: u32) -> Self {
        Self(number)
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk{}", self.0)
    }
}

/// A place in the order of all that was done and said in a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment(pub(super) u64);
