//! An open of a program, and what its program waits for.

use std::sync::Arc;
use wayfs_openfiles::kernel_way::KernelWay;
use wayfs_openfiles::{Access, OpenFile};
use wayfs_types::FileId;

/// Which open of a host's programs it is, in their order. It shows as a bare number in traces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct HandleNumber(pub(super) u64);

impl std::fmt::Debug for HandleNumber {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(formatter)
    }
}

/// An open of a program.
pub(super) struct Handle {
    pub(super) number: HandleNumber,
    pub(super) file: FileId,
    pub(super) open: Arc<OpenFile>,
    pub(super) access: Access,
    pub(super) appends: bool,
    pub(super) way: KernelWay,
    /// What its program waits for.
    pub(super) waits: Waits,
}

/// What a program waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    No,
    /// A sync.
    Sync,
    /// The commit of its close.
    Close,
}
