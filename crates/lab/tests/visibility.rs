//! The experiment on visibility, in a very small form: few closes, a backlog of a few seconds.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Quiet, program};
use wayfs_lab::{Options, Verdict, experiment, run};

#[test]
fn every_close_is_seen_and_read_right_at_the_other_site() {
    let out = tempfile::tempdir().unwrap();
    let mut options =
        Options { seed: 1, quick: true, out: out.path().to_owned(), program: program(), settings: Default::default() };
    for setting in ["scenarios=intercontinental", "closes=10", "backlog-mb=4"] {
        options.set(setting).unwrap();
    }
    let summary = match run(experiment("visibility").unwrap(), &options, &Quiet) {
        Ok(summary) => summary,
        Err(error) if error.is_forbidden() => return eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    };
    let row = |what: &str| summary.findings.rows.iter().find(|row| row.what.starts_with(what)).unwrap();
    assert_eq!(row("closes that were never seen or read wrong").verdict(), Verdict::Met);
    for load in ["idle", "backlog"] {
        // A round trip at least: what is faster did not cross the wide area.
        let median = row(&format!("lag, intercontinental, {load}, p50"));
        assert!(median.ours.mean >= 110.0, "{median:?}");
    }
    assert!(out.path().join("visibility/lags.csv").exists());
}
