//! Files that programs read directly, brought up to what other machines made of them.

use super::core::FileSystem;
use crate::files::{Followed, OpenFile};
use std::sync::Arc;
use wayfs_types::FileId;

impl FileSystem {
    /// A file changed elsewhere: has programs that read it directly see that. Returns at once.
    pub fn follow(self: &Arc<Self>, file: FileId) {
        if let Some(open) = self.files.find(file).filter(|open| open.is_behind()) {
            self.begin_to_follow(open);
        }
    }

    /// Tries again what could not be done when the news came.
    pub(super) fn follow_all(self: &Arc<Self>) {
        for open in self.files.behind() {
            self.begin_to_follow(open);
        }
    }

    fn begin_to_follow(self: &Arc<Self>, open: Arc<OpenFile>) {
        let fs = Arc::clone(self);
        // If too much waits already, the next look a second later does it.
        let _ = self.readers.run(move || match fs.files.follow(&open, fs.read_patience()) {
            // The kernel may have asked for the size since it was told, and the bytes were not there yet.
            Ok(Followed::Yes) => fs.forget_pages(open.id()),
            Ok(Followed::No) => {}
            Err(error) => {
                tracing::debug!(file = %open.id(), %error, "a file that is read directly stays behind for now")
            }
        });
    }
}
