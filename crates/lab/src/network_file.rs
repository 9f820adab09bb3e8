//! Whole networks as people write them down, for work by hand: `wayfs lab up FILE`.
//!
//! ```toml
//! seed = 1                        # of every loss, jitter and bad period; 1 if absent
//! hosts = ["client", "station", "home"]
//!
//! [[links]]
//! ends = ["client", "station"]    # "up" is from the first to the second
//! line = { profile = "wifi" }     # as for experiments: a profile, and what differs from it
//!
//! [[links]]
//! ends = ["station", "home"]
//! line = { both = { rate_mbps = 3.0, delay_ms = 33.5 } }
//!
//! [[cells]]                       # hosts that share the air around another
//! station = "station"
//! mobiles = ["phone", "tablet"]
//! line = { profile = "wavelan" }
//!
//! [[programs]]                    # started in this order; end with the network
//! host = "home"
//! command = ["sleep", "1000"]
//! ```

use crate::named_line::plan;
use crate::{LabError, Link, Process, Topology};
use serde::Deserialize;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use wayfs_link::LineStatistics;
use wayfs_link::description::LineDescription;

/// A network, written down.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetworkFile {
    /// Everything random comes from it. Default 1.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// Names of the hosts; their addresses are `10.77.0.1` and on, in this order.
    pub hosts: Vec<String>,
    /// Lines between two hosts.
    #[serde(default)]
    pub links: Vec<LinkOfFile>,
    /// Channels that several hosts share.
    #[serde(default)]
    pub cells: Vec<CellOfFile>,
    /// What runs from the start.
    #[serde(default)]
    pub programs: Vec<ProgramOfFile>,
}

/// A line between two hosts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkOfFile {
    /// *Up* is from the first to the second.
    pub ends: [String; 2],
    /// What it is like. Default: perfect.
    #[serde(default)]
    pub line: LineDescription,
}

/// Hosts around another that share a channel.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellOfFile {
    /// The one in the middle; *up* is to it.
    pub station: String,
    /// The ones around it.
    pub mobiles: Vec<String>,
    /// What the channel is like. Default: perfect.
    #[serde(default)]
    pub line: LineDescription,
}

/// A program that runs on a host.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramOfFile {
    /// Where.
    pub host: String,
    /// The program and its arguments.
    pub command: Vec<String>,
}

const fn first_seed() -> u64 {
    1
}

/// A network that is up. Dropping it takes everything away.
#[derive(Debug)]
pub struct Network {
    // Programs end before their network does.
    programs: Vec<Process>,
    links: Vec<(String, Link)>,
    hosts: Vec<HostOfNetwork>,
    lab: Topology,
}

/// A host of a network that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostOfNetwork {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// By which its network is entered: `nsenter --net=FILE COMMAND`.
    pub network: PathBuf,
}

impl NetworkFile {
    /// Reads the text of a file.
    ///
    /// # Errors
    /// [`LabError::Experiment`] says what is wrong, and in which line.
    pub fn read(text: &str) -> Result<Self, LabError> {
        toml::from_str(text).map_err(|error| LabError::Experiment(format!("read the network: {error}")))
    }

    /// Builds it and starts its programs, whose output goes to `logs`. Traces are found relative to `directory`.
    ///
    /// # Errors
    /// [`LabError`] if a host, a line or a program makes no sense, or the machine refuses.
    pub fn up(&self, directory: &Path, logs: &Path) -> Result<Network, LabError> {
        let mut lab = Topology::new(self.seed)?;
        lab.keep_logs(logs);
        for host in &self.hosts {
            lab.host(host)?;
        }
        let mut hosts = Vec::new();
        for name in &self.hosts {
            hosts.push(HostOfNetwork { name: name.clone(), address: lab.address(name)?, network: lab.network(name)? });
        }
        let mut links = Vec::new();
        for LinkOfFile { ends: [first, second], line } in &self.links {
            let link = lab.link(first, second, plan(line, directory)?)?;
            links.push((format!("{first} to {second}"), link));
        }
        for CellOfFile { station, mobiles, line } in &self.cells {
            let around: Vec<&str> = mobiles.iter().map(String::as_str).collect();
            let cell = lab.cell(&around, station, plan(line, directory)?)?;
            links.extend(mobiles.iter().map(|mobile| format!("{mobile} to {station}")).zip(cell));
        }
        let mut programs = Vec::new();
        for (number, ProgramOfFile { host, command }) in self.programs.iter().enumerate() {
            let (program, arguments) = command
                .split_first()
                .ok_or_else(|| LabError::Experiment(format!("the program on {host} has no command")))?;
            let mut command = Command::new(program);
            command.args(arguments);
            programs.push(lab.spawn(host, &format!("program-{}", number + 1), command)?);
        }
        Ok(Network { programs, links, hosts, lab })
    }
}

impl Network {
    /// Its hosts, in the order of the file.
    pub fn hosts(&self) -> &[HostOfNetwork] {
        &self.hosts
    }

    /// What happened on its lines so far: *up* is in the direction that the name tells.
    pub fn statistics(&self) -> Vec<(String, LineStatistics)> {
        self.links.iter().map(|(name, link)| (name.clone(), self.lab.statistics(*link))).collect()
    }

    /// Programs that have ended, with what they said.
    pub fn ended(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        self.programs.retain_mut(|program| match program.ended() {
            Some(status) => {
                said.push(format!("{} ended: {status}; see {}", program.label(), program.log().display()));
                false
            }
            None => true,
        });
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_read() {
        let text = r#"
            hosts = ["a", "b", "c"]
            [[links]]
            ends = ["a", "b"]
            line = { profile = "wifi", up = { loss = 0.5 } }
            [[cells]]
            station = "b"
            mobiles = ["a", "c"]
            [[programs]]
            host = "a"
            command = ["sleep", "1"]
        "#;
        let file = NetworkFile::read(text).unwrap();
        assert_eq!((file.seed, file.hosts.len(), file.links.len()), (1, 3, 1));
        assert_eq!(file.cells[0].line, LineDescription::default());
        assert_eq!(file.programs[0].command, ["sleep", "1"]);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, wanted) in [
            ("hosts = 3", "hosts"),
            ("hosts = []\nlanes = []", "lanes"),
            ("hosts = []\n[[links]]\nends = [\"a\"]", "ends"),
            ("hosts = []\n[[links]]\nends = [\"a\", \"b\"]\nline = { speed = 3 }", "speed"),
        ] {
            let error = NetworkFile::read(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text:?}: {error}");
        }
    }
}
