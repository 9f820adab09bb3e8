//! A ticket for a machine that is a member already: kept until a session shows that it is not needed, or a refusal that it is.

use crate::join::{JoinError, join_again};
use crate::servers::News;
use crate::volume::Volume;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::{info, warn};
use wayfs_net::{Endpoint, Ticket};

/// Longest ticket read, in bytes.
const LEN_MAX: u64 = 16 << 10;

/// The ticket of one volume, and its file: a secret, readable by its owner only.
#[derive(Debug)]
pub(super) struct Readmission {
    path: PathBuf,
    ticket: Mutex<Option<Ticket>>,
}

impl Readmission {
    /// With what an earlier process kept.
    pub(super) fn load(directory: &Path) -> Self {
        let path = directory.join("ticket");
        let is_small = std::fs::metadata(&path).is_ok_and(|metadata| metadata.len() <= LEN_MAX);
        let kept = std::fs::read_to_string(&path).ok().filter(|_| is_small);
        Self { path, ticket: Mutex::new(kept.and_then(|text| text.parse().ok())) }
    }

    pub(super) fn keep(&self, ticket: Ticket) -> io::Result<()> {
        let mut kept = self.ticket.lock().unwrap_or_else(PoisonError::into_inner);
        let written = self.write(&ticket);
        *kept = Some(ticket);
        written
    }

    fn write(&self, ticket: &Ticket) -> io::Result<()> {
        let fresh = self.path.with_extension("new");
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(ticket.to_text().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(fresh, &self.path)
    }

    /// The machine has a session: whoever is turned away later is so in spite of a ticket of before.
    pub(super) fn forget(&self) {
        self.forget_if(|_| true);
    }

    /// Forgets the ticket, unless the user gave another one meanwhile.
    fn forget_if(&self, is_it: impl Fn(&Ticket) -> bool) {
        let mut ticket = self.ticket.lock().unwrap_or_else(PoisonError::into_inner);
        if ticket.as_ref().is_some_and(is_it) {
            *ticket = None;
            if let Err(error) = std::fs::remove_file(&self.path) {
                warn!(%error, "remove a ticket that is not needed any more");
            }
        }
    }

    /// Asks the home to take this machine in again. `None`: there is no ticket.
    pub(super) async fn ask(&self, volume: &Arc<Volume>, endpoint: &Endpoint) -> Option<Result<News, JoinError>> {
        let ticket = self.ticket.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let former = volume.origin();
        let asked = join_again(endpoint, &ticket, &volume.settings().replica.label, Some(former)).await;
        Some(match asked {
            Ok(grant) => {
                info!(origin = %grant.origin, "taken in again");
                volume.go_on_as(grant.origin);
                self.forget_if(|kept| *kept == ticket);
                Ok(grant.news)
            }
            Err(error) => {
                if error.is_final() {
                    self.forget_if(|kept| *kept == ticket);
                }
                Err(error)
            }
        })
    }
}
