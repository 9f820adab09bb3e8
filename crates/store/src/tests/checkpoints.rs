//! Checkpoints that are behind, and tables that come back without the log.

use super::{data_dir, meta_config};
use crate::chain::Chain;
use crate::checkpoints::{Checkpoints, Step};
use crate::index::Index;
use crate::{DiskMetaStore, MetaConfig};
use std::path::Path;
use std::time::{Duration, Instant};
use wayfs_types::{Batch, MetaStore, StorageError, Ticket};

fn config() -> MetaConfig {
    MetaConfig { memtable_bytes: 4000, gather_bytes: 1000, ..meta_config() }
}

fn open(path: &Path) -> (DiskMetaStore, Checkpoints) {
    DiskMetaStore::open_by_hand(&data_dir(path), config()).unwrap()
}

fn put(store: &mut DiskMetaStore, key: u16) -> Ticket {
    let mut batch = Batch::default();
    batch.put(key.to_be_bytes().to_vec(), vec![key as u8; 500]);
    store.commit(batch).unwrap()
}

/// The volume is held through a commit: it must not wait, whatever the disk does.
#[test]
fn commits_gather_while_checkpoints_are_behind_and_are_written_later() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut store, mut checkpoints) = open(scratch.path());
    let syncer = store.syncer();
    let mut kept = 0;
    // Writers turn the log themselves while nobody else does; nobody writes tables.
    while syncer.write() == Ok(()) {
        (kept, _) = (kept + 1, put(&mut store, kept));
        assert!(kept < 1000, "nobody notices that tables are not written");
    }
    let begin = Instant::now();
    for _ in 0..200 {
        (kept, _) = (kept + 1, put(&mut store, kept));
        assert!(begin.elapsed() < Duration::from_secs(2), "commits take {:?}", begin.elapsed());
    }
    let last = store.committed();
    assert!(matches!(syncer.sync_to(last), Err(StorageError::Busy(_))), "whoever may wait hears that it is busy");
    while checkpoints.step() == Step::Done {}
    assert_eq!(syncer.sync_to(last), Ok(last));
    drop((store, syncer, checkpoints));
    let (store, _) = open(scratch.path());
    assert!((0..kept).all(|key| store.get(&key.to_be_bytes()) == Ok(Some(vec![key as u8; 500]))));
}

#[test]
fn a_snapshot_stays_as_it_was_through_checkpoints_and_merges() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut store, mut checkpoints) = open(scratch.path());
    let mut put_all = |value: u8| {
        for key in 0..20 {
            let mut batch = Batch::default();
            batch.put(vec![key], vec![value; 400]);
            store.commit(batch).unwrap();
        }
        store.syncer().sync_to(store.committed()).unwrap();
        while checkpoints.step() == Step::Done {}
        store.snapshot()
    };
    let old = put_all(1);
    for value in 2..20 {
        put_all(value);
    }
    let rows: Vec<_> = old.rows().map(Result::unwrap).collect();
    assert_eq!(rows, (0..20).map(|key| (vec![key], vec![1; 400])).collect::<Vec<_>>());
    drop(old);
    let rows: Vec<_> = put_all(20).rows().map(Result::unwrap).collect();
    assert_eq!(rows, (0..20).map(|key| (vec![key], vec![20; 400])).collect::<Vec<_>>());
}

/// The volume is held through a commit, and to open tables again takes as long as the log is.
#[test]
fn commits_do_not_wait_while_tables_are_opened_again() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut store, checkpoints) = open(scratch.path());
    let index = &checkpoints.tables().index;
    let ((opening, opens), (end, ends)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel());
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            index.reopen(|_| {
                opening.send(()).unwrap();
                ends.recv().unwrap();
                Err::<(), _>(crate::OpenError::Damaged("the tables stay as they are".to_owned()))
            })
        });
        opens.recv().unwrap();
        let store = &mut store;
        // More than is gathered without a look at the tables.
        scope.spawn(move || {
            (0..10).for_each(|key| assert!(put(store, key) > Ticket(0)));
            done.send(()).unwrap();
        });
        let is_in_time = is_done.recv_timeout(Duration::from_secs(20)).is_ok();
        end.send(()).unwrap();
        assert!(is_in_time, "a commit waited");
    });
    let last = store.committed();
    assert_eq!(store.syncer().sync_to(last), Ok(last));
}

/// On a small disk the old tables are the room that the next rows need; nobody may write for days.
#[test]
fn what_was_merged_takes_no_room_after_the_merge() {
    let scratch = tempfile::tempdir().unwrap();
    let (mut store, mut checkpoints) = open(scratch.path());
    for round in 0..20 {
        for key in 0..20 {
            put(&mut store, key);
        }
        store.syncer().sync_to(store.committed()).unwrap();
        while checkpoints.step() == Step::Done {}
        let tables = scratch.path().join("meta/index/tables");
        let on_disk = std::fs::read_dir(tables).unwrap().count();
        assert_eq!(on_disk, checkpoints.tables().index.tables(), "after round {round}");
    }
}

#[test]
fn tables_say_how_far_they_hold_the_log() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("index");
    let item = |key: u8| vec![(vec![1, key], Some(vec![key]))];
    let (first, second) = (Chain::default().next(1), Chain::default().next(1).next(2));
    let index = Index::open(&path, config()).unwrap();
    assert_eq!(index.chain().unwrap(), Chain::default());
    index.apply(item(1));
    index.seal(first);
    index.apply(item(2));
    index.flush().unwrap();
    drop(index);
    let index = Index::open(&path, config()).unwrap();
    assert_eq!(index.chain().unwrap(), first, "the second is not in a table");
    let keys = |index: &Index| index.range(vec![1]..vec![2]).map(|pair| pair.unwrap().0[1]).collect::<Vec<_>>();
    assert_eq!(keys(&index), [1]);
    index.apply(item(2));
    index.seal(second);
    index.flush().unwrap();
    drop(index);
    let index = Index::open(&path, config()).unwrap();
    assert_eq!((index.chain().unwrap(), keys(&index)), (second, vec![1, 2]));
}
