//! Numbers that travel between a front end and the file system, each with a type of its own.

use std::fmt;

macro_rules! identifier {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// Wraps the number.
            #[must_use]
            pub const fn new(number: u64) -> Self {
                Self(number)
            }

            /// The number itself.
            #[must_use]
            pub const fn number(self) -> u64 {
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
    /// An open file or directory; the file system gives it at open, and the front end names it in every operation on that.
    HandleId
}

identifier! {
    /// An operation that may be interrupted; the front end gives it, and never twice in the life of a mount.
    Token
}

identifier! {
    /// Who owns a lock: a number per process, or open file, that the front end gives and may give again.
    LockOwner
}
