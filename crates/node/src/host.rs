//! The accepting side: whoever dials says what it wants, and is admitted or refused.

use crate::greet::{self, Frames};
use crate::handshake::{ChildRole, Grant, Greeting, PROTOCOL_VERSION, Refusal, Reply, encode};
use crate::label::is_label;
use crate::servers::{Have, Rival, is_of_another, reach, watch_rivals};
use crate::volume::Volume;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::task::AbortHandle;
use tracing::{debug, info};
use wayfs_net::{ChannelBinding, CloseCode, Connection, Endpoint};
use wayfs_proto::{Neighbour, Role};
use wayfs_types::{Admitted, NodeId, OriginId, Seal, VolumeId};

/// A station that does not know a member waits so long for word of it from its home.
const NEWS_WAIT_MAX: Duration = Duration::from_secs(3);
const NEWS_LOOK_PERIOD: Duration = Duration::from_millis(50);

/// A machine that presents a ticket.
#[derive(Debug, Clone)]
pub struct JoinRequest {
    /// The volume that it wants to join.
    pub volume: VolumeId,
    /// The machine: it proved to have this key.
    pub node: NodeId,
    /// Where it dialled from.
    pub address: SocketAddr,
    /// What names this connection.
    pub binding: ChannelBinding,
    /// Which ticket.
    pub ticket: [u8; 16],
    /// Its proof.
    pub proof: [u8; 32],
    /// As what.
    pub role: ChildRole,
    /// How it calls itself; already checked for length and characters.
    pub label: String,
    /// Under which origin it says that it was a member before.
    pub former: Option<OriginId>,
}

/// Decides about tickets. Called on a thread that may wait for the disk.
pub trait Admission: Send + Sync + 'static {
    /// Grants an origin, durably before it returns, and gives the same answer to the same machine again.
    ///
    /// # Errors
    /// The [`Refusal`] that is told to the machine.
    fn join(&self, request: JoinRequest) -> Result<Grant, Refusal>;
}

/// Admits nobody: for a node that only has children of volumes that it did not make.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAdmission;

impl Admission for NoAdmission {
    fn join(&self, _request: JoinRequest) -> Result<Grant, Refusal> {
        Err(Refusal::UnknownVolume)
    }
}

/// Accepts sessions for any number of volumes on one endpoint.
pub struct Host {
    endpoint: Endpoint,
    served: Arc<Register>,
    accepting: AbortHandle,
}

/// The volumes of an endpoint, those that are and those that were.
#[derive(Default)]
struct Register {
    volumes: RwLock<BTreeMap<VolumeId, Arc<Volume>>>,
    deleted: RwLock<BTreeSet<VolumeId>>,
    /// Volumes that cannot be opened here.
    broken: RwLock<BTreeSet<VolumeId>>,
    /// Nothing that this server has is still being opened.
    is_complete: AtomicBool,
}

impl Register {
    fn find(&self, id: VolumeId) -> Result<Arc<Volume>, Refusal> {
        let found = self.volumes.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        found.ok_or_else(|| self.absence(id))
    }

    /// Why there is no such volume.
    fn absence(&self, id: VolumeId) -> Refusal {
        let is_deleted = self.deleted.read().unwrap_or_else(PoisonError::into_inner).contains(&id);
        match (is_deleted, self.is_complete.load(Ordering::Acquire)) {
            (true, _) => Refusal::Deleted,
            (false, true) if self.broken.read().unwrap_or_else(PoisonError::into_inner).contains(&id) => {
                Refusal::NotReady("it cannot open the volume: ask its administrator".into())
            }
            (false, true) => Refusal::UnknownVolume,
            // A child that took this for the last word would stay away for long.
            (false, false) => Refusal::NotReady("this server is starting".into()),
        }
    }
}

impl Host {
    /// Begins to accept on the runtime. Who asks for a volume that is not here is told to come again until
    /// [`Host::complete`] says that nothing more is to be opened.
    pub fn start(endpoint: Endpoint, runtime: &tokio::runtime::Handle, admission: Arc<dyn Admission>) -> Self {
        let served: Arc<Register> = Arc::default();
        let (accepting_endpoint, register) = (endpoint.clone(), Arc::clone(&served));
        let accepting = runtime.spawn(async move {
            while let Some(connection) = accepting_endpoint.accept().await {
                let session = Newcomer { connection, served: Arc::clone(&register), admission: Arc::clone(&admission) };
                tokio::spawn(session.handle());
            }
        });
        Self { endpoint, served, accepting: accepting.abort_handle() }
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Serves a volume from this moment on.
    pub fn add(&self, volume: Arc<Volume>) {
        if volume.role() == Role::Home {
            let telling = reach::tell_stations(Arc::downgrade(&volume), self.endpoint.clone());
            volume.settings().runtime.spawn(telling);
            volume.settings().runtime.spawn(watch_rivals(Arc::downgrade(&volume), self.endpoint.clone()));
        }
        self.served.volumes.write().unwrap_or_else(PoisonError::into_inner).insert(volume.id(), volume);
    }

    /// All volumes that there are at the start have been added.
    pub fn complete(&self) {
        self.served.is_complete.store(true, Ordering::Release);
    }

    /// Whoever asks for a volume that cannot be opened here is told to come again.
    pub fn note_broken(&self, volume: VolumeId) {
        self.served.broken.write().unwrap_or_else(PoisonError::into_inner).insert(volume);
    }

    /// Serves a volume no longer; its sessions stay until the volume stops.
    pub fn remove(&self, volume: VolumeId) {
        self.served.volumes.write().unwrap_or_else(PoisonError::into_inner).remove(&volume);
    }

    /// Tells whoever asks for a volume from now on that it was deleted.
    pub fn delete_replica(&self, volume: VolumeId) {
        self.served.deleted.write().unwrap_or_else(PoisonError::into_inner).insert(volume);
        self.remove(volume);
    }

    /// Accepts no more.
    pub fn stop(&self) {
        self.accepting.abort();
        self.served.volumes.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("node", &self.endpoint.id().short()).finish_non_exhaustive()
    }
}

/// A connection of which nothing is known but the key.
struct Newcomer {
    connection: Connection,
    served: Arc<Register>,
    admission: Arc<dyn Admission>,
}

impl Newcomer {
    async fn handle(self) {
        let Some((frames, greeting)) = greet::hear(&self.connection).await else {
            debug!(node = %self.connection.peer().short(), "a connection without a greeting");
            return self.connection.close(CloseCode::NOT_ADMITTED, "no greeting");
        };
        match greeting {
            Greeting::Attach { version, .. } | Greeting::Join { version, .. } | Greeting::Look { version, .. }
                if version != PROTOCOL_VERSION =>
            {
                greet::refuse(&self.connection, &frames.0, Refusal::Version(PROTOCOL_VERSION)).await;
            }
            Greeting::Attach { volume, origin, role, have, admission, .. } => {
                let member = (self.connection.peer(), origin, admission);
                let admitted = match self.served.find(volume) {
                    Ok(volume) => admit(&volume, member, role).await.map(|as_| (volume, as_)),
                    Err(refusal) => Err(refusal),
                };
                match admitted {
                    Ok((volume, neighbour)) => self.welcome(&volume, frames, neighbour, &have),
                    Err(refusal) => {
                        debug!(node = %self.connection.peer().short(), %refusal, "session refused");
                        greet::refuse(&self.connection, &frames.0, refusal).await;
                    }
                }
            }
            Greeting::Join { volume, ticket, proof, role, label, former, .. } => {
                let request = JoinRequest {
                    volume,
                    node: self.connection.peer(),
                    address: self.connection.remote_addr(),
                    binding: self.connection.channel_binding(),
                    ticket,
                    proof,
                    role,
                    label,
                    former,
                };
                self.join(frames, request).await;
            }
            Greeting::Look { volume, have, .. } => self.tell(volume, frames, &have).await,
        }
    }

    /// Answers what is known of the servers, and takes what the other side knows, if it is a member or a server.
    async fn tell(&self, volume: VolumeId, mut frames: Frames, have: &Have) {
        let peer = self.connection.peer();
        let known = self.served.find(volume).and_then(|volume| may_look(&volume, peer).map(|()| volume));
        let volume = match known {
            Ok(volume) if have.is_well_formed() => volume,
            Ok(_) => return self.connection.close(CloseCode::NOT_ADMITTED, "malformed"),
            Err(refusal) => return greet::refuse(&self.connection, &frames.0, refusal).await,
        };
        self.connection.admit();
        let own = volume.settings().identity.id();
        if peer == own && is_of_another(own, &volume.directory().have(), have) {
            volume.note_rival(Rival::Copy(self.connection.remote_addr()));
        }
        let reply = Reply::Servers { have: volume.directory().have(), news: volume.directory().news_for(have) };
        if frames.0.send(encode(&reply)).await.is_ok()
            && let Some(news) = greet::hear_news(&mut frames.1).await
        {
            volume.take_news(news);
        }
        self.connection.close(CloseCode::GOODBYE, "");
    }

    fn welcome(&self, volume: &Arc<Volume>, frames: Frames, neighbour: Neighbour, have: &Have) {
        if !have.is_well_formed() {
            return self.connection.close(CloseCode::NOT_ADMITTED, "malformed");
        }
        let directory = volume.directory();
        let (ours, news) = (directory.have(), directory.news_for(have));
        let reply = Reply::Welcome { have: ours.clone(), news, seen_at: self.connection.remote_addr() };
        // Before the welcome is heard: what the child sends next finds its room.
        self.connection.admit();
        if frames.0.try_send(encode(&reply)).is_ok() {
            let peer = volume.attach(&self.connection, frames, neighbour);
            if let Some(session) = volume.session(peer) {
                session.note_has(have);
                session.note_has(&ours);
            }
        }
    }

    async fn join(&self, frames: Frames, request: JoinRequest) {
        let result = match is_label(&request.label) {
            false => Err(Refusal::Malformed("a label is 1 to 64 printable characters without `/`".into())),
            true => {
                let (admission, volume) = (Arc::clone(&self.admission), request.volume);
                let joined = tokio::task::spawn_blocking(move || admission.join(request)).await;
                match joined.unwrap_or_else(|error| Err(Refusal::NotReady(error.to_string()))) {
                    Err(Refusal::UnknownVolume) => Err(self.served.absence(volume)),
                    result => result,
                }
            }
        };
        match result {
            Ok(grant) => {
                info!(node = %self.connection.peer().short(), origin = %grant.origin, "machine joined");
                // If this gets lost, the machine asks again and gets the same answer.
                let _ = frames.0.send(encode(&Reply::Granted(grant))).await;
                self.connection.finish(CloseCode::GOODBYE, "", Duration::from_secs(5)).await;
            }
            Err(refusal) => greet::refuse(&self.connection, &frames.0, refusal).await,
        }
    }
}

/// Whether a machine may hear who serves a volume: its members and its servers.
fn may_look(volume: &Volume, node: NodeId) -> Result<(), Refusal> {
    if volume.directory().find(node).is_some() {
        return Ok(());
    }
    let known = volume.look(|replica| replica.admitted(node)).ok_or(Refusal::NotReady("it stops".into()))?;
    let known = known.map_err(|error| Refusal::NotReady(error.to_string()))?;
    match known.iter().map(|(_, origin)| origin.admitted).max_by_key(|admitted| *admitted != Admitted::Revoked) {
        None => Err(Refusal::NotAdmitted),
        Some(Admitted::Revoked) => Err(Refusal::Revoked),
        Some(Admitted::Home | Admitted::Station | Admitted::Client | Admitted::Reader) => Ok(()),
    }
}

/// Gives a member the origin back that a home which was put back to an older copy forgot.
fn admit_again(volume: &Volume, (node, origin, shown): (NodeId, OriginId, Option<Seal>)) -> Result<bool, Refusal> {
    volume.admit_again(node, (origin, shown)).map_err(|error| Refusal::NotReady(error.to_string()))
}

/// Whether a machine may be our child under an origin.
async fn admit(
    volume: &Arc<Volume>,
    member: (NodeId, OriginId, Option<Seal>),
    role: ChildRole,
) -> Result<Neighbour, Refusal> {
    let (node, origin, _) = member;
    match (volume.role(), role) {
        (Role::Client, _) => return Err(Refusal::UnknownVolume),
        (Role::Station, ChildRole::Station) => {
            return Err(Refusal::NotReady("a station attaches to the home, not to another station".into()));
        }
        (Role::Station, ChildRole::Client | ChildRole::Reader) | (Role::Home, _) => {}
    }
    let started = Instant::now();
    loop {
        let known = volume
            .look(|replica| replica.admitted(node))
            .ok_or(Refusal::NotReady("it stops".into()))?
            .map_err(|error| Refusal::NotReady(error.to_string()))?;
        match known.into_iter().find(|(id, _)| *id == origin) {
            Some((_, origin)) if origin.admitted == Admitted::Revoked => return Err(Refusal::Revoked),
            Some((_, known)) if role.is_admitted_as(known.admitted) => {
                return Ok(match role {
                    ChildRole::Client | ChildRole::Reader => Neighbour::ChildClient { origin },
                    ChildRole::Station => Neighbour::ChildStation { origin },
                });
            }
            Some(_) => return Err(Refusal::NotAdmitted),
            None if volume.role() == Role::Home && !admit_again(volume, member)? => {
                return Err(Refusal::NotAdmitted);
            }
            None if volume.role() == Role::Home => {}
            None if started.elapsed() >= NEWS_WAIT_MAX => {
                return Err(Refusal::NotReady("this station has not yet heard of this member from the home".into()));
            }
            None => tokio::time::sleep(NEWS_LOOK_PERIOD).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_starting_says_come_again() {
        let (register, id) = (Register::default(), VolumeId::from_bytes([1; 16]));
        assert!(matches!(register.absence(id), Refusal::NotReady(_)));
        register.is_complete.store(true, Ordering::Release);
        assert_eq!(register.absence(id), Refusal::UnknownVolume);
        register.deleted.write().unwrap().insert(id);
        assert_eq!(register.absence(id), Refusal::Deleted);
    }
}
