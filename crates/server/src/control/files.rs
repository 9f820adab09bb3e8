//! One file, and what has not come all the way.

use super::status::{age_ms, unix_ms};
use super::target::failed;
use crate::served::Served;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use wayfs_control::report::{FileInfo, LostReport, QueueItem, QueueReport};
use wayfs_control::{ControlError, ErrorKind};
use wayfs_node::LiveReplica;
use wayfs_node::paths::path_of_record;
use wayfs_proto::Holder;
use wayfs_types::{Content, Fact, Facts, FileId, Kind, Name, OriginId, StorageError};

/// A record that the home has not confirmed for so long, though it is connected, is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// What this server itself is called among the holders.
const HERE: &str = "here";

/// The file at a path from the root of the volume. Symbolic links are not followed.
pub(super) fn at_path(replica: &LiveReplica, path: &Path) -> Result<Option<FileId>, StorageError> {
    let mut file = FileId::ROOT;
    for part in path.components() {
        let name = match part {
            std::path::Component::Normal(name) => name,
            std::path::Component::RootDir | std::path::Component::CurDir => continue,
            std::path::Component::ParentDir | std::path::Component::Prefix(_) => return Ok(None),
        };
        let Ok(name) = Name::try_from(name) else { return Ok(None) };
        match replica.entry(file, &name)? {
            Some(entry) => file = entry.file,
            None => return Ok(None),
        }
    }
    Ok(Some(file))
}

pub(super) fn kind_word(kind: &Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink(_) => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharDevice(_) => "character device",
        Kind::BlockDevice(_) => "block device",
    }
}

pub(super) fn info(served: &Served, path: &Path) -> Result<FileInfo, ControlError> {
    let found = served.volume.look(|replica| look(served, replica, path));
    let found = found.ok_or_else(|| failed("look at file", "the volume has stopped"))?;
    let (mut info, content) = found.map_err(|error| failed("look at file", error))?.ok_or_else(|| {
        ControlError::new(
            ErrorKind::NotFound,
            format!("{} is not in volume `{}`", path.display(), served.name()),
            "Give the path from the volume's root.",
        )
    })?;
    // That a root is here says nothing of the chunks below it. The walk reads list nodes, so the lock is not held.
    let is_whole = served.volume.contents().has_all(&content);
    info.cached_bytes = if is_whole { content.size() } else { 0 };
    if is_whole && info.holders.iter().all(|holder| holder != HERE) {
        info.holders.insert(0, HERE.to_owned());
    } else if !is_whole {
        info.holders.retain(|holder| holder != HERE);
    }
    Ok(info)
}

fn look(served: &Served, replica: &LiveReplica, path: &Path) -> Result<Option<(FileInfo, Content)>, StorageError> {
    let Some(file) = at_path(replica, path)? else { return Ok(None) };
    let Some(inode) = replica.inode(file)? else { return Ok(None) };
    let facts = replica.level(file)?.map_or(Facts::default(), |level| level.facts);
    let origins = replica.origins()?;
    let label = |origin| origins.iter().find(|(id, _)| *id == origin).map(|(_, origin)| origin.label.clone());
    let holder = replica.holder(file, inode.version)?;
    let conflicts = replica.conflicts(None, 10_000)?;
    let lost = replica.lost_of(file, inode.version)?;
    let info = FileInfo {
        path: path.to_owned(),
        volume: served.name().to_owned(),
        inode: file.inode_number(),
        kind: kind_word(&inode.kind).to_owned(),
        size_bytes: inode.content.size(),
        version: inode.version.to_string(),
        written_by: label(inode.version.origin()),
        state: facts.level(),
        safe: facts.safe.into(),
        safe_at: None,
        safe_unix_ms: facts.safe.since().map(unix_ms),
        visible: facts.visible.into(),
        visible_unix_ms: facts.visible.since().map(unix_ms),
        stable: facts.stable.into(),
        stable_unix_ms: facts.stable.since().map(unix_ms),
        lost: lost.map(|lost| LostReport {
            version: lost.version.to_string(),
            by: label(lost.version.origin()),
            declared_unix_ms: lost.report.map(|_| unix_ms(lost.since)),
            shows_older: lost.shows_older,
        }),
        waiting_for: waiting_for(facts).to_owned(),
        holders: holders(holder, facts, label),
        cached_bytes: 0,
        pinned: false,
        exclusive: replica.is_the_homes(file),
        conflicts: conflicts
            .into_iter()
            .filter(|open| open.conflict.file == file || open.conflict.copy == Some(file))
            .map(|open| open.id.to_string())
            .collect(),
    };
    Ok(Some((info, inode.content.clone())))
}

/// Who has all of the contents on record. What is here is looked for, not taken from the record.
fn holders(holder: Holder, facts: Facts, label: impl Fn(OriginId) -> Option<String>) -> Vec<String> {
    match holder {
        Holder::Here => vec![HERE.to_owned()],
        Holder::Parent if facts.stable.holds() => vec!["the home".to_owned()],
        Holder::Parent => Vec::new(),
        Holder::Child(origin, _) => vec![label(origin).unwrap_or_else(|| origin.to_string())],
        Holder::Unknown => vec!["nobody on record".to_owned()],
    }
}

fn waiting_for(facts: Facts) -> &'static str {
    match (facts.safe, facts.visible, facts.stable) {
        (Fact::No, ..) => "its contents on their way to a server",
        (_, Fact::No, _) => "the next reconciliation with the home",
        (_, _, Fact::No) => "its contents to be sent to the home, by policy or when someone reads them there",
        (Fact::Holds(_) | Fact::Unknown, Fact::Holds(_) | Fact::Unknown, Fact::Holds(_) | Fact::Unknown) => "",
    }
}

pub(super) fn queue(volumes: &[Arc<Served>], limit: usize) -> Result<QueueReport, ControlError> {
    let mut report = QueueReport::default();
    for served in volumes {
        let connected = served.link.as_ref().is_none_or(|link| link.status().rtt.is_some());
        let found = served.volume.look(|replica| replica.queue(0, limit.clamp(1, 10_000)));
        let Some(items) = found else { continue };
        for (_, item) in items.map_err(|error| failed("list queue", error))? {
            let age_ms = age_ms(item.record.time);
            let stuck = connected && u128::from(age_ms) > STUCK_AFTER.as_millis() && !item.facts.visible.holds();
            report.items.push(QueueItem {
                path: served.volume.look(|replica| path_of_record(replica, &item.record)).flatten(),
                volume: served.name().to_owned(),
                record: item.record.id.to_string(),
                operation: item.record.op.name().to_owned(),
                size_bytes: item.bytes,
                sent_bytes: if item.facts.stable.holds() {
                    item.bytes
                } else {
                    served.volume.sent_bytes(item.record.id).min(item.bytes)
                },
                age_ms,
                state: item.facts.level(),
                safe: item.facts.safe.into(),
                visible: item.facts.visible.into(),
                stable: item.facts.stable.into(),
                stuck,
                reason: if connected { String::new() } else { "the home is not reached".into() },
            });
        }
        add_waiting(served, connected, limit, &mut report)?;
        let ledger = super::ledger::of(served);
        report.items_total += ledger.station_amount().records;
        report.bytes_total += ledger.home_lacks.bytes;
        report.ledger = std::mem::take(&mut report.ledger).plus(ledger);
    }
    report.items.sort_by_key(|item| std::cmp::Reverse(item.age_ms));
    report.items.truncate(limit);
    Ok(report)
}

/// Contents that are here and not at the home, and whose record is at the home already.
fn add_waiting(served: &Served, connected: bool, limit: usize, report: &mut QueueReport) -> Result<(), ControlError> {
    if served.is_home() {
        return Ok(());
    }
    let Some(found) = served.volume.look(|replica| replica.contents_waiting(None, limit.clamp(1, 10_000))) else {
        return Ok(());
    };
    for waiting in found.map_err(|error| failed("list queue", error))?.into_iter().filter(|one| !one.is_queued) {
        let sent_bytes = served.volume.sent_bytes(waiting.version).min(waiting.bytes);
        let reason = match (connected, sent_bytes) {
            (false, _) => "the home is not reached",
            (true, 0) => "until the policy, a reader or `sync --until stable` wants it at the home",
            (true, _) => "on its way to the home",
        };
        report.items_total += 1;
        report.items.push(QueueItem {
            path: waiting.path.as_deref().map(|path| path.trim_start_matches('/').into()),
            volume: served.name().to_owned(),
            record: waiting.version.to_string(),
            operation: "contents".to_owned(),
            size_bytes: waiting.bytes,
            sent_bytes,
            age_ms: waiting.since.map_or(0, age_ms),
            state: waiting.facts.level(),
            safe: waiting.facts.safe.into(),
            visible: waiting.facts.visible.into(),
            stable: waiting.facts.stable.into(),
            stuck: false,
            reason: reason.to_owned(),
        });
    }
    Ok(())
}
