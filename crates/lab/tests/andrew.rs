//! The Andrew benchmark in a very small form: a program of two modules, two scenarios, one peer.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Quiet, program};
use std::collections::BTreeMap;
use wayfs_lab::peers::{PEERS, missing};
use wayfs_lab::{Options, Summary, Verdict, experiment, run};

#[test]
fn the_benchmark_runs_beside_a_peer_and_a_peer_across_the_wide_area_is_slower() {
    let out = tempfile::tempdir().unwrap();
    let settings =
        [("modules", "2"), ("scenarios", "local-area,small-distance"), ("peers", "sshfs"), ("peer-bound-s", "15")];
    let settings = settings.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
    let settings: BTreeMap<String, String> = settings.collect();
    let options = Options { seed: 1, quick: true, out: out.path().to_owned(), program: program(), settings };
    match run(experiment("andrew").unwrap(), &options, &Quiet) {
        Ok(summary) => judge(&summary),
        Err(error) if error.is_forbidden() => eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    }
}

fn judge(summary: &Summary) {
    let row = |what: &str| {
        let row = summary.findings.rows.iter().find(|row| row.what == what);
        row.unwrap_or_else(|| panic!("no row {what}: {:#?}", summary.findings))
    };
    for state in ["cold", "warm"] {
        assert!(row(&format!("{state}, small-distance: more than in the local area")).ours.mean > -90.0);
    }
    assert!((0.0..=100.0).contains(&row("safe elsewhere at return, WayFS, small-distance").ours.mean));
    assert_eq!(summary.data, ["times.csv", "crossed.csv", "safety.csv"]);
    if !missing(*PEERS.iter().find(|peer| peer.name() == "sshfs").unwrap()).is_empty() {
        assert!(summary.findings.came_out.contains("Not installed: sshfs"));
        return;
    }
    assert_eq!(row("sshfs, small-distance, cold, by WayFS").verdict(), Verdict::Met);
    // What sshfs closed is at its server.
    assert_eq!(row("safe elsewhere at return, sshfs, local-area").ours.mean, 100.0);
}
