//! Crashes and damage of the metadata store: images of a running store, cut and changed.

use super::{Random, copy_image, data_dir, meta_config, open_meta};
use crate::chain::Chain;
use crate::log::FileNumber;
use crate::log::format::{HEAD_LEN, encode_header};
use crate::{DiskMetaStore, OpenError};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use wayfs_types::{Batch, MetaStore, Ticket};

/// Batch `n` puts key `n`, replaces `last`, and removes key `n - 3`.
fn commit(store: &mut DiskMetaStore, n: u64) {
    let mut batch = Batch::default();
    batch.put(n.to_be_bytes().to_vec(), vec![n as u8; 300]);
    batch.put(b"last".to_vec(), n.to_be_bytes().to_vec());
    if n > 3 {
        batch.delete((n - 3).to_be_bytes().to_vec());
    }
    assert_eq!(store.commit(batch), Ok(Ticket(n)));
}

/// Checks that the store holds exactly the first batches, and how many.
fn prefix(store: &DiskMetaStore) -> u64 {
    let Some(last) = store.get(b"last").unwrap() else {
        assert_eq!(store.scan(b"", b"", 10).unwrap(), vec![]);
        return 0;
    };
    let n = u64::from_be_bytes(last.try_into().unwrap());
    let keys: Vec<u64> = store
        .scan(b"", b"last", 100)
        .unwrap()
        .into_iter()
        .map(|(key, value)| {
            let key = u64::from_be_bytes(key.try_into().unwrap());
            assert_eq!(value, vec![key as u8; 300]);
            key
        })
        .collect();
    assert_eq!(keys, (1.max(n.saturating_sub(2))..=n).collect::<Vec<_>>(), "a prefix of {n} batches");
    assert_eq!(store.committed(), Ticket(n));
    n
}

/// An image of a store with twenty batches of which twelve are synced, and where the rest begins.
struct Image {
    scratch: tempfile::TempDir,
    synced_until: u64,
    written_until: u64,
    /// Where each batch ends.
    ends: Vec<u64>,
}

fn log_file(directory: &Path, number: u64) -> PathBuf {
    FileNumber(number).path(&directory.join("meta/log"))
}

fn written(journal: &Path) -> u64 {
    super::written_len(&std::fs::read(journal).unwrap()) as u64
}

impl Image {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let live = scratch.path().join("live");
        let mut store = open_meta(&live);
        let journal = log_file(&live, 1);
        let mut ends = Vec::new();
        for n in 1..=12 {
            commit(&mut store, n);
            ends.push(written(&journal));
        }
        store.syncer().sync_to(Ticket(12)).unwrap();
        let synced_until = written(&journal);
        for n in 13..=20 {
            commit(&mut store, n);
            ends.push(written(&journal));
        }
        let written_until = written(&journal);
        copy_image(&live, &scratch.path().join("image"));
        Self { scratch, synced_until, written_until, ends }
    }

    /// A fresh copy of the image and its journal.
    fn copy(&self, name: &str) -> (PathBuf, PathBuf) {
        let copy = self.scratch.path().join(name);
        copy_image(&self.scratch.path().join("image"), &copy);
        let journal = log_file(&copy, 1);
        (copy, journal)
    }
}

#[test]
fn a_killed_process_loses_nothing() {
    let image = Image::new();
    let (copy, _) = image.copy("killed");
    assert_eq!(prefix(&open_meta(&copy)), 20);
}

/// Gathered commits go with the process until they are written or synced, and then all together.
#[test]
fn a_killed_process_loses_only_what_was_gathered_last() {
    let scratch = tempfile::tempdir().unwrap();
    let live = scratch.path().join("live");
    let config = crate::MetaConfig { gather_bytes: 1 << 20, ..meta_config() };
    let mut store = DiskMetaStore::open(&data_dir(&live), config).unwrap();
    let put = |store: &mut DiskMetaStore, n: u8| {
        let mut batch = Batch::default();
        batch.put(vec![n], vec![n; 100]);
        store.commit(batch).unwrap()
    };
    let kept = |name: &str| -> Vec<u8> {
        let image = scratch.path().join(name);
        copy_image(&live, &image);
        let store = DiskMetaStore::open(&data_dir(&image), config).unwrap();
        store.scan(b"", b"", 100).unwrap().into_iter().map(|(key, _)| key[0]).collect()
    };
    put(&mut store, 1);
    let second = put(&mut store, 2);
    assert_eq!(kept("gathered"), Vec::<u8>::new());
    store.syncer().write().unwrap();
    let third = put(&mut store, 3);
    assert_eq!(kept("written"), [1, 2]);
    assert_eq!(store.syncer().durable(), Ticket(0), "written is not synced");
    store.syncer().sync_to(second).unwrap();
    assert_eq!(kept("synced"), [1, 2], "what came later was not asked for");
    store.syncer().sync_to(third).unwrap();
    assert_eq!(kept("synced later"), [1, 2, 3]);
    put(&mut store, 4);
    drop(store);
    assert_eq!(kept("closed"), [1, 2, 3, 4]);
}

#[test]
fn any_cut_of_what_was_not_synced_leaves_a_prefix() {
    let image = Image::new();
    let mut random = Random(77);
    for round in 0..24 {
        let (copy, journal) = image.copy(&format!("cut{round}"));
        let at = image.synced_until + random.below(image.written_until - image.synced_until);
        let file = OpenOptions::new().write(true).open(&journal).unwrap();
        file.set_len(at).unwrap();
        if round % 2 == 0 {
            file.set_len(64 << 20).unwrap();
        }
        let mut store = open_meta(&copy);
        let n = prefix(&store);
        assert!((12..20).contains(&n), "{n} batches after a cut at {at}");
        assert_eq!(store.report().torn_bytes > 0, at > written(&journal), "the report tells of a torn tail");
        commit(&mut store, n + 1);
        drop(store);
        assert_eq!(prefix(&open_meta(&copy)), n + 1, "and it goes on from there");
        std::fs::remove_dir_all(&copy).unwrap();
    }
}

#[test]
fn torn_pages_of_what_was_not_synced_leave_a_prefix() {
    let image = Image::new();
    let mut random = Random(3);
    for round in 0..24 {
        let (copy, journal) = image.copy(&format!("torn{round}"));
        // Some sectors reached the disk and some did not, in any order.
        let file = OpenOptions::new().write(true).open(&journal).unwrap();
        let first = image.synced_until.div_ceil(512);
        for sector in first..image.written_until.div_ceil(512) {
            if random.below(3) == 0 {
                file.write_all_at(&[0; 512], sector * 512).unwrap();
            }
        }
        let n = prefix(&open_meta(&copy));
        assert!((12..=20).contains(&n), "{n} batches");
        std::fs::remove_dir_all(&copy).unwrap();
    }
}

/// Bytes of the header of the file, and of the head and the end of a batch, among them.
#[test]
fn damage_of_what_was_synced_is_named_and_not_served() {
    let image = Image::new();
    let mut random = Random(9);
    let (begins, ends) = (image.ends[5], image.ends[6]);
    let mut places: Vec<u64> = (0..45)
        .step_by(6)
        .chain((begins..begins + HEAD_LEN as u64).step_by(5))
        .chain((ends - 13..ends).step_by(2))
        .collect();
    places.extend((0..12).map(|_| random.below(image.synced_until)));
    for (round, at) in places.into_iter().enumerate() {
        let (copy, journal) = image.copy(&format!("rot{round}"));
        flip(&journal, at);
        let directory = data_dir(&copy);
        match DiskMetaStore::open(&directory, meta_config()) {
            Err(OpenError::LostBatches { durable, found }) => assert!(found < durable && durable == Ticket(12)),
            Err(other) => panic!("byte {at}: {other}"),
            Ok(store) => panic!("byte {at}: opened with {} batches", prefix(&store)),
        }
        assert!(copy.join("damaged").read_dir().unwrap().next().is_some(), "the evidence is kept");
        assert!(DiskMetaStore::open(&directory, meta_config()).is_err(), "it stays refused");
        let store = DiskMetaStore::open_accepting_loss(&directory, meta_config()).unwrap();
        assert!(store.report().accepted.is_some());
        let n = prefix(&store);
        assert!(n < 12);
        drop(store);
        let mut store = DiskMetaStore::open(&directory, meta_config()).unwrap();
        commit(&mut store, n + 1);
        std::fs::remove_dir_all(&copy).unwrap();
    }
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().write(true).read(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// What follows damage is whole, but no history: it is set aside, and the store goes on from before the damage.
#[test]
fn damage_in_an_older_journal_leaves_what_was_before_it() {
    let image = Image::new();
    let split = |name: &str| {
        let (copy, journal) = image.copy(name);
        let bytes = std::fs::read(&journal).unwrap();
        let (old, new) =
            (&bytes[..image.ends[9] as usize], &bytes[image.ends[9] as usize..image.written_until as usize]);
        std::fs::write(&journal, old).unwrap();
        // The chain at the tenth batch stands in its head.
        let head = image.ends[8] as usize;
        let tenth = Chain::decode(&bytes[head + 8..head + HEAD_LEN - 8]).unwrap();
        std::fs::write(log_file(&copy, 2), [&encode_header(FileNumber(2), tenth)[..], new].concat()).unwrap();
        (copy, journal)
    };
    let (whole, _) = split("whole");
    assert_eq!(prefix(&open_meta(&whole)), 20, "two journals are read one after the other");
    let (copy, journal) = split("older");
    flip(&journal, image.ends[5] + 60);
    let directory = data_dir(&copy);
    let refused = DiskMetaStore::open(&directory, meta_config()).unwrap_err();
    assert!(matches!(refused, OpenError::Damaged(_) | OpenError::LostBatches { .. }), "{refused}");
    let store = DiskMetaStore::open_accepting_loss(&directory, meta_config()).unwrap();
    assert!(store.report().accepted.is_some());
    assert_eq!(prefix(&store), 6);
    drop(store);
    let kept: Vec<_> = copy.join("damaged").read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(kept.len(), 2, "the rest of the damaged journal, and the one after it: {kept:?}");
    let mut store = DiskMetaStore::open(&directory, meta_config()).unwrap();
    commit(&mut store, 7);
    drop((store, directory));
    assert_eq!(prefix(&open_meta(&copy)), 7, "and it goes on");
}

#[test]
fn a_store_that_was_swapped_for_an_older_copy_is_refused() {
    let image = Image::new();
    let (copy, _) = image.copy("old");
    let old = image.scratch.path().join("older");
    copy_image(&copy.join("meta"), &old);
    let mut store = open_meta(&copy);
    commit(&mut store, 21);
    drop(store);
    std::fs::remove_dir_all(copy.join("meta")).unwrap();
    copy_image(&old, &copy.join("meta"));
    let refused = DiskMetaStore::open(&data_dir(&copy), meta_config());
    assert!(matches!(refused, Err(OpenError::LostBatches { durable: Ticket(21), found: Ticket(20) })));
    std::fs::remove_dir_all(copy.join("meta")).unwrap();
    let refused = DiskMetaStore::open(&data_dir(&copy), meta_config());
    assert!(matches!(refused, Err(OpenError::LostBatches { durable: Ticket(21), found: Ticket(0) })));
}

/// The log goes on in another file now and then; syncs must follow it.
#[test]
fn syncs_follow_the_log_to_its_next_files() {
    let scratch = tempfile::tempdir().unwrap();
    let live = scratch.path().join("live");
    let config = crate::MetaConfig { memtable_bytes: 8 << 20, ..meta_config() };
    let mut store = DiskMetaStore::open(&data_dir(&live), config).unwrap();
    let value = Random(8).bytes(1 << 20);
    let has_next = || (2..2000).any(|number| log_file(&live, number).exists());
    let (mut last, mut count) = (Ticket(0), 0_u64);
    // It does so in the background, sooner or later.
    while count < 150 || (count < 1500 && !has_next()) {
        let mut batch = Batch::default();
        batch.put((count % 20).to_be_bytes().to_vec(), value.clone());
        batch.put(b"last".to_vec(), count.to_be_bytes().to_vec());
        last = store.commit(batch).unwrap();
        if count == 1 {
            store.syncer().sync_to(last).unwrap();
        }
        if count >= 150 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        count += 1;
    }
    assert!(has_next(), "a second file was begun");
    assert_eq!(store.syncer().sync_to(last), Ok(last));
    let image = scratch.path().join("image");
    drop(store);
    copy_image(&live, &image);
    let store = DiskMetaStore::open(&data_dir(&image), config).unwrap();
    assert_eq!(store.committed(), last);
    assert_eq!(store.get(b"last"), Ok(Some((count - 1).to_be_bytes().to_vec())));
}
