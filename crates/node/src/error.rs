//! Why a volume could not be opened.

/// Opening a volume failed. Each carries an error that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The stores.
    #[error(transparent)]
    Store(#[from] wayfs_store::OpenError),
    /// The engine found its tables wanting.
    #[error("open replica: {0}")]
    Replica(#[from] wayfs_proto::OpenError),
}
