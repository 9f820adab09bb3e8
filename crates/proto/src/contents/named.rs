//! Contents that the home names and a station may have without knowing it.
//!
//! A client pushes contents to a station that may not have heard of their record
//! yet, since it cannot reach the home. A crash of the station forgets that they
//! were announced. Then the home names them, and if their writer is gone by then,
//! nobody tells the station that it is the only one who has them. So it looks:
//! once for the contents of each version that the parent names and that is new
//! here, unless the home is known to have them.
//!
//! ```text
//!   image from the parent ──▶ Output::LookHere ──▶ driver reads its chunk store
//!                             Input::LookedHere ◀──
//!                                  │ all of it is here: owed, and told to the home
//! ```
//!
//! What is not here then may come afterwards, and its writer be gone before it says
//! so: it is owed when it comes.
//!
//! What is being looked for counts as at this station only; it may be what nobody
//! below has by the records, too (`contents/denied.rs`). What was named while
//! too much was under way, or before a restart, is found again by the numbers of
//! changes: up to [`crate::contents::named_looks::Named::through`] nothing is left to look for.
//!
//! Where the store takes nothing, on a full disk, what was found is looked for
//! again later, after a pause that grows: each answer would order all looks anew.

use crate::api::Output;
use crate::children::Children;
use crate::contents::Contents;
use crate::contents::duty::Carrier;
use crate::contents::named_looks::Named;
use crate::replica::core::Core;
use crate::state::tables::{change_key, number_key, pack, parse_change, table, unpack};
use wayfs_types::{Content, FileId, Image, Inode, Key, MetaStore, RecordId, StorageError, Top};
use wayfs_wire::KeyImage;

/// Row of the change up to which everything was looked for; absent: from the first on it is to be.
const LOOKED: &[u8] = &[table::META, b'h'];
/// Most versions that are remembered of those that were looked for in vain.
const IN_VAIN_MAX: usize = 4096;
/// Rows of the index of changes that are gone through in one step.
const PAGE: usize = 256;
/// The row may lag behind so many changes: they are gone through once more after a restart.
const LAG_MAX: u64 = 4096;

impl Contents {
    /// [`crate::Input::LookedHere`].
    pub(crate) fn handle_looked_here<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        children: &mut Children,
        here: &[RecordId],
        not_here: &[RecordId],
    ) -> Result<(), StorageError> {
        for version in not_here {
            if let Some((file, content)) = self.look_ended(*version) {
                self.confirm_denial(core, children, *version)?;
                self.remember_in_vain(*version, file, content);
            }
        }
        for version in here {
            let Some((file, content)) = self.look_ended(*version) else { continue };
            self.take_denial(*version);
            if let Some(missing) = Self::missing(core, *version)? {
                self.settle_missing(core, children, *version, &missing);
            }
            if self.stable_alone(*version).is_some() {
                continue;
            }
            self.owe(core, *version, file, content)?;
        }
        Ok(())
    }

    /// The driver has looked. Answers for what, if anybody wants to know still.
    fn look_ended(&mut self, version: RecordId) -> Option<(FileId, Content)> {
        let named = &mut self.carrier_mut()?.named;
        let looked_for = named.under_way.remove(&version)?;
        named.again.remove(&version);
        named.touched.push((version, looked_for.clone()));
        Some(looked_for)
    }

    fn remember_in_vain(&mut self, version: RecordId, file: FileId, content: Content) {
        let (Some(Carrier { named, .. }), Some(top)) = (self.carrier_mut(), content.top()) else { return };
        named.in_vain.insert(top, (version, file, content));
        if named.in_vain.len() > IN_VAIN_MAX {
            named.in_vain.pop_first();
        }
    }

    /// Contents came that no record of a child names. If the parent named them, and they were not here then, they are owed from here on:
    /// their writer may be gone before it says that it brings them (seed 175006832).
    pub(crate) fn owe_what_came_late<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        top: Top,
    ) -> Result<(), StorageError> {
        let late = self.carrier_mut().and_then(|carrier| carrier.named.in_vain.remove(&top));
        let Some((version, file, content)) = late else { return Ok(()) };
        let Some(inode) = core.state.inode(file)? else { return Ok(()) };
        let is_shown = inode.version == version && inode.content == content;
        let is_stable =
            self.stable_alone(version).is_some() || core.state.marks(version.origin())?.stable >= version.sequence();
        if is_shown && !is_stable { self.owe(core, version, file, content) } else { Ok(()) }
    }

    /// A restart forgot what was looked for last.
    pub(crate) fn read_named<S: MetaStore>(&mut self, core: &Core<S>) -> Result<(), StorageError> {
        let through = core.state.store().get(LOOKED)?.map(|bytes| unpack(&bytes)).transpose()?.unwrap_or_default();
        if let Some(carrier) = self.carrier_mut() {
            carrier.named = Named::default();
            carrier.named.behind_from(through);
        }
        Ok(())
    }

    /// The parent names versions. What was announced is owed from here on, whether their writer comes to account for them or not; it
    /// stays announced, for a writer that does so after the home said that it has them. The rest is looked for.
    pub(crate) fn look_at_named<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        cut: &[KeyImage],
    ) -> Result<(), StorageError> {
        if self.carrier().is_none() {
            return Ok(());
        }
        for pair in cut {
            let (Key::Inode(file), Some(Image::Inode(inode))) = (&pair.key, &pair.image) else { continue };
            if self.announced.has(&inode.content) && Self::missing(core, inode.version)?.is_none() {
                self.owe(core, inode.version, *file, inode.content.clone())?;
            } else if inode.content.root().is_some() && !Self::shows(core, *file, inode)? {
                self.look_here(core, *file, inode)?;
            }
        }
        Ok(())
    }

    /// Goes on with what was not looked at yet.
    pub(crate) fn look_at_rest<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        // In the first catch-up, and while the home writes again what it lost, it is not known yet what it has.
        let Some(Carrier { named, .. }) = self.carrier_mut() else { return Ok(()) };
        if named.rest.lasts(core.now) || !core.state.synced() || core.state.rescues() {
            return Ok(());
        }
        for version in std::mem::take(&mut named.again) {
            let Some((file, content)) = named.under_way.get(&version).cloned() else { continue };
            named.touched.push((version, (file, content.clone())));
            core.state.stage_output(Output::LookHere { file, version, content });
        }
        if named.is_behind && named.has_room() {
            self.look_at_page(core)?;
        }
        let (Some(Carrier { named, .. }), change) = (self.carrier_mut(), core.state.change()) else { return Ok(()) };
        if named.is_behind || !named.under_way.is_empty() {
            return Ok(());
        }
        named.through = change;
        named.rest.be_short();
        if change.0 >= named.written.0.saturating_add(LAG_MAX) {
            named.written = change;
            core.state.put_row(LOOKED.to_vec(), pack(&change));
        }
        Ok(())
    }

    fn look_at_page<S: MetaStore>(&mut self, core: &mut Core<S>) -> Result<(), StorageError> {
        let Some(Carrier { named, .. }) = self.carrier_mut() else { return Ok(()) };
        let from = change_key(table::CHANGE, named.through.next());
        let pairs = core.state.store().scan(&from, &number_key(table::CHANGE, u64::MAX), PAGE)?;
        named.is_behind = pairs.len() == PAGE;
        core.more_work |= named.is_behind;
        for pair in &pairs {
            let (number, key) = parse_change(pair)?;
            if let Key::Inode(file) = key
                && let Some(inode) = core.state.inode(file)?.filter(|inode| inode.content.root().is_some())
            {
                self.look_here(core, file, &inode)?;
            }
            let Some(Carrier { named, .. }) = self.carrier_mut() else { return Ok(()) };
            if !named.has_room() {
                // The last one may not have found any.
                named.is_behind = true;
                return Ok(());
            }
            named.through = number;
        }
        Ok(())
    }

    /// Has the driver look for the contents of a version that a file shows, unless it is known who has them.
    fn look_here<S: MetaStore>(&mut self, core: &mut Core<S>, file: FileId, inode: &Inode) -> Result<(), StorageError> {
        let version = inode.version;
        if let Some(owed) = Self::owed(core, version)? {
            // What was a copy here may be the file itself there: nobody needs it by the copy, which goes.
            let is_elsewhere = owed.file != file && file != FileId::made_by(version) && owed.content == inode.content;
            return if is_elsewhere { self.owe(core, version, file, owed.content) } else { Ok(()) };
        }
        let is_known = self.stable_alone(version).is_some()
            || core.state.marks(version.origin())?.stable >= version.sequence()
            || Self::missing(core, version)?.is_some();
        let Some(Carrier { named, .. }) = self.carrier_mut().filter(|_| !is_known) else { return Ok(()) };
        if named.is_under_way(version) {
            return Ok(());
        }
        if !named.has_room() {
            named.is_behind = true;
            return Ok(());
        }
        self.begin_look(core, file, version, inode.content.clone());
        Ok(())
    }

    /// Has the driver look for contents here.
    pub(super) fn begin_look<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        file: FileId,
        version: RecordId,
        content: Content,
    ) {
        let Some(Carrier { named, .. }) = self.carrier_mut() else { return };
        named.under_way.insert(version, (file, content.clone()));
        named.begun.push(version);
        core.state.stage_output(Output::LookHere { file, version, content });
    }

    fn shows<S: MetaStore>(core: &mut Core<S>, file: FileId, named: &Inode) -> Result<bool, StorageError> {
        let shown = wayfs_tree::inode(&core.state.tx(), file)?;
        Ok(shown.is_some_and(|shown| shown.version == named.version && shown.content == named.content))
    }
}
