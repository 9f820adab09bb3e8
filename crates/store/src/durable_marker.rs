//! The durable marker: the last batch that was reported durable.
//!
//! It is written after each sync and not synced itself: what it says was true when
//! it was written, so a marker that reaches the disk never promises too much, and one
//! that is lost only leaves the check weaker by the last few seconds. Two slots are
//! written in turn, so that a torn write leaves the other.

use crate::chain::Chain;
use std::path::Path;
use std::sync::Arc;
use wayfs_disk::{Disk, DiskFile};

/// Distance of the slots: different sectors of any disk.
const SLOT: u64 = 4096;
const MAGIC: [u8; 8] = *b"WAYFSDUR";
/// Bytes of a slot.
const SLOT_LEN: usize = MAGIC.len() + crate::chain::LEN;

/// The open marker file.
#[derive(Debug)]
pub(crate) struct DurableMarker {
    file: Arc<dyn DiskFile>,
    next: u64,
}

impl DurableMarker {
    /// Opens or makes the marker and returns what it says, if anything.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> std::io::Result<(Self, Option<Chain>)> {
        let file = match disk.open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => disk.create(path)?,
            opened => opened?,
        };
        make_room(&*file)?;
        let slots = [read_slot(&*file, 0), read_slot(&*file, 1)];
        let newest = slots.into_iter().flatten().max_by_key(|chain| chain.ticket);
        let next = if slots[0].is_some() && slots[0] == newest { 1 } else { 0 };
        Ok((Self { file, next }, newest))
    }

    /// What the marker says, if there is one and it says anything. Changes nothing.
    pub(crate) fn read(disk: &dyn Disk, path: &Path) -> std::io::Result<Option<Chain>> {
        match disk.open(path) {
            Ok(file) => {
                Ok([read_slot(&*file, 0), read_slot(&*file, 1)].into_iter().flatten().max_by_key(|chain| chain.ticket))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes that all batches up to the chain's are durable.
    pub(crate) fn write(&mut self, chain: Chain) -> std::io::Result<()> {
        let mut slot = MAGIC.to_vec();
        slot.extend_from_slice(&chain.encode());
        self.file.write_at(&slot, self.next * SLOT)?;
        self.next = 1 - self.next;
        Ok(())
    }

    /// Makes the marker itself durable.
    pub(crate) fn sync(&self) -> std::io::Result<()> {
        self.file.sync()
    }

    /// Forgets what was promised, for an open that accepts a loss.
    pub(crate) fn clear(&mut self) -> std::io::Result<()> {
        self.file.set_size(0)?;
        make_room(&*self.file)?;
        self.next = 0;
        self.file.sync()
    }
}

/// Both slots have their room from the start: a disk that fills up must not keep the marker from being written.
fn make_room(file: &dyn DiskFile) -> std::io::Result<()> {
    let (size, wanted) = (file.size()?, SLOT + SLOT_LEN as u64);
    if size < wanted {
        file.write_at(&vec![0; (wanted - size) as usize], size)?;
    }
    Ok(())
}

fn read_slot(file: &dyn DiskFile, slot: u64) -> Option<Chain> {
    let mut bytes = [0; SLOT_LEN];
    file.read_exact_at(&mut bytes, slot * SLOT).ok()?;
    let (magic, chain) = bytes.split_at(MAGIC.len());
    if magic == MAGIC { Chain::decode(chain) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_disk::faulty::{Cut, FaultyDisk, Room};
    use wayfs_types::Ticket;

    /// The simulator found it: the second slot was not there yet when the disk filled up, so the marker stayed behind.
    #[test]
    fn a_full_disk_takes_the_marker() {
        let directory = Path::new("/data");
        let path = directory.join("meta.durable");
        let disk = FaultyDisk::new(directory, 1);
        let (mut marker, _) = DurableMarker::open(&disk, &path).unwrap();
        disk.sync_directory(directory).unwrap();
        disk.set_room(Room::None);
        for ticket in 1..=3 {
            marker.write(Chain { ticket: Ticket(ticket), ..Chain::default() }).unwrap();
        }
        disk.cut(Cut::Everything);
        let found = DurableMarker::read(&disk, &path).unwrap();
        assert_eq!(found.map(|chain| chain.ticket), Some(Ticket(3)));
    }
}
