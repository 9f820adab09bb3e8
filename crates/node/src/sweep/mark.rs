//! What is in use.

use crate::contents::{Contents, Piece};
use crate::volume::Volume;
use std::collections::HashSet;
use wayfs_proto::Role;
use wayfs_types::{Digest, FileId, StorageError};

/// Contents asked of the engine at once: the lock is held that long.
const PAGE: usize = 256;

/// Names of chunks that must stay.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Somebody relies on these: never removed.
    pub(crate) kept: HashSet<Digest>,
    /// These are current but others have them, too: a cache may drop them when it is full.
    pub(crate) cached: HashSet<Digest>,
}

impl Marks {
    /// Marks everything below a piece as kept.
    pub(crate) fn keep(&mut self, contents: &Contents, top: Piece) {
        mark(contents, top, &mut self.kept);
    }
}

/// Asks the engine for all contents in use and walks them; `None` if the volume stops meanwhile.
/// On a full disk a station's copies of what the home has may go, too.
pub(crate) fn mark_all(volume: &Volume, is_disk_short: bool) -> Result<Option<Marks>, StorageError> {
    let mut marks = Marks::default();
    let mut after: Option<FileId> = None;
    loop {
        let Some(page) = volume.look(|replica| replica.contents_in_use(after, PAGE)) else { return Ok(None) };
        let page = page?;
        for content in &page.contents {
            let Some(top) = Piece::top(&content.content) else { continue };
            let is_role_keeping = match volume.role() {
                Role::Home => true,
                Role::Station => !is_disk_short,
                Role::Client => false,
            };
            let is_kept = content.owed || is_role_keeping || volume.hooks.is_pinned(content.file);
            mark(&volume.contents, top, if is_kept { &mut marks.kept } else { &mut marks.cached });
        }
        if volume.is_stopped() {
            return Ok(None);
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(Some(marks)),
        }
    }
}

/// Marks a tree; nodes that are not here have nothing below them that could be found.
fn mark(contents: &Contents, top: Piece, marks: &mut HashSet<Digest>) {
    let mut stack = vec![top];
    while let Some(piece) = stack.pop() {
        if !marks.insert(piece.digest) || piece.level == 0 {
            continue;
        }
        if let Ok(bytes) = contents.peek(&piece.digest) {
            stack.extend(piece.children(&bytes).unwrap_or_default());
        }
    }
}
