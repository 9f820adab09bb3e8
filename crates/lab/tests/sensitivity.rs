//! The sensitivity experiment in a very small form: one parameter, short loads.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Quiet, program};
use std::collections::BTreeMap;
use std::path::Path;
use wayfs_lab::nfs::NfsServer;
use wayfs_lab::{LabError, Options, Summary, experiment, run};

/// Of a request and its answer, at 4 ms one way.
const CROSSINGS_NEAR_MS: f64 = 8.0;
/// Of a request and its answer, at 200 ms one way.
const CROSSINGS_FAR_MS: f64 = 400.0;

#[test]
fn a_call_waits_for_both_crossings_and_a_warm_operation_for_none_of_the_wide_area() {
    let out = tempfile::tempdir().unwrap();
    let summary = match carry_out(out.path()) {
        Ok(summary) => summary,
        Err(error) if error.is_forbidden() => return eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    };
    let levels = levels(&out.path().join("sensitivity/levels.csv"));
    if NfsServer::is_installed() {
        let far: Vec<&Level> =
            levels.iter().filter(|level| level.system == "NFS/UDP" && level.value >= 4000.0).collect();
        assert!(far.len() >= 3 && far.iter().all(|level| level.response_ms >= CROSSINGS_NEAR_MS), "{far:?}");
    } else {
        assert!(summary.findings.came_out.contains("not installed"), "{}", summary.findings.came_out);
        eprintln!("SKIPPED: nfs-ganesha or rpcbind is not installed");
    }
    for system in ["far, safe writes", "far, programs"] {
        let far = levels.iter().filter(|level| level.system == system && level.value >= 200_000.0);
        // On a machine with other work some loads wait for that; not all of them do.
        let fastest =
            far.filter(|level| level.delivered > 0.0).map(|level| level.response_ms).fold(f64::INFINITY, f64::min);
        assert!(fastest < CROSSINGS_FAR_MS, "{system}: {levels:?}");
    }
    let cold: Vec<&Level> =
        levels.iter().filter(|level| level.system == "far, cold reads" && level.value >= 200_000.0).collect();
    // Contents that are only at the home cannot be here before a request and its answer have crossed.
    assert!(!cold.is_empty() && cold.iter().all(|level| level.response_ms >= CROSSINGS_FAR_MS), "{cold:?}");
    assert!(levels.iter().all(|level| level.failed == 0.0), "{levels:?}");
    assert!(summary.findings.rows.len() > 10 && summary.findings.figures.len() > 4);
}

/// A line of the raw data.
#[derive(Debug)]
struct Level {
    system: String,
    value: f64,
    delivered: f64,
    response_ms: f64,
    failed: f64,
}

fn carry_out(out: &Path) -> Result<Summary, LabError> {
    let typed = [("systems", "nfs-udp,far"), ("parameters", "L"), ("level_ms", "250")];
    let settings: BTreeMap<String, String> = typed.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let options = Options { seed: 1, quick: true, out: out.to_owned(), program: program(), settings };
    run(experiment("sensitivity").unwrap(), &options, &Quiet)
}

fn levels(path: &Path) -> Vec<Level> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(level).collect()
}

/// Names may hold commas and are quoted then; numbers follow from the right.
fn level(line: &str) -> Level {
    let (rest, numbers) = line.rsplit_once(",L,").unwrap();
    let numbers: Vec<f64> = numbers.split(',').map(|number| number.parse().unwrap()).collect();
    let [value, _share, _offered, delivered, response_ms, _low, _high, _p99, failed] = numbers[..] else {
        panic!("{line}")
    };
    Level { system: rest.trim_matches('"').to_owned(), value, delivered, response_ms, failed }
}
