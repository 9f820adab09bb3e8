//! What tests change in a replica behind its back.

use crate::{Config, Replica};
use wayfs_types::{Key, MetaStore, RecordId};

impl<S: MetaStore> Replica<S> {
    /// As if all tombstones had been purged: every cursor is void.
    pub(crate) fn forget_traces(&mut self) {
        self.core.state.purge_all();
        self.core.state.put_image(Key::Conflict(RecordId::GENESIS), None).expect("a test's store");
        self.commit().expect("a test's store");
    }

    pub(crate) fn keep_traces(&mut self, changes: u64) {
        self.core.config.tombstones_kept = changes;
    }

    pub(crate) fn configure(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.core.config);
    }
}
