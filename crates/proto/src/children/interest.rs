//! Which child hears of which change.
//!
//! A station hears of everything; a client of the entries of the directories it
//! watches, of the inodes that stand or stood in them, of inodes it watches
//! one by one, of files it made, of its own origin, of every conflict, of whatever
//! its own records changed, and of what they made in the home's order, whoever
//! brought that.

use crate::children::{Child, ChildState, Children};
use crate::replica::core::Core;
use crate::state::names::directories_of;
use crate::state::overlay::Changed;
use std::collections::{BTreeMap, BTreeSet};
use wayfs_types::{FileId, Image, Key, MetaStore, OriginId, RecordId};

/// The records that made an image what it is.
fn made_by(image: &Image) -> impl Iterator<Item = RecordId> + use<> {
    let versions = match image {
        Image::Inode(inode) => [Some(inode.version), Some(inode.attr_version.0)],
        Image::Entry(entry) => [Some(entry.version), None],
        Image::Conflict(_) | Image::Origin(_) => [None, None],
    };
    versions.into_iter().flatten()
}

/// The origins whose records made a key what it is, by a change. The client itself sent them here before, or by another
/// way, upon another order: then it may show what was never so in this one.
fn newly_made_by(change: &Changed) -> impl Iterator<Item = OriginId> + use<'_> {
    let before = || change.old.iter().flat_map(made_by);
    let after = change.new.iter().flat_map(made_by);
    after.filter(move |version| before().all(|known| known != *version)).map(RecordId::origin)
}

/// Whether a client wants to hear what a key is now.
pub(crate) fn is_interesting(origin: OriginId, child: &Child, key: &Key, image: Option<&Image>) -> bool {
    if image.is_some_and(|image| made_by(image).any(|version| version.origin() == origin)) {
        return true;
    }
    match (key, image) {
        (Key::Entry(parent, _), _) => child.watches.contains(parent),
        (Key::Inode(file), image) => {
            child.watches.contains(file)
                || file.maker().origin() == origin
                || matches!(image, Some(Image::Inode(inode)) if directories_of(inode).any(|dir| child.watches.contains(&dir)))
        }
        (Key::Conflict(_), _) => true,
        (Key::Origin(of), _) => *of == origin,
    }
}

/// The directories in which changes give names to files.
fn named_by(changed: &[Changed]) -> BTreeMap<FileId, Vec<FileId>> {
    let mut named: BTreeMap<FileId, Vec<FileId>> = BTreeMap::new();
    for change in changed {
        if let (Key::Entry(parent, _), Some(Image::Entry(entry))) = (&change.key, &change.new) {
            named.entry(entry.file).or_default().push(*parent);
        }
    }
    named
}

impl Children {
    /// Puts changed keys into the queues of the clients they concern. Answers which clients, other than those
    /// whose records these are.
    pub(crate) fn route(&mut self, changed: &[Changed], echo: &BTreeSet<OriginId>) -> BTreeSet<OriginId> {
        let mut affected = BTreeSet::new();
        if changed.is_empty() || self.by_origin.is_empty() {
            return affected;
        }
        for (origin, child) in &self.by_origin {
            if child.is_station {
                self.busy.insert(*origin);
            }
        }
        let named = named_by(changed);
        for change in changed {
            let mut targets: BTreeSet<OriginId> = echo.iter().copied().chain(newly_made_by(change)).collect();
            let mut watched = |file: &FileId| targets.extend(self.watchers.get(file).into_iter().flatten());
            match &change.key {
                Key::Entry(parent, _) => watched(parent),
                Key::Inode(file) => {
                    watched(file);
                    for image in [&change.old, &change.new].into_iter().flatten() {
                        if let Image::Inode(inode) = image {
                            directories_of(inode).for_each(|directory| watched(&directory));
                        }
                    }
                    // Who looks where a file gets a name that it does not list is told what it is.
                    if matches!(&change.new, Some(Image::Inode(inode)) if inode.is_crowded()) {
                        named.get(file).into_iter().flatten().for_each(&mut watched);
                    }
                    targets.insert(file.maker().origin());
                }
                Key::Conflict(_) => targets.extend(self.by_origin.keys()),
                Key::Origin(origin) => {
                    targets.insert(*origin);
                }
            }
            for origin in targets {
                let Some(child) = self.by_origin.get_mut(&origin) else { continue };
                let listens = matches!(child.state, ChildState::Live | ChildState::Detached);
                let own = echo.contains(&origin) || matches!(change.key, Key::Origin(_));
                if child.is_station || child.unknown || !(listens || own) {
                    continue;
                }
                child.pending.insert(change.number, change.key.clone());
                self.busy.insert(origin);
                if !own {
                    affected.insert(origin);
                }
            }
        }
        affected
    }

    /// Writers wait until the clients that their change concerns have received it.
    pub(crate) fn block_on_callbacks<S: MetaStore>(
        &mut self,
        core: &Core<S>,
        taken: &[RecordId],
        affected: &BTreeSet<OriginId>,
    ) {
        let unknown = self.by_origin.values().any(|child| child.unknown);
        if affected.is_empty() && !unknown {
            return;
        }
        for record in taken {
            let queue = self.blocked.entry(record.origin()).or_default();
            queue.push_back((record.sequence(), core.state.change()));
        }
    }
}
