//! Recorded links instead of lines of one rate: cellular networks and a satellite, as mobile users met them.

use super::measure::run_all;
use super::schemes;
use super::schemes::Sizes;
use crate::context::Parts;
use crate::wireless::{Below, Hop, Outcome, Reader, Route, Transfer};
use crate::{Context, Estimate, Experiment, Findings, LabError, LinePlan, Row};
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;
use wayfs_hop::Scheme;
use wayfs_link::{Capacity, DirectionConfig, Duplex, LineConfig};

/// The experiment.
pub(in crate::experiments) struct Recorded;

/// A recording in mahimahi's form, packed: its name, down, up.
const CELLULAR: [(&str, &[u8], &[u8]); 4] = [
    (
        "LTE, AT&T, driving",
        include_bytes!("../../../data/links/ATT-LTE-driving-2016.down.xz"),
        include_bytes!("../../../data/links/ATT-LTE-driving-2016.up.xz"),
    ),
    (
        "LTE, Verizon",
        include_bytes!("../../../data/links/Verizon-LTE-short.down.xz"),
        include_bytes!("../../../data/links/Verizon-LTE-short.up.xz"),
    ),
    (
        "UMTS, T-Mobile, driving",
        include_bytes!("../../../data/links/TMobile-UMTS-driving.down.xz"),
        include_bytes!("../../../data/links/TMobile-UMTS-driving.up.xz"),
    ),
    (
        "EVDO, Verizon, driving",
        include_bytes!("../../../data/links/Verizon-EVDO-driving.down.xz"),
        include_bytes!("../../../data/links/Verizon-EVDO-driving.up.xz"),
    ),
];
/// Megabits per second down and up, second by second.
const SATELLITE: &str = include_str!("../../../data/links/starlink-road.csv");
/// One way; neither is in the recordings.
const CELLULAR_DELAY: Duration = Duration::from_millis(25);
const SATELLITE_DELAY: Duration = Duration::from_millis(20);
/// Bytes that wait for the link.
const QUEUE_LEN: u64 = 512 * 1024;
/// What `wayfs link` puts around a frame: IP, UDP, its seal.
const SEALED_LEN: usize = 58;
/// Socket buffers, beyond what any of them holds.
const BUFFER: u32 = 4 << 20;
/// Mean KB between errors; zero: none but the recording's own pauses.
const ERRORS_KB: [u32; 2] = [0, 64];
/// End points, with and without the hop repaired.
const ROWS: [&str; 4] = ["E2E-CUBIC", "ours, CUBIC", "E2E-BBR", "ours, BBR"];
/// A transfer is as long as the link carries in so many seconds.
const SECONDS: f64 = 30.0;
const SECONDS_QUICK: f64 = 5.0;
/// But no longer than this.
const LEN_MAX: f64 = 64e6;
const LEN_MAX_QUICK: f64 = 3e6;

/// A recording as a line, with what it carries down on the average, in bits per second.
struct Recording {
    name: &'static str,
    line: LineConfig,
    schedule: Vec<(Duration, LineConfig)>,
    mean: f64,
}

impl Experiment for Recorded {
    fn name(&self) -> &'static str {
        "tcp-traces"
    }

    fn about(&self) -> &'static str {
        "TCP over recorded cellular and satellite links, simulated: CUBIC and BBR, with and without the hop repaired"
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let seeds = context.choose(2, 5);
        let (seconds, most) = context.choose((SECONDS_QUICK, LEN_MAX_QUICK), (SECONDS, LEN_MAX));
        let recordings = recordings()?;
        let mut csv = context.csv("runs", &["link", "kb_per_error", "end_points", "seed", "throughput_mbps"])?;
        let mut findings = Findings { expected: EXPECTED.into(), ..Findings::default() };
        for (number, recording) in recordings.iter().enumerate() {
            context.progress(Parts { done: number, total: recordings.len() }, recording.name);
            for kilobytes in ERRORS_KB {
                let mut means = Vec::new();
                for name in ROWS {
                    let seed = |n: u64| context.seed().wrapping_mul(1000) + n;
                    let transfers = (0..seeds).map(|n| {
                        let bytes = (recording.mean * seconds / 8.0).min(most) as u32;
                        let sizes = Sizes { buffer: BUFFER, bytes };
                        recording.transfer(name, kilobytes, sizes, seed(n))
                    });
                    let transfers: Vec<Transfer> = transfers.collect::<Result<_, _>>()?;
                    let outcomes = run_all(&transfers);
                    for (seed, outcome) in outcomes.iter().enumerate() {
                        let words = [recording.name.to_owned(), kilobytes.to_string(), name.to_owned()];
                        csv.row(&[&words[..], &[seed.to_string(), outcome.throughput.to_string()]].concat())?;
                    }
                    let throughput =
                        Estimate::of(&outcomes.iter().map(|it: &Outcome| it.throughput).collect::<Vec<_>>());
                    means.push(throughput.mean);
                    findings.rows.push(recording.row(name, kilobytes, throughput));
                }
                findings.rows.extend(recording.gains(kilobytes, &means));
            }
        }
        csv.finish()?;
        findings.came_out = "The numbers are below; nothing was published to compare them with.".into();
        Ok(findings)
    }
}

impl Recording {
    fn transfer(&self, name: &'static str, kilobytes: u32, sizes: Sizes, seed: u64) -> Result<Transfer, LabError> {
        let row = schemes::row(name).ok_or_else(|| LabError::Experiment(format!("{name} is no scheme")))?;
        let wire = Hop::wire(1_000_000_000, Duration::from_millis(5));
        let route = Route::through(wire, self.hop(kilobytes, row.hop()));
        let mut transfer = row.over(route, sizes, seed);
        transfer.reader = Reader::FAST;
        Ok(transfer)
    }

    fn hop(&self, kilobytes: u32, scheme: Scheme) -> Hop {
        let plain = Hop::wire(1, Duration::ZERO);
        let sealed = if matches!(scheme, Scheme::Arq(_)) { SEALED_LEN } else { 0 };
        Hop {
            line: self.line.clone(),
            schedule: self.schedule.clone(),
            duplex: Duplex::Full,
            bytes_per_error: f64::from(kilobytes) * 1024.0,
            scheme,
            below: Below::Network,
            header_len: plain.header_len + sealed,
            ..plain
        }
    }

    fn row(&self, name: &str, kilobytes: u32, throughput: Estimate) -> Row {
        let share = 100.0 * throughput.mean * 1e6 / self.mean;
        Row::new(format!("{}, {}: {name}", self.name, errors(kilobytes)), "Mb/s", throughput)
            .note(format!("{share:.0} % of what the link carries on the average"))
    }

    /// What the repaired hop adds to each sender.
    fn gains(&self, kilobytes: u32, means: &[f64]) -> Vec<Row> {
        let gain = |pair: &[f64], name: &str| {
            let percent = Estimate::exact(100.0 * (pair[1] / pair[0].max(1e-9) - 1.0));
            Row::new(format!("{}, {}: gained by ours, {name}", self.name, errors(kilobytes)), "%", percent)
        };
        means.chunks(2).zip(["CUBIC", "BBR"]).map(|(pair, name)| gain(pair, name)).collect()
    }
}

fn errors(kilobytes: u32) -> String {
    if kilobytes > 0 { format!("one error per {kilobytes} KB") } else { "no errors".to_owned() }
}

/// What was recorded: names, and lines with their changes.
pub(in crate::experiments) fn recorded_links() -> Result<Vec<(&'static str, LinePlan)>, LabError> {
    let plan = |it: Recording| (it.name, LinePlan { config: it.line, duplex: Duplex::Full, schedule: it.schedule });
    Ok(recordings()?.into_iter().map(plan).collect())
}

fn recordings() -> Result<Vec<Recording>, LabError> {
    let mut recordings = Vec::new();
    for (name, down, up) in CELLULAR {
        let [down, up] = [down, up].map(|packed| -> Result<Capacity, LabError> {
            let text = unpacked(packed)?;
            Capacity::parse_trace(&text).map_err(|error| LabError::Experiment(format!("{name}: {error}")))
        });
        let (down, up) = (down?, up?);
        let mean = down.mean_bits_per_second().unwrap_or_default();
        let line = line(down, up, CELLULAR_DELAY);
        recordings.push(Recording { name, line, schedule: Vec::new(), mean });
    }
    recordings.push(satellite()?);
    Ok(recordings)
}

fn satellite() -> Result<Recording, LabError> {
    let bad = |text: &str| LabError::Experiment(format!("the recording of the satellite has a line `{text}`"));
    let mut steps = Vec::new();
    for text in SATELLITE.lines().skip(1) {
        let (down, up) = text.split_once(',').ok_or_else(|| bad(text))?;
        let rate = |number: &str| number.parse().map(|mbps: f64| (mbps * 1e6) as u64).map_err(|_| bad(text));
        steps.push((rate(down)?.max(1), rate(up)?.max(1)));
    }
    let lines = steps.iter().map(|(down, up)| line(Capacity::Rate(*down), Capacity::Rate(*up), SATELLITE_DELAY));
    let schedule: Vec<(Duration, LineConfig)> = (0..).map(Duration::from_secs).zip(lines).collect();
    let mean = steps.iter().map(|(down, _)| *down as f64).sum::<f64>() / steps.len().max(1) as f64;
    let line = schedule.first().map(|(_, line)| line.clone()).ok_or_else(|| bad(""))?;
    Ok(Recording { name: "satellite, Starlink, driving", line, schedule, mean })
}

fn line(down: Capacity, up: Capacity, delay: Duration) -> LineConfig {
    let way = |capacity| DirectionConfig { capacity, delay, queue_len_max: QUEUE_LEN, ..DirectionConfig::default() };
    LineConfig { down: way(down), up: way(up), ..LineConfig::default() }
}

/// As `xz -dc` unpacks it.
fn unpacked(packed: &[u8]) -> Result<String, LabError> {
    let failed = |message: String| LabError::Tool { tool: "xz (package xz-utils)".into(), message };
    let mut child = Command::new("xz")
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let mut input = child.stdin.take().ok_or_else(|| failed("it has no input".into()))?;
    // Written beside the reading: neither pipe holds everything.
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            // What it did not take shows in how it ends.
            let _ = input.write_all(packed);
        });
        child.wait_with_output()
    });
    let output = output.map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    String::from_utf8(output.stdout).map_err(|_| failed("it gave no text".into()))
}

const EXPECTED: &str = "A link whose rate changes every moment is hard for a sender that guesses it from losses. Where the link loses much beside that, repairing it at \
its ends helps CUBIC. Ours is made for a hop of milliseconds: over a network of tens of them that pauses by itself it takes pauses for losses, asks, and sends nothing until it is \
answered, which costs a round trip each time; where nothing is lost it should be left out.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recording_is_a_link_with_a_rate() {
        let recordings = recordings().unwrap();
        let rates: Vec<(&str, u64)> = recordings.iter().map(|it| (it.name, it.mean as u64 / 10_000)).collect();
        // In units of 10 kb/s, by counting lines.
        assert_eq!(rates.len(), 5);
        assert!(rates.iter().all(|(_, rate)| (10..20_000).contains(rate)), "{rates:?}");
        assert_eq!(recordings[4].schedule.len(), 60);
    }

    #[test]
    fn what_is_no_archive_is_an_error_that_names_the_tool() {
        let error = unpacked(b"nonsense").unwrap_err().to_string();
        assert!(error.contains("xz-utils"), "{error}");
    }
}
