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
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::StoredBeforeDurable, Self::DiskLies, Self::ImageSkipped, Self::RecordEmptied, Self::ContentsForgotten];
}

/// What becomes of a frame under a bug.
pub(crate) fn tamper(bug: Option<Bug>, from: End, healed: bool, bytes: Bytes, random: &mut ChaCha8Rng) -> Bytes {
    let strikes = match bug {
        Some(Bug::ImageSkipped) => from == End::Parent && !healed,
        Some(Bug::RecordEmptied) => from == End::Child && !healed,
        _ => false,
    };
    if !strikes || !random.random_bool(0.2) {
        return bytes;
    }
    match wayfs_wire::decode(&bytes) {
        Ok(Message::Down(Down::Images { serial, through, more, mut images })) => {
            images.pop();
            wayfs_wire::encode(&Message::Down(Down::Images { serial, through, more, images }))
        }
        Ok(Message::Up(Up::Records { mut records })) => {
            if let Some(last) = records.last_mut() {
                last.record.op = Op::Touch;
            }
            wayfs_wire::encode(&Message::Up(Up::Records { records }))
        }
        _ => bytes,
    }
}
