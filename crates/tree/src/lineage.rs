//! Which content a version means, and where it lives.
//!
//! A record names the version that its writer built upon. That version may be
//! current; or it lost and lives on as a copy; or it equalled what was there
//! and got no version of its own. Copies bear the id of the record that made
//! them, and every other detour leaves an alias under the id of the record
//! that took it, so one look at the file with the version's number tells.

use crate::view::{View, inode, resolve};
use wayfs_types::{FileId, Kind, RecordId, StorageError};

/// A file and the version of it that a record was made upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lineage {
    pub(crate) file: FileId,
    pub(crate) base: RecordId,
}

/// Follows a version to the file in which it lives.
pub(crate) fn follow(view: &impl View, file: FileId, base: RecordId) -> Result<Lineage, StorageError> {
    let target = resolve(view, file)?;
    let made = FileId::made_by(base);
    let here = Lineage { file: target, base };
    if made == target {
        return Ok(here);
    }
    Ok(match inode(view, made)? {
        Some(alias) if alias.merged_into.is_some() => {
            let base = if alias.attr_version == base { alias.version } else { base };
            Lineage { file: resolve(view, made)?, base }
        }
        Some(copy) if copy.kind == Kind::File => Lineage { file: made, base },
        _ => here,
    })
}

/// Whether the current version is the base, or an ancestor of it.
///
/// One origin's records take effect in its order. If the current version and
/// the base are of one origin and the base is not older, then its writer saw
/// the current one: what lay between was cancelled before it was sent, or is
/// still on its way by another road.
pub(crate) fn holds(current: RecordId, base: RecordId) -> bool {
    current == base || (current.origin() == base.origin() && current.sequence() <= base.sequence())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_types::OriginId;

    fn id(origin: u32, sequence: u64) -> RecordId {
        RecordId::new(OriginId::new(origin).unwrap(), sequence).unwrap()
    }

    #[test]
    fn an_older_version_of_the_bases_origin_is_its_ancestor() {
        assert!(holds(id(1, 3), id(1, 3)));
        assert!(holds(id(1, 3), id(1, 7)));
        assert!(!holds(id(1, 7), id(1, 3)));
        assert!(!holds(id(2, 3), id(1, 7)));
    }
}
