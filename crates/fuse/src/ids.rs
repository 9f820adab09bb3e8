//! The numbers that travel between the kernel and us, each with a type of its own.

use std::fmt;

macro_rules! identifier {
    ($(#[$meta:meta])* $name:ident($int:ty)) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name($int);

        impl $name {
            /// Wraps the number as the kernel or the handler wrote it.
            #[must_use]
            pub const fn new(number: $int) -> Self {
                Self(number)
            }

            /// The number itself.
            #[must_use]
            pub const fn number(self) -> $int {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

identifier! {
    /// The number under which the kernel knows a file; chosen by the handler in [`crate::Entry`].
    ///
    /// Zero is no file (a negative entry), one is the root.
    Inode(u64)
}

impl Inode {
    /// The root directory of the mount.
    pub const ROOT: Self = Self(1);
    /// No file: marks a negative entry.
    pub const NONE: Self = Self(0);
}

identifier! {
    /// What the handler gave back at open, repeated by the kernel in every operation on that handle.
    FileHandle(u64)
}

identifier! {
    /// Who owns a POSIX or flock lock: an opaque number per process (or open file) from the kernel.
    LockOwner(u64)
}

identifier! {
    /// The identity of a request; never used twice in the life of a mount.
    Unique(u64)
}

identifier! {
    /// A file registered with the kernel as the backing of passthrough opens.
    BackingId(u32)
}
