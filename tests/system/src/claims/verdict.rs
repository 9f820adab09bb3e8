//! What was claimed is held against what those who are left can read.

use super::disk::Disk;
use super::piece::{self, Found, Number};
use super::statement::volume_of;
use super::world::{Speaker, World};
use crate::process::Finished;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// Longest time for everything to be there after a loss. A home waits 30 s for a holder that is gone before it asks others, a
/// client some 10 s for a dead station.
const CALM: Duration = Duration::from_secs(120);
/// Seconds in which all is stable. Who finds the only copy damaged asks everybody for half a minute, and then the home asks all who are there
/// twice.
const STABLE: &str = "240";
/// Longest time for one walk through the tree.
const WALK_BOUND: Duration = Duration::from_secs(120);
/// Time for the rest of a walk once all that is owed was found.
const LATE: Duration = Duration::from_secs(2);
/// How often names are listed anew on a walk, and how often a reader that has nothing to do looks for more.
const LIST_EVERY: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);
/// Files that are read at once.
const READERS: usize = 8;
/// Pieces named in a failure.
const NAMED_MAX: usize = 8;

/// What a walk through a mount found.
#[derive(Debug, Default)]
struct Walk {
    whole: BTreeSet<Number>,
    /// Files that hold something else, or cannot be read.
    wrong: BTreeMap<PathBuf, String>,
    broken: BTreeMap<PathBuf, Option<Number>>,
    /// Files whose read was not over when the walk was.
    unread: BTreeSet<PathBuf>,
}

/// All files below a directory.
fn files(directory: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        match fs::symlink_metadata(&path) {
            Ok(data) if data.is_dir() => files(&path, found)?,
            Ok(_) => found.push(path),
            // It went meanwhile.
            Err(_) => {}
        }
    }
    Ok(())
}

/// What happened on a walk.
enum Step {
    /// A name that was not there when the walk began.
    Listed(PathBuf),
    Read(PathBuf, std::io::Result<Vec<u8>>),
}

/// Files that are yet to be read; the last one is next.
#[derive(Default)]
struct Course {
    left: Mutex<Vec<PathBuf>>,
    is_over: AtomicBool,
}

impl Course {
    /// Reads what is left until the walk is over.
    fn read(&self, steps: &mpsc::Sender<Step>) {
        crate::own_descriptors();
        while !self.is_over.load(Ordering::Relaxed) {
            let Some(path) = self.left.lock().ok().and_then(|mut left| left.pop()) else {
                std::thread::sleep(PAUSE);
                continue;
            };
            let bytes = fs::read(&path);
            if steps.send(Step::Read(path, bytes)).is_err() {
                return;
            }
        }
    }

    /// Looks for names that come while others are read: that takes as long as lost bytes take to be told of.
    fn list_anew(&self, root: &Path, mut known: BTreeSet<PathBuf>, steps: &mpsc::Sender<Step>) {
        while !self.is_over.load(Ordering::Relaxed) {
            std::thread::sleep(LIST_EVERY);
            let mut found = Vec::new();
            if files(root, &mut found).is_err() {
                continue;
            }
            for path in found {
                if known.insert(path.clone()) {
                    if steps.send(Step::Listed(path.clone())).is_err() {
                        return;
                    }
                    self.left.lock().unwrap_or_else(PoisonError::into_inner).push(path);
                }
            }
        }
    }
}

/// Reads all files below a directory, several at once: one whose bytes are lost takes half a minute to say so. What is owed is
/// read first: many that are lost take longer than the walk may. Ends when all is read, and soon after all that is owed is found.
fn walk(world: &World, root: PathBuf) -> std::io::Result<Walk> {
    let held = world.diary.pieces().values().filter(|piece| piece.is_held());
    let owed: BTreeSet<PathBuf> = held.map(|piece| root.join(&piece.path)).collect();
    let listed_root = root.clone();
    let mut listed = crate::within("list a mount", WALK_BOUND, move || {
        let mut found = Vec::new();
        files(&listed_root, &mut found).map(|()| found)
    })?;
    listed.sort_by_key(|path| owed.contains(path));
    let known: BTreeSet<PathBuf> = listed.iter().cloned().collect();
    let mut found = Walk { unread: known.clone(), ..Walk::default() };
    let course = Arc::new(Course { left: Mutex::new(listed), is_over: AtomicBool::new(false) });
    let (send, receive) = mpsc::channel();
    // Threads are left behind when the walk is over; ending the mount frees them.
    for _ in 0..READERS {
        let (course, send) = (Arc::clone(&course), send.clone());
        std::thread::spawn(move || course.read(&send));
    }
    let lister = Arc::clone(&course);
    std::thread::spawn(move || lister.list_anew(&root, known, &send));
    let (mut end, mut has_moved) = (Instant::now() + WALK_BOUND, false);
    while !found.unread.is_empty()
        && let Ok(step) = receive.recv_timeout(end.saturating_duration_since(Instant::now()))
    {
        let (path, bytes) = match step {
            Step::Listed(path) => {
                found.unread.insert(path);
                continue;
            }
            Step::Read(path, bytes) => (path, bytes),
        };
        found.unread.remove(&path);
        match bytes.map(|bytes| piece::recognise(world.seed, &bytes)) {
            Ok(Found::Whole(number)) => drop(found.whole.insert(number)),
            Ok(Found::Broken(number)) => drop(found.broken.insert(path, number)),
            Ok(Found::Empty) => {}
            Err(error) => {
                has_moved |= error.kind() == std::io::ErrorKind::NotFound;
                found.wrong.insert(path, error.to_string());
            }
        }
        // A name that was listed and is gone was renamed, and what it was is looked for in a list of its own time.
        if has_moved || missing(world, &found).is_empty() {
            end = end.min(Instant::now() + LATE);
        }
    }
    course.is_over.store(true, Ordering::Relaxed);
    Ok(found)
}

/// Waits until a client shows all that is owed.
///
/// # Errors
/// What it does not show.
pub(super) fn check(world: &mut World, reader: usize) -> Result<(), String> {
    let disk = world.clients[reader].disk;
    let begin = Instant::now();
    world.diary.note(format!("check at {disk}"));
    super::hearsay::hear_all(world);
    loop {
        let root = world.clients[reader].mount.as_ref().expect("all run after a heal").root().to_owned();
        let found = walk(world, root);
        let missing = match &found {
            Ok(found) => missing(world, found),
            Err(error) => vec![format!("the tree cannot be listed: {error}")],
        };
        if missing.is_empty() {
            for number in shadowed(world, found.as_ref().ok()) {
                world.diary.note_shadowed(number);
            }
            world.diary.note(format!("all is there after {} ms", begin.elapsed().as_millis()));
            return Ok(());
        }
        if begin.elapsed() > CALM {
            let count = missing.len();
            let named: Vec<String> = missing.into_iter().take(NAMED_MAX).collect();
            let found = found.unwrap_or_default();
            return Err(format!(
                "{count} missing at {disk} after {CALM:?}:\n  {}\nunreadable: {:?}\nreads without an end: {:?}\n{}",
                named.join("\n  "),
                found.wrong,
                found.unread,
                state(world)
            ));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// What is owed and not found.
fn missing(world: &World, found: &Walk) -> Vec<String> {
    let mut missing = Vec::new();
    for (path, number) in &found.broken {
        let is_excused = number.and_then(|number| world.diary.piece(number)).is_some_and(|piece| piece.is_failed);
        if !is_excused {
            missing.push(format!("{} holds bytes that nobody wrote (begin of {number:?})", path.display()));
        }
    }
    let successors = successors(world);
    let mut gone = BTreeMap::new();
    for (number, piece) in world.diary.pieces() {
        let is_there = piece.is_removed || found.whole.contains(number);
        if is_there || is_answered_for(world, &successors, *number, found) {
            continue;
        }
        gone.insert(*number, piece.len as u64);
        if piece.is_held() {
            missing.push(format!(
                "{number} ({} bytes, {}): held by {}; written by {:?}, visible {}, replaced by {:?}",
                piece.len,
                piece.path,
                piece.holders(),
                piece.writer.map(|disk| disk.to_string()),
                piece.visible.is_some(),
                successors.get(number)
            ));
        }
    }
    missing.extend(world.diary.amounts().beyond(&gone));
    missing
}

fn successors(world: &World) -> BTreeMap<Number, BTreeSet<Number>> {
    let mut successors: BTreeMap<Number, BTreeSet<Number>> = BTreeMap::new();
    for (number, piece) in world.diary.pieces() {
        for replaced in &piece.replaces {
            successors.entry(*replaced).or_default().insert(*number);
        }
    }
    successors
}

/// Whether a piece need not be there since a later one is, or was told to be somewhere, or was removed.
fn is_answered_for(
    world: &World,
    successors: &BTreeMap<Number, BTreeSet<Number>>,
    number: Number,
    found: &Walk,
) -> bool {
    let mut open: Vec<Number> = successors.get(&number).into_iter().flatten().copied().collect();
    let mut looked = BTreeSet::new();
    while let Some(later) = open.pop() {
        if !looked.insert(later) {
            continue;
        }
        let piece = world.diary.piece(later);
        // Its record may have come where its bytes did not, and they died with its writer: what it replaced is not
        // brought back then (SEMANTICS.md). Such are counted apart.
        let is_enough =
            piece.is_none_or(|piece| piece.is_removed || piece.was_held || piece.is_failed || piece.writer.is_none());
        if is_enough || found.whole.contains(&later) {
            return true;
        }
        open.extend(successors.get(&later).into_iter().flatten());
    }
    false
}

/// Pieces that a disk has by what was claimed, and that nobody can read: a later version whose bytes are lost is before
/// them.
fn shadowed(world: &World, found: Option<&Walk>) -> Vec<Number> {
    let Some(found) = found else { return Vec::new() };
    let successors = successors(world);
    let is_lost = |number: &Number| {
        let piece = world.diary.piece(*number);
        piece.is_some_and(|piece| piece.writer.is_none() && !piece.was_held && !piece.is_failed && !piece.is_removed)
            && !found.whole.contains(number)
    };
    let is_shadowed = |number: &Number| successors.get(number).is_some_and(|later| later.iter().all(is_lost));
    let owed = world.diary.pieces().iter().filter(|(_, piece)| piece.is_held() && !piece.is_removed);
    owed.map(|(number, _)| *number).filter(|number| !found.whole.contains(number) && is_shadowed(number)).collect()
}

/// How every daemon is, for whoever looks into a failure.
pub(super) fn state(world: &World) -> String {
    let servers = world.stations.iter().chain([&world.home]).filter(|site| site.server.is_some());
    let of_servers = servers.map(|site| {
        let log = site.server.as_ref().map(|server| server.process.log()).unwrap_or_default();
        daemon_in_words(site.disk, &|args| site.tool(args), &log)
    });
    let of_clients = world.clients.iter().filter(|client| client.runs()).map(|client| {
        let log = client.mount.as_ref().map(|mount| mount.process.log()).unwrap_or_default();
        daemon_in_words(client.disk, &|args| client.tool(args), &log)
    });
    of_servers.chain(of_clients).collect()
}

/// What one says of itself, and the newest lines of its log.
fn daemon_in_words(disk: Disk, tool: &dyn Fn(&[&str]) -> Finished, log: &str) -> String {
    let status: serde_json::Value = serde_json::from_str(&tool(&["status", "--json"]).out).unwrap_or_default();
    let metrics = tool(&["metrics"]).out;
    let pushes = metrics.lines().find(|line| line.starts_with("wayfs_pushes_pending")).unwrap_or_default();
    let queue = tool(&["queue", "--json"]).out;
    let tail: Vec<&str> = log.lines().rev().take(6).collect();
    format!("{disk}: {}\n  {pushes}\n  queue: {}\n  {}\n", volume_of(&status), queue.trim_end(), tail.join("\n  "))
}

/// Keeps what the daemons logged, and all names that each mount shows, for whoever looks into a failure.
pub(super) fn keep_logs(world: &World, directory: &Path) {
    // A log that cannot be kept is no reason to stop.
    let _ = fs::create_dir_all(directory);
    let servers = world.stations.iter().chain([&world.home]).map(|site| (site.disk, &site.machine, "serve.log"));
    let clients = world.clients.iter().map(|client| (client.disk, &client.machine, "mount.log"));
    for (disk, machine, name) in servers.chain(clients) {
        let _ = fs::copy(machine.path(name), directory.join(format!("{disk}-{name}")));
    }
    for client in world.clients.iter().filter(|client| client.runs()) {
        let root = client.mount.as_ref().map(|mount| mount.root().to_owned()).unwrap_or_default();
        let listed = crate::within("list a mount", WALK_BOUND, move || {
            let mut found = Vec::new();
            files(&root, &mut found).map(|()| found)
        });
        let _ = fs::write(directory.join(format!("{}-names", client.disk)), format!("{listed:#?}\n"));
    }
}

/// Has all come home, and be said to be there, by every daemon.
///
/// # Errors
/// Who does not come so far, or says otherwise.
pub(super) fn settle(world: &mut World, is_strict: bool) -> Result<(), String> {
    let heard = Instant::now() + CALM;
    while Instant::now() < heard && !world.all_hear_the_home() {
        std::thread::sleep(Duration::from_millis(300));
    }
    for at in 0..world.clients.len() {
        if !world.hears_the_home(Speaker::Client(at)) {
            return Err(format!(
                "{} has not heard of the home after {CALM:?}\n{}",
                world.clients[at].disk,
                state(world)
            ));
        }
        if !super::statement::sync(world, at, "stable", STABLE) {
            let disk = world.clients[at].disk;
            let queue = world.clients[at].tool(&["queue"]).out;
            return Err(format!(
                "not everything of {disk} is stable after {STABLE} s with all machines there\n{queue}\n{}",
                state(world)
            ));
        }
    }
    if is_strict { super::numbers::nothing_is_left(world) } else { Ok(()) }
}
