//! A home's answer to a machine with a ticket.

use crate::served::Served;
use crate::shared::Shared;
use crate::tickets::{Claim, Proof};
use std::sync::{PoisonError, Weak};
use std::time::Duration;
use tracing::error;
use wayfs_control::EventKind;
use wayfs_node::{Admission, ChildRole, Grant, Have, JoinRequest, MemberError, Refusal, clock};
use wayfs_types::{Admitted, Limits, OriginId, Standing};

/// Longest wait for the disk before a machine is told to try again.
const SYNC_MAX: Duration = Duration::from_secs(8);

/// Admits machines to the volumes of which this server is the home.
pub(crate) struct HomeAdmission {
    server: Weak<Shared>,
}

impl HomeAdmission {
    pub(crate) fn new(server: Weak<Shared>) -> Self {
        Self { server }
    }
}

impl Admission for HomeAdmission {
    fn join(&self, request: JoinRequest) -> Result<Grant, Refusal> {
        let server = self.server.upgrade().ok_or_else(|| Refusal::NotReady("it stops".into()))?;
        let served = server.volumes.read().unwrap_or_else(PoisonError::into_inner).get(&request.volume).cloned();
        let served = served.filter(|served| served.is_home()).ok_or(Refusal::UnknownVolume)?;
        // Held until the answer is durable: two machines with one ticket are told one after the other.
        let mut tickets = served.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let tickets = tickets.as_mut().ok_or(Refusal::UnknownVolume)?;
        let proof = Proof {
            ticket: request.ticket,
            proof: request.proof,
            binding: request.binding,
            node: request.node,
            role: request.role,
        };
        let origin = match tickets.claim(&proof, clock::unix_seconds())? {
            Claim::Known(origin) => origin,
            Claim::Grant(limits) => {
                let origin = admit(&served, &request, limits)?;
                if let Err(error) = tickets.granted(request.ticket, origin) {
                    // The machine has its origin; asking again would give it another, which does no harm.
                    error!(%error, "remember what a ticket was good for");
                }
                let event = wayfs_admin::events::event(
                    EventKind::Member,
                    Some(served.name()),
                    format!("{} joined", request.label),
                );
                server.events.tell(event);
                origin
            }
        };
        Ok(Grant {
            volume: served.id,
            name: served.file.name.clone(),
            origin,
            role: request.role,
            label: request.label,
            news: served.volume.directory().news_for(&Have::default()),
        })
    }
}

/// Takes a machine in: under the origin that it had, if it was a member before and that origin is its own.
fn admit(served: &Served, request: &JoinRequest, limits: Limits) -> Result<OriginId, Refusal> {
    let admitted = match request.role {
        ChildRole::Client => Admitted::Client,
        ChildRole::Station => Admitted::Station,
        ChildRole::Reader => Admitted::Reader,
    };
    let standing = Standing { admitted, limits };
    let refused = |error: MemberError| Refusal::NotReady(error.to_string());
    if let Some(former) = request.former
        && served.volume.reinstate((request.node, former), standing, SYNC_MAX).map_err(refused)?
    {
        return Ok(former);
    }
    served.volume.grant_origin(request.node, standing, &request.label, SYNC_MAX).map_err(refused)
}
