//! What programs at two stations did and saw is recorded and checked: in an exclusive directory it is as on one machine, beside
//! it each client sees what it wrote and nothing undone.
//!
//! `scripts/histories.sh MINUTES` runs it for longer (`$WAYFS_HISTORIES_SECONDS`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use rustix::fs::FlockOperation;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use wayfs_system_tests::histories::{
    Counter, CounterInput, Histories, Lock, LockInput, Log, LogInput, Maker, MakerInput, Operation, Register,
    RegisterInput, Seen, check_sessions, judge, note, now,
};
use wayfs_system_tests::{Site, eventually, own_descriptors};

/// How long the short run takes.
const SHORT: Duration = Duration::from_secs(20);
/// Longest time for a client to come back.
const BACK: Duration = Duration::from_secs(60);
/// Pause of a program whose mount is gone.
const DEAD_PAUSE: Duration = Duration::from_millis(20);
/// Files of each kind. Few, so that clients meet.
const KEYS: usize = 2;

/// All that was recorded.
#[derive(Default)]
struct Recorded {
    registers: Histories<RegisterInput, u64>,
    counters: Histories<CounterInput, u64>,
    logs: Histories<LogInput, Vec<u64>>,
    makers: Histories<MakerInput, bool>,
    locks: Mutex<BTreeMap<usize, Vec<Hold>>>,
    /// By client and life of its daemon: what a killed one had and nobody was promised may be gone. While a life is odd the daemon
    /// is killed and started again.
    sessions: Mutex<BTreeMap<(usize, u64), Vec<Seen>>>,
    lives: [AtomicU64; 2],
    written: Mutex<BTreeMap<usize, u64>>,
}

/// A lock from the question for it to the answer that it was let go.
#[derive(Debug, Clone, Copy)]
struct Hold {
    client: usize,
    taken: (u64, u64),
    left: (u64, u64),
}

/// What a question came to: an answer, a refusal before anything was done, or nothing for certain.
enum Came<T> {
    To(T),
    Nothing,
    Unknown,
}

/// A program on one client.
struct Program<'a> {
    client: usize,
    root: PathBuf,
    beside: PathBuf,
    recorded: &'a Recorded,
    random: StdRng,
    /// Numbers given so far, none twice among all clients.
    numbers: u64,
}

impl Program<'_> {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers * 16 + self.client as u64 + 1
    }

    fn run_until(&mut self, end: Instant) {
        while Instant::now() < end {
            let key = self.random.random_range(0..KEYS);
            if !self.beside.is_dir() {
                // Its daemon was killed: what is below the mount point is no part of the volume.
                std::thread::sleep(DEAD_PAUSE);
                continue;
            }
            match self.random.random_range(0..7) {
                0 => self.write_register(key),
                1 => self.read_register(key),
                2 => self.count(key),
                3 => self.append(key),
                4 => self.read_log(key),
                5 => self.make(key),
                _ => self.session(),
            }
        }
    }

    /// Opens and locks a file.
    fn locked(&self, name: &str, key: usize) -> io::Result<(File, (u64, u64))> {
        let file = OpenOptions::new().read(true).write(true).open(self.root.join(format!("{name}-{key}")))?;
        let asked = now();
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        Ok((file, (asked, now())))
    }

    /// Lets go, and notes from when to when it had the lock: not of one that was lost, which it is told now.
    fn unlock(&self, file: &File, taken: (u64, u64), number: usize) -> io::Result<()> {
        let asked = now();
        rustix::fs::flock(file, FlockOperation::Unlock)?;
        let hold = Hold { client: self.client, taken, left: (asked, now()) };
        self.recorded.locks.lock().unwrap().entry(number).or_default().push(hold);
        Ok(())
    }

    /// Does something with a file under its lock. What fails before `wrote` is set was not done.
    fn under_lock<T>(
        &self,
        name: &str,
        key: usize,
        mut work: impl FnMut(&mut File, &mut bool) -> io::Result<T>,
    ) -> Came<T> {
        let Ok((mut file, taken)) = self.locked(name, key) else { return Came::Nothing };
        let mut wrote = false;
        let mut outcome = work(&mut file, &mut wrote);
        if wrote && outcome.is_ok() {
            outcome = outcome.and_then(|done| file.sync_all().map(|()| done));
        }
        let left = self.unlock(&file, taken, lock_number(name, key));
        match (outcome, left) {
            (Ok(done), Ok(())) => Came::To(done),
            _ if wrote => Came::Unknown,
            _ => Came::Nothing,
        }
    }

    fn write_register(&mut self, key: usize) {
        let (value, asked) = (self.number(), now());
        let came = self.under_lock("register", key, |file, wrote| {
            *wrote = true;
            write_number(file, value)
        });
        let input = RegisterInput::Write(value);
        match came {
            Came::To(()) => {
                note(&self.recorded.registers, key, Operation::answered(self.client, (asked, now()), input, value))
            }
            Came::Unknown => note(&self.recorded.registers, key, Operation::unknown(self.client, asked, input)),
            Came::Nothing => {}
        }
    }

    fn read_register(&mut self, key: usize) {
        let asked = now();
        if let Came::To(value) = self.under_lock("register", key, |file, _| read_number(file)) {
            let read = Operation::answered(self.client, (asked, now()), RegisterInput::Read, value);
            note(&self.recorded.registers, key, read);
        }
    }

    fn count(&mut self, key: usize) {
        let asked = now();
        let came = self.under_lock("counter", key, |file, wrote| {
            let next = read_number(file)? + 1;
            *wrote = true;
            write_number(file, next).map(|()| next)
        });
        match came {
            Came::To(value) => {
                let added = Operation::answered(self.client, (asked, now()), CounterInput::Add, value);
                note(&self.recorded.counters, key, added);
            }
            Came::Unknown => {
                note(&self.recorded.counters, key, Operation::unknown(self.client, asked, CounterInput::Add))
            }
            Came::Nothing => {}
        }
    }

    fn append(&mut self, key: usize) {
        let (line, asked) = (self.number(), now());
        let path = self.root.join(format!("log-{key}"));
        let Ok(file) = OpenOptions::new().append(true).open(path) else { return };
        let outcome = (&file).write_all(format!("{line}\n").as_bytes()).and_then(|()| file.sync_all());
        let input = LogInput::Append(line);
        match outcome {
            Ok(()) => {
                note(&self.recorded.logs, key, Operation::answered(self.client, (asked, now()), input, Vec::new()))
            }
            Err(_) => note(&self.recorded.logs, key, Operation::unknown(self.client, asked, input)),
        }
    }

    fn read_log(&mut self, key: usize) {
        let asked = now();
        if let Came::To(lines) = self.under_lock("log", key, |file, _| read_lines(file)) {
            note(&self.recorded.logs, key, Operation::answered(self.client, (asked, now()), LogInput::Read, lines));
        }
    }

    fn make(&mut self, key: usize) {
        let (path, asked) = (self.root.join(format!("made-{key}")), now());
        let is_made = self.random.random_bool(0.5);
        let (input, outcome, there) = if is_made {
            let made = OpenOptions::new().write(true).create_new(true).open(&path).map(drop);
            (MakerInput::Make, made, io::ErrorKind::AlreadyExists)
        } else {
            (MakerInput::Remove, fs::remove_file(&path), io::ErrorKind::NotFound)
        };
        match outcome {
            Ok(()) => note(&self.recorded.makers, key, Operation::answered(self.client, (asked, now()), input, true)),
            // What a look said before it was asked, the home was not asked for: a look may be late.
            Err(error) if error.kind() == there => {}
            Err(_) => note(&self.recorded.makers, key, Operation::unknown(self.client, asked, input)),
        }
    }

    /// Beside the exclusive directory: writes its own file, or reads one of all.
    fn session(&mut self) {
        let life = self.recorded.lives[self.client].load(Ordering::SeqCst);
        let seen = if self.random.random_bool(0.5) {
            let number = self.recorded.written.lock().unwrap().get(&self.client).copied().unwrap_or(0) + 1;
            self.recorded.written.lock().unwrap().insert(self.client, number);
            let path = self.beside.join(format!("own-{}", self.client));
            let fresh = self.beside.join(format!("fresh-{}", self.client));
            let wrote = fs::write(&fresh, number.to_string()).and_then(|()| fs::rename(&fresh, &path));
            wrote.ok().map(|()| Seen::Wrote { key: self.client, number })
        } else {
            let key = self.random.random_range(0..2);
            let text = fs::read_to_string(self.beside.join(format!("own-{key}")));
            let number = text.ok().and_then(|text| text.parse().ok());
            number.map(|number| Seen::Read { key, number })
        };
        self.recorded.sessions.lock().unwrap().entry((self.client, life)).or_default().extend(seen);
    }
}

fn lock_number(name: &str, key: usize) -> usize {
    let kind = ["register", "counter", "log"].iter().position(|kind| *kind == name).unwrap();
    kind * KEYS + key
}

fn read_number(file: &mut File) -> io::Result<u64> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_string(&mut text)?;
    text.trim().parse().map_err(io::Error::other)
}

fn write_number(file: &mut File, number: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(0))?;
    file.write_all(format!("{number:>12}\n").as_bytes())
}

fn read_lines(file: &mut File) -> io::Result<Vec<u64>> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_string(&mut text)?;
    text.lines().map(|line| line.parse().map_err(io::Error::other)).collect()
}

/// Who had which lock from when to when: of those that were lost their holders were told.
fn locks(recorded: &Recorded) -> Histories<LockInput, ()> {
    let locks = Histories::default();
    for (number, holds) in recorded.locks.lock().unwrap().iter() {
        let mut holds = holds.clone();
        holds.sort_by_key(|hold| hold.taken.1);
        for pair in holds.windows(2).filter(|pair| pair[1].taken.1 < pair[0].left.0) {
            println!("lock {number} was held twice: {pair:?}");
        }
        for Hold { client, taken, left } in holds {
            note(&locks, *number, Operation::answered(client, taken, LockInput::Take(client), ()));
            note(&locks, *number, Operation::answered(client, left, LockInput::Leave(client), ()));
        }
    }
    locks
}

/// What goes wrong meanwhile: a client is without its station for some seconds, is killed or moves to the other station, or a
/// station is killed.
fn disturb(site: &mut Site, random: &mut StdRng, recorded: &Recorded) {
    let (begin, since) = (Instant::now(), now());
    let (which, what) = (random.random_range(0..2), random.random_range(0..4));
    match what {
        0 => {
            let (machine, mount) = &site.clients[which];
            mount.wayfs(machine, &["offline"]);
            std::thread::sleep(Duration::from_millis(random.random_range(200..3000)));
            eventually("the client is back", BACK, || mount.wayfs(machine, &["online"]).status.success());
        }
        1 => {
            recorded.lives[which].fetch_add(1, Ordering::SeqCst);
            site.kill_client(which);
            recorded.lives[which].fetch_add(1, Ordering::SeqCst);
        }
        2 => site.kill_station(which, Duration::from_millis(random.random_range(200..3000))),
        _ => site.move_client(which),
    }
    let away = begin.elapsed();
    let what = ["offline", "client killed", "station killed", "moved"][what];
    println!("{what}, {which}: {} ms, from {since} to {}", away.as_millis(), now());
    std::thread::sleep(Duration::from_millis(random.random_range(2000..5000)));
}

fn prepare(root: &Path) {
    for key in 0..KEYS {
        for name in ["register", "counter"] {
            fs::write(root.join(format!("{name}-{key}")), format!("{:>12}\n", 0)).unwrap();
        }
        fs::write(root.join(format!("log-{key}")), "").unwrap();
    }
}

/// Proves [S-exclusive-mode], and that no client sees undone what it saw, over spells without its station, kills of daemons
/// and stations, and moves between stations.
#[test]
fn what_programs_at_two_stations_see_has_an_order() {
    let seconds = std::env::var("WAYFS_HISTORIES_SECONDS").ok().and_then(|text| text.parse().ok());
    let length = seconds.map_or(SHORT, Duration::from_secs);
    let seed = std::env::var("WAYFS_HISTORIES_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut site = Site::apart();
    prepare(&site.root(0));
    fs::create_dir(site.clients[0].1.path("beside")).unwrap();
    let there = site.root(1).join(format!("log-{}", KEYS - 1));
    let beside = site.clients[1].1.path("beside");
    eventually("the other sees the files", BACK, || there.exists() && beside.is_dir());
    let (recorded, end) = (Recorded::default(), Instant::now() + length);
    std::thread::scope(|scope| {
        for client in 0..2 {
            let mut program = Program {
                client,
                root: site.root(client),
                beside: site.clients[client].1.path("beside"),
                recorded: &recorded,
                random: StdRng::seed_from_u64(seed * 2 + client as u64),
                numbers: 0,
            };
            scope.spawn(move || {
                // The commands of `disturb` do not wait for what programs do.
                own_descriptors();
                program.run_until(end);
            });
        }
        let mut random = StdRng::seed_from_u64(seed);
        while Instant::now() + Duration::from_secs(8) < end {
            disturb(&mut site, &mut random, &recorded);
        }
    });
    let counts = [
        judge::<Register>("register", &recorded.registers),
        judge::<Counter>("counter", &recorded.counters),
        judge::<Log>("log", &recorded.logs),
        judge::<Maker>("name", &recorded.makers),
        judge::<Lock>("lock", &locks(&recorded)),
    ];
    let written = recorded.written.lock().unwrap().clone();
    for ((client, _), session) in recorded.sessions.lock().unwrap().iter().filter(|((_, life), _)| life % 2 == 0) {
        assert_eq!(check_sessions(session, &written), Ok(()), "client {client}: {session:?}");
    }
    println!("{counts:?} operations of registers, counters, logs, names, locks");
    assert!(counts.iter().all(|count| *count > 0), "something never happened: {counts:?}");
}
