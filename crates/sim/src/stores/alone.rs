//! The stores alone, without machines above them: many more commits, syncs and cuts than a run of machines has.

use super::{End, Stores, StoresPlan};
use crate::disk::{Disk, DiskHandle};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::cell::RefCell;
use std::rc::Rc;
use wayfs_disk::faulty::Room;
use wayfs_types::{Batch, Digest, MetaStore, Ticket};

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// How often the power failed at a write.
    pub(crate) failed: usize,
    /// Ends of the process, these among them.
    pub(crate) crashes: usize,
    /// What went wrong, if anything did.
    pub(crate) fault: Option<String>,
}

/// Gives stores so many things to do, drawn by a seed.
pub(crate) fn exercise((plan, seed): (StoresPlan, u64), acts: usize) -> Outcome {
    let mut run = Run::new(plan, seed);
    for act in 0..acts {
        run.act();
        if let Some(fault) = run.look() {
            run.outcome.fault = Some(format!("alone, after {act}: {fault}"));
            break;
        }
    }
    run.outcome
}

/// A disk, and what is drawn for it.
struct Run {
    disk: DiskHandle,
    random: ChaCha8Rng,
    began: Option<(Ticket, u64)>,
    outcome: Outcome,
}

impl Run {
    fn new(plan: StoresPlan, seed: u64) -> Self {
        let mut disk = Disk::default();
        disk.put_stores_under(Stores::new(plan, seed));
        let (disk, random) = (DiskHandle(Rc::new(RefCell::new(disk))), ChaCha8Rng::seed_from_u64(seed));
        Self { disk, random, began: None, outcome: Outcome::default() }
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
        self.outcome.crashes += 1;
    }

    fn look(&mut self) -> Option<String> {
        if self.disk.0.borrow().is_off() {
            self.outcome.failed += 1;
            self.crash(End::PowerCut);
        }
        self.disk.0.borrow_mut().stores()?.take_fault()
    }
}
