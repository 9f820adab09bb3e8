//! The store in good weather.

use super::{assert_has, assert_lacks, chunk, open, put_all};
use crate::tests::data_dir;
use crate::{CHUNK_LEN_MAX, ChunkConfig, ChunkError, ChunkStore, Removed, Stored};
use std::sync::atomic::{AtomicBool, Ordering};
use wayfs_types::Digest;

#[test]
fn puts_gets_lists_and_removes() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, report) = open(scratch.path());
    assert_eq!((report.chunks, report.segments), (0, 1));
    assert!(store.is_empty());
    let (digest, bytes) = chunk(1);
    assert_eq!(store.get(&digest).unwrap(), None);
    assert_eq!(store.put(&digest, &bytes).unwrap(), Stored::New);
    assert_eq!(store.put(&digest, &bytes).unwrap(), Stored::Present);
    assert_eq!(store.len(&digest), Some(bytes.len() as u32));
    put_all(&store, 2..50);
    assert_has(&store, 1..50);
    let total: u64 = (1..50).map(|n| chunk(n).1.len() as u64).sum();
    assert_eq!(store.total_bytes(), total);
    let first = store.list(None, 20);
    let rest = store.list(Some(&first.last().unwrap().0), 100);
    assert_eq!(first.len() + rest.len(), 49);
    assert!(first.iter().chain(&rest).is_sorted());
    assert_eq!(store.remove(&digest).unwrap(), Removed::Gone);
    assert_eq!(store.remove(&digest).unwrap(), Removed::Absent);
    assert_lacks(&store, [1]);
    assert!(store.stats().segments > 3, "small segments roll");
}

#[test]
fn everything_is_there_after_a_restart() {
    let scratch = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let (store, report) = open(scratch.path());
        assert_eq!(report.chunks, round * 15);
        assert_eq!((report.torn_bytes, report.damaged_bytes), (0, 0));
        let begin = round as u64 * 20;
        put_all(&store, begin..begin + 20);
        for n in begin..begin + 5 {
            store.remove(&chunk(n).0).unwrap();
        }
        store.sync().unwrap();
    }
    let (store, _) = open(scratch.path());
    for round in 0..4 {
        assert_lacks(&store, round * 20..round * 20 + 5);
        assert_has(&store, round * 20 + 5..round * 20 + 20);
    }
}

#[test]
fn a_removed_chunk_can_be_put_again_for_good() {
    let scratch = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let (store, _) = open(scratch.path());
        put_all(&store, [1]);
        store.remove(&chunk(1).0).unwrap();
        put_all(&store, [1]);
    }
    assert_has(&open(scratch.path()).0, [1]);
}

#[test]
fn misnamed_and_oversized_chunks_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, _) = open(scratch.path());
    let refused = store.put(&Digest::of(b"this"), b"that");
    assert!(matches!(refused, Err(ChunkError::Misnamed(_))));
    let large = vec![0; CHUNK_LEN_MAX + 1];
    assert!(matches!(store.put(&Digest::of(&large), &large), Err(ChunkError::TooLarge(_))));
    let largest = &large[1..];
    store.put(&Digest::of(largest), largest).unwrap();
    assert_eq!(store.get(&Digest::of(largest)).unwrap().as_deref(), Some(largest));
    store.put(&Digest::of(b""), b"").unwrap();
    assert_eq!(store.get(&Digest::of(b"")).unwrap().as_deref(), Some(&b""[..]));
}

#[test]
fn the_room_that_is_to_stay_free_is_not_written_to() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, _) = open(scratch.path());
    let (digest, bytes) = chunk(1);
    store.put(&digest, &bytes).unwrap();
    let config = ChunkConfig { min_free: u64::MAX / 2, ..super::SMALL };
    drop(store);
    let (store, _) = ChunkStore::open(&data_dir(scratch.path()), config).unwrap();
    let (digest, bytes) = chunk(2);
    assert!(matches!(store.put(&digest, &bytes), Err(ChunkError::NoSpace { .. })));
    assert_has(&store, [1]);
}

#[test]
fn many_threads_share_syncs_and_see_each_other() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, _) = open(scratch.path());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let compactor = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.compact().unwrap();
                std::thread::yield_now();
            }
        });
        let writers: Vec<_> = (0..4_u64)
            .map(|writer| {
                let store = &store;
                scope.spawn(move || {
                    for n in writer * 100..writer * 100 + 60 {
                        put_all(store, [n]);
                        store.sync().unwrap();
                        assert_has(store, [n]);
                        if n % 3 == 0 {
                            store.remove(&chunk(n).0).unwrap();
                        }
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
        compactor.join().unwrap();
    });
    let kept = || (0..4).flat_map(|writer| writer * 100..writer * 100 + 60).filter(|n| n % 3 != 0);
    assert_has(&store, kept());
    drop(store);
    let (store, report) = open(scratch.path());
    assert_eq!(report.chunks, kept().count());
    assert_has(&store, kept());
}
