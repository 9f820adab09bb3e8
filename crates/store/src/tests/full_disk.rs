//! A disk that fills up loses nothing that was acknowledged.

use super::{Random, SmallDisk, data_dir};
use crate::checkpoints::Step;
use crate::{ChunkConfig, ChunkError, ChunkStore, DiskMetaStore, MetaConfig};
use wayfs_types::{Batch, Digest, MetaStore, StorageError, Ticket};

fn batch(n: u64) -> Batch {
    let mut batch = Batch::default();
    batch.put(n.to_be_bytes().to_vec(), Random(n + 1).bytes(8000));
    batch
}

fn check(store: &DiskMetaStore, durable: Ticket) {
    for n in 0..durable.0 {
        assert_eq!(store.get(&n.to_be_bytes()), Ok(Some(Random(n + 1).bytes(8000))), "batch {n} of {durable}");
    }
}

/// Fills the disk by commits until one is refused; returns what was durable then.
fn fill(store: &mut DiskMetaStore) -> (Ticket, StorageError) {
    let syncer = store.syncer();
    for n in store.committed().0..20_000 {
        match store.commit(batch(n)) {
            Ok(ticket) if n % 16 == 0 => {
                if let Err(error) = syncer.sync_to(ticket) {
                    return (syncer.durable(), error);
                }
            }
            Ok(_) => {}
            Err(error) => return (syncer.durable(), error),
        }
    }
    panic!("the disk never filled up")
}

#[test]
fn metadata_with_a_reserve_is_refused_in_peace() {
    let Some(disk) = SmallDisk::mount(48) else { return };
    let directory = data_dir(&disk.path().join("data"));
    let config = MetaConfig { cache_bytes: 1 << 20, memtable_bytes: 2 << 20, gather_bytes: 0, min_free: 16 << 20 };
    let mut store = DiskMetaStore::open(&directory, config).unwrap();
    let (durable, error) = fill(&mut store);
    assert_eq!(error, StorageError::NoSpace);
    assert!(durable > Ticket(100), "{durable} batches fitted");
    check(&store, durable);
    let last = store.committed();
    assert_eq!(store.syncer().sync_to(last), Ok(last), "what was committed can still be synced");
    drop(store);
    check(&DiskMetaStore::open(&directory, config).unwrap(), last);
}

/// One row of many: small, in no order, and it does not compress.
fn row(n: u64) -> (Vec<u8>, Vec<u8>) {
    let mut random = Random(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    (random.bytes(16), random.bytes(400))
}

/// Proves [S-full-disk] where tables are merged all the time: rows come in no order, so that a merge touches all tables and
/// needs as much room again.
#[test]
fn metadata_in_no_order_are_refused_in_peace_and_go_on_when_there_is_room() {
    let Some(disk) = SmallDisk::mount(96) else { return };
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 16 << 20]).unwrap();
    let directory = data_dir(&disk.path().join("data"));
    let config =
        MetaConfig { cache_bytes: 1 << 20, memtable_bytes: 8 << 20, gather_bytes: 1 << 20, min_free: 16 << 20 };
    let mut store = DiskMetaStore::open(&directory, config).unwrap();
    let syncer = store.syncer();
    let commit = |store: &mut DiskMetaStore, first: u64| {
        let mut batch = Batch::default();
        for n in first..first + 16 {
            let (key, value) = row(n);
            batch.put(key, value);
        }
        store.commit(batch)
    };
    let mut kept = 0;
    let mut refused = 0;
    // It is tried again and again, as by programs that do not give up.
    while refused < 2000 {
        match commit(&mut store, kept) {
            Ok(ticket) => {
                kept += 16;
                if kept % 4096 == 0 {
                    syncer.sync_to(ticket).expect("what is accepted can be synced");
                }
                assert!(kept < 1 << 20, "the disk never fills up");
            }
            Err(StorageError::NoSpace | StorageError::Busy(_)) => {
                refused += 1;
                if refused % 100 == 0 {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
            }
            Err(error) => panic!("after {kept} rows: {error}"),
        }
    }
    assert!(kept > 50_000, "{kept} rows fitted");
    let last = store.committed();
    assert_eq!(syncer.sync_to(last), Ok(last), "what was committed can still be synced");
    let check = |store: &DiskMetaStore, kept: u64| {
        for n in (0..kept).step_by(97) {
            let (key, value) = row(n);
            assert_eq!(store.get(&key), Ok(Some(value)), "row {n} of {kept}");
        }
    };
    check(&store, kept);
    std::fs::remove_file(&ballast).unwrap();
    // A merge under way may need the room for a moment.
    let is_accepted = (0..600).any(|_| {
        let is_accepted = commit(&mut store, kept).is_ok();
        if !is_accepted {
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        is_accepted
    });
    assert!(is_accepted, "there is room again");
    kept += 16;
    drop((store, syncer));
    check(&DiskMetaStore::open(&directory, config).unwrap(), kept);
}

/// A batch of a row that fills a sixteenth of a table in memory of [`cramped`].
fn large(n: u64) -> Batch {
    let mut batch = Batch::default();
    batch.put(Random(n + 1).bytes(16), Random(n + 1).bytes(64 << 10));
    batch
}

fn cramped() -> MetaConfig {
    MetaConfig { cache_bytes: 1 << 20, memtable_bytes: 1 << 20, gather_bytes: 0, min_free: 0 }
}

/// Proves [S-full-disk] where a merge finds less room than the disk said: the tables are on a disk of their own, which nobody
/// looks at.
#[test]
fn what_a_merge_that_failed_wrote_does_not_stay_on_the_disk() {
    let scratch = tempfile::tempdir().unwrap();
    let tables = scratch.path().join("data/meta/index");
    let directory = data_dir(&scratch.path().join("data"));
    std::fs::create_dir_all(&tables).unwrap();
    let Some(disk) = SmallDisk::mount_at(&tables, 6) else { return };
    let (mut store, mut checkpoints) = DiskMetaStore::open_by_hand(&directory, cramped()).unwrap();
    let check = |store: &DiskMetaStore, kept: u64| {
        for n in 0..kept {
            assert_eq!(
                store.get(&Random(n + 1).bytes(16)),
                Ok(Some(Random(n + 1).bytes(64 << 10))),
                "row {n} of {kept}"
            );
        }
    };
    let mut kept = 0;
    let mut put = |store: &mut DiskMetaStore| {
        store.commit(large(kept)).unwrap();
        kept += 1;
        kept
    };
    // Four tables of a mebibyte are merged, which needs four more.
    let mut last = Step::Done;
    while last != Step::Postponed {
        assert!(put(&mut store) < 1000, "no merge fails");
        last = checkpoints.step();
    }
    // Some of what is there is in the log and in memory only.
    put(&mut store);
    let before = disk.free();
    let held = store.snapshot();
    assert_eq!(checkpoints.step(), Step::Postponed, "whoever reads an earlier state goes on with its tables");
    assert_eq!(held.rows().count() as u64 + 1, put(&mut store));
    drop(held);
    assert_eq!(checkpoints.step(), Step::Reopened);
    assert!(disk.free() >= before + (1 << 19), "{before} bytes were free, and then {}", disk.free());
    let mut rows = put(&mut store);
    check(&store, rows);
    assert_eq!(store.snapshot().rows().count() as u64, rows);
    while store.commit(large(rows)).is_ok() && checkpoints.step() != Step::Reopened {
        rows += 1;
        assert!(rows < 1000, "no flush and no merge fails");
    }
    let rows = store.committed().0;
    check(&store, rows);
    drop((store, checkpoints));
    check(&DiskMetaStore::open(&directory, cramped()).unwrap(), rows);
}

/// Proves [S-full-disk] where tables cannot be merged for long: nobody waits for that.
#[test]
fn writers_do_not_wait_for_merges_that_have_no_room() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let directory = data_dir(&disk.path().join("data"));
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 16 << 20]).unwrap();
    let config = MetaConfig { memtable_bytes: 256 << 10, min_free: 16 << 20, ..cramped() };
    let mut store = DiskMetaStore::open(&directory, config).unwrap();
    let syncer = store.syncer();
    let put = |store: &mut DiskMetaStore| {
        let n = store.committed().0;
        store.commit(large(n)).and_then(|ticket| syncer.sync_to(ticket))
    };
    let error = (0..4000).find_map(|_| put(&mut store).err());
    assert_eq!(error, Some(StorageError::NoSpace));
    let full = store.committed().0;
    std::fs::remove_file(&ballast).unwrap();
    // A merge under way may need the room for a moment.
    let is_there_more = (0..1000).any(|_| {
        match put(&mut store) {
            Ok(_) => {}
            Err(StorageError::NoSpace) => std::thread::sleep(std::time::Duration::from_millis(50)),
            Err(error) => panic!("after {} rows: {error}", store.committed()),
        }
        store.committed().0 > full + 50
    });
    assert!(is_there_more, "{full} rows fitted, and then {}", store.committed());
}

/// Proves [S-full-disk] where somebody else takes the room to the last byte: what was accepted waits, and the store goes on.
#[test]
fn a_disk_that_somebody_else_fills_breaks_nothing() {
    let Some(disk) = SmallDisk::mount(48) else { return };
    let directory = data_dir(&disk.path().join("data"));
    let config =
        MetaConfig { cache_bytes: 1 << 20, memtable_bytes: 2 << 20, gather_bytes: 1 << 20, min_free: 16 << 20 };
    let mut store = DiskMetaStore::open(&directory, config).unwrap();
    let syncer = store.syncer();
    let last = (0..50).map(|n| store.commit(batch(n)).unwrap()).last().unwrap();
    syncer.sync_to(last).unwrap();
    let rest = disk.path().join("rest");
    let mut filler = std::fs::File::create(&rest).unwrap();
    while std::io::Write::write_all(&mut filler, &[1; 4096]).is_ok() {}
    drop(filler);
    let (mut accepted, mut refused) = (50, 0);
    for _ in 0..2000 {
        match store.commit(batch(accepted)) {
            Ok(ticket) => {
                accepted += 1;
                assert_eq!(syncer.sync_to(ticket), Err(StorageError::NoSpace), "it cannot be durable");
            }
            Err(error) => {
                assert_eq!(error, StorageError::NoSpace);
                refused += 1;
            }
        }
    }
    assert!(refused > 1900, "{accepted} batches were accepted on a full disk");
    std::fs::remove_file(&rest).unwrap();
    let last = store.commit(batch(accepted)).expect("there is room again");
    syncer.sync_to(last).expect("all that was accepted is written");
    let check = |store: &DiskMetaStore| {
        for n in 0..=accepted {
            assert_eq!(store.get(&n.to_be_bytes()), Ok(Some(Random(n + 1).bytes(8000))), "batch {n}");
        }
    };
    check(&store);
    drop((store, syncer));
    check(&DiskMetaStore::open(&directory, config).unwrap());
}

#[test]
fn metadata_without_a_reserve_stops_and_comes_back() {
    let Some(disk) = SmallDisk::mount(32) else { return };
    let ballast = disk.path().join("ballast");
    std::fs::write(&ballast, vec![1; 8 << 20]).unwrap();
    let directory = data_dir(&disk.path().join("data"));
    let config = MetaConfig { cache_bytes: 1 << 20, memtable_bytes: 2 << 20, gather_bytes: 0, min_free: 0 };
    let mut store = DiskMetaStore::open(&directory, config).unwrap();
    // Somebody else fills the disk between the look at the room and the write.
    for n in 0..200 {
        store.commit(batch(n)).unwrap();
    }
    store.syncer().sync_to(Ticket(200)).unwrap();
    let rest = disk.path().join("rest");
    let mut filler = std::fs::File::create(&rest).unwrap();
    while std::io::Write::write_all(&mut filler, &[1; 4096]).is_ok() {}
    drop(filler);
    let (durable, error) = fill(&mut store);
    assert!(matches!(error, StorageError::NoSpace | StorageError::Poisoned(_)), "{error}");
    assert!(durable >= Ticket(200));
    drop(store);
    std::fs::remove_file(&ballast).unwrap();
    std::fs::remove_file(&rest).unwrap();
    let mut store = DiskMetaStore::open(&directory, config).unwrap();
    check(&store, durable);
    let next = store.committed().0;
    assert_eq!(store.commit(batch(next)), Ok(Ticket(next + 1)));
}

#[test]
fn chunks_are_refused_and_removal_makes_room() {
    let Some(disk) = SmallDisk::mount(24) else { return };
    let directory = data_dir(&disk.path().join("data"));
    let config = ChunkConfig { segment_bytes: 2 << 20, min_free: 3 << 20 };
    let (store, _) = ChunkStore::open(&directory, config).unwrap();
    let mut kept = Vec::new();
    let error = loop {
        let bytes = Random(kept.len() as u64 + 1).bytes(100_000);
        let digest = Digest::of(&bytes);
        match store.put(&digest, &bytes) {
            Ok(_) => kept.push(digest),
            Err(error) => break error,
        }
        assert!(kept.len() < 1000, "the disk never filled up");
    };
    assert!(matches!(error, ChunkError::NoSpace { .. }), "{error}");
    store.sync().unwrap();
    let (gone, stay) = kept.split_at(kept.len() * 3 / 4);
    for digest in gone {
        store.remove(digest).unwrap();
    }
    while store.compact().unwrap().is_some() {}
    assert!(store.available_bytes().unwrap() > 8 << 20);
    let bytes = Random(1 << 20).bytes(100_000);
    store.put(&Digest::of(&bytes), &bytes).unwrap();
    for digest in stay {
        assert!(store.get(digest).unwrap().is_some());
    }
    drop(store);
    let (store, report) = ChunkStore::open(&directory, config).unwrap();
    assert_eq!((report.chunks, report.torn_bytes, report.damaged_bytes), (stay.len() + 1, 0, 0));
    assert!(stay.iter().all(|digest| store.get(digest).unwrap().is_some()));
}

#[test]
fn chunks_without_a_reserve_keep_what_was_put() {
    let Some(disk) = SmallDisk::mount(12) else { return };
    let directory = data_dir(&disk.path().join("data"));
    let config = ChunkConfig { segment_bytes: 1 << 20, min_free: 0 };
    let (store, _) = ChunkStore::open(&directory, config).unwrap();
    // The disk is filled from outside so that the write itself fails.
    let mut kept = Vec::new();
    for n in 0..40 {
        let bytes = Random(n + 1).bytes(100_000);
        let digest = Digest::of(&bytes);
        store.put(&digest, &bytes).unwrap();
        kept.push(digest);
    }
    store.sync().unwrap();
    let rest = disk.path().join("rest");
    let mut filler = std::fs::File::create(&rest).unwrap();
    while std::io::Write::write_all(&mut filler, &[1; 4096]).is_ok() {}
    let bytes = Random(1000).bytes(300_000);
    let refused = store.put(&Digest::of(&bytes), &bytes);
    assert!(matches!(refused, Err(ChunkError::NoSpace { .. })), "{refused:?}");
    for digest in &kept[..20] {
        store.remove(digest).unwrap();
    }
    drop(filler);
    std::fs::remove_file(&rest).unwrap();
    store.put(&Digest::of(&bytes), &bytes).unwrap();
    store.sync().unwrap();
    drop(store);
    let (store, report) = ChunkStore::open(&directory, config).unwrap();
    assert_eq!((report.torn_bytes, report.damaged_bytes), (0, 0));
    assert!(kept[20..].iter().all(|digest| store.get(digest).unwrap().is_some()));
    assert!(store.get(&Digest::of(&bytes)).unwrap().is_some());
}
