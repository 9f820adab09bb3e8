//! The table against a vector of bytes, over random operations.

use super::open_file::Extend;
use super::testing::{Fake, file};
use super::*;
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone)]
enum Step {
    Write { offset: u64, len: usize, byte: u8 },
    Append { len: usize, byte: u8 },
    Truncate { size: u64 },
    Zero { offset: u64, len: u64, extend: bool },
    Read { offset: u64, len: u64 },
    Commit,
    FailedCommit,
    Reopen,
    SendAway,
    MakeRoom,
    Copy { until: u64, goes_on: bool },
}

/// Offsets around the sizes at which the table changes its ways.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..6000, 130_000u64..133_000, 260_000u64..265_000, 0u64..1_500_000,]
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![0usize..5000, 0usize..400_000];
    prop_oneof![
        4 => (offset(), len.clone(), any::<u8>()).prop_map(|(offset, len, byte)| Step::Write { offset, len, byte }),
        1 => (len, any::<u8>()).prop_map(|(len, byte)| Step::Append { len, byte }),
        2 => offset().prop_map(|size| Step::Truncate { size }),
        1 => (offset(), 0u64..300_000, any::<bool>()).prop_map(|(offset, len, extend)| Step::Zero { offset, len, extend }),
        3 => (offset(), 0u64..300_000).prop_map(|(offset, len)| Step::Read { offset, len }),
        2 => Just(Step::Commit),
        1 => Just(Step::FailedCommit),
        2 => Just(Step::Reopen),
        1 => Just(Step::SendAway),
        1 => Just(Step::MakeRoom),
        2 => (offset(), any::<bool>()).prop_map(|(until, goes_on)| Step::Copy { until, goes_on }),
    ]
}

/// Bytes that depend on the place, so that a shift shows.
fn pattern(offset: u64, len: usize, byte: u8) -> Vec<u8> {
    (0..len as u64).map(|at| byte.wrapping_add(((offset + at) % 251) as u8)).collect()
}

struct World {
    fake: Arc<Fake>,
    table: FileTable,
    open: Arc<OpenFile>,
    model: Vec<u8>,
    /// Another file, and its bytes.
    source: (Arc<OpenFile>, Vec<u8>),
}

fn wait_policy() -> WaitPolicy {
    WaitPolicy::Silence(Duration::from_secs(5))
}

impl World {
    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Write { offset, len, byte } => {
                let bytes = pattern(offset, len, byte);
                self.table.write(&self.open, Some(offset), &bytes, 0).unwrap();
                self.put(offset as usize, &bytes);
            }
            Step::Append { len, byte } => {
                let at = self.model.len();
                let bytes = pattern(at as u64, len, byte);
                assert_eq!(self.table.write(&self.open, None, &bytes, 0), Ok(at as u64));
                self.put(at, &bytes);
            }
            Step::Truncate { size } => {
                self.table.truncate(&self.open, size, 0).unwrap();
                self.model.resize(size as usize, 0);
            }
            Step::Zero { offset, len, extend } => {
                let extend = if extend { Extend::Yes } else { Extend::No };
                self.table.zero(&self.open, offset..offset + len, extend).unwrap();
                let (from, mut until) = (offset as usize, (offset + len) as usize);
                if extend == Extend::No {
                    until = until.min(self.model.len());
                }
                if from < until {
                    self.put(from, &vec![0; until - from]);
                }
            }
            Step::Read { offset, len } => self.check_read(offset..offset + len),
            Step::Commit => {
                self.table.commit(&self.open, wait_policy()).unwrap();
                assert!(self.fake.bytes_of(file(1)) == self.model, "committed bytes differ");
            }
            Step::FailedCommit => {
                *self.fake.refuse.lock().unwrap() = Some(wayfs_types::FsError::NoSpace);
                let _ = self.table.commit(&self.open, wait_policy());
                *self.fake.refuse.lock().unwrap() = None;
            }
            Step::Reopen => {
                self.table.commit(&self.open, wait_policy()).unwrap();
                self.table.close_file(&self.open, Access::Write);
                let inode = self.fake.inode(file(1)).unwrap();
                self.open = self.table.open_file(file(1), &inode, Access::Write);
            }
            Step::SendAway => self.fake.send_away(),
            Step::MakeRoom => {
                self.table.make_room();
            }
            Step::Copy { until, goes_on } => self.copy(until, goes_on),
        }
    }

    /// Empties the file and makes it a copy of the begin of the other, or of all in two steps, if that can be shared.
    fn copy(&mut self, until: u64, goes_on: bool) {
        self.table.truncate(&self.open, 0, 0).unwrap();
        self.model.clear();
        let (source, bytes) = (Arc::clone(&self.source.0), self.source.1.clone());
        for range in [0..until, until..u64::MAX].into_iter().take(1 + usize::from(goes_on)) {
            let Ok(copied) = self.table.share(&source, &self.open, range.clone(), 0) else { return };
            let end = range.end.min(bytes.len() as u64);
            assert_eq!(copied, end.saturating_sub(range.start));
            if copied > 0 {
                self.put(range.start as usize, &bytes[range.start as usize..end as usize]);
            }
        }
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        // As POSIX has it, writing nothing does not extend.
        let end = at + bytes.len();
        if self.model.len() < end && !bytes.is_empty() {
            self.model.resize(end, 0);
        }
        if !bytes.is_empty() {
            self.model[at..end].copy_from_slice(bytes);
        }
    }

    fn check_read(&self, range: std::ops::Range<u64>) {
        let read = self.table.read(&self.open, range.clone(), wait_policy()).unwrap();
        let len = self.model.len() as u64;
        let expected = &self.model[range.start.min(len) as usize..range.end.min(len) as usize];
        assert!(read == expected, "read of {range:?} differs");
        assert_eq!(self.open.overlay().size, len);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn the_table_is_a_vector_of_bytes(
        start in prop_oneof![Just(0usize), 0usize..6000, 100_000usize..1_200_000],
        steps in proptest::collection::vec(step(), 1..24),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let fake = Arc::new(Fake::new());
        let model = pattern(0, start, 3);
        let inode = fake.make(file(1), &model);
        let settings = TableSettings { disk: HostDisk::at(&directory.path().join("files"), 0), idle_len_max: 1 << 30, idle_count_max: 4, memory_max: crate::body::MEMORY_MAX, body_count_max: 64 };
        let table = FileTable::open(fake.clone(), settings).unwrap();
        let open = table.open_file(file(1), &inode, Access::Write);
        let other = pattern(7, 1_100_000, 5);
        let source = table.open_file(file(2), &fake.make(file(2), &other), Access::Read);
        let mut world = World { fake, table, open, model, source: (source, other) };
        for step in &steps {
            world.apply(step);
        }
        world.check_read(0..1 << 22);
        world.apply(&Step::Commit);
        world.apply(&Step::Reopen);
        world.check_read(0..1 << 22);
    }
}
