//! A ticket for a machine that is a member already: kept until a session shows that it is not needed, or a refusal that it is.

use crate::error::MemberError;
use crate::handshake::Grant;
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
use wayfs_types::OriginId;

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
            Ok(Grant { origin, news, .. }) => {
                info!(%origin, "taken in again");
                // A crash before that is durable leaves the store with the origin that it had: then the ticket is needed once more.
                match go_on_as(volume, origin).await {
                    Ok(()) => {
                        self.forget_if(|kept| *kept == ticket);
                        Ok(news)
                    }
                    Err(source) => Err(JoinError::Store { origin, source }),
                }
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

/// On a thread that may block.
async fn go_on_as(volume: &Arc<Volume>, origin: OriginId) -> Result<(), MemberError> {
    let blocked = Arc::clone(volume);
    let done = tokio::task::spawn_blocking(move || blocked.go_on_as(origin)).await;
    done.unwrap_or(Err(MemberError::Stopped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Machine, Plan, VOLUME};
    use crate::{Admission, Host, JoinRequest, Refusal};
    use std::net::SocketAddr;
    use wayfs_net::{NetConfig, NodeIdentity, TicketParts, TicketRole, TicketSecret};
    use wayfs_proto::Role;

    /// Grants another origin, and the machine that asks may end before it hears so.
    struct Granting {
        origin: OriginId,
        ends: Option<Arc<Volume>>,
    }

    impl Admission for Granting {
        fn join(&self, request: JoinRequest) -> Result<Grant, Refusal> {
            if let Some(volume) = &self.ends {
                volume.abandon();
            }
            let (name, news) = ("docs".to_owned(), News::default());
            Ok(Grant { volume: VOLUME, name, origin: self.origin, role: request.role, label: request.label, news })
        }
    }

    /// Asks with a ticket. Answers whether the ticket is kept, and under which origin the machine is opened again.
    fn ask(ends: bool) -> (bool, OriginId) {
        let dir = tempfile::tempdir().unwrap();
        let (place, granted) = (dir.path().join("client"), OriginId::new(9).unwrap());
        let plan = || Plan::new(&place, Role::Client, OriginId::new(5).unwrap());
        let client = Machine::start(plan());
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let _inside = runtime.enter();
        let key = NodeIdentity::load_or_create(&dir.path().join("home")).unwrap();
        let endpoint = Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0)), &key, NetConfig::default()).unwrap();
        let address = endpoint.local_addr().unwrap().into();
        let granting = Granting { origin: granted, ends: ends.then(|| Arc::clone(&client.volume)) };
        let host = Host::start(endpoint, runtime.handle(), Arc::new(granting));
        host.complete();
        let ticket = Ticket::new(TicketParts {
            role: TicketRole::Client,
            volume: VOLUME,
            volume_name: "docs".into(),
            home: key.id(),
            addresses: vec![address],
            secret: TicketSecret::generate().unwrap(),
            expiry_unix_s: u64::MAX / 2,
        })
        .unwrap();
        Readmission::load(&place).keep(ticket).unwrap();
        let asked = runtime.block_on(Readmission::load(&place).ask(&client.volume, &client.endpoint)).unwrap();
        assert_eq!(asked.is_err(), ends, "{asked:?}");
        client.crash();
        let client = Machine::start(plan());
        let kept = Readmission::load(&place).ticket.into_inner().unwrap();
        (kept.is_some(), client.volume.origin())
    }

    /// [S-taken-in-again] A crash between the home's word and the disk: the machine has the origin that it had, and asks again.
    #[test]
    fn a_ticket_is_kept_until_what_it_was_good_for_is_durable() {
        assert_eq!(ask(true), (true, OriginId::new(5).unwrap()));
        assert_eq!(ask(false), (false, OriginId::new(9).unwrap()));
    }
}
