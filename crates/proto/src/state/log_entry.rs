//! A record as the log keeps it in the store, and what goes along with one.

use serde::{Deserialize, Serialize};
use wayfs_types::{Chain, CommitNumber, Image, Key, Life, Record, Seal};

/// A record of the log as it is sent: the running hash before and after it, and its seal if it came with one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) before: Chain,
    pub(crate) after: Chain,
    pub(crate) seal: Option<Seal>,
}

/// A record as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogEntry {
    pub(crate) record: Record,
    /// We, or someone below, hold its contents.
    pub(crate) held: bool,
    /// It moved or removed a directory.
    pub(crate) structural: bool,
    /// Keys that it touched, and the [`crate::state::log::echo_hash`] of each afterwards.
    pub(crate) touched: Vec<(Key, u64)>,
    /// The running hash of its origin before and after it.
    pub(crate) before: Chain,
    pub(crate) chain: Chain,
    /// The life of the writer's store in which it was written.
    pub(crate) life: Life,
    /// Station: its writer's signature, under the last record of each message in which they came.
    pub(crate) seal: Option<Seal>,
}

impl LogEntry {
    /// What is said of it beside it.
    pub(crate) const fn written(&self) -> Written {
        Written { before: self.before, after: self.chain, seal: self.seal }
    }
}

/// A shadow row: what the parent confirmed of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shadow {
    /// Change of our own numbering at which the parent vouched for it (a client's trust rests on it).
    pub(crate) number: CommitNumber,
    pub(crate) image: Option<Image>,
}

/// What goes along with a record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attached {
    /// We, or someone below, hold its contents.
    pub(crate) held: bool,
    /// Its writer's signature.
    pub(crate) seal: Option<Seal>,
}

impl Attached {
    /// With one of our own.
    pub(crate) const OWN: Self = Self { held: true, seal: None };
}
