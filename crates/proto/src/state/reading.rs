//! What the view and the tables of the store hold.

use crate::report::OpenConflict;
use crate::state::State;
use crate::state::tables::{
    KeyKind, PAGE, entries_from, entries_until, image_key, kind_range, parse_image_key, table, unpack, unpack_view,
};
use std::sync::Arc;
use wayfs_tree::View;
use wayfs_types::{
    Entry, Facts, FileId, Image, Key, MetaStore, Name, NodeId, Origin, OriginId, RecordId, StorageError, WallTime,
};

/// Longest path that is put together, in names: deeper trees exist only where a peer lied.
const DEPTH_MAX: usize = 4096;

impl<S: MetaStore> State<S> {
    /// Goes through the committed rows of a range, a page at a time.
    pub(crate) fn each(
        &self,
        from: &[u8],
        until: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let mut from = from.to_vec();
        loop {
            let pairs = self.store().scan(&from, until, PAGE)?;
            for (key, value) in &pairs {
                visit(key, value)?;
            }
            match pairs.last() {
                Some((last, _)) if pairs.len() == PAGE => {
                    from.clone_from(last);
                    from.push(0);
                }
                _ => return Ok(()),
            }
        }
    }

    /// A file's inode in the view; of a removed or merged file its marker.
    pub(crate) fn inode(&self, file: FileId) -> Result<Option<Arc<wayfs_types::Inode>>, StorageError> {
        Ok(match self.image(&Key::Inode(file))? {
            Some(Image::Inode(inode)) => Some(inode),
            _ => None,
        })
    }

    /// What a name stands for in the view.
    pub(crate) fn entry(&self, parent: FileId, name: &Name) -> Result<Option<wayfs_types::Entry>, StorageError> {
        Ok(match self.image(&Key::Entry(parent, name.clone()))? {
            Some(Image::Entry(entry)) => Some(entry),
            _ => None,
        })
    }

    /// What the parent has confirmed of an origin: of a home, what it applied.
    pub(crate) fn confirmed_applied(&mut self, origin: OriginId) -> Result<u64, StorageError> {
        let key = Key::Origin(origin);
        let tx = self.tx();
        let image = match tx.get_raw(&image_key(table::SHADOW, &key))? {
            Some(bytes) => unpack::<crate::state::log_entry::Shadow>(&bytes)?.image,
            None => tx.image(&key)?,
        };
        Ok(match image {
            Some(Image::Origin(origin)) => origin.applied,
            _ => 0,
        })
    }

    /// A path of a file in the view, `/` for the root. `None` if it has none, or not all of it is known here.
    pub(crate) fn path_of(&self, file: FileId) -> Result<Option<String>, StorageError> {
        let mut names = Vec::new();
        let mut at = file;
        while at != FileId::ROOT {
            let place = self.inode(at)?.and_then(|inode| inode.places.first().cloned());
            let Some(place) = place.filter(|_| names.len() < DEPTH_MAX) else { return Ok(None) };
            names.push(place.name.to_string());
            at = place.parent;
        }
        names.reverse();
        Ok(Some(format!("/{}", names.join("/"))))
    }

    /// The origins of one machine: what a session with its key may speak for.
    pub(crate) fn admitted(&self, node: NodeId) -> Result<Vec<(OriginId, Origin)>, StorageError> {
        Ok(self.origins()?.into_iter().filter(|(_, origin)| origin.node == node).collect())
    }

    /// Entries of a directory in the view, in order of name, from after a name.
    pub(crate) fn list(
        &self,
        directory: FileId,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, StorageError> {
        let from = entries_from(table::VIEW, directory, after);
        let rows = self.store().scan(&from, &entries_until(table::VIEW, directory), limit)?;
        let mut entries = Vec::with_capacity(rows.len());
        for (key, value) in rows {
            if let (Key::Entry(_, name), Image::Entry(entry)) = (parse_image_key(&key)?, unpack_view(&value)?.image) {
                entries.push((name, entry));
            }
        }
        Ok(entries)
    }

    /// Since when a version waits, as near as is known: it was written before it was safe or visible, and before its file changed last. (When
    /// that was modified says nothing: programs set it.)
    pub(crate) fn waits_since(
        &self,
        file: FileId,
        version: RecordId,
        facts: Facts,
    ) -> Result<Option<WallTime>, StorageError> {
        let changed = self.inode(file)?.filter(|inode| inode.version == version).map(|inode| inode.ctime);
        Ok([changed, facts.safe.since(), facts.visible.since()].into_iter().flatten().min())
    }

    /// Open conflicts from after one, in order of id.
    pub(crate) fn conflicts(&self, after: Option<RecordId>, limit: usize) -> Result<Vec<OpenConflict>, StorageError> {
        let (mut from, until) = kind_range(table::VIEW, KeyKind::Conflict);
        if let Some(after) = after {
            from = image_key(table::VIEW, &Key::Conflict(after));
            from.push(0);
        }
        let mut open = Vec::new();
        for (key, value) in self.store().scan(&from, &until, limit)? {
            if let (Key::Conflict(id), Image::Conflict(conflict)) = (parse_image_key(&key)?, unpack_view(&value)?.image)
            {
                open.push(OpenConflict { id, conflict: *conflict });
            }
        }
        Ok(open)
    }

    /// Every origin that this replica knows: at a client its own only.
    pub(crate) fn origins(&self) -> Result<Vec<(OriginId, Origin)>, StorageError> {
        let (from, until) = kind_range(table::VIEW, KeyKind::Origin);
        let mut origins = Vec::new();
        self.each(&from, &until, |key, value| {
            if let (Key::Origin(id), Image::Origin(origin)) = (parse_image_key(key)?, unpack_view(value)?.image) {
                origins.push((id, Arc::unwrap_or_clone(origin)));
            }
            Ok(())
        })?;
        Ok(origins)
    }

    /// As `confirmed_applied`, of the committed state.
    pub(crate) fn confirmed_applied_committed(&self, origin: OriginId) -> Result<u64, StorageError> {
        let key = Key::Origin(origin);
        let image = match self.store().get(&image_key(table::SHADOW, &key))? {
            Some(bytes) => unpack::<crate::state::log_entry::Shadow>(&bytes)?.image,
            None => self.image(&key)?,
        };
        Ok(match image {
            Some(Image::Origin(origin)) => origin.applied,
            _ => 0,
        })
    }
}
