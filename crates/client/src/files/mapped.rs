//! Writes of programs that mapped a body by passthrough.
//!
//! While programs read a file by passthrough, the kernel takes a mapping made through any other handle of the
//! file to the body, too: what is stored into it comes by no request. What tells of it:
//! * the body's time of modification moves with the first store into each page; later stores into the same
//!   page leave it alone until the page was written back. So a time that another hand moved makes the body
//!   **suspect**, and from then on all of it counts as written at every close, and once more at the end;
//! * a mapping holds the body and not the handle it was made through, so the body is **watched** until nobody
//!   else has it open. Until then it is neither replaced by news from elsewhere nor dropped.

use super::body::{Body, BodyFile};
use super::open_file::OpenFile;
use super::state::State;
use std::os::fd::AsFd;
use std::time::SystemTime;
use wayfs_types::WallTime;

/// What is known of mappings of a body.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    /// A handle was given out through which programs may map the body for writing.
    is_watched: bool,
    /// Somebody stored into it.
    is_suspect: bool,
    /// When the body last changed by our own hand.
    stamp: Option<SystemTime>,
}

impl State {
    /// A handle is given out through which the body may be mapped.
    pub(super) fn watch_mappings(&mut self) {
        if !self.mapped.is_watched {
            self.mapped.is_watched = true;
            self.stamp_body();
        }
    }

    /// Whether programs may be storing into the body.
    pub(super) fn is_watched(&self) -> bool {
        self.mapped.is_watched
    }

    /// Notes that the body changed by our own hand.
    pub(super) fn stamp_body(&mut self) {
        if self.mapped.is_watched
            && let Some(Body::Disk { file, .. }) = &self.body
        {
            self.mapped.stamp = file.stamp();
        }
    }

    /// Looks for stores of others since our last write. Which bytes cannot be known, so all count as written.
    pub(super) fn notice_stores(&mut self) {
        if !self.mapped.is_watched {
            return;
        }
        let Some(Body::Disk { file, .. }) = &self.body else { return };
        let stamp = file.stamp();
        if stamp == self.mapped.stamp {
            return;
        }
        self.mapped.is_suspect = true;
        self.mapped.stamp = stamp;
        self.all_written(wall_time(stamp).unwrap_or(self.mtime));
    }

    /// Somebody wrote the body by passthrough, and a mapping may be who did.
    pub(super) fn suspect_stores(&mut self) {
        self.mapped.is_suspect = self.mapped.is_watched;
    }

    /// Counts a suspect body as written: stores into pages that were stored into before leave no trace.
    fn suspect_all(&mut self) {
        if self.mapped.is_suspect && !self.is_all_unsaved() {
            self.all_written(self.mtime);
        }
    }

    fn is_all_unsaved(&self) -> bool {
        self.unsaved.is_any && self.unsaved.ranges.contains(&(0..self.size))
    }

    fn all_written(&mut self, mtime: WallTime) {
        self.unsaved.ranges.insert(0..self.size);
        self.changed(mtime);
        self.journal_is_behind();
    }

    /// Ends the watch if nobody else has the body any more.
    pub(super) fn end_watch(&mut self) {
        if !self.mapped.is_watched {
            return;
        }
        self.notice_stores();
        if matches!(&self.body, Some(Body::Disk { file, .. }) if is_held_elsewhere(file)) {
            return;
        }
        self.notice_stores();
        self.suspect_all();
        self.mapped = Mapped::default();
    }
}

impl OpenFile {
    /// Looks for writes of programs that mapped the body by passthrough, before a close or a sync.
    pub fn notice_mapped_writes(&self) {
        self.state().suspect_all();
    }
}

fn is_held_elsewhere(file: &BodyFile) -> bool {
    wayfs_fuse::is_held_elsewhere(file.file().as_fd()).unwrap_or_else(|error| {
        tracing::debug!(%error, "look who has a body file open");
        false
    })
}

fn wall_time(stamp: Option<SystemTime>) -> Option<WallTime> {
    let since = stamp?.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok().map(WallTime::from_nanos)
}
