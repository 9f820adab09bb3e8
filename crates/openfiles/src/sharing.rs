//! Copies that share the content of what they are copies of.
//!
//! A content is a tree of chunks under the names of their bytes, so a copy need not be read, written, cut or hashed: it
//! takes the tree of the other file for its **base**, as if it were an older version of its own, and becomes a record
//! as any edit does. Whatever is written to it later is cut as an edit is. That works where the bytes of the copy lie
//! at the places that they have in the other file: from the begin, in one step or in several that follow each other,
//! up to any length.
//!
//! Only what is on this machine is shared. Whoever writes a file answers for its contents, and a chunk that
//! others let go while the copy waits for its record would be missing for good: so the chunks are kept as new ones are,
//! looked for again before the record is made, and fetched from whom they are lent by if one went meanwhile.

use super::base::{Base, Lender};
use super::body::MEMORY_MAX;
use super::contents::{Contents, OperationError, WaitPolicy};
use super::kernel_way::KernelOpens;
use super::loading;
use super::open_file::OpenFile;
use super::state::State;
use std::cell::RefCell;
use std::ops::Range;
use wayfs_content::{ContentError, ContentReader, Span};
use wayfs_types::{Content, Digest};

/// Looks for chunks that went while they were looked for, after which the copy is given up.
const ATTEMPTS_MAX: usize = 4;

/// Why nothing was shared: the bytes are to be copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotShared {
    /// What is to be copied is in no content yet; when it was committed it may be.
    Uncommitted,
    /// It cannot be.
    Unfit,
}

impl OpenFile {
    /// The content that a copy may share.
    fn lend(&self) -> Result<Base, NotShared> {
        let state = self.state();
        if state.life.is_dirty() || !state.life.noted().is_empty() {
            return Err(NotShared::Uncommitted);
        }
        if !state.life.may_lend() {
            return Err(NotShared::Unfit);
        }
        Ok(state.base.clone())
    }

    /// Copies a range of another file to the same place of this one by sharing; answers how many bytes, fewer only
    /// where the other ends.
    ///
    /// # Errors
    /// [`NotShared`]: nothing was changed.
    pub(super) fn share(
        &self,
        contents: &dyn Contents,
        from: &Self,
        range: Range<u64>,
        user: u32,
    ) -> Result<u64, NotShared> {
        let lent = from.lend()?;
        let range = range.start..range.end.min(lent.content.size());
        if range.start >= range.end {
            return Ok(0);
        }
        let missing = keep(contents, &lent, &range);
        if missing.is_none_or(|missing| !missing.is_empty()) {
            return Err(NotShared::Unfit);
        }
        let mut state = self.state();
        if !state.may_share(&lent, &range) {
            return Err(NotShared::Unfit);
        }
        let own = state.base.own_content().clone();
        state.base.lender = Some(Lender { file: lent.file, version: lent.version, own });
        state.base.content = lent.content;
        state.base_limit = range.end;
        state.size = range.end;
        state.user = user;
        state.mtime = contents.now();
        let now = state.time();
        state.life.shared(now);
        Ok(range.end - range.start)
    }

    /// Sees to it that all that a copy shares is here and stays, before its record is made.
    ///
    /// # Errors
    /// [`OperationError`]: a chunk went and cannot be had again.
    pub(super) fn keep_shared(
        &self,
        contents: &dyn Contents,
        base: &Base,
        size: u64,
        wait_policy: WaitPolicy,
    ) -> Result<(), OperationError> {
        for _ in 0..ATTEMPTS_MAX {
            let range = 0..size.min(base.content.size());
            match keep(contents, base, &range) {
                Some(missing) if missing.is_empty() => return Ok(()),
                Some(missing) => loading::fetch(contents, base, missing, wait_policy)?,
                None => return Err(wayfs_types::FsError::Io.into()),
            }
        }
        Err(OperationError::WouldBlock)
    }
}

impl State {
    /// Whether a range of a content can become part of this file as it is.
    fn may_share(&self, lent: &Base, range: &Range<u64>) -> bool {
        let is_served = matches!(self.opens, KernelOpens::Passthrough { .. });
        if !self.life.may_borrow() || is_served {
            return false;
        }
        // What is small is in memory as soon as it is written to, and whole.
        let is_large = lent.content.size() > MEMORY_MAX as u64;
        if range.start == 0 {
            return self.size == 0 && (is_large || range.end == lent.content.size());
        }
        let lender = self.base.lender.as_ref();
        let is_same = lender.is_some_and(|lender| lender.file == lent.file && lender.version == lent.version);
        is_large
            && is_same
            && self.life.is_unwritten()
            && self.base.content == lent.content
            && self.size == range.start
            && self.base_limit == range.start
    }
}

/// Keeps the lists and chunks that hold a range; answers which of them are not here, as far as is known, or nothing if the
/// content cannot be read.
fn keep(contents: &dyn Contents, base: &Base, range: &Range<u64>) -> Option<Vec<Digest>> {
    if matches!(base.content, Content::Inline(_)) {
        return Some(Vec::new());
    }
    let gone = RefCell::new(Vec::new());
    let node = |digest: &Digest| {
        let node = if contents.keep(digest) { contents.chunk(digest).ok().flatten() } else { None };
        if node.is_none() {
            gone.borrow_mut().push(*digest);
        }
        node
    };
    let spans: Result<Vec<Span>, ContentError> =
        ContentReader::new(&base.content, &node).and_then(|reader| reader.spans(range.clone()).collect());
    match spans {
        Ok(spans) => {
            let chunks = spans.into_iter().map(|span| span.digest);
            Some(chunks.filter(|digest| !contents.keep(digest)).collect())
        }
        Err(ContentError::MissingNode(_)) => Some(gone.into_inner()),
        Err(error) => {
            tracing::error!(file = %base.file, %error, "content to share cannot be read");
            None
        }
    }
}
