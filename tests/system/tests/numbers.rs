//! One set of numbers across machines: what clients, stations and the home say of one moment agrees with each other, with what
//! was written, and with what is on the disks of others.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port};

/// Longest time for news to cross, and for numbers to come to rest, on a busy machine.
const SEEN: Duration = Duration::from_secs(90);
/// How often numbers are compared in one world.
const ROUNDS: usize = 8;

/// Updates, versions and bytes.
type Amount = (u64, u64, u64);

struct Client {
    // It ends before its machine: that removes its directory, and with it what a mount there shows.
    mount: Mount,
    machine: Machine,
    is_offline: bool,
    /// Bytes that it wrote since it went offline.
    offline_bytes: u64,
    station: usize,
}

struct Fleet {
    home: (Machine, Server),
    is_home_up: bool,
    stations: Vec<(Machine, Server)>,
    clients: Vec<Client>,
    random: StdRng,
    /// Contents of all files.
    written: BTreeMap<String, Vec<u8>>,
}

fn part(ledger: &Value, name: &str) -> Amount {
    let number = |field: &str| ledger[name][field].as_u64().unwrap_or(0);
    (number("records"), number("versions"), number("bytes"))
}

fn plus(one: Amount, other: Amount) -> Amount {
    (one.0 + other.0, one.1 + other.1, one.2 + other.2)
}

fn ledger(report: &Value) -> Value {
    report[0]["volumes"][0]["ledger"].clone()
}

impl Fleet {
    fn new(seed: u64) -> Self {
        let machine = Machine::new("home");
        let server = machine.serve(free_port(), &[]);
        server.wayfs(&machine, &["volume", "create", "work"]).ok();
        let home = (machine, server);
        let (mut stations, mut clients) = (Vec::new(), Vec::new());
        for number in 0..2 {
            let machine = Machine::new(&format!("station{number}"));
            let station = machine.serve(free_port(), &[]);
            station.wayfs(&machine, &["station", "join", &home.1.station_ticket(&home.0, "work")]).ok();
            stations.push((machine, station));
        }
        for number in 0..3 {
            let machine = Machine::new(&format!("client{number}"));
            let mount = machine.mount(&home.1.ticket(&home.0, "work"), &[]);
            let station = number % 2;
            let address = format!("127.0.0.1:{}", stations[station].1.port);
            eventually("the client uses its station", SEEN, || {
                mount.wayfs(&machine, &["station", "use", &address]).status.success()
                    && mount.wayfs(&machine, &["station", "why", "--json"]).json()["chosen"]
                        .as_str()
                        .is_some_and(|name| name.contains(&format!("station{station}")))
            });
            // Whether a name is free can be told offline only of a directory that was listed before.
            assert_eq!(fs::read_dir(mount.root()).unwrap().count(), 0);
            clients.push(Client { machine, mount, is_offline: false, offline_bytes: 0, station });
        }
        Self {
            home,
            is_home_up: true,
            stations,
            clients,
            random: StdRng::seed_from_u64(seed),
            written: BTreeMap::new(),
        }
    }

    /// A few new files at a client: some go within their records, some as contents of their own.
    fn write(&mut self, at: usize) {
        for _ in 0..self.random.random_range(1..4) {
            let name = format!("file-{}", self.written.len());
            let len = if self.random.random_bool(0.5) { 300 } else { self.random.random_range(300_000..900_000) };
            let bytes: Vec<u8> = (0..len).map(|_| self.random.random()).collect();
            let client = &mut self.clients[at];
            fs::write(client.mount.path(&name), &bytes).unwrap();
            fs::File::open(client.mount.path(&name)).unwrap().sync_all().unwrap();
            if client.is_offline {
                client.offline_bytes += bytes.len() as u64;
            }
            self.written.insert(name, bytes);
        }
    }

    /// Something changes: the home goes or comes, a client goes offline or comes back, clients write.
    fn happen(&mut self) {
        match self.random.random_range(0..4) {
            0 if self.is_home_up => {
                self.home.1.process.kill();
                self.is_home_up = false;
            }
            0 => self.start_home(),
            1 => {
                let at = self.random.random_range(0..self.clients.len());
                self.switch(at);
            }
            _ => {}
        }
        for _ in 0..2 {
            let at = self.random.random_range(0..self.clients.len());
            self.write(at);
        }
    }

    fn start_home(&mut self) {
        self.home.1 = self.home.0.serve(self.home.1.port, &[]);
        self.is_home_up = true;
    }

    fn switch(&mut self, at: usize) {
        let client = &mut self.clients[at];
        client.offline_bytes = 0;
        if !client.is_offline {
            // Whatever it wrote is at its station when it goes.
            client.mount.sync(&client.machine, "safe");
        }
        client.is_offline = !client.is_offline;
        let word = if client.is_offline { "offline" } else { "auto" };
        client.mount.wayfs(&client.machine, &[word]).ok();
    }

    fn of_client(&self, at: usize) -> Value {
        let client = &self.clients[at];
        ledger(&client.mount.wayfs(&client.machine, &["status", "--json"]).ok().json())
    }

    fn of_server((machine, server): &(Machine, Server)) -> Value {
        ledger(&server.wayfs(machine, &["status", "--json"]).ok().json())
    }

    /// The first figures that do not agree; `None`: all do.
    fn disagreement(&self) -> Option<String> {
        let clients: Vec<Value> = (0..self.clients.len()).map(|at| self.of_client(at)).collect();
        let stations: Vec<Value> = self.stations.iter().map(Self::of_server).collect();
        let sum = |name: &str, of: &[Value]| of.iter().fold((0, 0, 0), |all, one| plus(all, part(one, name)));
        for (client, said) in self.clients.iter().zip(&clients) {
            let (_, _, bytes) = part(said, "not_safe");
            let expected = if client.is_offline { client.offline_bytes } else { 0 };
            if bytes != expected {
                return Some(format!("only at a client: {expected} bytes were written, it says {said}"));
            }
            let both = plus(part(said, "not_safe"), part(said, "at_station"));
            if both != part(said, "home_lacks") {
                return Some(format!("a client's parts are not its whole: {said}"));
            }
        }
        // What was at the station when a client went offline it cannot know any more.
        let all_are_online = self.clients.iter().all(|client| !client.is_offline);
        for (number, said) in stations.iter().enumerate().filter(|_| all_are_online) {
            let own = self.clients.iter().zip(&clients).filter(|(client, _)| client.station == number);
            let own: Vec<Value> = own.map(|(_, said)| said.clone()).collect();
            if sum("at_station", &own).2 != part(said, "at_station").2 {
                return Some(format!("station {number} says {said}, its clients {own:?}"));
            }
        }
        if self.is_home_up {
            let home = Self::of_server(&self.home);
            let (_, versions, bytes) = part(&home, "home_lacks");
            let there = sum("at_station", &stations);
            if (versions, bytes) != (there.1, there.2) {
                return Some(format!("the home says {home}, the stations {stations:?}"));
            }
        }
        None
    }

    /// At a quiet moment all agree; while something is under way they may differ for as long as it takes.
    fn compare(&self, round: usize) {
        let end = Instant::now() + SEEN;
        while let Some(why) = self.disagreement() {
            assert!(Instant::now() < end, "round {round}, home up: {}: {why}", self.is_home_up);
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Proves [S-one-account]: with a home that comes and goes, two stations and three clients of which some are offline.
#[test]
fn what_machines_say_of_one_moment_agrees_and_is_on_the_disks_of_others() {
    let mut fleet = Fleet::new(41);
    for round in 0..ROUNDS {
        fleet.happen();
        fleet.compare(round);
    }
    if !fleet.is_home_up {
        fleet.start_home();
    }
    for at in 0..fleet.clients.len() {
        if fleet.clients[at].is_offline {
            fleet.switch(at);
        }
        fleet.clients[at].mount.sync(&fleet.clients[at].machine, "stable");
    }
    eventually("nobody says that anything is left", SEEN, || {
        let clients = (0..fleet.clients.len()).map(|at| fleet.of_client(at));
        let servers = fleet.stations.iter().chain([&fleet.home]).map(Fleet::of_server);
        clients
            .chain(servers)
            .all(|said| ["not_safe", "at_station", "home_lacks"].iter().all(|name| part(&said, name) == (0, 0, 0)))
    });
    // Then the home's disk has it: all others lose theirs.
    fleet.clients.clear();
    fleet.stations.clear();
    let reader = Machine::new("reader");
    let mount = reader.mount(&fleet.home.1.ticket(&fleet.home.0, "work"), &[]);
    assert_eq!(fs::read_dir(mount.root()).unwrap().count(), fleet.written.len());
    for (name, bytes) in &fleet.written {
        assert!(fs::read(mount.path(name)).unwrap() == *bytes, "{name} differs");
    }
}
