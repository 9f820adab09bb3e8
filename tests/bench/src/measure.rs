//! File operations at all places, interleaved.

use crate::bytes;
use crate::listening::Work;
use crate::places::Places;
use crate::table::Row;
use anyhow::{Context, Result, ensure};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Bytes of the big file.
const BIG: usize = 256 << 20;
/// Small files a round.
const SMALL: usize = 1000;
/// Random accesses a round.
const RANDOM: usize = 4000;

/// How something is measured in a directory.
pub(crate) type Measure<'a> = Box<dyn Fn(&Path) -> Result<f64> + 'a>;

/// One kind of measurement: name, unit, whether it is a time, the sight, and how it is done.
type Measurement<'a> = (&'a str, &'static str, bool, &'a str, Measure<'a>);

/// A source tree of 800 files of 6 KiB on average.
pub(crate) struct Sources {
    archive: PathBuf,
    repository: PathBuf,
}

/// What a lone user does most.
pub(crate) fn lone_works(sources: &Sources) -> Vec<Work<'_>> {
    vec![
        ("create, write 4 KiB, close", "k/s", false, Box::new(create_small)),
        ("tar x, 800 files", "s", true, Box::new(|d| untar(d, &sources.archive))),
        ("git clone, 800 files", "s", true, Box::new(|d| clone(d, &sources.repository))),
    ]
}

/// Those that are chosen by name, `rounds` times, medians.
pub(crate) fn files(
    places: &Places,
    sources: &Sources,
    rounds: usize,
    is_chosen: impl Fn(&str) -> bool,
) -> Result<Vec<Row>> {
    let Sources { archive, repository } = sources;
    let mut measurements: Vec<Measurement<'_>> = vec![
        ("sequential write, 256 MiB, new", "MB/s", false, "0.9 of native", Box::new(write_new)),
        ("the same anew over itself", "MB/s", false, "0.9 of native for complete cached files", Box::new(write_big)),
        ("until it is hashed and durable", "MB/s", false, "beside the writes: no sight", Box::new(write_durably)),
        ("sequential read, cached", "MB/s", false, "0.9 of native", Box::new(read_big)),
        ("4 KiB random read", "k/s", false, "0.9 of native", Box::new(random_read)),
        ("4 KiB random write", "k/s", false, "the loopback: what is edited comes by request", Box::new(random_write)),
        ("200-byte appends", "k/s", false, "the loopback", Box::new(append)),
        ("create, write 4 KiB, close", "k/s", false, "the loopback", Box::new(create_small)),
        ("stat, warm", "k/s", false, "native: it must not leave the kernel", Box::new(stat_warm)),
        ("list 1000 with attributes", "k/s", false, "the loopback", Box::new(list)),
        ("open, read 4 KiB, close", "k/s", false, "the loopback", Box::new(read_small)),
        ("tar x, 800 files", "s", true, "0.7 of the loopback", Box::new(|d| untar(d, archive))),
        ("git clone, 800 files", "s", true, "0.7 of the loopback", Box::new(|d| clone(d, repository))),
        ("rm -r of both", "s", true, "the loopback", Box::new(remove)),
    ];
    measurements.retain(|(what, ..)| is_chosen(what));
    let mut samples = vec![[const { Vec::<f64>::new() }; 3]; measurements.len()];
    for round in 0..rounds {
        for (n, (what, .., measure)) in measurements.iter().enumerate() {
            eprintln!("round {} of {rounds}: {what}", round + 1);
            for (place, (name, directory)) in places.all().iter().enumerate() {
                let figure = measure(directory).with_context(|| format!("{what} at {name}"))?;
                samples[n][place].push(figure);
            }
        }
    }
    Ok(measurements
        .iter()
        .zip(samples)
        .map(|((what, unit, is_time, limit, _), samples)| Row {
            what: (*what).to_owned(),
            unit,
            figures: samples.map(|mut s| median(&mut s)),
            limit: (*limit).to_owned(),
            is_time: *is_time,
        })
        .collect())
}

pub(crate) fn median(samples: &mut [f64]) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied()
}

/// Thousands a second.
pub(crate) fn rate(count: usize, start: Instant) -> f64 {
    count as f64 / start.elapsed().as_secs_f64() / 1000.0
}

fn megabytes(start: Instant) -> f64 {
    BIG as f64 / 1e6 / start.elapsed().as_secs_f64()
}

fn write_new(directory: &Path) -> Result<f64> {
    let _ = fs::remove_file(directory.join("big"));
    write_big(directory)
}

fn write_big(directory: &Path) -> Result<f64> {
    let path = directory.join("big");
    let figure = write_to(&path)?;
    // What is left for write-back must not fall into the next measurement.
    File::open(&path)?.sync_all()?;
    Ok(figure)
}

fn write_durably(directory: &Path) -> Result<f64> {
    let path = directory.join("big");
    let start = Instant::now();
    write_to(&path)?;
    File::open(&path)?.sync_all()?;
    Ok(megabytes(start))
}

fn write_to(path: &Path) -> Result<f64> {
    let start = Instant::now();
    drop(bytes::write_new(path, BIG as u64)?);
    Ok(megabytes(start))
}

fn read_big(directory: &Path) -> Result<f64> {
    let mut block = vec![0_u8; 1 << 20];
    let path = directory.join("big");
    let warm_up = fs::read(&path)?;
    ensure!(warm_up.len() == BIG, "the big file is not whole");
    drop(warm_up);
    let start = Instant::now();
    let mut file = File::open(&path)?;
    while file.read(&mut block)? > 0 {}
    Ok(megabytes(start))
}

fn offsets() -> impl Iterator<Item = u64> {
    let mut random = StdRng::seed_from_u64(2);
    (0..RANDOM).map(move |_| random.random_range(0..BIG as u64 / 4096) * 4096)
}

fn random_read(directory: &Path) -> Result<f64> {
    let file = File::open(directory.join("big"))?;
    let mut block = [0; 4096];
    let start = Instant::now();
    for offset in offsets() {
        file.read_exact_at(&mut block, offset)?;
    }
    Ok(rate(RANDOM, start))
}

fn random_write(directory: &Path) -> Result<f64> {
    let file = OpenOptions::new().write(true).open(directory.join("big"))?;
    let block = [7; 4096];
    let start = Instant::now();
    for offset in offsets() {
        file.write_all_at(&block, offset)?;
    }
    Ok(rate(RANDOM, start))
}

fn append(directory: &Path) -> Result<f64> {
    let path = directory.join("appended.log");
    let _ = fs::remove_file(&path);
    let start = Instant::now();
    let mut file = OpenOptions::new().append(true).create(true).open(&path)?;
    for _ in 0..RANDOM {
        file.write_all(&[b'a'; 200])?;
    }
    drop(file);
    Ok(rate(RANDOM, start))
}

fn create_small(directory: &Path) -> Result<f64> {
    let directory = directory.join("small");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir(&directory)?;
    let start = Instant::now();
    for n in 0..SMALL {
        let mut block = [0; 4096];
        block[..8].copy_from_slice(&n.to_le_bytes());
        fs::write(directory.join(format!("file-{n}")), block)?;
    }
    Ok(rate(SMALL, start))
}

fn stat_warm(directory: &Path) -> Result<f64> {
    let paths: Vec<_> = (0..SMALL).map(|n| directory.join(format!("small/file-{n}"))).collect();
    for path in &paths {
        fs::metadata(path)?;
    }
    let start = Instant::now();
    for _ in 0..10 {
        for path in &paths {
            fs::metadata(path)?;
        }
    }
    Ok(rate(10 * SMALL, start))
}

fn list(directory: &Path) -> Result<f64> {
    let start = Instant::now();
    let mut count = 0;
    for entry in fs::read_dir(directory.join("small"))? {
        entry?.metadata()?;
        count += 1;
    }
    ensure!(count == SMALL, "{count} entries listed");
    Ok(rate(SMALL, start))
}

fn read_small(directory: &Path) -> Result<f64> {
    let start = Instant::now();
    for n in 0..SMALL {
        ensure!(fs::read(directory.join(format!("small/file-{n}")))?.len() == 4096, "a small file is not whole");
    }
    Ok(rate(SMALL, start))
}

/// Makes the tree, as a repository and as an archive.
pub(crate) fn make_tree(scratch: &Path) -> Result<Sources> {
    let root = scratch.join("tree");
    let mut random = StdRng::seed_from_u64(3);
    for directory in 0..40 {
        let path = root.join(format!("module-{directory}/src"));
        fs::create_dir_all(&path)?;
        for file in 0..20 {
            let lines = random.random_range(20..300);
            let text: String =
                (0..lines).map(|n| format!("let value_{n} = compute({}, {n});\n", random.random::<u32>())).collect();
            fs::write(path.join(format!("file_{file}.rs")), text)?;
        }
    }
    let archive = scratch.join("tree.tar");
    shell(
        scratch,
        "tar -C tree -cf tree.tar . && cd tree && git init -q . && git add . && git -c user.name=n -c user.email=e commit -qm all",
    )?;
    Ok(Sources { archive, repository: root })
}

/// Runs a script.
pub(crate) fn shell(directory: &Path, script: &str) -> Result<()> {
    let status = Command::new("sh").args(["-ec", script]).current_dir(directory).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "{script}: {status}");
    Ok(())
}

/// Runs a script and gives the seconds that it took.
pub(crate) fn timed(directory: &Path, script: &str) -> Result<f64> {
    let start = Instant::now();
    shell(directory, script)?;
    Ok(start.elapsed().as_secs_f64())
}

fn untar(directory: &Path, archive: &Path) -> Result<f64> {
    shell(directory, "rm -rf tar && mkdir tar")?;
    timed(directory, &format!("tar -C tar -xf {}", archive.display()))
}

fn clone(directory: &Path, repository: &Path) -> Result<f64> {
    shell(directory, "rm -rf clone")?;
    timed(directory, &format!("git clone -q --no-local {} clone", repository.display()))
}

fn remove(directory: &Path) -> Result<f64> {
    timed(directory, "rm -r tar clone")
}
