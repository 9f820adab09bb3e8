//! Compaction wins room back and loses nothing.

use super::{assert_has, assert_lacks, chunk, open, put_all};
use crate::tests::{Random, copy_image};
use std::collections::BTreeSet;

#[test]
fn dead_segments_go_and_live_chunks_stay() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, _) = open(scratch.path());
    put_all(&store, 0..200);
    let before = store.stats();
    for n in (0..200).filter(|n| n % 5 != 0) {
        store.remove(&chunk(n).0).unwrap();
    }
    let mut moved = 0;
    for _ in 0..100 {
        match store.compact().unwrap() {
            Some(compacted) => moved += compacted.moved,
            None => break,
        }
    }
    let after = store.stats();
    assert!(moved > 0);
    assert!(after.disk_bytes * 2 < before.disk_bytes, "{} of {} bytes left", after.disk_bytes, before.disk_bytes);
    assert_has(&store, (0..200).step_by(5));
    drop(store);
    let (store, report) = open(scratch.path());
    assert_eq!(report.chunks, 40);
    assert_has(&store, (0..200).step_by(5));
    assert_lacks(&store, (0..200).filter(|n| n % 5 != 0));
}

#[test]
fn nothing_to_win_is_nothing_done() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, _) = open(scratch.path());
    assert_eq!(store.compact().unwrap(), None);
    put_all(&store, 0..50);
    assert_eq!(store.compact().unwrap(), None);
}

/// Random work with restarts and kills against a set: what is synced stays, what is gone stays gone.
#[test]
fn random_work_equals_a_set() {
    let scratch = tempfile::tempdir().unwrap();
    let mut random = Random(4242);
    let mut wanted = BTreeSet::new();
    let mut path = scratch.path().join("0");
    for round in 1..12 {
        let (store, report) = open(&path);
        assert_eq!(report.chunks, wanted.len(), "round {round}");
        for _ in 0..120 {
            let n = random.below(150);
            match random.below(10) {
                0..5 => {
                    put_all(&store, [n]);
                    wanted.insert(n);
                }
                5..9 => {
                    store.remove(&chunk(n).0).unwrap();
                    wanted.remove(&n);
                }
                _ => {
                    store.compact().unwrap();
                }
            }
        }
        assert_has(&store, wanted.iter().copied());
        store.sync().unwrap();
        if round % 2 == 0 {
            // Killed: the next round opens an image of the running store.
            let image = scratch.path().join(round.to_string());
            copy_image(&path, &image);
            path = image;
        }
    }
    let (store, _) = open(&path);
    assert_has(&store, wanted.iter().copied());
    assert_lacks(&store, (0..150).filter(|n| !wanted.contains(n)));
}

#[test]
fn a_crash_between_copy_and_removal_leaves_one_of_each() {
    let scratch = tempfile::tempdir().unwrap();
    let live = scratch.path().join("live");
    let (store, _) = open(&live);
    put_all(&store, 0..60);
    for n in (0..60).filter(|n| n % 4 != 0) {
        store.remove(&chunk(n).0).unwrap();
    }
    store.sync().unwrap();
    let image = scratch.path().join("image");
    copy_image(&live, &image);
    while store.compact().unwrap().is_some() {}
    // The old segments come back beside the copies, as if their removal had not reached the disk.
    for entry in std::fs::read_dir(image.join("chunks")).unwrap() {
        let entry = entry.unwrap();
        let target = live.join("chunks").join(entry.file_name());
        if !target.exists() {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
    drop(store);
    let (store, report) = open(&live);
    assert_eq!(report.damaged_bytes, 0);
    assert_has(&store, (0..60).step_by(4));
    while store.compact().unwrap().is_some() {}
    assert_has(&store, (0..60).step_by(4));
}
