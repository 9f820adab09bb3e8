//! Archives, small files, tickets, and the kernel's tables of addresses, for the fuzzer.

use crate::control::read_archive;
use crate::layout::{VolumeFile, read_volume};
use crate::tickets::{Claim, Proof, Tickets};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;
use wayfs_net::{ChannelBinding, TicketSecret};
use wayfs_node::{ChildRole, Refusal};
use wayfs_types::{Limits, NodeId, OriginId};

/// Length of a header of an archive.
const BLOCK: usize = 512;

/// Reads bytes as a tar archive, once as they are and once with the checks of all blocks set right: a fuzzer would not guess them.
pub fn archive(bytes: &[u8]) {
    read_archive(bytes);
    let mut checked = bytes.to_vec();
    for block in checked.chunks_exact_mut(BLOCK).filter(|block| block.iter().any(|byte| *byte != 0)) {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    }
    read_archive(&checked);
}

/// Reads bytes as the small files of a volume and of a backup; `scratch` is an empty directory.
pub fn read_files(scratch: &Path, bytes: &[u8]) {
    for name in ["volume.json", "volume-copy.json", "tickets.json"] {
        std::fs::write(scratch.join(name), bytes).expect("memory has room");
    }
    let _ = read_volume(scratch).map(|file| file.as_ref().and_then(VolumeFile::ids));
    if let Ok(mut tickets) = Tickets::load(&scratch.join("tickets.json")) {
        let secret = TicketSecret::from_bytes([9; 32]);
        let _ = tickets.claim(&proof(&secret, NodeId::from_bytes([1; 32]), ChildRole::Client), 10);
    }
    crate::backup::read_files(bytes);
}

/// Reads text as the kernel's tables of addresses.
pub fn addresses(text: &str) {
    let _ = crate::addresses::local_ips(text, Some(text));
}

fn proof(secret: &TicketSecret, node: NodeId, role: ChildRole) -> Proof {
    let binding = ChannelBinding::from_bytes([7; 32]);
    Proof { ticket: *secret.id().as_bytes(), proof: secret.proof(&binding, node), binding, node, role }
}

/// What is done with tickets: who, which ticket, at which time.
#[derive(Debug, Clone, Copy)]
pub enum Deed {
    /// The home issues it, for this role, until this time.
    Issue(u8, bool, u8),
    /// A machine shows it, for this role; with the right proof or not.
    Show {
        /// Which ticket.
        ticket: u8,
        /// Which machine.
        machine: u8,
        /// Whether it wants to be a station.
        station: bool,
        /// Whether the proof fits.
        fits: bool,
    },
    /// The home starts again.
    Restart,
    /// Time passes.
    Pass(u8),
}

/// Lets a home and machines use tickets; `scratch` is an empty directory.
///
/// # Panics
/// If a ticket admits two machines, one that is expired, or one without its proof: a fault of the tickets.
pub fn use_tickets(scratch: &Path, deeds: &[Deed]) {
    let path = scratch.join("tickets.json");
    let _ = std::fs::remove_file(&path);
    let mut home =
        Home { tickets: load(&path), issued: BTreeMap::new(), admitted: BTreeMap::new(), now: 1, origins: 1 };
    for deed in deeds {
        match *deed {
            Deed::Issue(ticket, _, lasts) => home.issue(ticket, deed.role(), Duration::from_secs(lasts.into())),
            Deed::Show { ticket, machine, fits, .. } => {
                let proof = if fits { ProofIs::Right } else { ProofIs::Wrong };
                home.show(Shown { ticket, machine, role: deed.role(), proof });
            }
            Deed::Restart => home.tickets = load(&path),
            Deed::Pass(seconds) => home.now += u64::from(seconds),
        }
    }
}

fn load(path: &Path) -> Tickets {
    Tickets::load(path).expect("what it wrote it reads")
}

impl Deed {
    /// For which role a ticket is issued or shown.
    const fn role(&self) -> ChildRole {
        match self {
            Self::Issue(_, true, _) | Self::Show { station: true, .. } => ChildRole::Station,
            Self::Issue(..) | Self::Show { .. } | Self::Restart | Self::Pass(_) => ChildRole::Client,
        }
    }
}

/// A ticket in the hands of a machine.
struct Shown {
    ticket: u8,
    machine: u8,
    role: ChildRole,
    proof: ProofIs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ProofIs {
    Right,
    Wrong,
}

/// A home, and what must be so.
struct Home {
    tickets: Tickets,
    /// Role and end of each ticket that was issued.
    issued: BTreeMap<u8, (ChildRole, u64)>,
    admitted: BTreeMap<u8, (u8, OriginId)>,
    now: u64,
    origins: u32,
}

impl Home {
    fn issue(&mut self, ticket: u8, role: ChildRole, lasts: Duration) {
        if self.issued.contains_key(&ticket) {
            // Secrets are drawn: no two tickets have the same.
            return;
        }
        let end = self.now + lasts.as_secs();
        let secret = TicketSecret::from_bytes([ticket; 32]);
        self.tickets.issue(&secret, (role, Limits::NONE), self.now..end).expect("memory has room");
        self.issued.insert(ticket, (role, end));
    }

    fn show(&mut self, shown: Shown) {
        let Shown { ticket, machine, role, proof: is } = shown;
        let secret = TicketSecret::from_bytes([ticket; 32]);
        let mut proof = proof(&secret, NodeId::from_bytes([machine; 32]), role);
        if is == ProofIs::Wrong {
            proof.proof[usize::from(machine) % 32] ^= 1;
        }
        match self.tickets.claim(&proof, self.now) {
            Ok(Claim::Grant(_)) => {
                let (role, end) = self.issued[&ticket];
                assert!(
                    is == ProofIs::Right && !self.admitted.contains_key(&ticket),
                    "a ticket admits one machine, with its proof"
                );
                assert!(role == proof.role && self.now < end, "a ticket is good for its role and its time");
                self.origins += 1;
                let origin = OriginId::new(self.origins).expect("a small number");
                self.tickets.granted(proof.ticket, origin).expect("memory has room");
                self.admitted.insert(ticket, (machine, origin));
            }
            Ok(Claim::Known(origin)) => assert_eq!(self.admitted.get(&ticket), Some(&(machine, origin))),
            Err(Refusal::TicketSpent) => assert!(self.admitted.get(&ticket).is_some_and(|(who, _)| *who != machine)),
            Err(_) => {}
        }
    }
}
