//! The experiment on the time to safe, in a very small form.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Quiet, program};
use wayfs_lab::{Options, Verdict, experiment, run};

#[test]
fn a_close_is_safe_after_a_round_trip_of_the_lan_and_not_of_the_wide_area() {
    let out = tempfile::tempdir().unwrap();
    let mut options =
        Options { seed: 1, quick: true, out: out.path().to_owned(), program: program(), settings: Default::default() };
    for setting in ["lines=wifi", "closes=15"] {
        options.set(setting).unwrap();
    }
    let summary = match run(experiment("safe").unwrap(), &options, &Quiet) {
        Ok(summary) => summary,
        Err(error) if error.is_forbidden() => return eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    };
    let row = |what: &str| summary.findings.rows.iter().find(|row| row.what.starts_with(what)).unwrap();
    assert_eq!(row("closes that returned before the file was safe").verdict(), Verdict::Met);
    let median = row("time to safe, wifi, p50");
    // A round trip of the air at least: what is faster was not safe at the station.
    assert!(median.ours.mean >= 3.0, "{median:?}");
    let ratio = row("time to safe by its limit, wifi");
    assert!(ratio.ours.mean >= 0.9, "faster than a round trip and a group commit: {ratio:?}");
    assert!(out.path().join("safe/closes.csv").exists());
}
