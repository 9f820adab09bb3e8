//! Small files on a mount with a station and a home beside it: in bulk, by several threads, renamed, linked and locked.

use crate::beside::{Beside, Per, Work, nothing};
use crate::bytes::fresh;
use crate::measure::{rate, shell, timed};
use crate::size::Size;
use crate::table::Row;
use anyhow::{Context, Result, ensure};
use rand::Rng;
use rustix::fs::{FlockOperation, fcntl_lock};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Of whoever creates: a sight.
const CREATE_SIGHT: &str = "0.8 of the loopback";

/// How many of everything.
#[derive(Clone, Copy)]
struct Extent {
    directories: usize,
    files_each: usize,
    creates: usize,
    turns: usize,
}

/// The rows.
pub(crate) fn rows(size: Size, rounds: usize) -> Result<Vec<Row>> {
    let extent = size.choose(
        Extent { directories: 6, files_each: 20, creates: 200, turns: 50 },
        Extent { directories: 42, files_each: 120, creates: 4_000, turns: 1_000 },
    );
    let beside = Beside::new(&[])?;
    let scratch = beside.ground.scratch();
    let mut rows = beside.rows(&connected(scratch, extent), rounds)?;
    rows.extend(offline(&beside, extent, rounds)?);
    Ok(rows)
}

fn connected(scratch: &Path, extent: Extent) -> Vec<Work<'_>> {
    let Extent { creates, turns, .. } = extent;
    let create = |threads: usize| Work {
        what: format!("create, write 4 KiB, close, with a station, threads: {threads}"),
        unit: "k/s",
        is_time: false,
        limit: CREATE_SIGHT,
        prepare: nothing(),
        run: Box::new(move |directory| create(directory, creates, threads)),
        per: (threads == 1).then_some(Per::File(creates)),
    };
    vec![
        untar(scratch, extent),
        create(1),
        create(4),
        Work {
            what: "rename, with a station".to_owned(),
            unit: "k/s",
            is_time: false,
            limit: "0.8 of the loopback",
            prepare: Box::new(move |directory| make_empty(directory, creates)),
            run: Box::new(move |directory| rename(directory, creates)),
            per: None,
        },
        Work {
            what: "create, link, lock, unlock, rename, unlink twice, with a station".to_owned(),
            unit: "k/s",
            is_time: false,
            limit: "turns; 1.5 times the loopback's time: 0.67",
            prepare: nothing(),
            run: Box::new(move |directory| take_turns(directory, turns)),
            per: None,
        },
    ]
}

fn untar(scratch: &Path, extent: Extent) -> Work<'_> {
    let files = extent.directories * extent.files_each;
    Work {
        what: format!("tar x, {files} files, with a station"),
        unit: "s",
        is_time: true,
        limit: "1.5 times the loopback: 0.67; processor time of the client 1.3 times the loopback's, of the station 60 us a file",
        prepare: nothing(),
        run: Box::new(move |directory| extract(&archive(scratch, extent)?, directory)),
        per: Some(Per::File(files)),
    }
}

/// `tar x` where the mount is told to be offline, which what is sent afterwards is no part of.
fn offline(beside: &Beside, extent: Extent, rounds: usize) -> Result<Vec<Row>> {
    let (client, scratch) = (&beside.client, beside.ground.scratch());
    let switch = |word: &str| client.mount.wayfs(&client.machine, &[word]).ok();
    let mount = client.mount.root();
    // Whether a name is free can be told offline only of a directory that was listed before.
    fs::read_dir(mount)?.for_each(drop);
    let work = Work {
        what: format!("tar x, {} files, offline", extent.directories * extent.files_each),
        limit: "1.5 times the loopback: 0.67",
        run: Box::new(move |directory| {
            let archive = archive(scratch, extent)?;
            let is_mount = directory.starts_with(mount);
            if is_mount {
                switch("offline");
            }
            let took = extract(&archive, directory);
            if is_mount {
                switch("auto");
            }
            took
        }),
        per: None,
        ..untar(scratch, extent)
    };
    beside.rows(&[work], rounds)
}

fn extract(archive: &Path, directory: &Path) -> Result<f64> {
    timed(directory, &format!("tar -xf {}", archive.display()))
}

/// An archive of files of 10.7 KB on average: 54 MB in all when it is whole.
fn archive(scratch: &Path, extent: Extent) -> Result<PathBuf> {
    let root = scratch.join("many");
    let mut random = fresh();
    for directory in 0..extent.directories {
        let path = root.join(format!("module-{directory}"));
        fs::create_dir_all(&path)?;
        for file in 0..extent.files_each {
            let lines = random.random_range(30..500);
            let text: String =
                (0..lines).map(|n| format!("let value_{n} = compute({}, {n});\n", random.random::<u32>())).collect();
            fs::write(path.join(format!("file_{file}.rs")), text)?;
        }
    }
    shell(scratch, "tar -C many -cf many.tar .")?;
    Ok(scratch.join("many.tar"))
}

/// Makes files of 4 KiB, each thread in a directory of its own.
pub(crate) fn create(directory: &Path, files: usize, threads: usize) -> Result<f64> {
    let each = files / threads;
    for thread in 0..threads {
        fs::create_dir(directory.join(thread.to_string()))?;
    }
    let run = fresh().random();
    let start = Instant::now();
    std::thread::scope(|scope| {
        let makers: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || create_some(&directory.join(thread.to_string()), (run, thread), each)))
            .collect();
        makers.into_iter().try_for_each(|maker| maker.join().ok().context("a thread that creates ended")?)
    })?;
    Ok(rate(each * threads, start))
}

fn create_some(directory: &Path, (run, thread): (u64, usize), files: usize) -> Result<()> {
    for n in 0..files {
        let mut block = [0; 4096];
        block[..8].copy_from_slice(&(thread * files + n).to_le_bytes());
        block[8..16].copy_from_slice(&run.to_le_bytes());
        fs::write(directory.join(format!("file-{n}")), block)?;
    }
    Ok(())
}

fn make_empty(directory: &Path, files: usize) -> Result<()> {
    (0..files).try_for_each(|n| File::create(directory.join(format!("old-{n}"))).map(drop)).map_err(Into::into)
}

fn rename(directory: &Path, files: usize) -> Result<f64> {
    let start = Instant::now();
    for n in 0..files {
        fs::rename(directory.join(format!("old-{n}")), directory.join(format!("new-{n}")))?;
    }
    Ok(rate(files, start))
}

/// What programs do that lock by files and in files.
fn take_turns(directory: &Path, turns: usize) -> Result<f64> {
    let start = Instant::now();
    for n in 0..turns {
        let [made, linked, renamed] = ["made", "linked", "renamed"].map(|name| directory.join(format!("{name}-{n}")));
        let file = File::create(&made)?;
        fs::hard_link(&made, &linked)?;
        fcntl_lock(&file, FlockOperation::LockExclusive)?;
        fcntl_lock(&file, FlockOperation::Unlock)?;
        drop(file);
        fs::rename(&made, &renamed)?;
        fs::remove_file(&renamed)?;
        fs::remove_file(&linked)?;
    }
    ensure!(fs::read_dir(directory)?.next().is_none(), "what was unlinked is still there");
    Ok(rate(turns, start))
}
