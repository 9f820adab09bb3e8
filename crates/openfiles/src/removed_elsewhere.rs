//! Attributes of files that have no name any more and live on in their handles.
//!
//! Of a file that a program of this machine removed, the whole inode is kept (`Life::removed`), and nothing of it goes into a record.
//! One that another machine removed is still known to the engine, as a marker: what is written through its handles brings
//! it back. Attributes that are set through them do not, since they say nothing that anybody could miss; they are kept here, shown
//! through the handles, and given to the file if what is written brings it back. So are the extended attributes that it had, which
//! a marker does not keep.

use super::contents::Contents;
use super::open_file::OpenFile;
use super::state::SetSince;
use std::sync::Arc;
use wayfs_types::request::{Change, XattrPresence};
use wayfs_types::{AttrChange, Content, FileId, Inode, Name, Place, WallTime};

impl OpenFile {
    /// The engine's newest word of its attributes.
    pub(super) fn know(&self, inode: &Inode) {
        if !inode.is_removed() {
            let mut state = self.state();
            state.known_as = Arc::new(Inode { content: Content::EMPTY, ..inode.clone() });
            state.set_since = None;
        }
    }

    /// The inode of a file that another machine removed, as it was last seen here, in the form of one without a name. `marker` is
    /// what the engine has of it.
    pub(super) fn last_seen(&self, marker: Option<&Inode>) -> Arc<Inode> {
        let state = self.state();
        let mut inode = match &state.set_since {
            Some(set) => Inode::clone(&set.inode),
            None => as_marked(Inode::clone(&state.known_as), marker),
        };
        inode.mtime = if state.set_since.is_none() || state.life.is_dirty() { state.mtime } else { inode.mtime };
        let (content, version) = (state.base.content.clone(), state.base.version);
        let removed_from = Some(marker.and_then(|marker| marker.removed_from.clone()).unwrap_or_else(nowhere));
        Arc::new(Inode { content, version, removed_from, places: Vec::new(), unlisted: 0, ..inode })
    }

    /// Changes attributes of a file without a name, which no record holds. `seen` is the inode that the caller was shown: that tells
    /// whether another machine took the last name. Answers what the file is then, or nothing if it has a name.
    pub fn change_removed(
        &self,
        seen: &Inode,
        (now, user): (WallTime, u32),
        change: impl FnOnce(&mut Inode),
    ) -> Option<Arc<Inode>> {
        let mut state = self.state();
        if !state.life.is_removed() && !seen.is_removed() {
            return None;
        }
        let mut inode = match (state.life.removed(), &state.set_since) {
            (Some(removed), _) => Inode::clone(removed),
            (None, Some(set)) => Inode { content: seen.content.clone(), ..Inode::clone(&set.inode) },
            (None, None) => seen.clone(),
        };
        let before = inode.mtime;
        change(&mut inode);
        inode.ctime = inode.ctime.max(now);
        if inode.mtime != before {
            state.mtime = inode.mtime;
            // Until somebody writes again, the time that was asked for holds, and not the body's.
            state.mark_passthrough();
        }
        let inode = Arc::new(inode);
        if state.life.is_removed() {
            state.life.unnamed(inode.clone());
        } else {
            state.set_since = Some(SetSince { inode: inode.clone(), user });
        }
        Some(inode)
    }

    /// To be asked before what was written is stored, which brings a file back that another machine removed: it is to have the
    /// extended attributes that it had.
    pub(super) fn keep_attributes(&self, contents: &dyn Contents) {
        let has_any = {
            let state = self.state();
            !state.life.is_removed() && state.set_since.is_none() && !state.known_as.xattrs.is_empty()
        };
        let marker = has_any.then(|| contents.inode(self.id())).flatten().filter(|inode| inode.is_removed());
        if let Some(marker) = marker {
            let mut state = self.state();
            let inode = Arc::new(as_marked(Inode::clone(&state.known_as), Some(&marker)));
            state.set_since.get_or_insert(SetSince { inode, user: marker.uid });
        }
    }

    /// What was written brought a file back that another machine had removed, if that is so: it gets the attributes that were set
    /// meanwhile.
    pub(super) fn give_attributes(&self, contents: &dyn Contents, stored: &Inode) {
        if stored.is_removed() {
            return;
        }
        let Some(set) = self.state().set_since.take() else { return };
        for change in changes(self.id(), &set.inode, stored) {
            if let Err(error) = contents.change(set.user, change) {
                tracing::warn!(file = %self.id(), %error, "a file that came back does not have what was set while it was removed");
            }
        }
    }
}

/// Rights and owners as the engine kept them: they may be newer than what was told before.
fn as_marked(known: Inode, marker: Option<&Inode>) -> Inode {
    match marker {
        Some(marker) => Inode { mode: marker.mode, uid: marker.uid, gid: marker.gid, ctime: marker.ctime, ..known },
        None => known,
    }
}

/// Where a file stood of which the engine has no trace.
fn nowhere() -> Place {
    Place { parent: FileId::ROOT, name: Name::new("removed").expect("a valid name") }
}

/// What makes the attributes of a file those of `wanted`. Its time is that of the write that brought it back.
fn changes(file: FileId, wanted: &Inode, has: &Inode) -> Vec<Change> {
    let other = |wanted, has| (wanted != has).then_some(wanted);
    let change = AttrChange {
        mode: (wanted.mode != has.mode).then_some(wanted.mode),
        uid: other(wanted.uid, has.uid),
        gid: other(wanted.gid, has.gid),
        mtime: None,
    };
    let mut changes = Vec::new();
    if change != AttrChange::default() {
        changes.push(Change::SetAttr { file, change });
    }
    for (name, value) in wanted.xattrs.iter().filter(|(name, value)| has.xattrs.get(name) != Some(value)) {
        let (name, value) = (name.clone(), Some(value.clone()));
        changes.push(Change::SetXattr { file, name, value, presence: XattrPresence::Any });
    }
    changes
}
