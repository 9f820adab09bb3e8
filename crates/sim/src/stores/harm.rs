//! What a disk does to a log beside losing what was not synced.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use wayfs_disk::Disk;
use wayfs_disk::faulty::{FaultyDisk, Position};

/// What a disk may serve of older contents at once, in bytes.
const SECTOR: u64 = 512;

/// Harms a file of the log: a bit flips, a sector is as it was before anything was written there, or the file is gone. Says what
/// was done; `None`: there is no log.
pub(super) fn harm_log(disk: &FaultyDisk, random: &mut ChaCha8Rng) -> Option<String> {
    let logs = disk.durable_files(".log");
    let log = logs.get(random.random_range(0..logs.len().max(1)))?;
    let at = random.random_range(0..log.at.max(1));
    let name = log.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match random.random_range(0..4) {
        0 => {
            disk.remove(&log.path).ok()?;
            Some(format!("{name} is gone"))
        }
        1 => {
            let file = disk.open(&log.path).ok()?;
            file.write_at(&[0; SECTOR as usize], at / SECTOR * SECTOR).ok()?;
            Some(format!("a sector of {name} at byte {at} was never written"))
        }
        _ => {
            disk.rot(&Position { at, path: log.path.clone() });
            Some(format!("byte {at} of {name} rotted"))
        }
    }
}
