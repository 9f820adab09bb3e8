//! A station that takes the place of its home, which is gone for good.
//!
//! ```text
//!   station's store   view = what the home had confirmed + tentative records     log, shadow, owed
//!        │ opened as the home's, with `Config::succeeds`
//!        ▼
//!   home's store      view (all of it is the order now)                          nothing waits for anybody
//! ```
//!
//! What stood in the station's log becomes part of the order as it stands there. The numbering of changes goes on, so the
//! station's own children resume as if nothing had happened; other stations bring cursors of the former home, and are
//! told what a home that went back tells: they take the whole state over, and write again what this home lacks. Clients
//! that know more ask (`Up::Catch`), and go on as another origin. Origins are given from a place that only this life can
//! have drawn (`members/home.rs`): the former home may have given more of them than this station heard of.
//!
//! Contents that only the former home had are missing from now on, with nobody on record: the driver says of those that
//! lie here that they do, and the rest is not called stable.

use crate::contents::Contents;
use crate::contents::missing::Missing;
use crate::histories::Histories;
use crate::histories::successor::{Prospect, Succession};
use crate::locks::Locks;
use crate::members::Members;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::tables::table::TOUCH;
use crate::state::tables::{
    KeyKind, PAGE, kind_range, pack, parse_image_key, record_key, root_key, table, unpack, unpack_view,
};
use std::sync::Arc;
use wayfs_types::{Admitted, FileId, Image, Inode, Key, Limits, MetaStore, Origin, OriginId, StorageError};

/// Row of the meta table: whose place this home took.
const SUCCESSION: &[u8] = &[table::META, b'p'];

impl<S: MetaStore> Replica<S> {
    /// Makes a home's store of a station's. A crash in between leaves a station's store, with which it is begun again.
    pub(crate) fn succeed(&mut self) -> Result<(), StorageError> {
        let own = self.core.config.origin;
        let mut former = None;
        let quota = Members::quota_of_volume(&self.core)?;
        for (origin, image) in self.core.state.origins()? {
            if image.admitted == Admitted::Home && origin != own {
                former = Some((origin, image.node));
                let revoked = Origin { admitted: Admitted::Revoked, ..image };
                self.core.state.put_image(Key::Origin(origin), Some(Image::Origin(revoked.into())))?;
            } else if origin == own {
                // The volume's quota stands in the row of its home.
                let limits = Limits { quota, ..image.limits };
                let home = Origin { admitted: Admitted::Home, limits, ..image };
                self.core.state.put_image(Key::Origin(origin), Some(Image::Origin(home.into())))?;
            }
        }
        let overlay = self.core.state.take_overlay();
        self.note_unheld()?;
        self.core.state.set_overlay(overlay);
        Contents::keep_previous_owed(&mut self.core)?;
        let tentative = Histories::clear(&mut self.core, table::LOG)?;
        for of in [table::SHADOW, TOUCH, table::OWED] {
            Histories::clear(&mut self.core, of)?;
        }
        self.core.state.set_resume(None);
        self.core.state.set_reset(None);
        self.core.state.take_rescues();
        self.core.state.note_synced();
        let succession = Succession {
            origin: former.map_or(OriginId::GENESIS, |(origin, _)| origin),
            node: former.map(|(_, node)| node),
            at: self.core.state.change(),
            tentative,
        };
        self.core.state.put_row(SUCCESSION.to_vec(), pack(&succession));
        Locks::note_all_may_hold(&mut self.core);
        Histories::take_role(&mut self.core)?;
        self.commit()?;
        tracing::warn!(?succession, "this station takes the place of the home");
        self.core.state.want_sync();
        self.core.ask_sync();
        Ok(())
    }

    /// Notes what only the former home is known to have. A page at a time, since a volume may have millions of files.
    fn note_unheld(&mut self) -> Result<(), StorageError> {
        let (mut from, until) = kind_range(table::VIEW, KeyKind::Inode);
        loop {
            let rows = self.core.state.store().scan(&from, &until, PAGE)?;
            let Some((last, _)) = rows.last() else { return Ok(()) };
            from.clone_from(last);
            from.push(0);
            for (key, value) in &rows {
                if let (Key::Inode(file), Image::Inode(inode)) = (parse_image_key(key)?, unpack_view(value)?.image) {
                    self.note_unheld_of(file, Arc::unwrap_or_clone(inode))?;
                }
            }
            self.commit()?;
        }
    }

    fn note_unheld_of(&mut self, file: FileId, inode: Inode) -> Result<(), StorageError> {
        let version = inode.version;
        let Some(root) = inode.content.root().filter(|_| !inode.is_removed()) else { return Ok(()) };
        let is_owed = self.core.state.store().get(&record_key(table::OWED, version))?.is_some();
        // Or it is on record under another name: equal contents met.
        if is_owed
            || Contents::missing(&mut self.core, version)?.is_some()
            || self.contents.merged_holder(&self.core, &self.children, &inode)?.is_some()
        {
            return Ok(());
        }
        self.core.state.put_row(record_key(table::MISSING, version), pack(&Missing::of(file, version, inode.content)));
        self.core.state.put_row(root_key(&root, version), Vec::new());
        Ok(())
    }
}

impl Histories {
    /// Whose place this home took; `None`: it made the volume, or is no home.
    pub(crate) fn succession(&self) -> Option<Succession> {
        self.succession
    }

    pub(crate) fn read_succession<S: MetaStore>(&mut self, core: &Core<S>) -> Result<(), StorageError> {
        self.succession = core.state.store().get(SUCCESSION)?.map(|bytes| unpack(&bytes)).transpose()?;
        Ok(())
    }

    /// What is known of this station as a successor of its home. Which contents lie here the driver knows.
    pub(crate) fn prospect<S: MetaStore>(core: &Core<S>) -> Prospect {
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        Prospect {
            is_whole: core.state.synced() && core.state.reset().is_none() && !core.state.rescues(),
            tentative: core.state.log().tentative_len(),
            missing: count(core.state.totals().missing),
            missing_bytes: count(core.state.totals().missing_bytes),
        }
    }

    /// Takes all rows of a table out. Answers how many there were.
    fn clear<S: MetaStore>(core: &mut Core<S>, of: u8) -> Result<u64, StorageError> {
        let mut keys = Vec::new();
        core.state.each(&[of], &[of + 1], |key, _| {
            keys.push(key.to_vec());
            Ok(())
        })?;
        let count = keys.len() as u64;
        keys.into_iter().for_each(|key| core.state.delete_row(key));
        Ok(count)
    }
}
