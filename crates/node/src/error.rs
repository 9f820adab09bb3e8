//! Why a volume could not be opened, or its members not be changed.

/// Opening a volume failed. Each carries an error that says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The stores.
    #[error(transparent)]
    Store(#[from] wayfs_store::OpenError),
    /// The engine found its tables wanting.
    #[error("open replica: {0}")]
    Replica(#[from] wayfs_proto::OpenError),
    /// The system has no room for threads.
    #[error("start threads: {0}")]
    Threads(std::io::Error),
}

impl OpenError {
    /// Whether files are lost or damaged, so that this volume alone cannot be opened.
    pub fn is_damage(&self) -> bool {
        use wayfs_store::OpenError as Store;
        match self {
            Self::Store(Store::LostBatches { .. } | Store::Damaged(_) | Store::Engine(_) | Store::NotOurs(_)) => true,
            Self::Store(Store::Io { .. }) => true,
            Self::Store(Store::Locked { .. } | Store::WrongRole { .. }) => false,
            Self::Store(Store::TooNew { .. } | Store::TooOld { .. }) => false,
            Self::Replica(wayfs_proto::OpenError::Storage(_)) => true,
            Self::Replica(wayfs_proto::OpenError::Foreign(_)) | Self::Threads(_) => false,
        }
    }
}

impl OpenError {
    /// Whether somebody has the directory open.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Store(wayfs_store::OpenError::Locked { .. }))
    }
}

/// Members could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The engine refuses.
    #[error(transparent)]
    Replica(#[from] wayfs_proto::GrantError),
    /// It could not be made durable.
    #[error(transparent)]
    Storage(#[from] wayfs_types::StorageError),
    /// The volume has stopped.
    #[error("the volume has stopped")]
    Stopped,
}
