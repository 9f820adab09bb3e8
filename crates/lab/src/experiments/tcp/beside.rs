//! Cells of the tables on real stacks: what today's kernel, and `wayfs link`, carry over the same lines in real time.
//!
//! They stand beside the simulated ones, not in their place: the kernel has fine timers, and its reno is NewReno.

use super::real::{self, Case};
use super::schemes::{BUFFER_MODERN, Setting};
use super::table::Table;
use crate::context::Parts;
use crate::wireless::Hop;
use crate::{Context, Estimate, LabError, Row, link_tool};
use wayfs_hop::Scheme;
use wayfs_link::LineConfig;

/// Name, congestion control, selective acknowledgements, scheme of `wayfs link`.
const CELLS: [(&str, &str, bool, Option<&str>); 15] = [
    ("kernel, reno", "reno", false, None),
    ("kernel, reno with SACK", "reno", true, None),
    ("kernel, cubic", "cubic", true, None),
    ("kernel, bbr", "bbr", true, None),
    ("kernel, reno, link ll", "reno", false, Some("ll")),
    ("kernel, reno, link ll-sack", "reno", false, Some("ll-sack")),
    ("kernel, reno, link snoop", "reno", false, Some("snoop")),
    ("kernel, reno, link ll-order", "reno", false, Some("ll-order")),
    ("kernel, reno with SACK, link snoop-sack", "reno", true, Some("snoop-sack")),
    // The base's own connection has the congestion control of its machine.
    ("kernel, reno, link split", "reno", false, Some("split")),
    ("kernel, reno with SACK, link split-sack", "reno", true, Some("split-sack")),
    ("kernel, reno, link ours", "reno", false, Some("ours")),
    ("kernel, cubic, link ours", "cubic", true, Some("ours")),
    ("kernel, bbr, link ours", "bbr", true, Some("ours")),
    (AGAINST_RUNS, "reno", false, Some("fec:12,10")),
];
/// Stands where errors take several packets.
const AGAINST_RUNS: &str = "kernel, reno, link fec:12,10";
const LEN: u32 = 4 << 20;
const LEN_QUICK: u32 = 512 << 10;

/// Rows of all columns that can be run here, and what to say if none can. The setting `real=false` leaves them out.
pub(super) fn rows(context: &mut Context<'_>, table: &Table) -> Result<(Vec<Row>, Option<String>), LabError> {
    if context.setting("real") == Some("false") {
        return Ok((Vec::new(), None));
    }
    let tool = link_tool::is_there(context.program());
    let columns: Vec<_> = table.columns.iter().collect();
    let has_runs = columns.iter().any(|column| column.setting.run > 1);
    let is_of_table =
        |name: &str, scheme: Option<&str>| (scheme.is_none() || tool) && (has_runs || name != AGAINST_RUNS);
    let cells: Vec<_> = CELLS.into_iter().filter(|(name, _, _, scheme)| is_of_table(name, *scheme)).collect();
    let seeds = context.choose(2, 5);
    let mut cases = Vec::new();
    for column in &columns {
        for (_, control, sack, scheme) in &cells {
            for n in 0..seeds {
                let sender = Sender { control, sack: *sack, scheme: *scheme };
                cases.push(case(context, &column.setting, sender, n));
            }
        }
    }
    context.progress(Parts { done: 0, total: 1 }, "kernel");
    let done = match real::run_all(context, &cases) {
        Ok(done) => done,
        Err(error) if error.is_forbidden() => {
            return Ok((Vec::new(), Some(format!("No cells on real stacks: {error}."))));
        }
        Err(error) => return Err(error),
    };
    let mut csv = context.csv("kernel", &["column", "cell", "seed", "throughput_mbps", "retransmitted"])?;
    let (mut rows, mut left) = (Vec::new(), done.iter());
    for column in &columns {
        for (name, ..) in &cells {
            let runs: Vec<_> = left.by_ref().take(seeds as usize).collect();
            for (seed, run) in runs.iter().enumerate() {
                let Some(run) = run else { continue };
                let numbers = [seed.to_string(), run.throughput.to_string(), run.retransmitted.to_string()];
                csv.row(&[&[column.name.clone(), (*name).to_owned()][..], &numbers].concat())?;
            }
            let counted: Vec<f64> = runs.iter().filter_map(|run| Some(run.as_ref()?.throughput)).collect();
            let late = runs.len() - counted.len();
            let row = Row::new(format!("{}: {name}", column.name), "Mb/s", Estimate::of(&counted));
            rows.push(if late > 0 { row.note(format!("{late} runs rejected for lateness")) } else { row });
        }
    }
    csv.finish()?;
    let missing = "`wayfs link` is not in this program: cells with it are left out.";
    Ok((rows, (!tool).then(|| missing.to_owned())))
}

/// Who sends, and over which link.
struct Sender {
    /// The kernel's congestion control.
    control: &'static str,
    /// Whether it takes selective acknowledgements.
    sack: bool,
    /// The scheme of `wayfs link`, if that is between.
    scheme: Option<&'static str>,
}

fn case(context: &Context<'_>, setting: &Setting, Sender { control, sack, scheme }: Sender, n: u64) -> Case {
    let mut radio = Hop::radio(0.0, 1, Scheme::None);
    let mean = (setting.bytes_per_error > 0.0).then_some(setting.bytes_per_error);
    for way in [&mut radio.line.up, &mut radio.line.down] {
        way.overhead_len += radio.header_len as u64;
        way.bytes_per_bit_error = mean;
        way.error_run = setting.run;
    }
    let wire: LineConfig = setting.wire.line.clone();
    Case {
        control,
        sack,
        scheme,
        wire,
        radio: radio.line,
        duplex: radio.duplex,
        window: if control == "reno" { setting.buffer } else { setting.buffer.max(BUFFER_MODERN) },
        len: context.choose(LEN_QUICK, LEN),
        seed: context.seed().wrapping_mul(1000) + n,
    }
}
