//! Answers that tell the kernel how long a file is, in step with the pages that it has of it.
//!
//! The kernel shows bytes up to the size that it was told last, whatever version its pages are of: where a file grew elsewhere, the
//! end of the old last page would be zeros. So where its pages may be of another version, it forgets them before it has the answer.
//! News of a change break them as well, but a program may ask before they are told.

use super::attributes::Attributes;
use super::core::FileSystem;
use super::reply::{Reply, Respond, RespondWith};
use super::results::{CachedAttributes, Entry};
use super::shown::Shown;
use crate::files::Renewal;
use crate::notices::Stale;
use std::sync::Arc;
use std::time::Duration;
use wayfs_types::{FileId, RecordId};

impl FileSystem {
    /// Answers a question for a name.
    pub(crate) fn answer_entry<R: RespondWith<Entry>>(&self, shown: Shown<Entry>, reply: Reply<R>) {
        let Shown { file, version, what: entry } = shown;
        self.in_step(file, version, reply, move |reply| reply.give(entry));
    }

    /// Answers a question for attributes, which the kernel may believe for a while.
    pub(super) fn answer_attributes<R: RespondWith<CachedAttributes>>(
        &self,
        shown: Shown<Attributes>,
        ttl: Duration,
        reply: Reply<R>,
    ) {
        let Shown { file, version, what: attributes } = shown;
        self.in_step(file, version, reply, move |reply| reply.give(CachedAttributes { attributes, ttl }));
    }

    /// Answers when the kernel has no pages of another version.
    pub(super) fn in_step<R: Respond>(
        &self,
        file: FileId,
        version: RecordId,
        reply: Reply<R>,
        answer: impl FnOnce(Reply<R>) + Send + 'static,
    ) {
        match self.files.pages_to_renew(file, version) {
            None => answer(reply),
            Some(renewal) => self.renew_pages(file, renewal, move || answer(reply)),
        }
    }

    /// Whether the kernel may be told of this version now.
    pub(super) fn is_in_step(&self, file: FileId, version: RecordId) -> bool {
        self.files.pages_to_renew(file, version).is_none()
    }

    /// The pages that the kernel has of a file are out of date: it forgets them soon.
    pub fn forget_pages(&self, file: FileId) {
        match self.files.pages_of_others(file) {
            Some(renewal) => self.renew_pages(file, renewal, || {}),
            None => self.notices.inode(file, Stale::Pages),
        }
    }

    fn renew_pages(&self, file: FileId, renewal: Renewal, then: impl FnOnce() + Send + 'static) {
        let files = Arc::clone(&self.files);
        self.notices.pages_then(file, move || {
            files.pages_renewed(&renewal);
            then();
        });
    }
}
