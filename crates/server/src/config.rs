//! What can be set for a server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use wayfs_control::link_signals::LinkSource;
use wayfs_net::Address;

/// The UDP port of a server unless another is given. Not registered to anyone we know of.
pub(crate) const DEFAULT_PORT: u16 = 7475;
/// Lifetime of a ticket unless another is given: a day, since it is a password that travels by mail.
pub(crate) const TICKET_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Settings of a [`crate::Server`].
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Where everything is kept. One process at a time.
    pub data_dir: PathBuf,
    /// UDP address to listen on. Default `[::]:7475`; port 0 lets the system choose.
    pub listen: SocketAddr,
    /// Addresses and names that tickets and the register tell, the best first. Default: those of this machine's interfaces
    /// that can be found, looked for anew each minute.
    pub advertise: Vec<Address>,
    /// What the key of this server is sealed with. Default: it lies in the clear, readable by its owner only.
    pub passphrase: Option<wayfs_net::Passphrase>,
    /// Where the control socket is made; `None`: nowhere (tests).
    pub control_socket: Option<PathBuf>,
    /// Propagation policy of stations, as `wayfs serve --policy` takes it; `None`: the default of [`wayfs_policy`].
    pub policy: Option<String>,
    /// Loopback address for metrics; `None`: none.
    pub metrics: Option<SocketAddr>,
    /// Stations gather records so long before they tell the home. Default 1 s.
    pub reconcile_period: Duration,
    /// `USER@HOST` of this server, as others see it. Default: from the environment.
    pub label: String,
    /// Announce this server on the local network by multicast DNS, and look for homes there. Never if it listens on
    /// loopback only. Default false: whoever embeds a server decides.
    pub mdns: bool,
    /// Where links below this machine's network tell what they do (`docs/format/link-signals.md`). Default: nobody is
    /// listened to; whoever embeds a server decides.
    pub links: Option<LinkSource>,
    /// Volumes, by name or id, that are opened although metadata of theirs is lost or damaged. Only a person should say so.
    pub accept_loss: Vec<String>,
    /// Settings of the transport.
    pub net: wayfs_net::NetConfig,
    /// A chunk that nothing refers to is kept this long. Default 10 min.
    pub unreferenced_grace: Duration,
    /// Pause between sweeps. Default 60 s.
    pub sweep_period: Duration,
    /// All contents are read once in so long, and what is damaged is fetched anew; `None`: never by itself. Default 30 days.
    pub scrub_period: Option<Duration>,
}

impl ServerConfig {
    /// The defaults.
    pub fn new(data_dir: PathBuf) -> Self {
        Self {
            data_dir,
            listen: SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, DEFAULT_PORT)),
            advertise: Vec::new(),
            passphrase: None,
            control_socket: None,
            policy: None,
            metrics: None,
            reconcile_period: Duration::from_secs(1),
            label: default_label(),
            mdns: false,
            links: None,
            accept_loss: Vec::new(),
            net: wayfs_net::NetConfig::default(),
            unreferenced_grace: Duration::from_secs(600),
            sweep_period: Duration::from_secs(60),
            scrub_period: Some(wayfs_node::SCRUB_PERIOD),
        }
    }
}

/// `USER@HOST` of this process, cleaned so that it may appear in file names.
pub(crate) fn default_label() -> String {
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    let user = user.unwrap_or_else(|| if rustix::process::geteuid().is_root() { "root".into() } else { "user".into() });
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy().into_owned();
    let host = host.split('.').next().filter(|host| !host.is_empty()).unwrap_or("host").to_owned();
    let label: String = format!("{user}@{host}").chars().filter(|c| !c.is_control() && *c != '/').collect();
    label.chars().take(40).collect()
}
