//! Why a link cannot be, or ended. Each says what to do.

use std::io;
use std::path::PathBuf;

/// Why a link cannot be, or ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The device cannot be made.
    #[error(
        "make the TUN device {name}: {error}. Run it as root (CAP_NET_ADMIN), see that /dev/net/tun is there, and that no other program has that device (--tun names another)"
    )]
    Tun {
        /// Its name.
        name: String,
        /// The system's answer.
        error: io::Error,
    },
    /// The device is gone.
    #[error("the TUN device {name} is gone or down ({error}): somebody removed it. Start the link again")]
    TunGone {
        /// Its name.
        name: String,
        /// The system's answer.
        error: io::Error,
    },
    /// The name of a device.
    #[error("`{0}` is no name for a device: 1 to 15 letters, digits, - and _")]
    TunName(String),
    /// The addresses or routes cannot be set.
    #[error("{doing}: {why}. The program `ip` (package iproute2) must be there, and the rights of root")]
    Host {
        /// What was tried.
        doing: String,
        /// What was answered.
        why: String,
    },
    /// The socket cannot be had.
    #[error("take UDP {address}: {error}. Name another address with --listen, or end the program that has it")]
    Bind {
        /// Which.
        address: String,
        /// The system's answer.
        error: String,
    },
    /// A base that listens everywhere does not know where mobiles find it.
    #[error(
        "a base that listens on every address does not know by which one mobiles reach it: name it with --address HOST:PORT"
    )]
    NoAddress,
    /// The state directory cannot be used.
    #[error("{doing} {}: {error}. Name another place with --state", path.display())]
    State {
        /// What was tried.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// The own key cannot be read.
    #[error(transparent)]
    Identity(#[from] wayfs_net::IdentityError),
    /// The base does not answer.
    #[error("reach the base: {0}. See that it runs, and that its UDP port and the next one are open")]
    Unreachable(String),
    /// The base said no.
    #[error("the base refuses: {0}")]
    Refused(String),
    /// What the other end says makes no sense.
    #[error("the other end speaks another language ({0}): install the same version at both ends")]
    Language(&'static str),
    /// The socket for signals cannot be had.
    #[error("listen at {}: {error}. Run it as root; --socket names another place", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// Another link is there already.
    #[error("a link runs at {} already: end it, or name other ones with --tun and --socket", .0.display())]
    Running(PathBuf),
    /// A setting.
    #[error("{0}")]
    Setting(String),
    /// The scheme needs what this machine has not.
    #[error("the scheme {scheme} {why}")]
    Scheme {
        /// Which.
        scheme: String,
        /// What is missing, and what to do.
        why: String,
    },
    /// Anything else of the system's.
    #[error("{doing}: {error}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The system's answer.
        error: io::Error,
    },
}

impl LinkError {
    pub(crate) const fn io(doing: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Io { doing, error }
    }
}
