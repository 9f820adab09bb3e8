//! Where an open file has data and holes.

use super::base::Base;
use super::body::{Body, BodyFile};
use super::contents::{Contents, OperationError, WaitPolicy};
use super::loading::{self, NodeCache};
use super::open_file::OpenFile;
use super::ranges::RangeSet;
use super::staging::Target;
use super::state::State;
use std::sync::Arc;
use wayfs_types::Content;

/// What a seek looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// Bytes.
    Data,
    /// None.
    Hole,
}

/// Files below this have no hole in their content, and what they take on a disk is not worth a look.
const SPARSE_MIN: u64 = wayfs_content::CHUNK_MAX as u64;

/// A file as edited: its content with what was written upon it.
struct Edited {
    base: Base,
    /// Bytes of the base at and above this are gone; what nobody wrote there is a hole.
    base_limit: u64,
    written: RangeSet,
    /// Where what was written is.
    body: Option<Arc<BodyFile>>,
    size: u64,
}

impl OpenFile {
    /// The next data or hole at or after a place; `None` past the last data, or past the end.
    ///
    /// # Errors
    /// [`OperationError`]: the lists of a large sparse file may have to be fetched.
    pub fn seek(
        &self,
        contents: &dyn Contents,
        offset: u64,
        seek: Seek,
        wait_policy: WaitPolicy,
    ) -> Result<Option<u64>, OperationError> {
        let edited = {
            let state = self.state();
            if offset >= state.size {
                return Ok(None);
            }
            if let Some(at) = state.seek_in_body(offset, seek) {
                return Ok(at);
            }
            state.edited()
        };
        match seek {
            Seek::Data => edited.next_data(contents, &self.nodes, offset, wait_policy),
            Seek::Hole => edited.next_hole(contents, &self.nodes, offset, wait_policy).map(Some),
        }
    }
}

impl State {
    /// What the host says, if all of the file is in one of its files; and all is data if it is in memory.
    fn seek_in_body(&self, offset: u64, seek: Seek) -> Option<Option<u64>> {
        let file = match (self.life.body(), &self.base.content) {
            (Some(Body::Disk { file, present }), _) if present.contains(&(0..self.size)) => file,
            (Some(Body::Memory(_)), _) | (None, Content::Inline(_)) => {
                return Some(Some(if seek == Seek::Data { offset } else { self.size }));
            }
            (Some(Body::Disk { .. }) | None, _) => return None,
        };
        Some(seek_in(file, offset, seek).map(|at| at.min(self.size)))
    }

    fn edited(&self) -> Edited {
        let written = self.life.uncommitted(self.size);
        let body = match self.life.body() {
            Some(Body::Disk { file, .. }) => Some(Arc::clone(file)),
            Some(Body::Memory(_)) | None => None,
        };
        Edited { base: self.base.clone(), base_limit: self.base_limit, written, body, size: self.size }
    }

    /// Units of 512 bytes that the file takes, if its content does not tell: it is being written.
    pub(super) fn blocks(&self) -> Option<u64> {
        let Some(Body::Disk { file, present }) = self.life.body() else { return None };
        if self.size < SPARSE_MIN || !self.life.is_dirty() {
            return None;
        }
        let here = file.file().look().ok()?.blocks;
        // What was not looked at yet counts whole.
        let base: u64 = present.gaps(&(0..self.base_limit.min(self.size))).iter().map(|gap| gap.end - gap.start).sum();
        Some((here + base.div_ceil(512)).min(self.size.div_ceil(512)))
    }
}

impl Edited {
    fn next_data(
        &self,
        contents: &dyn Contents,
        nodes: &NodeCache,
        offset: u64,
        wait_policy: WaitPolicy,
    ) -> Result<Option<u64>, OperationError> {
        let written = self.next_written_data(offset);
        if written == Some(offset) || offset >= self.base_limit {
            return Ok(written);
        }
        let of_base = if self.base.content.holes() == 0 {
            // Where nothing was written over it; else the hole that was written ends where the base is to be seen again.
            self.written.gaps(&(offset..self.base_limit)).first().map(|gap| gap.start)
        } else {
            self.next_base_data(contents, nodes, offset, wait_policy)?
        };
        Ok([written, of_base].into_iter().flatten().min())
    }

    /// The first byte of what was written that the host keeps, at or after a place.
    fn next_written_data(&self, offset: u64) -> Option<u64> {
        let mut at = offset;
        while let Some(range) = self.written.following(at) {
            let from = range.start.max(at);
            let data = self.body.as_ref().map_or(Some(from), |body| seek_in(body, from, Seek::Data))?;
            if data < range.end.min(self.size) {
                return Some(data);
            }
            at = range.end;
        }
        None
    }

    /// The first byte of data of the base that was not written over.
    fn next_base_data(
        &self,
        contents: &dyn Contents,
        nodes: &NodeCache,
        offset: u64,
        wait_policy: WaitPolicy,
    ) -> Result<Option<u64>, OperationError> {
        for gap in self.written.gaps(&(offset..self.base_limit)) {
            let data = loading::look(contents, nodes, &self.base, wait_policy, |reader| reader.next_data(gap.start))?;
            match data {
                Some(at) if at < gap.end => return Ok(Some(at)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    fn next_hole(
        &self,
        contents: &dyn Contents,
        nodes: &NodeCache,
        offset: u64,
        wait_policy: WaitPolicy,
    ) -> Result<u64, OperationError> {
        let mut at = offset;
        while at < self.size {
            let written = self.written.following(at);
            if let Some(range) = written.as_ref().filter(|range| range.start <= at) {
                let hole = self.body.as_ref().and_then(|body| seek_in(body, at, Seek::Hole));
                match hole {
                    Some(hole) if hole < range.end => return Ok(hole.min(self.size)),
                    Some(_) | None => at = range.end,
                }
                continue;
            }
            if at >= self.base_limit {
                return Ok(at);
            }
            let hole = if self.base.content.holes() == 0 {
                self.base_limit
            } else {
                loading::look(contents, nodes, &self.base, wait_policy, |reader| reader.next_hole(at))?
            };
            let hole = hole.min(self.base_limit);
            match written {
                // What was written comes first, and may fill the hole.
                Some(range) if range.start <= hole => at = range.start,
                Some(_) | None => return Ok(hole.min(self.size)),
            }
        }
        Ok(self.size)
    }
}

fn seek_in(file: &BodyFile, offset: u64, seek: Seek) -> Option<u64> {
    let target = match seek {
        Seek::Data => Target::Data,
        Seek::Hole => Target::Hole,
    };
    file.file().seek(offset, target).ok().flatten()
}
