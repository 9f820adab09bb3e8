//! Fetching a directory whole when one of its names had to be asked for.
//!
//! Who looks up one name soon looks up others: a listing costs one round trip for a thousand of
//! them. And only a directory that was listed whole can be worked in without a network, since only
//! then is it known which names are free.

use super::core::FileSystem;
use std::sync::Arc;
use wayfs_types::request::{Answer, Request};
use wayfs_types::{FileId, Name};

/// Entries asked for at a time.
const PAGE: usize = 1024;
/// Pages after which a directory is left alone: larger ones are rarely looked at whole.
const PAGES_MAX: usize = 16;

impl FileSystem {
    /// Fetches a directory in the background, once.
    pub(crate) fn warm(self: &Arc<Self>, directory: FileId) {
        if self.warmed.begin(directory) {
            self.warm_page(directory, None, PAGES_MAX);
        }
    }

    fn warm_page(self: &Arc<Self>, directory: FileId, after: Option<Name>, left: usize) {
        let fs = Arc::clone(self);
        let list = Request::List { directory, after, limit: PAGE };
        let next = Box::new(move |outcome| match outcome {
            Ok(Answer::List { entries, end: false }) => {
                if let (Some((last, _, _)), 1..) = (entries.last(), left) {
                    fs.warm_page(directory, Some(last.clone()), left - 1);
                }
            }
            Ok(_) => {}
            Err(_) => fs.warmed.forget(directory),
        });
        self.engine.submit(list, self.settings.metadata_timeout, next);
    }
}
