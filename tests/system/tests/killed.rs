//! Home, two stations and two clients as real processes. Each in turn is killed with SIGKILL while
//! both clients work; in the end, every file that was ever reported safe is there with the right bytes.
//!
//! `WAYFS_KILLS` sets the number of kills (default 50).

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port, run_for, within};

/// Longest time to calm down after the last kill.
const CALM: Duration = Duration::from_secs(120);

struct Volume {
    home: Machine,
    home_server: Server,
    stations: Vec<(Machine, Server)>,
}

impl Volume {
    fn new(stations: usize) -> Self {
        let home = Machine::new("home");
        let home_server = home.serve(free_port(), &[]);
        home_server.wayfs(&home, &["volume", "create", "work"]).ok();
        let stations = (0..stations)
            .map(|number| {
                let machine = Machine::new(&format!("station{number}"));
                let server = machine.serve(free_port(), &[]);
                let ticket = home_server.station_ticket(&home, "work");
                server.wayfs(&machine, &["station", "join", &ticket]).ok();
                (machine, server)
            })
            .collect();
        Self { home, home_server, stations }
    }

    fn client(&self, name: &str, station: usize) -> (Machine, Mount) {
        let machine = Machine::new(name);
        let ticket = self.home_server.ticket(&self.home, "work");
        let mount = machine.mount(&ticket, &[]);
        let address = format!("127.0.0.1:{}", self.stations[station].1.port);
        eventually("the client uses its station", Duration::from_secs(20), || {
            mount.wayfs(&machine, &["station", "use", &address]).status.success()
        });
        (machine, mount)
    }
}

/// What a writer did to one path: everything it tried, in order, and how much of it is known safe.
#[derive(Debug, Default, Clone)]
struct Path1 {
    attempts: Vec<Vec<u8>>,
    /// Number of attempts at the time of the last successful `sync --until safe`.
    safe: usize,
}

type Diary = BTreeMap<String, Path1>;

/// Writes, overwrites and syncs in its own directory until told to stop.
fn work(root: &Path, own: &str, machine: &Machine, stop: &AtomicBool, seed: u64) -> Diary {
    let mut random = StdRng::seed_from_u64(seed);
    let mut diary = Diary::new();
    let directory = root.join(own);
    while !stop.load(Ordering::Relaxed) {
        let _ = fs::create_dir_all(&directory);
        for _ in 0..random.random_range(1..8) {
            let name = format!("{own}/{}", random.random_range(0..40));
            let len =
                if random.random_bool(0.2) { random.random_range(0..600_000) } else { random.random_range(0..9000) };
            let mut bytes = vec![0_u8; len];
            random.fill(&mut bytes[..]);
            diary.entry(name.clone()).or_default().attempts.push(bytes.clone());
            // An error means that the mount's daemon was just killed; what it got to is open.
            if write_whole(&root.join(&name), &bytes).is_err() {
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        let before: Vec<(String, usize)> =
            diary.iter().map(|(name, path)| (name.clone(), path.attempts.len())).collect();
        let mut sync = machine.command();
        sync.env("WAYFS_AT", root).args(["sync", "--until", "safe", "--timeout", "10"]);
        if run_for(Duration::from_secs(60), &mut sync).status.success() {
            confirm(root, &mut diary, before);
        }
    }
    diary
}

fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = fs::File::create(path)?;
    file.write_all(bytes)?;
    // Close reports what fsync would not have to.
    file.sync_data()
}

/// A sync covers what is in the file system; an attempt that failed with an error may not be.
fn confirm(root: &Path, diary: &mut Diary, before: Vec<(String, usize)>) {
    for (name, count) in before {
        let path = diary.get_mut(&name).expect("in the diary");
        let newest = &path.attempts[count - 1];
        if fs::read(root.join(&name)).is_ok_and(|bytes| bytes == *newest) {
            path.safe = count;
        }
    }
}

/// A path that does not hold what it must.
#[derive(Debug)]
struct Lost {
    name: String,
    why: String,
}

/// Every path holds the last safe attempt or a later one.
fn check(root: &Path, diary: &Diary) -> Result<(), Lost> {
    for (name, path) in diary.iter().filter(|(_, path)| path.safe > 0) {
        let lost = |why: String| Lost { name: name.clone(), why };
        let found = fs::read(root.join(name)).map_err(|error| lost(format!("was safe and is gone: {error}")))?;
        if !path.attempts[path.safe - 1..].contains(&found) {
            let (all, safe) = (path.attempts.len(), path.safe);
            let what = "bytes, which are neither its last safe content nor a later one";
            return Err(lost(format!("holds {} {what} ({all} attempts, {safe} safe)", found.len())));
        }
    }
    Ok(())
}

fn kills() -> usize {
    std::env::var("WAYFS_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(50)
}

/// Proves [S-kill]: what a program wrote into files that it keeps open, and did not sync, is there when the mount says that no open file has
/// anything that is not committed, which is so soon after the program pauses.
#[test]
fn what_is_left_open_survives_the_death_of_its_daemon() {
    let volume = Volume::new(1);
    let (machine, mut mount) = volume.client("client", 0);
    let edited: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    fs::write(mount.path("edited"), &edited).unwrap();
    let mut wanted = BTreeMap::from([("edited", edited)]);
    let mut kept = vec![OpenOptions::new().read(true).write(true).open(mount.path("edited")).unwrap()];
    kept[0].write_all(b"NEW").unwrap();
    wanted.get_mut("edited").unwrap()[..3].copy_from_slice(b"NEW");
    for (name, len) in [("small", 100), ("middle", 32_768), ("large", 3 << 20)] {
        let bytes: Vec<u8> = (0..len).map(|at| (at % 241) as u8).collect();
        kept.push(File::create(mount.path(name)).unwrap());
        kept.last_mut().unwrap().write_all(&bytes).unwrap();
        wanted.insert(name, bytes);
    }
    let mut log = OpenOptions::new().create(true).append(true).open(mount.path("log")).unwrap();
    for line in ["one\n", "two\n"] {
        log.write_all(line.as_bytes()).unwrap();
    }
    wanted.insert("log", b"one\ntwo\n".to_vec());
    eventually("what is open is committed", CALM, || {
        let status = mount.wayfs(&machine, &["status", "--json"]).ok().json();
        status[0]["volumes"][0]["ledger"]["open_files"] == 0
    });
    mount.kill();
    drop((kept, log));
    let mount = machine.mount("work", &[]);
    for (name, bytes) in wanted {
        assert!(fs::read(mount.path(name)).unwrap() == bytes, "{name}");
    }
}

/// Proves [S-kill]: each byte for which a `write` returned before the kill is there, though nothing was closed, synced or committed.
#[test]
fn what_was_written_to_open_files_survives_a_kill_that_comes_at_once() {
    let volume = Volume::new(1);
    let (machine, mut mount) = volume.client("client", 0);
    let (_other_machine, other) = volume.client("other", 0);
    let old: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    let new: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 241) as u8).collect();
    for (name, bytes) in
        [("edited", &old[..]), ("cut", &old), ("emptied", &old), ("note", b"as it was"), ("log", b"one\n")]
    {
        fs::write(mount.path(name), bytes).unwrap();
    }
    let open = |name: &str, options: &mut OpenOptions| options.open(mount.path(name)).unwrap();
    let edits = || OpenOptions::new().read(true).write(true).clone();
    let mut small = open("small", edits().create(true));
    let mut large = open("large", edits().create(true));
    let mut past = open("past.bin", OpenOptions::new().write(true).create(true));
    let (edited, cut, note) = (open("edited", &mut edits()), open("cut", &mut edits()), open("note", &mut edits()));
    let mut log = open("log", OpenOptions::new().append(true));
    // Names of the last milliseconds are not what this is about.
    mount.sync(&machine, "visible");
    let mut emptied = open("emptied", OpenOptions::new().write(true).truncate(true));
    small.write_all(b"small").unwrap();
    large.write_all(&new).unwrap();
    past.write_all(&new).unwrap();
    edited.write_all_at(b"EDIT", 2_000_000).unwrap();
    edited.write_all_at(b"EDIT", 10).unwrap();
    cut.set_len(1_000_000).unwrap();
    cut.write_all_at(b"behind a hole", 1_500_000).unwrap();
    emptied.write_all(b"new").unwrap();
    log.write_all(b"two\n").unwrap();
    log.write_all(b"three\n").unwrap();
    note.write_all_at(b"AS IT IS", 0).unwrap();
    mount.kill();
    drop((small, large, past, edited, cut, emptied, log, note));
    let mut edited = old.clone();
    edited[2_000_000..2_000_004].copy_from_slice(b"EDIT");
    edited[10..14].copy_from_slice(b"EDIT");
    let cut = [&old[..1_000_000], &[0; 500_000], b"behind a hole"].concat();
    let wanted: [(&str, &[u8]); 8] = [
        ("small", b"small"),
        ("large", &new),
        ("past.bin", &new),
        ("edited", &edited),
        ("cut", &cut),
        ("emptied", b"new"),
        ("log", b"one\ntwo\nthree\n"),
        ("note", b"AS IT ISs"),
    ];
    let mount = machine.mount("work", &[]);
    for (name, bytes) in wanted {
        assert!(fs::read(mount.path(name)).unwrap() == bytes, "{name}");
    }
    eventually("all of it is committed", CALM, || {
        let status = mount.wayfs(&machine, &["status", "--json"]).ok().json();
        status[0]["volumes"][0]["ledger"]["open_files"] == 0
    });
    mount.sync(&machine, "visible");
    for (name, bytes) in wanted {
        let is_there = || fs::read(other.path(name)).is_ok_and(|found| found == bytes);
        eventually(&format!("the other machine has {name}"), CALM, is_there);
    }
    assert!(
        !fs::read_dir(mount.root())
            .unwrap()
            .any(|entry| { entry.unwrap().file_name().to_string_lossy().contains("conflict") })
    );
}

/// Proves [S-kill].
#[test]
fn what_was_reported_safe_survives_the_death_of_every_process() {
    let mut volume = Volume::new(2);
    let mut clients: Vec<Option<Mount>> = Vec::new();
    let mut machines: Vec<Arc<Machine>> = Vec::new();
    for number in 0..2 {
        let (machine, mount) = volume.client(&format!("client{number}"), number);
        machines.push(Arc::new(machine));
        clients.push(Some(mount));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let diaries = Arc::new(Mutex::new(Vec::new()));
    let workers: Vec<_> = (0..2)
        .map(|number| {
            let (stop, diaries, machine) = (stop.clone(), diaries.clone(), machines[number].clone());
            let root = clients[number].as_ref().expect("mounted").root().to_owned();
            std::thread::spawn(move || {
                let diary = work(&root, &format!("own{number}"), &machine, &stop, number as u64);
                diaries.lock().expect("no worker panics with it").push(diary);
            })
        })
        .collect();
    let mut random = StdRng::seed_from_u64(42);
    for kill in 0..kills() {
        std::thread::sleep(Duration::from_millis(random.random_range(100..1200)));
        match kill % 5 {
            0 => {
                volume.home_server.process.kill();
                volume.home_server = volume.home.serve(volume.home_server.port, &[]);
            }
            number @ (1 | 2) => {
                let (machine, server) = &mut volume.stations[number - 1];
                server.process.kill();
                *server = machine.serve(server.port, &[]);
            }
            number => {
                let number = number - 3;
                // The old mount is taken away before the new one stands at the same place.
                clients[number].take().expect("mounted").kill();
                clients[number] = Some(machines[number].mount("work", &[]));
            }
        }
    }
    stop.store(true, Ordering::Relaxed);
    let over = Instant::now();
    let calm = over + CALM;
    for worker in workers {
        eventually("the workers stop", calm.saturating_duration_since(Instant::now()), || worker.is_finished());
        worker.join().expect("a worker does not panic");
    }
    let diaries = diaries.lock().expect("no worker panics with it").clone();
    let safe: usize = diaries.iter().flat_map(BTreeMap::values).filter(|path| path.safe > 0).count();
    println!("{} kills, {safe} paths reported safe; the workers stopped after {:?}", kills(), over.elapsed());
    assert!(safe > 10, "the work went on between the kills");
    for (number, client) in clients.iter().enumerate() {
        client.as_ref().expect("mounted").sync(&machines[number], "visible");
        println!("all of client{number} visible after {:?}", over.elapsed());
    }
    for client in &clients {
        let (root, diaries) = (client.as_ref().expect("mounted").root().to_owned(), diaries.clone());
        // Each client must see the other's files, too: through its own station and the home.
        let result = within("read everything back", CALM, move || {
            eventually("the other site's files are here", Duration::from_secs(30), || {
                (0..2).all(|number| root.join(format!("own{number}")).exists())
            });
            std::thread::sleep(Duration::from_secs(3));
            diaries.iter().try_for_each(|diary| check(&root, diary))
        });
        if let Err(lost) = result {
            tell(&lost, &volume, &clients, &machines);
            panic!("{} {}", lost.name, lost.why);
        }
    }
}

/// What every process knows of a path that was lost: whoever looks into it has nothing else left.
fn tell(lost: &Lost, volume: &Volume, clients: &[Option<Mount>], machines: &[Arc<Machine>]) {
    for (number, client) in clients.iter().enumerate() {
        let (client, machine) = (client.as_ref().expect("mounted"), &machines[number]);
        let path = client.path(&lost.name);
        println!("client{number} reads {:?} now", fs::read(&path).map(|bytes| bytes.len()));
        for arguments in [&["info", "--json", &path.to_string_lossy()][..], &["status", "--json"]] {
            println!("client{number} {}: {}", arguments[0], client.wayfs(machine, arguments).out);
        }
        println!("client{number} log: {}", client.process.log());
    }
    let servers = std::iter::once(&volume.home_server).chain(volume.stations.iter().map(|(_, server)| server));
    for (number, server) in servers.enumerate() {
        println!("server{number} log: {}", server.process.log());
    }
}

fn shell(directory: &Path, script: &str) {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script]).current_dir(directory).env("GIT_CONFIG_NOSYSTEM", "1");
    run_for(Duration::from_secs(120), &mut command).ok();
}

/// A small C project under version control, outside of any mount.
fn repository(machine: &Machine) -> PathBuf {
    let root = machine.path("home/project");
    fs::create_dir_all(&root).expect("write a source file");
    let mut calls = String::new();
    for n in 0..30 {
        fs::write(root.join(format!("f{n}.c")), format!("int f{n}(int x) {{ return x + {n}; }}\n"))
            .expect("write a source file");
        calls.push_str(&format!("int f{n}(int);\n"));
    }
    fs::write(root.join("main.c"), format!("{calls}int main(void) {{ return f0(0) + f29(-29); }}\n"))
        .expect("write a source file");
    fs::write(root.join("Makefile"), "prog: $(patsubst %.c,%.o,$(wildcard *.c))\n\t$(CC) -o $@ $^\n")
        .expect("write a source file");
    shell(&root, "git init -q . && git add . && git -c user.name=n -c user.email=e commit -qm first");
    root
}

#[test]
fn a_tree_cloned_and_built_at_one_site_is_whole_at_the_other() {
    let volume = Volume::new(2);
    let (a_machine, a) = volume.client("a", 0);
    let (_b_machine, b) = volume.client("b", 1);
    let source = repository(&a_machine);
    shell(a.root(), &format!("git clone -q {} project && cd project && make -s && ./prog", source.display()));
    a.sync(&a_machine, "visible");
    eventually("B sees the program", Duration::from_secs(10), || b.path("project/prog").exists());
    // Nothing but records crossed so far; reading fetches the contents from A's station through the home.
    shell(
        b.root(),
        &format!(
            "cd project && git status --porcelain && git fsck --strict && ./prog && diff -r . {}",
            a.path("project").display()
        ),
    );
}

/// Proves [S-umount].
#[test]
fn a_forced_umount_ends_though_the_daemon_hangs() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let client = Machine::new("client");
    let mut mount = client.mount(&server.ticket(&home, "work"), &[]);
    std::fs::write(mount.path("kept"), b"closed").unwrap();
    mount.sync(&client, "safe");
    mount.process.signal(rustix::process::Signal::STOP);
    let forced = mount.wayfs(&client, &["umount", "--force", &mount.root().to_string_lossy()]);
    assert!(!forced.status.success() && forced.err.contains("was killed"), "{}{}", forced.out, forced.err);
    assert!(!wayfs_system_tests::is_mounted(mount.root()));
    eventually("the daemon is gone", std::time::Duration::from_secs(60), || mount.process.ended().is_some());
    drop(mount);
    let mount = client.mount("work", &[]);
    assert_eq!(std::fs::read(mount.path("kept")).unwrap(), b"closed");
}

/// Proves [S-kill]: a daemon that is killed while it tells the kernel of a change where a program waits for it keeps the kernel's
/// device open, for ever. Here this process does, so that it is so each time.
#[test]
fn a_killed_daemon_that_the_kernel_still_waits_for_is_taken_away_by_the_next_mount() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let client = Machine::new("client");
    let mut mount = client.mount(&server.ticket(&home, "work"), &[]);
    fs::write(mount.path("kept"), b"closed").unwrap();
    mount.sync(&client, "safe");
    let held = devices_of(mount.process.id());
    assert!(!held.is_empty(), "the daemon has the device open");
    mount.abandon();
    let again = client.mount("work", &[]);
    assert_eq!(fs::read(again.path("kept")).unwrap(), b"closed");
    drop(held);
}

/// What a process has open of the kernel's device for mounts, opened here as well.
fn devices_of(process: u32) -> Vec<std::os::fd::OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    let pid = Pid::from_raw(process as i32).expect("a process has a number");
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).expect("the process runs");
    let open = fs::read_dir(format!("/proc/{process}/fd")).expect("root may look").flatten();
    let devices = open.filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == Path::new("/dev/fuse")));
    let numbers = devices.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
    let open_here = |number| pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()).expect("root may open it, too");
    numbers.map(open_here).collect()
}
