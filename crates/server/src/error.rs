//! Why a server, or a volume of it, did not start.

use std::path::PathBuf;

/// A server did not start. Each says what to do, or carries an error that does.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error("{what} {}: {source}", path.display())]
    Directory {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Another process has it.
    #[error("data directory {} is in use by another process: stop that server first, or give this one another directory", .0.display())]
    Locked(PathBuf),
    /// Written by a newer program, or damaged.
    #[error("{}: {why}", path.display())]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
    /// The machine's key.
    #[error(transparent)]
    Identity(#[from] wayfs_net::IdentityError),
    /// The port.
    #[error(transparent)]
    Bind(#[from] wayfs_net::BindError),
    /// The runtime.
    #[error("start worker threads: {0}")]
    Runtime(std::io::Error),
    /// A volume.
    #[error("volume {name}: {source}")]
    Volume {
        /// Its name.
        name: String,
        /// What is wrong.
        source: wayfs_node::OpenError,
    },
    /// Another copy of a home runs.
    #[error("another copy of this home answers at {address}: members of one do not see what is written at the other")]
    Copied {
        /// Where.
        address: std::net::SocketAddr,
    },
    /// The policy's text.
    #[error("propagation policy `{text}`: {source}")]
    Policy {
        /// What was given.
        text: String,
        /// What is wrong with it.
        source: wayfs_policy::SettingError,
    },
    /// The control socket.
    #[error("control socket: {0}")]
    Control(#[from] wayfs_control::StartError),
    /// The metrics port.
    #[error(transparent)]
    Metrics(#[from] wayfs_node::metrics::MetricsError),
}

impl StartError {
    /// Whether one volume alone is concerned, and its files are damaged.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Volume { source, .. } => source.is_damage(),
            Self::Unreadable { .. } => true,
            Self::Directory { .. }
            | Self::Locked(_)
            | Self::Identity(_)
            | Self::Bind(_)
            | Self::Runtime(_)
            | Self::Copied { .. }
            | Self::Policy { .. }
            | Self::Control(_)
            | Self::Metrics(_) => false,
        }
    }
}
