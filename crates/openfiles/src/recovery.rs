//! What comes back of files that were open when the daemon was killed.
//!
//! Generations of the journal that did not end are put together again, one state per file: base, body, and which bytes
//! of it the programs wrote. It is uncommitted as it was, and committed at the start, upon the version that it was written
//! upon: the rules for conflicts decide as at a close. A commit that was made and not marked yet makes the same content
//! once more, which is no second version.
//!
//! A program that goes on after a commit goes on from its own record, or, where another machine's version won, upon that one. So what
//! did not end falls into **lines**: a generation follows the one whose record it was begun upon. Of each line is committed what no
//! record that is here holds: what became a copy before the kill, and whose record went with it, becomes one again.

use super::base::Base;
use super::body::Look;
use super::contents::WaitPolicy;
use super::generations::{Generation, Line, Recovery, lines_of, since, without_records};
use super::life::Origin;
use super::loading::{self, NodeCache};
use super::open_file::OpenFile;
use super::sketch::{Goes, Merged};
use super::staging::{StagingDisk, StagingFile};
use super::table::FileTable;
use std::ops::Range;
use std::sync::Arc;
use wayfs_types::{FileId, Inode};

/// Files with so many uncommitted bytes at most are committed before the mount answers.
const AT_ONCE_MAX: u64 = 4 << 20;

/// What a line is to programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stands {
    /// They see it, and go on with it.
    ForTheFile,
    /// They do not.
    Beside,
}

impl FileTable {
    /// Takes over what was uncommitted of open files.
    pub(super) fn recover(&self, open: Recovery) {
        let bodies = open.bodies();
        let Recovery { disk, left, files } = open;
        for (id, generations) in files {
            self.recover_file(&*disk, id, generations);
        }
        // All of it stands in the new journal.
        let taken: Vec<String> = self.files_here().iter().filter_map(|file| file.state().body_name()).collect();
        for name in left.segments.into_iter().chain(bodies).filter(|name| !taken.contains(name)) {
            if let Err(error) = disk.remove(&name)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                tracing::warn!(%error, "remove what a journal of open files needed");
            }
        }
    }

    fn recover_file(&self, disk: &dyn StagingDisk, id: FileId, generations: Vec<Generation>) {
        let Some(inode) = self.contents.inode(id) else { return };
        // The home may have ordered it before the kill, and the answer did not come: a line would be there twice. What was written
        // under a lock is nothing to be written once more after that was lost.
        if self.contents.is_ordered_by_home(id) {
            tracing::warn!(file = %id, "what was written to an open file of an exclusive directory, and not synced, ended with the daemon");
            return;
        }
        let last = self.contents.last_record();
        let mut lines = lines_of(generations, last);
        // Its close may have been noted last: that stands for all of its line.
        let noted = self.find(id).map(|noted| noted.state().base.version);
        if let Some(upon) = noted {
            let is_noted = |one: &Generation| one.sketch.base.version == upon || one.settled == Some(upon);
            lines.retain(|line| !line.iter().any(is_noted));
        }
        lines.iter_mut().for_each(|line| without_records(line, last));
        let is_newest = |line: &mut Line| noted.is_none() && line.last().is_some_and(|end| !end.sketch.is_beside);
        let newest = lines.pop_if(is_newest);
        if let Some(file) = newest.and_then(|line| self.recover_line(disk, id, &inode, line, Stands::ForTheFile)) {
            tracing::info!(file = %id, "what was written and not committed is taken over");
            self.insert_left(id, file);
        }
        for line in lines {
            if let Some(file) = self.recover_line(disk, id, &inode, line, Stands::Beside) {
                tracing::info!(file = %id, "what was written upon an older version is taken over: its record went with the daemon");
                self.insert_line(file);
            }
        }
    }

    fn recover_line(
        &self,
        disk: &dyn StagingDisk,
        id: FileId,
        inode: &Inode,
        line: Line,
        stands: Stands,
    ) -> Option<OpenFile> {
        let chain = since(line, inode.version);
        let newest = chain.first().cloned()?;
        // An open that empties a file that nobody writes then says nothing, but what was written before it is no less gone.
        let follows_changes = chain.iter().any(|sketch| sketch.follows_changes);
        // Where a body went for want of room, what was written since counts by itself.
        let merged = Merged::all(disk, chain).or_else(|| Merged::of(disk, newest, Goes::NoFurther))?;
        let is_untouched = |body: &dyn StagingFile| Look::at(body).is_ok_and(|look| look.is_marked && look.len == 0);
        if !follows_changes && merged.sketch.is_whole_body() && merged.body.as_deref().is_some_and(is_untouched) {
            return None;
        }
        let merged = match self.newest_of_our_own(id, inode) {
            Some(made) => merged.beyond(&made, |range| self.bytes_here(&made, range))?,
            None => merged,
        };
        let file = OpenFile::new(id, inode, self.contents.host());
        let mut state = file.state();
        state.is_beside = stands == Stands::Beside;
        merged.put_into(&mut state, &self.files)?;
        state.journal_image(&*self.contents, &self.files);
        drop(state);
        Some(file)
    }

    /// The newest version of a file, if it is of this machine: what was appended may be in it.
    fn newest_of_our_own(&self, id: FileId, inode: &Inode) -> Option<Base> {
        let is_own = self.contents.last_record().is_some_and(|last| last.origin() == inode.version.origin());
        let made = Base { file: id, version: inode.version, content: inode.content.clone(), lender: None };
        (is_own && !inode.is_removed()).then_some(made)
    }

    /// Bytes of a version, if they are on this machine.
    fn bytes_here(&self, base: &Base, range: Range<u64>) -> Option<Vec<u8>> {
        let nodes = NodeCache::default();
        let pieces = loading::load(&*self.contents, &nodes, base, range.clone(), WaitPolicy::None).ok()?;
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        for piece in pieces {
            let within = range.start.max(piece.offset)..range.end.min(piece.range().end);
            let at = |offset: u64| offset.saturating_sub(piece.offset) as usize;
            bytes.extend_from_slice(piece.bytes.get(at(within.start)..at(within.end))?);
        }
        Some(bytes)
    }

    /// Files of which an earlier daemon left little.
    pub fn left(&self) -> Vec<Arc<OpenFile>> {
        let is_little = |file: &Arc<OpenFile>| {
            let state = file.state();
            state.life.origin() == Origin::Left && state.life.changes().ranges.len() <= AT_ONCE_MAX
        };
        self.files_here().into_iter().filter(is_little).collect()
    }

    /// Commits what an earlier daemon left and what is little, before anybody else hears of this mount: what comes from
    /// elsewhere later meets no changes that were committed already.
    pub fn commit_left(&self) {
        for file in self.left() {
            if let Err(error) = self.commit(&file, WaitPolicy::None) {
                tracing::debug!(file = %file.id(), %error, "what was left of an open file is committed later");
                file.state().life.retry_at_once();
            }
        }
    }
}
