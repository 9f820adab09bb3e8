//! What reading everything found.

use serde::{Deserialize, Serialize};

/// Chunks that were read, and what was wrong with them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubFound {
    /// Chunks read.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Chunks that were damaged, or gone although others rely on this machine for them.
    pub damaged: u64,
    /// Of those: fetched anew.
    pub renewed: u64,
    /// Of those: nobody who was reached has them, and others rely on this machine for them. The home decides what becomes of them.
    pub lost: u64,
    /// Of those: they could not be had at the moment.
    pub waiting: u64,
}

impl ScrubFound {
    /// Whether everything is sound now.
    pub const fn is_sound(&self) -> bool {
        self.lost == 0 && self.waiting == 0
    }
}

/// One volume that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeScrub {
    /// Its name.
    pub volume: String,
    /// `home`, `station` or `client`.
    pub role: String,
    /// What was found.
    pub found: ScrubFound,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// How a `scrub` ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubReport {
    /// The volumes that were read.
    pub volumes: Vec<VolumeScrub>,
}

/// How far the scrub of a volume is that goes on by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScrubStatus {
    /// When the present pass began, in milliseconds since 1970; `None`: it waits for its time.
    #[serde(default)]
    pub began_unix_ms: Option<i64>,
    /// What it found so far.
    pub found: ScrubFound,
    /// When the last whole pass ended; `None`: there was none.
    #[serde(default)]
    pub ended_unix_ms: Option<i64>,
    /// What that one found.
    pub found_before: ScrubFound,
}
