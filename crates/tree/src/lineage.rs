//! Which content a version means, and where it lives.
//!
//! A record names the version that its writer built upon. That version may be
//! current; or it lost and lives on as a copy; or it equalled what was there
//! and got no version of its own. Copies bear the id of the record that made
//! them, and every other detour leaves an alias under the id of the record
//! that took it, so one look at the file with the version's number tells.

use crate::view::{View, inode, resolve};
use wayfs_types::{FileId, Image, Key, Kind, OriginId, RecordId, StorageError};

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
            let base = if alias.attr_version.0 == base { alias.version } else { base };
            Lineage { file: resolve(view, made)?, base }
        }
        Some(copy) if copy.kind == Kind::File => Lineage { file: made, base },
        _ => here,
    })
}

/// Whether the current version of a file is the base, or an ancestor of it.
///
/// The version that a file was made with is an ancestor of all others; a base that was never seen here means that its
/// store was folded into the create before it was sent. Of no other version can that be told: that base and current
/// version are of one origin says nothing, since its writer may have gone on upon another's version elsewhere, and since
/// two of his files may have become one here. Whoever takes a version for an ancestor that is none loses it.
pub(crate) fn holds(file: FileId, current: RecordId, base: RecordId) -> bool {
    let is_first = FileId::made_by(current) == file;
    current == base || (is_first && current.origin() == base.origin() && current.sequence() <= base.sequence())
}

/// As [`holds`], or nothing else took the place of the current version where the base was made: its bytes were lost, or what
/// came after it was. `by`: who made a record upon that base.
pub(crate) fn holds_or_lost(
    view: &impl View,
    by: OriginId,
    seen: Lineage,
    current: RecordId,
) -> Result<bool, StorageError> {
    let Lineage { file, base } = seen;
    if holds(file, current, base) || is_lost_heir(view, by, current, base)? {
        return Ok(true);
    }
    Ok(match view.image(&Key::Conflict(current))? {
        Some(Image::Conflict(report)) if report.is_loss() => holds(file, report.record, base),
        _ => false,
    })
}

/// Whether the current version is one of a writer whose later records are lost here for good, and the base is one of these: the
/// home was put back to an older copy, and the writer goes on under another origin. It had seen its base in this file, upon
/// the state that the copy has and in which the current version stands: that is an ancestor of the base.
///
/// One renewal is followed, and no more: after two the current version may be of another copy of the writer's store, which went on
/// under the number that this one gave up, and was never seen. Then a copy beside it is right.
pub(crate) fn is_lost_heir(
    view: &impl View,
    by: OriginId,
    current: RecordId,
    base: RecordId,
) -> Result<bool, StorageError> {
    let former = base.origin();
    if former == by || current.origin() != former {
        return Ok(false);
    }
    let origin = |origin| {
        Ok::<_, StorageError>(match view.image(&Key::Origin(origin))? {
            Some(Image::Origin(origin)) => Some(origin),
            _ => None,
        })
    };
    let goes_on = origin(by)?.and_then(|image| image.renews).is_some_and(|renewal| renewal.of == former);
    Ok(goes_on && origin(former)?.is_some_and(|image| image.applied < base.sequence()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wayfs_types::OriginId;

    fn id(origin: u32, sequence: u64) -> RecordId {
        RecordId::new(OriginId::new(origin).unwrap(), sequence).unwrap()
    }

    #[test]
    fn only_the_version_that_a_file_was_made_with_is_an_ancestor_of_what_was_never_seen() {
        let file = FileId::made_by(id(1, 3));
        assert!(holds(file, id(1, 3), id(1, 3)));
        assert!(holds(file, id(1, 3), id(1, 7)));
        assert!(holds(file, id(1, 5), id(1, 5)));
        assert!(!holds(file, id(1, 5), id(1, 7)), "it may have been made upon another");
        assert!(!holds(file, id(1, 7), id(1, 3)));
        assert!(!holds(file, id(2, 3), id(1, 7)));
        assert!(!holds(file, id(1, 3), id(2, 7)));
    }
}
