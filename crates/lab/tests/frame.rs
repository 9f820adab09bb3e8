//! The frame around experiments, with one that needs no network.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wayfs_lab::{
    Aim, Axis, Context, Estimate, Experiment, Figure, Findings, LabError, Options, Origin, Parts, Progress, Row,
    Series, Style, Summary, report, run,
};

#[test]
fn a_run_leaves_raw_data_a_summary_and_a_page() {
    let out = tempfile::tempdir().unwrap();
    let watcher = Watcher::default();
    let summary = run(&Dice, &options(out.path(), 7), &watcher).unwrap();
    assert_eq!(*watcher.0.borrow(), ["0/2 throwing", "2/2 done"]);
    let directory = out.path().join("dice");
    let data = std::fs::read_to_string(directory.join("throws.csv")).unwrap();
    assert_eq!(data, "number,eyes\n0,7\n1,8\n");
    let read: Summary =
        serde_json::from_str(&std::fs::read_to_string(directory.join("summary.json")).unwrap()).unwrap();
    assert_eq!(read, summary);
    assert_eq!((read.seed, read.quick, &read.data[..]), (7, true, &["throws.csv".to_owned()][..]));
    let page = std::fs::read_to_string(directory.join("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("throws.csv") && page.contains("--seed 7 --quick"));
}

#[test]
fn a_report_draws_every_run_of_a_directory_anew() {
    let out = tempfile::tempdir().unwrap();
    run(&Dice, &options(out.path(), 7), &Watcher::default()).unwrap();
    std::fs::remove_file(out.path().join("dice/report.html")).unwrap();
    let index = report(out.path()).unwrap();
    assert!(std::fs::read_to_string(index).unwrap().contains("dice/report.html"));
    assert!(out.path().join("dice/report.html").exists());
}

#[test]
fn a_directory_without_runs_or_with_a_broken_one_is_refused() {
    let out = tempfile::tempdir().unwrap();
    assert!(matches!(report(out.path()), Err(LabError::Experiment(_))));
    std::fs::write(out.path().join("summary.json"), "{}").unwrap();
    assert!(report(out.path()).unwrap_err().to_string().contains("summary.json"));
    assert!(matches!(report(&out.path().join("missing")), Err(LabError::Io { .. })));
}

#[test]
fn settings_are_keys_with_values() {
    let mut options = options(Path::new("/nowhere"), 1);
    options.set("trace=a=b.csv").unwrap();
    assert_eq!(options.settings["trace"], "a=b.csv");
    assert!(options.set("trace").unwrap_err().to_string().contains("KEY=VALUE"));
    assert!(options.set("=x").is_err());
}

/// A setting that nobody heeds would only seem to be one: `wayfs lab run` refuses it.
#[test]
fn settings_that_no_experiment_knows_are_refused() {
    let mut options = options(Path::new("nowhere"), 1);
    for known in ["trials=3", "awake=false"] {
        options.set(known).unwrap();
    }
    let all = [wayfs_lab::experiment("andrew").unwrap(), wayfs_lab::experiment("replay").unwrap()];
    wayfs_lab::check_settings(&all, &options).unwrap();
    let error = wayfs_lab::check_settings(&all[1..], &options).unwrap_err().to_string();
    assert!(error.contains("`trials`") && error.contains("awake, below, scenarios, seconds, speed, trace"), "{error}");
}

/// An experiment that needs nothing.
struct Dice;

impl Experiment for Dice {
    fn name(&self) -> &'static str {
        "dice"
    }

    fn about(&self) -> &'static str {
        "How many eyes?"
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        context.progress(Parts { done: 0, total: 2 }, "throwing");
        let mut csv = context.csv("throws", &["number", "eyes"])?;
        let throws = [0, 1].map(|number| context.seed() + number);
        for (number, eyes) in (0..).zip(throws) {
            csv.row(&[number, eyes])?;
        }
        csv.finish()?;
        context.progress(Parts { done: 2, total: 2 }, "done");
        let eyes = throws.map(|eyes| eyes as f64);
        Ok(Findings {
            expected: "3.5".into(),
            came_out: "more".into(),
            why_they_differ: "it is loaded".into(),
            rows: vec![Row::new("eyes", "", Estimate::of(&eyes)).published(3.5).aim(Aim::AtMost(6.0))],
            figures: vec![Figure {
                title: "Eyes".into(),
                x: Axis::linear("throw", ""),
                y: Axis::linear("eyes", ""),
                series: vec![Series::new("ours", Style::Lines, Origin::Measured, [(0.0, eyes[0]), (1.0, eyes[1])])],
                caption: "Two throws.".into(),
            }],
        })
    }
}

#[derive(Default)]
struct Watcher(RefCell<Vec<String>>);

impl Progress for Watcher {
    fn show(&self, Parts { done, total }: Parts, what: &str) {
        self.0.borrow_mut().push(format!("{done}/{total} {what}"));
    }
}

fn options(out: &Path, seed: u64) -> Options {
    Options { seed, quick: true, out: out.to_owned(), program: PathBuf::from("wayfs"), settings: BTreeMap::new() }
}
