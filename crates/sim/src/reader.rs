//! A content that is got piece by piece, how far it has come, and for whom.

use std::time::Duration;
use wayfs_proto::PeerId;
use wayfs_transfer::Order;
use wayfs_types::{Digest, FileId, RecordId};

/// A content that is got piece by piece.
#[derive(Debug, Clone)]
pub(crate) struct Reader {
    pub(crate) file: FileId,
    pub(crate) version: RecordId,
    pub(crate) root: Digest,
    pub(crate) had: usize,
    pub(crate) tries: u32,
    pub(crate) patience: Duration,
    pub(crate) purpose: Purpose,
}

#[derive(Debug, Clone)]
pub(crate) enum Purpose {
    Program,
    Repair(Order<PeerId>),
}
