//! `wayfs link` on hosts of the laboratory: real TCP over a bad hop, and everything that may go wrong.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wayfs_lab::{LabError, Process, Topology, line, read_line};

/// Longest wait for anything, on a busy machine.
const READY: Duration = Duration::from_secs(60);
const POOL: &str = "10.177.0.0/24";
const BASE: Ipv4Addr = Ipv4Addr::new(10, 177, 0, 1);
const MOBILE: Ipv4Addr = Ipv4Addr::new(10, 177, 0, 2);
/// Ten times as fast as the published hop, so that tests are short; a tenth of the time is bad.
const BAD: &str =
    "profile = \"wireless-1mb\"\nboth = { rate_mbps = 10.0 }\nbad_periods = { good_ms = 90, bad_ms = 10 }";

/// A base at `near`, a mobile at `far`, and the hop between them.
struct World {
    mobile: Option<Process>,
    base: Option<Process>,
    lab: Topology,
}

/// Runs a test as far as the machine allows it.
fn with(test: impl FnOnce() -> Result<(), LabError>) {
    match test() {
        Ok(()) => {}
        Err(error) if error.is_forbidden() => eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    }
}

impl World {
    /// Only the hosts and the hop.
    fn hosts(hop: &str) -> Result<Self, LabError> {
        let mut lab = Topology::new(7)?;
        for host in ["far", "near"] {
            lab.host(host)?;
        }
        lab.link("far", "near", read_line(hop, std::path::Path::new("."))?)?;
        Ok(Self { mobile: None, base: None, lab })
    }

    fn start(hop: &str, scheme: &str, mobile: &[&str]) -> Result<Self, LabError> {
        let mut world = Self::hosts(hop)?;
        world.start_base(&["--scheme", scheme])?;
        world.start_mobile(mobile)?;
        Ok(world)
    }

    fn ticket(&self) -> String {
        self.lab.directory("near").unwrap().join("ticket").to_str().unwrap().to_owned()
    }

    fn start_base(&mut self, more: &[&str]) -> Result<(), LabError> {
        let ticket = self.ticket();
        let _ = std::fs::remove_file(&ticket);
        let listen = format!("{}:7480", self.lab.address("near")?);
        let mut command = self.lab.wayfs("near", &common::program())?;
        command.args(["link", "base", "--listen", &listen, "--pool", POOL, "--out", &ticket, "--socket"]);
        command.arg(self.lab.directory("near")?.join("link.sock")).args(more);
        self.base = Some(self.lab.spawn("near", "base", command)?);
        until("the base to run", || std::fs::read_to_string(&ticket).is_ok_and(|text| text.ends_with('\n')));
        Ok(())
    }

    fn mobile_command(&self, ticket: &str, more: &[&str]) -> Result<Command, LabError> {
        let mut command = self.lab.wayfs("far", &common::program())?;
        command.args(["link", "mobile", ticket, "--socket"]).arg(self.lab.directory("far")?.join("link.sock"));
        command.args(more);
        Ok(command)
    }

    fn start_mobile(&mut self, more: &[&str]) -> Result<(), LabError> {
        let command = self.mobile_command(&self.ticket(), more)?;
        self.mobile = Some(self.lab.spawn("far", "mobile", command)?);
        until("the mobile to be in", || self.status("far").is_some_and(|it| it["peers"][0]["heard_ms"].is_u64()));
        Ok(())
    }

    /// How the link of a host is; `None` if it does not answer.
    fn status(&self, host: &str) -> Option<Value> {
        let mut command = self.lab.wayfs(host, &common::program()).unwrap();
        command.args(["link", "status", "--json", "--socket"]).arg(self.lab.directory(host).unwrap().join("link.sock"));
        let output = self.lab.run(host, command, READY).unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    fn ip(&self, host: &str, arguments: &str) {
        let mut command = Command::new("ip");
        command.args(arguments.split_whitespace());
        let output = self.lab.run(host, command, READY).unwrap();
        assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Sends bytes over TCP from one host to an address of the other, and compares them. `midway` is called when some have come.
    fn transfer(&self, from: &str, to: (&str, Ipv4Addr), len: usize, midway: impl FnOnce()) {
        let sent: Vec<u8> = (0..len).map(|n| (n * 31 + n / 251) as u8).collect();
        let listener = self.lab.inside(to.0, || TcpListener::bind((to.1, 0))).unwrap().unwrap();
        let at = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let mut stream = self
                    .lab
                    .inside(from, || TcpStream::connect_timeout(&at, READY))
                    .unwrap()
                    .expect("the link carries TCP");
                stream.set_write_timeout(Some(READY)).unwrap();
                stream.write_all(&sent).unwrap();
            });
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(READY)).unwrap();
            let mut got = vec![0; len / 3];
            stream.read_exact(&mut got).unwrap();
            midway();
            stream.read_to_end(&mut got).unwrap();
            sending.join().unwrap();
            assert!(got == sent, "{} of {len} bytes, or others", got.len());
        });
    }

    fn both_ways(&self, len: usize) {
        self.transfer("far", ("near", BASE), len, || {});
        self.transfer("near", ("far", MOBILE), len, || {});
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < READY, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn output(mut process: Process) -> (Option<i32>, String) {
    let status = process.wait(READY).unwrap();
    (status.code(), process.output())
}

/// Interrupts a process, which must end well.
fn interrupt(process: Option<Process>) {
    let process = process.unwrap();
    process.signal(Signal::INT);
    let (code, text) = output(process);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn every_scheme_carries_tcp_over_bad_periods_and_ctrl_c_ends_both_ends() {
    with(|| {
        for scheme in ["ours", "ll", "ll-order", "ll-sack", "snoop", "snoop-sack", "eln", "fec:6,4", "none"] {
            let mut world = World::start(BAD, scheme, &[])?;
            world.both_ways(200_000);
            let status = world.status("far").unwrap();
            assert_eq!(status["peers"][0]["scheme"], scheme);
            interrupt(world.mobile.take());
            interrupt(world.base.take());
            assert!(world.status("far").is_none(), "the socket went with it");
        }
        Ok(())
    });
}

/// Datagrams sent one every 2 ms, by their numbers as they arrived.
fn datagrams(world: &World, count: u32) -> Vec<u32> {
    let bind = |host, at: Ipv4Addr| world.lab.inside(host, || UdpSocket::bind((at, 0))).unwrap().unwrap();
    let (from, to) = (bind("far", MOBILE), bind("near", BASE));
    to.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
    let at = to.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for number in 0..count {
                from.send_to(&[&number.to_be_bytes()[..], &[0; 400]].concat(), at).unwrap();
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let mut got = Vec::new();
        let mut buffer = [0; 2000];
        while let Ok(len) = to.recv(&mut buffer) {
            assert_eq!(len, 404);
            got.push(u32::from_be_bytes(buffer[..4].try_into().unwrap()));
            if got.len() == count as usize {
                break;
            }
        }
        got
    })
}

#[test]
fn losses_are_hidden_in_order_and_without_a_scheme_they_are_not() {
    with(|| {
        let count = 1000;
        let hidden = World::start(BAD, "ours", &[])?;
        assert_eq!(datagrams(&hidden, count), (0..count).collect::<Vec<u32>>());
        let peer = hidden.status("far").unwrap()["peers"][0].clone();
        assert!(peer["hidden"].as_u64() > Some(0) && peer["given_up"] == 0, "{peer}");
        drop(hidden);
        let plain = World::start(BAD, "none", &[])?;
        let got = datagrams(&plain, count).len();
        assert!(got < count as usize, "the hop lost nothing, so the first half proves nothing");
        Ok(())
    });
}

#[test]
fn a_mobile_changes_its_address_in_the_middle() {
    with(|| {
        let world = World::start(BAD, "ours", &[])?;
        let near = world.lab.address("near")?;
        let move_away = || {
            world.ip("near", "route add 10.78.0.9 dev to-far");
            world.ip("far", "address add 10.78.0.9/32 dev lo");
            world.ip("far", &format!("route replace {near} dev to-near src 10.78.0.9"));
            world.ip("far", "address delete 10.77.0.1/32 dev lo");
        };
        world.transfer("far", ("near", BASE), 1_000_000, move_away);
        until("the base to follow", || {
            let at = world.status("near").unwrap()["peers"][0]["at"].clone();
            at.as_str().is_some_and(|at| at.starts_with("10.78.0.9:"))
        });
        world.both_ways(100_000);
        Ok(())
    });
}

#[test]
fn a_base_that_starts_again_and_a_path_that_shrinks_are_survived() {
    with(|| {
        let mut world = World::start(BAD, "ours", &[])?;
        world.both_ways(50_000);
        let killed = world.base.as_mut().unwrap();
        killed.kill();
        world.base = None;
        world.start_base(&["--scheme", "ours"])?;
        until("the mobile to come back", || world.status("near").is_some_and(|it| it["peers"][0]["channel"] == "good"));
        world.both_ways(50_000);
        world.transfer("near", ("far", MOBILE), 300_000, || world.ip("far", "link set dev to-near mtu 1400"));
        until("the MTU to follow", || world.status("far").unwrap()["mtu"].as_u64() < Some(1300));
        world.both_ways(100_000);
        Ok(())
    });
}

#[test]
fn a_device_that_is_taken_away_and_tickets_that_are_wrong_are_told() {
    with(|| {
        let mut world = World::start(BAD, "ours", &["--default"])?;
        let rules = |world: &World| {
            let mut command = Command::new("ip");
            command.args(["-4", "rule"]);
            String::from_utf8(world.lab.run("far", command, READY).unwrap().stdout).unwrap()
        };
        assert!(rules(&world).contains("5202"), "{}", rules(&world));
        world.ip("far", "link delete wayfs-link");
        let (code, text) = output(world.mobile.take().unwrap());
        assert_eq!(code, Some(6), "{text}");
        assert!(text.contains("TUN device wayfs-link is gone"), "{text}");
        assert!(!rules(&world).contains("5202"), "{}", rules(&world));
        // A ticket of before is worthless after --new-ticket.
        let old = std::fs::read_to_string(world.ticket()).unwrap();
        interrupt(world.base.take());
        world.start_base(&["--new-ticket"])?;
        let command = world.mobile_command(old.trim(), &[])?;
        let (code, text) = output(world.lab.spawn("far", "old", command)?);
        assert_eq!(code, Some(5), "{text}");
        assert!(text.contains("get a new one"), "{text}");
        // Another scheme than the base's, a ticket with a letter changed, a device that is taken.
        interrupt(world.base.take());
        world.start_base(&["--scheme", "ll"])?;
        let command = world.mobile_command(&world.ticket(), &["--scheme", "snoop"])?;
        let (code, text) = output(world.lab.spawn("far", "other", command)?);
        assert!(code == Some(5) && text.contains("ll") && text.contains("snoop"), "{code:?} {text}");
        let command = world.mobile_command(&old.trim().replace('a', "b").replace("wbyfs", "wayfs"), &[])?;
        let (code, text) = output(world.lab.spawn("far", "damaged", command)?);
        assert!(code == Some(2) && text.contains("ticket"), "{code:?} {text}");
        world.start_mobile(&[])?;
        let command = world.mobile_command(&world.ticket(), &[])?;
        let (code, text) = output(world.lab.spawn("far", "second", command)?);
        assert!(code == Some(2) && text.contains("runs at"), "{code:?} {text}");
        Ok(())
    });
}

/// Passes datagrams between mobile and base, and adds replays, changes, things out of order and rubbish.
fn meddle(at: UdpSocket, base: SocketAddr, stop: &AtomicBool) {
    at.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let (mut mobile, mut kept, mut count) = (None, Vec::new(), 0_usize);
    let mut buffer = [0; 65_536];
    while !stop.load(Ordering::Relaxed) {
        let Ok((len, from)) = at.recv_from(&mut buffer) else { continue };
        if from != base {
            mobile = Some(from);
        }
        let Some(to) = (if from == base { mobile } else { Some(base) }) else { continue };
        count += 1;
        let mut bytes = buffer[..len].to_vec();
        match count % 7 {
            // Held back until others have passed it, and sent twice then.
            0 => kept.push((bytes, to)),
            1 => {
                for (old, to) in kept.drain(..) {
                    at.send_to(&old, to).unwrap();
                    at.send_to(&old, to).unwrap();
                }
                at.send_to(&bytes, to).unwrap();
            }
            2 => {
                let place = count % bytes.len();
                bytes[place] ^= 0x55;
                at.send_to(&bytes, to).unwrap();
                bytes[place] ^= 0x55;
                at.send_to(&bytes[..place], to).unwrap();
                at.send_to(&bytes, to).unwrap();
            }
            3 => {
                for _ in 0..20 {
                    bytes.rotate_left(1);
                    at.send_to(&bytes, to).unwrap();
                }
                bytes.rotate_right(20);
                at.send_to(&bytes, to).unwrap();
            }
            _ => drop(at.send_to(&bytes, to).unwrap()),
        }
    }
}

#[test]
fn whoever_sits_on_the_way_gets_nothing_in() {
    with(|| {
        let mut lab = Topology::new(3)?;
        for host in ["far", "middle", "near"] {
            lab.host(host)?;
        }
        lab.link("far", "middle", line("ethernet-100")?)?;
        lab.link("middle", "near", line("ethernet-100")?)?;
        let (middle, near) = (lab.address("middle")?, lab.address("near")?);
        let mut world = World { mobile: None, base: None, lab };
        let socket = |port| world.lab.inside("middle", || UdpSocket::bind((middle, port))).unwrap().unwrap();
        let (greetings, traffic, stop) = (socket(7480), socket(7481), AtomicBool::new(false));
        std::thread::scope(|scope| {
            // QUIC bears this, too.
            scope.spawn(|| meddle(greetings, (near, 7480).into(), &stop));
            scope.spawn(|| meddle(traffic, (near, 7481).into(), &stop));
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| -> Result<(), LabError> {
                world.start_base(&["--scheme", "ours", "--address", &format!("{middle}:7480")])?;
                world.start_mobile(&[])?;
                world.both_ways(500_000);
                for host in ["far", "near"] {
                    let status = world.status(host).unwrap();
                    for count in ["foreign", "forged", "replayed"] {
                        assert!(status[count].as_u64() > Some(0), "{host} {count}: {status}");
                    }
                    let peer = &status["peers"][0];
                    assert!(status["senseless"] == 0 && peer["given_up"] == 0, "{host}: {status}");
                    assert!(peer["state_bytes"].as_u64() < Some(2 << 20), "{host}: {status}");
                }
                interrupt(world.mobile.take());
                interrupt(world.base.take());
                Ok(())
            }));
            stop.store(true, Ordering::Relaxed);
            match result {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    });
}
