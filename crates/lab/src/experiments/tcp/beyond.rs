//! What the comparison of 1996 left as future work: asymmetric lines, several lossy hops, many short transfers; each with today's senders, too.

use super::measure::run_all;
use super::schemes;
use super::schemes::Sizes;
use crate::context::Parts;
use crate::wireless::{Hop, Outcome, Reader, Route, Transfer};
use crate::{Context, Estimate, Experiment, Findings, LabError, Row};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use wayfs_hop::Scheme;
use wayfs_link::{Capacity, Duplex};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::experiments) enum Beyond {
    /// A lossy hop that carries 16 and 100 times as much towards the mobile as from it.
    Asymmetric,
    /// Two and three lossy hops, one behind the other.
    Multihop,
    /// Short transfers, a connection each.
    Web,
}

/// End points and hops that run in each.
const ROWS: [&str; 9] = [
    "E2E",
    "E2E-IETF-SACK",
    "LL-TCP-AWARE",
    "LL-STCP-AWARE",
    "ours",
    "E2E-CUBIC",
    "ours, CUBIC",
    "E2E-BBR",
    "ours, BBR",
];
/// Mean bytes between errors of every lossy hop.
const BYTES_PER_ERROR: f64 = 65_536.0;
const BUFFER: u32 = 32 * 1024;
/// Connections of a run of short transfers, bytes of a request, and the range of sizes.
const PAGES: u32 = 60;
const REQUEST_LEN: u32 = 300;
const PAGE_LEN: std::ops::Range<u32> = 1_000..61_000;

impl Experiment for Beyond {
    fn name(&self) -> &'static str {
        match self {
            Self::Asymmetric => "tcp-asymmetric",
            Self::Multihop => "tcp-multihop",
            Self::Web => "tcp-web",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Self::Asymmetric => {
                "TCP over a lossy hop that carries 16 and 100 times as much one way as the other, simulated"
            }
            Self::Multihop => "TCP over two and three lossy hops, simulated",
            Self::Web => "Many short connections over a lossy hop, simulated: how long each takes",
        }
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let columns = self.columns();
        let len = context.choose(256 << 10, 4 << 20);
        let seeds = context.choose(2, 5);
        let mut csv =
            context.csv("runs", &["column", "scheme", "seed", "throughput_mbps", "seconds_per_connection"])?;
        let mut findings = Findings { expected: EXPECTED.into(), ..Findings::default() };
        for (number, (column, hops)) in columns.iter().enumerate() {
            context.progress(Parts { done: number, total: columns.len() }, column);
            for name in ROWS {
                let row = schemes::row(name).ok_or_else(|| LabError::Experiment(format!("{name} is no scheme")))?;
                let route = Route { hops: hops(row.hop()) };
                let seed = |n: u64| context.seed().wrapping_mul(1000) + n;
                let transfers: Vec<Transfer> = (0..seeds).map(|n| self.transfer(&row, &route, len, seed(n))).collect();
                let outcomes = run_all(&transfers);
                for (seed, outcome) in outcomes.iter().enumerate() {
                    let numbers = [outcome.throughput, mean_time(outcome)].map(|number| number.to_string());
                    csv.row(&[&[(*column).to_owned(), name.to_owned(), seed.to_string()][..], &numbers].concat())?;
                }
                findings.rows.push(self.row(column, name, &outcomes));
            }
        }
        csv.finish()?;
        findings.came_out = "The numbers are below; nothing was published to compare them with.".into();
        Ok(findings)
    }
}

type Hops = Box<dyn Fn(Scheme) -> Vec<Hop>>;

impl Beyond {
    fn columns(self) -> Vec<(&'static str, Hops)> {
        let radios = |count: usize| -> Hops {
            Box::new(move |scheme| {
                let radio = Hop::radio(BYTES_PER_ERROR, 1, scheme);
                std::iter::once(Hop::ethernet()).chain(std::iter::repeat_n(radio, count)).collect()
            })
        };
        let asymmetric =
            |rates: Rates| -> Hops { Box::new(move |scheme| vec![Hop::ethernet(), asymmetric(rates, scheme)]) };
        match self {
            Self::Asymmetric => vec![
                ("16 Mb/s down, 1 up", asymmetric(Rates { down: 16_000_000, up: 1_000_000 })),
                ("2 Mb/s down, 0.02 up", asymmetric(Rates { down: 2_000_000, up: 20_000 })),
            ],
            Self::Multihop => vec![("2 lossy hops", radios(2)), ("3 lossy hops", radios(3))],
            Self::Web => vec![
                ("short transfers, LAN", radios(1)),
                (
                    "short transfers, WAN",
                    Box::new(|scheme| vec![Hop::wide_area(), Hop::radio(BYTES_PER_ERROR, 1, scheme)]),
                ),
            ],
        }
    }

    fn transfer(self, row: &schemes::Row, route: &Route, len: u32, seed: u64) -> Transfer {
        let mut transfer = row.over(route.clone(), Sizes { buffer: BUFFER, bytes: len }, seed);
        transfer.reader = Reader::FAST;
        if self == Self::Web {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            transfer.request_len = REQUEST_LEN;
            transfer.sizes =
                (0..PAGES).map(|_| PAGE_LEN.start + random.next_u32() % (PAGE_LEN.end - PAGE_LEN.start)).collect();
        }
        transfer
    }

    fn row(self, column: &str, name: &str, outcomes: &[Outcome]) -> Row {
        let of = |value: fn(&Outcome) -> f64| Estimate::of(&outcomes.iter().map(value).collect::<Vec<f64>>());
        let what = format!("{column}: {name}");
        match self {
            Self::Web => Row::new(what, "s", of(mean_time))
                .note("mean time of a connection, from its opening until the last byte"),
            Self::Asymmetric | Self::Multihop => Row::new(what, "Mb/s", of(|outcome| outcome.throughput)),
        }
    }
}

fn mean_time(outcome: &Outcome) -> f64 {
    outcome.times.iter().sum::<f64>() / outcome.times.len().max(1) as f64
}

/// Bits per second of each way.
#[derive(Debug, Clone, Copy)]
struct Rates {
    down: u64,
    up: u64,
}

/// A hop with a channel for each way.
fn asymmetric(Rates { down, up }: Rates, scheme: Scheme) -> Hop {
    let mut hop = Hop::radio(BYTES_PER_ERROR, 1, scheme);
    hop.duplex = Duplex::Full;
    (hop.line.down.capacity, hop.line.up.capacity) = (Capacity::Rate(down), Capacity::Rate(up));
    hop
}

const EXPECTED: &str = "A hop repaired at its ends (ours) carries what it has whatever the sender and however many hops there are; end to end, each further lossy hop \
and each slower way back costs more. Short transfers fear the timer most: a loss at their end leaves no duplicates.";
