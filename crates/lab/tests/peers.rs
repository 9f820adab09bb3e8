//! File systems of others on emulated lines: each that is installed serves a home and two clients.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::Quiet;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wayfs_lab::peers::{PEERS, Peer, missing};
use wayfs_lab::{Context, Experiment, Findings, LabError, Options, Sites, SitesPlan, run};

/// Longest time for something written to be seen elsewhere: rclone looks at a directory anew after five minutes, so
/// nothing here asks that of it.
const SEEN: Duration = Duration::from_secs(30);

#[test]
fn every_installed_peer_carries_files_between_its_server_and_its_clients() {
    for peer in PEERS {
        let missing = missing(*peer);
        if missing.is_empty() {
            carry_out(&Visit(*peer));
        } else {
            eprintln!("SKIPPED: {}: not installed: {missing:?}", peer.name());
        }
    }
}

/// Reads what the server has, and looks there for what it wrote.
struct Visit(&'static dyn Peer);

impl Experiment for Visit {
    fn name(&self) -> &'static str {
        "visit"
    }

    fn about(&self) -> &'static str {
        "Does a peer serve?"
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        let sites = Sites::network(context, "all", 1, SitesPlan::profiles(&["local-area", "small-distance"])?)?;
        let mut server = self.0.serve(&sites)?;
        fs::write(server.tree().join("letter"), "from home").unwrap();
        let clients = [server.mount(&sites, 0)?, server.mount(&sites, 1)?];
        for client in &clients {
            assert_eq!(fs::read(client.at().join("letter")).unwrap(), b"from home", "{}", self.0.name());
        }
        fs::write(clients[1].at().join("answer"), "from b").unwrap();
        let (answer, begin) = (server.tree().join("answer"), Instant::now());
        while !fs::read(&answer).is_ok_and(|it| it == b"from b") {
            assert!(begin.elapsed() < SEEN, "{}: not at the server within {SEEN:?}", self.0.name());
            std::thread::sleep(Duration::from_millis(50));
        }
        let bytes = sites.lab().statistics(sites.wide(1)).up.delivered_len;
        assert!(bytes > 0, "{} did not use the emulated line", self.0.name());
        let place = clients[0].at().to_owned();
        drop(clients);
        assert!(!place.join("letter").exists());
        drop(server);
        sites.finish(context, "all");
        Ok(Findings::default())
    }
}

fn carry_out(experiment: &dyn Experiment) {
    let out = tempfile::tempdir().unwrap();
    let options = Options {
        seed: 1,
        quick: true,
        out: out.path().to_owned(),
        program: PathBuf::new(),
        settings: BTreeMap::new(),
    };
    match run(experiment, &options, &Quiet) {
        Ok(_) => {}
        Err(error) if error.is_forbidden() => eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    }
}
