//! Writes of programs that mapped a body by passthrough.
//!
//! While programs read a file by passthrough, the kernel takes a mapping made through any other handle of the
//! file to the body, too: what is stored into it comes by no request. What tells of it:
//! * the body's time of modification moves with the first store into each page; later stores into the same
//!   page leave it alone until the page was written back. So a time that another hand moved makes the body
//!   **suspect**, and from then on all of it counts as written at every close, and once more at the end;
//! * a mapping holds the body and not the handle it was made through, so the body is **watched** until nobody
//!   else has it open. Until then it is neither replaced by news from elsewhere nor dropped.

use super::body::Body;
use super::open_file::OpenFile;
use super::state::State;
use std::time::SystemTime;
use wayfs_types::WallTime;

impl State {
    /// A handle is given out through which the body may be mapped.
    pub(super) fn watch_mappings(&mut self) {
        let stamp = self.body_stamp();
        self.life.watch_begun(stamp);
    }

    /// Notes that the body changed by our own hand.
    pub(super) fn stamp_body(&mut self) {
        if self.life.is_watched() {
            let stamp = self.body_stamp();
            self.life.stamped(stamp);
        }
    }

    fn body_stamp(&self) -> Option<SystemTime> {
        match self.life.body() {
            Some(Body::Disk { file, .. }) => file.stamp(),
            Some(Body::Memory(_)) | None => None,
        }
    }

    /// Looks for stores of others since our last write. Which bytes cannot be known, so all count as written.
    pub(super) fn notice_stores(&mut self) {
        if !self.life.is_watched() || !matches!(self.life.body(), Some(Body::Disk { .. })) {
            return;
        }
        let stamp = self.body_stamp();
        if self.life.is_changed_by_others(stamp) {
            self.all_written(wall_time(stamp).unwrap_or(self.mtime));
        }
    }

    /// Counts a suspect body as written: stores into pages that were stored into before leave no trace.
    fn suspect_all(&mut self) {
        if self.life.is_suspect() && !self.life.changes().are_whole(self.size) {
            self.all_written(self.mtime);
        }
    }

    fn all_written(&mut self, mtime: WallTime) {
        self.mtime = mtime;
        self.life.all_written(self.size, self.time());
        self.stamp_body();
        self.journal_is_behind();
    }

    /// Ends the watch if nobody else has the body any more.
    pub(super) fn end_watch(&mut self) {
        if !self.life.is_watched() {
            return;
        }
        self.notice_stores();
        if matches!(self.life.body(), Some(Body::Disk { file, .. }) if self.host.is_held_elsewhere(file)) {
            return;
        }
        self.notice_stores();
        self.suspect_all();
        self.life.watch_ended();
    }
}

impl OpenFile {
    /// Looks for writes of programs that mapped the body by passthrough, before a close or a sync.
    pub fn notice_mapped_writes(&self) {
        self.state().suspect_all();
    }
}

fn wall_time(stamp: Option<SystemTime>) -> Option<WallTime> {
    let since = stamp?.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_nanos()).ok().map(WallTime::from_nanos)
}
