//! Real namespaces, devices, processes and mounts. Where the machine forbids them the tests say so and pass.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wayfs_lab::{LabError, LinePlan, NetworkFile, Service, Topology, line};
use wayfs_link::{Capacity, DirectionConfig, LineConfig, LineState};

/// Longest wait for anything, on a busy machine.
const BOUND: Duration = Duration::from_secs(10);

#[test]
fn packets_cross_several_lines_and_take_their_time() {
    let Some(mut lab) = laboratory() else { return };
    for host in ["client", "station", "home"] {
        lab.host(host).unwrap();
    }
    lab.link("client", "station", delayed(10)).unwrap();
    lab.link("station", "home", delayed(20)).unwrap();
    let (client, home) = (socket(&lab, "client"), socket(&lab, "home"));
    let start = Instant::now();
    client.send_to(b"there", (Ipv4Addr::new(10, 77, 0, 3), 9)).unwrap();
    assert_eq!(receive(&home), Some((b"there".to_vec(), Ipv4Addr::new(10, 77, 0, 1))));
    assert!(start.elapsed() >= Duration::from_millis(30), "{:?}", start.elapsed());
}

#[test]
fn what_a_line_loses_is_counted_and_does_not_arrive() {
    let Some(mut lab) = laboratory() else { return };
    let link = pair(&mut lab, LinePlan::default());
    let (a, b) = (socket(&lab, "a"), socket(&lab, "b"));
    lab.set_state(link, LineState::Cut);
    a.send_to(b"lost", (lab.address("b").unwrap(), 9)).unwrap();
    eventually("the packet is lost", || lab.statistics(link).up.lost_to_cuts == 1);
    lab.set_state(link, LineState::Connected);
    a.send_to(b"found", (lab.address("b").unwrap(), 9)).unwrap();
    assert_eq!(receive(&b).unwrap().0, b"found");
    let statistics = lab.statistics(link);
    assert_eq!((statistics.up.offered, statistics.up.delivered, statistics.down.offered), (2, 1, 0));
}

#[test]
fn a_finite_queue_drops_what_a_sender_overfills() {
    let Some(mut lab) = laboratory() else { return };
    let direction =
        DirectionConfig { capacity: Capacity::Rate(100_000), queue_len_max: 5000, ..DirectionConfig::default() };
    let link = pair(&mut lab, LinePlan { config: LineConfig::symmetric(direction), ..LinePlan::default() });
    let a = socket(&lab, "a");
    for _ in 0..50 {
        a.send_to(&[0; 972], (lab.address("b").unwrap(), 9)).unwrap();
    }
    eventually("all were offered", || lab.statistics(link).up.offered == 50);
    // 1000 bytes each with their headers, 80 ms each: all but the first few came while five waited.
    assert!(lab.statistics(link).up.dropped >= 40, "{:?}", lab.statistics(link));
    assert!(lab.statistics(link).up.queue_len_highest <= 5000);
}

#[test]
fn a_client_moves_between_stations_and_keeps_its_address() {
    let Some(mut lab) = laboratory() else { return };
    for host in ["client", "near", "far", "home"] {
        lab.host(host).unwrap();
    }
    let near = lab.link("client", "near", line("perfect").unwrap()).unwrap();
    let far = lab.link("client", "far", line("perfect").unwrap()).unwrap();
    lab.link("near", "home", line("perfect").unwrap()).unwrap();
    lab.link("far", "home", line("perfect").unwrap()).unwrap();
    lab.set_service(far, Service::Out).unwrap();
    let (client, home) = (socket(&lab, "client"), socket(&lab, "home"));
    for (step, expected) in [(0, (1, 0)), (1, (1, 1))] {
        if step == 1 {
            lab.hand_over(near, far).unwrap();
        }
        client.send_to(b"hello", (lab.address("home").unwrap(), 9)).unwrap();
        assert_eq!(receive(&home).unwrap().1, lab.address("client").unwrap());
        assert_eq!((lab.statistics(near).up.delivered, lab.statistics(far).up.delivered), expected);
    }
    lab.set_service(far, Service::Out).unwrap();
    let refused = client.send_to(b"hello", (lab.address("home").unwrap(), 9)).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::NetworkUnreachable);
}

#[test]
fn hosts_of_a_cell_share_its_channel() {
    let Some(mut lab) = laboratory() else { return };
    for host in ["base", "first", "second"] {
        lab.host(host).unwrap();
    }
    let direction = DirectionConfig { capacity: Capacity::Rate(1_000_000), ..DirectionConfig::default() };
    let plan = LinePlan { config: LineConfig::symmetric(direction), ..LinePlan::default() };
    lab.cell(&["first", "second"], "base", plan).unwrap();
    let base = socket(&lab, "base");
    let start = Instant::now();
    for host in ["first", "second"] {
        socket(&lab, host).send_to(&[0; 1222], (lab.address("base").unwrap(), 9)).unwrap();
    }
    receive(&base).unwrap();
    receive(&base).unwrap();
    // 1250 bytes with their headers take 10 ms, and the second waits for the first.
    assert!(start.elapsed() >= Duration::from_millis(20), "{:?}", start.elapsed());
}

#[test]
fn programs_run_on_their_host_with_its_parameters_and_write_to_a_log() {
    let Some(mut lab) = laboratory() else { return };
    lab.host("a").unwrap();
    lab.sysctl("a", "net.ipv4.tcp_sack", "0").unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ip -o address show; cat /proc/sys/net/ipv4/tcp_sack"]);
    let mut process = lab.spawn("a", "look", command).unwrap();
    process.succeed(BOUND).unwrap();
    assert!(process.output().contains("10.77.0.1/32"), "{}", process.output());
    assert!(process.output().ends_with("0\n"), "{}", process.output());
    let mut failing = lab.spawn("a", "fail", shell("echo why; exit 3")).unwrap();
    assert!(failing.succeed(BOUND).unwrap_err().to_string().contains("why"));
}

#[test]
fn hosts_are_machines_of_their_own_to_wayfs() {
    let Some(mut lab) = laboratory() else { return };
    for host in ["a", "b"] {
        lab.host(host).unwrap();
    }
    let homes: Vec<String> = ["a", "b"]
        .map(|host| {
            let mut command = lab.wayfs(host, Path::new("sh")).unwrap();
            command.args(["-c", "echo $WAYFS_HOST $XDG_STATE_HOME $XDG_RUNTIME_DIR; touch $XDG_CACHE_HOME/x; pwd"]);
            let output = lab.run(host, command, BOUND).unwrap();
            assert!(output.status.success());
            String::from_utf8(output.stdout).unwrap()
        })
        .to_vec();
    assert!(homes[0].starts_with("a ") && homes[0].contains("/hosts/a/state") && homes[0].ends_with("/hosts/a/home\n"));
    assert_ne!(homes[0], homes[1]);
}

#[test]
fn a_program_that_does_not_end_is_killed() {
    let Some(mut lab) = laboratory() else { return };
    lab.host("a").unwrap();
    let error = lab.run("a", shell("sleep 1000"), Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, LabError::TimedOut { .. }), "{error}");
}

#[test]
fn a_network_comes_up_as_it_is_written_down() {
    if laboratory().is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let text = r#"
        hosts = ["client", "station", "home"]
        [[links]]
        ends = ["station", "home"]
        line = { both = { delay_ms = 20.0 } }
        [[cells]]
        station = "station"
        mobiles = ["client"]
        [[programs]]
        host = "client"
        command = ["sh", "-c", "cat /proc/net/dev; exit 3"]
    "#;
    let mut network = NetworkFile::read(text).unwrap().up(place.path(), place.path()).unwrap();
    let hosts = network.hosts().to_vec();
    assert_eq!(hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["client", "station", "home"]);
    let mut said = Vec::new();
    eventually("the program ends", || {
        said.extend(network.ended());
        !said.is_empty()
    });
    assert!(said[0].contains("client") && said[0].contains('3'), "{said:?}");
    assert!(std::fs::read_to_string(place.path().join("client-program-1.log")).unwrap().contains("to-station"));
    let mut ping = Command::new("nsenter");
    let address = hosts[2].address.to_string();
    ping.arg(format!("--net={}", hosts[0].network.display()));
    // Nobody has to listen: the datagram crosses both lines all the same.
    ping.args(["bash", "-c", &format!("echo hello > /dev/udp/{address}/9")]);
    assert!(ping.status().unwrap().success());
    eventually("both lines carried it", || network.statistics().iter().all(|(_, line)| line.up.delivered > 0));
    let network_file = hosts[0].network.clone();
    drop(network);
    assert!(!network_file.exists());
    let error = NetworkFile::read("hosts = [\"a\"]\n[[links]]\nends = [\"a\", \"b\"]").unwrap();
    assert!(matches!(error.up(place.path(), place.path()), Err(LabError::UnknownHost(_))));
}

#[test]
fn names_are_checked() {
    let Some(mut lab) = laboratory() else { return };
    lab.host("a").unwrap();
    assert!(matches!(lab.host("a"), Err(LabError::HostName(_))));
    assert!(matches!(lab.host("../a"), Err(LabError::HostName(_))));
    assert!(matches!(lab.link("a", "b", LinePlan::default()), Err(LabError::UnknownHost(_))));
    assert!(line("nowhere").is_err());
}

#[test]
fn nothing_stays_when_a_topology_is_dropped() {
    let Some(mut lab) = laboratory() else { return };
    pair(&mut lab, LinePlan::default());
    // It leaves its group and its session, ignores signals, and is started by a program that ends.
    let mut escape =
        lab.spawn("a", "escape", shell("setsid sh -c 'trap \"\" HUP TERM; echo $$; exec sleep 1000' &")).unwrap();
    escape.wait(BOUND).unwrap();
    eventually("the escaped program runs", || escape.output().ends_with('\n'));
    let escaped: u32 = escape.output().trim().parse().unwrap();
    let mount = lab.mount_point("tree").unwrap();
    rustix::mount::mount("lab", mount.path(), "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
    assert!(mount.is_mounted());
    let network = lab.network("a").unwrap();
    let place = mount.path().to_owned();
    std::mem::forget(mount);
    drop(lab);
    assert!(!is_running(escaped));
    assert_gone(&network, &place);
}

#[test]
fn nothing_stays_when_the_laboratory_is_killed() {
    if laboratory().is_none() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (mut child, left) = doomed(place.path());
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the guard has done its work", || !left.run.exists());
    assert!(!is_running(left.sleeper));
    assert_gone(&left.network, &left.mount);
}

#[test]
fn what_a_killed_guard_left_is_swept_at_the_next_start() {
    if laboratory().is_none() {
        return;
    }
    // Elsewhere, so that no other test's start sweeps it.
    let place = tempfile::tempdir().unwrap();
    let (mut child, left) = doomed(place.path());
    for guard in guards(&left.run) {
        rustix::process::kill_process(guard, rustix::process::Signal::KILL).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(left.run.exists() && is_running(left.sleeper));
    let swept = helper("sweep", place.path()).status().unwrap();
    assert!(swept.success() && !left.run.exists());
    assert!(!is_running(left.sleeper));
    assert_gone(&left.network, &left.mount);
}

/// What the two tests above start: this binary, told to run nothing but this.
#[test]
fn doomed_laboratory() {
    match std::env::var(DOOMED).as_deref() {
        Ok("sweep") => assert_eq!(wayfs_lab::sweep().unwrap(), 1),
        Ok(_) => wait_to_be_killed(),
        Err(_) => {}
    }
}

fn wait_to_be_killed() {
    let mut lab = Topology::new(1).unwrap();
    pair(&mut lab, LinePlan::default());
    let sleeper = lab.spawn("a", "sleep", shell("exec sleep 1000")).unwrap();
    let mount = lab.mount_point("tree").unwrap();
    rustix::mount::mount("lab", mount.path(), "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
    println!("{DOOMED} {} {} {}", sleeper.id(), lab.network("a").unwrap().display(), mount.path().display());
    std::thread::sleep(Duration::from_secs(60));
}

/// Tells [`doomed_laboratory`] what to do.
const DOOMED: &str = "WAYFS_LAB_DOOMED";

/// What a killed laboratory may have left.
struct Left {
    sleeper: u32,
    network: PathBuf,
    mount: PathBuf,
    run: PathBuf,
}

fn helper(what: &str, place: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["doomed_laboratory", "--exact", "--nocapture"]).env(DOOMED, what).env("TMPDIR", place);
    command
}

fn doomed(place: &Path) -> (std::process::Child, Left) {
    let mut child = helper("wait", place).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let told = lines.map(Result::unwrap).find(|line| line.contains(DOOMED)).expect("it tells what it made");
    let words: Vec<&str> = told.split(DOOMED).nth(1).unwrap().split_whitespace().collect();
    let network = PathBuf::from(words[1]);
    let run = network.ancestors().nth(2).unwrap().to_owned();
    (child, Left { sleeper: words[0].parse().unwrap(), network, mount: words[2].into(), run })
}

/// The guards of a run directory, by their command line.
fn guards(run: &Path) -> Vec<rustix::process::Pid> {
    let wanted = run.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &i32| {
            let mut arguments = Vec::new();
            let file = std::fs::File::open(format!("/proc/{pid}/cmdline"));
            let _ = file.and_then(|mut file| file.read_to_end(&mut arguments));
            let arguments: Vec<&[u8]> = arguments.split(|byte| *byte == 0).collect();
            arguments.contains(&b"lab-guard".as_slice()) && arguments.contains(&wanted.as_bytes())
        })
        .filter_map(rustix::process::Pid::from_raw)
        .collect()
}

fn is_running(pid: u32) -> bool {
    // A dead child of a container's first process may stay as a zombie.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

fn assert_gone(network: &Path, mount: &Path) {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    for path in [network, mount] {
        assert!(!table.contains(&*path.to_string_lossy()), "{} is still mounted", path.display());
        assert!(!path.exists(), "{} still exists", path.display());
    }
}

/// A topology, unless the machine forbids it.
fn laboratory() -> Option<Topology> {
    let lab = Topology::new(1).and_then(|mut lab| lab.host("probe").map(|_| ()).map(|()| lab));
    match lab {
        Ok(_) => Some(Topology::new(1).unwrap()),
        Err(error) if error.is_forbidden() => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn pair(lab: &mut Topology, plan: LinePlan) -> wayfs_lab::Link {
    lab.host("a").unwrap();
    lab.host("b").unwrap();
    lab.link("a", "b", plan).unwrap()
}

fn delayed(milliseconds: u64) -> LinePlan {
    let direction = DirectionConfig { delay: Duration::from_millis(milliseconds), ..DirectionConfig::default() };
    LinePlan { config: LineConfig::symmetric(direction), ..LinePlan::default() }
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn socket(lab: &Topology, host: &str) -> UdpSocket {
    let socket = lab.inside(host, || UdpSocket::bind("0.0.0.0:9")).unwrap().unwrap();
    socket.set_read_timeout(Some(BOUND)).unwrap();
    socket
}

fn receive(socket: &UdpSocket) -> Option<(Vec<u8>, Ipv4Addr)> {
    let mut buffer = [0; 2000];
    let (len, from) = socket.recv_from(&mut buffer).ok()?;
    match from.ip() {
        std::net::IpAddr::V4(address) => Some((buffer[..len].to_vec(), address)),
        std::net::IpAddr::V6(_) => None,
    }
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < BOUND, "not within {BOUND:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
