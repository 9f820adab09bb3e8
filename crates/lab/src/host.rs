//! A host: a network namespace with an address of its own, and what runs in it.

use crate::LabError;
use crate::namespace::Namespace;
use crate::tun::NAME_LEN_MAX;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Most hosts of a topology: their addresses are `10.77.0.1` to `10.77.0.250`.
pub(crate) const HOSTS_MAX: usize = 250;

/// Set in every host: what a packet emulator and repeatable measurements need.
const SYSCTLS: &[(&str, &str)] = &[
    ("net.ipv4.ip_forward", "1"),
    // Answers may come back another way than requests went, and come from addresses of no device.
    ("net.ipv4.conf.all.rp_filter", "0"),
    ("net.ipv4.conf.default.rp_filter", "0"),
    // What one connection learned must not help the next.
    ("net.ipv4.tcp_no_metrics_save", "1"),
    // Neighbour discovery would send packets of its own.
    ("net.ipv6.conf.all.disable_ipv6", "1"),
    ("net.ipv6.conf.default.disable_ipv6", "1"),
];

/// A host as its topology knows it.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) namespace: Namespace,
    /// Files of its programs.
    pub(crate) directory: PathBuf,
    /// Present routes: to which host over which line.
    pub(crate) routes: BTreeMap<usize, usize>,
    /// The core that its programs run on, if it has one of its own.
    pub(crate) core: Option<usize>,
}

impl Host {
    /// Host number `index` of a topology that has its files in `run`.
    pub(crate) fn create(name: &str, index: usize, run: &Path) -> Result<Self, LabError> {
        let number = u8::try_from(index + 1).map_err(|_| LabError::TooManyHosts(HOSTS_MAX))?;
        let directory = run.join("hosts").join(name);
        std::fs::create_dir_all(&directory).map_err(LabError::io(format!("make {}", directory.display())))?;
        let host = Self {
            name: name.to_owned(),
            address: Ipv4Addr::new(10, 77, 0, number),
            namespace: Namespace::create(&run.join("net").join(name))?,
            directory,
            routes: BTreeMap::new(),
            core: None,
        };
        for (name, value) in SYSCTLS {
            // IPv6 may be missing from the kernel; the others are there if network namespaces are.
            if let Err(error) = host.sysctl(name, value)
                && !name.contains("ipv6")
            {
                return Err(error);
            }
        }
        host.ip(&["link set lo up".to_owned(), format!("address add {}/32 dev lo", host.address)])?;
        Ok(host)
    }

    /// Sets a kernel parameter of this host.
    pub(crate) fn sysctl(&self, name: &str, value: &str) -> Result<(), LabError> {
        let path = Path::new("/proc/sys").join(name.replace('.', "/"));
        self.namespace
            .inside(|| std::fs::write(&path, value))?
            .map_err(LabError::io(format!("set {name} = {value} on {}", self.name)))
    }

    /// Runs commands of `ip`, one a line.
    pub(crate) fn ip(&self, lines: &[String]) -> Result<(), LabError> {
        if lines.is_empty() {
            return Ok(());
        }
        let output = self.namespace.inside(|| ip_batch(lines))?.map_err(LabError::io("run ip (package iproute2)"))?;
        if output.status.success() {
            return Ok(());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(LabError::Tool { tool: format!("ip {} on {}", lines.join("; "), self.name), message })
    }
}

fn ip_batch(lines: &[String]) -> std::io::Result<std::process::Output> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all((lines.join("\n") + "\n").as_bytes())?;
    }
    child.wait_with_output()
}

/// Whether a name can be a host's.
pub(crate) fn is_host_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !name.is_empty()
        && name.len() <= 32
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(allowed)
}

/// Name of the device of a line on one of its hosts: `to-PEER` if that fits and is free.
pub(crate) fn device_name(peer: &str, line: usize, taken: &[&str]) -> String {
    let name = format!("to-{peer}");
    if name.len() <= NAME_LEN_MAX && !taken.contains(&name.as_str()) { name } else { format!("line{line}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_plain_words() {
        assert!(["home", "station-1", "c2"].into_iter().all(is_host_name));
        assert!(!["", "Home", "a b", "../x", "1st", "-x"].into_iter().any(is_host_name));
    }

    #[test]
    fn devices_are_named_after_their_peer_if_that_fits() {
        assert_eq!(device_name("home", 0, &[]), "to-home");
        assert_eq!(device_name("home", 3, &["to-home"]), "line3");
        assert_eq!(device_name("a-very-long-name", 4, &[]), "line4");
    }
}
