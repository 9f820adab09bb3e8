//! Arguments of the laboratory.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `wayfs lab …`
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LabCommand {
    /// The experiments
    List,
    /// The named lines, and where their numbers come from
    Profiles,
    /// Run an experiment, or all; needs root
    Run(LabRunArgs),
    /// Draw the pages of a directory of results anew, and one that lists them
    Report {
        /// Where `run` put its results
        #[arg(default_value = LAB_OUT)]
        dir: PathBuf,
    },
    /// Build the network of a file to work in by hand, until Ctrl-C; needs root
    ///
    /// FILE is TOML: `hosts = ["client", "home"]`, then for each line `[[links]]` with `ends = ["client", "home"]` and
    /// `line = { profile = "wifi" }`, or settings of its own such as
    /// `line = { both = { rate_mbps = 3.0, delay_ms = 33.5 }, up = { loss = 0.01 } }`. `[[cells]]` have a `station` and
    /// `mobiles` that share its channel; `[[programs]]` a `host` and a `command`.
    Up {
        /// The network
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Where the output of its programs goes
        #[arg(long, value_name = "DIR", default_value = "wayfs-lab/logs")]
        logs: PathBuf,
    },
    /// Take away what killed laboratories left
    Clean,
}

/// Where results go by default.
const LAB_OUT: &str = "wayfs-lab";

/// Of `wayfs lab run`.
#[derive(Debug, Clone, Args)]
pub(crate) struct LabRunArgs {
    /// Names as `wayfs lab list` shows them, or `all`
    #[arg(required = true, value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Only see that it works; the numbers say little
    #[arg(long)]
    pub(crate) quick: bool,
    /// Everything random comes from it
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// A setting of an experiment, such as `trace=FILE` (repeat for several; docs/lab.md)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) settings: Vec<String>,
    /// Directory for results, one below it for each experiment
    #[arg(long, value_name = "DIR", default_value = LAB_OUT)]
    pub(crate) out: PathBuf,
}
