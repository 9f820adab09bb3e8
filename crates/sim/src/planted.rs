//! Bugs planted on purpose: a checker that does not catch them is worth nothing.
//!
//! Each breaks one promise that the engine lives by, at the place where the
//! engine meets its world, so that the engine which ships stays as it is.

use crate::network::End;
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
    /// Parents call safe what the home has only ordered.
    VisibleAsSafe,
    /// Clients let contents go as soon as they are safe.
    DutyDroppedAtSafe,
    /// Clients do not tell another parent what only they could give.
    DutyNotTold,
    /// No store tells its openings apart, so an older copy of it passes for the newest.
    OldCopyAsNew,
    /// "Durable" is said one batch early.
    OneBatchEarly,
    /// A group commit syncs the chunks first, and takes all records that came meanwhile.
    ChunksSyncedFirst,
    /// A session carries one content upward, and forgets the others.
    OnePushOnly,
    /// A sweep takes what its own machine alone has.
    OwedEvicted,
    /// Now and then a parent calls contents stable before the home has them.
    StableEarly,
    /// Callbacks of other clients do not arrive.
    CallbacksDropped,
    /// Parents do not hear that clients take rights to change alone, and ask nobody to give one back.
    RightsNotHeard,
    /// Nobody takes notice of an exclusive directory: stations and clients decide there as elsewhere.
    ExclusiveIgnored,
    /// The home removes a member without the fence that it was told to draw.
    FenceIgnored,
    /// Now and then a kernel is not told that something is old.
    KernelNotTold,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::StoredBeforeDurable,
        Self::DiskLies,
        Self::ImageSkipped,
        Self::RecordEmptied,
        Self::ContentsForgotten,
        Self::AckDropped,
        Self::WelcomeOverstates,
        Self::SafeBeforeContents,
        Self::PartialAsWhole,
        Self::VisibleAsSafe,
        Self::DutyDroppedAtSafe,
        Self::DutyNotTold,
        Self::OldCopyAsNew,
        Self::OneBatchEarly,
        Self::ChunksSyncedFirst,
        Self::OnePushOnly,
        Self::OwedEvicted,
        Self::StableEarly,
        Self::CallbacksDropped,
        Self::RightsNotHeard,
        Self::ExclusiveIgnored,
        Self::FenceIgnored,
        Self::KernelNotTold,
    ];
}

/// What becomes of a frame under a bug, in a world that is not healed.
pub(crate) fn tamper(bug: Option<Bug>, from: End, bytes: Bytes, random: &mut ChaCha8Rng) -> Bytes {
    let Some(bug) = bug else { return bytes };
    let chance = match bug {
        Bug::ImageSkipped | Bug::AckDropped | Bug::WelcomeOverstates if from == End::Parent => 0.2,
        Bug::RecordEmptied if from == End::Child => 0.2,
        Bug::SafeBeforeContents | Bug::VisibleAsSafe | Bug::StableEarly if from == End::Parent => 1.0,
        Bug::CallbacksDropped if from == End::Parent => 0.5,
        Bug::DutyNotTold | Bug::RightsNotHeard if from == End::Child => 1.0,
        _ => return bytes,
    };
    if !random.random_bool(chance) {
        return bytes;
    }
    match wayfs_wire::decode(&bytes) {
        Ok(Message::Down(down)) => wayfs_wire::encode(&Message::Down(tamper_down(bug, down))),
        Ok(Message::Up(up)) => wayfs_wire::encode(&Message::Up(tamper_up(bug, up))),
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
        (Bug::VisibleAsSafe, Down::Marks { marks }) => {
            marks.iter_mut().for_each(|mark| mark.safe = mark.safe.max(mark.visible));
        }
        (Bug::StableEarly, Down::Marks { marks }) => marks.iter_mut().for_each(|mark| mark.stable = mark.safe),
        (Bug::CallbacksDropped, Down::Images { images, omitted, .. }) => {
            images.clear();
            omitted.clear();
        }
        (Bug::WelcomeOverstates, Down::Welcome { applied, .. }) => applied.iter_mut().for_each(|of| of.through += 1),
        _ => {}
    }
    down
}

fn tamper_up(bug: Bug, mut up: Up) -> Up {
    match (bug, &mut up) {
        (Bug::RecordEmptied, Up::Records { records } | Up::Cancelled { records, .. }) => {
            if let Some(last) = records.last_mut() {
                last.record.op = Op::Touch;
            }
        }
        (Bug::DutyNotTold, Up::Lent { versions }) => versions.clear(),
        (Bug::RightsNotHeard, Up::TakesRights { takes }) => *takes = false,
        _ => {}
    }
    up
}
