//! What an open answers: a handle, how the kernel shall cache, and perhaps a backing file.

use crate::flag_set::flag_set;
use crate::{BackingId, FileHandle};

flag_set! {
    /// How the kernel treats an open file; part of the answer to open, create and opendir.
    OpenFlags: u32 {
        /// Reads and writes bypass the kernel's page cache.
        DIRECT_IO = 1 << 0;
        /// Keep the pages that the kernel has from earlier opens; without it, open drops them.
        KEEP_CACHE = 1 << 1;
        /// The file cannot seek.
        NONSEEKABLE = 1 << 2;
        /// The kernel may cache this directory's listing; with [`OpenFlags::KEEP_CACHE`] it keeps the earlier one.
        CACHE_DIR = 1 << 3;
        /// The file has no position at all.
        STREAM = 1 << 4;
        /// No flush request at close (the kernel sends it regardless when write-back caching is on).
        NOFLUSH = 1 << 5;
        /// Direct writes to one file may run at the same time.
        PARALLEL_DIRECT_WRITES = 1 << 6;
        /// Reads and writes go to the backing file; set by [`Opened::passthrough`].
        PASSTHROUGH = 1 << 7;
    }
}

impl OpenFlags {
    /// The only flags that the kernel accepts beside passthrough; any other makes the open fail with EIO.
    pub(crate) const BESIDE_PASSTHROUGH: Self =
        Self(Self::DIRECT_IO.0 | Self::NOFLUSH.0 | Self::PARALLEL_DIRECT_WRITES.0 | Self::PASSTHROUGH.0);
}

/// The answer to open, create and opendir.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    handle: FileHandle,
    flags: OpenFlags,
    backing: Option<BackingId>,
}

impl Opened {
    /// A file whose reads and writes come to the handler, cached as `flags` say.
    #[must_use]
    pub const fn new(handle: FileHandle, flags: OpenFlags) -> Self {
        Self { handle, flags: flags.without(OpenFlags::PASSTHROUGH), backing: None }
    }

    /// A file whose reads, writes and mappings the kernel takes to the backing file.
    ///
    /// Flags that the kernel refuses together with passthrough (`KEEP_CACHE` above all) are dropped.
    /// While any passthrough handle of an inode is open, its other opens must name the same backing
    /// id, or be `DIRECT_IO`; a cached open fails in the kernel with EIO, and so does a passthrough
    /// open while a cached one is open. Getattr and setattr still come to the handler, which must
    /// take size and times from the backing file.
    #[must_use]
    pub const fn passthrough(handle: FileHandle, flags: OpenFlags, backing: BackingId) -> Self {
        let flags = flags.with(OpenFlags::PASSTHROUGH).intersection(OpenFlags::BESIDE_PASSTHROUGH);
        Self { handle, flags, backing: Some(backing) }
    }

    /// The handle given to the kernel.
    #[must_use]
    pub const fn handle(&self) -> FileHandle {
        self.handle
    }

    /// The flags given to the kernel.
    #[must_use]
    pub const fn flags(&self) -> OpenFlags {
        self.flags
    }

    /// The wire form, `fuse_open_out`.
    pub(crate) fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.handle.number().to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.flags.bits().to_ne_bytes());
        let backing = self.backing.map_or(0, BackingId::number);
        bytes[12..].copy_from_slice(&backing.to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passthrough_keeps_only_what_the_kernel_accepts() {
        let flags = OpenFlags::KEEP_CACHE | OpenFlags::NOFLUSH;
        let opened = Opened::passthrough(FileHandle::new(7), flags, BackingId::new(3));
        assert_eq!(opened.flags(), OpenFlags::NOFLUSH | OpenFlags::PASSTHROUGH);
        let bytes = opened.encode();
        assert_eq!(bytes[12..], 3_u32.to_ne_bytes());
    }

    #[test]
    fn passthrough_needs_a_backing_file() {
        let opened = Opened::new(FileHandle::new(7), OpenFlags::PASSTHROUGH | OpenFlags::KEEP_CACHE);
        assert_eq!(opened.flags(), OpenFlags::KEEP_CACHE);
    }
}
