//! What can go wrong in the laboratory.

use std::io;
use std::time::Duration;
use wayfs_link::description::DescriptionError;

/// Why a topology, a process in it or an experiment failed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// This machine or user may not make network namespaces or TUN devices.
    #[error("{doing}: {error}; the laboratory needs root, network namespaces and /dev/net/tun")]
    Forbidden {
        /// Verb and object.
        doing: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The operating system refused something else.
    #[error("{doing}: {error}")]
    Io {
        /// Verb and object.
        doing: String,
        /// Why.
        error: io::Error,
    },
    /// A tool that the laboratory runs failed.
    #[error("{tool} failed: {message}")]
    Tool {
        /// Which, with its arguments.
        tool: String,
        /// What it said.
        message: String,
    },
    /// No host of this name.
    #[error("there is no host {0}")]
    UnknownHost(String),
    /// Two hosts of one name, or a name that is no plain word.
    #[error("a host cannot be called {0}: names are unique words of a-z, 0-9 and -")]
    HostName(String),
    /// More hosts than addresses.
    #[error("a topology has at most {0} hosts")]
    TooManyHosts(usize),
    /// A line that makes no sense.
    #[error(transparent)]
    Description(#[from] DescriptionError),
    /// Something did not happen in time.
    #[error("{what} did not happen within {within:?}")]
    TimedOut {
        /// What was waited for.
        what: String,
        /// For how long.
        within: Duration,
    },
    /// An experiment could not be carried out.
    #[error("{0}")]
    Experiment(String),
}

impl LabError {
    /// For `map_err`: an error of the operating system while doing something.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |error| match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Forbidden { doing, error },
            _ => Self::Io { doing, error },
        }
    }

    /// Whether this machine forbids laboratories altogether.
    pub const fn is_forbidden(&self) -> bool {
        matches!(self, Self::Forbidden { .. })
    }
}
