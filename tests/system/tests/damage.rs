//! Files of a data directory that a disk damaged: each daemon says so, names the way on, and what others have comes back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port, run_for};

/// Longest time for news to cross, on a busy machine.
const SEEN: Duration = Duration::from_secs(40);

/// A home, a station, and a client that uses the station.
struct Fleet {
    home: (Machine, Server),
    station: (Machine, Server),
    client: (Machine, Mount),
}

impl Fleet {
    fn new() -> Self {
        let machine = Machine::new("home");
        let server = machine.serve(free_port(), &[]);
        server.wayfs(&machine, &["volume", "create", "work"]).ok();
        let near = Machine::new("station");
        let station = near.serve(free_port(), &[]);
        let ticket = server.station_ticket(&machine, "work");
        station.wayfs(&near, &["station", "join", &ticket]).ok();
        let laptop = Machine::new("a");
        let mount = laptop.mount(&server.ticket(&machine, "work"), &[]);
        let fleet = Self { home: (machine, server), station: (near, station), client: (laptop, mount) };
        fleet.use_station();
        fleet
    }

    fn use_station(&self) {
        let (laptop, mount) = &self.client;
        let port = self.station.1.port.to_string();
        eventually("the client uses the station", SEEN, || {
            mount.wayfs(laptop, &["station", "use", &format!("127.0.0.1:{port}")]).status.success()
                && mount.wayfs(laptop, &["status", "--json"]).out.contains(&port)
        });
    }

    fn write(&self, prefix: &str, count: usize) -> BTreeSet<String> {
        let names: BTreeSet<String> = (0..count).map(|number| format!("{prefix}-{number}")).collect();
        for name in &names {
            fs::write(self.client.1.path(name), name).unwrap();
            fs::File::open(self.client.1.path(name)).unwrap().sync_all().unwrap();
        }
        names
    }

    /// Twelve files, of which all have everything, in several batches.
    fn write_some(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for round in 0..6 {
            all.extend(self.write(&format!("file-{round}"), 2));
            self.sync();
        }
        all
    }

    fn sync(&self) {
        self.client.1.sync(&self.client.0, "stable");
    }

    /// A fresh client of the home sees exactly these files.
    fn assert_home_has(&self, names: &BTreeSet<String>) {
        let machine = Machine::new("reader");
        let reader = machine.mount(&self.home.1.ticket(&self.home.0, "work"), &[]);
        assert_has(&reader, names);
    }
}

fn listed(mount: &Mount) -> BTreeSet<String> {
    fs::read_dir(mount.root()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn assert_has(mount: &Mount, names: &BTreeSet<String>) {
    eventually(&format!("exactly {} names are seen, and read", names.len()), SEEN, || {
        *names == listed(mount)
            && names.iter().all(|name| fs::read_to_string(mount.path(name)).is_ok_and(|text| text == *name))
    });
}

/// The store of the one volume of a server.
fn store_of(server: &Server) -> PathBuf {
    let mut volumes = fs::read_dir(server.data.join("volumes")).unwrap();
    volumes.next().unwrap().unwrap().path().join("store")
}

/// Changes a bit of the checksum over a batch in the last third of the newest file of the log: nothing else tells.
fn damage_journal(store: &Path) {
    let mut files: Vec<PathBuf> =
        fs::read_dir(store.join("meta/log")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let file = files.pop().expect("a file of the log");
    let mut bytes = fs::read(&file).unwrap();
    let heads: Vec<usize> =
        bytes.windows(4).enumerate().filter(|(_, four)| four == b"WBat").map(|(at, _)| at).collect();
    // Whoever is a member by now was admitted before it.
    assert!(heads.len() > 9, "{} batches in {}", heads.len(), file.display());
    bytes[heads[heads.len() * 2 / 3] + 30] ^= 4;
    fs::write(&file, bytes).unwrap();
}

/// Every table becomes nonsense.
fn destroy_tables(store: &Path) {
    fs::write(store.join("meta/index/current"), "gone").unwrap();
}

fn repair(machine: &Machine, place: &Path, yes: bool) -> (i32, serde_json::Value) {
    let place = place.to_str().unwrap();
    let more: &[&str] = if yes { &["--yes"] } else { &[] };
    let finished = machine.wayfs(&[&["--json", "doctor", "--repair", place][..], more].concat());
    (finished.code(), finished.json())
}

fn only_volume(report: &serde_json::Value) -> &serde_json::Value {
    &report[0]["volumes"][0]
}

/// [S-damage] A home's log has a flipped bit that only the checksum over a batch sees.
#[test]
fn a_home_whose_journal_is_damaged_learns_the_rest_from_others() {
    let mut fleet = Fleet::new();
    let all = fleet.write_some();
    fleet.home.1.process.kill();
    damage_journal(&store_of(&fleet.home.1));
    // It says so, and serves on.
    fleet.home.1 = fleet.home.0.serve(fleet.home.1.port, &[]);
    let said = fleet.home.1.wayfs(&fleet.home.0, &["status", "--json"]).ok().out;
    assert!(said.contains("--accept-loss work") && said.contains("doctor --repair"), "{said}");
    let in_use = fleet.home.0.wayfs(&["doctor", "--repair", fleet.home.1.data.to_str().unwrap()]);
    assert_eq!(in_use.code(), 5, "a running server's files are left alone: {}", in_use.err);
    fleet.home.1.process.kill();
    fleet.home.1 = fleet.home.0.serve(fleet.home.1.port, &["--accept-loss", "work"]);
    fleet.assert_home_has(&all);
    let later = fleet.write("later", 3);
    fleet.sync();
    fleet.assert_home_has(&all.union(&later).cloned().collect());
}

/// [S-damage] The same at a station, by `wayfs doctor --repair`: first it says what it would do, then it does it.
#[test]
fn a_station_whose_journal_is_damaged_is_repaired() {
    let mut fleet = Fleet::new();
    let all = fleet.write_some();
    fleet.station.1.process.kill();
    damage_journal(&store_of(&fleet.station.1));
    let (code, said) = repair(&fleet.station.0, &fleet.station.1.data, false);
    assert_eq!((code, only_volume(&said)["state"].as_str()), (1, Some("damaged")), "{said}");
    assert!(only_volume(&said)["files"][0]["lost"].as_str().unwrap().contains("batch"), "{said}");
    let (code, again) = repair(&fleet.station.0, &fleet.station.1.data, false);
    assert_eq!((code, &again), (1, &said), "a look changes nothing");
    let (code, said) = repair(&fleet.station.0, &fleet.station.1.data, true);
    assert_eq!((code, only_volume(&said)["state"].as_str()), (0, Some("repaired")), "{said}");
    let (code, said) = repair(&fleet.station.0, &fleet.station.1.data, false);
    assert_eq!((code, only_volume(&said)["state"].as_str()), (0, Some("whole")), "{said}");
    fleet.station.1 = fleet.station.0.serve(fleet.station.1.port, &[]);
    goes_on_at_the_station(&fleet, all);
}

/// [S-damage] A station whose tables cannot be read at all begins with empty ones.
#[test]
fn a_station_whose_tables_are_gone_learns_all_from_its_home() {
    let mut fleet = Fleet::new();
    let all = fleet.write_some();
    fleet.station.1.process.kill();
    destroy_tables(&store_of(&fleet.station.1));
    let (code, said) = repair(&fleet.station.0, &fleet.station.1.data, true);
    assert_eq!((code, only_volume(&said)["state"].as_str()), (0, Some("repaired")), "{said}");
    assert!(only_volume(&said)["files"][0]["lost"].as_str().unwrap().starts_with("all metadata"), "{said}");
    fleet.station.1 = fleet.station.0.serve(fleet.station.1.port, &[]);
    goes_on_at_the_station(&fleet, all);
}

/// A home whose tables are gone is not begun anew: the way on is a backup, or a station.
#[test]
fn a_home_whose_tables_are_gone_names_the_ways_on() {
    let machine = Machine::new("home");
    let mut server = machine.serve(free_port(), &[]);
    server.wayfs(&machine, &["volume", "create", "work"]).ok();
    server.process.kill();
    destroy_tables(&store_of(&server));
    let (code, said) = repair(&machine, &server.data, true);
    assert_eq!((code, only_volume(&said)["state"].as_str()), (6, Some("hopeless")), "{said}");
    let next = only_volume(&said)["next_step"].as_str().unwrap();
    assert!(next.contains("wayfs volume restore") && next.contains("wayfs volume promote work"), "{next}");
    assert!(!store_of(&server).join("damaged/meta").exists(), "nothing was touched");
}

fn goes_on_at_the_station(fleet: &Fleet, mut all: BTreeSet<String>) {
    fleet.use_station();
    all.extend(fleet.write("later", 3));
    fleet.sync();
    fleet.assert_home_has(&all);
    assert_has(&fleet.client.1, &all);
    let machine = Machine::new("neighbour");
    let neighbour = machine.mount(&fleet.home.1.ticket(&fleet.home.0, "work"), &[]);
    eventually("a fresh client uses the station", SEEN, || {
        neighbour.wayfs(&machine, &["station", "use", &format!("127.0.0.1:{}", fleet.station.1.port)]).status.success()
    });
    assert_has(&neighbour, &all);
}

/// [S-damage] A mount whose cache is damaged does not start, says what to do, and goes on after a repair.
#[test]
fn a_cache_whose_journal_is_damaged_is_repaired() {
    cache_is_repaired(damage_journal);
}

/// [S-damage]
#[test]
fn a_cache_whose_tables_are_gone_is_repaired() {
    cache_is_repaired(destroy_tables);
}

fn cache_is_repaired(damage: fn(&Path)) {
    let mut fleet = Fleet::new();
    let mut all = fleet.write_some();
    fleet.client.1.kill();
    damage(&fleet.client.0.cache_of("work").join("volume"));
    let mut mount = fleet.client.0.command();
    mount.args(["mount", "work"]).arg(fleet.client.0.path("mnt")).arg("--cache").arg(fleet.client.0.path("cache"));
    let refused = run_for(Duration::from_secs(60), &mut mount);
    assert_eq!(refused.code(), 6, "{}", refused.err);
    assert!(refused.err.contains("wayfs doctor --repair"), "{}", refused.err);
    let cache = fleet.client.0.path("cache");
    let (code, said) = repair(&fleet.client.0, &cache, false);
    assert_eq!((code, only_volume(&said)["state"].as_str()), (1, Some("damaged")), "{said}");
    let (code, said) = repair(&fleet.client.0, &cache, true);
    assert_eq!((code, only_volume(&said)["state"].as_str()), (0, Some("repaired")), "{said}");
    fleet.client.1 = fleet.client.0.mount("work", &[]);
    assert_has(&fleet.client.1, &all);
    all.extend(fleet.write("later", 3));
    fleet.sync();
    fleet.assert_home_has(&all);
    assert_has(&fleet.client.1, &all);
}

/// Where there is nothing to repair, the command says so and makes nothing.
#[test]
fn a_repair_makes_no_data_directory() {
    let machine = Machine::new("empty");
    let place = machine.path("nothing");
    let finished = run_for(Duration::from_secs(60), machine.command().args(["doctor", "--repair"]).arg(&place));
    assert_eq!(finished.code(), 2, "{}", finished.err);
    assert!(!place.exists());
    let own = run_for(Duration::from_secs(60), machine.command().args(["doctor", "--repair"]));
    assert_eq!(own.code(), 4, "{}", own.err);
    let wrong: &mut Command = &mut machine.command();
    assert_eq!(run_for(Duration::from_secs(60), wrong.args(["doctor", "--yes"])).code(), 2);
}
