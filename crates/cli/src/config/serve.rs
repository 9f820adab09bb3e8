//! What a server is started with.

use super::{Config, passphrase_file, scrub_period};
use crate::args::ServeArgs;
use std::net::{Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// UDP port of servers: not assigned to anything known, and easy to remember.
pub(crate) const PORT_DEFAULT: u16 = 7475;

/// Settings of `wayfs serve`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServeSettings {
    /// Data directory, absolute.
    pub(crate) data: PathBuf,
    /// Where to listen.
    pub(crate) listen: SocketAddr,
    /// What others are told; empty: what the machine's interfaces say.
    pub(crate) advertise: Vec<wayfs_net::Address>,
    /// Propagation policy as text; `None`: the server's default.
    pub(crate) policy: Option<String>,
    /// Whether to use multicast DNS.
    pub(crate) mdns: bool,
    /// Where to serve metrics.
    pub(crate) metrics: Option<SocketAddr>,
    /// In which time everything is read; `None`: never by itself.
    pub(crate) scrub_period: Option<Duration>,
    /// The passphrase of its key; `None`: the key lies in the clear.
    pub(crate) passphrase_file: Option<PathBuf>,
    /// Volumes that are opened although they are damaged: never by a file, since it is meant for once.
    pub(crate) accept_loss: Vec<String>,
}

impl ServeSettings {
    /// Joins arguments, files and defaults.
    pub(crate) fn new(args: &ServeArgs, config: &Config) -> Self {
        let file = &config.file.server;
        let data = args.data.clone().or_else(|| file.data.clone()).unwrap_or_else(|| config.dirs.server_data());
        let advertise =
            if args.advertise.is_empty() { file.advertise.clone().unwrap_or_default() } else { args.advertise.clone() };
        Self {
            data: std::path::absolute(&data).unwrap_or(data),
            listen: args.listen.or(file.listen).unwrap_or(SocketAddr::from((Ipv6Addr::UNSPECIFIED, PORT_DEFAULT))),
            advertise,
            policy: args.policy.clone().or_else(|| file.policy.clone()),
            mdns: !args.no_mdns && file.mdns.unwrap_or(true),
            metrics: args.metrics.or(file.metrics),
            scrub_period: scrub_period(file.scrub_days),
            passphrase_file: passphrase_file(args.passphrase_file.clone().or_else(|| file.passphrase_file.clone())),
            accept_loss: args.accept_loss.clone(),
        }
    }

    /// The control socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.data.join("control.sock")
    }
}
