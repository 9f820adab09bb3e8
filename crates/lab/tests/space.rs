//! The experiment on space, in a very small form, without a removal: that takes ten minutes.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Quiet, program};
use wayfs_lab::{Options, experiment, run};

#[test]
fn whoever_has_a_file_has_space_for_it() {
    let out = tempfile::tempdir().unwrap();
    let mut options =
        Options { seed: 1, quick: true, out: out.path().to_owned(), program: program(), settings: Default::default() };
    for setting in ["megabytes=4", "settle-s=2"] {
        options.set(setting).unwrap();
    }
    let summary = match run(experiment("space").unwrap(), &options, &Quiet) {
        Ok(summary) => summary,
        Err(error) if error.is_forbidden() => return eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    };
    // Bytes that cannot be compressed lie at the machines of both sites and at the home.
    for place in ["writer", "its station", "home", "reader's station", "reader"] {
        let what = format!("most space, {place}");
        let row = summary.findings.rows.iter().find(|row| row.what == what).unwrap();
        assert!(row.ours.mean >= 0.95, "{row:?}");
    }
    assert!(out.path().join("space/space.csv").exists());
}
