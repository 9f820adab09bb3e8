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

use super::body::{Body, BodyFile, BodyFiles, MEMORY_MAX, read_at_quietly};
use super::kernel_way::Register;
use super::ranges::RangeSet;
use super::state::State;
use std::sync::Arc;
use wayfs_fuse::BackingId;

/// Whether a program may write a file by passthrough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writes {
    /// Each write comes as a request.
    ByRequest,
    /// Into the body, if the file is empty and nobody has it open through the kernel's page cache.
    Passthrough,
}

/// A body that is written by passthrough at present.
#[derive(Debug, Default)]
pub(super) struct PassthroughWrites {
    /// Handles that write so.
    writers: u32,
    /// A program asked for a sync of what it had written so far.
    was_synced: bool,
    /// It went on writing afterwards.
    is_syncer: bool,
}

impl State {
    /// Gives an empty file a body that the kernel may write; `None` if that is not possible.
    pub(super) fn hand_over(
        &mut self,
        files: &BodyFiles,
        register: &Register<'_>,
    ) -> Option<(Arc<BodyFile>, BackingId)> {
        if self.size != 0 || self.removed.is_some() || self.is_watched() {
            return None;
        }
        // A body of its own: a commit may still be reading the one of what was there before.
        let file = files.make().ok()?;
        if file.mark().is_err() {
            return None;
        }
        let backing = register(&file)?;
        self.body = Some(Body::Disk { file: Arc::clone(&file), present: RangeSet::new() });
        self.passthrough = Some(PassthroughWrites { writers: 1, ..PassthroughWrites::default() });
        Some((file, backing))
    }

    /// One more handle writes into the body by passthrough, if everything in it counts as written anyway.
    pub(super) fn try_join_passthrough(&mut self) -> bool {
        let Some(Body::Disk { file, .. }) = &self.body else { return false };
        if self.passthrough.is_none() && (self.size != 0 || self.is_watched() || file.mark().is_err()) {
            return false;
        }
        self.passthrough.get_or_insert_default().writers += 1;
        true
    }

    /// Whether somebody writes by passthrough.
    pub(super) fn is_written_by_passthrough(&self) -> bool {
        self.passthrough.is_some()
    }

    /// Learns from the body what was written by passthrough.
    pub(super) fn notice_passthrough(&mut self) {
        if self.passthrough.is_none() {
            return;
        }
        let Some(Body::Disk { file, .. }) = &self.body else { return };
        match file.look() {
            Ok(look) if look.is_marked && look.len == self.size => {}
            Ok(look) => {
                self.all_is_new(look.len);
                self.suspect_stores();
                self.changed(look.mtime.unwrap_or(self.mtime));
                if let Some(past) = &mut self.passthrough {
                    past.is_syncer |= past.was_synced;
                }
            }
            Err(error) => tracing::error!(%error, "look at a body file"),
        }
    }

    /// The body is `len` long, and all of it was written.
    fn all_is_new(&mut self, len: u64) {
        self.size = len;
        self.unsaved.ranges = RangeSet::of(0..len);
        self.unsaved.low_water = Some(0);
        if let Some(Body::Disk { present, .. }) = &mut self.body {
            *present = RangeSet::of(0..len);
        }
    }

    /// Begins to look for writes anew: what was written so far is noticed, and what is read from now on has it.
    pub(super) fn mark_passthrough(&mut self) {
        if self.passthrough.is_none() {
            return;
        }
        let Some(Body::Disk { file, .. }) = &self.body else { return };
        // Without the mark everything counts as written again at the next look.
        let marked = file.mark().and_then(|()| file.look());
        match marked {
            Ok(look) => self.all_is_new(look.len),
            Err(error) => tracing::warn!(%error, "mark a body file"),
        }
        self.stamp_body();
    }

    /// A sync was asked for: whoever goes on writing after it would have everything hashed again at the next.
    pub(super) fn note_sync(&mut self) {
        if let Some(past) = &mut self.passthrough {
            past.was_synced = true;
        }
    }

    /// Whether a program syncs in the middle of what it writes by passthrough.
    pub(super) fn is_syncer(&self) -> bool {
        self.passthrough.as_ref().is_some_and(|past| past.is_syncer)
    }

    /// A handle that wrote by passthrough is closed. Everything is noticed before.
    pub(super) fn leave_passthrough(&mut self) {
        let Some(past) = &mut self.passthrough else { return };
        past.writers = past.writers.saturating_sub(1);
        if past.writers == 0 {
            self.passthrough = None;
        }
    }

    /// Takes a small body into memory when the kernel has let go of it: that is where small files live.
    pub(super) fn take_in_small(&mut self) {
        let Some(Body::Disk { file, present }) = &self.body else { return };
        if self.is_watched() || self.size > MEMORY_MAX as u64 || !present.contains(&(0..self.size)) {
            return;
        }
        if !self.is_dirty() {
            self.body = None;
            return;
        }
        if let Ok(bytes) = read_at_quietly(file, 0, self.size as usize) {
            self.body = Some(Body::Memory(bytes));
        }
    }
}
