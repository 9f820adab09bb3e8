//! What a sweep costs a home that has very many chunks: each minute all that is in use is marked, and what nothing refers to removed.
//!
//! The home is in a process of its own, without children, over a real chunk store and real tables. Chunks are of eight bytes: a sweep
//! reads lists of them and none of themselves, so their length makes no difference but to the disk.

use crate::measure::median;
use crate::meter::{Memory, processor_seconds};
use crate::size::Size;
use crate::table::Row;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use wayfs_content::{Entry, ListNode};
use wayfs_node::testing::{Machine, Plan, create};
use wayfs_proto::Role;
use wayfs_types::request::Change;
use wayfs_types::{Content, Digest, OriginId, WallTime};

/// Chunks in one list.
const IN_A_LIST: usize = 1_000;
/// Bytes of a chunk.
const CHUNK: usize = 8;
/// Longest wait for a sweep.
const PATIENCE: Duration = Duration::from_secs(600);
/// Sweeps begin by themselves so often.
const PERIOD: f64 = 60.0;

/// How chunks belong to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Each is a file.
    Small,
    /// A thousand are one.
    Large,
}

impl Shape {
    const fn named(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Large => "large",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Small => "files of one chunk",
            Self::Large => "files of 1,000 chunks",
        }
    }
}

/// The rows.
pub(crate) fn rows(size: Size, rounds: usize) -> Result<Vec<Row>> {
    let extents: &[(Shape, usize)] = size.choose(
        &[(Shape::Large, 10_000), (Shape::Small, 1_000)],
        &[
            (Shape::Large, 100_000),
            (Shape::Large, 1_000_000),
            (Shape::Large, 10_000_000),
            (Shape::Small, 100_000),
            (Shape::Small, 1_000_000),
        ],
    );
    let mut rows = Vec::new();
    for (shape, chunks) in extents {
        eprintln!("sweeps of {chunks} chunks, {}", shape.words());
        let output = Command::new(std::env::current_exe()?)
            .args(["sweep", shape.named(), &chunks.to_string(), &rounds.to_string()])
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "sweeping ended with {}", output.status);
        let found: [f64; 3] = serde_json::from_slice(&output.stdout).context("what a sweep cost")?;
        rows.extend(told(*shape, *chunks, found));
    }
    Ok(rows)
}

fn told(shape: Shape, chunks: usize, [seconds, before, most]: [f64; 3]) -> [Row; 2] {
    let what = format!("a sweep of {chunks} chunks, {}", shape.words());
    let row = |word: &str, unit, figure, limit| Row {
        what: format!("{what}: {word}"),
        unit,
        figures: [None, None, Some(figure)],
        limit,
        is_time: true,
    };
    let share = 100.0 * seconds / PERIOD;
    [
        row("processor time", "s", seconds, format!("1 % of a core: 0.6 s, one a minute; it takes {share:.2} %")),
        row(
            "memory that it takes",
            "MiB",
            most - before,
            format!("bounded; the process has {before:.0} MiB without it"),
        ),
    ]
}

/// In a process of its own: prints seconds of a sweep, MiB before and at most.
pub(crate) fn measure(shape: &str, chunks: usize, rounds: usize) -> Result<()> {
    let shape = [Shape::Small, Shape::Large].into_iter().find(|known| known.named() == shape).context("a shape")?;
    let directory = tempfile::Builder::new().prefix("wayfs-bench-sweep-").tempdir()?;
    fill(directory.path(), shape, chunks)?;
    // What protects fresh chunks for ten minutes is gone with the process that made them: this one stands as it would the next day.
    let home = start(directory.path());
    let process = std::process::id();
    ensure!(home.volume.sweep(PATIENCE), "the first sweep did not end");
    let before = Memory::of(process)?.now_mib;
    Memory::forget_most(process)?;
    let mut seconds = Vec::new();
    for _ in 0..rounds {
        let begin = processor_seconds(process)?;
        ensure!(home.volume.sweep(PATIENCE), "a sweep did not end");
        seconds.push(processor_seconds(process)? - begin);
    }
    let most = Memory::of(process)?.most_mib;
    let held = home.volume.contents().stats().map_or(0, |stats| stats.chunks);
    ensure!(held as usize >= chunks, "{held} of {chunks} chunks are left: what is in use was swept");
    println!("{}", serde_json::to_string(&[median(&mut seconds).context("a sweep")?, before, most])?);
    home.stop();
    Ok(())
}

/// A home as it starts, but for the grace, which is the one that servers have.
fn start(directory: &Path) -> Machine {
    let mut plan = Plan::new(directory, Role::Home, OriginId::new(1).expect("in range"));
    plan.unreferenced_grace = Duration::from_secs(600);
    Machine::start(plan)
}

fn fill(directory: &Path, shape: Shape, chunks: usize) -> Result<()> {
    let home = start(directory);
    let files = match shape {
        Shape::Small => chunks,
        Shape::Large => chunks / IN_A_LIST,
    };
    for file in 0..files {
        let content = match shape {
            Shape::Small => Content::Tree { size: CHUNK as u64, root: put(&home, file)?, depth: 0, holes: 0 },
            Shape::Large => large(&home, file)?,
        };
        let (made, inode) = home.change(create(&format!("file-{file}")));
        let mtime = WallTime::from_nanos(1);
        home.change(Change::Store { file: made, base: inode.version, content, mtime });
    }
    home.stop();
    Ok(())
}

/// The chunk of a number.
fn put(home: &Machine, number: usize) -> Result<Digest> {
    let bytes = bytes::Bytes::copy_from_slice(&(number as u64).to_le_bytes());
    let digest = Digest::of(&bytes);
    home.volume.contents().put(digest, bytes)?;
    Ok(digest)
}

/// A list of chunks.
fn large(home: &Machine, file: usize) -> Result<Content> {
    let entry = |number| Ok(Entry { digest: put(home, file * IN_A_LIST + number)?, len: CHUNK as u64 });
    let entries = (0..IN_A_LIST).map(entry).collect::<Result<Vec<_>>>()?;
    let node = ListNode { level: 1, entries }.encode();
    let root = Digest::of(&node);
    home.volume.contents().put(root, node)?;
    Ok(Content::Tree { size: (IN_A_LIST * CHUNK) as u64, root, depth: 1, holes: 0 })
}
