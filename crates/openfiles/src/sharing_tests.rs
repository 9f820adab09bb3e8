//! Copies that share.

use super::sharing::NotShared;
use super::testing::{Fake, file};
use super::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tempfile::TempDir;
use wayfs_types::Content;

/// A few chunks.
const LEN: usize = 3_000_000;

struct World {
    fake: Arc<Fake>,
    table: FileTable,
    source: Arc<OpenFile>,
    target: Arc<OpenFile>,
    bytes: Vec<u8>,
    _scratch: TempDir,
}

fn wait_policy() -> WaitPolicy {
    WaitPolicy::Silence(Duration::from_secs(5))
}

/// Bytes in which no chunk is like another.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 88_172_645_463_325_252u64;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        })
        .collect()
}

impl World {
    fn new(len: usize) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let fake = Arc::new(Fake::new());
        let bytes = noise(len);
        let disk = HostDisk::at(&scratch.path().join("files"), 0);
        let settings = TableSettings {
            disk,
            idle_len_max: 1 << 30,
            idle_count_max: 4,
            memory_max: crate::body::MEMORY_MAX,
            body_count_max: 64,
        };
        let table = FileTable::open(fake.clone(), settings).unwrap();
        let source = table.open_file(file(1), &fake.make(file(1), &bytes), Access::Read);
        let target = table.open_file(file(2), &fake.make(file(2), b""), Access::Write);
        Self { fake, table, source, target, bytes, _scratch: scratch }
    }

    fn share(&self, range: std::ops::Range<u64>) -> Result<u64, NotShared> {
        self.table.share(&self.source, &self.target, range, 0)
    }

    fn content(&self, number: u64) -> Content {
        self.fake.inode(file(number)).unwrap().content.clone()
    }

    fn put_len(&self) -> usize {
        self.fake.put_len.load(Ordering::Relaxed)
    }

    fn check(&self, expected: &[u8]) {
        let read = self.table.read(&self.target, 0..u64::MAX / 2, wait_policy()).unwrap();
        assert!(read == expected, "what is read of the copy differs");
        self.table.commit(&self.target, wait_policy()).unwrap();
        assert!(self.fake.bytes_of(file(2)) == expected, "what was committed of the copy differs");
        let read = self.table.read(&self.target, 0..u64::MAX / 2, wait_policy()).unwrap();
        assert!(read == expected, "what is read of the committed copy differs");
    }
}

#[test]
fn a_whole_copy_is_the_same_content_and_nothing_is_stored_for_it() {
    for len in [0, 1, 3000, 200_000, LEN] {
        let world = World::new(len);
        assert_eq!(world.share(0..u64::MAX / 2), Ok(len as u64));
        assert_eq!(world.target.overlay().size, len as u64);
        world.table.commit(&world.target, WaitPolicy::None).unwrap();
        assert_eq!(world.content(2), world.content(1), "{len} bytes");
        assert_eq!(world.put_len(), 0, "{len} bytes");
        world.check(&world.bytes);
    }
}

#[test]
fn a_copy_in_steps_is_one_content_in_the_end() {
    let world = World::new(LEN);
    for (range, copied) in [(0..1_000_001, 1_000_001), (1_000_001..1_000_002, 1), (1_000_002..1 << 40, 1_999_998)] {
        assert_eq!(world.share(range), Ok(copied));
    }
    assert_eq!(world.share(LEN as u64..1 << 40), Ok(0));
    world.check(&world.bytes);
    assert_eq!((world.content(2), world.put_len()), (world.content(1), 0));
}

#[test]
fn the_begin_of_a_file_costs_no_more_than_its_last_chunk() {
    let world = World::new(LEN);
    assert_eq!(world.share(0..2_000_001), Ok(2_000_001));
    world.check(&world.bytes[..2_000_001]);
    assert!(world.put_len() < 2 * wayfs_content::CHUNK_MAX + 65_536, "{} bytes were stored", world.put_len());
}

#[test]
fn what_is_written_to_a_copy_stands_over_what_is_shared_and_not_in_the_other_file() {
    let world = World::new(LEN);
    world.share(0..2_500_000).unwrap();
    let mut expected = world.bytes[..2_500_000].to_vec();
    expected[700_000..700_010].fill(7);
    world.table.write(&world.target, Some(700_000), &[7; 10], 0).unwrap();
    expected.resize(2_600_000, 0);
    expected.extend([8; 10]);
    world.table.write(&world.target, Some(2_600_000), &[8; 10], 0).unwrap();
    assert_eq!(world.share(2_600_010..1 << 40), Err(NotShared::Unfit), "the places differ by now");
    world.check(&expected);
    assert!(world.fake.bytes_of(file(1)) == world.bytes);
    world.table.truncate(&world.target, 1_234_567, 0).unwrap();
    world.check(&expected[..1_234_567]);
}

#[test]
fn only_what_is_committed_and_here_is_shared_and_only_into_what_is_empty() {
    let world = World::new(LEN);
    assert_eq!(world.share(1..1 << 40), Err(NotShared::Unfit), "nothing stands before it");
    world.table.write(&world.target, Some(0), b"there", 0).unwrap();
    assert_eq!(world.share(0..1 << 40), Err(NotShared::Unfit), "there are bytes of its own");
    world.check(b"there");
    world.table.truncate(&world.target, 0, 0).unwrap();
    world.table.write(&world.source, Some(5), b"new", 0).unwrap();
    assert_eq!(world.share(0..1 << 40), Err(NotShared::Uncommitted));
    world.table.commit(&world.source, wait_policy()).unwrap();
    world.fake.send_away();
    assert_eq!(world.share(0..1 << 40), Err(NotShared::Unfit), "it is elsewhere");
}

#[test]
fn chunks_that_go_before_the_record_is_made_come_from_whom_they_are_lent_by() {
    let world = World::new(LEN);
    world.share(0..1 << 40).unwrap();
    world.fake.send_away();
    *world.fake.is_cut_off.lock().unwrap() = true;
    assert!(world.table.commit(&world.target, wait_policy()).is_err(), "nobody could answer for it");
    *world.fake.is_cut_off.lock().unwrap() = false;
    world.check(&world.bytes);
    let lender = (file(1), file(1).maker());
    assert_eq!(world.fake.fetched.lock().unwrap().iter().copied().collect::<Vec<_>>(), [lender]);
}
