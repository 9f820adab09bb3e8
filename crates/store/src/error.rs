//! Why a store could not be opened.

use std::path::{Path, PathBuf};
use wayfs_types::Ticket;

/// Why a data directory or a store in it could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the directory.
    #[error("{} is in use by another process ({holder}): stop it first", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
        /// What the holder wrote about itself.
        holder: String,
    },
    /// `FORMAT` is not of this program, or damaged.
    #[error("{} is not a WayFS data directory, or its FORMAT file is damaged", .0.display())]
    NotOurs(PathBuf),
    /// The format is newer than this program knows.
    #[error("{} has format {found}, this program knows formats up to {known}: use a newer program", path.display())]
    TooNew {
        /// The directory or file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest version known.
        known: u32,
    },
    /// The format is one that this program does not read any more.
    #[error(
        "{} has format {found}, of a program from before the first release, and this program reads format {known} only. Nothing \
         was changed. Copy the files out with the program that made it, put the directory aside, and begin with a new one",
        path.display()
    )]
    TooOld {
        /// The directory.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version that is read.
        known: u32,
    },
    /// The directory belongs to another role.
    #[error("{} belongs to a {found}, not to a {wanted}: give each its own directory", path.display())]
    WrongRole {
        /// The directory.
        path: PathBuf,
        /// Its role.
        found: String,
        /// The role asked for.
        wanted: String,
    },
    /// Batches that were durable are gone: the disk, or someone, lost or damaged them.
    #[error(
        "metadata lost: batch {durable} was durable and the store ends at batch {found}, \
         so the last {} batches of updates are gone", durable.0.saturating_sub(found.0)
    )]
    LostBatches {
        /// The last batch that was reported durable.
        durable: Ticket,
        /// The last batch that is there.
        found: Ticket,
    },
    /// The store is damaged inside.
    #[error("metadata damaged: {0}")]
    Damaged(String),
    /// The library that keeps the tables said no.
    #[error("open metadata: {0}")]
    Engine(#[from] lsm_tree::Error),
    /// The system said no.
    #[error("{what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
}

impl OpenError {
    /// Wraps a system error with what was tried on which file.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { what, path: path.to_path_buf(), source }
    }
}

/// Whether a system error says that there is no room.
pub(crate) fn is_no_space(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}
