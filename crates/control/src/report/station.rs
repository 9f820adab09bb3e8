//! Stations and why one was chosen.

use serde::{Deserialize, Serialize};

/// A station (or the home) as a replica below it knows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StationReport {
    /// Node id.
    pub node: String,
    /// For people: a label or host.
    pub name: String,
    /// `home` or `station`.
    pub role: String,
    /// Where it listens.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Whether there is a session with it.
    #[serde(default)]
    pub connected: bool,
    /// Whether it is the one in use.
    #[serde(default)]
    pub chosen: bool,
    /// Whether the user chose it.
    #[serde(default)]
    pub chosen_by_user: bool,
    /// Round-trip time in milliseconds.
    #[serde(default)]
    pub rtt_ms: Option<f64>,
    /// From here to there, in bits per second.
    #[serde(default)]
    pub up_bits_per_second: Option<u64>,
    /// From there to here, in bits per second.
    #[serde(default)]
    pub down_bits_per_second: Option<u64>,
    /// How sure these numbers are, 0 to 1.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// When it was last heard of.
    #[serde(default)]
    pub seen_unix_ms: Option<i64>,
    /// What speaks against it, or the last error; empty when nothing.
    #[serde(default)]
    pub note: String,
}

/// Known stations, best first.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct StationsReport {
    /// They.
    pub stations: Vec<StationReport>,
}

/// Why this station.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct WhyReport {
    /// The one in use, by name.
    #[serde(default)]
    pub chosen: Option<String>,
    /// Reasons, one sentence each.
    pub reasons: Vec<String>,
    /// All candidates with the numbers that decided.
    #[serde(default)]
    pub candidates: Vec<StationReport>,
}
