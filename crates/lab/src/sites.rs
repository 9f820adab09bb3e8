//! A volume between sites: a home, and for each site a station behind the wide area with clients on its LAN.
//!
//! ```text
//! client-a ──LAN──▶ station-a ──wide area──▶ home ◀──wide area── station-b ◀──LAN── client-b
//! ```
//! Peers use the same lines: their server runs on `home`, their client on `client-X`, and `station-X` only routes.

use crate::{Context, LabError, Lateness, LinePlan, Link, MountPoint, Process, Topology, line};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Longest time for a daemon to answer or a mount to appear, on a slow line and a busy machine.
const READY: Duration = Duration::from_secs(120);
/// Longest time for a tool that does not wait for the wide area.
pub(crate) const TOOL: Duration = Duration::from_secs(120);
/// Where servers listen.
pub(crate) const PORT: u16 = 7475;
/// The volume.
pub(crate) const VOLUME: &str = "work";

/// What sites are to be like.
#[derive(Debug, Clone)]
pub struct SitesPlan {
    /// The wide area between home and station, one for each site (`a`, `b`, …): *up* is to the home.
    pub wide: Vec<LinePlan>,
    /// The LAN between each client and its station: *up* is to the station.
    pub local: LinePlan,
    /// More arguments of every `wayfs serve`.
    pub serve: Vec<String>,
    /// More arguments of every `wayfs mount`.
    pub mount: Vec<String>,
    /// Where clients keep their caches.
    pub cache: CacheDisk,
}

/// The disk of clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheDisk {
    /// The laboratory's, which every host shares: what one of them syncs the others wait for.
    #[default]
    Shared,
    /// Memory: a disk that keeps nobody else waiting, as every machine's own does.
    Memory,
}

impl SitesPlan {
    /// Sites whose wide area has these profiles, clients on 100 Mb/s Ethernet.
    ///
    /// # Errors
    /// [`LabError::Description`] for an unknown name.
    pub fn profiles(wide: &[&str]) -> Result<Self, LabError> {
        let wide = wide.iter().map(|name| line(name)).collect::<Result<_, _>>()?;
        Ok(Self { wide, local: line("ethernet-100")?, serve: Vec::new(), mount: Vec::new(), cache: CacheDisk::Shared })
    }
}

/// Home, stations and clients. Dropping it ends all of them.
#[derive(Debug)]
pub struct Sites {
    // Mounts go before the daemons that serve them, daemons before their network.
    clients: Vec<Client>,
    servers: Vec<(String, Process)>,
    wide: Vec<Link>,
    local: Vec<Link>,
    lab: Topology,
    program: PathBuf,
    plan: SitesPlan,
}

/// How a mount names its volume.
enum Volume<'a> {
    /// For the first time: by a ticket.
    By(&'a str),
    /// By the name that it has had since.
    Known,
}

/// A mounted client.
#[derive(Debug)]
struct Client {
    host: String,
    mount: MountPoint,
    process: Option<Process>,
    /// The disk of its own.
    disk: Option<MountPoint>,
}

impl Sites {
    /// Only the network: hosts `home`, `station-X`, `client-X` and their lines. For peers, or to start less than everything.
    ///
    /// # Errors
    /// [`LabError`] if the network cannot be made.
    pub fn network(context: &Context<'_>, part: &str, seed: u64, plan: SitesPlan) -> Result<Self, LabError> {
        let mut lab = context.topology(part, seed)?;
        lab.host("home")?;
        let mut sites = Self {
            clients: Vec::new(),
            servers: Vec::new(),
            wide: Vec::new(),
            local: Vec::new(),
            lab,
            program: context.program().to_owned(),
            plan,
        };
        let names: Vec<(String, String)> =
            (0..sites.plan.wide.len()).map(|site| (client_of(site), station_of(site))).collect();
        let mut lines = Vec::new();
        for ((client, station), wide) in names.iter().zip(&sites.plan.wide) {
            sites.lab.host(station)?;
            sites.lab.host(client)?;
            lines.push((station.as_str(), "home", wide.clone()));
            lines.push((client.as_str(), station.as_str(), sites.plan.local.clone()));
        }
        for links in sites.lab.link_all(&lines)?.chunks_exact(2) {
            sites.wide.push(links[0]);
            sites.local.push(links[1]);
        }
        Ok(sites)
    }

    /// Everything: the network, the home with its volume, a station at each site, and a mount at each client that
    /// keeps to its station.
    ///
    /// # Errors
    /// [`LabError`] if something cannot be started.
    pub fn start(context: &Context<'_>, part: &str, seed: u64, plan: SitesPlan) -> Result<Self, LabError> {
        let mut sites = Self::network(context, part, seed, plan)?;
        sites.start_home()?;
        for site in 0..sites.plan.wide.len() {
            sites.start_station(site)?;
            sites.mount(site)?;
        }
        Ok(sites)
    }

    /// Starts the home and makes its volume.
    ///
    /// # Errors
    /// [`LabError`] if it does not answer.
    pub fn start_home(&mut self) -> Result<(), LabError> {
        self.serve("home")?;
        self.wayfs("home", &["volume", "create", VOLUME], TOOL).map(drop)
    }

    /// Starts the station of a site, which joins the volume.
    ///
    /// # Errors
    /// [`LabError`] if it does not answer or cannot join.
    pub(crate) fn start_station(&mut self, site: usize) -> Result<(), LabError> {
        let station = station_of(site);
        self.serve(&station)?;
        let ticket = self.wayfs("home", &["volume", "ticket", VOLUME, "--station"], TOOL)?;
        let mut command = self.command(&station, &["station", "join"])?;
        command.env("WAYFS_TICKET", ticket.trim());
        self.output(&station, "station join", command, TOOL).map(drop)
    }

    /// Mounts the volume at the client of a site, by way of its station, with an empty cache.
    ///
    /// # Errors
    /// [`LabError`] if it is not mounted in time.
    pub fn mount(&mut self, site: usize) -> Result<(), LabError> {
        let host = client_of(site);
        let ticket = self.wayfs("home", &["volume", "ticket", VOLUME], TOOL)?;
        let mount = self.lab.mount_point(&host)?;
        self.clients.retain(|client| client.host != host);
        let disk = match self.plan.cache {
            CacheDisk::Shared => None,
            CacheDisk::Memory => Some(self.lab.memory_disk(&format!("{host}-disk"))?),
        };
        self.clients.push(Client { host: host.clone(), mount, process: None, disk });
        self.mount_again(site, Volume::By(ticket.trim()))?;
        let station = format!("{}:{PORT}", self.lab.address(&station_of(site))?);
        self.until("the client to know its station", |sites| {
            Ok(sites.wayfs(&host, &["station", "use", &station], TOOL).is_ok())
        })?;
        // It moves when the station has heard of it from the home; until then it talks to the home.
        self.until("the client to be at its station", |sites| {
            let status = sites.json(&host, &["status"])?;
            let parent = &status[0]["volumes"][0]["parent"];
            Ok(parent["connected"] == true && parent["addresses"].to_string().contains(&station))
        })
    }

    /// Mounts what was unmounted; its cache is what it was.
    ///
    /// # Errors
    /// [`LabError`] if it is not mounted in time.
    pub fn remount(&mut self, site: usize) -> Result<(), LabError> {
        self.mount_again(site, Volume::Known)
    }

    /// Unmounts a client, takes its cache away, and mounts again. What it had not sent is gone.
    ///
    /// # Errors
    /// [`LabError`] if it does not end, or is not mounted in time.
    pub(crate) fn mount_anew(&mut self, site: usize) -> Result<(), LabError> {
        self.unmount(site)?;
        let client = self.client(site)?;
        // A disk of its own is a new one after every mount.
        if client.disk.is_none() {
            let cache = self.cache(client)?;
            std::fs::remove_dir_all(&cache).map_err(LabError::io(format!("remove {}", cache.display())))?;
        }
        self.mount(site)
    }

    /// Unmounts a client. What it wrote may not have been sent yet.
    ///
    /// # Errors
    /// [`LabError`] if the daemon does not end in time.
    pub fn unmount(&mut self, site: usize) -> Result<(), LabError> {
        let client = self.client_mut(site)?;
        if let Some(mut process) = client.process.take() {
            client.mount.unmount();
            process.signal(rustix::process::Signal::TERM);
            process.wait(READY)?;
        }
        Ok(())
    }

    /// Where the volume is mounted at the client of a site. Mounts are seen by the whole machine.
    ///
    /// # Panics
    /// If that site has no mount.
    pub fn at(&self, site: usize) -> &Path {
        self.client(site).expect("the site has a mount").mount.path()
    }

    /// Runs `wayfs ARGUMENTS` on a host against its daemon, and gives what it printed.
    ///
    /// # Errors
    /// [`LabError::Tool`] with what it said if it failed, [`LabError::TimedOut`].
    pub fn wayfs(&self, host: &str, arguments: &[&str], within: Duration) -> Result<String, LabError> {
        self.output(host, &arguments.join(" "), self.command(host, arguments)?, within)
    }

    /// What a reporting command says, as JSON.
    ///
    /// # Errors
    /// As [`Self::wayfs`], or what it printed is no JSON.
    pub fn json(&self, host: &str, arguments: &[&str]) -> Result<serde_json::Value, LabError> {
        let text = self.wayfs(host, &[arguments, &["--json"]].concat(), TOOL)?;
        serde_json::from_str(&text)
            .map_err(|error| LabError::Experiment(format!("wayfs {}: {error}", arguments.join(" "))))
    }

    /// Waits until everything written at a client is `safe`, `visible` or `stable`.
    ///
    /// # Errors
    /// [`LabError`] if it is not in time.
    pub fn sync(&self, site: usize, until: &str, within: Duration) -> Result<(), LabError> {
        let seconds = within.as_secs().max(1).to_string();
        let arguments = ["sync", "--until", until, "--timeout", &seconds];
        self.wayfs(&client_of(site), &arguments, within + TOOL).map(drop)
    }

    /// The process of a server: `home` or `station-X`; of a client: `client-X`.
    pub fn daemon(&mut self, host: &str) -> Option<&mut Process> {
        let server = self.servers.iter_mut().find(|(name, _)| name == host).map(|(_, process)| process);
        let client = self.clients.iter_mut().find(|client| client.host == host);
        server.or_else(|| client?.process.as_mut())
    }

    /// Ends a server by SIGTERM; its data stay.
    ///
    /// # Errors
    /// [`LabError`] if it does not end in time.
    pub fn stop(&mut self, host: &str) -> Result<(), LabError> {
        while let Some(place) = self.servers.iter().position(|(name, _)| name == host) {
            let (_, mut process) = self.servers.remove(place);
            process.signal(rustix::process::Signal::TERM);
            process.wait(READY)?;
        }
        Ok(())
    }

    /// Starts a server on a host, with whatever data it has, and waits until it answers.
    ///
    /// # Errors
    /// [`LabError`] if it does not.
    pub fn serve(&mut self, host: &str) -> Result<(), LabError> {
        let mut command = self.lab.wayfs(host, &self.program)?;
        let listen = format!("{}:{PORT}", self.lab.address(host)?);
        command.arg("serve").arg("--data").arg(self.data(host)?).args(["--listen", &listen]).args(&self.plan.serve);
        let process = self.lab.spawn(host, "serve", command)?;
        self.servers.push((host.to_owned(), process));
        self.until("the server to answer", |sites| {
            sites.must_run(host)?;
            Ok(sites.wayfs(host, &["status", "--json"], TOOL).is_ok())
        })
    }

    /// Where a host keeps what it has of the volume: a client's cache, a server's data.
    ///
    /// # Errors
    /// [`LabError`] if there is no such host, or the client of that name has no mount.
    pub fn files_of(&self, host: &str) -> Result<PathBuf, LabError> {
        match self.clients.iter().find(|client| client.host == host) {
            Some(client) => self.cache(client),
            None => self.data(host),
        }
    }

    /// The line between a site's station and the home.
    pub fn wide(&self, site: usize) -> Link {
        self.wide[site]
    }

    /// The line between a site's client and its station.
    pub fn local(&self, site: usize) -> Link {
        self.local[site]
    }

    /// The network itself.
    pub const fn lab(&self) -> &Topology {
        &self.lab
    }

    /// The network itself, to be changed.
    pub(crate) const fn lab_mut(&mut self) -> &mut Topology {
        &mut self.lab
    }

    /// Ends everything and keeps how late the emulator was.
    pub fn finish(self, context: &mut Context<'_>, part: &str) -> Lateness {
        let Self { clients, servers, lab, .. } = self;
        drop(clients);
        drop(servers);
        context.finish(part, lab)
    }

    fn mount_again(&mut self, site: usize, what: Volume<'_>) -> Result<(), LabError> {
        let host = client_of(site);
        let place = self.client(site)?.mount.path().to_owned();
        let mut command = self.lab.wayfs(&host, &self.program)?;
        let cache = self.cache(self.client(site)?)?;
        command.arg("mount");
        match what {
            // A ticket is a secret: not in the arguments, where every process sees it.
            Volume::By(ticket) => command.env("WAYFS_TICKET", ticket),
            Volume::Known => command.arg(VOLUME),
        };
        command.arg(&place).arg("--cache").arg(cache).args(&self.plan.mount);
        let process = self.lab.spawn(&host, "mount", command)?;
        self.client_mut(site)?.process = Some(process);
        self.until("the volume to be mounted", |sites| {
            sites.must_run(&host)?;
            Ok(sites.client(site)?.mount.is_mounted())
        })
    }

    /// `wayfs ARGUMENTS` for a host's daemon.
    pub(crate) fn command(&self, host: &str, arguments: &[&str]) -> Result<Command, LabError> {
        let mut command = self.lab.wayfs(host, &self.program)?;
        let at = match self.clients.iter().find(|client| client.host == host) {
            Some(client) => client.mount.path().to_owned(),
            None => self.data(host)?,
        };
        command.args(arguments).env("WAYFS_AT", at);
        Ok(command)
    }

    fn output(&self, host: &str, what: &str, command: Command, within: Duration) -> Result<String, LabError> {
        let output = self.lab.run(host, command, within)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(LabError::Tool { tool: format!("wayfs {what} on {host}"), message })
    }

    /// Fails with its log if a daemon has ended.
    fn must_run(&mut self, host: &str) -> Result<(), LabError> {
        match self.daemon(host) {
            Some(process) => match process.ended() {
                Some(status) => Err(LabError::Tool {
                    tool: format!("the daemon on {host}"),
                    message: format!("{status}: {}", process.output().trim()),
                }),
                None => Ok(()),
            },
            None => Err(LabError::Experiment(format!("nothing runs on {host}"))),
        }
    }

    fn until(
        &mut self,
        what: &str,
        mut condition: impl FnMut(&mut Self) -> Result<bool, LabError>,
    ) -> Result<(), LabError> {
        let start = Instant::now();
        while !condition(self)? {
            if start.elapsed() > READY {
                return Err(LabError::TimedOut { what: what.to_owned(), within: READY });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn data(&self, host: &str) -> Result<PathBuf, LabError> {
        Ok(self.lab.directory(host)?.join("data"))
    }

    fn cache(&self, client: &Client) -> Result<PathBuf, LabError> {
        match &client.disk {
            Some(disk) => Ok(disk.path().join("volume-cache")),
            None => Ok(self.lab.directory(&client.host)?.join("volume-cache")),
        }
    }

    fn client(&self, site: usize) -> Result<&Client, LabError> {
        let host = client_of(site);
        let found = self.clients.iter().find(|client| client.host == host);
        found.ok_or_else(|| LabError::Experiment(format!("{host} has no mount")))
    }

    fn client_mut(&mut self, site: usize) -> Result<&mut Client, LabError> {
        let host = client_of(site);
        let found = self.clients.iter_mut().find(|client| client.host == host);
        found.ok_or_else(|| LabError::Experiment(format!("{host} has no mount")))
    }
}

/// Host of the client of a site.
pub(crate) fn client_of(site: usize) -> String {
    format!("client-{}", letter(site))
}

/// Host of the station of a site.
pub(crate) fn station_of(site: usize) -> String {
    format!("station-{}", letter(site))
}

/// Sites are `a`, `b`, … `z`, then `z1` and on.
fn letter(site: usize) -> String {
    match u8::try_from(site) {
        Ok(site @ 0..=25) => char::from(b'a' + site).to_string(),
        _ => format!("z{}", site - 25),
    }
}
