//! `wayfs lab up FILE`: a network to work in by hand, until Ctrl-C.

use super::{failure, print};
use crate::args::Output;
use crate::failure::Failure;
use crate::{show, signals};
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use wayfs_lab::{HostOfNetwork, Network, NetworkFile};

/// How often it is looked whether programs have ended.
const LOOK: Duration = Duration::from_millis(500);

pub(super) fn run(output: Output, file: &Path, logs: &Path) -> Result<(), Failure> {
    let doing = format!("read {}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| Failure::io(&doing, &error))?;
    let plan = NetworkFile::read(&text)
        .map_err(|error| Failure::usage(error, "`wayfs lab up --help` shows what such a file looks like."))?;
    // Caught before anything is there to be taken away.
    let endings = signals::catch().map_err(|error| Failure::io("catch signals", &error))?;
    let directory = file.parent().unwrap_or(Path::new("."));
    let mut network = plan.up(directory, logs).map_err(failure)?;
    print(&begun(output, network.hosts()))?;
    while let Err(RecvTimeoutError::Timeout) = endings.recv_timeout(LOOK) {
        for said in network.ended() {
            eprintln!("{said}");
        }
    }
    print(&ended(output, &network))
}

/// What is there, and how to get in.
fn begun(output: Output, hosts: &[HostOfNetwork]) -> String {
    let enter = |host: &HostOfNetwork| format!("nsenter --net={}", host.network.display());
    match output {
        Output::Json => {
            let list: Vec<_> = hosts
                .iter()
                .map(|host| serde_json::json!({ "host": host.name, "address": host.address, "network": host.network }))
                .collect();
            format!("{}\n", serde_json::json!({ "hosts": list }))
        }
        Output::Text => {
            let rows: Vec<Vec<String>> =
                hosts.iter().map(|host| vec![host.name.clone(), host.address.to_string(), enter(host)]).collect();
            let table = show::table(&["HOST", "ADDRESS", "RUN A COMMAND THERE WITH"], &rows);
            format!("{table}\nThe network stays until Ctrl-C.\n")
        }
    }
}

/// What its lines carried.
fn ended(output: Output, network: &Network) -> String {
    let ways: Vec<_> = network
        .statistics()
        .into_iter()
        .flat_map(|(name, line)| [(format!("{name}, up"), line.up), (format!("{name}, down"), line.down)])
        .collect();
    let lost = |way: &wayfs_lab::WayStatistics| {
        way.lost_to_errors + way.lost_at_random + way.lost_to_bad_periods + way.lost_to_cuts + way.lost_to_overflow
    };
    match output {
        Output::Json => {
            let list: Vec<_> = ways
                .iter()
                .map(|(name, way)| {
                    serde_json::json!({
                        "line": name, "delivered": way.delivered, "delivered_bytes": way.delivered_len,
                        "dropped": way.dropped, "lost": lost(way)
                    })
                })
                .collect();
            format!("{}\n", serde_json::json!({ "lines": list }))
        }
        Output::Text => {
            let rows: Vec<Vec<String>> = ways
                .iter()
                .map(|(name, way)| {
                    let numbers = [way.delivered, way.delivered_len, way.dropped, lost(way)];
                    std::iter::once(name.clone()).chain(numbers.map(|number| number.to_string())).collect()
                })
                .collect();
            show::table(&["LINE", "DELIVERED", "BYTES", "DROPPED", "LOST"], &rows)
        }
    }
}
