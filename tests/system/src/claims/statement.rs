//! What daemons say, as claims in the diary.
//!
//! A statement counts for what was written before it was asked for. "Safe" without a name means: some server that is not lost.

use super::amounts::Lacking;
use super::diary::Diary;
use super::disk::Moment;
use super::piece::{self, Found, Number};
use super::world::{Speaker, World};
use crate::process::Finished;
use rand::Rng;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Longest wait of the kernel for one file, with room for a busy machine: a mount's own bound is 30 s.
const READ: Duration = Duration::from_secs(90);

/// Reads a file on a thread of its own, with descriptors of its own: nothing hangs with it.
pub(super) fn read(path: PathBuf) -> std::io::Result<Vec<u8>> {
    crate::within("read a file in a mount", READ, move || {
        crate::own_descriptors();
        std::fs::read(path)
    })
}

/// Whether an amount of a ledger is nothing. An amount that is not known is not nothing.
pub(super) fn is_nothing(amount: &Value) -> bool {
    ["records", "versions", "bytes"].iter().all(|name| amount[name].as_u64() == Some(0))
}

/// The only volume in an answer of `status --json`.
pub(super) fn volume_of(status: &Value) -> &Value {
    &status[0]["volumes"][0]
}

/// Makes a client say something, by chance.
pub(super) fn by_chance(world: &mut World, at: usize) {
    super::hearsay::hear(world, at);
    if !world.hears_the_home(Speaker::Client(at)) {
        return;
    }
    match world.random.random_range(0..100) {
        0..45 => info_by_chance(world, at),
        45..65 => status(world, at),
        65..75 => queue(world, at),
        75..90 => sync_by_chance(world, at),
        _ => server_status(world),
    }
}

fn sync_by_chance(world: &mut World, at: usize) {
    let until = ["safe", "safe", "visible", "stable"][world.random.random_range(0..4)];
    let seconds = if world.random.random_bool(0.7) { "10" } else { "1" };
    sync(world, at, until, seconds);
}

fn before(diary: &mut Diary, what: String) -> Moment {
    diary.note(what)
}

/// `wayfs info` of one of the pieces.
fn info_by_chance(world: &mut World, at: usize) {
    let alive: Vec<Number> =
        world.diary.pieces().iter().filter(|(_, piece)| !piece.is_removed).map(|(number, _)| *number).collect();
    if alive.is_empty() {
        return;
    }
    // Mostly of the newest: what is old is stable.
    let skip = if world.random.random_bool(0.7) { alive.len().saturating_sub(8) } else { 0 };
    let number = alive[world.random.random_range(skip..alive.len())];
    let path = world.diary.piece(number).map(|piece| piece.path.clone()).unwrap_or_default();
    info(world, at, &path);
}

/// `wayfs info` of a path, and what is read there.
pub(super) fn info(world: &mut World, at: usize, path: &str) {
    let client = &world.clients[at];
    let full = client.mount.as_ref().expect("asked of clients that run").path(path);
    let text = full.to_string_lossy().into_owned();
    let first = client.tool(&["info", "--json", &text]);
    if !first.status.success() {
        return;
    }
    let said = first.json();
    let Ok(bytes) = read(full) else { return };
    let again = client.tool(&["info", "--json", &text]);
    if !again.status.success() || again.json()["version"] != said["version"] {
        return;
    }
    let Found::Whole(number) = piece::recognise(world.seed, &bytes) else { return };
    let disk = client.disk;
    world.diary.note(format!("info at {disk} of {path}: {number} is {said}"));
    note_info(world, disk, number, &said, bytes.len());
}

fn note_info(world: &mut World, speaker: super::disk::Disk, number: Number, said: &Value, len: usize) {
    let (home, servers) = (world.home.disk, world.servers());
    let has = |fact: &str| said[fact].as_str() == Some("yes");
    if has("safe") {
        match said["safe_at"].as_str().and_then(|label| world.disk_of(label)) {
            // A server that is lost may be named until its children hear of another.
            Some(disk) if servers.contains(&disk) => world.diary.claim_holder(number, disk, "info: safe at"),
            Some(_) => {}
            None => world.diary.claim_one_of(number, &servers, "info: safe"),
        }
    }
    if has("visible") {
        world.diary.claim_visible(number, "info: visible");
    }
    if has("stable") {
        world.diary.claim_holder(number, home, "info: stable");
    }
    if said["cached_bytes"].as_u64() == Some(len as u64) {
        world.diary.claim_cached(number, speaker);
    }
}

/// `wayfs status` of a mount: what it says is nothing is everywhere it must be.
pub(super) fn status(world: &mut World, at: usize) {
    let disk = world.clients[at].disk;
    let asked = before(&mut world.diary, format!("status at {disk}"));
    let answer = world.clients[at].tool(&["status", "--json"]);
    if !answer.status.success() {
        return;
    }
    let answer = answer.json();
    let ledger = &volume_of(&answer)["ledger"];
    world.diary.note(format!("status of {disk}: {} {ledger}", volume_of(&answer)["word"]));
    let kinds = Kinds { safe: "status: only here nothing", stable: "status: all at home" };
    let lost = lost_of(volume_of(&answer));
    note_ledger(world, at, asked, (ledger, lost), kinds);
    if lost == 0 {
        note_amounts(world, at, asked, ledger);
    }
}

/// What a mount's ledger counts is all that lacks of what was written there.
fn note_amounts(world: &mut World, at: usize, asked: Moment, ledger: &Value) {
    let open = ledger["open_files"].as_u64().unwrap_or(u64::MAX / 2);
    let written = world.diary.written_at(world.clients[at].disk, asked);
    let (servers, home) = (world.servers(), BTreeSet::from([world.home.disk]));
    if let Some(lacking) = Lacking::of(&ledger["not_safe"], open) {
        world.diary.claim_all_but(&written, &servers, lacking, "status: so much only here");
    }
    if let Some(lacking) = Lacking::of(&ledger["home_lacks"], open) {
        world.diary.claim_all_but(&written, &home, lacking, "status: so much not at home");
    }
}

struct Kinds {
    safe: &'static str,
    stable: &'static str,
}

/// Versions of which it was said that nobody has their bytes.
fn lost_of(answer: &Value) -> u64 {
    answer["versions_lost"].as_u64().expect("status and queue tell what is lost")
}

fn note_ledger(world: &mut World, at: usize, asked: Moment, (ledger, lost): (&Value, u64), kinds: Kinds) {
    let open = ledger["open_files"].as_u64() != Some(0);
    if !open && is_nothing(&ledger["not_safe"]) {
        claim_all_safe(world, at, asked, (lost, kinds.safe));
    }
    if !open && is_nothing(&ledger["home_lacks"]) {
        claim_all_stable(world, at, asked, (lost, kinds.stable));
    }
}

/// Which versions are lost was not said.
fn all_but_lost(lost: u64) -> Lacking {
    Lacking { contents: lost, bytes: u64::MAX }
}

fn claim_all_safe(world: &mut World, at: usize, asked: Moment, (lost, kind): (u64, &'static str)) {
    let servers = world.servers();
    if lost > 0 {
        let written = world.diary.written_at(world.clients[at].disk, asked);
        return world.diary.claim_all_but(&written, &servers, all_but_lost(lost), kind);
    }
    for number in world.diary.written_at(world.clients[at].disk, asked) {
        world.diary.claim_one_of(number, &servers, kind);
    }
}

fn claim_all_stable(world: &mut World, at: usize, asked: Moment, (lost, kind): (u64, &'static str)) {
    let home = world.home.disk;
    if lost > 0 {
        let written = world.diary.written_at(world.clients[at].disk, asked);
        return world.diary.claim_all_but(&written, &BTreeSet::from([home]), all_but_lost(lost), kind);
    }
    for number in world.diary.written_at(world.clients[at].disk, asked) {
        // What is stable is visible.
        world.diary.claim_visible(number, kind);
        world.diary.claim_holder(number, home, kind);
    }
}

/// `wayfs queue` of a mount.
fn queue(world: &mut World, at: usize) {
    let disk = world.clients[at].disk;
    let asked = before(&mut world.diary, format!("queue at {disk}"));
    let answer = world.clients[at].tool(&["queue", "--json"]);
    if !answer.status.success() {
        return;
    }
    let answer = answer.json();
    world.diary.note(format!("queue of {disk}: {} items", answer["items_total"]));
    let lost = lost_of(&answer);
    if answer["items_total"].as_u64() == Some(0) && answer["bytes_total"].as_u64() == Some(0) {
        claim_all_stable(world, at, asked, (lost, "queue: nothing waits"));
    }
    let kinds = Kinds { safe: "queue: only here nothing", stable: "queue: all at home" };
    note_ledger(world, at, asked, (&answer["ledger"], lost), kinds);
}

/// Whether nothing is waited for any more, though something may be lost.
pub(super) fn is_over(answer: &Finished) -> bool {
    let report: Value = serde_json::from_str(&answer.out).unwrap_or_default();
    answer.status.success() || report["lost"].as_u64() > Some(0) && report["remaining_items"].as_u64() == Some(0)
}

/// `wayfs sync`; whether it was true in time, but for what is lost.
pub(super) fn sync(world: &mut World, at: usize, until: &str, seconds: &str) -> bool {
    let disk = world.clients[at].disk;
    let asked = before(&mut world.diary, format!("sync --until {until} at {disk}"));
    let answer = world.clients[at].tool(&["sync", "--json", "--until", until, "--timeout", seconds]);
    world.diary.note(format!("sync of {disk}: {} {}", answer.code(), answer.out.trim()));
    if !answer.status.success() {
        // That something is lost is said, and nothing else is claimed.
        return is_over(&answer);
    }
    for number in world.diary.written_at(disk, asked) {
        world.diary.claim_holder(number, disk, "sync: durable");
    }
    claim_all_safe(world, at, asked, (0, "sync: safe"));
    if until != "safe" {
        for number in world.diary.written_at(disk, asked) {
            world.diary.claim_visible(number, "sync: visible");
        }
    }
    if until == "stable" {
        claim_all_stable(world, at, asked, (0, "sync: stable"));
    }
    true
}

/// A station says that the home lacks nothing of what it has; the home, that it lacks nothing.
fn server_status(world: &mut World) {
    let pick = world.random.random_range(0..=world.stations.len());
    let site = world.stations.get(pick).unwrap_or(&world.home);
    if site.server.is_none() || !world.hears_the_home(Speaker::Server(pick)) {
        return;
    }
    let site = world.stations.get(pick).unwrap_or(&world.home);
    let (disk, is_home) = (site.disk, site.disk == world.home.disk);
    let asked = before(&mut world.diary, format!("status at {disk}"));
    let site = world.stations.get(pick).unwrap_or(&world.home);
    let answer = site.tool(&["status", "--json"]);
    if !answer.status.success() {
        return;
    }
    let answer = answer.json();
    let ledger = volume_of(&answer)["ledger"].clone();
    world.diary.note(format!("status of {disk}: {} {ledger}", volume_of(&answer)["word"]));
    let (what, kind) = if is_home {
        (&ledger["home_lacks"], "status of home: lacks nothing")
    } else {
        (&ledger["at_station"], "status of station: all at home")
    };
    let home = world.home.disk;
    // What the home declared lost it does not lack, and says so by that number.
    let has_lost = volume_of(&answer)["versions_lost"].as_u64() != Some(0);
    let covered: Vec<Number> = world
        .diary
        .pieces()
        .iter()
        .filter(|(_, piece)| {
            piece.written < asked && if is_home { piece.visible.is_some() } else { piece.is_held_by(disk) }
        })
        .filter(|(_, piece)| !piece.is_removed && !piece.is_failed && (!has_lost || piece.is_held()))
        .map(|(number, _)| *number)
        .collect();
    if !is_nothing(what) {
        if let Some(lacking) = Lacking::of(what, 0).filter(|_| !has_lost) {
            let kind = if is_home { "status of home: lacks so much" } else { "status of station: so much not at home" };
            world.diary.claim_all_but(&covered, &BTreeSet::from([home]), lacking, kind);
        }
        return;
    }
    for number in covered {
        world.diary.claim_holder(number, home, kind);
    }
}
