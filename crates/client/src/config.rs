//! Settings of a mount.

use crate::fs::FileSystemSettings;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use wayfs_control::Registry;
use wayfs_control::link_signals::LinkSource;
use wayfs_net::{NetConfig, Ticket};
pub use wayfs_proto::Sharing;

/// Which volume.
#[derive(Debug, Clone)]
pub enum Source {
    /// The ticket's. A machine that joined already uses what it saved and where the ticket says that the home is;
    /// the ticket stays unspent.
    Ticket(Box<Ticket>),
    /// One that was mounted before with this cache, by name. Needs no network.
    Saved(String),
}

/// Settings of a [`crate::Client`].
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// Which volume.
    pub source: Source,
    /// Where to mount it. Must exist.
    pub mountpoint: PathBuf,
    /// Directory of caches; each volume has a directory of its own below, by its name.
    pub cache_dir: PathBuf,
    /// What the key of this machine in the volume is sealed with. Default: it lies in the cache in the clear, readable by its owner only.
    pub passphrase: Option<wayfs_net::Passphrase>,
    /// Control socket. Default `control.sock` in the volume's directory.
    pub control_socket: Option<PathBuf>,
    /// Where running daemons are listed.
    pub registry: Registry,
    /// Bound on cached contents, in bytes. Default 10 GiB. What nobody else has is never bounded by it.
    pub cache_size: u64,
    /// All cached contents are read once in so long, and what is damaged is fetched anew; `None`: never by itself. Default 30
    /// days.
    pub scrub_period: Option<Duration>,
    /// How the mount behaves.
    pub fs: FileSystemSettings,
    /// `USER@HOST`, as conflict names show it. Default: of this process.
    pub label: Option<String>,
    /// Refuse all changes. Default false.
    pub read_only: bool,
    /// Let other users in (their rights are checked by the kernel). Default: true for root.
    pub allow_other: bool,
    /// No program runs from the mount. Default false. (Set-id bits and device files never take effect.)
    pub no_exec: bool,
    /// Begin without looking for a station. Default false.
    pub offline: bool,
    /// Tell programs that watch files of changes from elsewhere by inotify. Default true.
    pub watch: bool,
    /// When others see what is closed here. Default: at once where the parent is within [`NEAR_RTT_MAX`].
    pub sharing: Sharing,
    /// Look for stations on the local network by multicast DNS. Default false: whoever embeds a mount decides.
    pub mdns: bool,
    /// Where links below this machine's network tell what they do (`docs/format/link-signals.md`). Default: nobody is listened to; whoever
    /// embeds a mount decides.
    pub links: Option<LinkSource>,
    /// Serve metrics here, on loopback. Default: not.
    pub metrics: Option<SocketAddr>,
    /// UDP address that sessions are dialled from. Default `[::]:0`, or `0.0.0.0:0` without IPv6.
    pub bind: Option<SocketAddr>,
    /// Settings of the network.
    pub net: NetConfig,
    /// What ends the process when the volume cannot go on, since its store failed; it hears why. It must not unmount: whoever uses
    /// the mount gets ENOTCONN then, and writes nothing into the directory below. Default `None`: every call is answered with EIO.
    pub on_failure: Option<fn(&str)>,
    /// Threads that read requests of the kernel. Default 2: more helps only where many programs write at once.
    pub threads: usize,
}

/// Longest way to the parent and back where changes wait for it by default: within a site, and nothing that one notices in
/// a build.
pub(crate) const NEAR_RTT_MAX: Duration = Duration::from_millis(20);

/// Default bound on cached contents: 10 GiB.
pub(crate) const CACHE_SIZE: u64 = 10 << 30;

impl ClientConfig {
    /// The defaults.
    pub fn new(source: Source, mountpoint: PathBuf, cache_dir: PathBuf) -> Self {
        Self {
            source,
            mountpoint,
            cache_dir,
            passphrase: None,
            control_socket: None,
            registry: Registry::of_this_machine(),
            cache_size: CACHE_SIZE,
            scrub_period: Some(wayfs_node::SCRUB_PERIOD),
            fs: FileSystemSettings::default(),
            label: None,
            read_only: false,
            allow_other: rustix::process::geteuid().is_root(),
            no_exec: false,
            offline: false,
            watch: true,
            sharing: Sharing::Near(NEAR_RTT_MAX),
            mdns: false,
            links: None,
            metrics: None,
            bind: None,
            net: NetConfig::default(),
            on_failure: None,
            threads: 2,
        }
    }
}

/// `USER@HOST` of this process.
pub(crate) fn own_label() -> String {
    let user = std::env::var("USER").or_else(|_| std::env::var("LOGNAME")).unwrap_or_else(|_| {
        let uid = rustix::process::getuid();
        if uid.is_root() { "root".to_owned() } else { format!("uid{}", uid.as_raw()) }
    });
    let names = rustix::system::uname();
    let host = names.nodename().to_string_lossy();
    let plain = |text: &str| -> String {
        text.chars().filter(|c| c.is_ascii_graphic() && !matches!(c, '/' | '@')).take(31).collect()
    };
    format!("{}@{}", plain(&user), plain(host.split('.').next().unwrap_or("host")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_label_has_a_user_and_a_host_and_fits() {
        let label = super::own_label();
        let (user, host) = label.split_once('@').unwrap();
        assert!(!user.is_empty() && !host.is_empty() && label.len() <= 64, "{label}");
    }
}
