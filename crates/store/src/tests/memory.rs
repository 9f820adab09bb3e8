//! The store in memory.

use crate::MemoryMetaStore;
use crate::suite::{self, Subject};
use wayfs_types::{Batch, MetaStore, StorageError, Ticket};

#[test]
fn passes_the_suite() {
    suite::run(|| {
        let store = MemoryMetaStore::new();
        Subject { syncer: store.syncer(), store }
    });
}

fn put(store: &mut MemoryMetaStore, key: &[u8], value: &[u8]) -> Ticket {
    let mut batch = Batch::default();
    batch.put(key.to_vec(), value.to_vec());
    store.commit(batch).unwrap()
}

#[test]
fn a_crash_keeps_any_prefix_that_holds_what_was_synced() {
    for kept in 0..=6 {
        let mut store = MemoryMetaStore::new();
        for round in 0..5_u8 {
            put(&mut store, b"last", &[round]);
            if round == 1 {
                assert_eq!(store.syncer().sync_to(Ticket(2)), Ok(Ticket(2)));
            }
        }
        let store = store.crash(Ticket(kept));
        let wanted = kept.clamp(2, 5);
        assert_eq!(store.committed(), Ticket(wanted));
        assert_eq!(store.get(b"last"), Ok(Some(vec![wanted as u8 - 1])));
        assert_eq!(store.syncer().durable(), Ticket(wanted));
    }
}

#[test]
fn no_room_changes_nothing_and_poison_stops_everything() {
    let mut store = MemoryMetaStore::new();
    put(&mut store, b"a", b"12345678");
    store.set_room(Some(10));
    let mut batch = Batch::default();
    batch.put(b"b".to_vec(), vec![0; 10]);
    assert_eq!(store.commit(batch), Err(StorageError::NoSpace));
    assert_eq!(put(&mut store, b"a", b"123456789"), Ticket(2));
    store.poison("the disk went");
    assert!(matches!(store.get(b"a"), Err(StorageError::Poisoned(_))));
    assert!(matches!(store.syncer().sync_to(Ticket(2)), Err(StorageError::Poisoned(_))));
}
