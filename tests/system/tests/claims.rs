//! Daemons lose their disks after they said what is safe where; whoever is left shows all of it.
//!
//! `WAYFS_CLAIMS_LOSSES`, `WAYFS_CLAIMS_SEED`, `WAYFS_CLAIMS_MINUTES`, `WAYFS_CLAIMS_WORLDS` and `WAYFS_CLAIMS_REPORT` (a file) make it long
//! (`scripts/claims.sh`).

use std::path::PathBuf;
use std::time::Duration;
use wayfs_system_tests::claims::{Kind, Plan, run};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Few losses of each machine's disk, or as many as were asked for of all kinds.
fn plan() -> Plan {
    let long = number("WAYFS_CLAIMS_LOSSES");
    let kinds = std::env::var("WAYFS_CLAIMS_KINDS").unwrap_or_default();
    let wanted = |kind: &Kind| kinds.is_empty() || kinds.split(',').any(|name| name == format!("{kind:?}"));
    Plan {
        seed: number("WAYFS_CLAIMS_SEED").unwrap_or(1),
        losses: long.unwrap_or(2),
        worlds: number("WAYFS_CLAIMS_WORLDS").map_or(1, |worlds| worlds.max(1) as usize),
        losses_in_world: if long.is_some() { 8 } else { 3 },
        stations: 2,
        clients: 3,
        kinds: match long {
            Some(_) => Kind::ALL.into_iter().filter(wanted).collect(),
            None => vec![Kind::ClientLost, Kind::StationLost, Kind::Kill],
        },
        // What died with its writer takes a minute and a half to be declared lost: too long for every day.
        is_strict: number("WAYFS_CLAIMS_STRICT").map_or(long.is_some(), |strict| strict == 1),
        time: Duration::from_secs(number("WAYFS_CLAIMS_MINUTES").map_or(20, |minutes| minutes * 60)),
        diaries: std::env::var_os("WAYFS_CLAIMS_REPORT")
            .map(PathBuf::from)
            .and_then(|path| path.parent().map(PathBuf::from))
            .unwrap_or_else(std::env::temp_dir),
        report: std::env::var_os("WAYFS_CLAIMS_REPORT").map(PathBuf::from),
    }
}

/// [S-losses] [S-duty] [S-facts]
#[test]
fn what_was_claimed_is_there_after_disks_are_lost() {
    let plan = plan();
    let round = run(&plan);
    println!("{}", round.text());
    assert!(round.failures.is_empty(), "{} failures, seeds are above", round.failures.len());
}
