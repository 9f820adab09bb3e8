//! All about one file.

use super::failed::failed;
use crate::served::Served;
use std::path::Path;
use wayfs_admin::{conflicts, kind_word, unix_ms};
use wayfs_control::report::{FileInfo, LostReport};
use wayfs_control::{ControlError, ErrorKind};
use wayfs_node::LiveReplica;
use wayfs_node::paths::at_path;
use wayfs_proto::Holder;
use wayfs_types::{Content, Fact, Facts, FileId, OriginId, StorageError};

/// What this server itself is called among the holders.
const HERE: &str = "here";

pub(super) fn info(served: &Served, path: &Path) -> Result<FileInfo, ControlError> {
    let found = served.volume.look(|replica| look(served, replica, path));
    let found = found.ok_or_else(|| failed("look at file", "the volume has stopped"))?;
    let (file, mut info, content) = found.map_err(|error| failed("look at file", error))?.ok_or_else(|| {
        ControlError::new(
            ErrorKind::NotFound,
            format!("{} is not in volume `{}`", path.display(), served.name()),
            "Give the path from the volume's root.",
        )
    })?;
    info.conflicts = conflicts::of_file(&served.volume, file);
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

fn look(
    served: &Served,
    replica: &LiveReplica,
    path: &Path,
) -> Result<Option<(FileId, FileInfo, Content)>, StorageError> {
    let Some(file) = at_path(replica, path)? else { return Ok(None) };
    let Some(inode) = replica.inode(file)? else { return Ok(None) };
    let facts = replica.level(file)?.map_or(Facts::default(), |level| level.facts);
    let origins = replica.origins()?;
    let label = |origin| origins.iter().find(|(id, _)| *id == origin).map(|(_, origin)| origin.label.clone());
    let holder = replica.holder(file, inode.version)?;
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
        told_by: String::new(),
        home_word_age_ms: None,
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
        exclusive: replica.is_the_homes(file)?,
        conflicts: Vec::new(),
    };
    Ok(Some((file, info, inode.content.clone())))
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
