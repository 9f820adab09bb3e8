//! One request in hand.

use crate::buffer::Message;
use crate::decode::{self, DecodeError, Header};
use crate::{Inode, InterruptFlag, Operation, Unique};

/// A request of the kernel: who asks, and what.
///
/// Owns its bytes, so it may be moved to the thread that will answer it.
#[derive(Debug)]
pub struct Request {
    header: Header,
    message: Message,
    interrupt: InterruptFlag,
}

impl Request {
    /// A request that goes to nobody before [`Request::decode`] succeeded.
    pub(crate) fn new(header: Header, message: Message, interrupt: InterruptFlag) -> Self {
        Self { header, message, interrupt }
    }

    /// What is asked. Once it succeeded [`Request::operation`] cannot fail.
    pub(crate) fn decode(&self) -> Result<Operation<'_>, DecodeError> {
        decode::decode(&self.header, self.message.bytes())
    }

    /// What is asked, decoded again: [`crate::Handler::answer`] has it. Borrows names and data from this request.
    #[must_use]
    pub fn operation(&self) -> Operation<'_> {
        self.decode().expect("the same bytes were decoded when the request was read")
    }

    /// The identity of this request, as in [`crate::Handler::interrupted`].
    #[must_use]
    pub fn unique(&self) -> Unique {
        self.header.unique
    }

    /// The file that the request is about; the parent directory for requests with a name.
    #[must_use]
    pub fn inode(&self) -> Inode {
        self.header.inode
    }

    /// The user on whose behalf (its file system uid).
    #[must_use]
    pub fn uid(&self) -> u32 {
        self.header.uid
    }

    /// The group on whose behalf (its file system gid).
    #[must_use]
    pub fn gid(&self) -> u32 {
        self.header.gid
    }

    /// The thread that asks; zero when it is the kernel itself or in another process namespace.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.header.pid
    }

    /// True once the caller was interrupted by a signal.
    ///
    /// Whoever waits on behalf of a request first makes itself findable for
    /// [`crate::Handler::interrupted`], then asks this, then waits: so no interrupt is missed.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.is_set()
    }

    /// The flag behind [`Request::is_interrupted`], to be kept when the request itself is not.
    #[must_use]
    pub fn interrupt_flag(&self) -> InterruptFlag {
        self.interrupt.clone()
    }
}
