//! The ways in which the kernel reads an inode.

use super::body::BodyFile;
use std::sync::Arc;
use wayfs_types::Content;

/// Smallest file served by passthrough, and worth to be written so, in bytes. Registering a backing file costs two ioctls and an
/// open of the host (about 5 us): smaller files gain nothing over the kernel's page cache.
pub const PASSTHROUGH_MIN: u64 = 128 * 1024;

/// A body file that is registered with the kernel, by its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackingId(u32);

impl BackingId {
    /// Wraps the number that the kernel gave.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number itself.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// How the kernel is to read an inode through a handle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelWay {
    /// Through its page cache.
    Cached {
        /// Whether the pages it has are of this version.
        keep: bool,
    },
    /// Asking for every read and write, because the inode is open by passthrough otherwise. The
    /// kernel wants the registration of the others named all the same, and maps their file.
    Direct(BackingId),
    /// From a plain file.
    Passthrough(BackingId),
}

/// Registers a body file for passthrough, if that is possible.
pub type Register<'a> = dyn Fn(&BodyFile) -> Option<BackingId> + 'a;

/// How the kernel reads this inode at present. It refuses to mix the two ways.
#[derive(Debug, Default)]
pub(super) enum KernelOpens {
    /// Not open, or only with direct requests.
    #[default]
    None,
    /// Through its page cache, by so many handles.
    Cached(u32),
    /// From a plain file, by so many handles.
    Passthrough {
        /// Which.
        file: Arc<BodyFile>,
        /// Under which the kernel knows it.
        backing: BackingId,
        /// How many.
        count: u32,
        /// What the plain file holds, if that is not what the file holds.
        behind: Option<Served>,
    },
}

/// What a plain file holds that is no longer the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Served {
    /// An older content.
    Older(Content),
    /// Something that never was a content.
    Other,
}
