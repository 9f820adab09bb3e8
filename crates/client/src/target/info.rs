//! All about one file.

use super::{PATIENCE, Target, refused};
use crate::events::unix_ms;
use std::path::Path;
use wayfs_control::ControlError;
use wayfs_control::report::FileInfo;
use wayfs_node::LinkState;
use wayfs_proto::Holder;
use wayfs_types::request::Level;
use wayfs_types::{Content, FileId, Inode, Kind, OriginId};

impl Target {
    pub(super) fn info(&self, path: &Path) -> Result<FileInfo, ControlError> {
        let what = format!("look up {}", path.display());
        let (file, inode) =
            crate::paths::resolve(self.volume(), path, PATIENCE).map_err(|error| refused(&what, error))?;
        let level = self.volume().look(|replica| replica.level(file)).and_then(|level| level.ok().flatten());
        let is_dirty = self.parts.vfs.files().find(file).is_some_and(|open| open.is_dirty());
        let state = if is_dirty { Level::Modified } else { level.map_or(Level::Stable, |level| level.level) };
        let overlay = self.parts.vfs.files().overlay(file);
        Ok(FileInfo {
            path: path.to_owned(),
            volume: self.parts.name.clone(),
            inode: file.inode_number(),
            kind: kind_name(&inode.kind).to_owned(),
            size_bytes: overlay.map_or(inode.content.size(), |overlay| overlay.size),
            version: inode.version.to_string(),
            written_by: self.label_of(inode.version.origin()),
            state,
            safe_at: level.and_then(|l| l.safe_at).and_then(|_| self.parts.link.status().parent.map(|p| p.label)),
            safe_unix_ms: level.and_then(|level| level.safe_at).map(unix_ms),
            visible_unix_ms: level.and_then(|level| level.visible_at).map(unix_ms),
            stable_unix_ms: level.and_then(|level| level.stable_at).map(unix_ms),
            waiting_for: self.waiting_for(state, is_dirty),
            holders: self.holders(file, &inode),
            cached_bytes: self.cached_bytes(&inode),
            pinned: self.parts.hooks.pins.covers(self.volume(), file),
            conflicts: self.conflicts_of(file),
        })
    }

    pub(super) fn label_of(&self, origin: OriginId) -> Option<String> {
        self.parts.labels.learn(&self.parts.link, &self.volume().settings().runtime, [origin]);
        self.parts.labels.label(origin)
    }

    fn waiting_for(&self, state: Level, is_dirty: bool) -> String {
        let connected = self.parts.link.status().state == LinkState::Connected;
        match (state, is_dirty, connected) {
            (Level::Stable, ..) => "",
            (Level::Modified, true, _) => "a close or fsync: writes to the open file are in no record yet",
            (Level::Modified, false, false) => "a station: none is connected",
            (Level::Modified, false, true) => "the station's word",
            (Level::Safe, ..) => "the station's next reconciliation with the home",
            (Level::Visible, ..) => "a reader elsewhere, or the propagation policy: the home fetches the contents then",
        }
        .to_owned()
    }

    fn holders(&self, file: FileId, inode: &Inode) -> Vec<String> {
        let mut holders = Vec::new();
        if self.cached_bytes(inode) == inode.content.size() {
            holders.push("here".to_owned());
        }
        let holder = self.volume().look(|replica| replica.holder(file, inode.version)).and_then(Result::ok);
        match holder {
            Some(Holder::Parent) => holders.push("parent".to_owned()),
            Some(Holder::Child(origin, _)) => holders.push(self.label_of(origin).unwrap_or_else(|| origin.to_string())),
            Some(Holder::Here | Holder::Unknown) | None => {}
        }
        holders
    }

    fn cached_bytes(&self, inode: &Inode) -> u64 {
        let is_here = matches!(inode.content, Content::Inline(_)) || self.volume().contents().has_all(&inode.content);
        if is_here { inode.content.size() } else { 0 }
    }
}

fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink(_) => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharDevice(_) => "character device",
        Kind::BlockDevice(_) => "block device",
    }
}
