//! The experiment on throughput, in a very small form.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Quiet, program};
use wayfs_lab::{Options, experiment, run};

#[test]
fn contents_cross_both_ways_no_faster_than_the_line() {
    let out = tempfile::tempdir().unwrap();
    let mut options =
        Options { seed: 1, quick: true, out: out.path().to_owned(), program: program(), settings: Default::default() };
    for setting in ["lines=satellite-600ms", "milliseconds=300"] {
        options.set(setting).unwrap();
    }
    let summary = match run(experiment("throughput").unwrap(), &options, &Quiet) {
        Ok(summary) => summary,
        Err(error) if error.is_forbidden() => return eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    };
    let rate = |what: &str| summary.findings.rows.iter().find(|row| row.what == what).unwrap().ours.mean;
    for way in ["up", "down"] {
        for who in ["TCP with BBR", "WayFS"] {
            let rate = rate(&format!("{who}, satellite-600ms, {way}"));
            // What is faster did not cross the line.
            assert!(rate > 0.0 && rate <= 12.5, "{who}, {way}: {rate} MB/s");
        }
    }
    assert!(rate("most memory of the client, satellite-600ms") > 1.0);
    assert!(out.path().join("throughput/transfers.csv").exists());
}
