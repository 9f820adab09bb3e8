//! The one screen that says how it goes.

use crate::report::{LedgerReport, ScrubStatus, StationReport};
use crate::{DaemonKind, path_text};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// State of a daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    /// A mount or a server.
    pub kind: DaemonKind,
    /// Version of the program.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Milliseconds since it started.
    pub uptime_ms: u64,
    /// Its node id.
    pub node: String,
    /// Addresses it listens on (servers).
    #[serde(default)]
    pub listening: Vec<String>,
    /// Its volumes; one for a mount.
    pub volumes: Vec<VolumeStatus>,
}

/// State of a volume at a daemon.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Volume id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// What this daemon is in it.
    pub role: VolumeRole,
    /// Where it is mounted.
    #[serde(with = "path_text::optional", default)]
    pub mountpoint: Option<PathBuf>,
    /// In one word.
    pub word: StatusWord,
    /// Why that word, one line; empty when active.
    #[serde(default)]
    pub cause: String,
    /// What to do about it; empty when nothing.
    #[serde(default)]
    pub next_step: String,
    /// The station or home above, and why that one; `None` at the home.
    #[serde(default)]
    pub parent: Option<StationReport>,
    /// Whether the home was heard of lately, through the parent or directly; `None`: unknown.
    #[serde(default)]
    pub home_reachable: Option<bool>,
    /// Milliseconds since the home was heard last, by the word of the parent; `None`: not since the daemon started.
    #[serde(default)]
    pub home_seen_ms: Option<u64>,
    /// When the home itself last signed that it is there, in milliseconds of Unix time by its own clock; `None`: no such word came since the
    /// daemon started, and how the home is is the parent's word alone. At the home: `None`.
    #[serde(default)]
    pub home_signed_unix_ms: Option<i64>,
    /// How old that word is: by the home's clock, or since it came here if that is longer ago.
    #[serde(default)]
    pub home_word_age_ms: Option<u64>,
    /// The home's newest change then.
    #[serde(default)]
    pub home_position: Option<u64>,
    /// Which disks from here up to the home are full, and on which host; `None`: none that is known.
    #[serde(default)]
    pub full: Option<String>,
    /// What has not come all the way.
    pub ledger: LedgerReport,
    /// Milliseconds since 1970 of the last exchange with the parent.
    #[serde(default)]
    pub reconciled_unix_ms: Option<i64>,
    /// Open conflicts, contents that are lost among them.
    pub conflicts_open: u64,
    /// Versions whose bytes nobody has: `wayfs conflicts list` names those that the home declared lost.
    #[serde(default)]
    pub versions_lost: u64,
    /// How far the scrub is, which reads all contents kept here to find what the disk damaged.
    #[serde(default)]
    pub scrub: ScrubStatus,
    /// Sessions of children (stations and homes).
    #[serde(default)]
    pub children: u64,
    /// Bytes in the local chunk store or cache.
    pub cache_used_bytes: u64,
    /// Bound on them; `None`: not bounded.
    #[serde(default)]
    pub cache_limit_bytes: Option<u64>,
    /// Bytes kept by pins.
    #[serde(default)]
    pub pinned_bytes: u64,
    /// `auto`, `offline` or `online`, as the user set it; empty for servers.
    #[serde(default)]
    pub mode: String,
    /// When other clients of the same server see what is closed here: `close-to-open` (at their next look) or `relaxed`; empty
    /// for servers and without a session.
    #[serde(default)]
    pub sharing: String,
    /// Whether changes are refused: by the membership, or by an option of the mount.
    #[serde(default)]
    pub read_only: bool,
}

/// What a daemon is in a volume.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VolumeRole {
    /// It orders the updates.
    Home,
    /// Between clients and home.
    Station,
    /// A mount.
    #[default]
    Client,
}

impl fmt::Display for VolumeRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Home => "home",
            Self::Station => "station",
            Self::Client => "client",
        })
    }
}

/// The fixed words for a volume's state, best first.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatusWord {
    /// Connected, everything safe.
    #[default]
    Active,
    /// Connected, something is not safe yet.
    Dirty,
    /// The parent is reached, the home is not: everyone near sees updates, the rest later.
    Away,
    /// No parent, but all that is cached may be out of date only since then.
    Stale,
    /// No parent: works from the cache and the log.
    Offline,
    /// A disk on the way to the home has no room, this machine's or a server's: what is written there can go no further.
    Full,
    /// A person has to do something: conflicts, a revoked key.
    NeedsAttention,
}

impl fmt::Display for StatusWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Dirty => "dirty",
            Self::Away => "away",
            Self::Stale => "stale",
            Self::Offline => "offline",
            Self::Full => "full",
            Self::NeedsAttention => "needs-attention",
        })
    }
}
