//! Small work in a volume that has very many files, beside the same in an empty one, and lists of very many.

use crate::beside::{Beside, Per, Work, nothing};
use crate::ground::LOOPBACK;
use crate::measure::{median, timed};
use crate::site::VOLUME;
use crate::size::Size;
use crate::small_files::create;
use crate::table::Row;
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::path::Path;
use std::time::Instant;

/// Files in one directory of those that fill the volume.
const FILES_PER_DIRECTORY: usize = 1_000;
/// Where they are.
const FILLED: &str = "filled";
/// The directory with very many names.
const NAMES: &str = "names";
/// The loopback has a descriptor for each file that the kernel knows, and so no more files than this.
const LOOPBACK_MAX: usize = 8_000;

/// How many of everything.
#[derive(Clone, Copy)]
struct Extent {
    /// Of those that fill the volume.
    files: usize,
    /// Of those whose making is measured.
    creates: usize,
    /// In one directory.
    names: usize,
}

/// The rows.
pub(crate) fn rows(size: Size, rounds: usize) -> Result<Vec<Row>> {
    let extent = size.choose(
        Extent { files: 2_000, creates: 200, names: 1_000 },
        Extent { files: 300_000, creates: 4_000, names: 100_000 },
    );
    let beside = Beside::new(&[])?;
    let mut rows = beside.rows(&[creates(extent, 0)], rounds)?;
    eprintln!("{} files, at three places", extent.files);
    for (name, directory) in beside.all() {
        fill(&directory.join(FILLED), held(name, extent.files)).with_context(|| format!("fill {name}"))?;
    }
    beside.client.settle("stable")?;
    rows.extend(beside.rows(&[creates(extent, extent.files), list_all(extent)], rounds)?);
    rows.extend(first_listings(&beside, extent, rounds)?);
    Ok(rows)
}

/// How many of so many files a place has.
fn held(place: &str, files: usize) -> usize {
    if place == LOOPBACK { files.min(LOOPBACK_MAX) } else { files }
}

fn creates<'a>(extent: Extent, files: usize) -> Work<'a> {
    Work {
        what: format!("create, write 4 KiB, close, in a volume of {files} files"),
        unit: "k/s",
        is_time: false,
        limit: "within 10 % of an empty volume",
        prepare: nothing(),
        run: Box::new(move |directory| create(directory, extent.creates, 1)),
        per: Some(Per::File(extent.creates)),
    }
}

fn list_all<'a>(extent: Extent) -> Work<'a> {
    let list = |directory: &Path| timed(directory, &format!("ls -lR ../{FILLED}"));
    // Who works at the loopback is told by where the directory is: below one of that name.
    let files = move |directory: &Path| {
        let is_loopback = directory.parent().is_some_and(|place| place.ends_with(LOOPBACK));
        held(if is_loopback { LOOPBACK } else { "" }, extent.files)
    };
    Work {
        what: format!("ls -lR of {} files, warm, a name", extent.files),
        unit: "us",
        is_time: true,
        limit: "5 us; the loopback has 8,000 at most",
        prepare: Box::new(move |directory| list(directory).map(drop)),
        run: Box::new(move |directory| Ok(list(directory)? * 1e6 / files(directory) as f64)),
        per: None,
    }
}

/// Directories of files of 100 bytes.
pub(crate) fn fill(place: &Path, files: usize) -> Result<()> {
    fs::create_dir(place)?;
    for number in 0..files {
        let directory = place.join(format!("directory-{}", number / FILES_PER_DIRECTORY));
        if number % FILES_PER_DIRECTORY == 0 {
            fs::create_dir(&directory)?;
        }
        fs::write(directory.join(format!("file-{number}")), [number as u8; 100])?;
    }
    Ok(())
}

/// One directory is listed by a machine that has nothing of it, again, and after that machine was mounted anew.
fn first_listings(beside: &Beside, extent: Extent, rounds: usize) -> Result<Vec<Row>> {
    let Extent { names, .. } = extent;
    eprintln!("{names} names in one directory, at three places");
    for (name, directory) in beside.all() {
        fs::create_dir(directory.join(NAMES))?;
        (0..held(name, names))
            .try_for_each(|n| File::create(directory.join(NAMES).join(format!("name-{n}"))).map(drop))?;
    }
    beside.client.settle("stable")?;
    let (mut plain, mut ours) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new(), Vec::new()]);
    for round in 0..rounds {
        eprintln!("round {} of {rounds}: first listing", round + 1);
        for (samples, (name, directory)) in plain.iter_mut().zip(beside.ground.both()) {
            samples.push(list(&directory, held(name, names))?);
        }
        let mut reader = beside.site.client("reader", &[]);
        for samples in &mut ours[..2] {
            samples.push(list(reader.mount.root(), names)?);
        }
        reader.mount.kill();
        reader.mount = reader.machine.mount(VOLUME, &[]);
        ours[2].push(list(reader.mount.root(), names)?);
    }
    let [native, loopback] = plain.map(|mut samples| median(&mut samples));
    let words = ["by a machine that has nothing of them", "by the same machine again", "after it was mounted anew"];
    let row = |(mut samples, word): (Vec<f64>, &str)| Row {
        what: format!("listing of {names} names, {word}, a name"),
        unit: "us",
        figures: [native, loopback, median(&mut samples)],
        limit: "5 us; the others have the names in the system's caches, the loopback 8,000 of them at most".to_owned(),
        is_time: true,
    };
    Ok(ours.into_iter().zip(words).map(row).collect())
}

/// Names alone, as `ls -f` does: us for each.
fn list(place: &Path, names: usize) -> Result<f64> {
    let start = Instant::now();
    let found = fs::read_dir(place.join(NAMES))?.map(|entry| entry.map(drop)).collect::<Result<Vec<_>, _>>()?.len();
    let took = start.elapsed().as_secs_f64();
    ensure!(found == names, "{found} of {names} names were listed");
    Ok(took * 1e6 / names as f64)
}
