//! Reading ahead through a tree of small files.
//!
//! Read-ahead within a file does nothing for who copies, searches or compiles a tree: such files have one chunk each, and each
//! costs a round trip to wherever it is. Names and attributes are here by then (the reader has listed the directory), and they tell
//! which chunks the files have, so the next files are asked for while the present one is read.
//!
//! * A **walk** begins at the second of two files near each other that had to be waited for: in one directory, or in two with a
//!   common one at most [`NEAR`] steps up. It goes on behind that file in the order of names, into directories below as
//!   it meets them, through all that the two have in common above them, and further up once it proved useful.
//! * What was fetched and not read yet is bounded by [`FIRST_LEN`] and twice what was read of this walk so far: the window opens
//!   as read-ahead within a file does, and what is fetched in vain stays in proportion to what was of use.
//! * It ends when nothing of it was read for [`IDLE`].

use std::collections::HashMap;
use std::time::{Duration, Instant};
use wayfs_types::{Digest, FileId, Name, RecordId};

/// Bytes fetched ahead before anything of a walk was read: about twenty sources. A second of a 1 Mb/s line at worst, a third of
/// that as sources pack.
const FIRST_LEN: u64 = 128 * 1024;
/// Most bytes fetched ahead: fills a path of 100 Mb/s and 150 ms.
const AHEAD_LEN_MAX: u64 = 2 << 20;
/// Files above this are not fetched ahead: read-ahead within them does enough.
pub(crate) const FILE_LEN_MAX: u64 = 128 * 1024;
/// Nothing of a walk was read for so long: whoever walked has stopped.
const IDLE: Duration = Duration::from_secs(10);
/// Files read of a walk after which it may leave the directory that it began in.
const LEAVE_AFTER: u32 = 4;
/// Files looked at in one step: trees that are here already are passed in several.
const STEPS_MAX: usize = 1000;
/// Steps up within which two directories count as near each other; the root of the volume makes nothing near.
const NEAR: usize = 2;
/// Deepest directory looked up.
const DEPTH_MAX: usize = 64;

/// A tree as far as it is known without asking anybody.
pub(crate) trait Tree {
    /// Directory and name of a file.
    fn place(&self, file: FileId) -> Option<(FileId, Name)>;

    /// Some entries of a directory in the order of names, from after a name; none: that was all.
    fn entries(&self, directory: FileId, after: Option<&Name>) -> Vec<(Name, Node)>;

    /// Whether a chunk is here.
    fn has(&self, digest: &Digest) -> bool;
}

/// What a name stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Directory(FileId),
    /// A file of one chunk, not above [`FILE_LEN_MAX`].
    File(SmallFile),
    /// Nothing to fetch ahead.
    Other,
}

/// A file of one chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SmallFile {
    pub(crate) file: FileId,
    pub(crate) version: RecordId,
    pub(crate) digest: Digest,
    pub(crate) len: u64,
}

/// Notices walks and says what to fetch next.
#[derive(Debug, Default)]
pub(crate) struct TreeAhead {
    last: Option<Miss>,
    walk: Option<Walk>,
}

/// A file that had to be waited for.
#[derive(Debug, Clone, Copy)]
struct Miss {
    file: FileId,
    directory: FileId,
    at: Instant,
}

#[derive(Debug)]
struct Walk {
    /// All of it lies below, but what was left behind when it went up.
    root: FileId,
    /// From the root to where it is.
    open: Vec<Open>,
    /// Fetched, and not read yet.
    unread: HashMap<Digest, u64>,
    unread_len: u64,
    read_len: u64,
    /// Files read since it began or last went up.
    read: u32,
    at: Instant,
}

/// A directory that it is in.
#[derive(Debug)]
struct Open {
    directory: FileId,
    after: Option<Name>,
    entries: std::vec::IntoIter<(Name, Node)>,
}

impl Open {
    fn new(directory: FileId, after: Option<Name>) -> Self {
        Self { directory, after, entries: Vec::new().into_iter() }
    }

    fn next(&mut self, tree: &dyn Tree) -> Option<Node> {
        if self.entries.as_slice().is_empty() {
            self.entries = tree.entries(self.directory, self.after.as_ref()).into_iter();
        }
        let (name, node) = self.entries.next()?;
        self.after = Some(name);
        Some(node)
    }
}

impl TreeAhead {
    /// Whether another file than this had to be waited for lately.
    pub(crate) fn has_missed(&self, now: Instant, file: FileId) -> bool {
        self.last.is_some_and(|last| last.file != file && now.duration_since(last.at) < IDLE)
    }

    /// What was taken for a wait was none.
    pub(crate) fn was_quick(&mut self, file: FileId) {
        self.last = self.last.filter(|last| last.file != file);
    }

    /// A file has to be waited for.
    pub(crate) fn missed(&mut self, now: Instant, file: FileId, tree: &dyn Tree) {
        let Some((directory, name)) = tree.place(file) else { return };
        let is_second = self.has_missed(now, file);
        let last = self.last.replace(Miss { file, directory, at: now });
        if let Some(walk) = &mut self.walk
            && !walk.open.is_empty()
            && now.duration_since(walk.at) < IDLE
            && is_below(directory, walk.root, tree)
        {
            // It is on its way there.
            walk.at = now;
            return;
        }
        if let Some(last) = last.filter(|_| is_second)
            && let Some(mut walk) = Walk::from(last.directory, (directory, name), tree, now)
        {
            // A walk that follows on another trusts as much as that one earned.
            if let Some(before) = self.walk.take().filter(|walk| now.duration_since(walk.at) < IDLE) {
                (walk.read, walk.read_len) = (before.read, before.read_len);
            }
            self.walk = Some(walk);
        }
    }

    /// A chunk was read; answers whether there is room for more now.
    pub(crate) fn read(&mut self, now: Instant, digest: &Digest) -> bool {
        let Some(walk) = &mut self.walk else { return false };
        let Some(len) = walk.unread.remove(digest) else { return false };
        walk.unread_len -= len;
        walk.read_len += len;
        walk.read += 1;
        walk.at = now;
        true
    }

    /// The next file to fetch, if there is room for it.
    pub(crate) fn next(&mut self, now: Instant, tree: &dyn Tree) -> Option<SmallFile> {
        let walk = self.walk.as_mut()?;
        if now.duration_since(walk.at) >= IDLE {
            self.walk = None;
            return None;
        }
        walk.next(tree)
    }

    #[cfg(test)]
    pub(crate) fn unread(&self) -> usize {
        self.walk.as_ref().map_or(0, |walk| walk.unread.len())
    }

    /// Forgets the walk: nothing can be fetched at present.
    pub(crate) fn stop(&mut self) {
        self.walk = None;
    }

    /// Whether there is a walk.
    pub(crate) const fn is_walking(&self) -> bool {
        self.walk.is_some()
    }
}

impl Walk {
    /// Of a reader who comes from one directory to a file in another, if they are near each other: the same, beside
    /// each other or one in the other, by at most [`NEAR`] steps up. It covers what both have in common above them, but for the root of
    /// the volume, which makes nothing near.
    fn from(other: FileId, (directory, name): (FileId, Name), tree: &dyn Tree, at: Instant) -> Option<Self> {
        let above = |at: &FileId| tree.place(*at).map(|(parent, _)| parent).filter(|parent| *parent != FileId::ROOT);
        let others: Vec<FileId> = std::iter::successors(Some(other), above).take(NEAR + 1).collect();
        let mut open = vec![Open::new(directory, Some(name))];
        let mut root = directory;
        while !others.contains(&root) {
            let (parent, name) = tree.place(root).filter(|_| open.len() <= NEAR)?;
            open.insert(0, Open::new(parent, Some(name)));
            root = parent;
        }
        Some(Self { root, open, unread: HashMap::new(), unread_len: 0, read_len: 0, read: 0, at })
    }

    fn next(&mut self, tree: &dyn Tree) -> Option<SmallFile> {
        if self.unread_len >= (FIRST_LEN + 2 * self.read_len).min(AHEAD_LEN_MAX) {
            return None;
        }
        for _ in 0..STEPS_MAX {
            let Some(directory) = self.open.last_mut() else {
                self.go_up(tree)?;
                continue;
            };
            match directory.next(tree) {
                None => drop(self.open.pop()),
                Some(Node::Directory(below)) if self.open.len() < DEPTH_MAX => self.open.push(Open::new(below, None)),
                Some(Node::File(file)) if !tree.has(&file.digest) && !self.unread.contains_key(&file.digest) => {
                    self.unread.insert(file.digest, file.len);
                    self.unread_len += file.len;
                    return Some(file);
                }
                Some(Node::File(_) | Node::Directory(_) | Node::Other) => {}
            }
        }
        None
    }

    /// Goes on behind the directory that it began in, if enough of it was read.
    fn go_up(&mut self, tree: &dyn Tree) -> Option<()> {
        if self.read < LEAVE_AFTER || self.root == FileId::ROOT {
            return None;
        }
        let (parent, name) = tree.place(self.root)?;
        self.read = 0;
        self.root = parent;
        self.open.push(Open::new(parent, Some(name)));
        Some(())
    }
}

fn is_below(directory: FileId, root: FileId, tree: &dyn Tree) -> bool {
    let mut at = directory;
    for _ in 0..DEPTH_MAX {
        if at == root {
            return true;
        }
        match tree.place(at) {
            Some((parent, _)) if at != FileId::ROOT => at = parent,
            Some(_) | None => return false,
        }
    }
    false
}

#[cfg(test)]
#[path = "tree_ahead_tests.rs"]
mod tests;
