//! The laboratory: hosts in network namespaces, joined by emulated lines, and experiments on them.
//!
//! # Building a network
//! ```no_run
//! use std::time::Duration;
//! use wayfs_lab::{LabError, LinePlan, Topology, line};
//!
//! # fn main() -> Result<(), LabError> {
//! let mut lab = Topology::new(1)?;                       // the seed of every loss, jitter and bad period
//! for host in ["client", "station", "home"] {
//!     lab.host(host)?;                                   // 10.77.0.1, 10.77.0.2, 10.77.0.3
//! }
//! lab.link("client", "station", line("local-area")?)?;   // `wayfs lab profiles` lists the names
//! let wide = lab.link("station", "home", line("intercontinental")?)?;
//!
//! let mut serve = lab.wayfs("home", "/usr/bin/wayfs".as_ref())?;  // each host has state, cache and configuration of its own
//! serve.args(["serve", "--listen", "10.77.0.3:7000"]);
//! let mut home = lab.spawn("home", "serve", serve)?;     // logs to home-serve.log, killed when dropped
//! lab.sysctl("client", "net.ipv4.tcp_congestion_control", "reno")?;
//! lab.shape(wide, LinePlan::default());                  // a perfect line from now on
//! println!("{:?}, {:?}", lab.statistics(wide), lab.take_lateness());
//! home.kill();
//! # Ok(())
//! # }
//! ```
//! Hosts route for each other along the fewest hops. A line swallows packets silently ([`Topology::set_state`]), goes out
//! of service with its routes ([`Topology::set_service`]), or is exchanged for another ([`Topology::hand_over`]: a client moves to
//! another station). [`Topology::cell`] lets several hosts share one channel. Settings are [`LinePlan`]s: from a profile ([`line`]),
//! from TOML ([`read_line`]), or made by hand. [`Topology::inside`] makes sockets that belong to a host.
//! While a topology exists no core of the machine sleeps, if the machine allows that ([`IdleCores`]); [`Topology::let_cores_sleep`] ends it.
//!
//! # Writing an experiment
//! An [`Experiment`] is a file in `experiments/`, listed in `experiments/mod.rs`. Its `run` builds topologies with [`Context::topology`], gives them back
//! to [`Context::finish`] (which keeps how late the emulator was), writes raw data with [`Context::csv`], tells how far it is with
//! [`Context::progress`], and returns [`Findings`]: what was expected, what came out, why they differ, [`Row`]s (ours beside the
//! published number, with an [`Aim`]) and [`Figure`]s. The frame makes `summary.json` and `report.html` of them. [`probe`] has
//! traffic that measures: single packets with exact times, and bulk transfers. `experiments/links` is the example to follow.
//!
//! # Nothing stays
//! Processes, mounts, devices and namespaces belong to values that take them away when dropped. What escapes (a panic in
//! the wrong place, SIGKILL) is taken away by a guard process, and should that be killed, too, by [`sweep`] at the next start.
#![allow(unsafe_code, reason = "TUN devices, namespaces and priorities have no safe interface")]

mod context;
mod cores;
pub mod corpus;
mod csv;
mod descriptors;
mod emulator;
mod error;
mod estimate;
mod experiment;
mod experiments;
mod figure;
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod keep_awake;
mod link_tool;
pub mod load;
mod mount_point;
mod named_line;
mod namespace;
mod network_file;
pub mod nfs;
pub mod peers;
mod priority;
pub mod probe;
mod process;
mod report;
mod routes;
mod run_directory;
mod sites;
mod summary;
mod topology;
mod tun;
pub mod usage;
mod wireless;

pub use context::{Context, Options, Parts, Progress};
pub use csv::Csv;
pub use emulator::Lateness;
pub use error::LabError;
pub(crate) use estimate::quantile;
pub use estimate::{Estimate, Hits};
pub use experiment::{Experiment, check_settings, run};
pub use experiments::{EXPERIMENTS, experiment};
pub use figure::{Axis, Figure, Origin, Point, Scale, Series, Style};
pub use keep_awake::IdleCores;
pub use link_tool::{Ends as LinkEnds, Tool as LinkTool};
pub use mount_point::MountPoint;
pub use named_line::{line, read_line};
pub use network_file::{CellOfFile, HostOfNetwork, LinkOfFile, Network, NetworkFile, ProgramOfFile};
pub use process::Process;
pub use report::report;
pub use run_directory::sweep;
pub(crate) use sites::client_of;
pub(crate) use sites::station_of;
pub use sites::{CacheDisk, Sites, SitesPlan};
pub use summary::{Aim, Findings, LatenessOf, Machine, Row, Summary, Verdict};
pub use topology::{Link, Service, Topology};
pub use wayfs_link::description::LinePlan;
pub use wayfs_link::{LineStatistics, PROFILES, Profile, WayStatistics};
