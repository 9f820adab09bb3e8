//! The experiments of the NFS papers on real stacks, cut short: they run, compare every byte, and say what they should.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::Quiet;
use std::collections::BTreeMap;
use std::path::Path;
use wayfs_lab::nfs::NfsServer;
use wayfs_lab::{LabError, Options, Summary, experiment, run};

/// A quick run with these settings; `None` where the machine has no server or may not.
fn summary(name: &str, settings: &[(&str, &str)], out: &Path) -> Option<Summary> {
    if !NfsServer::is_installed() {
        eprintln!("SKIPPED: nfs-ganesha or rpcbind is not installed");
        return None;
    }
    match run(experiment(name).unwrap(), &options(settings, out), &Quiet) {
        Ok(summary) => Some(summary),
        Err(error) if error.is_forbidden() => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn options(settings: &[(&str, &str)], out: &Path) -> Options {
    let settings: BTreeMap<String, String> =
        settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    // This program has no `link`: its rows are left out.
    Options { seed: 1, quick: true, out: out.to_owned(), program: "/bin/false".into(), settings }
}

fn mean(summary: &Summary, what: &str) -> f64 {
    let row = summary.findings.rows.iter().find(|row| row.what == what);
    let rows: Vec<&str> = summary.findings.rows.iter().map(|row| row.what.as_str()).collect();
    row.unwrap_or_else(|| panic!("no row {what} in {rows:#?}")).ours.mean
}

const SMALL: [(&str, &str); 2] = [("runs", "1"), ("kilobytes", "128")];

#[test]
fn a_small_receive_buffer_makes_reads_slow_and_reservation_ends_that() {
    let out = tempfile::tempdir().unwrap();
    let Some(summary) = summary("nfs-overflow", &SMALL, out.path()) else { return };
    // What overflows waits for a timer of 0.7 s each time: far beyond what a machine's noise does.
    assert!(mean(&summary, "reads over writes: small buffer") > 1.5);
    assert!(
        mean(&summary, "small buffer: read, bad 0 ms")
            > 1.2 * mean(&summary, "small buffer, reservation: read, bad 0 ms")
    );
    let csv = std::fs::read_to_string(out.path().join("nfs-overflow/transfers.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 3 * 2, "{csv}");
    assert!(summary.findings.figures.iter().any(|figure| figure.series.len() == 3));
}

#[test]
fn a_hop_that_holds_packets_spares_the_client_its_timer_and_a_missing_tool_is_told() {
    let out = tempfile::tempdir().unwrap();
    // Long enough for several bad periods.
    let Some(summary) = summary("nfs-link", &[("runs", "3"), ("kilobytes", "256")], out.path()) else { return };
    assert!(summary.findings.came_out.contains("`wayfs link` is not in this program"));
    let csv = std::fs::read_to_string(out.path().join("nfs-link/transfers.csv")).unwrap();
    let resent = |row: &str| -> u64 {
        let lines = csv.lines().filter(|line| line.contains(row) && line.contains(",160,"));
        lines.map(|line| line.split(',').rev().nth(2).unwrap().parse::<u64>().unwrap()).sum()
    };
    assert!(resent("no changes") > resent("held"), "{csv}");
    // Files of another size than the published ones are not compared with them.
    assert!(summary.findings.rows.iter().all(|row| row.published.is_none()));
}

#[test]
fn nonsense_in_settings_is_an_error_that_names_what_is_wanted() {
    if !NfsServer::is_installed() {
        eprintln!("SKIPPED: nfs-ganesha or rpcbind is not installed");
        return;
    }
    let out = tempfile::tempdir().unwrap();
    for (key, value, wanted) in [
        ("durations", "gaussian", "uniform20"),
        ("judged", "later", "driver"),
        ("scheme", "fec", "ll-sack"),
        ("runs", "0", "at least 1"),
        ("side-by-side", "x", "a number"),
    ] {
        let error = run(experiment("nfs-backoff").unwrap(), &options(&[(key, value)], out.path()), &Quiet).unwrap_err();
        assert!(matches!(&error, LabError::Experiment(said) if said.contains(wanted) && said.contains(key)), "{error}");
    }
}
