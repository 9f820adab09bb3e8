//! `wayfs volume promote`: a station takes the place of a home that is gone for good.

use super::failed::failed;
use crate::promotion::{Outlook, PromotionError};
use crate::served::Served;
use crate::shared::Shared;
use std::path::PathBuf;
use std::sync::Arc;
use wayfs_control::report::PromoteReport;
use wayfs_control::{ControlError, ErrorKind};
use wayfs_node::paths::path_of;

/// What is to be done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Only says what would be missing.
    pub(super) dry_run: bool,
    /// Although the home answers, or this station does not have the whole of its metadata.
    pub(super) force: bool,
}

pub(super) fn run(server: &Shared, served: Arc<Served>, wanted: Wanted) -> Result<PromoteReport, ControlError> {
    let outlook = server.outlook(&served).map_err(not_promoted)?;
    let name = served.name().to_owned();
    if outlook.home_is_there && !wanted.force {
        let message = format!("the home of `{name}` answers: a volume has one home");
        let next = "Stop it for good first. A home that is only away comes back by itself, and nothing is to be done. --force does it all the same.";
        return Err(ControlError::new(ErrorKind::Refused, message, next));
    }
    let mut report = describe(&served, &outlook);
    if wanted.dry_run {
        return Ok(report);
    }
    if !outlook.prospect.is_whole && !wanted.force {
        let message = format!("this station does not have all metadata of `{name}`: what it lacks would be lost");
        let next = "Promote another station that has it, or restore a backup; --force goes on with what is here.";
        return Err(ControlError::new(ErrorKind::Refused, message, next));
    }
    server.promote(served).map_err(not_promoted)?;
    report.promoted = true;
    report.next_steps = vec![
        format!(
            "For each client of another server: `wayfs volume ticket {name}` here, and `wayfs mount TICKET DIR` there, with the same cache."
        ),
        format!(
            "For each other station: `wayfs volume ticket {name} --station` here, and `wayfs station join TICKET` there."
        ),
        "Never start the old home again for this volume.".to_owned(),
    ];
    Ok(report)
}

fn describe(served: &Served, outlook: &Outlook) -> PromoteReport {
    let path = |file: &wayfs_types::FileId| served.volume.look(|replica| path_of(replica, *file)).flatten();
    let missing_paths: Vec<PathBuf> = outlook.elsewhere.named.iter().filter_map(path).collect();
    PromoteReport {
        name: served.name().to_owned(),
        id: served.id.to_string(),
        is_whole: outlook.prospect.is_whole,
        unconfirmed_records: outlook.prospect.tentative,
        missing_files: outlook.elsewhere.files,
        missing_bytes: outlook.elsewhere.bytes,
        missing_paths: missing_paths.iter().map(|path| path.to_string_lossy().into_owned()).collect(),
        promoted: false,
        next_steps: Vec::new(),
    }
}

fn not_promoted(error: PromotionError) -> ControlError {
    match error {
        PromotionError::IsHome => ControlError::new(
            ErrorKind::Refused,
            error.to_string(),
            "Nothing is to be done; `wayfs volume list` shows it.",
        ),
        PromotionError::Stopped | PromotionError::Storage(_) | PromotionError::Start(_) => failed("promote", error),
    }
}
