//! Which content a version means, and where it lives.
//!
//! A record names the version that its writer built upon. That version may be
//! current; or it lost and lives on as a copy; or it equalled what was there
//! and got no version of its own. Copies bear the id of the record that made
//! them, and every other detour leaves an alias under the id of the record
//! that took it, so one look at the file with the version's number tells.

use crate::view::{View, applied, inode, resolve};
use wayfs_types::{FileId, Kind, OriginId, RecordId, StorageError};

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

/// Whether the current version is the base, or an ancestor of it, as far as can be told here. `writer` is the origin of the
/// record that was made upon the base.
///
/// One origin's records take effect in its order. If the current version and the base are of one origin and the base is
/// not older, then its writer saw the current one: what lay between was cancelled before it was sent. Unless the base is still
/// on its way by another road: it may have been made upon a version that won elsewhere, where the current one became a
/// copy. Whoever took that for an ancestor would lose it, so then both are kept.
pub(crate) fn holds(
    view: &impl View,
    writer: OriginId,
    current: RecordId,
    base: RecordId,
) -> Result<bool, StorageError> {
    if current == base {
        return Ok(true);
    }
    if current.origin() != base.origin() || current.sequence() > base.sequence() {
        return Ok(false);
    }
    // A writer's own records come before what is made upon them.
    Ok(base.origin() == writer || applied(view, base.origin())? >= base.sequence())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{MemoryView, ViewMut};
    use wayfs_types::{Admitted, Image, Key, NodeId, Origin};

    fn id(origin: u32, sequence: u64) -> RecordId {
        RecordId::new(OriginId::new(origin).unwrap(), sequence).unwrap()
    }

    fn view(applied: u64) -> MemoryView {
        let origin =
            Origin { applied, label: "w@h".into(), node: NodeId::from_bytes([1; 32]), admitted: Admitted::Client };
        let mut view = MemoryView::default();
        view.put(Key::Origin(OriginId::new(1).unwrap()), Some(Image::Origin(origin))).unwrap();
        view
    }

    #[test]
    fn an_older_version_of_the_bases_origin_is_its_ancestor_once_the_base_has_come() {
        let by = |writer, view: &MemoryView, current, base| {
            holds(view, OriginId::new(writer).unwrap(), current, base).unwrap()
        };
        assert!(by(2, &view(0), id(1, 3), id(1, 3)));
        assert!(by(2, &view(7), id(1, 3), id(1, 7)));
        assert!(!by(2, &view(6), id(1, 3), id(1, 7)), "it may have been made upon another");
        assert!(by(1, &view(6), id(1, 3), id(1, 7)), "the writer's own");
        assert!(!by(2, &view(7), id(1, 7), id(1, 3)));
        assert!(!by(2, &view(7), id(2, 3), id(1, 7)));
    }
}
