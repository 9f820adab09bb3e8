//! What is used: the defaults, overridden by files, overridden by what was typed.

mod file;
mod identities;
mod mount;
mod passphrase;
mod serve;
mod size;
mod substitute;
mod template;

pub(crate) use file::ConfigFile;
pub(crate) use mount::{Close, MountSettings, Source, TICKET_VARIABLE, check_options, read_ticket};
pub(crate) use passphrase::{passphrase, passphrase_file};
pub(crate) use serve::ServeSettings;
pub(crate) use size::parse_size;
pub(crate) use template::TEMPLATE;

use crate::args::GlobalArgs;
use crate::dirs::Dirs;
use crate::failure::Failure;
use std::time::Duration;

/// Everything that commands need to know but their own arguments.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Directories of this user.
    pub(crate) dirs: Dirs,
    /// What the files said, merged.
    pub(crate) file: ConfigFile,
    /// Level of the log: a `tracing` filter.
    pub(crate) log: String,
}

/// Level of the log where nothing else is said: state changes that a user would notice.
const LOG_DEFAULT: &str = "info";

/// In which time all contents are read, by a key `scrub_days`; `None`: never by itself.
fn scrub_period(days: Option<u32>) -> Option<Duration> {
    match days {
        None => Some(wayfs_node::SCRUB_PERIOD),
        Some(0) => None,
        Some(days) => Some(Duration::from_secs(86_400) * days),
    }
}

impl Config {
    /// Reads the files, once.
    pub(crate) fn read(global: &GlobalArgs) -> Result<Self, Failure> {
        let dirs = Dirs::of_this_user();
        let file = match &global.config {
            Some(only) => ConfigFile::read(only)?,
            None => ConfigFile::read_all(&dirs.config)?,
        };
        let log = match global.verbose {
            0 => file.log.level.clone().unwrap_or_else(|| LOG_DEFAULT.to_owned()),
            1 => "debug".to_owned(),
            _ => "trace".to_owned(),
        };
        Ok(Self { dirs, file, log })
    }

    /// Where mounts keep state and cache if no argument says otherwise.
    pub(crate) fn mounts(&self) -> std::path::PathBuf {
        self.file.mount.cache.clone().unwrap_or_else(|| self.dirs.mounts())
    }
}
