//! The kernel behind the mount, as the file system and its open files ask it.

use super::kernel_form::backing;
use crate::files::body::BodyFile;
use crate::files::kernel_way::BackingId;
use crate::fs::{Abilities, Kernel, NotRegistered};
use std::os::fd::AsFd;
use wayfs_fuse::{Granted, InitFlags, Notifier, PassthroughError};

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
        match self.backing_open(body.file().as_fd()) {
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

    fn expire_all(&self) {
        if let Err(error) = self.expire_all_entries() {
            tracing::debug!(%error, "have the kernel ask for all names again");
        }
    }
}
