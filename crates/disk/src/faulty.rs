//! A disk in memory that loses power at any step, tears, rots and fills. It does the same again with the same seed.
//!
//! ```text
//!   write, set_size ──▶ unsynced ──sync──▶ durable        of what is unsynced, a cut leaves some
//!   create, rename, remove ──▶ unsynced names ──sync_directory──▶ durable names
//! ```
//!
//! A *step* is one call that changes something. The power can be told to fail at one: what that call began is there, or not,
//! or in part, and every call after it fails, until [`FaultyDisk::cut`] has decided what is left. Whoever had files open
//! then, or when its process was killed, has them no more.

mod unsynced;

pub use unsynced::Cut;

use crate::{Disk, DiskFile, FreeRoom};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use unsynced::{Change, File, NameChange, Names};

/// Bytes that are free on a disk that is not full.
const ROOM: u64 = 1 << 40;

/// How much room a disk has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Room {
    /// More than anybody takes.
    #[default]
    Plenty,
    /// None.
    None,
}

/// What is called after each step.
type OnStep = Box<dyn FnMut(&FaultyDisk) + Send>;

/// The disk. Clones are the same disk.
#[derive(Clone)]
pub struct FaultyDisk {
    /// Paths are known by what follows it, so that a copy can be elsewhere.
    root: PathBuf,
    state: Arc<Mutex<State>>,
    on_step: Arc<Mutex<Option<OnStep>>>,
}

#[derive(Debug, Clone)]
struct State {
    files: BTreeMap<FileId, File>,
    names: Names,
    random: ChaCha8Rng,
    /// Changes so far, steps among them; they are numbered by it.
    steps: u64,
    fails_at: Option<u64>,
    is_off: bool,
    room: Room,
    /// Processes that had files open so far: those of all but the last have them no more.
    process: u64,
}

/// A file, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileId(u64);

/// Where bytes were found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// The file.
    pub path: PathBuf,
    /// The first byte.
    pub at: u64,
}

impl FaultyDisk {
    /// An empty disk with a directory.
    #[must_use]
    pub fn new(root: &Path, seed: u64) -> Self {
        let state = State {
            files: BTreeMap::new(),
            names: Names::default(),
            random: ChaCha8Rng::seed_from_u64(seed),
            steps: 0,
            fails_at: None,
            is_off: false,
            room: Room::Plenty,
            process: 0,
        };
        Self::with(root, state)
    }

    fn with(root: &Path, state: State) -> Self {
        Self { root: root.to_path_buf(), state: Arc::new(Mutex::new(state)), on_step: Arc::default() }
    }

    /// The disk as a cut at this moment would leave it, as another disk with a directory elsewhere.
    #[must_use]
    pub fn cut_copy(&self, root: &Path, cut: Cut, seed: u64) -> Self {
        let mut state = self.state().clone();
        state.random = ChaCha8Rng::seed_from_u64(seed);
        let copy = Self::with(root, state);
        copy.cut(cut);
        copy.set_room(Room::Plenty);
        copy
    }

    /// Calls something after each step, while what the step began is not durable. Not for the steps that it makes itself.
    pub fn on_step(&self, on_step: impl FnMut(&Self) + Send + 'static) {
        *self.hook() = Some(Box::new(on_step));
    }

    /// Steps so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Has the power fail at the so-manieth step from here on: 1 is the next.
    pub fn fail_after(&self, steps: u64) {
        let mut state = self.state();
        state.fails_at = Some(state.steps + steps.max(1));
    }

    /// Has the power not fail any more at a step that was said.
    pub fn disarm(&self) {
        self.state().fails_at = None;
    }

    /// Has every call fail from here on, as when the power failed, until [`FaultyDisk::cut`] or [`FaultyDisk::kill`].
    pub fn turn_off(&self) {
        self.state().is_off = true;
    }

    /// Whether the power failed.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// Cuts the power, if it did not fail before, and gives it back: of what was not synced some is left.
    pub fn cut(&self, cut: Cut) {
        let mut state = self.state();
        let state = &mut *state;
        let below = &mut |bound| state.random.random_range(0..bound);
        let fate = unsynced::Fate::draw(cut, state.steps, below);
        state.names.cut(&fate, below);
        for file in state.files.values_mut() {
            file.cut(&fate, below);
        }
        state.forget_nameless();
        state.process += 1;
        (state.is_off, state.fails_at) = (false, None);
    }

    /// The process that had files open ended: what it wrote is with the system.
    pub fn kill(&self) {
        let mut state = self.state();
        state.process += 1;
        (state.is_off, state.fails_at) = (false, None);
        state.forget_nameless();
    }

    /// Says how much room there is: writes that need some are refused where there is none.
    pub fn set_room(&self, room: Room) {
        self.state().room = room;
    }

    /// Where bytes are found on the disk, durable ones only.
    #[must_use]
    pub fn find(&self, bytes: &[u8]) -> Vec<Position> {
        let state = self.state();
        let found = state.names.durable.iter().flat_map(|(path, id)| {
            let places = state.files.get(id).map(|file| file.find(bytes)).unwrap_or_default();
            places.into_iter().map(move |at| Position { path: self.root.join(path), at })
        });
        found.collect()
    }

    /// Flips a bit of a durable byte, and of what is read of it. Whether there is one.
    pub fn rot(&self, position: &Position) -> bool {
        let mut state = self.state();
        let State { files, names, .. } = &mut *state;
        let id = names.durable.get(&self.key(&position.path));
        id.and_then(|id| files.get_mut(id)).is_some_and(|file| file.rot(position.at))
    }

    /// The durable files whose names end so, each with the end of what was written: behind it there are zeros, if anything.
    #[must_use]
    pub fn durable_files(&self, ending: &str) -> Vec<Position> {
        let state = self.state();
        let fit = state.names.durable.iter().filter(|(path, _)| path.to_string_lossy().ends_with(ending));
        let len = |id: &FileId| state.files.get(id).map_or(0, |file| file.durable.written_len());
        fit.map(|(path, id)| Position { path: self.root.join(path), at: len(id) }).collect()
    }

    fn key(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or(path).to_path_buf()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panics while it holds it ends the run.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hook(&self) -> MutexGuard<'_, Option<OnStep>> {
        self.on_step.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something that changes the disk: `change` gets the number of the step. The power may fail at it.
    fn step<T>(&self, change: impl FnOnce(&mut State, u64) -> io::Result<T>) -> io::Result<T> {
        let done = {
            let mut state = self.state();
            state.check()?;
            state.steps += 1;
            let number = state.steps;
            let done = change(&mut state, number);
            if state.fails_at == Some(number) {
                state.is_off = true;
                return Err(off());
            }
            done
        };
        self.call_hook();
        done
    }

    /// The same for what takes effect as a whole, or not at all: the power fails before it.
    fn whole_step<T>(&self, change: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.step(|_, _| Ok(()))?;
        change(&mut self.state())
    }

    fn call_hook(&self) {
        let hook = self.hook().take();
        let Some(mut hook) = hook.filter(|_| !std::thread::panicking()) else { return };
        hook(self);
        *self.hook() = Some(hook);
    }

    fn handle(&self, id: FileId) -> Arc<dyn DiskFile> {
        let process = self.state().process;
        Arc::new(OpenFile { disk: self.clone(), id, process })
    }
}

impl State {
    fn check(&self) -> io::Result<()> {
        if self.is_off { Err(off()) } else { Ok(()) }
    }

    fn has_room(&self) -> io::Result<()> {
        match self.room {
            Room::Plenty => Ok(()),
            Room::None => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn named(&self, path: &Path) -> io::Result<FileId> {
        self.names.live.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Files that no name leads to and nobody can have open.
    fn forget_nameless(&mut self) {
        let Self { files, names, .. } = self;
        files.retain(|id, _| names.leads_to(*id));
    }
}

fn off() -> io::Error {
    io::Error::other("the power is off")
}

impl std::fmt::Debug for FaultyDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        write!(f, "disk of {} files after {} steps", state.names.live.len(), state.steps)
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let key = self.key(path);
        let id = self.step(|state, step| {
            state.has_room()?;
            let id = FileId(step);
            state.files.insert(id, File::default());
            state.names.change(step, NameChange::Set(key, id));
            Ok(id)
        })?;
        Ok(self.handle(id))
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let id = {
            let state = self.state();
            state.check()?;
            state.named(&self.key(path))?
        };
        Ok(self.handle(id))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let (key, state) = (self.key(directory), self.state());
        state.check()?;
        let inside = state.names.live.keys().filter(|path| path.parent() == Some(&*key));
        Ok(inside.map(|path| self.root.join(path)).collect())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (self.key(from), self.key(to));
        self.step(|state, step| {
            state.named(&from)?;
            state.names.change(step, NameChange::Rename(from, to));
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let key = self.key(path);
        self.step(|state, step| {
            state.named(&key)?;
            state.names.change(step, NameChange::Remove(key));
            Ok(())
        })
    }

    /// Directories are there always.
    fn make_directory(&self, _: &Path) -> io::Result<()> {
        self.state().check()
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        let key = self.key(path);
        self.whole_step(|state| {
            state.names.sync(&key);
            Ok(())
        })
    }

    fn watch_room(&self, _: &Path) -> io::Result<FreeRoom> {
        let disk = self.clone();
        Ok(Box::new(move || {
            let state = disk.state();
            state.check()?;
            Ok(match state.room {
                Room::Plenty => ROOM,
                Room::None => 0,
            })
        }))
    }

    fn draw_salt(&self) -> u64 {
        self.state().random.random()
    }
}

/// A file that a process has open.
#[derive(Debug)]
struct OpenFile {
    disk: FaultyDisk,
    id: FileId,
    process: u64,
}

impl OpenFile {
    fn is_mine(&self, state: &State) -> io::Result<()> {
        if state.process == self.process { Ok(()) } else { Err(off()) }
    }

    fn change(&self, change: impl FnOnce(&mut State) -> io::Result<Change>) -> io::Result<()> {
        self.disk.step(|state, step| {
            self.is_mine(state)?;
            let change = change(state)?;
            let file = state.files.get_mut(&self.id).ok_or_else(off)?;
            file.change(step, change);
            Ok(())
        })
    }
}

impl DiskFile for OpenFile {
    fn read_at(&self, bytes: &mut [u8], at: u64) -> io::Result<usize> {
        let state = self.disk.state();
        state.check()?;
        self.is_mine(&state)?;
        let file = state.files.get(&self.id).ok_or_else(off)?;
        Ok(file.read(bytes, at))
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.change(|state| {
            let len = state.files.get(&self.id).map_or(0, |file| file.live.size);
            if at + bytes.len() as u64 > len {
                state.has_room()?;
            }
            Ok(Change::write(bytes, at))
        })
    }

    fn size(&self) -> io::Result<u64> {
        let state = self.disk.state();
        state.check()?;
        Ok(state.files.get(&self.id).map_or(0, |file| file.live.size))
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.change(|_| Ok(Change::Size(size)))
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.whole_step(|state| {
            self.is_mine(state)?;
            if let Some(file) = state.files.get_mut(&self.id) {
                file.sync();
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests;
