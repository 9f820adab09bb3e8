//! The end points of crate `tcp` beside those of the kernel, over the same lines: before the tables are believed.

use super::measure;
use super::real::{self, Case};
use crate::context::Parts;
use crate::wireless::{Hop, Reader, Route, Transfer};
use crate::{Aim, Axis, Context, Estimate, Experiment, Figure, Findings, LabError, Origin, Row, Series, Style};
use wayfs_hop::Scheme as HopScheme;
use wayfs_tcp::{Config, Scheme};

/// The experiment.
pub(in crate::experiments) struct Validate;

/// How far a simulated throughput may be from the kernel's.
const TOLERANCE: f64 = 0.10;
/// What the mobile advertises, in bytes.
const WINDOW: u32 = 64 * 1024;
/// Mean KB between errors; zero: none.
const ERRORS_KB: [u32; 3] = [0, 256, 64];
const LEN: u32 = 4 << 20;
const LEN_QUICK: u32 = 1 << 20;

/// What is compared: its name, the kernel's control, selective acknowledgements, ours.
const PAIRS: [(&str, &str, bool, Scheme); 4] = [
    ("reno without SACK", "reno", false, Scheme::NewReno),
    ("reno with SACK", "reno", true, Scheme::Sack),
    ("cubic", "cubic", true, Scheme::Cubic),
    ("bbr", "bbr", true, Scheme::Bbr),
];

/// A path under a rate of errors.
struct Path {
    name: String,
    wire: Hop,
    radio: Hop,
}

impl Experiment for Validate {
    fn name(&self) -> &'static str {
        "tcp-validate"
    }

    fn about(&self) -> &'static str {
        "The simulated end points of TCP beside the kernel's, over the same emulated lines: throughput and windows"
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let (len, seeds) = (context.choose(LEN_QUICK, LEN), context.choose(3, 8));
        let paths = paths();
        let cells: Vec<(&Path, usize)> =
            paths.iter().flat_map(|path| (0..PAIRS.len()).map(move |pair| (path, pair))).collect();
        let seed = |n: u64| context.seed().wrapping_mul(1000) + n;
        let (mut cases, mut transfers) = (Vec::new(), Vec::new());
        for (path, pair) in &cells {
            let (_, control, sack, scheme) = PAIRS[*pair];
            for n in 0..seeds {
                cases.push(Case {
                    control,
                    sack,
                    scheme: None,
                    wire: path.wire.line.clone(),
                    radio: path.radio.line.clone(),
                    duplex: path.radio.duplex,
                    window: WINDOW,
                    len,
                    seed: seed(n),
                });
                transfers.push(simulated(path, scheme, len, seed(n)));
            }
        }
        context.progress(Parts { done: 0, total: 2 }, "kernel");
        let kernel = real::run_all(context, &cases)?;
        context.progress(Parts { done: 1, total: 2 }, "simulated");
        let ours = measure::run_all(&transfers);
        let mut csv = context.csv("throughput", &["path", "end_points", "run", "kernel_mbps", "simulated_mbps"])?;
        let mut findings = Findings { expected: EXPECTED.into(), ..Findings::default() };
        for (cell, (path, pair)) in cells.iter().enumerate() {
            let all = cell * seeds as usize..(cell + 1) * seeds as usize;
            let of_kernel: Vec<f64> = kernel[all.clone()].iter().flatten().map(|it| it.throughput).collect();
            let of_ours: Vec<f64> = ours[all.clone()].iter().map(|outcome| outcome.throughput).collect();
            for (n, number) in all.clone().enumerate() {
                let said = kernel[number].as_ref().map_or(String::new(), |it| it.throughput.to_string());
                let names = [path.name.clone(), PAIRS[*pair].0.to_owned(), n.to_string()];
                csv.row(&[&names[..], &[said, of_ours[n].to_string()]].concat())?;
            }
            findings.rows.extend(rows(&path.name, PAIRS[*pair].0, &of_kernel, &of_ours));
            if path.name.contains("64 KB") {
                let first = kernel[all.start].as_ref();
                findings.figures.push(windows(&path.name, PAIRS[*pair].0, first, &ours[all.start]));
            }
        }
        csv.finish()?;
        let ratios = findings.rows.iter().filter(|row| row.unit.is_empty());
        let met = ratios.clone().filter(|row| row.verdict() == crate::Verdict::Met).count();
        findings.came_out =
            format!("{met} of {} simulated throughputs are within 10 % of the kernel's.", ratios.count());
        Ok(findings)
    }
}

/// The radio of the tables and the wires before it; errors are the line's own, so that kernel and simulation meet the same.
fn paths() -> Vec<Path> {
    let mut paths = Vec::new();
    for (place, wire) in [("LAN", Hop::ethernet()), ("WAN", Hop::wide_area())] {
        for kilobytes in ERRORS_KB {
            let mut radio = Hop::radio(0.0, 1, HopScheme::None);
            radio.line.up.overhead_len += radio.header_len as u64;
            radio.line.down.overhead_len += radio.header_len as u64;
            radio.header_len = 0;
            let mean = (kilobytes > 0).then_some(f64::from(kilobytes) * 1024.0);
            (radio.line.up.bytes_per_bit_error, radio.line.down.bytes_per_bit_error) = (mean, mean);
            let mut wire = wire.clone();
            wire.header_len = 0;
            // An even way: packets in bunches make the kernel's timer end while nothing is lost, which is another experiment.
            wire.line.down.delay += wire.line.down.jitter / 2;
            wire.line.down.jitter = std::time::Duration::ZERO;
            let errors = if kilobytes > 0 { format!("one error per {kilobytes} KB") } else { "no errors".to_owned() };
            paths.push(Path { name: format!("{place}, {errors}"), wire, radio });
        }
    }
    paths
}

fn simulated(path: &Path, scheme: Scheme, len: u32, seed: u64) -> Transfer {
    let end = Config { buffer: WINDOW, ..Config::modern(scheme) };
    let route = Route::through(path.wire.clone(), path.radio.clone());
    let mut transfer = Transfer::new(route, end, end, len, seed);
    transfer.reader = Reader::FAST;
    // The kernel keeps more to be sent than the mobile has room for.
    transfer.fixed.buffer = 4 * WINDOW;
    transfer
}

fn rows(path: &str, pair: &str, kernel: &[f64], ours: &[f64]) -> Vec<Row> {
    let what = format!("{path}: {pair}");
    if kernel.is_empty() {
        return vec![
            Row::new(what, "Mb/s", Estimate::of(ours)).note("the emulator was late in every run of the kernel"),
        ];
    }
    let (kernel, ours) = (Estimate::of(kernel), Estimate::of(ours));
    vec![
        Row::new(format!("{what}, kernel"), "Mb/s", kernel),
        Row::new(format!("{what}, simulated"), "Mb/s", ours),
        Row::new(format!("{what}, simulated over kernel"), "", ours.over(&kernel))
            .aim(Aim::Between(1.0 - TOLERANCE, 1.0 + TOLERANCE)),
    ]
}

fn windows(path: &str, pair: &str, kernel: Option<&real::Transferred>, ours: &crate::wireless::Outcome) -> Figure {
    let theirs = kernel.map(|it| it.windows.clone()).unwrap_or_default();
    let simulated = ours.trace.iter().map(|trace| (trace.at, trace.cwnd));
    Figure {
        title: format!("Congestion window: {path}, {pair}"),
        x: Axis::linear("time", "s"),
        y: Axis::linear("window", "KB"),
        series: vec![
            Series::new("kernel", Style::Steps, Origin::Measured, theirs),
            Series::new("simulated", Style::Steps, Origin::Model, simulated),
        ],
        caption: "One transfer each; losses fall on the same rate of bytes, not on the same packets.".to_owned(),
    }
}

const EXPECTED: &str = "The simulated end points carry what the kernel's carry over the same lines, within 10 %: Linux's reno without selective acknowledgements is NewReno. \
Timestamps, tail loss probes and F-RTO are off, the smallest timeout is 200 ms in both.";
