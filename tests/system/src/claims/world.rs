//! A home, two stations and three clients as real processes, each with a disk that can be lost.

use super::diary::Diary;
use super::disaster::Kind;
use super::disk::{Disk, HOME, Moment};
use super::hearsay::Listener;
use super::loop_disk::LoopDisk;
use super::run::Plan;
use crate::process::{Finished, run_for};
use crate::wait::eventually;
use crate::{Machine, Mount, Server, free_port};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Longest time for one command, on a busy machine: a command that takes longer hangs.
pub(super) const COMMAND: Duration = Duration::from_secs(300);

/// An older copy of a machine's data, beside it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Copy {
    /// When it was made.
    pub(super) made: Moment,
}

/// A server and its machine.
#[derive(Debug)]
pub(super) struct Site {
    /// `None`: its process is dead, its disk is there.
    pub(super) server: Option<Server>,
    pub(super) port: u16,
    pub(super) disk: Disk,
    pub(super) copy: Option<Copy>,
    pub(super) small: Option<LoopDisk>,
    /// Last: its directories go when all that is mounted in them has gone.
    pub(super) machine: Machine,
}

/// A mount and its machine.
#[derive(Debug)]
pub(super) struct Client {
    /// `None`: its process is dead, its disk is there.
    pub(super) mount: Option<Mount>,
    /// Reads its events.
    pub(super) listener: Option<Listener>,
    pub(super) disk: Disk,
    pub(super) copy: Option<Copy>,
    pub(super) small: Option<LoopDisk>,
    pub(super) is_offline: bool,
    /// The port of the server that it was told to use.
    pub(super) chosen: Option<u16>,
    pub(super) machine: Machine,
}

impl Client {
    /// Runs a tool against its mount.
    pub(super) fn tool(&self, arguments: &[&str]) -> Finished {
        let mount = self.mount.as_ref().expect("only asked of clients that run");
        run_for(COMMAND, self.machine.command().env("WAYFS_AT", mount.root()).args(arguments))
    }

    pub(super) fn runs(&self) -> bool {
        self.mount.is_some()
    }
}

impl Site {
    /// Runs a tool against the server.
    pub(super) fn tool(&self, arguments: &[&str]) -> Finished {
        let server = self.server.as_ref().expect("only asked of servers that run");
        run_for(COMMAND, self.machine.command().env("WAYFS_AT", &server.data).args(arguments))
    }

    pub(super) fn kill(&mut self) {
        self.server = None;
    }

    pub(super) fn start(&mut self) {
        if self.server.is_none() {
            self.server = Some(self.machine.serve(self.port, &[]));
        }
    }
}

/// All of it.
#[derive(Debug)]
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) random: StdRng,
    pub(super) diary: Diary,
    pub(super) home: Site,
    pub(super) stations: Vec<Site>,
    pub(super) clients: Vec<Client>,
    /// Disks by the name of their machine, those that are lost included.
    names: BTreeMap<String, Disk>,
    disks: u32,
    has_small_disks: bool,
    /// Who has not heard of the home since it was put back.
    deaf: BTreeMap<Disk, Instant>,
}

/// Whose word it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Speaker {
    Client(usize),
    /// A station, or, beyond the last, the home.
    Server(usize),
}

impl World {
    /// Starts everything.
    pub(super) fn new(seed: u64, plan: &Plan, diary: Diary) -> Self {
        let machine = Machine::new("home0");
        let port = free_port();
        let server = machine.serve(port, &[]);
        run_for(COMMAND, machine.command().env("WAYFS_AT", &server.data).args(["volume", "create", "work"])).ok();
        let disk = HOME;
        let home = Site { server: Some(server), port, disk, copy: None, small: None, machine };
        let mut world = Self {
            seed,
            random: StdRng::seed_from_u64(seed),
            diary,
            home,
            stations: Vec::new(),
            clients: Vec::new(),
            names: BTreeMap::from([("home0".to_owned(), disk)]),
            disks: 1,
            has_small_disks: plan.kinds.contains(&Kind::PowerCut),
            deaf: BTreeMap::new(),
        };
        for _ in 0..plan.stations {
            let station = world.new_station();
            world.stations.push(station);
        }
        for _ in 0..plan.clients {
            let client = world.new_client();
            world.clients.push(client);
        }
        world
    }

    fn new_disk(&mut self, kind: &str) -> (Machine, Disk) {
        let disk = Disk::new(self.disks);
        let name = format!("{kind}{}", self.disks);
        self.disks += 1;
        self.names.insert(name.clone(), disk);
        self.diary.note(format!("{name} comes with {disk}"));
        (Machine::new(&name), disk)
    }

    /// Some machines have a small disk, which can be filled and can lose power.
    fn small_disk(&mut self, machine: &Machine, directory: &str, chance: f64) -> Option<LoopDisk> {
        let wanted = self.has_small_disks && self.random.random_bool(chance);
        if !wanted {
            return None;
        }
        let disk = LoopDisk::new(machine.path("disk"), machine.path(directory));
        if disk.is_none() {
            println!("skipped: this machine has no loop devices that we may use");
            self.has_small_disks = false;
        }
        disk
    }

    /// A station on a machine of its own; the home runs.
    pub(super) fn new_station(&mut self) -> Site {
        let (machine, disk) = self.new_disk("station");
        let small = self.small_disk(&machine, "data", 0.25);
        let port = free_port();
        let server = machine.serve(port, &[]);
        let ticket = self.home.tool(&["volume", "ticket", "work", "--station"]).ok().out.trim().to_owned();
        let mut join = machine.command();
        run_for(COMMAND, join.env("WAYFS_AT", &server.data).args(["station", "join", &ticket])).ok();
        Site { server: Some(server), port, disk, copy: None, small, machine }
    }

    /// A client on a machine of its own; the home runs.
    pub(super) fn new_client(&mut self) -> Client {
        let (machine, disk) = self.new_disk("client");
        let small = self.small_disk(&machine, "cache", 0.5);
        let ticket = self.home.tool(&["volume", "ticket", "work"]).ok().out.trim().to_owned();
        let mount = machine.mount(&ticket, &[]);
        let listener = Some(Listener::new(&machine, mount.root()));
        let mut client =
            Client { mount: Some(mount), listener, disk, copy: None, small, is_offline: false, chosen: None, machine };
        self.choose_station(&mut client);
        client
    }

    /// A client that is a clone of another's cache.
    pub(super) fn new_clone(&mut self, of: usize) -> Client {
        let (machine, disk) = self.new_disk("clone");
        std::fs::remove_dir(machine.path("cache")).expect("a fresh cache is empty");
        let original = &self.clients[of];
        paused(original.mount.as_ref().map(|mount| &mount.process), || {
            copy(&original.machine.path("cache"), &machine.path("cache"));
        });
        let mount = machine.mount("work", &[]);
        let listener = Some(Listener::new(&machine, mount.root()));
        let small = None;
        Client { mount: Some(mount), listener, disk, copy: None, small, is_offline: false, chosen: None, machine }
    }

    /// Has a client use a station, the home, or the best.
    pub(super) fn choose_station(&mut self, client: &mut Client) {
        let ports: Vec<u16> = self.stations.iter().chain([&self.home]).map(|site| site.port).collect();
        let pick = self.random.random_range(0..=ports.len());
        client.chosen = ports.get(pick).copied();
        let wanted = client.chosen.map_or_else(|| "auto".to_owned(), |port| format!("127.0.0.1:{port}"));
        self.diary.note(format!("{} uses {wanted}", client.disk));
        let end = Instant::now() + Duration::from_secs(20);
        // A client hears of a station some moments after it joined; of one that died before, it never hears.
        while !client.tool(&["station", "use", &wanted]).status.success() {
            if Instant::now() > end {
                client.chosen = None;
                client.tool(&["station", "use", "auto"]);
                return;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// The disks of all servers that are not lost.
    pub(super) fn servers(&self) -> BTreeSet<Disk> {
        self.stations.iter().chain([&self.home]).map(|site| site.disk).collect()
    }

    /// The disk of a machine, by a label `USER@HOST`.
    pub(super) fn disk_of(&self, label: &str) -> Option<Disk> {
        self.names.get(label.rsplit('@').next().unwrap_or_default()).copied()
    }

    /// A client that runs, by chance.
    pub(super) fn some_client(&mut self) -> Option<usize> {
        let running: Vec<usize> = (0..self.clients.len()).filter(|at| self.clients[*at].runs()).collect();
        (!running.is_empty()).then(|| running[self.random.random_range(0..running.len())])
    }

    /// The home has what it had at a moment, and serves. What others say of it before they hear it again is what it told them
    /// before, and nobody can know better (SEMANTICS.md, [S-home-put-back]): it is no claim.
    pub(super) fn home_is_put_back(&mut self, to: Moment) {
        self.diary.put_home_back(self.home.disk, to);
        self.home.start();
        let (now, stations) = (Instant::now(), self.stations.iter().map(|site| site.disk));
        self.deaf = stations.chain(self.clients.iter().map(|client| client.disk)).map(|disk| (disk, now)).collect();
    }

    /// A station's disk is lost. A client that is offline says what it was told by it until it has heard of the home again, and
    /// cannot know better.
    pub(super) fn station_is_lost(&mut self) {
        let now = Instant::now();
        self.deaf.extend(self.clients.iter().filter(|client| client.is_offline).map(|client| (client.disk, now)));
    }

    /// Whether a client is not known to have heard of the home since it was put back, or a station was lost.
    pub(super) fn is_deaf(&self, at: usize) -> bool {
        self.deaf.contains_key(&self.clients[at].disk)
    }

    /// Whether somebody has heard of the home since it was put back, by its own word.
    pub(super) fn hears_the_home(&mut self, who: Speaker) -> bool {
        let (disk, answer) = match who {
            Speaker::Client(at) => {
                let client = &self.clients[at];
                (client.disk, self.deaf.contains_key(&client.disk).then(|| client.tool(&["status", "--json"])))
            }
            Speaker::Server(at) => {
                let Some(site) = self.stations.get(at) else { return true };
                (site.disk, self.deaf.contains_key(&site.disk).then(|| site.tool(&["status", "--json"])))
            }
        };
        let (Some(answer), Some(since)) = (answer, self.deaf.get(&disk)) else { return true };
        let silent = answer.status.success().then(|| answer.json()[0]["volumes"][0]["home_seen_ms"].as_u64()).flatten();
        let hears = silent.is_some_and(|silent| Duration::from_millis(silent) < since.elapsed());
        if hears {
            self.deaf.remove(&disk);
            self.diary.note(format!("{disk} hears the home"));
        }
        hears
    }

    /// Whether all have, that run.
    pub(super) fn all_hear_the_home(&mut self) -> bool {
        (0..self.clients.len()).all(|at| !self.clients[at].runs() || self.hears_the_home(Speaker::Client(at)))
    }

    /// All processes run, all clients connect as they like, all disks have room.
    pub(super) fn heal(&mut self) {
        self.diary.note("heal".to_owned());
        for site in self.stations.iter_mut().chain([&mut self.home]) {
            if site.small.as_ref().is_some_and(LoopDisk::empty) {
                self.diary.fill(site.disk);
            }
            site.start();
        }
        for at in 0..self.clients.len() {
            if self.clients[at].small.as_ref().is_some_and(LoopDisk::empty) {
                self.diary.fill(self.clients[at].disk);
            }
            self.start_client(at);
            let client = &mut self.clients[at];
            client.tool(&["auto"]);
            client.is_offline = false;
            let is_there = |port| self.stations.iter().chain([&self.home]).any(|site| site.port == port);
            if client.chosen.is_some_and(|port| !is_there(port)) {
                client.chosen = None;
                client.tool(&["station", "use", "auto"]);
            }
        }
    }

    /// Removes from the volume every machine whose disk is gone, as its owner would. The home must run.
    ///
    /// A home that was put back has forgotten whom it had removed, so all are looked at each time.
    pub(super) fn revoke_gone(&mut self) {
        let members = self.home.tool(&["volume", "members", "work", "--json"]).ok().json();
        let living = self.living_nodes();
        let is_gone = |label: &str| self.disk_of(label).is_some_and(|disk| !self.has(disk));
        let gone: Vec<String> = members["members"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|member| member["role"] != "revoked" && member["label"].as_str().is_some_and(is_gone))
            .filter_map(|member| member["node"].as_str())
            // A clone goes by the name of what it was copied from.
            .filter(|node| !living.contains(*node))
            .map(str::to_owned)
            .collect();
        for node in gone {
            self.diary.note(format!("revoke {node}"));
            // It may be refused: the home was put back meanwhile, and does not know it.
            self.home.tool(&["volume", "revoke", "work", &node]);
        }
        self.diary.break_silence();
    }

    /// Whether a machine with this disk is there, be it running or not.
    fn has(&self, disk: Disk) -> bool {
        self.servers().contains(&disk) || self.clients.iter().any(|client| client.disk == disk)
    }

    /// Node ids of all that run.
    fn living_nodes(&self) -> BTreeSet<String> {
        let servers = self.stations.iter().filter(|site| site.server.is_some());
        let servers = servers.map(|site| site.tool(&["status", "--json"]));
        let clients = self.clients.iter().filter(|client| client.runs());
        let answers = servers.chain(clients.map(|client| client.tool(&["status", "--json"])));
        let answers: Vec<serde_json::Value> = answers.map(|answer| answer.ok().json()).collect();
        answers.iter().filter_map(|answer| answer[0]["node"].as_str().map(str::to_owned)).collect()
    }

    /// Mounts again what was killed.
    pub(super) fn start_client(&mut self, at: usize) {
        let client = &mut self.clients[at];
        if client.mount.is_none() {
            let mount = client.machine.mount("work", &[]);
            client.listener = Some(Listener::new(&client.machine, mount.root()));
            client.mount = Some(mount);
        }
    }

    /// SIGKILL of a mount's daemon.
    pub(super) fn kill_client(&mut self, at: usize) {
        let client = &mut self.clients[at];
        self.diary.note(format!("kill client of {}", client.disk));
        client.listener = None;
        if let Some(mut mount) = client.mount.take() {
            mount.kill();
        }
        self.diary.crash(client.disk);
    }
}

/// Does something while a process stands still, as a snapshot of a virtual machine is made.
pub(super) fn paused<T>(process: Option<&crate::Process>, work: impl FnOnce() -> T) -> T {
    use rustix::process::Signal;
    if let Some(process) = process {
        process.signal(Signal::STOP);
        eventually("the process stands still", Duration::from_secs(20), || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.id())).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with(['T', 'Z', 'X']) || rest.is_empty())
        });
    }
    let value = work();
    if let Some(process) = process {
        process.signal(Signal::CONT);
    }
    value
}

/// Copies a directory as it is.
pub(super) fn copy(from: &std::path::Path, to: &std::path::Path) {
    let _ = std::fs::remove_dir_all(to);
    run_for(COMMAND, std::process::Command::new("cp").arg("-a").arg("--sparse=always").arg(from).arg(to)).ok();
}
