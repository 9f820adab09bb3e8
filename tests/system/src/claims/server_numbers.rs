//! The numbers of one server, held against each other while nothing changes there.

use super::numbers::{Compared, LOOKS, metric, number, still};
use super::statement::{is_nothing, volume_of};
use super::world::Site;
use serde_json::Value;

/// Compares what a server says in `status`, `queue`, `metrics` and, for a station, `sync`.
///
/// # Errors
/// Two numbers that differ while nothing changes.
pub(super) fn compare(site: &Site) -> Result<Compared, String> {
    if site.server.is_none() {
        return Ok(Compared::Moving);
    }
    let mut last = Ok(Compared::Moving);
    for _ in 0..LOOKS {
        let Some(first) = status_of(site) else { return Ok(Compared::Moving) };
        let queue = site.tool(&["queue", "--json", "--limit", "10000"]).ok().json();
        let metrics = site.tool(&["metrics"]).ok().out;
        let Some(again) = status_of(site) else { return Ok(Compared::Moving) };
        if still(&first["ledger"]) != still(&again["ledger"]) {
            continue;
        }
        let found = differences(&first["ledger"], &queue, &metrics).or_else(|| own_sum(&first["ledger"]));
        last = found.map_or(Ok(Compared::Equal), |found| Err(format!("{} says: {found}", site.disk)));
        if last.is_ok() {
            return last;
        }
    }
    last
}

/// `None`: it is starting, or has no such volume yet.
fn status_of(site: &Site) -> Option<Value> {
    let answer = site.tool(&["status", "--json"]);
    let volume = answer.status.success().then(|| volume_of(&answer.json()).clone())?;
    volume["ledger"].is_object().then_some(volume)
}

/// The first two numbers that differ. A home knows apart neither what is not safe nor what is at a station.
fn differences(ledger: &Value, queue: &Value, metrics: &str) -> Option<String> {
    let shown = |name: &str| metric(metrics, name).unwrap_or(u64::MAX);
    let lacks = &ledger["home_lacks"];
    let pairs = [
        ("queue's bytes and those that the home lacks", number(&queue["bytes_total"]), number(&lacks["bytes"])),
        ("metric of unsafe bytes", shown("wayfs_dirty_bytes"), number(&ledger["not_safe"]["bytes"])),
        ("metric of unsafe records", shown("wayfs_dirty_records"), number(&ledger["not_safe"]["records"])),
        ("metric of bytes at stations", shown("wayfs_at_station_bytes"), number(&ledger["at_station"]["bytes"])),
        ("metric of bytes not at home", shown("wayfs_home_lacks_bytes"), number(&lacks["bytes"])),
        ("metric of records not at home", shown("wayfs_home_lacks_records"), number(&lacks["records"])),
    ];
    if let Some((what, one, other)) = pairs.iter().find(|(_, one, other)| one != other) {
        return Some(format!("{what}: {one} and {other}; status {ledger}, queue {}", queue["ledger"]));
    }
    if still(&queue["ledger"]) != still(ledger) {
        return Some(format!("status {ledger}, queue {}", queue["ledger"]));
    }
    // A queue lists what is here and has to go on, and each version that lacks here. Of what is here a version may stand with its record.
    let (here, missing) =
        (&ledger["at_station"], if ledger["not_safe"].is_null() { lacks } else { &ledger["not_safe"] });
    let (items, fewest) = (number(&queue["items_total"]), number(&here["records"]) + number(&missing["versions"]));
    if items < fewest || items > number(&lacks["records"]) + number(&lacks["versions"]) {
        return Some(format!("queue counts {items} items; status {ledger}"));
    }
    None
}

/// What the home lacks is what is not safe and what is at the station.
fn own_sum(ledger: &Value) -> Option<String> {
    if ledger["at_station"].is_null() || ledger["not_safe"].is_null() {
        return None;
    }
    let differs = ["records", "versions", "bytes"].iter().find(|part| {
        number(&ledger["at_station"][**part]) + number(&ledger["not_safe"][**part])
            != number(&ledger["home_lacks"][**part])
    });
    let is_odd = is_nothing(&ledger["home_lacks"]) != ledger["why"].as_str().unwrap_or_default().is_empty();
    differs
        .map(|part| format!("{part} do not add up: {ledger}"))
        .or_else(|| is_odd.then(|| format!("a reason: {ledger}")))
}
