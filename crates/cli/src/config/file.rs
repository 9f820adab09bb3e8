//! Configuration files: TOML, every key optional, unknown keys refused.

use super::substitute::substitute;
use crate::args::{CloseArg, SharingArg};
use crate::failure::{Exit, Failure};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Largest file read, in bytes.
const FILE_LEN_MAX: u64 = 1024 * 1024;

/// A file, or several merged.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ConfigFile {
    pub(crate) log: LogSection,
    pub(crate) server: ServerSection,
    pub(crate) mount: MountSection,
    pub(crate) network: NetworkSection,
}

/// `[network]`
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NetworkSection {
    pub(crate) controller: Option<Controller>,
    pub(crate) probing: Option<Probing>,
}

/// How a connection finds its sending rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Controller {
    Steady,
    Bbr,
    Cubic,
    Newreno,
}

/// When a connection looks for the end of an outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Probing {
    BySilence,
    Fixed,
}

impl NetworkSection {
    /// Settings of the transport with these changes.
    pub(crate) fn apply(self, mut net: wayfs_net::NetConfig) -> wayfs_net::NetConfig {
        net.congestion = match self.controller {
            None => net.congestion,
            Some(Controller::Steady) => wayfs_net::Congestion::Steady,
            Some(Controller::Bbr) => wayfs_net::Congestion::Bbr,
            Some(Controller::Cubic) => wayfs_net::Congestion::Cubic,
            Some(Controller::Newreno) => wayfs_net::Congestion::NewReno,
        };
        net.probing = match self.probing {
            None => net.probing,
            Some(Probing::BySilence) => wayfs_net::Probing::BySilence,
            Some(Probing::Fixed) => wayfs_net::Probing::Fixed,
        };
        net
    }
}

/// `[log]`
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogSection {
    pub(crate) level: Option<String>,
}

/// `[server]`
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ServerSection {
    pub(crate) data: Option<PathBuf>,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) advertise: Option<Vec<wayfs_net::Address>>,
    pub(crate) policy: Option<String>,
    pub(crate) mdns: Option<bool>,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) scrub_days: Option<u32>,
    pub(crate) passphrase_file: Option<PathBuf>,
}

/// `[mount]`
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MountSection {
    pub(crate) cache: Option<PathBuf>,
    pub(crate) cache_size: Option<String>,
    pub(crate) close: Option<CloseArg>,
    pub(crate) read_only: Option<bool>,
    pub(crate) allow_other: Option<bool>,
    pub(crate) mdns: Option<bool>,
    pub(crate) watch: Option<bool>,
    pub(crate) sharing: Option<SharingArg>,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) metadata_timeout_s: Option<u64>,
    pub(crate) read_timeout_s: Option<u64>,
    pub(crate) safe_timeout_s: Option<u64>,
    pub(crate) dirty_age_s: Option<u64>,
    pub(crate) scrub_days: Option<u32>,
    pub(crate) passphrase_file: Option<PathBuf>,
}

impl ConfigFile {
    /// Reads every `*.toml` in `/etc/wayfs` in order of name, then the user's `config.toml`; whatever is not there is skipped.
    pub(crate) fn read_all(directories: &[PathBuf]) -> Result<Self, Failure> {
        let mut merged = Self::default();
        for directory in directories {
            for path in files_in(directory)? {
                merged = merged.overridden_by(Self::read(&path)?);
            }
        }
        Ok(merged)
    }

    /// Reads one file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let doing = || format!("read configuration {}", path.display());
        let len = std::fs::metadata(path).map_err(|e| Failure::io(doing(), &e))?.len();
        if len > FILE_LEN_MAX {
            return Err(Failure::usage(format_args!("{} is too large for a configuration file", path.display()), ""));
        }
        let text = std::fs::read_to_string(path).map_err(|e| Failure::io(doing(), &e))?;
        Self::parse(&text, &|name| std::env::var(name).ok()).map_err(|reason| {
            Failure::new(
                Exit::Usage,
                format_args!("{}: {reason}", path.display()),
                "`wayfs init -` prints a file in which every key is explained.",
            )
        })
    }

    /// Reads one text; `variable` is the environment.
    pub(crate) fn parse(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Self, String> {
        let mut value: toml::Value = toml::from_str(text).map_err(|e| e.to_string())?;
        substitute_in(&mut value, variable)?;
        value.try_into().map_err(|e: toml::de::Error| e.to_string())
    }

    fn overridden_by(self, later: Self) -> Self {
        Self {
            log: LogSection { level: later.log.level.or(self.log.level) },
            server: ServerSection {
                data: later.server.data.or(self.server.data),
                listen: later.server.listen.or(self.server.listen),
                advertise: later.server.advertise.or(self.server.advertise),
                policy: later.server.policy.or(self.server.policy),
                mdns: later.server.mdns.or(self.server.mdns),
                metrics: later.server.metrics.or(self.server.metrics),
                scrub_days: later.server.scrub_days.or(self.server.scrub_days),
                passphrase_file: later.server.passphrase_file.or(self.server.passphrase_file),
            },
            mount: MountSection {
                cache: later.mount.cache.or(self.mount.cache),
                cache_size: later.mount.cache_size.or(self.mount.cache_size),
                close: later.mount.close.or(self.mount.close),
                read_only: later.mount.read_only.or(self.mount.read_only),
                allow_other: later.mount.allow_other.or(self.mount.allow_other),
                mdns: later.mount.mdns.or(self.mount.mdns),
                watch: later.mount.watch.or(self.mount.watch),
                sharing: later.mount.sharing.or(self.mount.sharing),
                metrics: later.mount.metrics.or(self.mount.metrics),
                metadata_timeout_s: later.mount.metadata_timeout_s.or(self.mount.metadata_timeout_s),
                read_timeout_s: later.mount.read_timeout_s.or(self.mount.read_timeout_s),
                safe_timeout_s: later.mount.safe_timeout_s.or(self.mount.safe_timeout_s),
                dirty_age_s: later.mount.dirty_age_s.or(self.mount.dirty_age_s),
                scrub_days: later.mount.scrub_days.or(self.mount.scrub_days),
                passphrase_file: later.mount.passphrase_file.or(self.mount.passphrase_file),
            },
            network: NetworkSection {
                controller: later.network.controller.or(self.network.controller),
                probing: later.network.probing.or(self.network.probing),
            },
        }
    }
}

/// Substitutes in texts only, so that a comment with `${` needs no care.
fn substitute_in(value: &mut toml::Value, variable: &dyn Fn(&str) -> Option<String>) -> Result<(), String> {
    match value {
        toml::Value::String(text) => *text = substitute(text, variable).map_err(|e| e.to_string())?,
        toml::Value::Array(items) => items.iter_mut().try_for_each(|item| substitute_in(item, variable))?,
        toml::Value::Table(table) => table.iter_mut().try_for_each(|(_, item)| substitute_in(item, variable))?,
        toml::Value::Integer(_) | toml::Value::Float(_) | toml::Value::Boolean(_) | toml::Value::Datetime(_) => {}
    }
    Ok(())
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let listing = match std::fs::read_dir(directory) {
        Ok(listing) => listing,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Failure::io(format_args!("read configuration in {}", directory.display()), &e)),
    };
    let mut files: Vec<PathBuf> = listing
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::super::template::TEMPLATE;
    use super::*;

    fn parse(text: &str) -> Result<ConfigFile, String> {
        ConfigFile::parse(text, &|name| (name == "PORT").then(|| "7".to_owned()))
    }

    #[test]
    fn the_network_is_what_the_file_says() {
        let parsed = ConfigFile::parse("[network]\ncontroller = \"cubic\"\nprobing = \"fixed\"", &|_| None).unwrap();
        let net = parsed.network.apply(wayfs_net::NetConfig::default());
        assert_eq!((net.congestion, net.probing), (wayfs_net::Congestion::Cubic, wayfs_net::Probing::Fixed));
        let net = NetworkSection::default().apply(wayfs_net::NetConfig::default());
        assert_eq!((net.congestion, net.probing), (wayfs_net::Congestion::Steady, wayfs_net::Probing::BySilence));
        assert!(ConfigFile::parse("[network]\ncontroller = \"vegas\"", &|_| None).unwrap_err().contains("vegas"));
    }

    #[test]
    fn variables_are_put_into_texts() {
        let file = parse("# ${NOT_SET}\n[server]\nlisten = \"127.0.0.1:${PORT}\"\nadvertise = [\"10.0.0.1:${PORT}\"]")
            .unwrap();
        assert_eq!(file.server.listen, Some("127.0.0.1:7".parse().unwrap()));
        assert_eq!(file.server.advertise.unwrap().len(), 1);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        assert!(parse("[server]\nlisten = \"${NOPE}\"").unwrap_err().contains("NOPE"));
        assert!(parse("[server]\ncolour = 1").unwrap_err().contains("colour"));
        assert!(parse("[mount]\nclose = \"sometimes\"").unwrap_err().contains("sometimes"));
        assert!(parse("[server").is_err());
    }

    #[test]
    fn later_files_win_key_by_key() {
        let first = parse("[log]\nlevel = \"warn\"\n[mount]\ncache_size = \"1G\"\nclose = \"safe\"").unwrap();
        let merged = first.overridden_by(parse("[mount]\ncache_size = \"2G\"").unwrap());
        assert_eq!(merged.mount.cache_size.as_deref(), Some("2G"));
        assert_eq!(merged.mount.close, Some(CloseArg::Safe));
        assert_eq!(merged.log.level.as_deref(), Some("warn"));
    }

    #[test]
    fn the_template_is_valid_as_it_is_and_with_every_key_switched_on() {
        assert_eq!(parse(TEMPLATE).unwrap(), ConfigFile::default());
        let switched_on: String =
            TEMPLATE.lines().map(|line| line.strip_prefix("#! ").unwrap_or(line)).collect::<Vec<_>>().join("\n");
        let file = parse(&switched_on).unwrap();
        assert_eq!((file.server.scrub_days, file.mount.scrub_days), (Some(30), Some(30)));
        assert!(file.server.policy.is_some() && file.mount.metrics.is_some() && file.log.level.is_some());
    }

    #[test]
    fn directories_are_read_in_order_and_may_be_missing() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("b.toml"), "[log]\nlevel = \"b\"").unwrap();
        std::fs::write(directory.path().join("a.toml"), "[log]\nlevel = \"a\"").unwrap();
        std::fs::write(directory.path().join("c.txt"), "rubbish").unwrap();
        let all = ConfigFile::read_all(&[directory.path().to_owned(), directory.path().join("missing")]).unwrap();
        assert_eq!(all.log.level.as_deref(), Some("b"));
        std::fs::write(directory.path().join("d.toml"), "rubbish").unwrap();
        let failure = ConfigFile::read_all(&[directory.path().to_owned()]).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        assert!(failure.message.contains("d.toml"));
    }
}
