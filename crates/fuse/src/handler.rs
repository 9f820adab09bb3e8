//! What a file system provides.

use crate::{Errno, Granted, Inode, Notifier, Operation, Reply, Request, Unique};

/// A file system behind a mount. All methods are called from the session's reader threads, at the
/// same time from several.
///
/// Requests come through [`Handler::answer`], and those for which it gives the reply back through [`Handler::handle`]: a file
/// system has one of the two.
pub trait Handler: Send + Sync + 'static {
    /// The kernel and we have agreed; no request has been read yet.
    ///
    /// The notifier may be kept for the life of the mount.
    fn init(&self, _granted: &Granted, _notifier: &Notifier) {}

    /// One request with its operation, to be answered through `reply`: here or later, from this thread or another. A handler that
    /// wants to keep the request's bytes gives the reply back, as by default, and gets both through [`Handler::handle`].
    ///
    /// Must not wait for anything but local disk: while it runs, this reader takes no other request.
    /// Must not wait for another request of the same mount, nor for a notification (see [`Notifier`]).
    fn answer(&self, _request: &Request, _operation: Operation<'_>, reply: Reply) -> Option<Reply> {
        Some(reply)
    }

    /// One request to keep, for instance for another thread; as [`Handler::answer`]. By default it is not implemented.
    fn handle(&self, _request: Request, reply: Reply) {
        let _ = reply.error(Errno::NOSYS);
    }

    /// The kernel drops `lookups` of its references to `inode`, which it got through entries.
    fn forget(&self, _inode: Inode, _lookups: u64) {}

    /// The caller of a request that is in hand got a signal and waits no longer than necessary.
    ///
    /// The request still has to be answered, with EINTR if nothing was done.
    fn interrupted(&self, _unique: Unique) {}

    /// The mount is gone; called once, after the last request was read.
    fn destroy(&self) {}
}
