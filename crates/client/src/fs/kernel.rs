//! What the file system asks of a kernel that caches and takes over files. A front end without one offers nothing.

use crate::files::body::BodyFile;
use crate::files::kernel_way::BackingId;
use crate::notices::Caches;

/// What a kernel can do for this mount.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Abilities {
    /// It reads and writes body files by itself.
    pub passthrough: bool,
    /// It checks access control lists, and leaves the umask to us.
    pub access_lists: bool,
    /// It can be told at once to ask for all names again.
    pub expiry: bool,
}

/// Why a body file is not registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotRegistered {
    /// No other will be, either.
    Never,
    /// Another may be.
    ThisOne,
}

/// A kernel.
pub trait Kernel: Caches {
    /// Registers a body file, so that the kernel reads and writes it by itself.
    ///
    /// # Errors
    /// [`NotRegistered`]; the file is served by requests then.
    fn register(&self, body: &BodyFile) -> Result<BackingId, NotRegistered>;

    /// Takes a registration back.
    fn unregister(&self, backing: BackingId);
}
