//! A home that moves to another machine and port: its station and clients find it, or are told where it is.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port, run};

/// Longest time for news to cross, on a busy machine.
const SEEN: Duration = Duration::from_secs(90);

/// Stops a home, copies its data directory to another machine, and starts it there at another port.
fn move_away(machine: &Machine, mut server: Server) -> (Machine, Server) {
    server.wayfs(machine, &["stop"]).ok();
    eventually("the home has ended", SEEN, || server.process.ended().is_some());
    let elsewhere = Machine::new("elsewhere");
    run(Command::new("cp").arg("-a").arg(&server.data).arg(elsewhere.path("data"))).ok();
    fs::remove_dir_all(&server.data).unwrap();
    let moved = elsewhere.serve(free_port(), &[]);
    (elsewhere, moved)
}

fn client(machine: &Machine, server: &Server, name: &str) -> (Machine, Mount) {
    let laptop = Machine::new(name);
    let mount = laptop.mount(&server.ticket(machine, "work"), &[]);
    (laptop, mount)
}

/// Proves [S-moved]: the station is where it was, so nobody has to be told anything.
#[test]
fn a_home_that_moves_is_found_by_its_station_and_the_clients_of_that() {
    let machine = Machine::new("home");
    let server = machine.serve(free_port(), &[]);
    server.wayfs(&machine, &["volume", "create", "work"]).ok();
    let near = Machine::new("near");
    let station = near.serve(free_port(), &[]);
    station.wayfs(&near, &["station", "join", &server.station_ticket(&machine, "work")]).ok();
    let (laptop, mount) = client(&machine, &server, "laptop");
    let address = format!("127.0.0.1:{}", station.port);
    eventually("the client uses the station", SEEN, || {
        mount.wayfs(&laptop, &["station", "use", &address]).status.success()
            && mount.wayfs(&laptop, &["status", "--json"]).out.contains(&station.port.to_string())
    });
    fs::write(mount.path("before"), "before").unwrap();
    mount.sync(&laptop, "stable");
    let (elsewhere, moved) = move_away(&machine, server);
    fs::write(mount.path("meanwhile"), "meanwhile").unwrap();
    let synced = mount.wayfs(&laptop, &["sync", "--until", "stable", "--timeout", "80"]);
    assert!(synced.status.success(), "{} {}", synced.out, station.wayfs(&near, &["status"]).out);
    let (_reader, other) = client(&elsewhere, &moved, "reader");
    eventually("a fresh client of the home has all", SEEN, || {
        fs::read_to_string(other.path("before")).is_ok_and(|text| text == "before")
            && fs::read_to_string(other.path("meanwhile")).is_ok_and(|text| text == "meanwhile")
    });
}

/// Proves [S-moved]: nobody could tell the client, so a person does.
#[test]
fn a_client_without_a_station_is_told_by_hand_where_its_home_is() {
    let machine = Machine::new("home");
    let server = machine.serve(free_port(), &[]);
    server.wayfs(&machine, &["volume", "create", "work"]).ok();
    let (laptop, mount) = client(&machine, &server, "laptop");
    fs::write(mount.path("before"), "before").unwrap();
    mount.sync(&laptop, "stable");
    let (_elsewhere, moved) = move_away(&machine, server);
    fs::write(mount.path("meanwhile"), "meanwhile").unwrap();
    assert_eq!(mount.wayfs(&laptop, &["sync", "--timeout", "3"]).code(), 1, "nobody knows where the home is");
    mount.wayfs(&laptop, &["station", "address", "home", &format!("127.0.0.1:{}", moved.port)]).ok();
    let synced = mount.wayfs(&laptop, &["sync", "--until", "stable", "--timeout", "80"]);
    assert!(synced.status.success(), "{} {}", synced.out, mount.wayfs(&laptop, &["station", "list"]).out);
}

/// Waits for a lock and says when it has it.
const TAKES: &str = r#"
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
print("has it", flush=True)
sys.stdin.readline()
"#;

/// Holds a lock until it may look, and then says what its next use of the handle says.
const HOLDS: &str = r#"
import errno, fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.flock(fd, fcntl.LOCK_EX)
print("has it", flush=True)
for _ in sys.stdin:
    try:
        os.fsync(fd)
        print("well", flush=True)
    except OSError as error:
        print(errno.errorcode[error.errno], flush=True)
"#;

/// A program that is asked line by line.
struct Talker {
    process: std::process::Child,
    said: BufReader<ChildStdout>,
}

impl Talker {
    fn start(script: &str, path: &Path) -> Self {
        let mut command = Command::new("python3");
        command.arg("-c").arg(script).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let said = BufReader::new(process.stdout.take().unwrap());
        Self { process, said }
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn ask(&mut self) -> String {
        self.process.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.hear()
    }
}

impl Drop for Talker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Proves [S-lock-lost]: a machine takes a lock along to another station, and hears that it has lost it before another gets it there.
#[test]
fn a_lock_that_moves_to_another_station_has_one_holder() {
    let machine = Machine::new("home");
    let server = machine.serve(free_port(), &[]);
    server.wayfs(&machine, &["volume", "create", "work"]).ok();
    let [near, far] = ["near", "far"].map(Machine::new);
    let stations = [&near, &far].map(|at| {
        let station = at.serve(free_port(), &[]);
        station.wayfs(at, &["station", "join", &server.station_ticket(&machine, "work")]).ok();
        station
    });
    let use_station = |laptop: &Machine, mount: &Mount, station: usize| {
        let port = stations[station].port.to_string();
        eventually("the client uses the station", SEEN, || {
            mount.wayfs(laptop, &["station", "use", &format!("127.0.0.1:{port}")]).status.success()
                && mount.wayfs(laptop, &["status", "--json"]).out.contains(&port)
        });
    };
    let (laptop, mover) = client(&machine, &server, "laptop");
    let (desk, stays) = client(&machine, &server, "desk");
    use_station(&laptop, &mover, 0);
    use_station(&desk, &stays, 0);
    fs::write(mover.path("book"), "one\n").unwrap();
    eventually("both see the file", SEEN, || stays.path("book").exists());
    let mut holder = Talker::start(HOLDS, &mover.path("book"));
    assert_eq!(holder.hear(), "has it");
    use_station(&laptop, &mover, 1);
    assert_eq!(holder.ask(), "well", "it took its lock along");
    let mut other = Talker::start(TAKES, &stays.path("book"));
    assert_eq!(other.hear(), "has it");
    assert_eq!(holder.ask(), "EIO", "two hold one lock");
}
