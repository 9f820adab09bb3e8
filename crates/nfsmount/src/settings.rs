//! What a mount is started with, as it is typed behind `-o`.

use crate::nodes::Believed;
use std::ops::RangeInclusive;
use std::time::Duration;
use wayfs_nfs::WaitPolicy;
use wayfs_nfs::live::{Block, Options, Ports, Transport};
use wayfs_nfs::retry::Retry;

/// How long is believed what was heard of files. Whatever is set, opening a file asks the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caching {
    pub(crate) files: Believed,
    pub(crate) directories: Believed,
    /// A name leads to the same file.
    pub(crate) names: Duration,
    /// A name leads nowhere.
    pub(crate) absent: Duration,
}

/// Longest time that may be set: an hour.
const SECONDS_MAX: u64 = 3600;

impl Caching {
    /// As clients of version 3 have it: 3 to 60 s for files, 30 to 60 s for directories.
    const DEFAULT: [u64; 4] = [3, 60, 30, 60];

    fn of([file_min, file_max, directory_min, directory_max]: [u64; 4]) -> Self {
        let bounds =
            |min: u64, max: u64| Believed { min: Duration::from_secs(min), max: Duration::from_secs(max.max(min)) };
        let names = Duration::from_secs(directory_min);
        // What somebody else makes is to be seen soon.
        let absent = names.min(Duration::from_secs(1));
        Self { files: bounds(file_min, file_max), directories: bounds(directory_min, directory_max), names, absent }
    }
}

/// What `-o` says of an NFS mount.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How the server is called.
    pub options: Options,
    /// Port of NFS.
    pub port: Option<u16>,
    /// Port of the mount protocol.
    pub mount_port: Option<u16>,
    /// Calls are made in this user's name, whoever asks.
    pub uid: Option<u32>,
    /// The same for the group.
    pub gid: Option<u32>,
    /// How long attributes and names are believed.
    pub caching: Caching,
    /// Refuses changes.
    pub read_only: bool,
    /// Lets other users in; `None`: only for root's mounts.
    pub allow_other: Option<bool>,
    /// Runs no programs.
    pub no_exec: bool,
    /// Socket of the link below, whose news are heeded.
    pub link: Option<std::path::PathBuf>,
}

/// An option that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Nobody knows it.
    #[error("{0} is no option of an NFS mount")]
    Unknown(String),
    /// Its value is none.
    #[error("{option}: {what}")]
    Value {
        /// As typed.
        option: String,
        /// What could stand there.
        what: String,
    },
}

/// All options, for errors and help.
pub const KNOWN: &str = "proto=udp|tcp, retry=ours|adaptive|exponential[:first=1s]|hybrid[:first=0.7s/r=3/c=0.1s]|\
constant[:every=1s], bsize=auto|1024..65536, soft=TRIES, hard, port=PORT, mountport=PORT, uid=ID, gid=ID, actimeo=SECONDS, \
acregmin=, acregmax=, acdirmin=, acdirmax=, noac, link=SOCKET, inflight=CALLS, ro, rw, allow_other, noallow_other, noexec";

/// What stands in `/etc/fstab` for others, and what this client is anyway.
const IGNORED: [&str; 19] = [
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "_netdev",
    "user",
    "users",
    "nouser",
    "owner",
    "group",
    "nosuid",
    "nodev",
    "noatime",
    "relatime",
    "nolock",
    "vers=3",
    "nfsvers=3",
    "async",
    "nointr",
];

impl Settings {
    /// Of options, one each.
    ///
    /// # Errors
    /// [`SettingsError`].
    pub fn parse<'a>(options: impl IntoIterator<Item = &'a str>) -> Result<Self, SettingsError> {
        let mut settings = Self {
            options: Options::default(),
            port: None,
            mount_port: None,
            uid: None,
            gid: None,
            caching: Caching::of(Caching::DEFAULT),
            read_only: false,
            allow_other: None,
            no_exec: false,
            link: None,
        };
        let mut seconds = Caching::DEFAULT;
        for option in options {
            settings.take(option.trim(), &mut seconds)?;
        }
        settings.caching = Caching::of(seconds);
        Ok(settings)
    }

    fn take(&mut self, option: &str, seconds: &mut [u64; 4]) -> Result<(), SettingsError> {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match key {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "hard" => self.options.wait_policy = WaitPolicy::Hard,
            "allow_other" => self.allow_other = Some(true),
            "noallow_other" => self.allow_other = Some(false),
            "noexec" => self.no_exec = true,
            "exec" => self.no_exec = false,
            // Whoever may write at the server would become root here.
            "suid" | "dev" => {
                let what = "mounts are always nosuid,nodev: leave it out".to_owned();
                return Err(SettingsError::Value { option: option.to_owned(), what });
            }
            "noac" => *seconds = [0; 4],
            "soft" => {
                let tries = if value.is_empty() { 10 } else { number(option, value, 1..=1000)? };
                self.options.wait_policy = WaitPolicy::Soft(tries as u32);
            }
            "proto" => self.options.transport = transport(option, value)?,
            "retry" => {
                let parsed = value.parse::<Retry>();
                self.options.retry = parsed
                    .map_err(|error| SettingsError::Value { option: option.to_owned(), what: error.to_string() })?;
            }
            "link" if value.starts_with('/') => self.link = Some(value.into()),
            "link" => {
                let what = "give the path of the socket of `wayfs link`, from the root".to_owned();
                return Err(SettingsError::Value { option: option.to_owned(), what });
            }
            "bsize" if value == "auto" => self.options.block = Block::Auto,
            "bsize" => self.options.block = Block::Fixed(number(option, value, 1024..=65_536)? as u32),
            "inflight" => self.options.in_flight_max = number(option, value, 1..=1024)? as usize,
            "port" => self.port = Some(number(option, value, 1..=65_535)? as u16),
            "mountport" => self.mount_port = Some(number(option, value, 1..=65_535)? as u16),
            "uid" => self.uid = Some(number(option, value, 0..=u64::from(u32::MAX))? as u32),
            "gid" => self.gid = Some(number(option, value, 0..=u64::from(u32::MAX))? as u32),
            "actimeo" => *seconds = [number(option, value, 0..=SECONDS_MAX)?; 4],
            "acregmin" => seconds[0] = number(option, value, 0..=SECONDS_MAX)?,
            "acregmax" => seconds[1] = number(option, value, 0..=SECONDS_MAX)?,
            "acdirmin" => seconds[2] = number(option, value, 0..=SECONDS_MAX)?,
            "acdirmax" => seconds[3] = number(option, value, 0..=SECONDS_MAX)?,
            "" => {}
            _ if IGNORED.contains(&option) || key.starts_with("x-") => {}
            _ => return Err(SettingsError::Unknown(option.to_owned())),
        }
        Ok(())
    }

    /// Where the programs of the server are; `in_url` is the port behind the host.
    pub fn ports(&self, in_url: Option<u16>) -> Ports {
        match self.port.or(in_url) {
            Some(nfs) => Ports::Fixed { nfs, mount: self.mount_port },
            None => Ports::Mapped,
        }
    }
}

fn transport(option: &str, value: &str) -> Result<Transport, SettingsError> {
    match value {
        "udp" => Ok(Transport::Udp),
        "tcp" => Ok(Transport::Tcp),
        _ => Err(SettingsError::Value { option: option.to_owned(), what: "give udp or tcp".into() }),
    }
}

fn number(option: &str, value: &str, range: RangeInclusive<u64>) -> Result<u64, SettingsError> {
    let parsed = value.parse::<u64>().ok().filter(|number| range.contains(number));
    let (min, max) = range.into_inner();
    parsed.ok_or_else(|| SettingsError::Value { option: option.to_owned(), what: format!("give {min} to {max}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, SettingsError> {
        Settings::parse(text.split(','))
    }

    #[test]
    fn options_are_those_of_other_clients_where_they_mean_the_same() {
        let settings = parse(
            "proto=tcp,retry=hybrid:r=3/c=50ms,bsize=4096,soft=3,port=2049,mountport=20048,uid=7,ro,nolock,vers=3",
        )
        .unwrap();
        assert_eq!((settings.options.transport, settings.options.block), (Transport::Tcp, Block::Fixed(4096)));
        assert_eq!(
            (settings.options.wait_policy, settings.uid, settings.read_only),
            (WaitPolicy::Soft(3), Some(7), true)
        );
        assert_eq!(settings.options.retry.to_string(), "hybrid:first=0.7s,r=3,c=0.05s");
        assert_eq!(settings.ports(None), Ports::Fixed { nfs: 2049, mount: Some(20_048) });
        assert_eq!(parse("").unwrap().ports(Some(99)), Ports::Fixed { nfs: 99, mount: None });
        assert_eq!(parse("defaults").unwrap().ports(None), Ports::Mapped);
    }

    #[test]
    fn set_id_bits_and_devices_are_not_offered() {
        assert!(parse("suid").is_err() && parse("dev").is_err());
        assert!(parse("nosuid,nodev,noexec").unwrap().no_exec && !parse("noexec,exec").unwrap().no_exec);
    }

    #[test]
    fn times_are_bounded_and_none_is_none() {
        let caching = parse("acregmin=5,acregmax=1").unwrap().caching;
        assert_eq!((caching.files.min, caching.files.max), (Duration::from_secs(5), Duration::from_secs(5)));
        assert_eq!(parse("noac").unwrap().caching.names, Duration::ZERO);
        assert!(parse("actimeo=999999").is_err());
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for text in [
            "proto=sctp",
            "link=here",
            "bsize=12",
            "bsize=1000000",
            "soft=0",
            "port=0",
            "uid=-1",
            "retry=never",
            "vers=4",
            "fast",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert_eq!(parse("sec=krb5").unwrap_err(), SettingsError::Unknown("sec=krb5".into()));
    }
}
