//! What every [`MetaStore`] must do: one suite for all.
//!
//! Each store's tests call [`run`]; a new store is right when it passes.

use crate::syncer::Syncer;
use std::collections::BTreeMap;
use wayfs_types::{Batch, MetaStore, Ticket};

/// A fresh store under test with its syncing half.
pub struct Subject<S> {
    /// The store.
    pub store: S,
    /// Its syncing half.
    pub syncer: Syncer,
}

/// Runs the whole suite, each part on a fresh store.
///
/// # Panics
/// Where the store breaks the contract.
pub fn run<S: MetaStore>(mut fresh: impl FnMut() -> Subject<S>) {
    reads_what_was_written(fresh());
    last_change_of_a_key_wins(fresh());
    scans_both_ways(fresh());
    tolerates_odd_keys_and_ranges(fresh());
    tickets_count_from_one(fresh());
    commits_after_a_sync_have_tickets_of_their_own(fresh());
    syncs(fresh());
    equals_a_map(fresh());
}

fn batch(changes: &[(&[u8], Option<&[u8]>)]) -> Batch {
    let changes = changes.iter().map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)));
    Batch { changes: changes.collect() }
}

fn reads_what_was_written<S: MetaStore>(mut subject: Subject<S>) {
    let store = &mut subject.store;
    assert_eq!(store.get(b"a"), Ok(None));
    store.commit(batch(&[(b"a", Some(b"1")), (b"b", Some(b""))])).expect("commits");
    assert_eq!(store.get(b"a"), Ok(Some(b"1".to_vec())));
    assert_eq!(store.get(b"b"), Ok(Some(Vec::new())), "an empty value is a value");
    store.commit(batch(&[(b"a", None), (b"absent", None)])).expect("commits");
    assert_eq!(store.get(b"a"), Ok(None));
    let large = vec![7; 300_000];
    store.commit(batch(&[(b"large", Some(&large))])).expect("commits");
    assert_eq!(store.get(b"large"), Ok(Some(large)));
}

fn last_change_of_a_key_wins<S: MetaStore>(mut subject: Subject<S>) {
    let store = &mut subject.store;
    store.commit(batch(&[(b"a", Some(b"1")), (b"a", None), (b"a", Some(b"3"))])).expect("commits");
    assert_eq!(store.get(b"a"), Ok(Some(b"3".to_vec())));
    store.commit(batch(&[(b"a", Some(b"4")), (b"a", None)])).expect("commits");
    assert_eq!(store.get(b"a"), Ok(None));
    assert_eq!(store.scan(b"", b"", 9), Ok(vec![]));
}

fn scans_both_ways<S: MetaStore>(mut subject: Subject<S>) {
    let store = &mut subject.store;
    for key in [&b"t\x01"[..], b"t\x02", b"t\x02\x00", b"u", b"v\xff"] {
        store.commit(batch(&[(key, Some(key))])).expect("commits");
    }
    let keys = |pairs: Vec<(Vec<u8>, Vec<u8>)>| -> Vec<Vec<u8>> {
        assert!(pairs.iter().all(|(key, value)| key == value));
        pairs.into_iter().map(|(key, _)| key).collect()
    };
    let forth = |from: &[u8], until: &[u8], limit| keys(store.scan(from, until, limit).expect("scans"));
    let back = |from: &[u8], until: &[u8], limit| keys(store.scan_back(from, until, limit).expect("scans"));
    assert_eq!(forth(b"t", b"u", 9), [&b"t\x01"[..], b"t\x02", b"t\x02\x00"]);
    assert_eq!(forth(b"t\x02", b"u", 1), [b"t\x02"]);
    assert_eq!(back(b"t", b"u", 2), [&b"t\x02\x00"[..], b"t\x02"]);
    assert_eq!(forth(b"u", b"", 9), [&b"u"[..], b"v\xff"]);
    assert_eq!(back(b"", b"", 1), [b"v\xff"]);
    assert_eq!(forth(b"", b"", 9).len(), 5);
    assert_eq!(forth(b"u", b"u", 9).len(), 0, "an empty range");
    assert_eq!(forth(b"v", b"t", 9).len(), 0, "a range that ends before it begins");
    assert_eq!(back(b"v", b"t", 9).len(), 0, "a range that ends before it begins");
    assert_eq!(forth(b"t", b"u", 0).len(), 0, "a limit of nothing");
}

fn tolerates_odd_keys_and_ranges<S: MetaStore>(mut subject: Subject<S>) {
    let store = &mut subject.store;
    let long = vec![0xff; 1024];
    for key in [&b""[..], b"\x00", b"\xff\xff", &long] {
        store.commit(batch(&[(key, Some(b"x"))])).expect("commits");
        assert_eq!(store.get(key), Ok(Some(b"x".to_vec())));
    }
    let all = store.scan(b"", b"", 9).expect("scans");
    assert_eq!(all.len(), 4);
    assert_eq!(all[0].0, b"", "nothing but the tables shows");
}

fn tickets_count_from_one<S: MetaStore>(mut subject: Subject<S>) {
    let mut last = subject.store.commit(batch(&[(b"k", Some(b"v"))])).expect("commits");
    assert_eq!(last, Ticket(1));
    for _ in 0..3 {
        let next = subject.store.commit(batch(&[(b"k", Some(b"v"))])).expect("commits");
        assert!(next == last || next == Ticket(last.0 + 1), "commits may share a ticket, and skip none");
        last = next;
    }
}

fn commits_after_a_sync_have_tickets_of_their_own<S: MetaStore>(mut subject: Subject<S>) {
    for wanted in 1..=3 {
        let ticket = subject.store.commit(batch(&[(b"k", Some(b"v"))])).expect("commits");
        assert_eq!(ticket, Ticket(wanted), "what is promised durable must not come to mean more");
        assert_eq!(subject.syncer.sync_to(ticket), Ok(ticket));
    }
    assert_eq!(subject.store.commit(Batch::default()), Ok(Ticket(4)), "an empty batch has its place too");
}

fn syncs<S: MetaStore>(mut subject: Subject<S>) {
    let syncer = subject.syncer.clone();
    assert_eq!(syncer.sync_to(Ticket(0)), Ok(Ticket(0)));
    let mut last = Ticket(0);
    for _ in 0..5 {
        last = subject.store.commit(batch(&[(b"k", Some(b"v"))])).expect("commits");
    }
    assert!(syncer.durable() < last);
    let early = last.min(Ticket(2));
    assert!(syncer.sync_to(early).expect("syncs") >= early);
    assert_eq!(syncer.sync_to(last), Ok(last));
    assert_eq!(syncer.durable(), last);
    assert_eq!(syncer.sync_to(Ticket(999)), Ok(last), "what is not committed is not waited for");
}

/// Random batches against a plain map, from a fixed seed.
fn equals_a_map<S: MetaStore>(mut subject: Subject<S>) {
    let mut map: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for round in 0..300_u64 {
        let mut changes = Batch::default();
        for _ in 0..random(8) {
            let key = random(200).to_be_bytes()[6..].to_vec();
            if random(3) == 0 {
                map.remove(&key);
                changes.delete(key);
            } else {
                let value = vec![round as u8; random(100) as usize];
                map.insert(key.clone(), value.clone());
                changes.put(key, value);
            }
        }
        subject.store.commit(changes).expect("commits");
        match random(12) {
            0 => drop(subject.syncer.sync_to(Ticket(round))),
            1 => subject.syncer.write().expect("writes"),
            _ => {}
        }
        let from = random(200).to_be_bytes()[6..].to_vec();
        let wanted: Vec<_> = map.range(from.clone()..).take(5).map(|(k, v)| (k.clone(), v.clone())).collect();
        assert_eq!(subject.store.scan(&from, b"", 5), Ok(wanted));
    }
    let wanted: Vec<_> = map.into_iter().rev().collect();
    assert_eq!(subject.store.scan_back(b"", b"", usize::MAX), Ok(wanted));
}
