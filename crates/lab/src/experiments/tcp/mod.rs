//! TCP over a lossy hop, in simulation: the tables of 1996, beside what was published.
//!
//! The end points are those of crate `tcp`, what is done about the hop is that of crate `hop`, and both meet the lines of crate `link` in
//! `crate::wireless`. Nothing here needs rights or networks, and one seed is one result.

mod beside;
mod beyond;
mod measure;
mod published;
mod rank;
mod real;
mod recorded;
mod schemes;
mod table;
mod traces;
mod validate;

use crate::{Context, Experiment, Findings, LabError};
pub(super) use beyond::Beyond;
pub(super) use recorded::{Recorded, recorded_links};
use table::{Column, Table};
pub(super) use validate::Validate;

/// A table, or a row of one, as an experiment.
pub(super) struct Tables(pub(super) Which);

/// Which one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    /// A LAN before the hop, sockets of 8 and 32 KB.
    Lan,
    /// A WAN before the hop, sockets of 32 KB.
    Wan,
    /// Errors that take two, four and six packets.
    Bursts,
    /// One error per 16 to 256 KB.
    ErrorRates,
}

impl Experiment for Tables {
    fn name(&self) -> &'static str {
        match self.0 {
            Which::Lan => "tcp-lan",
            Which::Wan => "tcp-wan",
            Which::Bursts => "tcp-bursts",
            Which::ErrorRates => "tcp-error-rates",
        }
    }

    fn about(&self) -> &'static str {
        match self.0 {
            Which::Lan => {
                "TCP over a lossy hop behind a LAN, simulated: twelve published schemes and ours, sockets of 8 and 32 KB"
            }
            Which::Wan => {
                "TCP over a lossy hop behind a WAN, simulated: twelve published schemes and ours, windows over time"
            }
            Which::Bursts => {
                "TCP over a hop that loses runs of 2, 4 and 6 packets, simulated: snoop, with selective acknowledgements, ours"
            }
            Which::ErrorRates => "TCP over a hop with one error per 16 to 256 KB, simulated",
        }
    }

    fn settings(&self) -> &'static [&'static str] {
        &["real"]
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let table = self.table();
        let measured = measure::measure(context, &table)?;
        let mut findings = table::findings(&table, &measured);
        if matches!(self.0, Which::Lan | Which::Wan) {
            findings.figures.extend(traces::figures(context, self.0)?);
        }
        let (rows, said) = beside::rows(context, &table)?;
        findings.rows.extend(rows);
        findings.came_out.extend(said.map(|said| format!(" {said}")));
        Ok(findings)
    }
}

/// Schemes that the comparison had not, in the tables of LAN and WAN.
const BEYOND: [&str; 8] =
    [published::OURS, "ll", "ll-order", "ll-sack", "E2E-CUBIC", "ours, CUBIC", "E2E-BBR", "ours, BBR"];

impl Tables {
    fn table(&self) -> Table {
        match self.0 {
            Which::Lan => main_table(&[("LAN, 8 KB", 0, schemes::lan(8192)), ("LAN, 32 KB", 1, schemes::lan(32_768))]),
            Which::Wan => main_table(&[("WAN, 32 KB", 2, schemes::wan(32_768))]),
            Which::Bursts => bursts(),
            Which::ErrorRates => error_rates(),
        }
    }
}

/// Columns of the published table, by their place in it.
fn main_table(columns: &[(&str, usize, schemes::Setting)]) -> Table {
    let column = |(name, place, setting): &(&str, usize, schemes::Setting)| {
        let theirs = published::TABLE.iter().map(|(name, cells)| (*name, cells[*place]));
        let ours = BEYOND.iter().map(|name| (*name, None));
        Column { name: (*name).to_owned(), x: 0.0, setting: setting.clone(), cells: theirs.chain(ours).collect() }
    };
    Table { columns: columns.iter().map(column).collect(), x: None }
}

fn bursts() -> Table {
    let column = |(n, run): (usize, u32)| {
        let theirs = published::BURSTS_TABLE.iter().map(|(name, cells)| (*name, published::throughput(cells[n])));
        let ours = ["ours", "ll-sack", "fec:12,10", "E2E-BBR", "ours, BBR"].map(|name| (name, None));
        let setting = schemes::Setting { run, ..schemes::lan(32_768) };
        Column { name: format!("runs of {run}"), x: f64::from(run), setting, cells: theirs.chain(ours).collect() }
    };
    let columns = published::BURSTS.into_iter().enumerate().map(column).collect();
    Table { columns, x: Some(("packets that an error takes", "")) }
}

fn error_rates() -> Table {
    let column = |(n, kilobytes): (usize, u32)| {
        let theirs = published::RATES_TABLE.iter().map(|(name, cells)| (*name, published::throughput(cells[n])));
        let ours = ["ours", "E2E-CUBIC", "E2E-BBR", "ours, BBR"].map(|name| (name, None));
        let setting = schemes::Setting { bytes_per_error: 1024.0 * f64::from(kilobytes), ..schemes::lan(32_768) };
        let name = format!("one per {kilobytes} KB");
        Column { name, x: f64::from(kilobytes), setting, cells: theirs.chain(ours).collect() }
    };
    let columns = published::RATES_KB.into_iter().enumerate().map(column).collect();
    Table { columns, x: Some(("mean between errors", "KB")) }
}
