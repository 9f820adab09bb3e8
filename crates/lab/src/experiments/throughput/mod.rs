//! How much of a long line contents get, up and down, beside TCP with BBR on the same line.
//!
//! Windows that are fixed make a long fast line slow: so many bytes in a round trip, whatever the line could carry. So one large
//! file goes home from a client by way of its station, and another, which a machine at another site brought home, is read
//! there for the first time; over the same emulated line the kernel's TCP with BBR carries as many bytes, from station to home and back.
//! Other file systems, whose server is at the home, read and write as much where they are installed.

mod findings;
mod lines;
mod ours;
mod tcp;
mod theirs;

use super::chosen::{chosen, number};
use crate::context::Parts;
use crate::peers::{self, PEERS};
use crate::{Context, Experiment, Findings, LabError};
use lines::{LINES, Line, QUICK};
use std::time::Duration;

/// The experiment.
pub(super) struct Throughput;

/// Longest time for one transfer.
const PATIENCE: Duration = Duration::from_secs(600);
/// Room for what is under way on the longest line, in sockets of TCP: their bounds, as the kernel has them.
const SOCKET_BUFFER: &str = "4096 131072 67108864";

/// Which way contents go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// To the home.
    Up,
    /// From the home.
    Down,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

const WAYS: [Way; 2] = [Way::Up, Way::Down];

/// One transfer.
#[derive(Debug, Clone, Default)]
struct Transfer {
    took: Duration,
    len: u64,
    /// Bytes that were there, by the time since the begin.
    notes: Vec<(Duration, u64)>,
}

impl Transfer {
    /// In MB/s.
    fn rate(&self) -> f64 {
        self.len as f64 / 1e6 / self.took.as_secs_f64()
    }
}

/// What somebody made of a line: up and down, as often as it was tried.
#[derive(Debug, Clone, Default)]
struct Tried {
    who: &'static str,
    ways: [Vec<Transfer>; 2],
}

/// Everything of one line.
#[derive(Debug)]
struct Cell {
    line: Line,
    ours: Tried,
    tcp: Tried,
    peers: Vec<Tried>,
    /// Peers that did not get it done, and why.
    failures: Vec<(&'static str, String)>,
    /// Most bytes that client, station and home ever had in memory.
    memory: [u64; 3],
}

/// How much is measured.
struct Extent {
    lines: Vec<Line>,
    /// A file is as long as what the line carries in this time.
    milliseconds: u64,
    trials: usize,
}

impl Experiment for Throughput {
    fn name(&self) -> &'static str {
        "throughput"
    }

    fn about(&self) -> &'static str {
        "How much of long fast lines do contents get, up and down, beside TCP with BBR and other file systems?"
    }

    fn settings(&self) -> &'static [&'static str] {
        &["lines", "milliseconds", "peers", "trials"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let listed = context.setting("lines").is_some();
        let all = if context.is_quick() && !listed { QUICK } else { LINES };
        let extent = Extent {
            lines: chosen(context, "lines", all, |line| line.name)?,
            milliseconds: number(context, "milliseconds", context.choose(2_000, 4_000))?,
            trials: number(context, "trials", context.choose(1, 3))?,
        };
        let listed = context.setting("peers").is_some();
        let all = if context.is_quick() && !listed { &[] } else { PEERS };
        let (peers, absent): (Vec<_>, Vec<_>) = chosen(context, "peers", all, |peer| peer.name())?
            .into_iter()
            .partition(|peer| peers::missing(*peer).is_empty());
        let total = extent.lines.len() * (1 + peers.len());
        let mut cells = Vec::new();
        for line in &extent.lines {
            context.progress(Parts { done: cells.len() * (1 + peers.len()), total }, line.name);
            let mut cell = ours::measure(context, *line, &extent)?;
            for peer in &peers {
                let done = cells.len() * (1 + peers.len()) + 1 + cell.peers.len() + cell.failures.len();
                context.progress(Parts { done, total }, &format!("{}, {}", line.name, peer.name()));
                match theirs::measure(context, *peer, *line, &extent) {
                    Ok(tried) => cell.peers.push(tried),
                    Err(error) => cell.failures.push((peer.name(), error.to_string())),
                }
            }
            cells.push(cell);
        }
        context.progress(Parts { done: total, total }, "done");
        let absent: Vec<&str> = absent.iter().map(|peer| peer.name()).collect();
        findings::tell(context, &cells, &absent)
    }
}
