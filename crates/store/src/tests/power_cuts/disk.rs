//! A disk that knows which writes to the log are durable, so that the power can fail at each of them.

use crate::log::disk::{LogDisk, LogFile, SystemDisk};
use crate::tests::{Random, copy_image};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// What a power cut leaves alone or takes as a whole.
const SECTOR: usize = 512;

/// What is called at each step, with the disk as it is then.
type OnStep = Box<dyn FnMut(&Disk) + Send>;

/// Files with the writes that were not synced, and names with the changes that were not.
#[derive(Default)]
pub(super) struct Disk {
    files: Vec<File>,
    names: BTreeMap<PathBuf, usize>,
    durable_names: BTreeMap<PathBuf, usize>,
    pub(super) steps: u64,
}

#[derive(Default)]
struct File {
    durable: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
}

impl File {
    /// The file after a cut that kept some sectors of what was not synced.
    fn cut(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        let fate = random.below(4);
        for (at, written) in &self.pending {
            let mut from = 0;
            while from < written.len() {
                let until = written.len().min((at + from) / SECTOR * SECTOR + SECTOR - at);
                let is_kept = match fate {
                    0 => false,
                    1 => true,
                    _ => random.below(fate) == 0,
                };
                if is_kept {
                    write(&mut bytes, at + from, &written[from..until]);
                }
                from = until;
            }
        }
        bytes
    }

    fn sync(&mut self) {
        for (at, written) in std::mem::take(&mut self.pending) {
            write(&mut self.durable, at, &written);
        }
    }
}

fn write(bytes: &mut Vec<u8>, at: usize, written: &[u8]) {
    bytes.resize(bytes.len().max(at + written.len()), 0);
    bytes[at..at + written.len()].copy_from_slice(written);
}

impl Disk {
    /// Makes the data directory as a cut at this moment leaves it. The tables' own files are as they are: the library syncs
    /// them before it goes on, and no step of the log falls into that.
    pub(super) fn image(&self, live: &Path, image: &Path, random: &mut Random) {
        copy_image(live, image);
        let log = image.join("meta/log");
        std::fs::remove_dir_all(&log).unwrap();
        std::fs::create_dir_all(&log).unwrap();
        let paths: BTreeSet<&PathBuf> = self.names.keys().chain(self.durable_names.keys()).collect();
        for path in paths {
            let (now, durable) = (self.names.get(path), self.durable_names.get(path));
            let file = if random.below(2) == 0 { now } else { durable };
            if let Some(file) = file {
                let bytes = self.files[*file].cut(random);
                std::fs::write(log.join(path.file_name().unwrap()), bytes).unwrap();
            }
        }
    }
}

/// The disk under a store. Clones are the same disk.
#[derive(Clone, Default)]
pub(super) struct CutDisk {
    disk: Arc<Mutex<Disk>>,
    on_step: Arc<Mutex<Option<OnStep>>>,
}

impl CutDisk {
    pub(super) fn on_step(&self, on_step: impl FnMut(&Disk) + Send + 'static) {
        *self.on_step.lock().unwrap() = Some(Box::new(on_step));
    }

    pub(super) fn steps(&self) -> u64 {
        self.lock().steps
    }

    fn lock(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The power may fail here: what was begun is there, or not, or in part.
    fn step(&self) {
        if std::thread::panicking() {
            return;
        }
        let mut disk = self.lock();
        disk.steps += 1;
        if let Some(on_step) = &mut *self.on_step.lock().unwrap() {
            on_step(&disk);
        }
    }
}

impl LogDisk for CutDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let file = SystemDisk.create(path)?;
        let number = {
            let mut disk = self.lock();
            disk.files.push(File::default());
            let number = disk.files.len() - 1;
            disk.names.insert(path.to_path_buf(), number);
            number
        };
        self.step();
        Ok(Arc::new(CutFile { file, number, disk: self.clone() }))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn LogFile>> {
        let number = self.lock().names[path];
        Ok(Arc::new(CutFile { file: SystemDisk.open(path)?, number, disk: self.clone() }))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemDisk.remove(path)?;
        self.lock().names.remove(path);
        self.step();
        Ok(())
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        self.step();
        let mut disk = self.lock();
        disk.durable_names = disk.names.clone();
        Ok(())
    }
}

struct CutFile {
    file: Arc<dyn LogFile>,
    number: usize,
    disk: CutDisk,
}

impl LogFile for CutFile {
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_at(bytes, at)?;
        self.disk.lock().files[self.number].pending.push((at as usize, bytes.to_vec()));
        self.disk.step();
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.step();
        self.disk.lock().files[self.number].sync();
        Ok(())
    }
}
