//! The store on disk, in good weather.

use super::{Random, data_dir, meta_config, open_meta};
use crate::suite::{self, Subject};
use crate::{DiskMetaStore, MetaConfig};
use std::sync::atomic::{AtomicBool, Ordering};
use wayfs_types::{Batch, MetaStore, StorageError, Ticket};

#[test]
fn passes_the_suite() {
    let scratch = tempfile::tempdir().unwrap();
    let mut fresh = 0;
    suite::run(|| {
        fresh += 1;
        let store = open_meta(&scratch.path().join(fresh.to_string()));
        Subject { syncer: store.syncer(), store }
    });
}

#[test]
fn passes_the_suite_gathering_commits() {
    for gather_bytes in [100, 1000, 1 << 20] {
        let scratch = tempfile::tempdir().unwrap();
        let config = MetaConfig { gather_bytes, ..meta_config() };
        let mut fresh = 0;
        suite::run(|| {
            fresh += 1;
            let directory = data_dir(&scratch.path().join(fresh.to_string()));
            let store = DiskMetaStore::open(&directory, config).unwrap();
            Subject { syncer: store.syncer(), store }
        });
    }
}

fn put(store: &mut DiskMetaStore, key: u64, value: &[u8]) -> Ticket {
    let mut batch = Batch::default();
    batch.put(key.to_be_bytes().to_vec(), value.to_vec());
    store.commit(batch).unwrap()
}

#[test]
fn tickets_and_tables_go_on_after_a_restart() {
    let scratch = tempfile::tempdir().unwrap();
    for round in 0..4_u64 {
        let mut store = open_meta(scratch.path());
        assert_eq!(store.committed(), Ticket(round * 10));
        assert_eq!(store.report().committed, Ticket(round * 10));
        assert_eq!(store.report().torn_bytes, 0);
        for step in 0..10 {
            let ticket = put(&mut store, round * 10 + step, &[round as u8; 50]);
            assert_eq!(ticket, Ticket(round * 10 + step + 1));
        }
        assert_eq!(store.scan(b"", b"", 1000).unwrap().len() as u64, (round + 1) * 10);
    }
}

#[test]
fn many_batches_flush_to_tables_and_come_back() {
    let scratch = tempfile::tempdir().unwrap();
    let mut random = Random(5);
    let mut store = open_meta(scratch.path());
    // Twelve times the memory for recent writes: tables are written and merged on the way.
    for key in 0..3000 {
        let value = random.bytes(4096);
        let ticket = put(&mut store, key, &value);
        if key % 500 == 0 {
            store.syncer().sync_to(ticket).unwrap();
        }
    }
    drop(store);
    let store = open_meta(scratch.path());
    let mut random = Random(5);
    for key in 0..3000_u64 {
        assert_eq!(store.get(&key.to_be_bytes()), Ok(Some(random.bytes(4096))), "key {key}");
    }
}

#[test]
fn syncs_on_other_threads_share_and_never_lag() {
    syncs_share(meta_config());
    syncs_share(MetaConfig { gather_bytes: 1 << 20, ..meta_config() });
    syncs_share(MetaConfig { gather_bytes: 64, ..meta_config() });
}

fn syncs_share(config: MetaConfig) {
    let scratch = tempfile::tempdir().unwrap();
    let mut store = DiskMetaStore::open(&data_dir(scratch.path()), config).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let syncer = store.syncer();
            scope.spawn(|| {
                let syncer = syncer;
                while !done.load(Ordering::Relaxed) {
                    let before = syncer.durable();
                    let after = syncer.sync_to(Ticket(before.0 + 1)).unwrap();
                    assert!(after >= before);
                }
            });
        }
        let mut last = Ticket(0);
        for key in 0..2000 {
            last = put(&mut store, key, b"value");
        }
        let reached = store.syncer().sync_to(last);
        done.store(true, Ordering::Relaxed);
        assert_eq!(reached, Ok(last));
    });
    let read: Vec<_> =
        (0..2000_u64).filter(|key| store.get(&key.to_be_bytes()) == Ok(Some(b"value".to_vec()))).collect();
    assert_eq!(read.len(), 2000);
}

#[test]
fn too_long_keys_and_full_disks_are_refused_and_change_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let mut store = open_meta(scratch.path());
    let mut batch = Batch::default();
    batch.put(vec![1; 5000], vec![]);
    assert!(matches!(store.commit(batch), Err(StorageError::Io(_))));
    assert_eq!(put(&mut store, 1, b"goes on"), Ticket(1));
    drop(store);
    let config = MetaConfig { min_free: u64::MAX / 4, ..meta_config() };
    let mut store = DiskMetaStore::open(&data_dir(scratch.path()), config).unwrap();
    let mut batch = Batch::default();
    batch.put(vec![1], vec![]);
    assert_eq!(store.commit(batch), Err(StorageError::NoSpace));
    assert_eq!(store.get(&1_u64.to_be_bytes()), Ok(Some(b"goes on".to_vec())));
}
