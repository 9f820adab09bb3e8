//! What a client wrote and its home may have lost after it had called it stable.
//!
//! The client answers for contents until they are stable. A home that was put back to an older copy may have the record and not
//! the contents. Then the client counts them again, and offers what it still has, as soon as it hears of the home: nobody else may
//! be left who has them, and its account says what the home lacks.
//!
//! ```text
//!   what was stable is not any more ──▶ noted ──home heard──▶ the view, page by page: Seek ──here──▶ lent again
//!                                                                                        └─gone──▶ told
//! ```
//!
//! What the home has after all it says when it is offered, and the client lets go again.

use crate::contents::Contents;
use crate::contents::own_looks::first_inode;
use crate::histories::Histories;
use crate::replica::Replica;
use crate::replica::core::Core;
use crate::state::tables::{KeyKind, PAGE, kind_range, parse_image_key, table, unpack_view};
use crate::upstream::Uplink;
use crate::upstream::line::UplinkState;
use std::collections::BTreeSet;
use wayfs_types::{FileId, Image, Inode, Key, MetaStore, OriginId, StorageError, Time};

/// Row of a client that is to look; absent: it is not.
const RECOUNT: &[u8] = &[table::META, b's'];
/// Former origins of which is looked for contents: the latest.
const FORMER_MAX: usize = 64;

impl<S: MetaStore> Replica<S> {
    /// Whether it is yet to be seen what the home lacks of what this machine wrote under origins that it had before: of these no
    /// mark tells. What the driver has looked for in vain its home is told.
    pub(crate) fn is_recounting(&self) -> bool {
        self.contents.author().is_some_and(|author| author.own_looks.is_under_way()) && self.histories.has_former()
    }

    /// Goes on looking: one page of the view.
    pub(crate) fn recount_own(&mut self) -> Result<(), StorageError> {
        if !Contents::may_recount(&self.core, &self.uplink) {
            return Ok(());
        }
        let now = self.core.now;
        let Some(from) = self.contents.author_mut().and_then(|author| author.own_looks.due(now)) else { return Ok(()) };
        let former: BTreeSet<OriginId> = Histories::former_origins(&mut self.core, FORMER_MAX)?.into_iter().collect();
        let rows = self.core.state.tx().scan_raw(&from, &kind_range(table::VIEW, KeyKind::Inode).1, PAGE)?;
        let next = rows.last().filter(|_| rows.len() == PAGE).map(|(last, _)| [last.as_slice(), &[0]].concat());
        for (key, value) in rows {
            if let (Key::Inode(file), Image::Inode(inode)) = (parse_image_key(&key)?, unpack_view(&value)?.image) {
                self.contents.seek_own(&mut self.core, &self.uplink, file, &inode, &former)?;
            }
        }
        if next.is_none() {
            self.core.state.delete_row(RECOUNT.to_vec());
            self.requests.note_levels_moved();
        }
        if let Some(author) = self.contents.author_mut() {
            *author.own_looks.from.edit() = next;
        }
        Ok(())
    }
}

impl Contents {
    /// When to go on looking.
    pub(crate) fn recount_timeout<S: MetaStore>(&self, core: &Core<S>, uplink: &Uplink) -> Option<Time> {
        let looks = &self.author().filter(|_| Self::may_recount(core, uplink))?.own_looks;
        looks.from.as_ref()?;
        Some(looks.rest.timeout().unwrap_or(core.now))
    }

    /// Whether what the parent calls stable is the word of the home of today, and whose our records are is settled.
    fn may_recount<S: MetaStore>(core: &Core<S>, uplink: &Uplink) -> bool {
        let is_forked = core.standing().is_none_or(|state| state == UplinkState::Forked);
        core.is_trusted() && !is_forked && uplink.is_home_reachable(core, core.now) == Some(true)
    }

    /// Looks for contents that we wrote, that are not called stable, and for which nothing says that we answer.
    fn seek_own<S: MetaStore>(
        &mut self,
        core: &mut Core<S>,
        uplink: &Uplink,
        file: FileId,
        inode: &Inode,
        former: &BTreeSet<OriginId>,
    ) -> Result<(), StorageError> {
        let (version, content) = (inode.version, &inode.content);
        let is_own = version.origin() == core.config.origin;
        let is_ours = is_own || former.contains(&version.origin()) && !uplink.was_written_again(version);
        if content.root().is_none() || inode.is_removed() || !is_ours {
            return Ok(());
        }
        let is_stable = is_own && version.sequence() <= core.state.marks(version.origin())?.stable;
        if is_stable
            || Self::owed(core, version)?.is_some()
            || Self::lent(core, version)?.is_some()
            || Self::is_vanished(core, version)?
        {
            return Ok(());
        }
        self.look(core, file, version, content.clone());
        Ok(())
    }

    pub(crate) fn read_recount<S: MetaStore>(&mut self, core: &Core<S>) -> Result<(), StorageError> {
        if let Some(author) = self.author_mut() {
            *author.own_looks.from.as_stored() = core.state.store().get(RECOUNT)?.map(|_| first_inode());
        }
        Ok(())
    }

    /// The home has less than it had told to be stable: what it lacks of ours is looked for when it is heard.
    pub(crate) fn note_recount<S: MetaStore>(&mut self, core: &mut Core<S>) {
        if let Some(author) = self.author_mut() {
            *author.own_looks.from.edit() = Some(first_inode());
            core.state.put_row(RECOUNT.to_vec(), Vec::new());
        }
    }
}
