//! Which contents others rely on this machine to have, every byte of them.

use crate::live_replica::LiveReplica;
use wayfs_proto::{ContentInUse, Holder, Role};
use wayfs_types::{FileId, RecordId, StorageError};

/// Whether others rely on this machine to have a content: it owes it to them, or it is the home, which has it.
pub(crate) fn is_relied_on(replica: &LiveReplica, used: &ContentInUse) -> Result<bool, StorageError> {
    Ok(used.owed || is_home_with(replica, used.file, used.version)?)
}

/// Whether this is the home, which has a version by all that its engine knows.
pub(crate) fn is_home_with(
    replica: &LiveReplica,
    file: FileId,
    version: Option<RecordId>,
) -> Result<bool, StorageError> {
    let Some(version) = version.filter(|_| replica.config().role == Role::Home) else { return Ok(false) };
    Ok(replica.holder(file, version)? == Holder::Here)
}
