//! What a command needs to know of the volume that it is about.

use crate::conflicts::Case;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use wayfs_control::report::{LedgerReport, QueueItem, VolumeRole};
use wayfs_node::Volume;
use wayfs_types::request::Removed;
use wayfs_types::{FileId, OriginId, Place, Record};

/// A volume as it is on this machine, at a mount, a station or the home, while somebody asks about it.
pub trait LocalVolume {
    /// The replica.
    fn volume(&self) -> &Arc<Volume>;

    /// What people call the volume.
    fn name(&self) -> &str;

    /// Its role on this machine.
    fn role(&self) -> VolumeRole;

    /// What members are called (`USER@HOST`), as far as that is known here or the parent says so within seconds.
    fn labels(&self, origins: &BTreeSet<OriginId>) -> BTreeMap<OriginId, String>;

    /// The one account of what has not come all the way, why, and what would help.
    fn ledger(&self) -> LedgerReport;

    /// Why nothing goes to the parent now. `None`: it goes, or there is no parent.
    fn held_up(&self) -> Option<String>;

    /// Writes to open files that are in no record yet. Default: nobody opens files here.
    fn unwritten(&self) -> Vec<QueueItem> {
        Vec::new()
    }

    /// Whether the user who asks may know of a path from the volume's root. Default: a daemon's owner may know of all.
    fn may_see(&self, path: &Path) -> bool {
        let _ = path;
        true
    }

    /// Whether the user who asks may know of a file. Default: as [`LocalVolume::may_see`].
    fn may_see_file(&self, file: FileId) -> bool {
        let _ = file;
        true
    }

    /// Whether the user who asks may know of what a record is about. Default: as [`LocalVolume::may_see`].
    fn may_see_record(&self, record: &Record) -> bool {
        let _ = record;
        true
    }

    /// Called after a command changed the tree past a kernel that may have it in its caches. Default: no kernel has.
    fn touched(&self, touched: Touched) {
        let _ = touched;
    }

    /// Called when a conflict was settled, with what was done. Default: nobody listens.
    fn settled(&self, case: &Case, action: &str) {
        let _ = (case, action);
    }
}

/// What a command changed.
#[derive(Debug, Clone)]
pub enum Touched {
    /// A name was taken away, and with its last one the file.
    Name(Place, Option<Removed>),
    /// A file got other bytes.
    Bytes(FileId),
}
