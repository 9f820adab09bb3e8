//! A host that spends processor time on its packets.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::time::Duration;
use wayfs_lab::probe::{self, Planned};
use wayfs_lab::{LabError, LinePlan, Link, Topology};

/// Far more than a packet takes on a busy machine.
const OVERHEAD: Duration = Duration::from_millis(20);

#[test]
fn every_packet_of_a_burdened_end_costs_its_time_both_ways_until_the_burden_ends() {
    match burdened() {
        Ok(()) => {}
        Err(error) if error.is_forbidden() => eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    }
}

fn burdened() -> Result<(), LabError> {
    let mut lab = Topology::new(1)?;
    for host in ["client", "server"] {
        lab.host(host)?;
    }
    lab.reserve("server", 1)?;
    let line = lab.link("client", "server", LinePlan::default())?;
    assert!(lab.burden(line, "nobody", OVERHEAD).is_err());
    lab.burden(line, "server", OVERHEAD)?;
    let overhead_us = OVERHEAD.as_secs_f64() * 1e6;
    for (from, to) in [("client", "server"), ("server", "client")] {
        let delays = delays(&lab, from, to)?;
        assert_eq!(delays.len(), 20, "{from} to {to}");
        assert!(delays.iter().all(|delay| *delay >= overhead_us), "{delays:?}");
    }
    end(&lab, line)?;
    let free = delays(&lab, "client", "server")?;
    assert!(free.iter().any(|delay| *delay < overhead_us), "{free:?}");
    Ok(())
}

fn end(lab: &Topology, line: Link) -> Result<(), LabError> {
    lab.burden(line, "server", Duration::ZERO)
}

fn delays(lab: &Topology, from: &str, to: &str) -> Result<Vec<f64>, LabError> {
    let plan: Vec<Planned> = (0..20).map(|n| Planned { at: Duration::from_millis(n), len: 100 }).collect();
    let probes = probe::packets(lab, from, to, &plan, Duration::from_secs(2))?;
    Ok(probes.iter().filter_map(probe::Probe::delay_us).collect())
}
