//! The numbers of one daemon, held against each other, and against those of others when all is quiet.

use super::statement::{is_nothing, is_over, volume_of};
use super::world::{Client, World};
use crate::process::Finished;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Looks until one met no change meanwhile.
pub(super) const LOOKS: usize = 6;
/// Longest time for the last number to become zero once all is stable: what died with its writer is declared lost when its holder
/// has been gone for 30 s and nobody else said within another 30 that he has it, and a busy machine takes its time.
const QUIET: Duration = Duration::from_secs(150);

/// Longest time for a read to end, of bytes that nobody gives.
const READS_END: Duration = Duration::from_secs(60);

/// How a comparison went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    /// All agreed.
    Equal,
    /// The numbers changed in every look.
    Moving,
}

/// The numbers of a ledger that stand still when nothing happens.
pub(super) fn still(ledger: &Value) -> Value {
    let mut still = ledger.clone();
    for part in ["not_safe", "at_station", "home_lacks"] {
        if let Some(amount) = still[part].as_object_mut() {
            amount.remove("oldest_ms");
        }
    }
    if let Some(all) = still.as_object_mut() {
        all.remove("why");
        all.remove("next_step");
    }
    still
}

fn status_of(client: &Client) -> Result<Value, String> {
    let answer = client.tool(&["status", "--json"]);
    if !answer.status.success() {
        return Err(format!("status: {} {}", answer.code(), answer.err));
    }
    Ok(volume_of(&answer.json()).clone())
}

/// Compares what one mount says in `status`, `queue`, `metrics`, `doctor` and `sync`.
///
/// # Errors
/// Two numbers that differ while nothing changes.
pub(super) fn compare(client: &Client) -> Result<Compared, String> {
    let mut last = Ok(Compared::Moving);
    for _ in 0..LOOKS {
        let first = status_of(client)?;
        let queue = client.tool(&["queue", "--json", "--limit", "10000"]).ok().json();
        let metrics = client.tool(&["metrics"]).ok().out;
        // It fails when anything is bad; the facts are told anyhow.
        let doctor = client.tool(&["doctor", "--json"]).json();
        // What is reached is reached at once, but for a busy machine.
        let patience = if is_nothing(&first["ledger"]["not_safe"]) { "30" } else { "1" };
        let sync = is_over(&client.tool(&["sync", "--json", "--until", "safe", "--timeout", patience]));
        let again = status_of(client)?;
        if still(&first["ledger"]) != still(&again["ledger"]) {
            continue;
        }
        let found = differences(&first, &queue, &metrics, &doctor).or_else(|| of_sync(&first["ledger"], sync));
        last = found.map_or(Ok(Compared::Equal), Err);
        if last.is_ok() {
            return last;
        }
    }
    last
}

pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// A number of the metrics; missing is none.
pub(super) fn metric(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name) && line[name.len()..].starts_with('{'))?;
    line.rsplit(' ').next()?.parse::<f64>().ok().map(|value| value as u64)
}

/// The first two numbers that differ.
fn differences(status: &Value, queue: &Value, metrics: &str, doctor: &Value) -> Option<String> {
    let ledger = &status["ledger"];
    let open = metric(metrics, "wayfs_open_dirty_bytes").unwrap_or(0);
    let shown = |name: &str| metric(metrics, name).unwrap_or(u64::MAX);
    let lacks = &ledger["home_lacks"];
    let pairs = [
        ("queue's bytes and those that the home lacks", number(&queue["bytes_total"]), number(&lacks["bytes"])),
        ("metric of unsafe records", shown("wayfs_dirty_records"), number(&ledger["not_safe"]["records"])),
        ("metric of unsafe bytes", shown("wayfs_dirty_bytes") + open, number(&ledger["not_safe"]["bytes"])),
        ("metric of records not at home", shown("wayfs_home_lacks_records"), number(&lacks["records"])),
        ("metric of bytes not at home", shown("wayfs_home_lacks_bytes") + open, number(&lacks["bytes"])),
        ("metric of bytes at stations", shown("wayfs_at_station_bytes"), number(&ledger["at_station"]["bytes"])),
    ];
    if let Some((what, one, other)) = pairs.iter().find(|(_, one, other)| one != other) {
        return Some(format!("{what}: {one} and {other}; status {ledger}, queue {}", queue["ledger"]));
    }
    // A version whose record is through stands in the queue by itself; one whose record is not, with that.
    let fewest = number(&lacks["records"]) + number(&ledger["open_files"]);
    let items = number(&queue["items_total"]);
    if items < fewest || items > fewest + number(&lacks["versions"]) {
        return Some(format!("queue counts {items} items; status {ledger}"));
    }
    if still(&queue["ledger"]) != still(ledger) {
        return Some(format!("status says {ledger}, queue {}", queue["ledger"]));
    }
    let listed = queue["items"].as_array().map_or(0, Vec::len) as u64;
    if number(&queue["items_total"]) < 10_000 && listed != number(&queue["items_total"]) {
        return Some(format!("queue lists {listed} items and counts {}", queue["items_total"]));
    }
    words(status, doctor)
}

/// A wait for *safe* is over if, and only if, nothing is only here.
fn of_sync(ledger: &Value, is_reached: bool) -> Option<String> {
    let is_safe = is_nothing(&ledger["not_safe"]) && number(&ledger["open_files"]) == 0;
    (is_safe != is_reached).then(|| format!("sync --until safe says {is_reached}, status {ledger}"))
}

/// Words that must go with the numbers.
fn words(status: &Value, doctor: &Value) -> Option<String> {
    let ledger = &status["ledger"];
    let facts = doctor["facts"].as_array().cloned().unwrap_or_default();
    let said = |check: &str| {
        let fact = facts.iter().find(|fact| fact["check"].as_str().is_some_and(|name| name.contains(check)));
        fact.and_then(|fact| fact["detail"].as_str()).unwrap_or_default().to_owned()
    };
    let risk = said("data at risk");
    let is_safe = is_nothing(&ledger["not_safe"]) && number(&ledger["open_files"]) == 0;
    if (risk == "nothing is on this machine only") != is_safe {
        return Some(format!("doctor says of data at risk {risk:?}, status {ledger}"));
    }
    let station = said("data not at the home");
    if (station == "none") != is_nothing(&ledger["at_station"]) {
        return Some(format!("doctor says of data not at the home {station:?}, status {ledger}"));
    }
    if status["word"].as_str() == Some("active") && !is_nothing(&ledger["not_safe"]) {
        return Some(format!("the word is active, the ledger {ledger}"));
    }
    None
}

/// Whether a machine says that its own disk is full.
fn is_disk_full(status: &Value) -> bool {
    status["full"].as_str().is_some_and(|full| full.contains("this machine"))
}

/// Unmounts. Those who looked whether all is there may still read what nobody gives, for as long as a read may take.
fn umount(client: &Client, mount: &str) -> Finished {
    let end = Instant::now() + READS_END;
    loop {
        let answer = client.tool(&["umount", "--json", mount]);
        if !answer.err.contains("is in use") || Instant::now() > end {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// An unmount without a network says the numbers of the status before it. On a full disk they never rest: what is open and finds no room
/// is tried again and again (seed 96026).
///
/// # Errors
/// They differ.
pub(super) fn compare_umount(world: &mut World, at: usize) -> Result<Compared, String> {
    let client = &mut world.clients[at];
    client.tool(&["offline"]).ok();
    let mut status = status_of(client)?;
    // What is being committed in the background is done soon.
    let end = Instant::now() + QUIET;
    loop {
        let again = status_of(client)?;
        let is_still =
            still(&again["ledger"]) == still(&status["ledger"]) && number(&again["ledger"]["open_files"]) == 0;
        status = again;
        if is_still {
            break;
        }
        if is_disk_full(&status) {
            client.is_offline = false;
            client.tool(&["auto"]).ok();
            return Ok(Compared::Moving);
        }
        if Instant::now() > end {
            return Err(format!("offline, and the numbers of {} do not come to rest: {status}", client.disk));
        }
    }
    let mount = client.mount.as_ref().map(|mount| mount.root().to_string_lossy().into_owned()).unwrap_or_default();
    let answer = umount(client, &mount);
    // A mount that has ended is not killed; the directory may have another by then.
    (client.mount, client.listener) = (None, None);
    world.start_client(at);
    let client = &mut world.clients[at];
    client.is_offline = false;
    client.tool(&["auto"]).ok();
    let report: Value = serde_json::from_str(answer.out.lines().next().unwrap_or_default()).unwrap_or_default();
    let known = &status["ledger"]["not_safe"];
    for (what, one) in [("unsent_records", "records"), ("unsent_bytes", "bytes")] {
        if number(&report[what]) != number(&known[one]) {
            return Err(format!("umount says {report}, status before it {known} ({} {})", answer.code(), answer.err));
        }
    }
    Ok(Compared::Equal)
}

/// When all is stable every daemon says that nothing waits.
///
/// What is at a station of a writer that is gone waits for its policy: nobody else asks for it, so stations are told to send it.
///
/// # Errors
/// Who says otherwise.
pub(super) fn nothing_is_left(world: &World) -> Result<(), String> {
    let mut told = Vec::new();
    for station in &world.stations {
        // Whether that was enough is what the numbers say.
        let answer = station.tool(&["sync", "--until", "stable", "--timeout", "60", "--json"]);
        told.push(format!("{} was told to send: {} {}", station.disk, answer.code(), answer.out.trim()));
    }
    let end = Instant::now() + QUIET;
    loop {
        let left = left(world)?;
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            let all: Vec<String> = left.into_iter().chain(told).collect();
            return Err(format!("all is stable, and something is counted: {}", all.join("\n")));
        }
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// What daemons count that is left, and their queues.
fn left(world: &World) -> Result<Vec<String>, String> {
    let names = ["not_safe", "at_station", "home_lacks"];
    let is_left = |ledger: &Value| names.iter().any(|name| !ledger[name].is_null() && !is_nothing(&ledger[name]));
    let mut left = Vec::new();
    for client in &world.clients {
        let status = status_of(client)?;
        if is_left(&status["ledger"]) {
            let queue = client.tool(&["queue", "--json"]).out;
            left.push(format!("{}: {} {}", client.disk, status["ledger"], queue.trim()));
        }
    }
    for site in world.stations.iter().chain([&world.home]) {
        let status = site.tool(&["status", "--json"]).ok().json();
        let ledger = &volume_of(&status)["ledger"];
        if is_left(ledger) {
            left.push(format!("{}: {ledger} {}", site.disk, site.tool(&["queue", "--json"]).out.trim()));
        }
    }
    Ok(left)
}
