//! Tickets that a home issued: each admits one machine, once.
//!
//! ```text
//!            node proves the secret            origin granted, durable
//!  issued ─────────────────────▶ claimed by node ────────────────────▶ spent by node
//!    └── expiry: forgotten                └── the same node again: the same answer
//! ```
//!
//! The secret is wiped as soon as a node has claimed it: from then on the node's key is the proof.

use crate::durable_file;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wayfs_net::{ChannelBinding, TicketId, TicketSecret};
use wayfs_node::{ChildRole, Refusal};
use wayfs_types::{Limits, NodeId, OriginId};

/// Most tickets of a volume that are neither spent nor expired.
const OPEN_MAX: usize = 10_000;
/// Spent tickets are remembered so long after their expiry, for machines that ask again.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Issued {
    role: ChildRole,
    expiry_unix_s: u64,
    /// The secret, while it is unclaimed.
    secret: Option<[u8; 32]>,
    node: Option<NodeId>,
    origin: Option<u32>,
    /// What its member may do less than others.
    #[serde(default)]
    limits: Limits,
}

/// What to do about a machine with a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// It was granted this origin before.
    Known(OriginId),
    /// Grant it one with these limits, then say [`Tickets::granted`].
    Grant(Limits),
}

/// A machine's proof.
#[derive(Debug, Clone)]
pub(crate) struct Proof {
    pub(crate) ticket: [u8; 16],
    pub(crate) proof: [u8; 32],
    pub(crate) binding: ChannelBinding,
    pub(crate) node: NodeId,
    pub(crate) role: ChildRole,
}

/// The tickets of one volume, and their file.
#[derive(Debug)]
pub(crate) struct Tickets {
    path: PathBuf,
    issued: BTreeMap<String, Issued>,
}

impl Tickets {
    pub(crate) fn load(path: &Path) -> io::Result<Self> {
        let issued = durable_file::read(path)?.unwrap_or_default();
        Ok(Self { path: path.to_owned(), issued })
    }

    /// Issues one that is `good` from now until it expires, in Unix seconds; durable when this returns.
    pub(crate) fn issue(
        &mut self,
        secret: &TicketSecret,
        (role, limits): (ChildRole, Limits),
        good: Range<u64>,
    ) -> io::Result<()> {
        let Range { start: now_unix_s, end: expiry_unix_s } = good;
        let remembered = REMEMBERED.as_secs();
        self.issued.retain(|_, issued| match issued.node {
            None => issued.expiry_unix_s > now_unix_s,
            Some(_) => issued.expiry_unix_s.saturating_add(remembered) > now_unix_s,
        });
        if self.issued.values().filter(|issued| issued.node.is_none()).count() >= OPEN_MAX {
            return Err(io::Error::other("too many tickets are open: let some expire"));
        }
        let secret_bytes = Some(*secret.expose());
        let issued = Issued { role, expiry_unix_s, secret: secret_bytes, node: None, origin: None, limits };
        self.issued.insert(key(secret.id()), issued);
        durable_file::write(&self.path, &self.issued)
    }

    /// Checks a proof and claims the ticket for the machine, durably.
    pub(crate) fn claim(&mut self, proof: &Proof, now_unix_s: u64) -> Result<Claim, Refusal> {
        let key = key(TicketId::from_bytes(proof.ticket));
        let issued = self.issued.get_mut(&key).ok_or(Refusal::TicketUnknown)?;
        match issued.node {
            Some(node) if node != proof.node => return Err(Refusal::TicketSpent),
            Some(_) => {
                let origin = issued.origin.and_then(|origin| OriginId::new(origin).ok());
                return Ok(origin.map_or(Claim::Grant(issued.limits), Claim::Known));
            }
            None => {}
        }
        let secret = issued.secret.map(TicketSecret::from_bytes).ok_or(Refusal::TicketSpent)?;
        // The proof first: whoever does not have the secret learns nothing about the ticket.
        if !secret.verify(&proof.binding, proof.node, &proof.proof) {
            return Err(Refusal::TicketWrong);
        }
        if issued.expiry_unix_s <= now_unix_s {
            return Err(Refusal::TicketExpired);
        }
        if issued.role != proof.role {
            return Err(Refusal::TicketRole);
        }
        let (before, limits) = (issued.clone(), issued.limits);
        issued.node = Some(proof.node);
        issued.secret = None;
        if let Err(error) = durable_file::write(&self.path, &self.issued) {
            self.issued.insert(key, before);
            return Err(Refusal::NotReady(format!("the home cannot write: {error}")));
        }
        Ok(Claim::Grant(limits))
    }

    /// Remembers what a claimed ticket was good for.
    pub(crate) fn granted(&mut self, ticket: [u8; 16], origin: OriginId) -> io::Result<()> {
        if let Some(issued) = self.issued.get_mut(&key(TicketId::from_bytes(ticket))) {
            issued.origin = Some(origin.raw());
        }
        durable_file::write(&self.path, &self.issued)
    }
}

fn key(id: TicketId) -> String {
    id.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BINDING: ChannelBinding = ChannelBinding::from_bytes([7; 32]);
    const NODE: NodeId = NodeId::from_bytes([1; 32]);
    const OTHER: NodeId = NodeId::from_bytes([2; 32]);

    fn proof(secret: &TicketSecret, node: NodeId) -> Proof {
        let proof = secret.proof(&BINDING, node);
        Proof { ticket: *secret.id().as_bytes(), proof, binding: BINDING, node, role: ChildRole::Client }
    }

    fn issued(directory: &tempfile::TempDir) -> (Tickets, TicketSecret) {
        let mut tickets = Tickets::load(&directory.path().join("tickets.json")).unwrap();
        let secret = TicketSecret::from_bytes([9; 32]);
        tickets.issue(&secret, (ChildRole::Client, Limits::NONE), 0..1000).unwrap();
        (tickets, secret)
    }

    #[test]
    fn a_ticket_admits_one_machine_and_answers_it_again_after_a_restart() {
        let directory = tempfile::tempdir().unwrap();
        let (mut tickets, secret) = issued(&directory);
        assert_eq!(tickets.claim(&proof(&secret, NODE), 10), Ok(Claim::Grant(Limits::NONE)));
        assert_eq!(tickets.claim(&proof(&secret, OTHER), 10), Err(Refusal::TicketSpent));
        let origin = OriginId::new(5).unwrap();
        tickets.granted(*secret.id().as_bytes(), origin).unwrap();
        let mut again = Tickets::load(&directory.path().join("tickets.json")).unwrap();
        assert_eq!(again.claim(&proof(&secret, NODE), 5000), Ok(Claim::Known(origin)));
        let file = std::fs::read_to_string(directory.path().join("tickets.json")).unwrap();
        assert!(!file.contains("9,\n"), "the secret is wiped once it is claimed");
    }

    #[test]
    fn wrong_expired_unknown_and_misused_tickets_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (mut tickets, secret) = issued(&directory);
        let mut wrong = proof(&secret, NODE);
        wrong.proof[0] ^= 1;
        assert_eq!(tickets.claim(&wrong, 10), Err(Refusal::TicketWrong));
        let mut replayed = proof(&secret, NODE);
        replayed.node = OTHER;
        assert_eq!(tickets.claim(&replayed, 10), Err(Refusal::TicketWrong));
        assert_eq!(tickets.claim(&proof(&secret, NODE), 1000), Err(Refusal::TicketExpired));
        let mut station = proof(&secret, NODE);
        station.role = ChildRole::Station;
        assert_eq!(tickets.claim(&station, 10), Err(Refusal::TicketRole));
        let unknown = TicketSecret::from_bytes([1; 32]);
        assert_eq!(tickets.claim(&proof(&unknown, NODE), 10), Err(Refusal::TicketUnknown));
        assert_eq!(tickets.claim(&proof(&secret, NODE), 10), Ok(Claim::Grant(Limits::NONE)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn a_damaged_file_of_tickets_is_refused_or_admits_nobody_without_a_secret(
            edits in proptest::collection::vec(any::<(usize, u8)>(), 1..6),
        ) {
            let directory = tempfile::tempdir().unwrap();
            let (_, secret) = issued(&directory);
            let path = directory.path().join("tickets.json");
            let mut bytes = std::fs::read(&path).unwrap();
            for (at, byte) in edits {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            std::fs::write(&path, bytes).unwrap();
            if let Ok(mut tickets) = Tickets::load(&path) {
                let _ = tickets.claim(&proof(&secret, NODE), 10);
                let stranger = TicketSecret::from_bytes([1; 32]);
                let mut guessed = proof(&secret, OTHER);
                guessed.proof = stranger.proof(&BINDING, OTHER);
                prop_assert!(!matches!(tickets.claim(&guessed, 10), Ok(Claim::Grant(_))));
            }
        }
    }
}
