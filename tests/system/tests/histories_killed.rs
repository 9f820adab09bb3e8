//! What programs on three clients of one server did and saw while a client or the server was killed, or a client was offline, is
//! recorded and checked. Each program syncs what it does before that counts ([S-fsync]).
//!
//! **A client is killed** ([S-kill]). All is as on one machine still: what it had been told is synced is there for everybody, others see
//! no more and no less. Excused is only that of what its program was at in that moment nobody knows whether it was done, and that it sees
//! nothing until its new daemon has heard of the server again (what is cached is read until then, [S-offline]). Its locks end with it.
//!
//! **The server is killed, or a client is offline.** Until then all is as on one machine; of what programs were at nobody knows. From
//! then on to the end of the round each client goes on by itself, as long as it does not reach the server: two may write one file,
//! and one of them is kept beside the other ([S-offline], `docs/conflicts.md`); locks hold among the programs of one machine ([S-locks]).
//! So in that time nothing is said of what is read, of locks, and of which of several writes stays. What is checked is what is there when
//! all have met again: all clients see the same; nothing that was done before is undone; a file holds what somebody wrote and what
//! was not replaced by the same client, or by anybody before that time; of lines that were appended each is there, in the log or in a
//! conflict copy of it, and none twice in one; a file that was renamed is at one place.
//!
//! `scripts/histories.sh MINUTES SEED killed` runs it for longer (`$WAYFS_HISTORIES_SECONDS`).

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};
use wayfs_system_tests::histories::{
    Care, Counter, Histories, KEYS, Lock, LockInput, Log, LogInput, Maker, Model, Operation, PLACES, Program, Recorded,
    Register, RegisterInput, Token, judge, lines_of, note, now, prepare,
};
use wayfs_system_tests::{Site, eventually, own_descriptors};

/// How long the short run takes: each kind of disturbance once.
const SHORT: Duration = Duration::from_secs(20);
/// How long programs are at work before the disturbance and after it, at most.
const ROUND: Duration = Duration::from_secs(2);
/// Longest pause of programs.
const PAUSE: Duration = Duration::from_millis(40);
/// Longest time for a machine to come back.
const BACK: Duration = Duration::from_secs(60);
/// The clients.
const NAMES: [&str; 3] = ["ann", "bob", "cat"];

/// What goes wrong in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Disturbance {
    ClientKilled(usize),
    ServerKilled,
    Offline(usize),
}

impl Disturbance {
    fn choose(random: &mut StdRng, round: usize) -> Self {
        let client = random.random_range(0..NAMES.len());
        match round % 3 {
            0 => Self::ClientKilled(client),
            1 => Self::ServerKilled,
            _ => Self::Offline(client),
        }
    }

    /// Does it. Answers the moment before which all is as on one machine, if it is not so to the end.
    fn happen(self, site: &mut Site, random: &mut StdRng, (recorded, lives): (&Recorded, &[AtomicU64])) -> Option<u64> {
        let away = Duration::from_millis(random.random_range(100..3000));
        let since = now();
        match self {
            Self::ClientKilled(client) => {
                lives[client].fetch_add(1, Ordering::SeqCst);
                site.kill_client(client);
                refresh(site, client);
                for key in 0..KEYS {
                    let died = Operation::answered(client, (since, now()), LockInput::Die(client), ());
                    note(&recorded.locks, key, died);
                }
                lives[client].fetch_add(1, Ordering::SeqCst);
                return None;
            }
            Self::ServerKilled => site.kill_home(away),
            Self::Offline(client) => {
                let (machine, mount) = &site.clients[client];
                mount.wayfs(machine, &["offline"]).ok();
                std::thread::sleep(away);
                eventually("the client is back", BACK, || mount.wayfs(machine, &["online"]).status.success());
            }
        }
        Some(since)
    }
}

/// From then on a client sees what was visible before.
fn refresh(site: &Site, client: usize) {
    let (machine, mount) = &site.clients[client];
    let root = mount.root().to_string_lossy().into_owned();
    eventually("the client hears of the server", BACK, || mount.wayfs(machine, &["refresh", &root]).status.success());
}

/// All have met: what each wrote all see.
fn meet(site: &Site) {
    for (machine, mount) in &site.clients {
        mount.sync(machine, "visible");
    }
    for client in 0..NAMES.len() {
        refresh(site, client);
    }
}

/// What was done before a moment; of what was not over then nobody knows.
fn before<I: Clone, O: Clone>(all: &Histories<I, O>, moment: u64) -> Histories<I, O> {
    let until = |operation: &Operation<I, O>| {
        let mut operation = operation.clone();
        operation.told = operation.told.filter(|(told, _)| *told < moment);
        operation
    };
    let part = |history: &Vec<Operation<I, O>>| {
        history.iter().filter(|operation| operation.asked < moment).map(until).collect::<Vec<_>>()
    };
    Histories::new(all.lock().unwrap().iter().map(|(key, history)| (*key, part(history))).collect())
}

fn judged<M: Model>(what: &str, all: &Histories<M::Input, M::Output>, until: Option<u64>) -> usize
where
    M::Input: Clone,
    M::Output: Clone,
{
    match until {
        Some(moment) => judge::<M>(what, &before(all, moment)),
        None => judge::<M>(what, all),
    }
}

/// What a directory of a round holds in the end.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    /// By number, as [`Recorded::registers`] has them.
    registers: Vec<u64>,
    counters: Vec<u64>,
    logs: Vec<Vec<u64>>,
    tokens: Vec<Vec<usize>>,
    names: BTreeSet<String>,
    /// Lines of conflict copies, by log.
    beside: Vec<Vec<u64>>,
}

impl Left {
    fn of(root: &Path) -> Self {
        let path = |name: &str, key: usize| root.join(format!("{name}-{key}"));
        let number = |path: PathBuf| fs::read_to_string(path).unwrap().trim().parse::<u64>().unwrap();
        let time = |path: PathBuf| fs::metadata(path).unwrap().modified().unwrap().duration_since(UNIX_EPOCH);
        let names: BTreeSet<String> =
            fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let copies = |key: usize| names.iter().filter(move |name| name.starts_with(&format!("log-{key}.conflict-")));
        let keys = 0..KEYS;
        let registers = keys.clone().map(|key| number(path("register", key)));
        let registers = registers.chain(keys.clone().map(|key| number(path("plain", key))));
        let registers =
            registers.chain(keys.clone().map(|key| time(path("stamped", key)).unwrap().as_secs())).collect();
        let at = |key: usize, place: &usize| root.join(format!("place-{place}/token-{key}")).exists();
        Self {
            registers,
            counters: keys.clone().map(|key| number(path("counter", key))).collect(),
            logs: keys.clone().map(|key| lines_of(&path("log", key)).unwrap()).collect(),
            tokens: keys.clone().map(|key| (0..PLACES).filter(|place| at(key, place)).collect()).collect(),
            beside: keys
                .map(|key| copies(key).flat_map(|name| lines_of(&root.join(name)).unwrap()).collect())
                .collect(),
            names,
        }
    }
}

/// Nothing that is left contradicts what was told; from `since` on clients may have been by themselves.
fn check_left(left: &Left, recorded: &Recorded, since: u64) {
    for (key, history) in recorded.registers.lock().unwrap().iter() {
        check_register(&format!("register {key}"), left.registers[*key], history, since);
    }
    for (key, history) in recorded.counters.lock().unwrap().iter() {
        let is_before = |told: u64| told < since;
        let told = history.iter().filter_map(|count| count.told.as_ref());
        let least = told.filter(|(told, _)| is_before(*told)).map(|(_, number)| *number).max().unwrap_or(0);
        let found = left.counters[*key];
        let all = least..=history.len() as u64;
        assert!(all.contains(&found), "counter {key} is {found}, and was counted {all:?}");
    }
    for (key, history) in recorded.logs.lock().unwrap().iter() {
        check_log(&format!("log {key}"), (&left.logs[*key], &left.beside[*key]), history, since);
    }
    for (key, places) in left.tokens.iter().enumerate() {
        assert_eq!(places.len(), 1, "token {key} is at {places:?}");
    }
}

/// A file holds the last that was written to it. Of two writes at a time when clients were by themselves either may be.
fn check_register(what: &str, found: u64, history: &[Operation<RegisterInput, u64>], since: u64) {
    let wrote = |operation: &&Operation<RegisterInput, u64>| matches!(operation.input, RegisterInput::Write(_));
    let of = history.iter().find(|operation| operation.input == RegisterInput::Write(found));
    assert!(found == 0 || of.is_some(), "{what} is {found}, which nobody wrote");
    let (end, client) = match of {
        None => (0, None),
        // Of one that failed nobody knows when it was done.
        Some(Operation { told: None, .. }) => return,
        Some(Operation { told: Some((told, _)), client, .. }) => (*told, Some(*client)),
    };
    // Who wrote later and by itself need not have known of it: then what the server had first stays.
    let is_undone = |later: &&Operation<RegisterInput, u64>| {
        let counts = |told: u64| told < since || client == Some(later.client);
        later.asked > end && later.told.as_ref().is_some_and(|(told, _)| counts(*told))
    };
    let later: Vec<_> = history.iter().filter(wrote).filter(is_undone).collect();
    assert!(later.is_empty(), "{what} is {found} of {of:?}, and was written since: {later:?}");
}

fn check_log(what: &str, (log, beside): (&[u64], &[u64]), history: &[Operation<LogInput, Vec<u64>>], since: u64) {
    let lines: BTreeSet<u64> = log.iter().copied().collect();
    assert_eq!(lines.len(), log.len(), "{what} has lines twice: {log:?}");
    for append in history {
        let LogInput::Append(line) = append.input else { continue };
        let Some((told, _)) = append.told else { continue };
        // What the server had nobody else can put aside.
        let is_there = lines.contains(&line) || (told > since && beside.contains(&line));
        assert!(is_there, "{what} lacks {line}, of {append:?}; it is {log:?}, beside it {beside:?}");
    }
    let appended = |line: &&u64| history.iter().any(|append| append.input == LogInput::Append(**line));
    let other: Vec<_> = log.iter().chain(beside).filter(|line| !appended(line)).collect();
    assert!(other.is_empty(), "{what} has what nobody appended: {other:?}");
}

fn same<T: Debug + PartialEq>(what: &[T]) {
    for pair in what.windows(2) {
        assert_eq!(pair[0], pair[1], "two clients do not see the same");
    }
}

/// Ends all programs when it goes, also where a disturbance panics.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// One set of files, and one disturbance. Answers how often each thing was done.
fn round(site: &mut Site, random: &mut StdRng, number: usize) -> [usize; 6] {
    let name = format!("round-{number}");
    prepare(&site.root(number % NAMES.len()).join(&name));
    meet(site);
    let (recorded, is_over) = (Recorded::default(), AtomicBool::new(false));
    let lives = NAMES.map(|_| AtomicU64::new(0));
    let disturbance = Disturbance::choose(random, number);
    let roots: Vec<PathBuf> = (0..NAMES.len()).map(|client| site.root(client).join(&name)).collect();
    let until = std::thread::scope(|scope| {
        for (client, root) in roots.iter().enumerate() {
            let (root, random) = (root.clone(), StdRng::seed_from_u64(random.random()));
            let (recorded, life, care, is_over) = (&recorded, &lives[client], Care::Synced, &is_over);
            let mut program = Program { client, root, recorded, random, numbers: 0, pause: PAUSE, care, life };
            scope.spawn(move || {
                // The commands of a disturbance do not wait for what programs do.
                own_descriptors();
                program.run_while(|| !is_over.load(Ordering::SeqCst));
            });
        }
        std::thread::sleep(ROUND.mul_f64(random.random()));
        let _end = End(&is_over);
        let until = disturbance.happen(site, random, (&recorded, &lives));
        std::thread::sleep(ROUND.mul_f64(random.random()));
        until
    });
    meet(site);
    println!("round {number}: {disturbance:?}, as on one machine until {until:?} of {}", now());
    let counts = [
        judged::<Register>("register", &recorded.registers, until),
        judged::<Counter>("counter", &recorded.counters, until),
        judged::<Log>("log", &recorded.logs, until),
        judged::<Maker>("name", &recorded.makers, until),
        judged::<Token>("token", &recorded.tokens, until),
        judged::<Lock>("lock", &recorded.locks, until),
    ];
    let left: Vec<Left> = roots.iter().map(|root| Left::of(root)).collect();
    same(&left);
    // Where all was as on one machine, nothing is beside anything, and what was done last is there.
    check_left(&left[0], &recorded, until.unwrap_or(u64::MAX));
    let copies: Vec<&String> = left[0].names.iter().filter(|name| name.contains(".conflict-")).collect();
    assert!(until.is_some() || copies.is_empty(), "conflict copies: {copies:?}");
    fs::remove_dir_all(&roots[0]).unwrap();
    counts
}

/// Proves [S-kill], [S-fsync], [S-close-open], [S-exclusive], [S-append], [S-locks].
#[test]
fn what_programs_see_has_an_order_over_kills_and_spells_offline() {
    let seconds = std::env::var("WAYFS_HISTORIES_SECONDS").ok().and_then(|text| text.parse().ok());
    let seed = std::env::var("WAYFS_HISTORIES_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let end = Instant::now() + seconds.map_or(SHORT, Duration::from_secs);
    let (mut site, mut random) = (Site::of(&NAMES), StdRng::seed_from_u64(seed));
    let (mut counts, mut number) = ([0; 6], 0);
    while Instant::now() < end {
        for (count, more) in counts.iter_mut().zip(round(&mut site, &mut random, number)) {
            *count += more;
        }
        number += 1;
    }
    println!("{counts:?} operations of registers, counters, logs, names, tokens, locks in {number} rounds");
    assert!(counts.iter().all(|count| *count > 0), "something never happened: {counts:?}");
}

/// The judge itself: what may be left after clients were by themselves from moment 10 on, and what not.
#[test]
fn what_is_left_is_judged_by_what_was_told() {
    let wrote = |client, span, value| Operation::answered(client, span, RegisterInput::Write(value), value);
    let unknown = |client, asked, value| Operation::unknown(client, asked, RegisterInput::Write(value));
    let is_well = |found, history: &[Operation<RegisterInput, u64>]| {
        std::panic::catch_unwind(|| check_register("register", found, history, 10)).is_ok()
    };
    let history =
        [wrote(0, (1, 2), 1), wrote(1, (3, 4), 2), wrote(0, (11, 12), 3), wrote(1, (13, 14), 4), wrote(0, (15, 16), 5)];
    assert_eq!(
        [0, 1, 2, 3, 4, 5, 6].map(|found| is_well(found, &history)),
        [false, false, false, false, true, true, false]
    );
    let failed = [wrote(0, (1, 2), 1), unknown(1, 3, 2)];
    assert_eq!([0, 1, 2].map(|found| is_well(found, &failed)), [false, true, true]);

    let append = |span, line| Operation::answered(0, span, LogInput::Append(line), Vec::new());
    let history = [append((1, 2), 1), append((11, 12), 2), Operation::unknown(1, 3, LogInput::Append(3))];
    let is_well = |log: &[u64], beside: &[u64]| {
        std::panic::catch_unwind(|| check_log("log", (log, beside), &history, 10)).is_ok()
    };
    assert!(is_well(&[1, 2], &[]) && is_well(&[1, 3], &[1, 2]));
    assert!(!is_well(&[2], &[1]), "what was there before is put aside");
    assert!(!is_well(&[1], &[]), "a line is lost");
    assert!(!is_well(&[1, 2, 1], &[]), "a line is there twice");
    assert!(!is_well(&[1, 2, 4], &[]), "a line that nobody appended");
}
