//! The systems under load: a WayFS volume with one of its two lines swept, and an NFS server.

use super::cold_read::{ColdReader, ColdStock};
use super::file_set::FileSet;
use super::knob::Setting;
use super::on_a_mount::{MountWorker, Promise};
use super::on_nfs::{Handles, NfsWorker};
use super::sweep::{SERVER_CORE, System};
use crate::load::Worker;
use crate::nfs::{NfsClient, NfsServer, Retry, Transport};
use crate::{Context, LabError, Link, Sites, SitesPlan, Topology};
use std::sync::Arc;
use std::time::Duration;

/// Operations that are under way at a time at most, as the load generators of the paper have it.
pub(super) const WORKERS: usize = 8;
/// Longest time for what was written to be known at the home over a good line.
const SETTLE: Duration = Duration::from_secs(120);

/// How a volume is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    /// Operations on the set of files, which everybody holds.
    Mount(Promise),
    /// Reads of what only the home has.
    ColdReads,
}

/// Which line of a volume is swept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hop {
    /// Client to station; the station serves.
    ClientStation,
    /// Station to home; the home serves.
    StationHome,
}

impl Hop {
    /// The host at the end that serves.
    const fn server(self) -> &'static str {
        match self {
            Self::ClientStation => "station-a",
            Self::StationHome => "home",
        }
    }
}

/// A home, a station, a client with a mount, and the set of files, which all of them hold.
pub(super) struct Volume {
    workers: Vec<Box<dyn Worker>>,
    sites: Sites,
    set: Arc<FileSet>,
    cold: Arc<ColdStock>,
    hop: Hop,
    link: Link,
    good: Setting,
    /// The line that is not swept, and what it is like under load.
    other: (Link, Setting),
}

impl Volume {
    /// Starts one, over good lines; under load the one that is not swept is as `other`. So many files can be read cold.
    pub(super) fn start(
        context: &Context<'_>,
        (hop, other): (Hop, Setting),
        good: Setting,
        cold_files: usize,
    ) -> Result<Self, LabError> {
        let mut plan = SitesPlan::profiles(&["perfect"])?;
        (plan.wide, plan.local) = (vec![good.line()], good.line());
        let mut sites = Sites::network(context, part(hop), context.seed(), plan)?;
        sites.lab_mut().reserve(hop.server(), SERVER_CORE)?;
        sites.start_home()?;
        if cold_files > 0 {
            ColdStock::import(&sites, cold_files)?;
        }
        sites.start_station(0)?;
        sites.mount(0)?;
        let set = Arc::new(FileSet::new(context.seed()));
        set.make(sites.at(0))?;
        sites.sync(0, "visible", SETTLE)?;
        let (link, rest) = match hop {
            Hop::ClientStation => (sites.local(0), sites.wide(0)),
            Hop::StationHome => (sites.wide(0), sites.local(0)),
        };
        let cold = Arc::new(ColdStock::at(sites.at(0), cold_files));
        Ok(Self { workers: Vec::new(), sites, set, cold, hop, link, good, other: (rest, other) })
    }

    /// Puts load on it as this view has it.
    pub(super) fn look(&mut self, view: View) {
        let worker = |number| -> Box<dyn Worker> {
            match view {
                View::Mount(promise) => Box::new(MountWorker::new(self.sites.at(0), &self.set, promise, number)),
                View::ColdReads => Box::new(ColdReader::new(Arc::clone(&self.cold))),
            }
        };
        self.workers = (0..WORKERS).map(worker).collect();
    }

    /// An error with what the client and the station have to say about it.
    fn explained(&self, error: &LabError) -> LabError {
        let said = [("client-a", "queue"), ("client-a", "status"), ("station-a", "status")].map(|(host, what)| {
            let answer = self.sites.wayfs(host, &[what], SETTLE).unwrap_or_else(|error| error.to_string());
            let some: Vec<&str> = answer.lines().take(30).collect();
            format!("{what} of {host}:\n{}", some.join("\n"))
        });
        LabError::Experiment(format!("{error}\n{}", said.join("\n")))
    }

    /// Ends it.
    pub(super) fn finish(self, context: &mut Context<'_>) {
        self.sites.finish(context, part(self.hop));
    }
}

impl System for Volume {
    fn set(&mut self, setting: &Setting) -> Result<(), LabError> {
        let lab = self.sites.lab();
        lab.shape(self.other.0, self.other.1.line());
        lab.shape(self.link, setting.line());
        lab.burden(self.link, self.hop.server(), setting.overhead())
    }

    fn workers(&mut self) -> &mut Vec<Box<dyn Worker>> {
        &mut self.workers
    }

    fn settle(&mut self) -> Result<(), LabError> {
        let good = self.good;
        self.set(&good)?;
        self.sites.lab().shape(self.other.0, good.line());
        self.sites.sync(0, "visible", SETTLE).map_err(|error| self.explained(&error))
    }

    fn packets(&self) -> u64 {
        packets(self.sites.lab(), self.link)
    }
}

/// Name of the network in which a line is swept.
const fn part(hop: Hop) -> &'static str {
    match hop {
        Hop::ClientStation => "client to station",
        Hop::StationHome => "station to home",
    }
}

/// A server and its clients, which share a line.
pub(super) struct Nfs {
    workers: Vec<Box<dyn Worker>>,
    // The server goes before its network.
    _server: NfsServer,
    lab: Topology,
    link: Link,
    part: &'static str,
}

impl Nfs {
    /// Starts one with a line that is good.
    pub(super) fn start(context: &Context<'_>, transport: Transport, good: &Setting) -> Result<Self, LabError> {
        let part = match transport {
            Transport::Udp => "NFS over UDP",
            Transport::Tcp => "NFS over TCP",
        };
        let mut lab = context.topology(part, context.seed())?;
        for host in ["client", "server"] {
            lab.host(host)?;
        }
        lab.reserve("server", SERVER_CORE)?;
        let link = lab.link("client", "server", good.line())?;
        let server = NfsServer::start(&lab, "server")?;
        let set = FileSet::new(context.seed());
        set.make(server.export())?;
        let export = server.export().to_string_lossy().into_owned();
        // The usual first timeout of clients over UDP.
        let retry = Retry::doubling(Duration::from_millis(1100), 5);
        let mount = || NfsClient::mount(&lab, "client", "server", &export, (transport, retry.clone()));
        let handles = Handles::of(set, &mut mount()?)?;
        let mut workers: Vec<Box<dyn Worker>> = Vec::new();
        for number in 0..WORKERS {
            workers.push(Box::new(NfsWorker::new(mount()?, &handles, number)));
        }
        Ok(Self { workers, _server: server, lab, link, part })
    }

    /// Ends it.
    pub(super) fn finish(self, context: &mut Context<'_>) {
        let Self { workers, _server, lab, part, .. } = self;
        drop(workers);
        drop(_server);
        context.finish(part, lab);
    }
}

impl System for Nfs {
    fn set(&mut self, setting: &Setting) -> Result<(), LabError> {
        self.lab.shape(self.link, setting.line());
        self.lab.burden(self.link, "server", setting.overhead())
    }

    fn workers(&mut self) -> &mut Vec<Box<dyn Worker>> {
        &mut self.workers
    }

    fn settle(&mut self) -> Result<(), LabError> {
        Ok(())
    }

    fn packets(&self) -> u64 {
        packets(&self.lab, self.link)
    }
}

fn packets(lab: &Topology, link: Link) -> u64 {
    let statistics = lab.statistics(link);
    statistics.up.offered + statistics.down.offered
}
