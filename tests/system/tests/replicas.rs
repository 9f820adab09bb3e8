//! Several machines: what one writes, the others see; what is cut off goes on and is heard later.

use std::fs;
use std::path::Path;
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port, within};

/// Longest time for news to cross.
const SEEN: Duration = Duration::from_secs(20);

/// A home, and a station of its volume `work` on another machine.
struct Sites {
    home: Machine,
    home_server: Server,
    site: Machine,
    station: Server,
}

impl Sites {
    fn new() -> Self {
        let home = Machine::new("home");
        let home_server = home.serve(free_port(), &[]);
        home_server.wayfs(&home, &["volume", "create", "work"]).ok();
        let site = Machine::new("site");
        let station = site.serve(free_port(), &[]);
        let ticket = home_server.station_ticket(&home, "work");
        station.wayfs(&site, &["station", "join", &ticket]).ok();
        Self { home, home_server, site, station }
    }

    /// A new client machine, mounted and attached to the station or to the home.
    fn client(&self, name: &str, station: Option<&Server>) -> (Machine, Mount) {
        let machine = Machine::new(name);
        let ticket = self.home_server.ticket(&self.home, "work");
        let mount = machine.mount(&ticket, &[]);
        if let Some(server) = station {
            let address = format!("127.0.0.1:{}", server.port);
            eventually("the client knows the station", SEEN, || {
                mount.wayfs(&machine, &["station", "use", &address]).status.success()
            });
        }
        (machine, mount)
    }
}

fn reads(path: &Path, expected: &str) -> bool {
    let path = path.to_owned();
    let text = within("read a file", Duration::from_secs(20), move || fs::read_to_string(path).unwrap_or_default());
    text == expected
}

#[test]
fn what_one_site_writes_another_sees_and_fetches() {
    let sites = Sites::new();
    let (a_machine, a) = sites.client("a", Some(&sites.station));
    let (_b_machine, b) = sites.client("b", None);
    let big: Vec<u8> =
        (0..3_000_000_u32).flat_map(|n| (n.wrapping_mul(2_654_435_761)).to_le_bytes()).take(3_000_000).collect();
    fs::create_dir(a.path("dir")).unwrap();
    fs::write(a.path("dir/small"), "small").unwrap();
    fs::write(a.path("dir/big"), &big).unwrap();
    a.sync(&a_machine, "safe");
    eventually("B sees the small file", SEEN, || reads(&b.path("dir/small"), "small"));
    eventually("B sees the size of the big one", SEEN, || {
        fs::metadata(b.path("dir/big")).is_ok_and(|m| m.len() == 3_000_000)
    });
    assert!(fs::read(b.path("dir/big")).unwrap() == big, "the contents are fetched when they are read");
    fs::write(b.path("dir/small"), "changed at B").unwrap();
    eventually("A sees the change", SEEN, || reads(&a.path("dir/small"), "changed at B"));
    fs::remove_file(b.path("dir/small")).unwrap();
    eventually("A sees the removal", SEEN, || !a.path("dir/small").exists());
}

/// Proves [S-refresh] and [S-facts]: a reader at another site, which its station tells everything, knows as much as the writer.
#[test]
fn a_reader_at_another_site_is_told_the_truth_and_refreshes_or_is_told_why_not() {
    let mut sites = Sites::new();
    let (a_machine, a) = sites.client("a", Some(&sites.station));
    let far_site = Machine::new("far-site");
    let far_station = far_site.serve(free_port(), &[]);
    let ticket = sites.home_server.station_ticket(&sites.home, "work");
    far_station.wayfs(&far_site, &["station", "join", &ticket]).ok();
    let (b_machine, b) = sites.client("b", Some(&far_station));
    for round in 0..5 {
        let name = format!("note-{round}");
        fs::write(a.path(&name), vec![round; 100_000]).unwrap();
        a.sync(&a_machine, "visible");
        b.wayfs(&b_machine, &["refresh", b.path(&name).to_str().unwrap()]).ok();
        assert!(b.path(&name).exists(), "{name} was visible before the command");
    }
    a.sync(&a_machine, "stable");
    let info = b.wayfs(&b_machine, &["info", "--json", b.path("note-0").to_str().unwrap()]).ok().json();
    for fact in ["safe", "visible", "stable"] {
        assert_eq!(info[fact], "yes", "{fact}: {info}");
    }
    sites.home_server.process.kill();
    eventually("the client says that the home is away", Duration::from_secs(90), || {
        let status = b.wayfs(&b_machine, &["status", "--json"]).json().to_string();
        status.contains("\"home_reachable\":false")
    });
    let refused = b.wayfs(&b_machine, &["refresh"]);
    assert_eq!(refused.code(), 3, "{refused:?}");
}

/// Proves [S-close-open].
#[test]
fn open_sees_an_acknowledged_close_within_a_station() {
    let sites = Sites::new();
    let (a_machine, a) = sites.client("a", Some(&sites.station));
    let (_b_machine, b) = sites.client("b", Some(&sites.station));
    fs::write(a.path("f"), "0").unwrap();
    a.sync(&a_machine, "safe");
    eventually("B sees the file", SEEN, || b.path("f").exists());
    for round in 1..30 {
        fs::write(a.path("f"), round.to_string()).unwrap();
        a.sync(&a_machine, "safe");
        assert_eq!(fs::read_to_string(b.path("f")).unwrap(), round.to_string());
    }
}

#[test]
fn offline_writers_meet_and_both_versions_stay() {
    let sites = Sites::new();
    let (a_machine, a) = sites.client("a", Some(&sites.station));
    let (b_machine, b) = sites.client("b", None);
    fs::write(a.path("plan.txt"), "first").unwrap();
    a.sync(&a_machine, "visible");
    eventually("B has the file", SEEN, || reads(&b.path("plan.txt"), "first"));
    for (machine, mount, text) in [(&a_machine, &a, "from A"), (&b_machine, &b, "from B")] {
        mount.wayfs(machine, &["offline"]).ok();
        fs::write(mount.path("plan.txt"), text).unwrap();
        fs::write(mount.path(&format!("new {text}")), text).unwrap();
        assert!(reads(&mount.path("plan.txt"), text), "offline, a client reads its own writes");
    }
    a.wayfs(&a_machine, &["auto"]).ok();
    a.sync(&a_machine, "visible");
    b.wayfs(&b_machine, &["auto"]).ok();
    b.sync(&b_machine, "visible");
    let listing = |mount: &Mount| {
        let mut names: Vec<String> =
            fs::read_dir(mount.root()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    eventually("both see the same four files", SEEN, || listing(&a).len() == 4 && listing(&a) == listing(&b));
    let copy = listing(&a).into_iter().find(|name| name.starts_with("plan.conflict-")).expect("a conflict copy");
    assert!(copy.ends_with(".txt"), "{copy}");
    for mount in [&a, &b] {
        eventually("A was first and keeps the name", SEEN, || reads(&mount.path("plan.txt"), "from A"));
        eventually("the copy holds what B wrote", SEEN, || reads(&mount.path(&copy), "from B"));
    }
    let list = a.wayfs(&a_machine, &["conflicts", "list", "--json"]).ok();
    assert!(list.out.contains("plan"), "{}", list.out);
    a.wayfs(&a_machine, &["conflicts", "resolve", "plan.txt", "--keep", "newest"]).ok();
    eventually("the conflict is settled at both", SEEN, || {
        !listing(&b).iter().any(|name| name.contains("conflict")) && reads(&b.path("plan.txt"), "from B")
    });
}

/// Proves [S-remote-change] for a client that moves: its new parent does not know what it has cached.
#[test]
fn what_changed_while_a_client_moved_is_seen_without_opening_it() {
    let sites = Sites::new();
    let (_b_machine, b) = sites.client("b", None);
    fs::create_dir(b.path("dir")).unwrap();
    fs::write(b.path("dir/f"), "1").unwrap();
    fs::write(b.path("dir/gone"), "1").unwrap();
    let (a_machine, a) = sites.client("a", None);
    eventually("A sees them", SEEN, || a.path("dir/gone").exists() && a.path("dir/f").exists());
    a.wayfs(&a_machine, &["offline"]).ok();
    fs::write(b.path("dir/f"), "22").unwrap();
    fs::remove_file(b.path("dir/gone")).unwrap();
    fs::write(b.path("dir/new"), "1").unwrap();
    assert!(!a.path("dir/new").exists());
    let address = format!("127.0.0.1:{}", sites.station.port);
    a.wayfs(&a_machine, &["online"]).ok();
    eventually("A moves to the station", SEEN, || a.wayfs(&a_machine, &["station", "use", &address]).status.success());
    eventually("the size is the new one", SEEN, || fs::metadata(a.path("dir/f")).is_ok_and(|m| m.len() == 2));
    eventually("the removed name is gone", SEEN, || !a.path("dir/gone").exists());
    eventually("the new name is there", SEEN, || a.path("dir/new").exists());
}

/// Proves [S-fsync].
#[test]
fn a_client_survives_without_station_and_home_and_is_heard_later() {
    let mut sites = Sites::new();
    let (a_machine, mut a) = sites.client("a", Some(&sites.station));
    fs::create_dir(a.path("d")).unwrap();
    fs::write(a.path("d/before"), "before").unwrap();
    a.sync(&a_machine, "stable");
    sites.station.process.kill();
    sites.home_server.process.kill();
    within("work without any server", Duration::from_secs(60), {
        let root = a.root().to_owned();
        move || {
            assert_eq!(fs::read_to_string(root.join("d/before")).unwrap(), "before");
            fs::write(root.join("d/during"), "during").unwrap();
            fs::rename(root.join("d/before"), root.join("d/after")).unwrap();
            assert_eq!(fs::read_dir(root.join("d")).unwrap().count(), 2);
            assert!(rustix::fs::statvfs(&root).is_ok());
        }
    });
    // What was closed is in the log; a sync of the directory makes that durable before the crash.
    fs::File::open(a.path("d/during")).unwrap().sync_all().unwrap();
    a.kill();
    let a = a_machine.mount("work", &[]);
    assert_eq!(fs::read_to_string(a.path("d/during")).unwrap(), "during", "the log survives the client's death");
    sites.home_server = sites.home.serve(sites.home_server.port, &[]);
    sites.station = sites.site.serve(sites.station.port, &[]);
    a.sync(&a_machine, "visible");
    let (_b_machine, b) = sites.client("b", None);
    eventually("the home heard of everything", SEEN, || {
        reads(&b.path("d/during"), "during") && reads(&b.path("d/after"), "before")
    });
}

#[test]
fn a_lost_client_disk_loses_nothing_that_was_safe() {
    let sites = Sites::new();
    let (a_machine, a) = sites.client("a", Some(&sites.station));
    let big = vec![b'z'; 700_000];
    fs::write(a.path("safe-small"), "s").unwrap();
    fs::write(a.path("safe-big"), &big).unwrap();
    a.sync(&a_machine, "safe");
    drop(a);
    drop(a_machine);
    let (_b_machine, b) = sites.client("b", None);
    eventually("B sees what was safe", SEEN, || reads(&b.path("safe-small"), "s"));
    eventually("B reads the big file", SEEN, || fs::read(b.path("safe-big")).is_ok_and(|bytes| bytes == big));
}

/// Proves [S-locks].
#[test]
fn locks_hold_between_the_clients_of_a_station() {
    use rustix::fs::{FlockOperation, flock};
    let sites = Sites::new();
    let (a_machine, a) = sites.client("a", Some(&sites.station));
    let (_b_machine, b) = sites.client("b", Some(&sites.station));
    fs::write(a.path("lock"), "").unwrap();
    a.sync(&a_machine, "safe");
    eventually("B sees the file", SEEN, || b.path("lock").exists());
    let (at_a, at_b) = (fs::File::open(a.path("lock")).unwrap(), fs::File::open(b.path("lock")).unwrap());
    flock(&at_a, FlockOperation::LockExclusive).unwrap();
    assert_eq!(flock(&at_b, FlockOperation::NonBlockingLockExclusive), Err(rustix::io::Errno::WOULDBLOCK));
    flock(&at_a, FlockOperation::Unlock).unwrap();
    eventually("B gets the lock", SEEN, || flock(&at_b, FlockOperation::NonBlockingLockExclusive).is_ok());
}
