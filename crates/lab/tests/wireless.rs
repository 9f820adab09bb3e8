//! TCP over lossy hops, simulated: the tables run, repeat, and say what they should.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::Quiet;
use std::collections::BTreeMap;
use std::path::Path;
use wayfs_lab::{Options, Summary, experiment, run};

fn summary(name: &str, seed: u64, out: &Path) -> Summary {
    // Cells on real stacks have tests of their own.
    let settings = BTreeMap::from([("real".to_owned(), "false".to_owned())]);
    let options = Options { seed, quick: true, out: out.to_owned(), program: "wayfs".into(), settings };
    run(experiment(name).unwrap(), &options, &Quiet).unwrap()
}

fn mean(summary: &Summary, what: &str) -> f64 {
    let row = summary.findings.rows.iter().find(|row| row.what == what);
    row.unwrap_or_else(|| panic!("no row {what}")).ours.mean
}

#[test]
fn runs_of_errors_cost_snoop_most_and_ours_least_and_a_code_does_not_help() {
    let out = tempfile::tempdir().unwrap();
    let summary = summary("tcp-bursts", 1, out.path());
    let at = |scheme: &str| mean(&summary, &format!("runs of 6: {scheme}"));
    assert!(at("LL-TCP-AWARE") < at("LL-STCP-AWARE") && at("LL-STCP-AWARE") < at("ours"));
    assert!(at("ours") > 1.2, "{}", at("ours"));
    assert!(at("fec:12,10") < at("LL-TCP-AWARE"));
    assert_eq!(mean(&summary, "runs of 2: LL-STCP-AWARE, wired goodput").round(), 100.0);
}

#[test]
fn one_seed_is_one_result_and_another_is_another() {
    let cells = |seed| {
        let out = tempfile::tempdir().unwrap();
        summary("tcp-error-rates", seed, out.path());
        std::fs::read_to_string(out.path().join("tcp-error-rates/cells.csv")).unwrap()
    };
    let first = cells(3);
    assert_eq!(first, cells(3));
    assert_ne!(first, cells(4));
}

#[test]
fn the_wide_area_table_shows_what_was_published_and_windows_over_time() {
    let out = tempfile::tempdir().unwrap();
    let summary = summary("tcp-wan", 1, out.path());
    let at = |scheme: &str| mean(&summary, &format!("WAN, 32 KB: {scheme}"));
    // Nothing is lost and nothing is repeated.
    assert_eq!(mean(&summary, "WAN, 32 KB: no losses, wireless goodput"), 100.0);
    assert!(at("E2E") < at("E2E-ELN") && at("SPLIT") < at("SPLIT-SMART") && at("E2E") < at("LL-TCP-AWARE"));
    assert!(summary.findings.rows.iter().filter(|row| row.published.is_some()).count() > 20);
    let titles: Vec<&str> = summary.findings.figures.iter().map(|figure| figure.title.as_str()).collect();
    assert!(titles.iter().any(|title| title.contains("both sides of SPLIT")), "{titles:?}");
    assert!(summary.findings.figures.iter().all(|figure| figure.series.iter().all(|series| !series.points.is_empty())));
}

#[test]
fn a_hop_repaired_at_its_ends_carries_more_whatever_lies_beside_it() {
    let out = tempfile::tempdir().unwrap();
    let summary = summary("tcp-multihop", 1, out.path());
    for hops in ["2 lossy hops", "3 lossy hops"] {
        let at = |scheme: &str| mean(&summary, &format!("{hops}: {scheme}"));
        assert!(at("ours") > at("E2E") && at("ours, CUBIC") > at("E2E-CUBIC"), "{hops}");
    }
}

#[test]
fn short_transfers_and_slow_ways_back_end_whatever_the_scheme() {
    for name in ["tcp-web", "tcp-asymmetric"] {
        let out = tempfile::tempdir().unwrap();
        let summary = summary(name, 1, out.path());
        assert_eq!(summary.findings.rows.len(), 18);
        assert!(summary.findings.rows.iter().all(|row| row.ours.mean > 0.0), "{name}: {:#?}", summary.findings.rows);
    }
}

#[test]
fn recorded_links_carry_something_whoever_sends_and_a_repaired_one_more_where_it_loses() {
    let out = tempfile::tempdir().unwrap();
    let summary = summary("tcp-traces", 1, out.path());
    for link in ["LTE, Verizon", "satellite, Starlink, driving"] {
        let at = |scheme: &str| mean(&summary, &format!("{link}, one error per 64 KB: {scheme}"));
        assert!(at("E2E-CUBIC") > 0.0 && at("ours, CUBIC") > at("E2E-CUBIC"), "{link}");
        // Where nothing is lost it costs its headers, and what its start takes of a short transfer.
        let clean = |scheme: &str| mean(&summary, &format!("{link}, no errors: {scheme}"));
        assert!(clean("ours, CUBIC") > 0.8 * clean("E2E-CUBIC"), "{link}: {}", clean("ours, CUBIC"));
    }
    let shares = summary.findings.rows.iter().filter(|row| row.unit == "Mb/s");
    assert!(shares.clone().count() == 40 && shares.clone().all(|row| row.ours.mean > 0.0));
}
