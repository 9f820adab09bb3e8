//! The kernel behind the mount, as the file system and its open files ask it.

use super::kernel_form::{backing, inode};
use crate::files::body::BodyFile;
use crate::files::kernel_way::BackingId;
use crate::fs::{Abilities, Kernel, NotRegistered};
use crate::notices::Caches;
use wayfs_fuse::{Granted, InitFlags, Notifier, NotifyError, PassthroughError};
use wayfs_types::{FileId, Name};

/// The protocol from which on the kernel can be told to ask for all names again.
const EPOCH_MINOR: u32 = 44;

/// What was agreed with the kernel.
pub(super) fn abilities(granted: &Granted) -> Abilities {
    Abilities {
        passthrough: granted.flags.contains(InitFlags::PASSTHROUGH),
        access_lists: granted.flags.contains(InitFlags::POSIX_ACL | InitFlags::DONT_MASK),
        expiry: granted.protocol_minor >= EPOCH_MINOR,
    }
}

impl Kernel for Notifier {
    fn register(&self, body: &BodyFile) -> Result<BackingId, NotRegistered> {
        let Some(body) = body.descriptor() else { return Err(NotRegistered::Never) };
        match self.backing_open(body) {
            Ok(backing) => Ok(BackingId::new(backing.number())),
            // All bodies are on one file system.
            Err(error) if error.is_final() || matches!(error, PassthroughError::Stacked) => {
                tracing::info!(%error, "reads go through the daemon");
                Err(NotRegistered::Never)
            }
            Err(_) => Err(NotRegistered::ThisOne),
        }
    }

    fn unregister(&self, id: BackingId) {
        if let Err(error) = self.backing_close(backing(id)) {
            tracing::warn!(%error, "take back a passthrough registration");
        }
    }
}

impl Caches for Notifier {
    fn forget_attributes(&self, file: FileId) {
        note(self.inval_inode(inode(file), -1, 0));
    }

    fn forget_pages(&self, file: FileId) {
        note(self.inval_inode(inode(file), 0, 0));
    }

    fn expire_name(&self, parent: FileId, name: &Name) {
        // Expiring instead of dropping leaves alone what is in use below the name; the next use asks us.
        note(self.expire_entry(inode(parent), name.as_os_str()));
    }

    fn expire_names(&self) {
        note(self.expire_all_entries());
    }
}

fn note(outcome: Result<(), NotifyError>) {
    match outcome {
        Ok(()) | Err(NotifyError::Unmounted) => {}
        // Of an older kernel; what it keeps has a short life then.
        Err(error @ NotifyError::Unsupported) => tracing::debug!(%error, "tell the kernel what is out of date"),
        Err(error) => tracing::warn!(%error, "the kernel did not take an invalidation"),
    }
}
