//! Bodies that programs write by passthrough.
//!
//! What a program makes or empties by its open, to write it only, is cut and hashed whole in any case. So its
//! body may be handed to the kernel: the program writes into it at the speed of the disk, and no request tells
//! us where. What tells is the body itself: its length, and its time of modification, which is set to a **mark**
//! that no clock shows. Hosts hold the inode's lock both for a write and for the setting of a time, so a write
//! is either part of what is read after the mark was set, or has moved the time away from the mark. Whatever
//! moved it, all of the body counts as written.
//!
//! Every look at the state of such a file looks at its body first ([`OpenFile::state`]), so that sizes and times
//! are right at any moment for whoever asks.

use super::body::{Body, BodyFile};
use super::body_files::BodyFiles;
use super::kernel_way::{BackingId, Register};
use super::state::State;
use std::sync::Arc;

impl State {
    /// Gives an empty file a body that the kernel may write; `None` if that is not possible.
    pub(super) fn hand_over(
        &mut self,
        files: &BodyFiles,
        register: &Register<'_>,
    ) -> Option<(Arc<BodyFile>, BackingId)> {
        if !self.life.may_begin_passthrough(self.size) {
            return None;
        }
        // A body of its own: a commit may still be reading the one of what was there before.
        let file = files.make().ok()?;
        if file.mark().is_err() {
            return None;
        }
        let backing = register(&file)?;
        self.life.passthrough_began(Arc::clone(&file));
        Some((file, backing))
    }

    /// One more handle writes into the body by passthrough, if everything in it counts as written anyway.
    pub(super) fn try_join_passthrough(&mut self) -> bool {
        let Some(Body::Disk { file, .. }) = self.life.body() else { return false };
        if !self.life.may_join_passthrough(self.size)
            || (!self.life.is_written_by_passthrough() && file.mark().is_err())
        {
            return false;
        }
        self.life.passthrough_joined();
        true
    }

    /// Learns from the body what was written by passthrough.
    pub(super) fn notice_passthrough(&mut self) {
        if !self.life.is_written_by_passthrough() {
            return;
        }
        let Some(Body::Disk { file, .. }) = self.life.body() else { return };
        match file.look() {
            Ok(look) if look.is_marked && look.len == self.size => {}
            Ok(look) => {
                self.size = look.len;
                self.mtime = look.mtime.unwrap_or(self.mtime);
                self.life.suspect_stores();
                self.life.passthrough_written(look.len, self.time());
                self.stamp_body();
            }
            Err(error) => tracing::error!(%error, "look at a body file"),
        }
    }

    /// Begins to look for writes anew: what was written so far is noticed, and what is read from now on has it.
    pub(super) fn mark_passthrough(&mut self) {
        if !self.life.is_written_by_passthrough() {
            return;
        }
        let Some(Body::Disk { file, .. }) = self.life.body() else { return };
        // Without the mark everything counts as written again at the next look.
        let marked = file.mark().and_then(|()| file.look());
        match marked {
            Ok(look) => {
                self.size = look.len;
                self.life.passthrough_marked(look.len);
            }
            Err(error) => tracing::warn!(%error, "mark a body file"),
        }
        self.stamp_body();
    }

    /// Takes a small body into memory when the kernel has let go of it: that is where small files live.
    pub(super) fn take_in_small(&mut self) {
        let Some(Body::Disk { file, .. }) = self.life.body() else { return };
        if !self.life.is_to_be_taken_in(self.size) {
            return;
        }
        if !self.life.is_dirty() {
            self.life.body_dropped();
        } else if let Ok(bytes) = file.file().read_at(0, self.size as usize) {
            self.life.unstaged(bytes);
        }
    }
}
