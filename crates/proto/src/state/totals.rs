//! Running sums over the tables, so that a look at the status costs nothing.

/// Running totals for status.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) conflicts: i64,
    pub(crate) owed: i64,
    pub(crate) owed_bytes: i64,
    pub(crate) missing: i64,
    pub(crate) lent: i64,
    pub(crate) lent_bytes: i64,
    pub(crate) missing_bytes: i64,
    /// Client: versions of its own whose bytes are gone, and that the home has not declared lost.
    pub(crate) vanished: i64,
    pub(crate) vanished_bytes: i64,
    /// Open reports of contents that the home declared lost.
    pub(crate) lost: i64,
}

impl Totals {
    pub(crate) fn add(&mut self, other: Self) {
        self.conflicts += other.conflicts;
        self.owed += other.owed;
        self.owed_bytes += other.owed_bytes;
        self.missing += other.missing;
        self.lent += other.lent;
        self.lent_bytes += other.lent_bytes;
        self.missing_bytes += other.missing_bytes;
        self.vanished += other.vanished;
        self.vanished_bytes += other.vanished_bytes;
        self.lost += other.lost;
    }
}
