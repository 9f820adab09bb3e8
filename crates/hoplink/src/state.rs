//! What a link keeps between its lives: its key, and the secret of the base's ticket.

use crate::LinkError;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use wayfs_net::{NodeIdentity, TicketSecret};

/// The key of this end.
pub(crate) fn identity(state: &Path) -> Result<NodeIdentity, LinkError> {
    make(state)?;
    Ok(NodeIdentity::load_or_create(&state.join("identity"))?)
}

fn make(state: &Path) -> Result<(), LinkError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(state);
    made.map_err(|error| LinkError::State { doing: "make the directory", path: state.to_owned(), error })
}

fn path_of(state: &Path) -> PathBuf {
    state.join("link-secret")
}

/// The secret of the base's ticket: the one given out before, if there is one.
pub(crate) fn secret(state: &Path) -> Result<TicketSecret, LinkError> {
    let path = path_of(state);
    let failed = |doing| {
        let path = path.clone();
        move |error| LinkError::State { doing, path, error }
    };
    match fs::read(&path) {
        Ok(bytes) => {
            let mode = fs::metadata(&path).map_err(failed("read"))?.permissions().mode();
            let exposed = io::Error::other("others can read it: run `chmod 600` on it, or use --new-ticket");
            if mode & 0o077 != 0 {
                return Err(failed("use")(exposed));
            }
            let damaged = || io::Error::other("it is damaged: --new-ticket makes another");
            bytes.try_into().map(TicketSecret::from_bytes).map_err(|_| failed("read")(damaged()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => new_secret(state),
        Err(error) => Err(failed("read")(error)),
    }
}

/// Another secret: tickets given out before are void.
pub(crate) fn new_secret(state: &Path) -> Result<TicketSecret, LinkError> {
    let path = path_of(state);
    let secret = TicketSecret::generate().ok_or(LinkError::Identity(wayfs_net::IdentityError::NoRandomness))?;
    let part = path.with_extension("new");
    let write = || {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&part)?;
        file.write_all(secret.expose())?;
        file.sync_all()?;
        fs::rename(&part, &path)
    };
    write().map_err(|error| LinkError::State { doing: "write", path: path.clone(), error })?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_stays_until_a_new_one_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let first = secret(folder.path()).unwrap();
        assert!(secret(folder.path()).unwrap() == first);
        let second = new_secret(folder.path()).unwrap();
        assert!(second != first && secret(folder.path()).unwrap() == second);
        fs::write(folder.path().join("link-secret"), b"short").unwrap();
        assert!(secret(folder.path()).unwrap_err().to_string().contains("--new-ticket"));
    }
}
