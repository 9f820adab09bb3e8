//! The power fails at each write and each sync of a run, and what opens then is compared with a model.
//!
//! A run commits, syncs, makes checkpoints, writes room ahead, and opens the store again, in an order that its seed says.
//! At each step an image is taken as a cut there would leave it: of what was not synced some sectors are there, of names that
//! were not synced some, or all up to some moment. The image must open, hold every batch that was said to be durable, no batch in part,
//! and no batch without those before it; and it must go on.

use super::{Random, copy_image, meta_config};
use crate::checkpoints::{Checkpoints, Step};
use crate::log::FileNumber;
use crate::{DataDir, DiskMetaStore, MetaConfig, OpenError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use wayfs_disk::Disk;
use wayfs_disk::faulty::{Cut, FaultyDisk};
use wayfs_types::{Batch, MetaStore, Ticket};

/// Runs of the test: some eight seconds together, without optimisation.
const SEEDS: u64 = 4;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// What was committed, and what was said about it.
#[derive(Default)]
struct Model {
    /// All rows after each batch; the first is the empty store.
    states: Vec<Rows>,
    durable: Ticket,
}

impl Model {
    fn commit(&mut self, batch: &Batch) {
        let mut rows = self.states.last().cloned().unwrap_or_default();
        for (key, value) in &batch.changes {
            match value {
                Some(value) => drop(rows.insert(key.clone(), value.clone())),
                None => drop(rows.remove(key)),
            }
        }
        self.states.push(rows);
    }
}

fn config() -> MetaConfig {
    MetaConfig { memtable_bytes: 12 << 10, ..meta_config() }
}

fn batch(random: &mut Random) -> Batch {
    let mut batch = Batch::default();
    for _ in 0..random.below(5) {
        let key = vec![random.below(40) as u8];
        if random.below(4) == 0 {
            batch.delete(key);
        } else {
            let len = [0, 20, 300, 1500][random.below(4) as usize];
            batch.put(key, random.bytes(len));
        }
    }
    batch
}

fn rows(store: &DiskMetaStore) -> Rows {
    store.scan(b"", b"", usize::MAX).unwrap().into_iter().collect()
}

/// A store, what is known of it, and the disk under it.
struct Run {
    store: Option<(DiskMetaStore, Checkpoints)>,
    disk: FaultyDisk,
    model: Arc<Mutex<Model>>,
    random: Random,
    /// Goes last: a store that closes still writes.
    scratch: tempfile::TempDir,
}

impl Run {
    fn new(seed: u64) -> Self {
        let shared_memory = Path::new("/dev/shm");
        let scratch = if shared_memory.exists() { tempfile::tempdir_in(shared_memory) } else { tempfile::tempdir() };
        let model = Model { states: vec![Rows::new()], ..Model::default() };
        let (scratch, model) = (scratch.unwrap(), Arc::new(Mutex::new(model)));
        let (live, images) = (scratch.path().join("live"), scratch.path().join("images"));
        let disk = FaultyDisk::new(&live, seed);
        let mut run = Self { scratch, disk, model, random: Random(seed), store: None };
        run.open();
        let (model, mut random) = (Arc::clone(&run.model), Random(seed ^ 0xc07));
        run.disk.on_step(move |disk| check(disk, (&live, &images), &model.lock().unwrap(), &mut random));
        run
    }

    fn live(&self) -> PathBuf {
        self.scratch.path().join("live")
    }

    fn open(&mut self) {
        self.store = None;
        self.store = Some(open(&self.disk, &self.live()).unwrap());
    }

    fn act(&mut self) {
        let (store, checkpoints) = self.store.as_mut().expect("it is open");
        match self.random.below(24) {
            0..12 => {
                let batch = batch(&mut self.random);
                self.model.lock().unwrap().commit(&batch);
                store.commit(batch).unwrap();
                if self.random.below(2) == 0 {
                    checkpoints.step();
                }
            }
            12..17 => {
                let durable = store.syncer().sync_to(store.committed()).unwrap();
                self.model.lock().unwrap().durable = durable;
            }
            17..19 => store.syncer().make_ready(),
            19..23 => while checkpoints.step() == Step::Done {},
            _ => {
                self.open();
                let mut model = self.model.lock().unwrap();
                model.durable = Ticket(model.states.len() as u64 - 1);
            }
        }
    }

    /// How often the log went on in another file.
    fn turns(&self) -> u64 {
        let paths = self.disk.list(&self.live().join("meta/log")).unwrap();
        let names = paths.iter().filter_map(|path| path.file_name()?.to_str());
        names.filter_map(FileNumber::parse).map(|number| number.0 - 1).max().unwrap_or(0)
    }
}

fn open(disk: &FaultyDisk, path: &Path) -> Result<(DiskMetaStore, Checkpoints), OpenError> {
    // The tables' own files are the system's.
    std::fs::create_dir_all(path.join("meta")).unwrap();
    DiskMetaStore::open_by_hand(&DataDir::on_disk(Arc::new(disk.clone()), path)?, config())
}

/// Cuts the power, opens what is left, and goes on with it. The tables' own files are as they are: the library syncs them
/// before it goes on, and no step falls into that.
fn check(disk: &FaultyDisk, (live, images): (&Path, &Path), model: &Model, random: &mut Random) {
    let at = disk.steps();
    let image = images.join(at.to_string());
    let cut = [Cut::Nothing, Cut::Ordered, Cut::Scattered, Cut::Scattered][random.below(4) as usize];
    let left = disk.cut_copy(&image, cut, random.below(u64::MAX));
    copy_image(&live.join("meta/index"), &image.join("meta/index"));
    let open = || open(&left, &image);
    let (mut store, _) = open().unwrap_or_else(|error| panic!("step {at}, durable {}: {error}", model.durable));
    let found = store.committed();
    assert!(found >= model.durable, "step {at}: {found} batches of {} that are durable", model.durable);
    let states = &model.states;
    assert!(rows(&store) == states[found.0 as usize], "step {at}: batch {found} of {}", states.len() - 1);
    let mut batch = Batch::default();
    batch.put(b"after".to_vec(), b"the cut".to_vec());
    assert_eq!(store.commit(batch), Ok(Ticket(found.0 + 1)));
    store.syncer().sync_to(Ticket(found.0 + 1)).unwrap();
    drop(store);
    let (store, _) = open().unwrap_or_else(|error| panic!("step {at}, again: {error}"));
    assert_eq!((store.committed(), store.report().torn_bytes), (Ticket(found.0 + 1), 0), "step {at}");
    let mut wanted = states[found.0 as usize].clone();
    wanted.insert(b"after".to_vec(), b"the cut".to_vec());
    assert!(rows(&store) == wanted, "step {at}, again");
    drop(store);
    std::fs::remove_dir_all(&image).unwrap();
}

#[test]
fn a_power_cut_at_any_write_or_sync_leaves_what_was_durable_and_no_hole() {
    for seed in 1..=SEEDS {
        let mut run = Run::new(seed * 0x9e37_79b9);
        for _ in 0..140 {
            run.act();
        }
        assert!(run.turns() >= 3, "seed {seed}: the log was turned {} times", run.turns());
        assert!(run.disk.steps() > 150, "seed {seed}: {} steps", run.disk.steps());
    }
}
