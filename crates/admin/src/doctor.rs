//! What every role can say about the health of a volume.

use crate::ledger::MAKE_ROOM;
use wayfs_control::report::{DoctorFact, Verdict};
use wayfs_node::paths::path_of;
use wayfs_node::{LiveReplica, Volume};
use wayfs_types::FileId;

/// Files named in one line.
const NAMED_MAX: usize = 10;
/// Free space below which a disk is called nearly full, in bytes.
const FREE_LOW: u64 = 1 << 30;

/// A check and what it found.
pub fn fact(check: &str, verdict: Verdict, detail: impl Into<String>, next_step: &str) -> DoctorFact {
    DoctorFact { check: check.to_owned(), verdict, detail: detail.into(), next_step: next_step.to_owned() }
}

/// Whether the replica works. `failure`: why not.
pub fn replica(check: &str, failure: Option<String>) -> DoctorFact {
    match failure {
        None => fact(check, Verdict::Good, "it takes updates", ""),
        Some(reason) => fact(check, Verdict::Bad, reason, "Mend the cause, and start its daemon again."),
    }
}

/// Room on a disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRoom {
    /// What is left.
    pub free: u64,
    /// With this and less updates are refused.
    pub refused_at: u64,
}

/// Whether a disk has room.
pub fn room(check: &str, place: &str, DiskRoom { free, refused_at }: DiskRoom) -> DoctorFact {
    let (verdict, next) = match free {
        free if free <= refused_at => (Verdict::Bad, "Make room: writes are refused until then, nothing is lost."),
        free if free < FREE_LOW => (Verdict::Warning, "Make room soon."),
        _ => (Verdict::Good, ""),
    };
    fact(check, verdict, format!("{} MiB left {place}", free >> 20), next)
}

/// Whether a disk on the way to the home is full.
pub fn way_home(check: &str, volume: &Volume) -> DoctorFact {
    match volume.full() {
        None => fact(check, Verdict::Good, "no disk is known to be full", ""),
        Some(full) => fact(check, Verdict::Bad, full, MAKE_ROOM),
    }
}

/// Whether bytes that others will ask this machine for are here.
pub fn own_contents(check: &str, volume: &Volume) -> DoctorFact {
    let torn = match volume.torn() {
        Ok(torn) => torn,
        Err(error) => return fact(check, Verdict::Bad, error.to_string(), "Check the disk."),
    };
    if torn.is_empty() {
        return fact(check, Verdict::Good, "all bytes that only this machine has are here", "");
    }
    let path = |file| volume.look(|replica| path_of(replica, file)).flatten();
    let named = |file: &FileId| path(*file).map_or_else(|| file.to_string(), |path| path.display().to_string());
    let names: Vec<String> = torn.iter().take(NAMED_MAX).map(named).collect();
    let detail =
        format!("bytes of {} files that were written just before a crash are lost: {}", torn.len(), names.join(", "));
    let next = "Write them again, or remove them: nothing later of this machine is safe until then.";
    fact(check, Verdict::Bad, detail, next)
}

/// Whether conflicts are open.
pub fn conflicts(check: &str, volume: &Volume) -> DoctorFact {
    match volume.look(LiveReplica::progress).map_or(0, |progress| progress.conflicts_open) {
        0 => fact(check, Verdict::Good, "none", ""),
        open => fact(check, Verdict::Warning, format!("{open} open"), "`wayfs conflicts list` shows them."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_full_before_it_is_nearly_full() {
        let verdict = |free| room("disk", "for contents", DiskRoom { free, refused_at: 1 << 20 }).verdict;
        assert_eq!([0, 1 << 20, (1 << 20) + 1, FREE_LOW].map(verdict), {
            use Verdict::{Bad, Good, Warning};
            [Bad, Bad, Warning, Good]
        });
    }
}
