//! A file whose daemon is killed at any moment against a vector of bytes, over random operations.

use super::journal_bench::{Bench, LONG, SOON, bench, pattern, put};
use super::open_file::Extend;
use super::testing::file;
use super::*;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wayfs_types::{FsError, Inode};

#[derive(Debug, Clone)]
enum Act {
    Write { offset: u64, len: usize, byte: u8 },
    Append { len: usize, byte: u8 },
    Truncate { size: u64 },
    Empty,
    Zero { offset: u64, len: u64 },
    Commit,
    FailedCommit,
    Copy { until: u64 },
    Reopen,
    Tend,
    Kill { records_too: bool },
}

fn act() -> impl Strategy<Value = Act> {
    let offset = || prop_oneof![0u64..6000, 130_000u64..133_000, 0u64..700_000];
    let len = || prop_oneof![1usize..5000, 1usize..300_000];
    prop_oneof![
        5 => (offset(), len(), any::<u8>()).prop_map(|(offset, len, byte)| Act::Write { offset, len, byte }),
        2 => (len(), any::<u8>()).prop_map(|(len, byte)| Act::Append { len, byte }),
        3 => offset().prop_map(|size| Act::Truncate { size }),
        1 => Just(Act::Empty),
        1 => (offset(), 1u64..200_000).prop_map(|(offset, len)| Act::Zero { offset, len }),
        2 => Just(Act::Commit),
        1 => Just(Act::FailedCommit),
        1 => offset().prop_map(|until| Act::Copy { until }),
        1 => Just(Act::Reopen),
        1 => Just(Act::Tend),
        3 => any::<bool>().prop_map(|records_too| Act::Kill { records_too }),
    ]
}

/// A file, what it holds, and the engine's word when its last record was with the host.
struct World {
    bench: Bench,
    open: Arc<OpenFile>,
    model: Vec<u8>,
    host: Inode,
    source: Vec<u8>,
    /// Emptied, and nothing since: what a kill leaves is what was before.
    emptied: Option<Vec<u8>>,
}

impl World {
    fn act(mut self, act: &Act) -> Self {
        let table = &self.bench.table;
        let is_emptied = matches!(act, Act::Empty | Act::Kill { .. } | Act::Tend);
        let before = if is_emptied { self.emptied.take() } else { None };
        if !is_emptied {
            self.emptied = None;
        }
        match *act {
            Act::Write { offset, len, byte } => {
                let bytes = pattern(len, byte);
                table.write(&self.open, Some(offset), &bytes, 0).unwrap();
                put(&mut self.model, offset as usize, &bytes);
            }
            Act::Append { len, byte } => {
                let bytes = pattern(len, byte);
                table.write(&self.open, None, &bytes, 0).unwrap();
                self.model.extend(bytes);
            }
            Act::Truncate { size } => {
                table.truncate(&self.open, size, 0).unwrap();
                self.model.resize(size as usize, 0);
            }
            Act::Empty => {
                let was_dirty = self.open.is_dirty() && !self.open.is_only_emptied();
                table.empty(&self.open, 0).unwrap();
                let former = std::mem::take(&mut self.model);
                self.emptied = if was_dirty { None } else { Some(before.unwrap_or(former)) };
            }
            Act::Zero { offset, len } => {
                table.zero(&self.open, offset..offset + len, Extend::Yes).unwrap();
                put(&mut self.model, offset as usize, &vec![0; len as usize]);
            }
            Act::Commit => drop(table.commit(&self.open, SOON).unwrap()),
            Act::FailedCommit => {
                *self.bench.fake.refuse.lock().unwrap() = Some(FsError::NoSpace);
                let _ = table.commit(&self.open, SOON);
                *self.bench.fake.refuse.lock().unwrap() = None;
            }
            Act::Copy { until } => {
                table.truncate(&self.open, 0, 0).unwrap();
                self.model.clear();
                let inode = self.bench.fake.inode(file(2)).unwrap();
                let source = table.open_file(file(2), &inode, Access::Read);
                if let Ok(copied) = table.share(&source, &self.open, 0..until, 0) {
                    self.model = self.source[..copied as usize].to_vec();
                }
                table.close_file(&source, Access::Read);
            }
            Act::Reopen => {
                table.commit(&self.open, SOON).unwrap();
                table.close_file(&self.open, Access::Write);
                self.open = self.bench.open(1);
            }
            Act::Tend => {
                // The host has what was recorded.
                self.emptied = before;
                self.bench.fake.is_unwritten.store(false, Ordering::Relaxed);
                table.tend_journals();
                self.bench.fake.is_unwritten.store(true, Ordering::Relaxed);
                self.host = Inode::clone(&self.bench.fake.inode(file(1)).unwrap());
            }
            Act::Kill { records_too } => return self.kill(records_too, before),
        }
        self
    }

    fn kill(mut self, records_too: bool, emptied: Option<Vec<u8>>) -> Self {
        if let Some(former) = emptied {
            self.model = former;
        }
        if records_too {
            self.bench.fake.put(file(1), self.host.clone());
        }
        self.bench = self.bench.killed();
        self.bench.table.commit_left();
        assert_eq!(self.bench.table.commit_older(LONG, WaitPolicy::Silence(Duration::from_secs(5))), []);
        assert!(self.bench.bytes(1) == self.model, "bytes differ");
        self.bench.fake.is_unwritten.store(true, Ordering::Relaxed);
        self.host = Inode::clone(&self.bench.fake.inode(file(1)).unwrap());
        self.open = self.bench.open(1);
        self
    }
}

/// A file of so many bytes, what is done to it, and a kill in the end.
fn run(start: usize, acts: &[Act]) {
    let bench = bench();
    let model = pattern(start, 3);
    let open = bench.make(1, &model);
    let source = pattern(500_000, 5);
    bench.fake.make(file(2), &source);
    bench.fake.is_unwritten.store(true, Ordering::Relaxed);
    let host = Inode::clone(&bench.fake.inode(file(1)).unwrap());
    let mut world = World { bench, open, model, host, source, emptied: None };
    for act in acts {
        world = world.act(act);
    }
    world.act(&Act::Kill { records_too: false });
}

#[test]
fn a_file_that_is_emptied_twice_before_anything_is_written_is_what_it_was() {
    let write = Act::Write { offset: 0, len: 1, byte: 0 };
    run(0, &[write, Act::Kill { records_too: false }, Act::Empty, Act::Empty]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 400, ..ProptestConfig::default() })]
    #[test]
    fn whenever_the_daemon_is_killed_the_file_is_what_was_written(
        start in prop_oneof![Just(0usize), 0usize..6000, 100_000usize..700_000],
        acts in proptest::collection::vec(act(), 1..24),
    ) {
        run(start, &acts);
    }
}
