//! Commits that no operation waits for: of what is old, at the end, and for tools.

use super::core::FileSystem;
use crate::files::WaitPolicy;
use std::sync::Arc;
use wayfs_types::{FileId, FsError};

impl FileSystem {
    fn watch_mappings(&self) {
        for file in self.files.watch_mappings() {
            self.forget_pages(file);
        }
    }

    /// Commits every file that is dirty; returns what could not be.
    pub(crate) fn commit_all(&self) -> Vec<(FileId, FsError)> {
        self.watch_mappings();
        let failed =
            self.files.commit_older(std::time::Duration::ZERO, WaitPolicy::Silence(self.settings.read_timeout));
        self.tell_of_wrong_pages();
        failed
    }

    /// Commits some of them again; returns what could not be.
    pub(crate) fn commit_these(&self, files: &[FileId]) -> Vec<(FileId, FsError)> {
        let mut failed = Vec::new();
        for file in files {
            // One that is not here any more was committed meanwhile, or nobody wants it.
            if let Some(open) = self.files.find(*file)
                && let Err(slow) = self.commit_file(&open, WaitPolicy::Silence(self.settings.read_timeout))
            {
                failed.push((*file, slow.into_error()));
            }
        }
        failed
    }

    /// Commits files whose writes are old; called once a second or so.
    pub(crate) fn commit_aged(self: &Arc<Self>) {
        self.watch_mappings();
        self.follow_all();
        self.notices.end_late();
        let failed = self.files.commit_older(self.settings.dirty_age, WaitPolicy::Silence(self.settings.read_timeout));
        self.tell_of_wrong_pages();
        for (file, error) in failed {
            tracing::warn!(%file, %error, "commit of an open file: will be tried again");
        }
    }
}
