//! Programs on clients of one server, and what is recorded of what they do and see.
//!
//! Where nobody is killed, each thing must succeed, and counts when its call returned. Where daemons are, a program syncs what it
//! did before that counts, and what fails after it began may have been done or not.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use super::models::{CounterInput, LockInput, LogInput, MakerInput, RegisterInput, TokenInput};
use super::operation::Operation;
use super::recording::{Histories, note, now};
use rand::Rng;
use rand::rngs::StdRng;
use rustix::fs::{FlockOperation, RenameFlags};
use rustix::io::Errno;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// Files of each kind. Few, so that clients meet.
pub const KEYS: usize = 2;
/// Places of a token.
pub const PLACES: usize = 3;
/// Pause of a program whose mount is gone, or was a moment ago.
const DEAD_PAUSE: Duration = Duration::from_millis(20);

/// All that was recorded in one round. Of the registers the first [`KEYS`] are replaced by renames, the next written in place, and
/// the last are times of modification.
#[derive(Debug, Default)]
pub struct Recorded {
    /// Files that hold a number, and times that are one.
    pub registers: Histories<RegisterInput, u64>,
    /// Numbers that are counted up under a lock.
    pub counters: Histories<CounterInput, u64>,
    /// Files that are appended to.
    pub logs: Histories<LogInput, Vec<u64>>,
    /// Names that are made and removed.
    pub makers: Histories<MakerInput, bool>,
    /// Files that are renamed from place to place.
    pub tokens: Histories<TokenInput, bool>,
    /// The locks of the counters.
    pub locks: Histories<LockInput, ()>,
}

/// When something counts as done, and what an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// When its call returned; none may fail.
    Closed,
    /// When it is synced. Daemons are killed: what fails is not known.
    Synced,
}

/// A program on one client, in one round.
#[derive(Debug)]
pub struct Program<'a> {
    /// Which client.
    pub client: usize,
    /// Where it works.
    pub root: PathBuf,
    /// What is recorded.
    pub recorded: &'a Recorded,
    /// What it does next.
    pub random: StdRng,
    /// Numbers given so far, none twice among all clients.
    pub numbers: u64,
    /// Longest pause after each thing done: long enough for one to have a directory alone meanwhile, or none.
    pub pause: Duration,
    /// What counts.
    pub care: Care,
    /// Odd while the daemon of its client is killed and started again: what is below the mount point then is no part of the volume.
    pub life: &'a AtomicU64,
}

impl Program<'_> {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers * 16 + self.client as u64 + 1
    }

    /// Works as long as it is told to go on.
    ///
    /// # Panics
    /// If something fails that may not.
    pub fn run_while(&mut self, goes_on: impl Fn() -> bool) {
        while goes_on() {
            let life = self.life.load(Ordering::SeqCst);
            if !life.is_multiple_of(2) {
                std::thread::sleep(DEAD_PAUSE);
                continue;
            }
            match (self.step(life), self.care) {
                (Ok(()), _) => std::thread::sleep(self.pause.mul_f64(self.random.random())),
                (Err(_), Care::Synced) => std::thread::sleep(DEAD_PAUSE),
                (Err(error), Care::Closed) => panic!("client {}: {error}", self.client),
            }
        }
    }

    fn step(&mut self, life: u64) -> io::Result<()> {
        let key = self.random.random_range(0..KEYS);
        match self.random.random_range(0..10) {
            0 => self.replace(key),
            1 => self.overwrite(key),
            2 => self.stamp(key),
            3 => self.read(key),
            4 | 5 => self.look(key),
            6 => self.count(key),
            7 => self.log(key),
            8 => self.make(key, life),
            _ => self.pass_on(key, life),
        }
    }

    /// Whether an answer came from the mount that was there before: a bare mount point has no names either.
    fn is_same_life(&self, life: u64) -> bool {
        self.life.load(Ordering::SeqCst) == life
    }

    fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.root.join(name))
    }

    fn synced(&self, file: &File) -> io::Result<()> {
        if self.care == Care::Synced { file.sync_all() } else { Ok(()) }
    }

    fn synced_directory(&self, name: &str) -> io::Result<()> {
        if self.care == Care::Synced { File::open(self.root.join(name))?.sync_all() } else { Ok(()) }
    }

    /// Notes a change: one that failed may have been done or not.
    fn changed<I, O>(
        &self,
        (all, key): (&Histories<I, O>, usize),
        asked: u64,
        input: I,
        outcome: io::Result<O>,
    ) -> io::Result<()> {
        let (operation, outcome) = match outcome {
            Ok(output) => (Operation::answered(self.client, (asked, now()), input, output), Ok(())),
            Err(error) => (Operation::unknown(self.client, asked, input), Err(error)),
        };
        note(all, key, operation);
        outcome
    }

    /// Saves a file as editors do, under a lock or not: its name leads to the old or to the new one.
    fn replace(&mut self, key: usize) -> io::Result<()> {
        let (value, fresh) = (self.number(), self.root.join(format!("fresh-{}", self.client)));
        fs::write(&fresh, value.to_string())?;
        self.set_time(&fresh, value)?;
        let asked = now();
        let renamed = fs::rename(&fresh, self.root.join(format!("register-{key}")));
        let outcome = renamed.and_then(|()| self.synced_directory(""));
        let register = (&self.recorded.registers, key);
        self.changed(register, asked, RegisterInput::Write(value), outcome.map(|()| value))
    }

    /// Writes into a file that stays the same one: what an open for reading sees is what was closed before.
    fn overwrite(&mut self, key: usize) -> io::Result<()> {
        let value = self.number();
        let asked = now();
        let mut file = self.open(&format!("plain-{key}"))?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        let outcome = file.write_all(format!("{value:>20}").as_bytes()).and_then(|()| self.synced(&file));
        drop(file);
        let register = (&self.recorded.registers, KEYS + key);
        self.changed(register, asked, RegisterInput::Write(value), outcome.map(|()| value))
    }

    /// Reads a file without a lock.
    fn read(&mut self, key: usize) -> io::Result<()> {
        let (name, of) = if self.random.random_bool(0.5) { ("register", key) } else { ("plain", KEYS + key) };
        let asked = now();
        let text = fs::read_to_string(self.root.join(format!("{name}-{key}")))?;
        let value = text.trim().parse().unwrap_or_else(|_| panic!("client {}: {name}-{key} is {text:?}", self.client));
        let read = Operation::answered(self.client, (asked, now()), RegisterInput::Read, value);
        note(&self.recorded.registers, of, read);
        Ok(())
    }

    /// Changes an attribute of a file: its time is the number.
    fn stamp(&mut self, key: usize) -> io::Result<()> {
        let value = self.number();
        let asked = now();
        let outcome = self.set_time(&self.root.join(format!("stamped-{key}")), value);
        let register = (&self.recorded.registers, 2 * KEYS + key);
        self.changed(register, asked, RegisterInput::Write(value), outcome.map(|()| value))
    }

    fn set_time(&self, path: &Path, value: u64) -> io::Result<()> {
        let file = File::open(path)?;
        file.set_times(FileTimes::new().set_modified(UNIX_EPOCH + Duration::from_secs(value)))?;
        self.synced(&file)
    }

    /// Asks for the attributes of a file that is stamped or replaced, and opens nothing: a kernel may answer from what it keeps.
    fn look(&mut self, key: usize) -> io::Result<()> {
        let (name, of) = if self.random.random_bool(0.5) { ("register", key) } else { ("stamped", 2 * KEYS + key) };
        let asked = now();
        let found = fs::metadata(self.root.join(format!("{name}-{key}")))?.modified()?;
        let value = found.duration_since(UNIX_EPOCH).unwrap().as_secs();
        let read = Operation::answered(self.client, (asked, now()), RegisterInput::Read, value);
        note(&self.recorded.registers, of, read);
        Ok(())
    }

    /// Adds one under a lock, and lets go of it by closing the file.
    fn count(&mut self, key: usize) -> io::Result<()> {
        let asked = now();
        let mut file = self.open(&format!("counter-{key}"))?;
        let waits = now();
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        let taken = Operation::answered(self.client, (waits, now()), LockInput::Take(self.client), ());
        note(&self.recorded.locks, key, taken);
        let next = read_number(&mut file).map(|number| number + 1);
        let wrote = next.as_ref().ok().map(|next| write_number(&mut file, *next).and_then(|()| self.synced(&file)));
        let leaves = now();
        // A close tells nobody whether the lock was there until then.
        let left = match self.care {
            Care::Closed => Ok(()),
            Care::Synced => rustix::fs::flock(&file, FlockOperation::Unlock),
        };
        drop(file);
        if left.is_ok() {
            let left = Operation::answered(self.client, (leaves, now()), LockInput::Leave(self.client), ());
            note(&self.recorded.locks, key, left);
        }
        let next = next?;
        let outcome = wrote.expect("written if it was read").map(|()| next);
        self.changed((&self.recorded.counters, key), asked, CounterInput::Add, outcome)
    }

    /// Appends a line, or reads all of them.
    fn log(&mut self, key: usize) -> io::Result<()> {
        let path = self.root.join(format!("log-{key}"));
        let is_append = self.random.random_bool(0.7);
        let line = self.number();
        let asked = now();
        if is_append {
            let mut file = OpenOptions::new().append(true).open(&path)?;
            let outcome = file.write_all(format!("{line}\n").as_bytes()).and_then(|()| self.synced(&file));
            drop(file);
            let log = (&self.recorded.logs, key);
            return self.changed(log, asked, LogInput::Append(line), outcome.map(|()| Vec::new()));
        }
        let lines = lines_of(&path)?;
        note(&self.recorded.logs, key, Operation::answered(self.client, (asked, now()), LogInput::Read, lines));
        Ok(())
    }

    /// Makes a name that nobody may have, or removes it.
    fn make(&mut self, key: usize, life: u64) -> io::Result<()> {
        let path = self.root.join(format!("made-{key}"));
        let way = self.random.random_range(0..4);
        let asked = now();
        let (input, outcome) = match way {
            0 => (MakerInput::Make, OpenOptions::new().write(true).create_new(true).open(&path).map(drop)),
            1 => (MakerInput::Make, fs::hard_link(self.root.join("counter-0"), &path)),
            _ => (MakerInput::Remove, fs::remove_file(&path)),
        };
        let there = [io::ErrorKind::AlreadyExists, io::ErrorKind::NotFound];
        let mut outcome = told(outcome, there[usize::from(input == MakerInput::Remove)]);
        match outcome {
            Ok(true) => outcome = self.synced_directory("").map(|()| true),
            Ok(false) if !self.is_same_life(life) => return Ok(()),
            Ok(false) | Err(_) => {}
        }
        self.changed((&self.recorded.makers, key), asked, input, outcome)
    }

    /// Renames a file from one place to another, or looks where it is.
    fn pass_on(&mut self, key: usize, life: u64) -> io::Result<()> {
        let [from, to] = [0, 1].map(|_| self.random.random_range(0..PLACES));
        let path = |place: usize| self.root.join(format!("place-{place}/token-{key}"));
        let asked = now();
        if from == to {
            let is_there = told(fs::metadata(path(from)).map(drop), io::ErrorKind::NotFound)?;
            if is_there || self.is_same_life(life) {
                self.saw_token(key, (from, is_there), (asked, now()));
            }
            return Ok(());
        }
        let cwd = rustix::fs::CWD;
        let moved = rustix::fs::renameat_with(cwd, path(from), cwd, path(to), RenameFlags::NOREPLACE);
        if moved == Err(Errno::EXIST) {
            // The kernel refuses by itself what it finds at both names. It looks at one after the other, and nobody holds still what
            // another machine moves between: so it saw the file at each of them at some moment, and not at one and the same.
            let span = (asked, now());
            self.saw_token(key, (from, true), span);
            self.saw_token(key, (to, true), span);
            return Ok(());
        }
        let mut outcome = told(moved.map_err(io::Error::from), io::ErrorKind::NotFound);
        match outcome {
            Ok(true) => {
                let synced = |place: usize| self.synced_directory(&format!("place-{place}"));
                outcome = synced(from).and_then(|()| synced(to)).map(|()| true);
            }
            Ok(false) if !self.is_same_life(life) => return Ok(()),
            Ok(false) | Err(_) => {}
        }
        self.changed((&self.recorded.tokens, key), asked, TokenInput { from, to }, outcome)
    }

    fn saw_token(&self, key: usize, (place, is_there): (usize, bool), span: (u64, u64)) {
        let look = TokenInput { from: place, to: place };
        note(&self.recorded.tokens, key, Operation::answered(self.client, span, look, is_there));
    }
}

/// Whether it was done; `false` for a refusal of that kind.
fn told(outcome: io::Result<()>, refusal: io::ErrorKind) -> io::Result<bool> {
    match outcome {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == refusal => Ok(false),
        Err(error) => Err(error),
    }
}

fn read_number(file: &mut File) -> io::Result<u64> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text.trim().parse().unwrap_or_else(|_| panic!("a counter is {text:?}")))
}

fn write_number(file: &mut File, number: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(format!("{number:>20}").as_bytes())
}

/// The numbers in a log.
///
/// # Errors
/// If it cannot be read.
///
/// # Panics
/// If something else is in it.
pub fn lines_of(path: &Path) -> io::Result<Vec<u64>> {
    let text = fs::read_to_string(path)?;
    Ok(text.lines().map(|line| line.parse().unwrap_or_else(|_| panic!("a log is {text:?}"))).collect())
}

/// Makes the files of a round.
///
/// # Panics
/// If that fails.
pub fn prepare(root: &Path) {
    fs::create_dir(root).unwrap();
    for place in 0..PLACES {
        fs::create_dir(root.join(format!("place-{place}"))).unwrap();
    }
    for key in 0..KEYS {
        for name in ["register", "plain", "stamped", "counter"] {
            let path = root.join(format!("{name}-{key}"));
            fs::write(&path, format!("{:>20}", 0)).unwrap();
            File::open(&path).unwrap().set_times(FileTimes::new().set_modified(UNIX_EPOCH)).unwrap();
        }
        fs::write(root.join(format!("log-{key}")), "").unwrap();
        fs::write(root.join(format!("place-0/token-{key}")), "").unwrap();
    }
}
