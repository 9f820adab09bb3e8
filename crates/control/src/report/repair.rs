//! What is damaged on a disk, what that costs, and what was done about it.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How a volume's files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RepairState {
    /// Whole.
    Whole,
    /// Damaged; `wayfs doctor --repair PLACE --yes` repairs it and loses what is named.
    Damaged,
    /// It was damaged, and is repaired.
    Repaired,
    /// Damaged, and no command repairs it here.
    Hopeless,
    /// A daemon has it, so it was not looked at.
    InUse,
}

/// One damaged file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDamage {
    /// Which file or directory.
    pub path: PathBuf,
    /// What is wrong with it, in words.
    pub what: String,
    /// What a repair does with it, in words.
    pub remedy: String,
    /// What is lost by that, in words.
    pub lost: String,
}

/// One volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeRepair {
    /// Its name, or its directory's if that cannot be read.
    pub volume: String,
    /// `home`, `station` or `client`.
    pub role: String,
    /// How it is now.
    pub state: RepairState,
    /// What was damaged.
    pub files: Vec<FileDamage>,
    /// Rows of its tables that were read and are whole.
    pub rows: u64,
    /// What to do next; empty when nothing.
    #[serde(default)]
    pub next_step: String,
}

/// One data directory or cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RepairReport {
    /// Where it is.
    pub place: PathBuf,
    /// Its volumes.
    pub volumes: Vec<VolumeRepair>,
}

impl RepairReport {
    /// Whether everything here is whole, as it was or by a repair.
    pub fn is_whole(&self) -> bool {
        self.volumes.iter().all(|volume| matches!(volume.state, RepairState::Whole | RepairState::Repaired))
    }
}
