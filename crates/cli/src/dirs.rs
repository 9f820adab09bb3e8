//! Where things lie by default.

use std::ffi::OsString;
use std::path::PathBuf;
use wayfs_control::Account;

/// Directories of this user: the system's for root, those of the XDG variables for everyone else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dirs {
    /// Configuration files are read from here, in this order; later ones win.
    pub(crate) config: Vec<PathBuf>,
    /// State that must not be lost: identities, logs, a server's data.
    pub(crate) state: PathBuf,
    /// Logs of daemons in the background.
    pub(crate) logs: PathBuf,
}

impl Dirs {
    /// Of the user who runs this.
    pub(crate) fn of_this_user() -> Self {
        Self::from_environment(|name| std::env::var_os(name).filter(|v| !v.is_empty()), Account::of_this_process())
    }

    fn from_environment(variable: impl Fn(&str) -> Option<OsString>, account: Account) -> Self {
        let home = variable("HOME").map_or_else(|| PathBuf::from("/"), PathBuf::from);
        let system = PathBuf::from("/etc/wayfs");
        let own_config = variable("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from).join("wayfs");
        // Variables that were set on purpose count for root, too: tests and containers do that.
        let state = match (variable("XDG_STATE_HOME"), account) {
            (Some(dir), _) => PathBuf::from(dir).join("wayfs"),
            (None, Account::Root) => PathBuf::from("/var/lib/wayfs"),
            (None, Account::User) => home.join(".local/state/wayfs"),
        };
        Self { config: vec![system, own_config], logs: state.join("log"), state }
    }

    /// Data directory of a server.
    pub(crate) fn server_data(&self) -> PathBuf {
        self.state.join("server")
    }

    /// State and cache of mounts. They hold the log of what was not sent yet, so this is no `$XDG_CACHE_HOME`,
    /// which users and cleaners empty at will.
    pub(crate) fn mounts(&self) -> PathBuf {
        self.state.join("mounts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_users_have_their_places() {
        let none = |_: &str| None;
        assert_eq!(Dirs::from_environment(none, Account::Root).server_data(), PathBuf::from("/var/lib/wayfs/server"));
        let home = |name: &str| (name == "HOME").then(|| OsString::from("/home/ann"));
        let dirs = Dirs::from_environment(home, Account::User);
        assert_eq!(dirs.mounts(), PathBuf::from("/home/ann/.local/state/wayfs/mounts"));
        assert_eq!(dirs.config, [PathBuf::from("/etc/wayfs"), PathBuf::from("/home/ann/.config/wayfs")]);
    }
}
