//! What is compared: clients, what is done about the hop, and under which conditions.

use super::Nfs;
use std::time::Duration;
use wayfs_link::{BadPeriods, Durations, Met, ReceiverConfig, WhenFull};
use wayfs_nfs::live::Block;
use wayfs_nfs::retry::{Exponential, Hybrid, Retry};

/// Mean length of good periods, in milliseconds.
pub(super) const GOOD_MS: u64 = 1000;
/// Mean lengths of bad periods.
pub(super) const BAD_MS: [u64; 5] = [0, 40, 80, 120, 160];
/// What was best then.
pub(super) const BLOCK: u32 = 4096;
/// Smallest timeout of the clients of 1996, in milliseconds.
pub(super) const FIRST_MS: u64 = 700;
/// Linear retries, published.
pub(super) const LINEAR: u32 = 3;
/// By how much they grow, in milliseconds: not published; `nfs-backoff` sweeps it.
pub(super) const STEP_MS: u64 = 100;

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    Read,
    Write,
}

impl Way {
    pub(super) const BOTH: [Self; 2] = [Self::Read, Self::Write];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// What is done about the hop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Hop {
    /// Nothing.
    Bare,
    /// The driver holds packets in bad periods and lets them go at their end, as the papers emulated retransmission.
    Held,
    /// `wayfs link` at both ends, with the scheme of this name.
    Tool(&'static str),
}

/// A receive buffer of the mobile that is too small for what comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Buffer {
    /// The kernel's of today.
    Ample,
    /// A few packets, and what finds it full is lost.
    Small,
    /// The same, and nothing is sent before there is room.
    Reserved,
}

/// Packets that a small receive buffer takes, and what the mobile needs for each (1500 bytes take 12 ms of the air).
pub(super) const SMALL_PACKETS: usize = 4;
pub(super) const SMALL_PER_PACKET: Duration = Duration::from_millis(18);

/// How a client goes about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Client {
    pub(super) retry: Retry,
    pub(super) block: Block,
    pub(super) in_flight_max: usize,
}

/// A row of a table: who does what.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) client: Client,
    pub(super) hop: Hop,
    pub(super) buffer: Buffer,
}

/// What a row meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Condition {
    pub(super) way: Way,
    pub(super) bad_ms: u64,
    /// Clients that transfer at the same time over one channel.
    pub(super) clients: usize,
}

impl Row {
    fn classic(name: &str, retry: Retry, block: u32) -> Self {
        let client = Client { retry, block: Block::Fixed(block), in_flight_max: 1 };
        Self { name: name.to_owned(), client, hop: Hop::Bare, buffer: Buffer::Ample }
    }

    pub(super) fn ours() -> Self {
        let client = Client { retry: Retry::Ours, block: Block::Auto, in_flight_max: 64 };
        Self { name: OURS.to_owned(), client, hop: Hop::Bare, buffer: Buffer::Ample }
    }

    fn over(self, hop: Hop, name: &str) -> Self {
        Self { hop, name: name.to_owned(), ..self }
    }

    pub(super) fn no_changes() -> Self {
        Self::classic(NO_CHANGES, exponential(FIRST_MS), BLOCK)
    }

    pub(super) fn hybrid() -> Self {
        Self::classic(HYBRID, hybrid(RECOMMENDED), BLOCK)
    }
}

/// Names of rows that findings ask for.
pub(super) const OURS: &str = "ours";
pub(super) const OURS_TOOL: &str = "ours, wayfs link";
pub(super) const NO_CHANGES: &str = "no changes";
pub(super) const HYBRID: &str = "hybrid";
pub(super) const HELD: &str = "link, held";
pub(super) const REAL: &str = "link, wayfs link";
pub(super) const BOTH: &str = "both, held";
pub(super) const BOTH_REAL: &str = "both, wayfs link";

fn exponential(first_ms: u64) -> Retry {
    Retry::Exponential(Exponential { first: Duration::from_millis(first_ms) })
}

/// Parameters of the hybrid scheme.
struct Parameters {
    first_ms: u64,
    linear: u32,
    step_ms: u64,
}

/// Those that the papers recommend.
const RECOMMENDED: Parameters = Parameters { first_ms: FIRST_MS, linear: LINEAR, step_ms: STEP_MS };

fn hybrid(Parameters { first_ms, linear, step_ms }: Parameters) -> Retry {
    Retry::Hybrid(Hybrid { first: Duration::from_millis(first_ms), linear, step: Duration::from_millis(step_ms) })
}

/// Schemes of `wayfs link` that make sense for datagrams.
pub(super) const SCHEMES: [&str; 4] = ["ours", "ll", "ll-order", "ll-sack"];
/// The scheme of `wayfs link` that runs here unless the setting `scheme` says otherwise.
const TOOL: Hop = Hop::Tool("ours");

impl Nfs {
    /// Rows of the experiment. In the sweep one thing differs at a time.
    pub(super) fn rows(self) -> Vec<Row> {
        match self {
            Self::Backoff => backoff(),
            Self::BlockSize => block_size(),
            Self::Link => {
                vec![Row::no_changes(), Row::no_changes().over(Hop::Held, HELD), Row::no_changes().over(TOOL, REAL)]
            }
            Self::Both => vec![
                Row::no_changes(),
                Row::hybrid(),
                Row::no_changes().over(Hop::Held, HELD),
                Row::no_changes().over(TOOL, REAL),
                Row::hybrid().over(Hop::Held, BOTH),
                Row::hybrid().over(TOOL, BOTH_REAL),
                Row::ours(),
                Row::ours().over(TOOL, OURS_TOOL),
            ],
            Self::TwoClients => vec![
                Row::no_changes(),
                Row::hybrid().over(Hop::Held, BOTH),
                Row::ours(),
                Row::ours().over(TOOL, OURS_TOOL),
            ],
            Self::Overflow => overflow(),
        }
    }

    /// Conditions of the experiment, with these mean bad periods and at most so many clients.
    pub(super) fn conditions(self, bad_ms: &[u64], clients_max: usize) -> Vec<Condition> {
        let counts: &[usize] = match self {
            Self::TwoClients => &[1, 2, 4, 8],
            Self::Backoff | Self::BlockSize | Self::Link | Self::Both | Self::Overflow => &[1],
        };
        let bad_ms = if self == Self::Overflow { &[0][..] } else { bad_ms };
        let mut conditions = Vec::new();
        for way in Way::BOTH {
            for bad_ms in bad_ms {
                for clients in counts.iter().filter(|count| **count <= clients_max) {
                    // More than two are for fairness: the two ends of the range tell.
                    if *clients <= 2 || matches!(bad_ms, 0 | 160) {
                        conditions.push(Condition { way, bad_ms: *bad_ms, clients: *clients });
                    }
                }
            }
        }
        conditions
    }
}

fn backoff() -> Vec<Row> {
    let mut rows = vec![Row::no_changes(), Row::hybrid(), Row::ours()];
    for first in [100, 200, 400, 1000] {
        let seconds = first as f64 / 1000.0;
        rows.push(Row::classic(&format!("first {seconds} s, exponential"), exponential(first), BLOCK));
        rows.push(Row::classic(
            &format!("first {seconds} s, hybrid"),
            hybrid(Parameters { first_ms: first, ..RECOMMENDED }),
            BLOCK,
        ));
    }
    for linear in [1, 6] {
        rows.push(Row::classic(&format!("hybrid, r = {linear}"), hybrid(Parameters { linear, ..RECOMMENDED }), BLOCK));
    }
    for step in [20, 50, 200, 500] {
        let seconds = step as f64 / 1000.0;
        rows.push(Row::classic(
            &format!("hybrid, c = {seconds} s"),
            hybrid(Parameters { step_ms: step, ..RECOMMENDED }),
            BLOCK,
        ));
    }
    rows
}

fn block_size() -> Vec<Row> {
    let sizes = [1024, 2048, 4096, 8192];
    let bare = sizes.map(|size| Row::classic(&format!("{size} bytes"), exponential(FIRST_MS), size));
    let both = sizes.map(|size| {
        let row = Row::classic("", hybrid(RECOMMENDED), size);
        row.over(Hop::Held, &format!("{size} bytes, both"))
    });
    // Ours chooses its size, with as many calls in flight as the sizes that it is compared with, and with its own number.
    let mut chosen = Row::classic("chosen size", exponential(FIRST_MS), BLOCK);
    chosen.client.block = Block::Auto;
    bare.into_iter().chain(both).chain([chosen, Row::ours()]).collect()
}

fn overflow() -> Vec<Row> {
    // Four calls in flight, as the four daemons of a client of that time had.
    let client = Client { in_flight_max: 4, ..Row::no_changes().client };
    let row = |name: &str, buffer| Row { name: name.to_owned(), client, hop: Hop::Bare, buffer };
    vec![
        row("ample buffer", Buffer::Ample),
        row("small buffer", Buffer::Small),
        row("small buffer, reservation", Buffer::Reserved),
    ]
}

/// How lengths of periods are drawn, by name.
pub(super) fn durations(name: &str) -> Option<(Durations, Duration)> {
    match name {
        "uniform" => Some((Durations::Uniform, Duration::ZERO)),
        "uniform20" => Some((Durations::Uniform, Duration::from_millis(20))),
        "exponential" => Some((Durations::Exponential, Duration::ZERO)),
        "deterministic" => Some((Durations::Fixed, Duration::ZERO)),
        _ => None,
    }
}

/// Bad periods of a row under a condition; none without bad time.
pub(super) fn bad_periods(hop: Hop, bad_ms: u64, model: BadPeriods) -> Option<BadPeriods> {
    let met = if hop == Hop::Held { Met::Held } else { model.met };
    let bad_mean = Duration::from_millis(bad_ms);
    (bad_ms > 0).then_some(BadPeriods { good_mean: Duration::from_millis(GOOD_MS), bad_mean, met, ..model })
}

impl Buffer {
    /// As the model of the line has it.
    pub(super) fn receiver(self) -> Option<ReceiverConfig> {
        let when_full = match self {
            Self::Ample => return None,
            Self::Small => WhenFull::Lost,
            Self::Reserved => WhenFull::NotSent,
        };
        Some(ReceiverConfig { packets_max: SMALL_PACKETS, per_packet: SMALL_PER_PACKET, when_full })
    }
}
