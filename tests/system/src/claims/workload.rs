//! What programs do: small and large files, shared names, renames, removals, `fsync`, work without a network.

use super::piece::{self, Found, HEAD, Number};
use super::statement::read;
use super::world::World;
use rand::Rng;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time for one change, on a busy machine.
const CHANGE: Duration = Duration::from_secs(120);
/// Directories that all clients share.
const DIRECTORIES: u32 = 4;

/// One step of one client's programs, by chance.
pub(super) fn step(world: &mut World, at: usize) {
    match world.random.random_range(0..100) {
        0..55 => create(world, at),
        55..67 => overwrite(world, at),
        67..75 => rename(world, at),
        75..83 => remove(world, at),
        83..91 => look(world, at),
        91..95 => {
            let mut client = world.clients.remove(at);
            world.choose_station(&mut client);
            world.clients.insert(at, client);
        }
        _ => toggle(world, at),
    }
}

fn root(world: &World, at: usize) -> PathBuf {
    world.clients[at].mount.as_ref().expect("only clients that run work").root().to_owned()
}

fn create(world: &mut World, at: usize) {
    let path = format!("d{}/f{}", world.random.random_range(0..DIRECTORIES), world.diary.pieces().len() + 1);
    write(world, at, &path, None);
}

/// Writes a new piece to a path and, by chance, syncs it.
fn write(world: &mut World, at: usize, path: &str, seen: Option<Number>) {
    let len = match world.random.random_range(0..100) {
        0..60 => world.random.random_range(HEAD..4_000),
        60..85 => world.random.random_range(4_000..200_000),
        _ => world.random.random_range(270_000..1_500_000),
    };
    let is_synced = world.random.random_bool(0.5);
    let disk = world.clients[at].disk;
    let number = world.diary.write(disk, path, len, seen);
    let (full, bytes) = (root(world, at).join(path), piece::bytes(world.seed, number, len));
    let outcome = crate::within("write a file", CHANGE, move || write_whole(&full, &bytes, is_synced));
    match outcome {
        Ok(()) if is_synced => world.diary.claim_holder(number, disk, "fsync: durable"),
        Ok(()) => {}
        Err(error) => {
            world.diary.note(format!("write {number} failed: {error}"));
            if let Some(piece) = world.diary.piece_mut(number) {
                piece.is_failed = true;
            }
        }
    }
}

fn write_whole(path: &Path, bytes: &[u8], is_synced: bool) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        // It may be there already.
        let _ = fs::create_dir(directory);
    }
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    if is_synced { file.sync_all() } else { Ok(()) }
}

/// A path that has a piece by the diary, by chance.
fn some_path(world: &mut World) -> Option<String> {
    let alive: Vec<&str> =
        world.diary.pieces().values().filter(|piece| !piece.is_removed).map(|piece| piece.path.as_str()).collect();
    let pick = (!alive.is_empty()).then(|| world.random.random_range(0..alive.len()))?;
    alive.get(pick).map(|path| (*path).to_owned())
}

/// What a client reads at a path.
fn seen_at(world: &World, at: usize, path: &str) -> Option<Number> {
    let bytes = read(root(world, at).join(path)).ok()?;
    match piece::recognise(world.seed, &bytes) {
        Found::Whole(number) => Some(number),
        Found::Empty | Found::Broken(_) => None,
    }
}

fn overwrite(world: &mut World, at: usize) {
    let Some(path) = some_path(world) else { return };
    let Some(seen) = seen_at(world, at, &path) else { return };
    write(world, at, &path, Some(seen));
}

fn rename(world: &mut World, at: usize) {
    let Some(from) = some_path(world) else { return };
    let Some(seen) = seen_at(world, at, &from) else { return };
    let to = format!("d{}/r{}", world.random.random_range(0..DIRECTORIES), world.diary.note(String::from("rename")).0);
    world.diary.note(format!("rename {from} to {to} at {}", world.clients[at].disk));
    let (old, new) = (root(world, at).join(&from), root(world, at).join(&to));
    let outcome = crate::within("rename a file", CHANGE, move || {
        if let Some(directory) = new.parent() {
            let _ = fs::create_dir(directory);
        }
        fs::rename(old, new)
    });
    match outcome {
        Ok(()) => world.diary.rename(&from, &to, Some(seen)),
        Err(error) => drop(world.diary.note(format!("rename failed: {error}"))),
    }
}

fn remove(world: &mut World, at: usize) {
    let Some(path) = some_path(world) else { return };
    let Some(seen) = seen_at(world, at, &path) else { return };
    world.diary.note(format!("remove {path} ({seen}) at {}", world.clients[at].disk));
    world.diary.remove(&path, Some(seen));
    let full = root(world, at).join(&path);
    let outcome = crate::within("remove a file", CHANGE, move || fs::remove_file(full));
    if let Err(error) = outcome {
        world.diary.note(format!("remove failed: {error}"));
    }
}

/// Reads a file: it has the bytes of some piece, or is refused.
fn look(world: &mut World, at: usize) {
    let Some(path) = some_path(world) else { return };
    let _ = seen_at(world, at, &path);
}

/// Takes a client's network away, or gives it back.
fn toggle(world: &mut World, at: usize) {
    let word = if world.clients[at].is_offline { "auto" } else { "offline" };
    world.diary.note(format!("{word} at {}", world.clients[at].disk));
    if world.clients[at].tool(&[word]).status.success() {
        world.clients[at].is_offline = word == "offline";
    }
}
