//! What is in use.

use super::names::Names;
use crate::contents::{Contents, DiskShortage};
use crate::relied_on::is_relied_on;
use crate::volume::Volume;
use wayfs_proto::{ContentInUse, Role};
use wayfs_transfer::Piece;
use wayfs_types::{Digest, FileId, RecordId, StorageError};

/// Contents asked of the engine at once: the lock is held that long.
const PAGE: usize = 256;

/// Names of chunks that must stay.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Somebody relies on these: never removed.
    pub(crate) kept: Names,
    /// These are current but others have them, too: a cache may drop them when it is full.
    pub(crate) cached: Names,
    /// A content that others rely on this machine to have, and whose chunks could not all be marked.
    pub(crate) torn: Option<Torn>,
}

/// A content below one of whose list nodes nothing could be marked, since that is damaged, gone, or cannot be read. Chunks below it
/// look as if nobody needed them, and may be all that there is of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Torn {
    pub(crate) file: FileId,
    pub(crate) version: RecordId,
    pub(crate) node: Digest,
}

impl Marks {
    /// Marks everything below a piece as kept.
    pub(crate) fn keep(&mut self, contents: &Contents, top: Piece) {
        mark(contents, top, &mut self.kept);
    }
}

/// Asks the engine for all contents in use and walks them; `None` if the volume stops meanwhile.
/// On a full disk a station's copies of what the home has may go, too.
pub(crate) fn mark_all(volume: &Volume, shortage: Option<DiskShortage>) -> Result<Option<Marks>, StorageError> {
    let mut marks = Marks::default();
    let mut after: Option<FileId> = None;
    loop {
        let Some(page) = volume.look(|replica| replica.contents_in_use(after, PAGE)) else { return Ok(None) };
        let page = page?;
        for used in &page.contents {
            let Some(top) = Piece::top(&used.content) else { continue };
            let is_role_keeping = match volume.role() {
                Role::Home => true,
                Role::Station => shortage.is_none(),
                Role::Client => false,
            };
            let is_kept = used.owed || is_role_keeping || volume.hooks.is_pinned(used.file);
            let unread = mark(&volume.contents, top, if is_kept { &mut marks.kept } else { &mut marks.cached });
            if let Some(node) = unread.filter(|_| marks.torn.is_none()) {
                marks.torn = torn_of(volume, used, node)?;
            }
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

/// Marks a tree. Answers a list node that could not be read, if there is one: what is below it is not marked.
fn mark(contents: &Contents, top: Piece, marks: &mut Names) -> Option<Digest> {
    let mut unread = None;
    let mut stack = vec![top];
    while let Some(piece) = stack.pop() {
        if !marks.insert(piece) || piece.level == 0 {
            continue;
        }
        match contents.peek(&piece.digest) {
            Ok(bytes) => stack.extend(piece.children(&bytes).unwrap_or_default()),
            Err(_) => unread = Some(piece.digest),
        }
    }
    unread
}

/// Whether a content of which a list node cannot be read ought to be here. Elsewhere copies in parts are usual, and contents that
/// are on their way are so at the home.
fn torn_of(volume: &Volume, used: &ContentInUse, node: Digest) -> Result<Option<Torn>, StorageError> {
    let Some(version) = used.version else { return Ok(None) };
    let relied_on = volume.look(|replica| is_relied_on(replica, used)).transpose()?;
    Ok(relied_on.unwrap_or(false).then_some(Torn { file: used.file, version, node }))
}
