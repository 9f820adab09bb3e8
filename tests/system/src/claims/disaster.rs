//! What happens to disks.

use super::world::{COMMAND, Copy, World, copy, paused};
use crate::process::run_for;
use rand::Rng;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A kind of disaster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A client's disk is destroyed; another machine comes.
    ClientLost,
    /// A station's disk is destroyed; another station comes.
    StationLost,
    /// Everything but the home is destroyed.
    AllButHomeLost,
    /// The home's disk is destroyed, and put back from a backup.
    HomeFromBackup,
    /// The home is put back to an older copy of its disk.
    HomeOldCopy,
    /// A station is put back to an older copy.
    StationOldCopy,
    /// A client is put back to an older copy.
    ClientOldCopy,
    /// A client's disk is destroyed; what comes is a clone of another client.
    Clone,
    /// A byte of a chunk on some disk changes.
    Flip,
    /// A small disk is full for a while.
    FullDisk,
    /// A client loses power.
    PowerCut,
    /// Some process is killed.
    Kill,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::ClientLost,
        Self::StationLost,
        Self::AllButHomeLost,
        Self::HomeFromBackup,
        Self::HomeOldCopy,
        Self::StationOldCopy,
        Self::ClientOldCopy,
        Self::Clone,
        Self::Flip,
        Self::FullDisk,
        Self::PowerCut,
        Self::Kill,
    ];
}

/// Has it happen. `false`: not in this world, or not now.
pub(super) fn strike(world: &mut World, kind: Kind) -> bool {
    let at = world.random.random_range(0..world.clients.len());
    super::hearsay::hear_all(world);
    world.diary.note(format!("disaster: {kind:?}"));
    let has_happened = befall(world, kind, at);
    super::hearsay::deafen_all(world);
    has_happened
}

fn befall(world: &mut World, kind: Kind, at: usize) -> bool {
    match kind {
        Kind::ClientLost => lose_client(world, at),
        Kind::StationLost => lose_station(world),
        Kind::AllButHomeLost => lose_all_but_home(world),
        Kind::HomeFromBackup => home_from_backup(world),
        Kind::HomeOldCopy => home_old_copy(world),
        Kind::StationOldCopy => station_old_copy(world),
        Kind::ClientOldCopy => client_old_copy(world, at),
        Kind::Clone => clone_client(world, at),
        Kind::Flip => flip(world),
        Kind::FullDisk => fill(world),
        Kind::PowerCut => cut_power(world, at),
        Kind::Kill => kill(world, at),
    }
}

/// A machine that comes needs the home's ticket.
fn start_home(world: &mut World) {
    world.home.start();
}

fn lose_client(world: &mut World, at: usize) -> bool {
    let disk = world.clients[at].disk;
    world.diary.lose(disk);
    drop(world.clients.remove(at));
    start_home(world);
    let client = world.new_client();
    world.clients.insert(at, client);
    true
}

fn lose_station(world: &mut World) -> bool {
    if world.stations.is_empty() {
        return false;
    }
    let at = world.random.random_range(0..world.stations.len());
    let disk = world.stations[at].disk;
    world.diary.lose_station(disk);
    drop(world.stations.remove(at));
    world.station_is_lost();
    start_home(world);
    let station = world.new_station();
    world.stations.insert(at, station);
    true
}

fn lose_all_but_home(world: &mut World) -> bool {
    for _ in 0..world.stations.len() {
        let disk = world.stations[0].disk;
        world.diary.lose(disk);
        drop(world.stations.remove(0));
    }
    for at in 0..world.clients.len() {
        lose_client(world, at);
    }
    let station = world.new_station();
    world.stations.push(station);
    true
}

fn home_from_backup(world: &mut World) -> bool {
    start_home(world);
    let backup = world.home.machine.path("backup");
    let made = world.diary.note("backup of the home".to_owned());
    let text = backup.to_string_lossy().into_owned();
    world.home.tool(&["volume", "backup", "work", &text]).ok();
    // What is claimed between the backup and the loss is what the home has to learn again.
    work_a_little(world);
    world.diary.note("the home's disk is lost".to_owned());
    world.home.kill();
    let data = world.home.machine.path("data");
    fs::remove_dir_all(&data).expect("remove the home's data");
    let arguments = ["volume", "restore", &text, "--data", &data.to_string_lossy()];
    run_for(COMMAND, world.home.machine.command().args(arguments)).ok();
    fs::remove_dir_all(&backup).expect("remove the backup");
    world.diary.note("the home is restored from its backup".to_owned());
    world.home_is_put_back(made);
    true
}

/// Work goes on between a copy and the way back to it.
fn work_a_little(world: &mut World) {
    for _ in 0..6 {
        let Some(at) = world.some_client() else { return };
        super::workload::step(world, at);
        super::statement::by_chance(world, at);
    }
}

/// Copies a directory while its daemon stands still.
fn snapshot(process: Option<&crate::Process>, from: &Path, to: &Path) {
    paused(process, || copy(from, to));
}

/// A copy that is made in one strike is used in a later one of its kind.
fn home_old_copy(world: &mut World) -> bool {
    let (data, old) = (world.home.machine.path("data"), world.home.machine.path("old"));
    if world.home.copy.is_none() {
        let made = world.diary.note("copy of the home's disk".to_owned());
        snapshot(world.home.server.as_ref().map(|server| &server.process), &data, &old);
        world.home.copy = Some(Copy { made });
        work_a_little(world);
    }
    let Some(Copy { made }) = world.home.copy.take() else { return false };
    world.home.kill();
    put_back(&old, &data);
    world.home_is_put_back(made);
    true
}

/// The copy takes the place of the directory; one below which a disk is mounted keeps its place.
fn put_back(old: &Path, place: &Path) {
    fs::remove_dir_all(place).expect("remove a data directory");
    fs::rename(old, place).expect("put the copy in place");
}

fn station_old_copy(world: &mut World) -> bool {
    let Some(at) = (0..world.stations.len()).find(|at| world.stations[*at].small.is_none()) else { return false };
    let (data, old) = (world.stations[at].machine.path("data"), world.stations[at].machine.path("old"));
    if world.stations[at].copy.is_none() {
        let made = world.diary.note(format!("copy of {}", world.stations[at].disk));
        snapshot(world.stations[at].server.as_ref().map(|server| &server.process), &data, &old);
        world.stations[at].copy = Some(Copy { made });
        work_a_little(world);
    }
    let Some(Copy { made }) = world.stations[at].copy.take() else { return false };
    let disk = world.stations[at].disk;
    world.stations[at].kill();
    put_back(&old, &data);
    world.diary.put_back(disk, made);
    world.stations[at].start();
    true
}

fn client_old_copy(world: &mut World, at: usize) -> bool {
    if world.clients[at].small.is_some() {
        return false;
    }
    let (cache, old) = (world.clients[at].machine.path("cache"), world.clients[at].machine.path("old"));
    if world.clients[at].copy.is_none() {
        let made = world.diary.note(format!("copy of {}", world.clients[at].disk));
        snapshot(world.clients[at].mount.as_ref().map(|mount| &mount.process), &cache, &old);
        world.clients[at].copy = Some(Copy { made });
        // What was not durable then is not in the copy.
        let not_durable = world.clients[at].disk;
        work_a_little(world);
        world.diary.crash_before(not_durable, made);
    }
    let Some(Copy { made }) = world.clients[at].copy.take() else { return false };
    world.kill_client(at);
    put_back(&old, &cache);
    let disk = world.clients[at].disk;
    world.diary.put_back(disk, made);
    world.start_client(at);
    world.clients[at].is_offline = false;
    true
}

fn clone_client(world: &mut World, at: usize) -> bool {
    let of = (at + 1) % world.clients.len();
    if of == at || world.clients[of].small.is_some() {
        return false;
    }
    let disk = world.clients[at].disk;
    world.diary.lose(disk);
    let clone = world.new_clone(of);
    drop(std::mem::replace(&mut world.clients[at], clone));
    true
}

/// All chunk segments below a directory.
fn segments(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_mount = path.file_name().is_some_and(|name| name == "mnt" || name == "old");
        if path.is_dir() && !is_mount {
            segments(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "seg") {
            found.push(path);
        }
    }
}

/// The disk whose byte it is counts as one that lost all: which file it hits is chance.
fn flip(world: &mut World) -> bool {
    let places: Vec<_> = world
        .clients
        .iter()
        .map(|client| (client.disk, client.machine.path("cache")))
        .chain(world.stations.iter().map(|site| (site.disk, site.machine.path("data"))))
        .chain([(world.home.disk, world.home.machine.path("data"))])
        .collect();
    let (disk, directory) = places[world.random.random_range(0..places.len())].clone();
    let mut found = Vec::new();
    segments(&directory, &mut found);
    found.retain(|path| fs::metadata(path).is_ok_and(|data| data.len() > 4096));
    if found.is_empty() {
        return false;
    }
    let path = &found[world.random.random_range(0..found.len())];
    let len = fs::metadata(path).map_or(4097, |data| data.len());
    // Behind the head of the segment.
    let at = world.random.random_range(1024..len);
    world.diary.note(format!("flip byte {at} of {}", path.display()));
    world.diary.lose_holder(disk);
    let mut file = fs::File::options().read(true).write(true).open(path).expect("open a segment");
    let mut byte = [0];
    file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut byte)).expect("read a byte");
    file.seek(SeekFrom::Start(at)).and_then(|_| file.write_all(&[byte[0] ^ 0x10])).expect("write a byte");
    true
}

/// Work goes on beside a full disk; nothing that was accepted may be lost.
fn fill(world: &mut World) -> bool {
    let small = world.clients.iter().filter_map(|client| Some((client.disk, client.small.as_ref()?)));
    let small = small.chain(world.stations.iter().filter_map(|site| Some((site.disk, site.small.as_ref()?))));
    let mut filled = Vec::new();
    for (disk, small) in small {
        small.fill();
        filled.push(disk);
    }
    if !filled.is_empty() {
        work_a_little(world);
    }
    // What became stable meanwhile gave way, too.
    filled.iter().for_each(|disk| world.diary.fill(*disk));
    !filled.is_empty()
}

fn cut_power(world: &mut World, first: usize) -> bool {
    let count = world.clients.len();
    let has_disk = |at: &usize| world.clients[*at].small.is_some() && world.clients[*at].runs();
    let Some(at) = (first..first + count).map(|at| at % count).find(has_disk) else { return false };
    let client = &world.clients[at];
    let Some(small) = &client.small else { return false };
    let image = paused(client.mount.as_ref().map(|mount| &mount.process), || small.image());
    world.kill_client(at);
    if let Some(small) = &world.clients[at].small {
        small.recover(&image);
    }
    world.start_client(at);
    world.clients[at].is_offline = false;
    true
}

fn kill(world: &mut World, at: usize) -> bool {
    match world.random.random_range(0..3) {
        0 => {
            world.diary.note("kill the home".to_owned());
            world.home.kill();
        }
        1 if !world.stations.is_empty() => {
            let at = world.random.random_range(0..world.stations.len());
            world.diary.note(format!("kill {}", world.stations[at].disk));
            world.stations[at].kill();
        }
        _ => {
            world.kill_client(at);
            world.start_client(at);
            world.clients[at].is_offline = false;
        }
    }
    // What is dead stays so for a while.
    work_a_little(world);
    true
}
