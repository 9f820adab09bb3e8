//! What programs on four clients of one server did and saw is recorded and checked: without locks it is as on one machine
//! ([S-close-open], [S-exclusive], [S-append]), and under locks ([S-locks], [S-lock-order]).
//!
//! `scripts/histories.sh MINUTES SEED near` runs it for longer (`$WAYFS_HISTORIES_SECONDS`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::fs::{FlockOperation, RenameFlags};
use rustix::io::Errno;
use std::fs::{self, FileTimes, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};
use wayfs_system_tests::Site;
use wayfs_system_tests::histories::{
    Counter, CounterInput, Histories, Lock, LockInput, Log, LogInput, Maker, MakerInput, Operation, Register,
    RegisterInput, Token, TokenInput, judge, note, now,
};

/// How long the short run takes.
const SHORT: Duration = Duration::from_secs(10);
/// How long one set of files is in use: short, since each read of a log is all of it.
const ROUND: Duration = Duration::from_secs(2);
/// Longest pause of programs that leave each other time.
const PAUSE: Duration = Duration::from_millis(150);
/// Files of each kind. Few, so that clients meet.
const KEYS: usize = 2;
/// Places of a token.
const PLACES: usize = 3;
/// The clients.
const NAMES: [&str; 4] = ["ann", "bob", "cat", "dan"];

/// All that was recorded in one round.
#[derive(Default)]
struct Recorded {
    registers: Histories<RegisterInput, u64>,
    counters: Histories<CounterInput, u64>,
    logs: Histories<LogInput, Vec<u64>>,
    makers: Histories<MakerInput, bool>,
    tokens: Histories<TokenInput, bool>,
    locks: Histories<LockInput, ()>,
}

/// A program on one client, in one round.
struct Program<'a> {
    client: usize,
    root: PathBuf,
    recorded: &'a Recorded,
    random: StdRng,
    /// Numbers given so far, none twice among all clients.
    numbers: u64,
    /// Longest pause after each thing done: long enough for one to have a directory alone meanwhile, or none.
    pause: Duration,
}

impl Program<'_> {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers * 16 + self.client as u64 + 1
    }

    fn run_until(&mut self, end: Instant) {
        while Instant::now() < end {
            let key = self.random.random_range(0..KEYS);
            match self.random.random_range(0..10) {
                0 => self.replace(key),
                1 => self.overwrite(key),
                2 => self.stamp(key),
                3 => self.read(key),
                4 | 5 => self.look(key),
                6 => self.count(key),
                7 => self.log(key),
                8 => self.make(key),
                _ => self.pass_on(key),
            }
            std::thread::sleep(self.pause.mul_f64(self.random.random()));
        }
    }

    /// Saves a file as editors do, under a lock or not: its name leads to the old or to the new one.
    fn replace(&mut self, key: usize) {
        let (value, fresh) = (self.number(), self.root.join(format!("fresh-{}", self.client)));
        fs::write(&fresh, value.to_string()).unwrap();
        set_time(&fresh, value);
        let asked = now();
        fs::rename(&fresh, self.root.join(format!("register-{key}"))).unwrap();
        let wrote = Operation::answered(self.client, (asked, now()), RegisterInput::Write(value), value);
        note(&self.recorded.registers, key, wrote);
    }

    /// Writes into a file that stays the same one: what an open for reading sees is what was closed before.
    fn overwrite(&mut self, key: usize) {
        let value = self.number();
        let asked = now();
        let mut file = self.open(&format!("plain-{key}"));
        rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
        file.write_all(format!("{value:>20}").as_bytes()).unwrap();
        drop(file);
        let wrote = Operation::answered(self.client, (asked, now()), RegisterInput::Write(value), value);
        note(&self.recorded.registers, KEYS + key, wrote);
    }

    /// Reads a file without a lock.
    fn read(&mut self, key: usize) {
        let (name, of) = if self.random.random_bool(0.5) { ("register", key) } else { ("plain", KEYS + key) };
        let asked = now();
        let text = fs::read_to_string(self.root.join(format!("{name}-{key}"))).unwrap();
        let value = text.trim().parse().unwrap_or_else(|_| panic!("client {}: {name}-{key} is {text:?}", self.client));
        let read = Operation::answered(self.client, (asked, now()), RegisterInput::Read, value);
        note(&self.recorded.registers, of, read);
    }

    /// Changes an attribute of a file: its time is the number.
    fn stamp(&mut self, key: usize) {
        let value = self.number();
        let asked = now();
        set_time(&self.root.join(format!("stamped-{key}")), value);
        let wrote = Operation::answered(self.client, (asked, now()), RegisterInput::Write(value), value);
        note(&self.recorded.registers, 2 * KEYS + key, wrote);
    }

    /// Asks for the attributes of a file that is stamped or replaced, and opens nothing: a kernel may answer from what it keeps.
    fn look(&mut self, key: usize) {
        let (name, of) = if self.random.random_bool(0.5) { ("register", key) } else { ("stamped", 2 * KEYS + key) };
        let asked = now();
        let found = fs::metadata(self.root.join(format!("{name}-{key}"))).unwrap().modified().unwrap();
        let value = found.duration_since(UNIX_EPOCH).unwrap().as_secs();
        let read = Operation::answered(self.client, (asked, now()), RegisterInput::Read, value);
        note(&self.recorded.registers, of, read);
    }

    fn open(&self, name: &str) -> fs::File {
        OpenOptions::new().read(true).write(true).open(self.root.join(name)).unwrap()
    }

    /// Adds one under a lock, and lets go of it by closing the file.
    fn count(&mut self, key: usize) {
        let asked = now();
        let mut file = self.open(&format!("counter-{key}"));
        let waits = now();
        rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
        let taken = Operation::answered(self.client, (waits, now()), LockInput::Take(self.client), ());
        note(&self.recorded.locks, key, taken);
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        let next = text.trim().parse::<u64>().unwrap() + 1;
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(format!("{next:>20}").as_bytes()).unwrap();
        let leaves = now();
        drop(file);
        let told = now();
        note(
            &self.recorded.locks,
            key,
            Operation::answered(self.client, (leaves, told), LockInput::Leave(self.client), ()),
        );
        note(&self.recorded.counters, key, Operation::answered(self.client, (asked, told), CounterInput::Add, next));
    }

    /// Appends a line, or reads all of them.
    fn log(&mut self, key: usize) {
        let path = self.root.join(format!("log-{key}"));
        let is_append = self.random.random_bool(0.7);
        let line = self.number();
        let asked = now();
        let (input, lines) = if is_append {
            let mut file = OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(format!("{line}\n").as_bytes()).unwrap();
            drop(file);
            (LogInput::Append(line), Vec::new())
        } else {
            let text = fs::read_to_string(&path).unwrap();
            (LogInput::Read, text.lines().map(|line| line.parse().unwrap()).collect())
        };
        note(&self.recorded.logs, key, Operation::answered(self.client, (asked, now()), input, lines));
    }

    /// Makes a name that nobody may have, or removes it.
    fn make(&mut self, key: usize) {
        let path = self.root.join(format!("made-{key}"));
        let way = self.random.random_range(0..4);
        let asked = now();
        let (input, outcome) = match way {
            0 => (MakerInput::Make, OpenOptions::new().write(true).create_new(true).open(&path).map(drop)),
            1 => (MakerInput::Make, fs::hard_link(self.root.join("counter-0"), &path)),
            _ => (MakerInput::Remove, fs::remove_file(&path)),
        };
        let there = [io::ErrorKind::AlreadyExists, io::ErrorKind::NotFound];
        let is_done = told(outcome, there[usize::from(input == MakerInput::Remove)]);
        note(&self.recorded.makers, key, Operation::answered(self.client, (asked, now()), input, is_done));
    }

    /// Renames a file from one place to another, or looks where it is.
    fn pass_on(&mut self, key: usize) {
        let [from, to] = [0, 1].map(|_| self.random.random_range(0..PLACES));
        let path = |place: usize| self.root.join(format!("place-{place}/token-{key}"));
        let asked = now();
        let cwd = rustix::fs::CWD;
        let is_there = if from == to {
            told(fs::metadata(path(from)).map(drop), io::ErrorKind::NotFound)
        } else {
            match rustix::fs::renameat_with(cwd, path(from), cwd, path(to), RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => return self.saw_both(key, [from, to], asked),
                moved => told(moved.map_err(io::Error::from), io::ErrorKind::NotFound),
            }
        };
        self.note_token(key, TokenInput { from, to }, (asked, now()), is_there);
    }

    /// The kernel refuses by itself what it finds at both names. It looks at one after the other, and nobody holds still what another
    /// machine moves between: so it saw the file at each of them at some moment, and not at one and the same.
    fn saw_both(&self, key: usize, places: [usize; 2], asked: u64) {
        let span = (asked, now());
        for place in places {
            self.note_token(key, TokenInput { from: place, to: place }, span, true);
        }
    }

    fn note_token(&self, key: usize, input: TokenInput, span: (u64, u64), is_there: bool) {
        note(&self.recorded.tokens, key, Operation::answered(self.client, span, input, is_there));
    }
}

fn set_time(path: &Path, value: u64) {
    let time = UNIX_EPOCH + Duration::from_secs(value);
    fs::File::open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

/// Whether it was done; `false` for a refusal of that kind.
fn told(outcome: io::Result<()>, refusal: io::ErrorKind) -> bool {
    match outcome {
        Ok(()) => true,
        Err(error) if error.kind() == refusal => false,
        Err(error) => panic!("{error}"),
    }
}

fn prepare(root: &Path) {
    fs::create_dir(root).unwrap();
    for place in 0..PLACES {
        fs::create_dir(root.join(format!("place-{place}"))).unwrap();
    }
    for key in 0..KEYS {
        for name in ["register", "plain", "stamped", "counter"] {
            let path = root.join(format!("{name}-{key}"));
            fs::write(&path, format!("{:>20}", 0)).unwrap();
            set_time(&path, 0);
        }
        fs::write(root.join(format!("log-{key}")), "").unwrap();
        fs::write(root.join(format!("place-0/token-{key}")), "").unwrap();
    }
}

/// One set of files, used by all clients at once. Answers how often each thing was done.
fn round(site: &Site, random: &mut StdRng, number: usize) -> [usize; 6] {
    let name = format!("round-{number}");
    prepare(&site.root(number % NAMES.len()).join(&name));
    let (recorded, end) = (Recorded::default(), Instant::now() + ROUND);
    std::thread::scope(|scope| {
        // In turns: all at once, and two who leave each other time.
        let (clients, pause) = if number.is_multiple_of(2) { (NAMES.len(), Duration::ZERO) } else { (2, PAUSE) };
        for client in 0..clients {
            let (root, random) = (site.root(client).join(&name), StdRng::seed_from_u64(random.random()));
            let mut program = Program { client, root, recorded: &recorded, random, numbers: 0, pause };
            scope.spawn(move || program.run_until(end));
        }
    });
    let counts = [
        judge::<Register>("register", &recorded.registers),
        judge::<Counter>("counter", &recorded.counters),
        judge::<Log>("log", &recorded.logs),
        judge::<Maker>("name", &recorded.makers),
        judge::<Token>("token", &recorded.tokens),
        judge::<Lock>("lock", &recorded.locks),
    ];
    fs::remove_dir_all(site.root(0).join(&name)).unwrap();
    counts
}

/// Proves [S-close-open], [S-exclusive], [S-append], [S-locks].
#[test]
fn what_programs_at_one_station_see_has_an_order() {
    let seconds = std::env::var("WAYFS_HISTORIES_SECONDS").ok().and_then(|text| text.parse().ok());
    let seed = std::env::var("WAYFS_HISTORIES_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let end = Instant::now() + seconds.map_or(SHORT, Duration::from_secs);
    let (site, mut random) = (Site::of(&NAMES), StdRng::seed_from_u64(seed));
    let (mut counts, mut number) = ([0; 6], 0);
    while Instant::now() < end {
        for (count, more) in counts.iter_mut().zip(round(&site, &mut random, number)) {
            *count += more;
        }
        number += 1;
    }
    println!("{counts:?} operations of registers, counters, logs, names, tokens, locks in {number} rounds");
    assert!(counts.iter().all(|count| *count > 0), "something never happened: {counts:?}");
    let litter: Vec<_> = fs::read_dir(site.root(1)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(litter.is_empty(), "conflict copies: {litter:?}");
}
