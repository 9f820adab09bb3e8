//! What is under way from a machine to its parent, oldest first.

use crate::errors::{stopped, storage};
use crate::local::LocalVolume;
use crate::words::age_ms;
use std::collections::BTreeMap;
use wayfs_control::ControlError;
use wayfs_control::report::{LedgerReport, QueueItem, QueueReport, VolumeRole};
use wayfs_node::Volume;
use wayfs_node::paths::path_of_record;
use wayfs_proto::{ContentMissing, ContentWaiting};
use wayfs_types::{Facts, OriginId};

/// An update older than this, in milliseconds, that nothing holds up and that has not moved is stuck.
const STUCK_MS: u64 = 60_000;
/// Most items in an answer.
const ITEMS_MAX: usize = 10_000;
/// Items read from the tables at a time.
const PAGE: usize = 512;
/// How often a queue is listed anew that moves meanwhile. What is listed then is of two moments.
const LOOKS_MAX: usize = 4;

/// The oldest items of volumes that the one who asks may see, at most `limit` (at most 10,000), with the sums of all.
///
/// # Errors
/// If a volume has stopped, or its tables cannot be read.
pub fn run<V: LocalVolume>(volumes: &[V], limit: usize) -> Result<QueueReport, ControlError> {
    let limit = limit.min(ITEMS_MAX);
    let mut report = QueueReport::default();
    for local in volumes {
        let mut listed = list(local, limit)?;
        for _ in 1..LOOKS_MAX {
            if local.ledger().counts() == listed.ledger.counts() {
                break;
            }
            listed = list(local, limit)?;
        }
        report.items.append(&mut listed.items);
        report.items_total += listed.items_total;
        report.bytes_total += listed.bytes_total;
        report.versions_lost += listed.versions_lost;
        report.ledger = std::mem::take(&mut report.ledger).plus(listed.ledger);
    }
    report.items.sort_by_key(|item| std::cmp::Reverse(item.age_ms));
    report.items.truncate(limit);
    Ok(report)
}

/// The queue of one volume.
fn list(local: &impl LocalVolume, limit: usize) -> Result<QueueReport, ControlError> {
    let lost = local.volume().look(|replica| replica.progress().versions_lost);
    let mut report =
        QueueReport { ledger: local.ledger(), versions_lost: lost.unwrap_or_default(), ..QueueReport::default() };
    let held_up = local.held_up();
    report.items.extend(local.unwritten().into_iter().take(limit));
    add_records(local, held_up.as_deref(), limit, &mut report)?;
    add_contents(local, held_up.as_deref(), limit, &mut report)?;
    add_missing(local, limit, &mut report)?;
    report.items_total += records_on_their_way(local.role(), &report.ledger);
    report.bytes_total += report.ledger.home_lacks.bytes;
    Ok(report)
}

fn records_on_their_way(role: VolumeRole, ledger: &LedgerReport) -> u64 {
    match role {
        VolumeRole::Client => ledger.open_files + ledger.home_lacks.records,
        VolumeRole::Station | VolumeRole::Home => ledger.station_amount().records,
    }
}

/// Records of the log, whose order is that of their age.
fn add_records(
    local: &impl LocalVolume,
    held_up: Option<&str>,
    limit: usize,
    report: &mut QueueReport,
) -> Result<(), ControlError> {
    let mut left = limit;
    each_record(local.volume(), |item| {
        if left > 0 && local.may_see_record(&item.record) {
            left -= 1;
            report.items.push(of_record(local, item, held_up));
        }
        left > 0
    })
}

/// Contents that are at a server and not at the home, and whose record has left the log.
fn add_contents(
    local: &impl LocalVolume,
    held_up: Option<&str>,
    limit: usize,
    report: &mut QueueReport,
) -> Result<(), ControlError> {
    if local.role() == VolumeRole::Home {
        return Ok(());
    }
    let mut left = limit;
    each_content(local.volume(), |waiting| {
        report.items_total += 1;
        if left > 0 && local.may_see_file(waiting.file) {
            left -= 1;
            report.items.push(of_content(local, waiting, held_up));
        }
    })
}

/// Contents that this server lacks: they are at machines below it, which are named.
fn add_missing(local: &impl LocalVolume, limit: usize, report: &mut QueueReport) -> Result<(), ControlError> {
    if local.role() == VolumeRole::Client {
        return Ok(());
    }
    let mut listed = Vec::new();
    each_missing(local.volume(), |missing| {
        report.items_total += 1;
        if listed.len() < limit {
            listed.push(missing.clone());
        }
    })?;
    let holders = listed.iter().flat_map(|missing| &missing.holders).map(|(origin, _)| *origin).collect();
    let labels = local.labels(&holders);
    report.items.extend(listed.iter().map(|missing| of_missing(local.name(), missing, &labels)));
    Ok(())
}

fn of_record(local: &impl LocalVolume, item: &wayfs_proto::QueueItem, held_up: Option<&str>) -> QueueItem {
    let volume = local.volume();
    let is_at_parent = match local.role() {
        VolumeRole::Client => item.facts.safe.holds(),
        VolumeRole::Station | VolumeRole::Home => item.facts.stable.holds(),
    };
    let age_ms = age_ms(item.record.time);
    let stuck = held_up.is_none() && age_ms > STUCK_MS && !item.facts.visible.holds();
    let reason = held_up.unwrap_or(if stuck { "it has not moved for a while: see the log" } else { "" });
    QueueItem {
        path: volume.look(|replica| path_of_record(replica, &item.record)).flatten(),
        record: item.record.id.to_string(),
        operation: item.record.op.name().to_owned(),
        size_bytes: item.bytes,
        sent_bytes: if is_at_parent { item.bytes } else { volume.sent_bytes(item.record.id).min(item.bytes) },
        age_ms,
        stuck,
        reason: reason.to_owned(),
        ..with_facts(local.name(), item.facts)
    }
}

fn of_content(local: &impl LocalVolume, waiting: &ContentWaiting, held_up: Option<&str>) -> QueueItem {
    let sent_bytes = match local.role() {
        // The station says how far it is.
        VolumeRole::Client => waiting.sent,
        VolumeRole::Station | VolumeRole::Home => local.volume().sent_bytes(waiting.version).min(waiting.bytes),
    };
    let reason = match (held_up, sent_bytes) {
        (Some(cause), _) => cause,
        (None, 0) => "at the station, until its policy, a reader or `sync --until stable` wants it at the home",
        (None, _) => "on its way from the station to the home",
    };
    QueueItem {
        path: waiting.path.as_deref().map(|path| path.trim_start_matches('/').into()),
        record: waiting.version.to_string(),
        operation: "contents".to_owned(),
        size_bytes: waiting.bytes,
        sent_bytes,
        age_ms: waiting.since.map_or(0, age_ms),
        reason: reason.to_owned(),
        ..with_facts(local.name(), waiting.facts)
    }
}

fn of_missing(volume: &str, missing: &ContentMissing, labels: &BTreeMap<OriginId, String>) -> QueueItem {
    let holder = |(origin, is_there): &(OriginId, bool)| {
        let label = labels.get(origin).cloned().unwrap_or_else(|| format!("member {origin}"));
        if *is_there { label } else { format!("{label}, which is not connected here") }
    };
    let holders: Vec<String> = missing.holders.iter().map(holder).collect();
    let reason = match holders.as_slice() {
        [] => "nobody who has it is known; members that may have it are asked as they come".to_owned(),
        _ => format!("at {}", holders.join("; ")),
    };
    QueueItem {
        path: missing.path.as_deref().map(|path| path.trim_start_matches('/').into()),
        record: missing.version.to_string(),
        operation: "contents".to_owned(),
        size_bytes: missing.bytes,
        age_ms: missing.since.map_or(0, age_ms),
        reason,
        ..with_facts(volume, missing.facts)
    }
}

/// An item of which nothing is told but how far it is.
pub fn with_facts(volume: &str, facts: Facts) -> QueueItem {
    QueueItem {
        path: None,
        volume: volume.to_owned(),
        record: String::new(),
        operation: String::new(),
        size_bytes: 0,
        sent_bytes: 0,
        age_ms: 0,
        state: facts.level(),
        safe: facts.safe.into(),
        visible: facts.visible.into(),
        stable: facts.stable.into(),
        stuck: false,
        reason: String::new(),
    }
}

/// Goes through the log in order until `step` says enough.
///
/// # Errors
/// If the volume has stopped, or its tables cannot be read.
pub fn each_record(volume: &Volume, mut step: impl FnMut(&wayfs_proto::QueueItem) -> bool) -> Result<(), ControlError> {
    let mut after = wayfs_proto::LogPosition::START;
    loop {
        let page = volume.look(|replica| replica.queue(after, PAGE)).ok_or_else(stopped)?;
        let page = page.map_err(|error| storage(&error))?;
        for (place, item) in &page {
            after = *place;
            if !step(item) {
                return Ok(());
            }
        }
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

/// Goes through contents that a server has and the home has not, and whose record has left the log.
///
/// # Errors
/// As [`each_record`].
pub fn each_content(volume: &Volume, mut step: impl FnMut(&ContentWaiting)) -> Result<(), ControlError> {
    let mut after = None;
    loop {
        let page = volume.look(|replica| replica.contents_waiting(after, PAGE)).ok_or_else(stopped)?;
        let page = page.map_err(|error| storage(&error))?;
        page.iter().filter(|waiting| !waiting.is_queued).for_each(&mut step);
        after = page.last().map(|waiting| waiting.version);
        if page.len() < PAGE {
            return Ok(());
        }
    }
}

/// Goes through contents that a server lacks and machines below it are to have.
fn each_missing(volume: &Volume, mut step: impl FnMut(&ContentMissing)) -> Result<(), ControlError> {
    let mut after = None;
    loop {
        let page = volume.look(|replica| replica.contents_missing(after, PAGE)).ok_or_else(stopped)?;
        let page = page.map_err(|error| storage(&error))?;
        page.iter().for_each(&mut step);
        after = page.last().map(|missing| missing.version);
        if page.len() < PAGE {
            return Ok(());
        }
    }
}
