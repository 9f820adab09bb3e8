//! Crashes and damage: segments cut, torn and changed.

use super::{assert_has, assert_lacks, chunk, open, put_all};
use crate::tests::{Random, copy_image, data_dir};
use crate::{ChunkConfig, ChunkError, ChunkStore};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// One large segment, so that the place of each chunk is known.
const ONE: ChunkConfig = ChunkConfig { segment_bytes: 64 << 20, min_free: 0 };

fn open_one(path: &Path) -> (ChunkStore, crate::OpenReport) {
    ChunkStore::open(&data_dir(path), ONE).expect("opens")
}

/// An image with chunks 0..20 synced and 20..30 not, and where the latter begin.
struct Image {
    scratch: tempfile::TempDir,
    synced_until: u64,
    len: u64,
}

impl Image {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let live = scratch.path().join("live");
        let (store, _) = open_one(&live);
        put_all(&store, 0..20);
        store.sync().unwrap();
        let synced_until = segment(&live).metadata().unwrap().len();
        put_all(&store, 20..30);
        let len = segment(&live).metadata().unwrap().len();
        copy_image(&live, &scratch.path().join("image"));
        Self { scratch, synced_until, len }
    }

    fn copy(&self, name: &str) -> PathBuf {
        let copy = self.scratch.path().join(name);
        copy_image(&self.scratch.path().join("image"), &copy);
        copy
    }
}

fn segment(directory: &Path) -> PathBuf {
    directory.join("chunks/00000001.seg")
}

fn change(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x21], at).unwrap();
}

#[test]
fn a_killed_process_loses_nothing() {
    let image = Image::new();
    let (store, report) = open_one(&image.copy("killed"));
    assert_eq!((report.chunks, report.torn_bytes), (30, 0));
    assert_has(&store, 0..30);
}

#[test]
fn any_cut_keeps_what_was_synced_and_is_reported() {
    let image = Image::new();
    let mut random = Random(21);
    for round in 0..30 {
        let copy = image.copy(&format!("cut{round}"));
        let at = image.synced_until + random.below(image.len - image.synced_until);
        OpenOptions::new().write(true).open(segment(&copy)).unwrap().set_len(at).unwrap();
        let (store, report) = open_one(&copy);
        assert_has(&store, 0..20);
        assert_eq!(report.damaged_bytes, 0);
        let end = segment(&copy).metadata().unwrap().len();
        assert_eq!(report.torn_bytes, at - end);
        put_all(&store, 20..30);
        drop(store);
        let (store, report) = open_one(&copy);
        assert_eq!(report.torn_bytes, 0);
        assert_has(&store, 0..30);
    }
}

#[test]
fn torn_sectors_keep_what_was_synced_and_serve_nothing_wrong() {
    let image = Image::new();
    let mut random = Random(22);
    for round in 0..30 {
        let copy = image.copy(&format!("torn{round}"));
        let file = OpenOptions::new().write(true).open(segment(&copy)).unwrap();
        for sector in image.synced_until.div_ceil(512)..image.len / 512 {
            if random.below(4) == 0 {
                file.write_all_at(&[0; 512], sector * 512).unwrap();
            }
        }
        let (store, _) = open_one(&copy);
        assert_has(&store, 0..20);
        for (digest, _) in store.list(None, 100) {
            assert!(store.get(&digest).unwrap().is_some(), "a chunk that opens is whole");
        }
        put_all(&store, 20..30);
        assert_has(&store, 0..30);
    }
}

#[test]
fn damage_anywhere_costs_the_chunks_it_hits_and_no_others() {
    let image = Image::new();
    let mut random = Random(23);
    for round in 0..40 {
        let copy = image.copy(&format!("rot{round}"));
        change(&segment(&copy), 40 + random.below(image.len - 40));
        let (store, _) = open_one(&copy);
        let kept = (0..30).filter(|n| store.get(&chunk(*n).0).unwrap().is_some()).count();
        assert!(kept >= 29, "{kept} chunks left of 30");
        put_all(&store, 0..30);
        assert_has(&store, 0..30);
        drop(store);
        assert_has(&open_one(&copy).0, 0..30);
    }
}

#[test]
fn a_chunk_that_rots_while_open_is_named_put_aside_and_healed() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, _) = open_one(scratch.path());
    put_all(&store, 0..3);
    store.sync().unwrap();
    let first = 40 + 48;
    change(&segment(scratch.path()), first);
    let (digest, bytes) = chunk(0);
    assert!(matches!(store.get(&digest), Err(ChunkError::Corrupt(named)) if named == digest));
    assert_eq!(store.get(&digest).unwrap(), None, "it is not here any more");
    assert!(scratch.path().join(format!("damaged/chunk-{digest}")).exists());
    assert_eq!(store.stats().corrupt, 1);
    store.put(&digest, &bytes).unwrap();
    assert_has(&store, 0..3);
    drop(store);
    assert_has(&open_one(scratch.path()).0, 0..3);
}

#[test]
fn compaction_puts_damaged_chunks_aside_and_saves_those_with_damaged_headers() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, _) = open_one(scratch.path());
    put_all(&store, 0..40);
    for n in 3..40 {
        store.remove(&chunk(n).0).unwrap();
    }
    let second = 40 + 48 + chunk(0).1.len() as u64;
    change(&segment(scratch.path()), 40 + 48);
    change(&segment(scratch.path()), second + 20);
    drop(store);
    // With a small aim the segment counts as full, and its dead part is worth winning.
    let config = ChunkConfig { segment_bytes: 100_000, ..ONE };
    let reopened = ChunkStore::open(&data_dir(scratch.path()), config).unwrap().0;
    let compacted = reopened.compact().unwrap().unwrap();
    assert!(compacted.moved >= 1);
    assert_has(&reopened, [2]);
}

#[test]
fn a_header_that_rots_while_open_does_not_lose_its_chunk() {
    let scratch = tempfile::tempdir().unwrap();
    let config = ChunkConfig { segment_bytes: 100_000, ..ONE };
    let (store, _) = ChunkStore::open(&data_dir(scratch.path()), config).unwrap();
    put_all(&store, 0..60);
    change(&segment(scratch.path()), 40 + 20);
    for n in 2..60 {
        store.remove(&chunk(n).0).unwrap();
    }
    while store.compact().unwrap().is_some() {}
    assert!(!segment(scratch.path()).exists());
    assert_has(&store, 0..2);
}

#[test]
fn odd_files_are_left_alone_and_half_made_segments_go() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, _) = open(scratch.path());
    put_all(&store, 0..20);
    let next = store.stats().segments + 1;
    drop(store);
    let chunks = scratch.path().join("chunks");
    std::fs::write(chunks.join("notes.txt"), "mine").unwrap();
    std::fs::write(chunks.join(format!("{next:08}.seg")), b"WAYFS").unwrap();
    std::fs::write(chunks.join(format!("{:08}.seg", next + 1)), vec![7; 5000]).unwrap();
    let (store, report) = open(scratch.path());
    assert_eq!(report.damaged_bytes, 5000);
    put_all(&store, 20..40);
    drop(store);
    let (store, report) = open(scratch.path());
    assert_eq!(report.damaged_bytes, 0, "it was put aside");
    assert_has(&store, 0..40);
    assert!(chunks.join("notes.txt").exists());
}

#[test]
fn records_inside_a_chunk_are_not_taken_for_records() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, _) = open_one(scratch.path());
    put_all(&store, 0..5);
    store.sync().unwrap();
    // Someone stores a copy of the segment as a file, and its own header rots.
    let copy = std::fs::read(segment(scratch.path())).unwrap();
    let at = copy.len() as u64;
    let digest = wayfs_types::Digest::of(&copy);
    store.put(&digest, &copy).unwrap();
    put_all(&store, 5..8);
    drop(store);
    change(&segment(scratch.path()), at + 5);
    let (store, report) = open_one(scratch.path());
    assert_eq!(report.damaged_bytes, copy.len() as u64 + 48);
    assert_eq!(report.chunks, 8);
    assert_has(&store, 0..8);
}

/// Segments that end with a summary, oldest first.
fn summarised(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory.join("chunks")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let has_summary = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        bytes.len() > 100 && bytes[bytes.len() - 12..].starts_with(b"WSum")
    };
    let mut found: Vec<PathBuf> = paths.filter(has_summary).collect();
    found.sort();
    found
}

#[test]
fn a_segment_opens_the_same_with_and_without_its_summary() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, _) = open(scratch.path());
    put_all(&store, 0..80);
    for n in (0..80).step_by(3) {
        store.remove(&chunk(n).0).unwrap();
    }
    let wanted = store.list(None, 1000);
    drop(store);
    let found = summarised(scratch.path());
    assert!(found.len() > 5);
    for path in &found {
        change(path, path.metadata().unwrap().len() - 1);
    }
    let (store, _) = open(scratch.path());
    assert_eq!(store.list(None, 1000), wanted);
    for (digest, _) in &wanted {
        assert!(store.get(digest).unwrap().is_some());
    }
}

#[test]
fn a_summary_stands_for_its_segment() {
    let scratch = tempfile::tempdir().unwrap();
    let (store, _) = open(scratch.path());
    put_all(&store, 0..80);
    let wanted = store.list(None, 1000);
    drop(store);
    // A header rots in the oldest segment, which a scan would notice and a summary makes up for.
    let oldest = &summarised(scratch.path())[0];
    change(oldest, 40 + 20);
    let (store, report) = open(scratch.path());
    assert_eq!(report.damaged_bytes, 0);
    assert_eq!(store.list(None, 1000), wanted);
    assert_has(&store, 0..80);
}

/// A power cut takes some sectors of a segment and leaves its list of records: the open finds what is left. Later segments
/// begin then, and the next open must find the same: what one open acknowledged, no list takes back (the simulator found a
/// tombstone that had been lost, and came back with the list when its chunk was durable again).
#[test]
fn a_torn_segment_says_the_same_at_each_open() {
    let scratch = tempfile::tempdir().unwrap();
    let (live, path) = (scratch.path().join("live"), scratch.path().join("cut"));
    let store = open(&live).0;
    put_all(&store, 0..1);
    store.sync().unwrap();
    store.remove(&chunk(0).0).unwrap();
    let rolled = |store: &ChunkStore, from: u64, segments: u64| {
        (from..from + 100).find(|n| {
            put_all(store, *n..*n + 1);
            store.stats().segments == segments
        })
    };
    let before = store.stats().disk_bytes;
    let last = rolled(&store, 1, 2).unwrap();
    copy_image(&live, &path);
    // The tombstone and the first chunk after it did not reach the disk.
    let file = OpenOptions::new().write(true).open(segment(&path)).unwrap();
    file.write_all_at(&vec![0; 60 + 48 + chunk(1).1.len()], before - 60).unwrap();
    let (store, report) = open(&path);
    assert!(report.damaged_bytes > 0);
    assert_has(&store, (0..1).chain(2..last));
    assert_lacks(&store, 1..2);
    rolled(&store, 200, 4).unwrap();
    store.sync().unwrap();
    drop(store);
    let (store, _) = open(&path);
    assert_has(&store, (0..1).chain(2..last));
    assert_lacks(&store, 1..2);
    // It is rewritten, and the same is there after that.
    let compacted = store.compact().unwrap().unwrap();
    assert_eq!(compacted.moved, last - 1);
    assert!(!segment(&path).exists());
    put_all(&store, 1..2);
    store.sync().unwrap();
    drop(store);
    let (store, report) = open(&path);
    assert_eq!(report.damaged_bytes, 0);
    assert_has(&store, (0..last).chain(200..202));
}
