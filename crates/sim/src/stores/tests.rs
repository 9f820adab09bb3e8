//! The stores alone, without machines above them: many more commits, syncs and cuts than a run of machines has.

use super::*;
use crate::disk::{Disk, DiskHandle};
use std::cell::RefCell;
use std::rc::Rc;

/// Runs of the test.
const SEEDS: u64 = 120;
/// What each does.
const ACTS: usize = 500;

/// A disk, and what is drawn for it.
struct Run {
    disk: DiskHandle,
    random: ChaCha8Rng,
    began: Option<(Ticket, u64)>,
    /// How often the power failed at a write.
    failed: usize,
    crashes: usize,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut disk = Disk::default();
        disk.put_stores_under(Stores::new(StoresPlan::draw(seed), seed));
        let (disk, random) = (DiskHandle(Rc::new(RefCell::new(disk))), ChaCha8Rng::seed_from_u64(seed));
        Self { disk, random, began: None, failed: 0, crashes: 0 }
    }

    fn chunk(&mut self) -> Digest {
        Digest::of(&[self.random.random_range(0..24)])
    }

    fn batch(&mut self) -> Batch {
        let mut batch = Batch::default();
        for _ in 0..self.random.random_range(0..5) {
            let key = vec![self.random.random_range(0..40)];
            if self.random.random_bool(0.25) {
                batch.delete(key);
            } else {
                let len = [0, 20, 300, 1500][self.random.random_range(0..4)];
                batch.put(key, vec![self.random.random(); len]);
            }
        }
        batch
    }

    fn act(&mut self) {
        match self.random.random_range(0..32) {
            0..10 => {
                let batch = self.batch();
                let _ = self.disk.commit(batch);
            }
            10..14 => {
                let chunk = self.chunk();
                self.disk.0.borrow_mut().put_chunk(chunk);
            }
            14..16 => {
                let chunk = self.chunk();
                self.disk.0.borrow_mut().remove_chunk(chunk);
            }
            16..18 => {
                let point = self.disk.0.borrow_mut().begin_sync();
                self.began = Some((point.ticket, point.chunk_writes));
            }
            18..21 => {
                let Some((ticket, chunk_writes)) = self.began.take() else { return };
                let mut disk = self.disk.0.borrow_mut();
                if disk.sync_chunks(chunk_writes) {
                    disk.sync_records(ticket);
                }
            }
            21..24 => {
                let (chunk, key) = (self.chunk(), [self.random.random_range(0..40)]);
                self.disk.0.borrow_mut().read_chunk(chunk);
                assert!(self.disk.get(&key).is_ok() && self.disk.scan(&key, b"", 3).is_ok());
            }
            24 => {
                let room = if self.random.random_bool(0.3) { Room::None } else { Room::Plenty };
                self.disk.0.borrow_mut().set_room(room);
            }
            25 => {
                let chunk = self.chunk();
                self.disk.0.borrow_mut().damage(chunk);
            }
            26 if self.random.random_bool(0.3) => {
                let copy = self.disk.0.borrow().durable_copy();
                *self.disk.0.borrow_mut() = copy;
                self.began = None;
            }
            27 if self.random.random_bool(0.3) => self.crash(End::Killed),
            28 if self.random.random_bool(0.3) => self.crash(End::PowerCut),
            _ => {
                if let Some(stores) = self.disk.0.borrow_mut().stores() {
                    stores.plan_power_cut();
                }
            }
        }
    }

    fn crash(&mut self, end: End) {
        self.disk.0.borrow_mut().crash_stores(end);
        self.began = None;
        self.crashes += 1;
    }

    /// What went wrong, if anything did.
    fn look(&mut self) -> Option<String> {
        if self.disk.0.borrow().is_off() {
            self.failed += 1;
            self.crash(End::PowerCut);
        }
        self.disk.0.borrow_mut().stores()?.take_fault()
    }
}

#[test]
fn stores_have_what_they_said_is_durable_wherever_the_power_fails() {
    let (mut failed, mut crashes) = (0, 0);
    for seed in 0..SEEDS {
        let mut run = Run::new(seed);
        for act in 0..ACTS {
            run.act();
            assert_eq!(run.look(), None, "seed {seed}, after {act}");
        }
        failed += run.failed;
        crashes += run.crashes;
    }
    assert!(failed > 1000 && crashes > failed + 500, "{failed} of {crashes} crashes were at a write");
}
