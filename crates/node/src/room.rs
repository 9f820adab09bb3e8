//! The room on the disk of a volume, and what is said of full ones.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use wayfs_proto::{Full, Room, ServerRoom};
use wayfs_store::Reserves;

/// With less than this left there is no room: the longest chunk and what goes with it.
const LEFT_MIN: u64 = 2 << 20;
/// A full disk counts as such until this part of its reserve is free beyond it: an eighth. Else it would be called full and not full by
/// turns while what was half sent goes and comes.
const RELEASE_PART: u64 = 8;
/// Metadata count as full this part of their reserve before the store refuses a batch: a half. Children that are told send no more
/// records, and what is under way, and what sessions and removals write meanwhile, still fits.
const META_AHEAD_PART: u64 = 2;
/// Children hear of room that is merely more or less at most this often,
const TELL_PERIOD: Duration = Duration::from_secs(10);
/// and only of changes by this part: a sixteenth.
const TELL_PART: u64 = 16;

/// Watches the disk of one volume.
#[derive(Debug)]
pub(crate) struct DiskRoom {
    directory: PathBuf,
    reserves: Reserves,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    room: Room,
    told: Option<(Instant, Room)>,
}

impl DiskRoom {
    pub(crate) fn watch(directory: PathBuf) -> Self {
        let reserves = Reserves::of_disk(&directory);
        let watch = Self { directory, reserves, state: Mutex::default() };
        watch.look();
        watch
    }

    /// As it was at the last look.
    pub(crate) fn room(&self) -> Room {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).room
    }

    /// Looks at the disk; answers its room if that is worth telling others.
    pub(crate) fn look(&self) -> Option<Room> {
        let disk = rustix::fs::statvfs(&self.directory).ok()?;
        let (free, size) = (disk.f_bavail.saturating_mul(disk.f_frsize), disk.f_blocks.saturating_mul(disk.f_frsize));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let full = full(free, self.reserves, state.room.full);
        let left = if full == Full::No { free.saturating_sub(self.reserves.contents) } else { 0 };
        state.room = Room { full, left, size };
        let room = state.room;
        let is_news = state.told.is_none_or(|(at, told)| {
            let by_much = told.left.abs_diff(left) > told.left / TELL_PART && at.elapsed() >= TELL_PERIOD;
            told.full != full || by_much
        });
        if is_news {
            state.told = Some((Instant::now(), room));
        }
        is_news.then_some(room)
    }
}

/// For what there is no room with so many bytes free.
fn full(free: u64, reserves: Reserves, before: Full) -> Full {
    let is_below = |reserve: u64, was_full: bool| {
        let release = if was_full { reserve / RELEASE_PART } else { 0 };
        free < reserve + LEFT_MIN.max(release)
    };
    if is_below(reserves.meta + reserves.meta / META_AHEAD_PART, before == Full::Metadata) {
        Full::Metadata
    } else if is_below(reserves.contents, before != Full::No) {
        Full::Contents
    } else {
        Full::No
    }
}

/// `full: home disk (HOST)`, with every place that is, and `quota: of this member`; `None`: there is room.
pub(crate) fn full_text(rooms: &[ServerRoom]) -> Option<String> {
    let places: Vec<String> = rooms
        .iter()
        .filter(|server| server.room.full != Full::No && server.quota.is_none())
        .map(|server| {
            let role = if server.is_home { "home" } else { "station" };
            let metadata = if server.room.full == Full::Metadata { ", for metadata, too" } else { "" };
            format!("{role} disk ({}{metadata})", server.label)
        })
        .collect();
    let is_used = |server: &&ServerRoom| server.room.full != Full::No && server.quota.is_some();
    let quotas: Vec<&str> = rooms.iter().filter(is_used).map(|server| server.label.as_str()).collect();
    let full = (!places.is_empty()).then(|| format!("full: {}", places.join(" and ")));
    let quota = (!quotas.is_empty()).then(|| format!("quota: {}", quotas.join(" and ")));
    match (full, quota) {
        (Some(full), Some(quota)) => Some(format!("{full}; {quota}")),
        (full, quota) => full.or(quota),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_proto::QuotaRoom;

    #[test]
    fn a_disk_is_full_until_there_is_room_to_speak_of() {
        let reserves = Reserves { meta: 64 << 20, contents: 128 << 20, segment: 64 << 20 };
        let mebibytes = |count: u64| count << 20;
        assert_eq!(full(mebibytes(200), reserves, Full::No), Full::No);
        assert_eq!(full(mebibytes(129), reserves, Full::No), Full::Contents);
        assert_eq!(full(mebibytes(140), reserves, Full::Contents), Full::Contents);
        assert_eq!(full(mebibytes(145), reserves, Full::Contents), Full::No);
        assert_eq!(full(mebibytes(97), reserves, Full::Contents), Full::Metadata);
        assert_eq!(full(mebibytes(107), reserves, Full::Metadata), Full::Metadata);
        assert_eq!(full(mebibytes(109), reserves, Full::Metadata), Full::Contents);
    }

    #[test]
    fn every_full_place_is_named() {
        let server = |is_home, full| ServerRoom {
            is_home,
            label: if is_home { "h@x" } else { "s@y" }.to_owned(),
            room: Room { full, left: 0, size: 1 },
            quota: None,
        };
        assert_eq!(full_text(&[server(false, Full::No), server(true, Full::No)]), None);
        assert_eq!(
            full_text(&[server(false, Full::No), server(true, Full::Contents)]).unwrap(),
            "full: home disk (h@x)"
        );
        let quota = Some(QuotaRoom { through: 0, files_left: 0, is_members: true, is_refused: false });
        let used = ServerRoom { label: "of this member".into(), quota, ..server(true, Full::Quota) };
        assert_eq!(full_text(std::slice::from_ref(&used)).unwrap(), "quota: of this member");
        assert_eq!(
            full_text(&[server(true, Full::Contents), used]).unwrap(),
            "full: home disk (h@x); quota: of this member"
        );
        let both = full_text(&[server(false, Full::Contents), server(true, Full::Metadata)]).unwrap();
        assert_eq!(both, "full: station disk (s@y) and home disk (h@x, for metadata, too)");
    }
}
