//! A body that programs write by passthrough, as far as an open file's life knows of it.

use super::table::Event;
use super::{Life, RangeSet};
use crate::body::{Body, BodyFile};
use std::sync::Arc;
use wayfs_types::Time;

/// A body that is written by passthrough at present.
#[derive(Debug, Clone, Default)]
pub(super) struct PassthroughWrites {
    /// Handles that write so.
    writers: u32,
    /// A program asked for a sync of what it had written so far.
    was_synced: bool,
    /// It went on writing afterwards.
    is_syncer: bool,
    /// After a commit of all of it: no other one before this, unless somebody waits for it.
    pub(super) rest_until: Option<Time>,
}

impl Life {
    /// Whether somebody writes by passthrough.
    pub(crate) fn is_written_by_passthrough(&self) -> bool {
        self.passthrough.is_some()
    }

    /// The kernel writes this body, which is empty, by itself.
    pub(crate) fn passthrough_began(&mut self, file: Arc<BodyFile>) {
        self.step(Event::PassthroughBegan, |life| {
            life.body = Some(Body::Disk { file, present: RangeSet::new() });
            life.passthrough = Some(PassthroughWrites { writers: 1, ..PassthroughWrites::default() });
        });
    }

    /// One more handle writes the body by passthrough.
    pub(crate) fn passthrough_joined(&mut self) {
        self.step(Event::PassthroughBegan, |life| life.passthrough.get_or_insert_default().writers += 1);
    }

    /// A handle that wrote so was closed; everything was noticed before.
    pub(crate) fn passthrough_ended(&mut self) {
        match &mut self.passthrough {
            None => {}
            Some(writes) if writes.writers > 1 => writes.writers -= 1,
            Some(_) => self.step(Event::PassthroughEnded, |life| life.passthrough = None),
        }
    }

    /// Programs wrote into the body, which is `len` long; all of it counts as written.
    pub(crate) fn passthrough_written(&mut self, len: u64, now: Time) {
        self.step(Event::Changed, |life| {
            life.all_is_new(len);
            life.change(now);
            if let Some(writes) = &mut life.passthrough {
                writes.is_syncer |= writes.was_synced;
            }
        });
    }

    /// What was written so far was looked at, and what comes next will show.
    pub(crate) fn passthrough_marked(&mut self, len: u64) {
        self.all_is_new(len);
    }

    /// The body is `len` long, and all of it was written.
    fn all_is_new(&mut self, len: u64) {
        self.changes.ranges = RangeSet::of(0..len);
        self.changes.low_water = Some(0);
        if let Some(Body::Disk { present, .. }) = &mut self.body {
            *present = RangeSet::of(0..len);
        }
    }

    /// A sync was asked for: whoever goes on writing after it would have everything hashed again at the next.
    pub(crate) fn synced(&mut self) {
        if let Some(writes) = &mut self.passthrough {
            writes.was_synced = true;
        }
    }

    /// Whether a program syncs in the middle of what it writes by passthrough.
    pub(crate) fn is_syncer(&self) -> bool {
        self.passthrough.as_ref().is_some_and(|writes| writes.is_syncer)
    }

    /// All that was written by passthrough was hashed: another time not before this.
    pub(crate) fn rest(&mut self, until: Time) {
        if let Some(writes) = &mut self.passthrough {
            writes.rest_until = Some(until);
        }
    }
}
