//! A volume between sites, with the real program on emulated lines.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Quiet, program};
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};
use wayfs_lab::{Context, Experiment, Findings, LabError, Options, Sites, SitesPlan, run};

/// Longest time for news to cross.
const SEEN: Duration = Duration::from_secs(60);

#[test]
fn what_one_site_writes_the_other_reads_also_after_an_unmount() {
    carry_out(&Visit);
}

/// Writes at one site and reads at the other.
struct Visit;

impl Experiment for Visit {
    fn name(&self) -> &'static str {
        "visit"
    }

    fn about(&self) -> &'static str {
        "Do two sites share a volume?"
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let mut sites = Sites::start(context, "all", 1, SitesPlan::profiles(&["small-distance", "medium-distance"])?)?;
        fs::write(sites.at(0).join("letter"), "from a").unwrap();
        sites.sync(0, "visible", SEEN)?;
        eventually("the other site reads it", || fs::read(sites.at(1).join("letter")).is_ok_and(|it| it == b"from a"));
        let status = sites.json("client-b", &["status"])?;
        assert!(status.to_string().contains("10.77.0."), "{status}");
        sites.unmount(1)?;
        assert!(!sites.at(1).join("letter").exists());
        sites.remount(1)?;
        assert_eq!(fs::read(sites.at(1).join("letter")).unwrap(), b"from a");
        let failed = sites.wayfs("client-a", &["info", "missing"], SEEN).unwrap_err();
        assert!(failed.to_string().contains("missing"), "{failed}");
        sites.finish(context, "all");
        Ok(Findings::default())
    }
}

/// Runs an experiment, unless the machine forbids it.
fn carry_out(experiment: &dyn Experiment) {
    let out = tempfile::tempdir().unwrap();
    let options =
        Options { seed: 1, quick: true, out: out.path().to_owned(), program: program(), settings: BTreeMap::new() };
    match run(experiment, &options, &Quiet) {
        Ok(_) => {}
        Err(error) if error.is_forbidden() => eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    }
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < SEEN, "not within {SEEN:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
