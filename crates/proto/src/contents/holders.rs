//! Where the contents of a version can be had.

use crate::api::{Holder, PeerId};
use crate::children::Children;
use crate::contents::Contents;
use crate::contents::missing::{HOLDERS_MAX, Missing};
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::tables::table::VANISHED;
use crate::state::tables::{after_prefix, parse_root_key, record_key, root_prefix, table, unpack};
use wayfs_types::{FileId, MetaStore, OriginId, RecordId, StorageError};
use wayfs_wire::Down;

/// Most files of which copies in child stations are remembered.
const COPIES_MAX: usize = 65_536;

/// How likely it is that somebody on record gives contents now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HolderPresence {
    /// It has no session.
    Away,
    /// It has a session, and may have been put back to an older copy of its store.
    There,
    /// It told in its present session that it has them, or somebody below it. The home remembers that.
    Told,
}

impl<S: MetaStore> Replica<S> {
    /// [`crate::Input::Fetched`]: a child has a copy now.
    pub(crate) fn handle_fetched(&mut self, peer: PeerId, file: FileId) {
        let Some(crate::api::PeerRole::Child(child)) = self.peers.get(&peer).copied() else { return };
        if !self.contents.copies.contains_key(&file) {
            self.contents.copies_order.push_back(file);
        }
        self.contents.copies.entry(file).or_default().insert(child);
        if self.contents.copies_order.len() > COPIES_MAX
            && let Some(oldest) = self.contents.copies_order.pop_front()
        {
            self.contents.copies.remove(&oldest);
        }
    }
}

impl Contents {
    /// Where the contents of a version can be had.
    pub(crate) fn holder<S: MetaStore>(
        &self,
        core: &Core<S>,
        children: &Children,
        file: FileId,
        version: RecordId,
    ) -> Result<Holder, StorageError> {
        let parent = if core.orders() { Holder::Unknown } else { Holder::Parent };
        let has = |of: u8| Ok::<bool, StorageError>(core.state.store().get(&record_key(of, version))?.is_some());
        if has(table::OWED)? || has(table::LENT)? {
            return Ok(Holder::Here);
        }
        if let Some(bytes) = core.state.store().get(&record_key(table::MISSING, version))? {
            let missing: Missing = unpack(&bytes)?;
            return Ok(self.best_holder(core, children, &missing)?.unwrap_or(parent));
        }
        let inode = core.state.inode(file)?.filter(|inode| inode.version == version);
        Ok(match inode {
            Some(inode) if inode.content.root().is_none() => Holder::Here,
            Some(inode) => match self.merged_holder(core, children, &inode)? {
                Some(holder) => holder,
                // The file shows under this version that its bytes are lost.
                None if has(VANISHED)? => parent,
                None if core.orders() => Holder::Here,
                None => Holder::Parent,
            },
            None => parent,
        })
    }

    /// Everybody below us who may have the contents of a version, in the order of asking: who told so in its present session, who is there, who is
    /// away; of these the newest holder first, spares last.
    pub(crate) fn holders<S: MetaStore>(
        &self,
        core: &Core<S>,
        children: &Children,
        file: FileId,
        version: RecordId,
    ) -> Result<Vec<Holder>, StorageError> {
        let mut found: Vec<(OriginId, HolderPresence)> = Vec::new();
        let mut note = |missing: &Missing| {
            for child in missing.everybody().collect::<Vec<_>>().into_iter().rev() {
                let presence = self.presence_of_holder(children, missing.version, child);
                match found.iter_mut().find(|(known, _)| *known == child) {
                    Some((_, known)) => *known = presence.max(*known),
                    None => found.push((child, presence)),
                }
            }
        };
        let own = Self::missing_committed(core, version)?;
        if let Some(own) = &own {
            note(own);
        }
        let shown =
            core.state.inode(file)?.filter(|inode| inode.version == version).and_then(|inode| inode.content.root());
        if let Some(root) = own.and_then(|own| own.content.root()).or(shown) {
            // Equal contents that came under another record's name.
            let prefix = root_prefix(&root);
            for (key, _) in core.state.store().scan(&prefix, &after_prefix(&prefix), HOLDERS_MAX)? {
                if let Some(other) = Self::missing_committed(core, parse_root_key(&key)?)? {
                    note(&other);
                }
            }
        }
        found.sort_by_key(|(_, presence)| std::cmp::Reverse(*presence));
        Ok(found.into_iter().map(|(child, _)| Holder::Child(child, children.peer_of(child))).collect())
    }

    /// Equal contents that came under another record's name.
    pub(crate) fn merged_holder<S: MetaStore>(
        &self,
        core: &Core<S>,
        children: &Children,
        inode: &wayfs_types::Inode,
    ) -> Result<Option<Holder>, StorageError> {
        let Some(root) = inode.content.root() else { return Ok(None) };
        let prefix = root_prefix(&root);
        for (key, _) in core.state.store().scan(&prefix, &after_prefix(&prefix), HOLDERS_MAX)? {
            let record = parse_root_key(&key)?;
            if let Some(bytes) = core.state.store().get(&record_key(table::MISSING, record))? {
                let missing: Missing = unpack(&bytes)?;
                if missing.version == inode.version {
                    return self.best_holder(core, children, &missing);
                }
            }
        }
        Ok(None)
    }

    pub(crate) fn best_holder<S: MetaStore>(
        &self,
        core: &Core<S>,
        children: &Children,
        missing: &Missing,
    ) -> Result<Option<Holder>, StorageError> {
        let mut best = self.child_holder(children, missing.version, &missing.everybody().collect::<Vec<_>>());
        if let Some(root) = missing.content.root() {
            let prefix = root_prefix(&root);
            for (key, _) in core.state.store().scan(&prefix, &after_prefix(&prefix), HOLDERS_MAX)? {
                if matches!(best, Some(Holder::Child(_, Some(_)))) {
                    break;
                }
                let other = core.state.store().get(&record_key(table::MISSING, parse_root_key(&key)?))?;
                if let Some(other) = other.map(|bytes| unpack::<Missing>(&bytes)).transpose()? {
                    let found = self.child_holder(children, other.version, &other.everybody().collect::<Vec<_>>());
                    if matches!(found, Some(Holder::Child(_, Some(_)))) || best.is_none() {
                        best = found;
                    }
                }
            }
        }
        Ok(best)
    }

    /// The one to be asked of those on record, oldest first: of equal ones the newest.
    fn child_holder(&self, children: &Children, version: RecordId, holders: &[OriginId]) -> Option<Holder> {
        let origin = *holders.iter().max_by_key(|origin| self.presence_of_holder(children, version, **origin))?;
        Some(Holder::Child(origin, children.peer_of(origin)))
    }

    fn presence_of_holder(&self, children: &Children, version: RecordId, holder: OriginId) -> HolderPresence {
        match children.peer_of(holder) {
            Some(_) if self.keeper().is_some_and(|keeper| keeper.replacing.has_told(version, holder)) => {
                HolderPresence::Told
            }
            Some(_) => HolderPresence::There,
            None => HolderPresence::Away,
        }
    }

    /// A child's new version breaks the copies of the others: its side is told.
    pub(crate) fn note_sharing(&mut self, children: &mut Children, child: OriginId, file: FileId, version: RecordId) {
        let Some(copies) = self.copies.get_mut(&file) else { return };
        let broken = copies.iter().any(|other| *other != child);
        copies.retain(|other| *other == child);
        if broken {
            children.tell(child, Down::Shared { file, version });
        }
    }

    fn missing_committed<S: MetaStore>(core: &Core<S>, version: RecordId) -> Result<Option<Missing>, StorageError> {
        core.state.store().get(&record_key(table::MISSING, version))?.map(|bytes| unpack(&bytes)).transpose()
    }
}
