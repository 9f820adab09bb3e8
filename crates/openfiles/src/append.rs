//! Appends of several machines to one file: who commits later appends to what the earlier one made of it.
//!
//! What was written through handles that append has no place of its own, only an order: it belongs at the end of the
//! file, wherever that is when it is committed. So if another machine committed meanwhile, the bytes move behind its
//! bytes, and the commit begins again. Where the station is asked before (close to open), each line of each machine is
//! there once, in the order of the commits; a line is as whole as its `write` or, of several writes, as its commit.

use super::base::Base;
use super::body::Body;
use super::body_files::BodyFiles;
use super::commit::Appended;
use super::contents::Contents;
use super::kernel_way::Served;
use super::open_file::OpenFile;
use super::ranges::RangeSet;
use super::state::State;
use bytes::Bytes;
use std::ops::Range;
use wayfs_types::FsError;

/// Most bytes that are moved behind those of another machine; what is more is a conflict, and kept beside the file.
/// They are in memory for the moment of the move.
const MOVED_MAX: u64 = 64 << 20;

impl State {
    /// What was appended to the base, if nothing else happened to it.
    pub(super) fn appended(&self) -> Option<Range<u64>> {
        let range = self.base.content.size()..self.size;
        let changes = self.life.changes();
        let is_all = changes.is_appended && changes.low_water.is_none() && self.life.taken().is_none();
        let is_longer = range.start <= range.end;
        (is_longer && is_all && changes.ranges == RangeSet::of(range.clone())).then_some(range)
    }

    fn appended_bytes(&self, range: &Range<u64>) -> Option<Bytes> {
        let len = range.end - range.start;
        match self.life.body()? {
            Body::Memory(bytes) => Some(Bytes::copy_from_slice(bytes.get(range.start as usize..range.end as usize)?)),
            Body::Disk { file, .. } if len <= MOVED_MAX => {
                file.file().read_at(range.start, len as usize).ok().map(Bytes::from)
            }
            Body::Disk { .. } => None,
        }
    }

    /// Gives the file another base with bytes appended to it.
    fn append_to(
        &mut self,
        contents: &dyn Contents,
        files: &BodyFiles,
        base: Base,
        bytes: &Bytes,
    ) -> Result<(), FsError> {
        let start = base.content.size();
        let (mtime, user) = (self.mtime, self.user);
        self.leave_served(Served::Other);
        self.size = start;
        self.base_limit = start;
        self.base = base;
        self.life.moved();
        self.put(contents, files, start, bytes)?;
        self.touched(start..start + bytes.len() as u64, mtime);
        self.user = user;
        self.life.was_appended();
        Ok(())
    }
}

impl OpenFile {
    /// Moves what was appended behind the newest version of the file. Nothing is being committed.
    ///
    /// # Errors
    /// As for [`OpenFile::write`]; the file is as before.
    pub(super) fn append_to_newest(&self, contents: &dyn Contents, files: &BodyFiles) -> Result<Appended, FsError> {
        let newest = contents.inode(self.id()).filter(|inode| !inode.is_removed());
        let mut state = self.state();
        let bytes = state.appended().and_then(|range| state.appended_bytes(&range));
        let (Some(bytes), Some(newest)) = (bytes, newest) else {
            state.life.stays_where_written();
            return Ok(Appended::AsWritten);
        };
        let (version, content) = (newest.version, newest.content.clone());
        let base = Base { file: state.base.file, version, content, lender: None };
        let before = (state.base.clone(), state.base_limit, state.size, state.life.clone());
        let outcome = state.append_to(contents, files, base, &bytes);
        if outcome.is_ok() {
            state.journal_image(contents, files);
        } else {
            (state.base, state.base_limit, state.size, state.life) = before;
        }
        outcome.map(|()| Appended::Moved)
    }
}
