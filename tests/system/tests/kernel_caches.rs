//! What two kernels keep of the same few names while both change them all the time. When it is quiet, what `stat`, `read`
//! and `ls` say here and there must be the same, and the same as on a machine that never looked before: nothing that
//! a kernel cached may outlive the news that it is out of date.
//!
//! `WAYFS_CACHE_ROUNDS` sets the number of storms (default 6), `WAYFS_CACHE_SEED` the seed of what is done (default 1).

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{Error, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use wayfs_system_tests::{World, within};

/// Names that all threads work on.
const NAMES: u32 = 3;
/// Threads that change things on each machine, and such that only look.
const WRITERS: u64 = 2;
const READERS: u64 = 4;
/// How long a storm lasts.
const STORM: Duration = Duration::from_secs(1);
/// Longest time until all have heard everything.
const HEARD: Duration = Duration::from_secs(30);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// One thread's part in a storm.
struct Worker {
    directory: PathBuf,
    random: StdRng,
    end: Instant,
}

impl Worker {
    fn new(directory: &Path, seed: u64) -> Self {
        Self { directory: directory.to_owned(), random: StdRng::seed_from_u64(seed), end: Instant::now() + STORM }
    }

    fn name(&mut self) -> PathBuf {
        self.directory.join(format!("n{}", self.random.random_range(0..NAMES)))
    }

    fn bytes(&mut self) -> Vec<u8> {
        let magnitude = self.random.random_range(1..=14);
        let len = self.random.random_range(1..=1 << magnitude);
        vec![self.random.random_range(b'a'..=b'z'); len]
    }

    /// Others are at the same names: anything may fail.
    fn change(&mut self) -> Result<(), Error> {
        let (one, other, bytes) = (self.name(), self.name(), self.bytes());
        match self.random.random_range(0..12) {
            0 | 1 => fs::write(one, bytes),
            2 => OpenOptions::new().append(true).open(one)?.write_all(&bytes),
            3 => OpenOptions::new().write(true).truncate(true).open(one).map(drop),
            4 => {
                // The save of an editor.
                let temporary = self.directory.join(format!("t{}", self.random.random::<u32>()));
                fs::write(&temporary, bytes)?;
                fs::rename(&temporary, one).inspect_err(|_| drop(fs::remove_file(&temporary)))
            }
            5 => fs::remove_file(one),
            6 => fs::rename(one, other),
            7 => fs::hard_link(one, other),
            8 => symlink("target", one),
            9 => fs::create_dir(one),
            10 => fs::remove_dir(one),
            _ => fs::set_permissions(one, Permissions::from_mode(0o600 + self.random.random_range(0..8))),
        }
    }

    fn look(&mut self) -> Result<(), Error> {
        let one = self.name();
        match self.random.random_range(0..4) {
            0 => fs::read(one).map(drop),
            1 => fs::read_dir(&self.directory)?.try_for_each(|entry| entry?.metadata().map(drop)),
            _ => fs::symlink_metadata(one).map(drop),
        }
    }

    fn work(mut self, step: fn(&mut Self) -> Result<(), Error>) {
        while Instant::now() < self.end {
            let _ = step(&mut self);
            std::thread::sleep(Duration::from_millis(self.random.random_range(0..2)));
        }
    }
}

fn storm(directories: &[PathBuf], seed: u64) {
    std::thread::scope(|threads| {
        for (machine, directory) in (0..).zip(directories) {
            for number in 0..WRITERS + READERS {
                let worker = Worker::new(directory, seed * 1000 + machine * 100 + number);
                let step = if number < WRITERS { Worker::change } else { Worker::look };
                threads.spawn(move || worker.work(step));
            }
        }
    });
}

/// What programs are told of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    mode: u32,
    links: u64,
    inode: u64,
    size: u64,
    modified: SystemTime,
    bytes: Option<Vec<u8>>,
}

fn seen(path: &Path) -> Result<Seen, i32> {
    let number = |error: Error| error.raw_os_error().unwrap_or_default();
    let of = fs::symlink_metadata(path).map_err(number)?;
    let bytes = if of.is_file() {
        let mut bytes = Vec::new();
        fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)).map_err(number)?;
        Some(bytes)
    } else {
        None
    };
    let modified = of.modified().expect("files have a time");
    Ok(Seen { mode: of.mode(), links: of.nlink(), inode: of.ino(), size: of.len(), modified, bytes })
}

/// All names that are listed, and all that the storms are about, with what is seen of each.
fn view(directory: &Path) -> BTreeMap<String, Result<Seen, i32>> {
    let listed = fs::read_dir(directory).expect("list");
    let mut names: BTreeSet<String> = (0..NAMES).map(|number| format!("n{number}")).collect();
    names.extend(listed.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()));
    names.into_iter().map(|name| (name.clone(), seen(&directory.join(name)))).collect()
}

fn difference(one: &Path, other: &Path) -> Option<String> {
    let (one, other) = (one.to_owned(), other.to_owned());
    let (one, other) = within("look at both", HEARD, move || (view(&one), view(&other)));
    let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
    let short = |seen: Option<&Result<Seen, i32>>| match seen {
        Some(Ok(seen)) => format!(
            "{:o} inode {:x} links {} size {} read {:?} {:?}",
            seen.mode,
            seen.inode,
            seen.links,
            seen.size,
            seen.bytes.as_ref().map(|bytes| (bytes.len(), bytes.first().copied())),
            seen.modified
        ),
        other => format!("{other:?}"),
    };
    let lines = names.into_iter().filter(|name| one.get(*name) != other.get(*name));
    let lines = lines.map(|name| format!("{name}: {} / {}", short(one.get(name)), short(other.get(name))));
    let text: Vec<String> = lines.collect();
    (!text.is_empty()).then(|| text.join("\n"))
}

/// Waits until two directories look alike.
fn alike(what: &str, one: &Path, other: &Path) {
    let end = Instant::now() + HEARD;
    while let Some(text) = difference(one, other) {
        assert!(Instant::now() < end, "{what}: still different:\n{text}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Proves [S-remote-change].
#[test]
fn what_kernels_keep_does_not_outlive_the_news() {
    let world = World::default();
    let (other_machine, other) = world.other("other");
    let seed = number("WAYFS_CACHE_SEED", 1);
    for round in 0..number("WAYFS_CACHE_ROUNDS", 6) {
        let name = format!("storm-{round}");
        let here = world.directory(&name);
        let there = other.path(&name);
        world.mount.sync(&world.client, "visible");
        wayfs_system_tests::eventually("the directory is seen", HEARD, || there.is_dir());
        storm(&[here.clone(), there.clone()], seed + round);
        world.mount.sync(&world.client, "visible");
        other.sync(&other_machine, "visible");
        alike(&format!("round {round} of seed {seed}"), &here, &there);
    }
    let (_third_machine, third) = world.other("third");
    for round in 0..number("WAYFS_CACHE_ROUNDS", 6) {
        let name = format!("storm-{round}");
        alike("a machine that never looked before", &world.mount.path(&name), &third.path(&name));
    }
}
