//! Contents that a replica has and must keep: our parent does not have them, or the home.

use crate::contents::missing::Missing;
use crate::state::tables::{table, unpack};
use serde::{Deserialize, Serialize};
use wayfs_types::{Content, FileId, StorageError};
use wayfs_wire::Stamp;

/// Contents that our parent does not have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owed {
    pub(crate) file: FileId,
    pub(crate) content: Content,
}

pub(crate) fn size_of(content: &Content) -> i64 {
    i64::try_from(content.size()).unwrap_or(i64::MAX / 2)
}

/// Contents that a parent took over from us and that the home does not have yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lent {
    pub(crate) file: FileId,
    pub(crate) content: Content,
    /// The store that has it; `None` if the parent never named itself.
    pub(crate) to: Option<Stamp>,
}

/// The file and the content of a row of versions that wait.
pub(crate) fn waiting_row(of: u8, row: &[u8]) -> Result<(FileId, Content), StorageError> {
    Ok(match of {
        table::LENT => {
            let lent: Lent = unpack(row)?;
            (lent.file, lent.content)
        }
        table::MISSING => {
            let missing: Missing = unpack(row)?;
            (missing.file, missing.content)
        }
        _ => {
            let owed: Owed = unpack(row)?;
            (owed.file, owed.content)
        }
    })
}
