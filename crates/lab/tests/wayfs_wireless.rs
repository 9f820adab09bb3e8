//! The experiment of WayFS over a bad hop: a small run of it measures everything that it says.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::{Quiet, program};
use std::collections::BTreeMap;
use wayfs_lab::nfs::NfsServer;
use wayfs_lab::{Options, experiment, run};

#[test]
fn a_mount_with_and_without_the_link_and_an_export_are_measured_on_the_hop_and_on_a_recording() {
    let out = tempfile::tempdir().unwrap();
    let mut carriers = vec!["both", "both-link"];
    if NfsServer::is_installed() {
        carriers.extend(["nfs-udp", "nfs-tcp-link"]);
    }
    let settings =
        [("carriers", carriers.join(",")), ("kilobytes", "16".into()), ("files", "2".into()), ("closes", "2".into())];
    let settings: BTreeMap<String, String> = settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let options = Options { seed: 1, quick: true, out: out.path().to_owned(), program: program(), settings };
    match run(experiment("wayfs-wireless").unwrap(), &options, &Quiet) {
        Ok(_) => {}
        Err(error) if error.is_forbidden() => return eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    }
    let table = std::fs::read_to_string(out.path().join("wayfs-wireless/wayfs-wireless.csv")).unwrap();
    for carrier in carriers {
        for air in ["bad 0 ms", "bad 160 ms", "LTE"] {
            for what in ["write", "read", "tree", "safe"] {
                let is_there = table.lines().any(|row| {
                    row.starts_with(&format!("{carrier},")) && row.contains(air) && row.contains(&format!(",{what},"))
                });
                assert!(is_there, "{carrier}, {air}, {what}: {table}");
            }
        }
    }
}
