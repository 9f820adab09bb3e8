//! Where the passphrase of a daemon's key is.

use crate::failure::{Exit, Failure};
use std::path::{Path, PathBuf};
use wayfs_net::Passphrase;

/// Name of the credential that a unit of systemd may give.
pub(crate) const CREDENTIAL: &str = "wayfs-passphrase";

/// The file that is typed or configured, else the credential of the unit; `None`: keys lie in the clear.
pub(crate) fn passphrase_file(given: Option<PathBuf>) -> Option<PathBuf> {
    let credential =
        || std::env::var_os("CREDENTIALS_DIRECTORY").map(|directory| Path::new(&directory).join(CREDENTIAL));
    given.or_else(|| credential().filter(|path| path.exists()))
}

/// Reads it.
pub(crate) fn passphrase(file: Option<&Path>) -> Result<Option<Passphrase>, Failure> {
    let refused = |error| Failure::new(Exit::Refused, error, "Name another file, or give the unit its credential.");
    file.map(Passphrase::load).transpose().map_err(refused)
}
