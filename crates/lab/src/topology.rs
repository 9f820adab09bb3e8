//! Hosts and lines between them.

use crate::emulator::{Burden, Emulator, End, Ends, Lateness, MediumId};
use crate::host::{HOSTS_MAX, Host, device_name, is_host_name};
use crate::keep_awake::{IdleCores, KeepAwake};
use crate::routes::{Edge, routes};
use crate::run_directory::{MARK, RunDirectory};
use crate::tun::Tun;
use crate::{LabError, MountPoint, Process, cores};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use wayfs_link::description::LinePlan;
use wayfs_link::{LineConfig, LineId, LineState, LineStatistics, Medium};

/// Packets that a device keeps for an emulator that is late: 60 ms at 1 Gb/s.
const DEVICE_QUEUE: u32 = 5000;
/// Longest packet, as on Ethernet.
const MTU: u32 = 1500;

/// A line of a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link(usize);

/// What is known of a line.
#[derive(Debug)]
struct LinkState {
    medium: MediumId,
    line: LineId,
    edge: Edge,
    /// Device at each end.
    devices: [String; 2],
}

/// Hosts, and lines between them. Dropping it takes everything away: processes, mounts, devices, namespaces, files.
#[derive(Debug)]
pub struct Topology {
    // Fields are dropped in this order: devices before their namespaces, those before the guard looks for leftovers.
    emulator: Emulator,
    links: Vec<LinkState>,
    hosts: Vec<Host>,
    run: RunDirectory,
    logs: PathBuf,
    seed: u64,
    keep_awake: KeepAwake,
}

/// One end of a line, by the places of its hosts.
#[derive(Debug, Clone, Copy)]
struct Towards {
    host: usize,
    peer: usize,
}

impl Topology {
    /// An empty topology. `seed` decides every loss, jitter and bad period of its lines.
    ///
    /// # Errors
    /// [`LabError::Forbidden`] if this machine or user may not do this; see [`LabError::is_forbidden`].
    pub fn new(seed: u64) -> Result<Self, LabError> {
        let run = RunDirectory::create()?;
        let logs = run.path().join("logs");
        let keep_awake = KeepAwake::begin();
        Ok(Self { emulator: Emulator::start()?, links: Vec::new(), hosts: Vec::new(), run, logs, seed, keep_awake })
    }

    /// From now on cores may sleep while they have nothing to do, as they do where nobody measures. Packets are late then by
    /// what a core takes to wake up.
    pub(crate) fn let_cores_sleep(&mut self) {
        self.keep_awake = KeepAwake::none();
    }

    /// What idle cores do while this topology exists.
    pub(crate) const fn idle_cores(&self) -> &IdleCores {
        self.keep_awake.state()
    }

    /// Lets programs write their output to a directory that stays; it is made when the first is started.
    pub fn keep_logs(&mut self, directory: &Path) {
        self.logs = directory.to_owned();
    }

    /// Adds a host. Its address is `10.77.0.N`, the first host being 1; it keeps it on whatever lines it has.
    /// Every host forwards packets for others.
    ///
    /// # Errors
    /// [`LabError`] if the name is taken or no plain word, or the machine refuses.
    pub fn host(&mut self, name: &str) -> Result<Ipv4Addr, LabError> {
        if !is_host_name(name) || self.hosts.iter().any(|host| host.name == name) {
            return Err(LabError::HostName(name.to_owned()));
        }
        if self.hosts.len() >= HOSTS_MAX {
            return Err(LabError::TooManyHosts(HOSTS_MAX));
        }
        let host = Host::create(name, self.hosts.len(), self.run.path())?;
        let address = host.address;
        self.hosts.push(host);
        Ok(address)
    }

    /// Joins two hosts by a line; *up* is from the first to the second. Its bad periods and its schedule begin now.
    ///
    /// # Errors
    /// [`LabError`] if a host is unknown or the machine refuses.
    pub fn link(&mut self, first: &str, second: &str, plan: impl Into<LinePlan>) -> Result<Link, LabError> {
        Ok(self.cell(&[first], second, plan)?[0])
    }

    /// Joins several hosts to one over a channel that they share, such as the air around a base station: each has a
    /// line with bad periods and losses of its own, but what one sends the others wait for. *Up* is to the station.
    ///
    /// # Errors
    /// [`LabError`] if a host is unknown or the machine refuses.
    pub fn cell(&mut self, mobiles: &[&str], station: &str, plan: impl Into<LinePlan>) -> Result<Vec<Link>, LabError> {
        let links = self.cell_without_routes(mobiles, station, plan.into())?;
        self.route()?;
        Ok(links)
    }

    /// Joins pairs of hosts as [`Self::link`] does, but sets routes only once: with a hundred hosts most of the time goes
    /// into telling each of them of every new line.
    ///
    /// # Errors
    /// [`LabError`] if a host is unknown or the machine refuses.
    pub fn link_all(&mut self, lines: &[(&str, &str, LinePlan)]) -> Result<Vec<Link>, LabError> {
        let mut links = Vec::new();
        for (first, second, plan) in lines {
            links.extend(self.cell_without_routes(&[first], second, plan.clone())?);
        }
        self.route()?;
        Ok(links)
    }

    /// As [`Self::cell`], but sets no routes: for many at once, with [`Self::route`] behind the last.
    pub(crate) fn join(
        &mut self,
        mobiles: &[&str],
        station: &str,
        plan: impl Into<LinePlan>,
    ) -> Result<Vec<Link>, LabError> {
        self.cell_without_routes(mobiles, station, plan.into())
    }

    fn cell_without_routes(&mut self, mobiles: &[&str], station: &str, plan: LinePlan) -> Result<Vec<Link>, LabError> {
        let second = self.index(station)?;
        let mut ends = Vec::new();
        let mut states = Vec::new();
        for (line, mobile) in mobiles.iter().enumerate() {
            let first = self.index(mobile)?;
            let number = self.links.len() + states.len();
            let devices = [
                self.device(Towards { host: first, peer: second }, number, &states),
                self.device(Towards { host: second, peer: first }, number, &states),
            ];
            ends.push(Ends {
                first: self.tun(first, &devices[0])?.into(),
                second: self.tun(second, &devices[1])?.into(),
            });
            let edge = Edge { first, second, routed: true };
            // The medium is known only when all its lines are.
            states.push((LineId(line), edge, devices));
        }
        let clock = self.emulator.clock();
        // Every medium draws its own numbers, whatever the others carry.
        let seed = self.seed.wrapping_add((self.links.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut medium = Medium::new(vec![plan.config; mobiles.len()], plan.duplex, seed, clock.now());
        for line in (0..mobiles.len()).map(LineId) {
            let now = clock.now();
            medium.schedule(line, plan.schedule.iter().map(|(at, config)| (now + *at, config.clone())).collect());
        }
        let medium = self.emulator.serve(medium, ends);
        let first_link = self.links.len();
        self.links.extend(states.into_iter().map(|(line, edge, devices)| LinkState { medium, line, edge, devices }));
        Ok((first_link..self.links.len()).map(Link).collect())
    }

    /// Changes a line from now on; its schedule counts from now.
    pub fn shape(&self, link: Link, plan: impl Into<LinePlan>) {
        let plan = plan.into();
        let state = &self.links[link.0];
        self.emulator.shape(state.medium, state.line, plan.config, plan.schedule);
    }

    /// The present settings of a line.
    pub fn config(&self, link: Link) -> LineConfig {
        let state = &self.links[link.0];
        self.emulator.config(state.medium, state.line)
    }

    /// Lets a line swallow everything, without anybody being told; or ends that. Its schedule is forgotten.
    pub fn set_state(&self, link: Link, line_state: LineState) {
        let state = &self.links[link.0];
        let config = LineConfig { state: line_state, ..self.config(link) };
        self.emulator.shape(state.medium, state.line, config, Vec::new());
    }

    /// Puts a line into or out of service: routes lead over it, or do not. A host without any route is told so by its kernel.
    ///
    /// # Errors
    /// [`LabError::Tool`] if routes cannot be set.
    pub fn set_service(&mut self, link: Link, service: Service) -> Result<(), LabError> {
        self.links[link.0].edge.routed = service == Service::In;
        self.route()
    }

    /// A host leaves the reach of one line and enters that of another: what is on its way over the old one arrives,
    /// what waits is lost. Addresses stay.
    ///
    /// # Errors
    /// [`LabError::Tool`] if routes cannot be set.
    pub fn hand_over(&mut self, from: Link, to: Link) -> Result<(), LabError> {
        self.set_state(from, LineState::Cut);
        self.set_state(to, LineState::Connected);
        self.links[from.0].edge.routed = false;
        self.links[to.0].edge.routed = true;
        self.route()
    }

    /// Gives a host a processor of its own: programs started there from now on run on this core only; the emulator, and
    /// programs started on other hosts, keep off it. Whoever measures is to run on another. Without a second core nothing
    /// changes.
    ///
    /// # Errors
    /// [`LabError::UnknownHost`].
    pub fn reserve(&mut self, host: &str, core: usize) -> Result<(), LabError> {
        let host = self.index(host)?;
        if core > 0 && core < std::thread::available_parallelism().map_or(1, usize::from) {
            self.hosts[host].core = Some(core);
            self.emulator.avoid(core);
        }
        Ok(())
    }

    /// Lets a host at an end of a line spend so much processor time on each packet that it sends or receives over it: the
    /// overhead `o` of the LogGP model. The time is taken from the host's core if it has one of its own
    /// ([`Self::reserve`], before), else from any. Zero ends that.
    ///
    /// # Errors
    /// [`LabError::UnknownHost`] if the host is at no end of the line.
    pub fn burden(&self, link: Link, host: &str, overhead: Duration) -> Result<(), LabError> {
        let index = self.index(host)?;
        let LinkState { medium, line, edge, .. } = &self.links[link.0];
        let end = match index {
            _ if index == edge.first => End::First,
            _ if index == edge.second => End::Second,
            _ => return Err(LabError::UnknownHost(host.to_owned())),
        };
        self.emulator.burden(*medium, *line, end, Burden { overhead, core: self.hosts[index].core });
        Ok(())
    }

    /// What happened on a line so far.
    pub fn statistics(&self, link: Link) -> LineStatistics {
        let state = &self.links[link.0];
        self.emulator.statistics(state.medium, state.line)
    }

    /// Lets a line draw its losses and bad periods from now on as a new line of this seed would: so runs over one line are
    /// repeatable each by itself.
    pub fn reseed(&self, link: Link, seed: u64) {
        let state = &self.links[link.0];
        self.emulator.reseed(state.medium, state.line, seed);
    }

    /// How late the emulator was over the channel of a line since the last call for it.
    pub(crate) fn take_lateness_of(&self, link: Link) -> Lateness {
        self.emulator.take_lateness_of(self.links[link.0].medium)
    }

    /// How late the emulator was since the last call. A rejected run measured the machine, not the lines.
    pub(crate) fn take_lateness(&self) -> Lateness {
        self.emulator.take_lateness()
    }

    /// Address of a host.
    ///
    /// # Errors
    /// [`LabError::UnknownHost`].
    pub fn address(&self, host: &str) -> Result<Ipv4Addr, LabError> {
        Ok(self.hosts[self.index(host)?].address)
    }

    /// A directory for files of a host's programs; it goes with the topology.
    ///
    /// # Errors
    /// [`LabError::UnknownHost`].
    pub fn directory(&self, host: &str) -> Result<PathBuf, LabError> {
        Ok(self.hosts[self.index(host)?].directory.clone())
    }

    /// The file by which a host's network is entered: `nsenter --net=FILE COMMAND`.
    ///
    /// # Errors
    /// [`LabError::UnknownHost`].
    pub fn network(&self, host: &str) -> Result<PathBuf, LabError> {
        Ok(self.hosts[self.index(host)?].namespace.path().to_owned())
    }

    /// An empty directory to mount something on; mounts are seen by the whole machine.
    ///
    /// # Errors
    /// [`LabError::Io`] if it cannot be made.
    pub fn mount_point(&self, name: &str) -> Result<MountPoint, LabError> {
        let path = self.run.path().join("mounts").join(name);
        std::fs::create_dir_all(&path).map_err(LabError::io(format!("make {}", path.display())))?;
        Ok(MountPoint::new(path))
    }

    /// A disk in memory, seen by the whole machine, that goes when the mount point is dropped.
    ///
    /// # Errors
    /// [`LabError::Io`] if it cannot be made.
    pub(crate) fn memory_disk(&self, name: &str) -> Result<MountPoint, LabError> {
        let disk = self.mount_point(name)?;
        let mounted =
            rustix::mount::mount("tmpfs", disk.path(), "tmpfs", rustix::mount::MountFlags::empty(), c"mode=0700");
        mounted.map_err(|errno| LabError::io("mount a disk in memory")(errno.into()))?;
        Ok(disk)
    }

    /// Sets a kernel parameter of a host, such as `net.ipv4.tcp_sack`.
    ///
    /// # Errors
    /// [`LabError`] if there is no such host or parameter, or the value is none.
    pub fn sysctl(&self, host: &str, name: &str, value: &str) -> Result<(), LabError> {
        self.hosts[self.index(host)?].sysctl(name, value)
    }

    /// Does something with the network of a host, on a thread of its own: sockets made there belong to the host for
    /// good, also when they are used elsewhere.
    ///
    /// # Errors
    /// [`LabError`] if there is no such host.
    pub fn inside<T: Send>(&self, host: &str, action: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        self.hosts[self.index(host)?].namespace.inside(action)
    }

    /// The program `wayfs`, to be given arguments and started on a host: its state, cache, configuration and sockets
    /// are in [`Self::directory`], so that each host is a machine of its own, and it goes by the host's name.
    ///
    /// # Errors
    /// [`LabError`] if there is no such host, or its directories cannot be made.
    pub fn wayfs(&self, host: &str, program: &Path) -> Result<Command, LabError> {
        let own = self.directory(host)?;
        let mut command = Command::new(program);
        for (variable, name) in [
            ("XDG_STATE_HOME", "state"),
            ("XDG_CACHE_HOME", "cache"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_RUNTIME_DIR", "run"),
            ("HOME", "home"),
        ] {
            let directory = own.join(name);
            std::fs::create_dir_all(&directory).map_err(LabError::io(format!("make {}", directory.display())))?;
            command.env(variable, directory);
        }
        for variable in ["WAYFS_TICKET", "WAYFS_AT", "WAYFS_CONFIG"] {
            command.env_remove(variable);
        }
        command.env("WAYFS_HOST", host).current_dir(own.join("home"));
        Ok(command)
    }

    /// Starts a program on a host, in a process group of its own. Its output goes to `HOST-LABEL.log`.
    ///
    /// # Errors
    /// [`LabError`] if there is no such host or program.
    pub fn spawn(&self, host: &str, label: &str, mut command: Command) -> Result<Process, LabError> {
        std::fs::create_dir_all(&self.logs).map_err(LabError::io(format!("make {}", self.logs.display())))?;
        let path = self.logs.join(format!("{host}-{label}.log"));
        let doing = || format!("write {}", path.display());
        let out = File::options().create(true).append(true).open(&path).map_err(LabError::io(doing()))?;
        let err = out.try_clone().map_err(LabError::io(doing()))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0).env(MARK, self.run.mark());
        let child = self
            .started(host, &mut command)?
            .map_err(LabError::io(format!("start {:?} on {host}", command.get_program())))?;
        Ok(Process::new(child, format!("{label} on {host}"), path))
    }

    /// Runs a program on a host to its end and gives what it wrote. After `within` it is killed.
    ///
    /// # Errors
    /// [`LabError`] if there is no such host or program, or it did not end in time. How it ended is for the caller to judge.
    pub fn run(&self, host: &str, mut command: Command, within: Duration) -> Result<Output, LabError> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0).env(MARK, self.run.mark());
        let label = format!("{:?} on {host}", command.get_program());
        let child = self.started(host, &mut command)?.map_err(LabError::io(format!("start {label}")))?;
        let pid = rustix::process::Pid::from_child(&child);
        let waiter = std::thread::spawn(move || child.wait_with_output());
        let start = Instant::now();
        while !waiter.is_finished() {
            if start.elapsed() > within {
                let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
                return Err(LabError::TimedOut { what: format!("the end of {label}"), within });
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        waiter.join().expect("waiting does not panic").map_err(LabError::io(format!("wait for {label}")))
    }

    /// A program inside a host: in its network, and on its core if it has one.
    fn started(&self, host: &str, command: &mut Command) -> Result<std::io::Result<Child>, LabError> {
        let core = self.hosts[self.index(host)?].core;
        let reserved: Vec<usize> = self.hosts.iter().filter_map(|host| host.core).collect();
        self.inside(host, || {
            match core {
                Some(core) => cores::pin(core)?,
                None => reserved.into_iter().for_each(cores::avoid),
            }
            Ok(command.spawn())
        })?
    }

    fn index(&self, name: &str) -> Result<usize, LabError> {
        self.hosts.iter().position(|host| host.name == name).ok_or_else(|| LabError::UnknownHost(name.to_owned()))
    }

    /// A free name for the device of a new line at a host.
    fn device(&self, Towards { host, peer }: Towards, number: usize, new: &[(LineId, Edge, [String; 2])]) -> String {
        let old = self.links.iter().map(|link| (&link.edge, &link.devices));
        let all = old.chain(new.iter().map(|(_, edge, devices)| (edge, devices)));
        let taken: Vec<&str> = all
            .flat_map(|(edge, devices)| [(edge.first, devices[0].as_str()), (edge.second, devices[1].as_str())])
            .filter_map(|(at, device)| (at == host).then_some(device))
            .collect();
        device_name(&self.hosts[peer].name, number, &taken)
    }

    fn tun(&self, host: usize, name: &str) -> Result<Tun, LabError> {
        let host = &self.hosts[host];
        let tun = host.namespace.inside(|| Tun::create(name))??;
        host.ip(&[format!("link set {name} mtu {MTU} txqueuelen {DEVICE_QUEUE} up")])?;
        Ok(tun)
    }

    /// Brings the routes of all hosts up to date.
    pub(crate) fn route(&mut self) -> Result<(), LabError> {
        let edges: Vec<Edge> = self.links.iter().map(|link| link.edge).collect();
        let addresses: Vec<Ipv4Addr> = self.hosts.iter().map(|host| host.address).collect();
        for (index, host) in self.hosts.iter_mut().enumerate() {
            let wanted = routes(index, &edges);
            let mut lines = Vec::new();
            for to in host.routes.keys().filter(|to| !wanted.contains_key(to)) {
                lines.push(format!("route del {}/32", addresses[*to]));
            }
            for (to, link) in wanted.iter().filter(|(to, link)| host.routes.get(to) != Some(link)) {
                let link = &self.links[*link];
                let device = &link.devices[usize::from(link.edge.first != index)];
                lines.push(format!("route replace {}/32 dev {device} src {}", addresses[*to], host.address));
            }
            host.ip(&lines)?;
            host.routes = wanted;
        }
        Ok(())
    }
}

/// Whether routes lead over a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// They may.
    In,
    /// They do not.
    Out,
}
