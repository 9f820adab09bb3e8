//! Runs experiments without the program `wayfs` around them, which is quicker to build while one works on them:
//!
//! ```text
//! cargo run --profile perf -p wayfs-lab --example lab -- OUT [--quick] [KEY=VALUE...] NAME...
//! ```
//! Experiments that need the program take it from `$WAYFS_BIN`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use wayfs_lab::{LabError, Options, Parts, Progress, experiment, report, run};

struct Terminal;

impl Progress for Terminal {
    fn show(&self, Parts { done, total }: Parts, what: &str) {
        eprintln!("{done}/{total} {what}");
    }
}

fn main() -> Result<(), LabError> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    arguments.retain(|argument| argument != "--quick");
    let usage = || LabError::Experiment("usage: lab OUT [--quick] [KEY=VALUE...] NAME...".into());
    let (out, names) = arguments.split_first().ok_or_else(usage)?;
    let program = std::env::var_os("WAYFS_BIN").map_or_else(|| PathBuf::from("wayfs"), PathBuf::from);
    let mut options = Options { seed: 1, quick, out: out.into(), program, settings: BTreeMap::new() };
    let (settings, names): (Vec<&String>, Vec<&String>) = names.iter().partition(|word| word.contains('='));
    for setting in settings {
        options.set(setting)?;
    }
    for name in names {
        let experiment = experiment(name).ok_or_else(usage)?;
        let summary = run(experiment, &options, &Terminal)?;
        for row in &summary.findings.rows {
            let verdict = row.verdict();
            println!("{:50} {:12.3} {:8} {:?} {verdict:?}", row.what, row.ours.mean, row.unit, row.published);
        }
        for part in summary.rejected() {
            println!("rejected: {} {:?}", part.part, part.lateness);
        }
    }
    println!("{}", report(&options.out)?.display());
    Ok(())
}
