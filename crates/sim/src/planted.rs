//! Bugs planted on purpose: a checker that does not catch them is worth nothing.
//!
//! Each breaks one promise that the engine lives by, at the place where the
//! engine meets its world, so that the engine which ships stays as it is.

use crate::network::End;
use crate::plan::Plan;
use bytes::Bytes;
use rand::Rng;
use rand_chacha::ChaCha8Rng;
use wayfs_types::Op;
use wayfs_wire::{Down, Message, Up};

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bug {
    /// Stations acknowledge before anything is on disk.
    StoredBeforeDurable,
    /// Clients' disks say "durable" and lose it in a crash.
    DiskLies,
    /// Now and then an image on its way down is left out.
    ImageSkipped,
    /// Now and then a record on its way up loses its operation.
    RecordEmptied,
    /// Parents say that contents arrived and do not have them.
    ContentsForgotten,
    /// Now and then a parent's word of how far records have come is lost for good.
    AckDropped,
    /// Now and then a parent welcomes a child as if it had one record more than it has: what the child carries over
    /// from its former parent is forgotten.
    WelcomeOverstates,
    /// Parents call records safe before they have the contents, and before other clients have heard.
    SafeBeforeContents,
    /// Parents take a content for whole when its first piece is there.
    PartialAsWhole,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::StoredBeforeDurable,
        Self::DiskLies,
        Self::ImageSkipped,
        Self::RecordEmptied,
        Self::ContentsForgotten,
        Self::AckDropped,
        Self::WelcomeOverstates,
        Self::SafeBeforeContents,
        Self::PartialAsWhole,
    ];
}

impl Bug {
    /// A plan in which the bug can matter.
    pub fn plan(self, seed: u64) -> Plan {
        Plan::of_seed(seed)
    }
}

/// What becomes of a frame under a bug.
pub(crate) fn tamper(bug: Option<Bug>, from: End, healed: bool, bytes: Bytes, random: &mut ChaCha8Rng) -> Bytes {
    let (Some(bug), false) = (bug, healed) else { return bytes };
    let chance = match bug {
        Bug::ImageSkipped | Bug::AckDropped | Bug::WelcomeOverstates if from == End::Parent => 0.2,
        Bug::RecordEmptied if from == End::Child => 0.2,
        Bug::SafeBeforeContents if from == End::Parent => 1.0,
        _ => return bytes,
    };
    if !random.random_bool(chance) {
        return bytes;
    }
    match wayfs_wire::decode(&bytes) {
        Ok(Message::Down(down)) => wayfs_wire::encode(&Message::Down(tamper_down(bug, down))),
        Ok(Message::Up(up)) => wayfs_wire::encode(&Message::Up(tamper_up(up))),
        Err(_) => bytes,
    }
}

fn tamper_down(bug: Bug, mut down: Down) -> Down {
    match (bug, &mut down) {
        (Bug::ImageSkipped, Down::Images { images, omitted, .. }) => {
            images.pop();
            omitted.retain(|omitted| (omitted.index as usize) < images.len());
        }
        (Bug::AckDropped, Down::Marks { marks }) => marks.clear(),
        (Bug::SafeBeforeContents, Down::Marks { marks }) => marks.iter_mut().for_each(|mark| mark.safe = mark.applied),
        (Bug::WelcomeOverstates, Down::Welcome { applied, .. }) => applied.iter_mut().for_each(|of| of.through += 1),
        _ => {}
    }
    down
}

fn tamper_up(mut up: Up) -> Up {
    if let Up::Records { records } | Up::Cancelled { records, .. } = &mut up
        && let Some(last) = records.last_mut()
    {
        last.record.op = Op::Touch;
    }
    up
}
