//! The experiment on sharing, in a very small form: one trial over a line like a LAN.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Quiet, program};
use wayfs_lab::{Options, Summary, Verdict, experiment, run};

#[test]
fn what_one_site_commits_the_other_has_after_its_update() {
    let out = tempfile::tempdir().unwrap();
    let mut options =
        Options { seed: 1, quick: true, out: out.path().to_owned(), program: program(), settings: Default::default() };
    for setting in ["scenarios=local-area", "trials=1", "peers="] {
        options.set(setting).unwrap();
    }
    let summary = match run(experiment("sharing").unwrap(), &options, &Quiet) {
        Ok(summary) => summary,
        Err(error) if error.is_forbidden() => return eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    };
    for tool in ["cvs", "git"] {
        if summary.findings.came_out.contains(&format!("left out: {tool}")) {
            eprintln!("SKIPPED: {tool} is not installed");
            continue;
        }
        let name = format!("{tool}, WayFS, local-area");
        let differ = row(&summary, &format!("files that differ after the update, {name}"));
        assert_eq!(differ.verdict(), Verdict::Met, "{differ:?}");
        let taken = row(&summary, &format!("commit: records that the station took, {name}"));
        let cancelled = row(&summary, &format!("commit: of these cancelled there, {name}"));
        // 17 files, and what the tool writes beside them.
        assert!(taken.ours.mean > 34.0 && cancelled.ours.mean < taken.ours.mean, "{taken:?} {cancelled:?}");
        assert!(!summary.findings.rows.iter().any(|row| row.what.starts_with("trials done")), "{summary:#?}");
    }
}

fn row<'a>(summary: &'a Summary, what: &str) -> &'a wayfs_lab::Row {
    summary.findings.rows.iter().find(|row| row.what == what).unwrap_or_else(|| panic!("no row {what}: {summary:#?}"))
}
