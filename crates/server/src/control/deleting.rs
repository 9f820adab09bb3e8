//! Deleting a volume for good.

use super::failed::failed;
use super::members;
use crate::served::Served;
use crate::shared::Shared;
use std::sync::Arc;
use wayfs_control::report::DeleteReport;
use wayfs_control::{ControlError, ErrorKind};
use wayfs_types::{FileId, Image};

/// Keys looked at with the volume's lock held once.
const PAGE: usize = 1024;

/// What is to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Only says what would be deleted.
    pub(super) dry_run: bool,
    /// Although machines are connected.
    pub(super) force: bool,
}

pub(super) fn run(server: &Shared, served: &Arc<Served>, wanted: Wanted) -> Result<DeleteReport, ControlError> {
    let mut report = describe(served)?;
    if wanted.dry_run {
        return Ok(report);
    }
    let connected: Vec<&str> =
        report.members.iter().filter(|member| member.connected).map(|member| member.label.as_str()).collect();
    if !connected.is_empty() && !wanted.force {
        return Err(ControlError::new(
            ErrorKind::Refused,
            format!("volume `{}` is in use by {}", report.name, connected.join(", ")),
            "Let them unmount first, or delete it under them with --force: what they have not sent is then nowhere else.",
        ));
    }
    server.delete_replica(served).map_err(|error| failed("delete volume", error))?;
    report.deleted = true;
    Ok(report)
}

fn describe(served: &Served) -> Result<DeleteReport, ControlError> {
    let mut members = members::list(served)?.members;
    members.retain(|member| member.role != "revoked");
    let mut report =
        DeleteReport { name: served.name().to_owned(), id: served.id.to_string(), members, ..DeleteReport::default() };
    let mut after = None;
    loop {
        let page = served.volume.look(|replica| replica.images(after.as_ref(), PAGE));
        let page = page.ok_or_else(|| failed("look at volume", "it has stopped"))?;
        let page = page.map_err(|error| failed("look at volume", error))?;
        for (key, image) in &page {
            if let (wayfs_types::Key::Inode(file), Image::Inode(inode)) = (key, image)
                && *file != FileId::ROOT
                && !inode.is_directory()
                && !inode.is_removed()
            {
                report.files += 1;
                report.bytes += inode.content.size();
            }
        }
        match page.last() {
            Some((last, _)) if page.len() == PAGE => after = Some(last.clone()),
            _ => return Ok(report),
        }
    }
}
