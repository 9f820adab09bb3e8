//! What is claimed of the home for changes, and what was made there and the home has not spoken of.

use std::collections::BTreeMap;
use wayfs_types::request::{Answer, Change, RequestId};
use wayfs_types::{FileId, FsError, Name, RecordId, Time};

/// Directories that are claimed, and the request that each was claimed for.
pub(super) type Held = BTreeMap<FileId, RequestId>;

/// What is claimed for requests that wait.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub(super) held: BTreeMap<RequestId, Held>,
    pub(super) refused: BTreeMap<RequestId, FsError>,
    /// By the file that is appended to.
    pub(super) kept: BTreeMap<FileId, Kept>,
}

/// Claims of an append that is to be made anew.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) held: Held,
    pub(super) until: Time,
}

impl Claims {
    /// The parent knows of them no more.
    pub(crate) fn parent_lost(&mut self) {
        self.held.clear();
        self.refused.clear();
        self.kept.clear();
    }

    /// A change of a file takes over what an earlier try to append to it claimed.
    pub(super) fn take_over(&mut self, id: RequestId, change: &Change) {
        if let Change::Append { file, .. } | Change::Store { file, .. } = change
            && let Some(Kept { held, .. }) = self.kept.remove(file)
        {
            self.held.entry(id).or_default().extend(held);
        }
    }

    /// When the next that was kept is let go of.
    pub(super) fn timeout(&self) -> Option<Time> {
        self.kept.values().map(|kept| kept.until).min()
    }
}

/// A name that was made and of which the home has not spoken.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(super) record: RecordId,
    pub(super) answer: Answer,
    /// Where, if it is a name that another may have made.
    pub(super) place: Option<(FileId, Name)>,
    /// The parent was asked what stands there.
    pub(super) is_asked: bool,
}
