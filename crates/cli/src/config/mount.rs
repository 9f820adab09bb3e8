//! What a mount is started with.

use super::{Config, identities::IdentityOptions, passphrase_file, scrub_period, size::parse_size};
use crate::args::{CloseArg, MountArgs, SharingArg};
use crate::daemon;
use crate::failure::{Exit, Failure};
use std::ffi::OsStr;
use std::fmt;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wayfs_control::link_signals::LinkSource;

/// Bound on the cache where nothing else is said, in bytes: what most disks can spare.
const CACHE_SIZE_DEFAULT: u64 = 10 << 30;

/// Longest ticket read, in bytes.
const TICKET_LEN_MAX: u64 = 16 * 1024;

/// What `-o link=` is where no link is to be listened to.
const NO_LINK: &str = "none";

/// How a ticket begins.
const TICKET_PREFIX: &str = "wayfs1-";

/// The variable that holds a ticket.
pub(crate) const TICKET_VARIABLE: &str = "WAYFS_TICKET";

/// What to mount.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// A volume that this machine joins. The text is a secret.
    Ticket(String),
    /// A volume that was mounted here before.
    Name(String),
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ticket(_) => f.write_str("Ticket(…)"),
            Self::Name(name) => write!(f, "Name({name:?})"),
        }
    }
}

/// What `close()` promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Close {
    /// It is in the local log.
    Asynchronous,
    /// It is safe at the station.
    Safe,
}

impl From<CloseArg> for Close {
    fn from(arg: CloseArg) -> Self {
        match arg {
            CloseArg::Asynchronous => Self::Asynchronous,
            CloseArg::Safe => Self::Safe,
        }
    }
}

/// Settings of `wayfs mount`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountSettings {
    /// What.
    pub(crate) source: Source,
    /// Where, absolute.
    pub(crate) dir: PathBuf,
    /// State and cache of all mounts of this user, absolute.
    pub(crate) cache: PathBuf,
    /// Bound on the cache in bytes.
    pub(crate) cache_size_bytes: u64,
    /// What `close()` promises.
    pub(crate) close: Close,
    /// When others see what is closed; `None`: as the server is far.
    pub(crate) sharing: Option<SharingArg>,
    /// Refuses changes.
    pub(crate) read_only: bool,
    /// Lets other users in.
    pub(crate) allow_other: bool,
    /// Runs no programs.
    pub(crate) no_exec: bool,
    /// Begins without looking for a station.
    pub(crate) offline: bool,
    /// Looks for stations by multicast DNS.
    pub(crate) mdns: bool,
    /// Where links below tell what they do; `None`: nobody is listened to.
    pub(crate) links: Option<LinkSource>,
    /// Raises inotify events for changes from elsewhere.
    pub(crate) watch: bool,
    /// Whose files are shown.
    pub(crate) identities: wayfs_client::fs::Identities,
    /// Users and groups of this machine, if they are mapped by name.
    pub(crate) people: Option<wayfs_client::fs::People>,
    /// Where to serve metrics.
    pub(crate) metrics: Option<SocketAddr>,
    /// The passphrase of this machine's key; `None`: the key lies in the clear.
    pub(crate) passphrase_file: Option<PathBuf>,
    /// In which time the cache is read; `None`: never by itself.
    pub(crate) scrub_period: Option<Duration>,
    /// Waits that differ from the mount's defaults.
    pub(crate) timeouts: Timeouts,
}

/// Bounds on waits; `None`: the mount's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// Of an operation on names and attributes.
    pub(crate) metadata: Option<Duration>,
    /// Of a read for bytes from afar.
    pub(crate) read: Option<Duration>,
    /// Of `fsync`, and of `close` where it is to be safe, for the station.
    pub(crate) safe: Option<Duration>,
    /// Age at which writes to an open file are committed.
    pub(crate) dirty_age: Option<Duration>,
}

/// What `-o` said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    read_only: Option<bool>,
    allow_other: Option<bool>,
    no_exec: bool,
    cache: Option<PathBuf>,
    cache_size: Option<String>,
    close: Option<CloseArg>,
    metrics: Option<SocketAddr>,
    offline: bool,
    no_mdns: bool,
    link: Option<PathBuf>,
    watch: Option<bool>,
    sharing: Option<SharingArg>,
    identities: IdentityOptions,
}

impl MountSettings {
    /// Joins arguments, options, files and defaults. A ticket on standard input is read here.
    pub(crate) fn new(args: &MountArgs, config: &Config) -> Result<Self, Failure> {
        let options = Options::parse(&args.options)?;
        let file = &config.file.mount;
        let (source, dir) = match &args.dir {
            Some(dir) => (Source::parse(args.source.as_os_str())?, dir.clone()),
            None => (Source::from_environment()?, args.source.clone()),
        };
        let cache_size = args.cache_size.clone().or(options.cache_size).or_else(|| file.cache_size.clone());
        let cache = args.cache.clone().or(options.cache).unwrap_or_else(|| config.mounts());
        let close = args.close.or(options.close).or(file.close).unwrap_or(CloseArg::Asynchronous);
        // A mount of root's that only root can see would surprise; other users cannot set it without fuse.conf.
        let allow_other_default = rustix::process::geteuid().is_root();
        let typed_allow_other = args.allow_other.then_some(true).or(options.allow_other).or(file.allow_other);
        Ok(Self {
            source,
            dir: std::path::absolute(&dir).map_err(|e| Failure::io("find the mount point", &e))?,
            cache: std::path::absolute(&cache).map_err(|e| Failure::io("find the cache", &e))?,
            cache_size_bytes: cache_size.as_deref().map_or(Ok(CACHE_SIZE_DEFAULT), parse_size)?,
            close: close.into(),
            sharing: args.sharing.or(options.sharing).or(file.sharing),
            read_only: args.read_only.then_some(true).or(options.read_only).or(file.read_only).unwrap_or(false),
            allow_other: typed_allow_other.unwrap_or(allow_other_default),
            no_exec: options.no_exec,
            offline: args.offline || options.offline,
            mdns: !args.no_mdns && !options.no_mdns && file.mdns.unwrap_or(true),
            links: links(options.link),
            watch: options.watch.or(file.watch).unwrap_or(true),
            identities: options.identities.resolve()?,
            people: options.identities.people()?,
            metrics: args.metrics.or(options.metrics).or(file.metrics),
            passphrase_file: passphrase_file(args.passphrase_file.clone().or_else(|| file.passphrase_file.clone())),
            scrub_period: scrub_period(file.scrub_days),
            timeouts: Timeouts {
                metadata: file.metadata_timeout_s.map(Duration::from_secs),
                read: file.read_timeout_s.map(Duration::from_secs),
                safe: file.safe_timeout_s.map(Duration::from_secs),
                dirty_age: file.dirty_age_s.map(Duration::from_secs),
            },
        })
    }
}

/// The link that is named, none, or all of this machine.
fn links(named: Option<PathBuf>) -> Option<LinkSource> {
    match named {
        None => Some(LinkSource::Directory(wayfs_hoplink::socket_directory())),
        Some(none) if none == Path::new(NO_LINK) => None,
        Some(socket) => Some(LinkSource::Socket(socket)),
    }
}

impl Source {
    /// A ticket, a file that holds one, `-`, or a name.
    fn parse(text: &OsStr) -> Result<Self, Failure> {
        if let Some(ticket) = ticket_at(Path::new(text))? {
            return Ok(Self::Ticket(ticket));
        }
        match text.to_str() {
            Some(name) if !name.is_empty() && !name.contains('/') => Ok(Self::Name(name.to_owned())),
            _ => Err(Failure::new(
                Exit::NotFound,
                format_args!(
                    "{} is neither a ticket, nor a file that holds one, nor the name of a volume",
                    text.display()
                ),
                "Get a ticket with `wayfs volume ticket NAME` at the home.",
            )),
        }
    }

    fn from_environment() -> Result<Self, Failure> {
        if daemon::is_background() {
            // Its parent took it out of the environment.
            return ticket_in(std::io::stdin().lock(), "standard input").map(Self::Ticket);
        }
        match std::env::var(TICKET_VARIABLE) {
            Ok(dash) if dash == "-" => ticket_in(std::io::stdin().lock(), "standard input").map(Self::Ticket),
            Ok(ticket) if !ticket.trim().is_empty() => Ok(Self::Ticket(ticket.trim().to_owned())),
            _ => Err(Failure::usage(
                format_args!("only one of TICKET|NAME and DIR was given, and {TICKET_VARIABLE} is not set"),
                "Write `wayfs mount TICKET|NAME DIR`.",
            )),
        }
    }
}

/// The ticket of a command that needs one: the argument (text, file or `-`), else the environment.
pub(crate) fn read_ticket(argument: Option<&Path>) -> Result<String, Failure> {
    let Some(argument) = argument else {
        return match Source::from_environment() {
            Ok(Source::Ticket(ticket)) => Ok(ticket),
            _ => Err(Failure::usage(
                format_args!("no ticket given, and {TICKET_VARIABLE} is not set"),
                "Give the ticket, a file that holds it, or `-`.",
            )),
        };
    };
    ticket_at(argument)?.ok_or_else(|| {
        Failure::usage(
            format_args!("this is neither a ticket nor a file that holds one (a ticket begins with {TICKET_PREFIX})"),
            "Get one with `wayfs volume ticket NAME --station` at the home.",
        )
    })
}

/// A ticket as text, in a file, or on standard input; `None` if the argument is something else.
fn ticket_at(argument: &Path) -> Result<Option<String>, Failure> {
    if let Some(text) = argument.to_str().filter(|text| text.trim().to_ascii_lowercase().starts_with(TICKET_PREFIX)) {
        return Ok(Some(text.trim().to_owned()));
    }
    if argument == Path::new("-") {
        // To a daemon in the background its parent, which has read it, says it the same way.
        return ticket_in(std::io::stdin().lock(), "standard input").map(Some);
    }
    if !argument.is_file() {
        return Ok(None);
    }
    let file =
        std::fs::File::open(argument).map_err(|e| Failure::io(format_args!("open {}", argument.display()), &e))?;
    match ticket_in(file, &argument.display().to_string()) {
        // A file that happens to have a volume's name does not hide the volume.
        Err(_) if argument.parent() == Some(Path::new("")) => Ok(None),
        read => read.map(Some),
    }
}

fn ticket_in(reader: impl Read, place: &str) -> Result<String, Failure> {
    let mut text = String::new();
    reader
        .take(TICKET_LEN_MAX)
        .read_to_string(&mut text)
        .map_err(|e| Failure::io(format_args!("read a ticket from {place}"), &e))?;
    let ticket = text.trim();
    if !ticket.to_ascii_lowercase().starts_with(TICKET_PREFIX) {
        let next_step = format!("A ticket begins with {TICKET_PREFIX}; `wayfs volume ticket` issues one.");
        return Err(Failure::usage(format_args!("{place} holds no ticket"), next_step));
    }
    Ok(ticket.to_owned())
}

/// Whether `-o` makes sense.
pub(crate) fn check_options(options: &[String]) -> Result<(), Failure> {
    Options::parse(options).map(|_| ())
}

impl Options {
    fn parse(options: &[String]) -> Result<Self, Failure> {
        let mut parsed = Self::default();
        for option in options.iter().map(|option| option.trim()).filter(|option| !option.is_empty()) {
            let (key, value) = option.split_once('=').map_or((option, None), |(key, value)| (key, Some(value)));
            parsed.take(key, value)?;
        }
        Ok(parsed)
    }

    fn take(&mut self, key: &str, value: Option<&str>) -> Result<(), Failure> {
        let wrong = || {
            let known = "Known are ro, rw, allow_other, noexec, offline, nomdns, cache=DIR, cache_size=SIZE, close=asynchronous|safe, sharing=close-to-open|relaxed, watch=on|off, link=SOCKET|none, uid=USER, gid=GROUP, umask=OCTAL, idmap=none|names|file:PATH, metrics=ADDRESS:PORT.";
            Failure::usage(format_args!("mount option `{key}` is unknown or has no proper value"), known)
        };
        match (key, value) {
            ("ro", None) => self.read_only = Some(true),
            ("rw", None) => self.read_only = Some(false),
            ("offline", None) => self.offline = true,
            ("nomdns", None) => self.no_mdns = true,
            ("allow_other", None) => self.allow_other = Some(true),
            ("exec", None) => self.no_exec = false,
            ("noexec", None) => self.no_exec = true,
            // Whoever may write to the volume elsewhere would become root here.
            ("suid" | "dev", None) => {
                let next_step = "Mounts are always nosuid,nodev: set-id bits and device files of a volume are kept and have no effect. Leave the option out.";
                return Err(Failure::usage(format_args!("mount option `{key}` is not offered"), next_step));
            }
            // Whoever asks for it wants each write to be on a disk when it returns, which nothing here does.
            ("sync", None) => {
                let next_step = "Programs that need a write on the disk call `fsync`; `close=safe` has each file at the station when it is closed. Leave the option out.";
                return Err(Failure::usage("mount option `sync` is not offered", next_step));
            }
            ("cache", Some(dir)) => self.cache = Some(dir.into()),
            ("cache_size", Some(size)) => self.cache_size = Some(size.to_owned()),
            ("close", Some("safe")) => self.close = Some(CloseArg::Safe),
            ("close", Some("asynchronous")) => self.close = Some(CloseArg::Asynchronous),
            ("sharing", Some("close-to-open")) => self.sharing = Some(SharingArg::CloseToOpen),
            ("sharing", Some("relaxed")) => self.sharing = Some(SharingArg::Relaxed),
            ("watch", Some("on")) => self.watch = Some(true),
            ("watch", Some("off")) => self.watch = Some(false),
            ("link", Some(socket)) if socket == NO_LINK || socket.starts_with('/') => self.link = Some(socket.into()),
            ("metrics", Some(address)) => self.metrics = Some(address.parse().map_err(|_| wrong())?),
            // What fstab holds for mount(8) itself and for the service manager.
            (
                "defaults" | "auto" | "noauto" | "user" | "users" | "nouser" | "nofail" | "_netdev" | "nosuid"
                | "nodev" | "relatime" | "noatime" | "atime" | "async",
                None,
            ) => {}
            ("uid" | "gid" | "umask" | "idmap", Some(value)) => self.identities.take(key, value)?.ok_or_else(wrong)?,
            (other, _) if other.starts_with("x-") || other.starts_with("comment") => {}
            _ => return Err(wrong()),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigFile;
    use crate::dirs::Dirs;

    fn config() -> Config {
        let dirs = Dirs { config: vec![], state: "/state".into(), logs: "/state/log".into() };
        Config { dirs, file: ConfigFile::default(), log: "info".into() }
    }

    fn args(source: &str, options: &[&str]) -> MountArgs {
        MountArgs {
            source: source.into(),
            dir: Some("/mnt".into()),
            options: options.iter().map(|o| (*o).to_owned()).collect(),
            cache: None,
            cache_size: None,
            close: None,
            sharing: None,
            read_only: false,
            allow_other: false,
            offline: false,
            no_mdns: false,
            metrics: None,
            passphrase_file: None,
            daemon: false,
        }
    }

    #[test]
    fn typed_wins_over_options_and_those_over_files() {
        let mut config = config();
        config.file.mount.cache_size = Some("1k".into());
        config.file.mount.close = Some(CloseArg::Safe);
        let settings =
            MountSettings::new(&args("v", &["cache_size=2k", "ro", "_netdev", "x-systemd.automount"]), &config)
                .unwrap();
        assert_eq!((settings.cache_size_bytes, settings.close, settings.read_only), (2048, Close::Safe, true));
        let mut typed = args("v", &["cache_size=2k"]);
        typed.cache_size = Some("3k".into());
        assert_eq!(MountSettings::new(&typed, &config).unwrap().cache_size_bytes, 3072);
        assert_eq!(MountSettings::new(&typed, &config).unwrap().cache, PathBuf::from("/state/mounts"));
    }

    #[test]
    fn options_for_the_kernel_are_honoured_or_refused() {
        let config = config();
        let no_exec =
            |options: &[&str]| MountSettings::new(&args("v", options), &config).map(|settings| settings.no_exec);
        assert!(matches!(no_exec(&["nosuid,nodev"].join(",").split(',').collect::<Vec<_>>()), Ok(false)));
        assert!(matches!(no_exec(&["noexec"]), Ok(true)));
        assert!(matches!(no_exec(&["noexec", "exec"]), Ok(false)));
        for refused in ["suid", "dev", "sync"] {
            assert!(no_exec(&[refused]).is_err(), "{refused}");
        }
    }

    #[test]
    fn sources_are_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ticket");
        std::fs::write(&file, "wayfs1-abc\n").unwrap();
        assert_eq!(Source::parse(OsStr::new("wayfs1-x")).unwrap(), Source::Ticket("wayfs1-x".into()));
        assert_eq!(Source::parse(file.as_os_str()).unwrap(), Source::Ticket("wayfs1-abc".into()));
        assert_eq!(Source::parse(OsStr::new("photos")).unwrap(), Source::Name("photos".into()));
        assert_eq!(Source::parse(OsStr::new("/no/such")).unwrap_err().exit, Exit::NotFound);
        std::fs::write(&file, "rubbish").unwrap();
        assert_eq!(Source::parse(file.as_os_str()).unwrap_err().exit, Exit::Usage);
        assert!(!format!("{:?}", Source::Ticket("wayfs1-x".into())).contains("wayfs1"));
    }

    #[test]
    fn links_are_those_of_the_machine_unless_one_or_none_is_named() {
        let links = |options: &[&str]| MountSettings::new(&args("v", options), &config()).unwrap().links;
        assert_eq!(links(&[]), Some(LinkSource::Directory(wayfs_hoplink::socket_directory())));
        assert_eq!(links(&["link=/run/x.sock"]), Some(LinkSource::Socket("/run/x.sock".into())));
        assert_eq!(links(&["link=none"]), None);
    }

    #[test]
    fn unknown_options_are_refused() {
        for wrong in ["link=x", "cach_size=1k", "ro=1", "close=never", "metrics=x", "cache"] {
            let failure = MountSettings::new(&args("v", &[wrong]), &config()).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{wrong}");
        }
    }
}
