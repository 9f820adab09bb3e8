//! Contents that a replica does not have, and who is on record for them.

use serde::{Deserialize, Serialize};
use wayfs_types::{Content, FileId, OriginId, RecordId, WallTime};

/// Most children remembered as holders of one version.
pub(crate) const HOLDERS_MAX: usize = 8;

/// Contents that we do not have and a child does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Missing {
    pub(crate) file: FileId,
    /// The version under which the view shows it: not the record's own if equal contents met.
    pub(crate) version: RecordId,
    pub(crate) content: Content,
    /// Children that said they have it, newest last.
    pub(crate) holders: Vec<OriginId>,
    /// When a station first said that all of it is durable there.
    pub(crate) safe: Option<WallTime>,
    /// Children that could give it if no holder can: it makes nothing safe.
    pub(crate) spares: Vec<OriginId>,
    /// Who has it by its writer's word.
    pub(crate) claimed: Option<OriginId>,
}

impl Missing {
    /// Contents of which nobody is on record yet.
    pub(crate) const fn of(file: FileId, version: RecordId, content: Content) -> Self {
        Self { file, version, content, holders: Vec::new(), safe: None, spares: Vec::new(), claimed: None }
    }

    /// Everybody on record, who is to be asked last first.
    pub(crate) fn everybody(&self) -> impl Iterator<Item = OriginId> + '_ {
        self.spares.iter().chain(&self.holders).copied()
    }
}
