//! Traces of removed files: as long as the home keeps them, what is stored into such a file brings it back as its writer saw it.

use super::sharing::site;
use super::world::{HOME, World, name, small};
use std::time::Duration;
use wayfs_types::request::Change;
use wayfs_types::{ConflictKind, FileId};

const ROOT: FileId = FileId::ROOT;

/// A client stores into a file that another replaced, with the right to its directory, and gives it a name. Before the home hears of that,
/// it takes changes elsewhere. Answers where the name leads afterwards.
fn named_after_it_came_back(traces_kept: u64) -> (World, bool) {
    let (mut world, a, b) = site();
    let file = world.create(a, ROOT, "file");
    let version = world.store(a, file, small("one"));
    let elsewhere = world.mkdir(b, ROOT, "elsewhere");
    world.create(b, ROOT, "other");
    world.rename(b, (ROOT, "other"), (ROOT, "file")).unwrap();
    world.settle();
    world.create(a, ROOT, "right");
    world.settle();
    assert!(world.hosts[a].replica.inode(file).unwrap().is_some_and(|inode| inode.is_removed()));
    world.hosts[a].hold_syncs = true;
    let mtime = world.wall();
    world.change(a, Change::Store { file, base: version, content: small("two"), mtime }).unwrap();
    world.change(a, Change::Link { file, parent: ROOT, name: name("name") }).unwrap();
    assert_eq!(world.lookup(a, ROOT, "name").unwrap().0, file);
    world.configure(HOME, |config| config.tombstones_kept = traces_kept);
    for number in 0..20 {
        world.create(b, elsewhere, &format!("later-{number}"));
    }
    world.settle();
    world.hosts[a].hold_syncs = false;
    world.pass(Duration::from_secs(3));
    let is_there = world.lookup(a, ROOT, "name").is_ok_and(|found| found.0 == file);
    world.assert_agrees(a);
    (world, is_there)
}

#[test]
fn a_file_that_a_store_brought_back_keeps_the_name_that_it_was_given_then() {
    let (world, is_there) = named_after_it_came_back(100_000);
    assert!(is_there, "{:?}", world.tree(HOME));
}

/// The simulator found it (seed 169039390), where traces of fifteen changes are kept: its checker took the name for promised.
#[test]
fn of_a_file_that_nobody_remembers_a_store_is_kept_and_reported() {
    let (world, is_there) = named_after_it_came_back(1);
    assert!(!is_there);
    let conflicts = world.hosts[HOME].replica.conflicts(None, 10).unwrap();
    assert!(conflicts.iter().any(|conflict| conflict.conflict.kind == ConflictKind::Homeless), "{conflicts:?}");
}
