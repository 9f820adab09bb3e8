//! The experiments on reconciliation and replay, in a very small form, with the real program.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Quiet, program};
use std::collections::BTreeMap;
use std::path::Path;
use wayfs_lab::{LabError, Options, Summary, Verdict, experiment, run};

#[test]
fn a_reconciliation_costs_the_home_less_than_the_published() {
    let Some((summary, _out)) = quick("reconcile", &["only=cost"]) else { return };
    let home: Vec<_> = summary.findings.rows.iter().filter(|row| row.what.starts_with("home time")).collect();
    assert!(!home.is_empty() && home.iter().all(|row| row.verdict() == Verdict::Met), "{home:?}");
    let bytes = summary.findings.rows.iter().find(|row| row.what.contains("record without contents, to the home"));
    // Packed together, records that are alike take some five bytes each, one by one some forty; with a file's contents it would be
    // thousands.
    assert!((1.0..1000.0).contains(&bytes.unwrap().ours.mean), "{bytes:?}");
    assert!(summary.findings.came_out.contains("The home worked"), "{}", summary.findings.came_out);
}

#[test]
fn a_part_that_is_none_is_refused() {
    let out = tempfile::tempdir().unwrap();
    let error = carry_out("reconcile", &["only=nothing"], out.path()).unwrap_err();
    assert!(error.to_string().contains("there is no part nothing"), "{error}");
}

#[test]
fn a_trace_is_replayed_without_failures_and_kept() {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let text = "time_us,operation,file,offset,length\n,file,1,,100000\n0,stat,1,,\n1000,read,1,4096,4096\n2000,create,2,,\n\
                3000,write,2,0,5000\n4000,close,2,,\n5000,rename,2,3,0\n6000,read,3,0,5000\n7000,remove,3,,\n8000,missing,,,\n";
    std::fs::write(trace.path(), text).unwrap();
    let setting = format!("trace={}", trace.path().display());
    let Some((summary, out)) = quick("replay", &[&setting]) else { return };
    let failed = summary.findings.rows.iter().find(|row| row.what == "operations that failed").unwrap();
    assert_eq!(failed.verdict(), Verdict::Met, "{failed:?}");
    assert_eq!(std::fs::read_to_string(out.path().join("replay/trace.csv")).unwrap(), text);
    let raw = std::fs::read_to_string(out.path().join("replay/operations.csv")).unwrap();
    for place in ["local", "\"cold, local-area\"", "\"warm, local-area\""] {
        assert!(raw.contains(&format!("{place},0,rename,")), "{raw}");
    }
}

#[test]
fn a_damaged_trace_is_refused_with_its_line() {
    let trace = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(trace.path(), "time_us,operation,file,offset,length\n0,dance,1,,\n").unwrap();
    let out = tempfile::tempdir().unwrap();
    let error = carry_out("replay", &[&format!("trace={}", trace.path().display())], out.path()).unwrap_err();
    assert!(error.to_string().contains("line 2 of the trace: there is no operation `dance`"), "{error}");
}

/// A quick run and where its results are; `None` if the machine forbids it.
fn quick(name: &str, settings: &[&str]) -> Option<(Summary, tempfile::TempDir)> {
    let out = tempfile::tempdir().unwrap();
    match carry_out(name, settings, out.path()) {
        Ok(summary) => Some((summary, out)),
        Err(error) if error.is_forbidden() => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn carry_out(name: &str, settings: &[&str], out: &Path) -> Result<Summary, LabError> {
    let mut options =
        Options { seed: 1, quick: true, out: out.to_owned(), program: program(), settings: BTreeMap::new() };
    for setting in settings.iter().chain(&["scenarios=local-area"]) {
        options.set(setting)?;
    }
    run(experiment(name).unwrap(), &options, &Quiet)
}
