//! A base and a mobile of `wayfs link` on hosts of the laboratory, and the hop between them.

#![allow(dead_code, reason = "every test is a program of its own, and not each uses all of it")]

use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};
use wayfs_lab::{LabError, Link, Process, Topology, line, read_line};

/// Longest wait for anything, on a busy machine.
pub(crate) const READY: Duration = Duration::from_secs(60);
pub(crate) const POOL: &str = "10.177.0.0/24";
pub(crate) const BASE: Ipv4Addr = Ipv4Addr::new(10, 177, 0, 1);
pub(crate) const MOBILE: Ipv4Addr = Ipv4Addr::new(10, 177, 0, 2);
/// Ten times as fast as the published hop, so that tests are short; a tenth of the time is bad.
pub(crate) const BAD: &str =
    "profile = \"wireless-1mb\"\nboth = { rate_mbps = 10.0 }\nbad_periods = { good_ms = 90, bad_ms = 10 }";

/// A base at `near`, a mobile at `far`, and the hop between them.
pub(crate) struct World {
    pub(crate) mobile: Option<Process>,
    pub(crate) base: Option<Process>,
    pub(crate) lab: Topology,
    /// The first mobile's.
    pub(crate) hop: Option<Link>,
}

/// Runs a test as far as the machine allows it.
pub(crate) fn with(test: impl FnOnce() -> Result<(), LabError>) {
    match test() {
        Ok(()) => {}
        Err(error) if error.is_forbidden() => eprintln!("SKIPPED: {error}"),
        Err(error) => panic!("{error}"),
    }
}

impl World {
    /// Only the hosts and the hop.
    pub(crate) fn hosts(hop: &str) -> Result<Self, LabError> {
        Self::around(&["far"], hop)
    }

    /// Hosts around a base that share the hop.
    pub(crate) fn around(mobiles: &[&str], hop: &str) -> Result<Self, LabError> {
        let mut lab = Topology::new(7)?;
        for host in mobiles.iter().chain(&["near"]) {
            lab.host(host)?;
            for devices in ["default", "all"] {
                lab.sysctl(host, &format!("net.ipv6.conf.{devices}.disable_ipv6"), "0")?;
            }
        }
        let hops = lab.cell(mobiles, "near", read_line(hop, std::path::Path::new("."))?)?;
        Ok(Self { mobile: None, base: None, lab, hop: hops.first().copied() })
    }

    pub(crate) fn start(hop: &str, scheme: &str, mobile: &[&str]) -> Result<Self, LabError> {
        let mut world = Self::hosts(hop)?;
        world.start_base(&["--scheme", scheme])?;
        world.start_mobile(mobile)?;
        Ok(world)
    }

    /// A host `wire` behind the base, too, that the mobile reaches over the link.
    pub(crate) fn with_wire(hop: &str, scheme: &str) -> Result<Self, LabError> {
        let mut world = Self::hosts(hop)?;
        world.lab.host("wire")?;
        world.lab.link("near", "wire", line("ethernet-100")?)?;
        world.start_base(&["--scheme", scheme])?;
        world.start_mobile(&[])?;
        world.ip("far", &format!("route replace {}/32 dev wayfs-link", world.lab.address("wire")?));
        world.ip("wire", &format!("route add {POOL} dev to-near"));
        Ok(world)
    }

    pub(crate) fn ticket(&self) -> String {
        self.lab.directory("near").unwrap().join("ticket").to_str().unwrap().to_owned()
    }

    pub(crate) fn start_base(&mut self, more: &[&str]) -> Result<(), LabError> {
        let ticket = self.ticket();
        let _ = std::fs::remove_file(&ticket);
        let listen = format!("{}:7480", self.lab.address("near")?);
        let mut command = self.lab.wayfs("near", &super::program())?;
        command.args(["link", "base", "--listen", &listen, "--pool", POOL, "--out", &ticket, "--socket"]);
        command.arg(self.lab.directory("near")?.join("link.sock")).args(more);
        self.base = Some(self.lab.spawn("near", "base", command)?);
        until("the base to run", || std::fs::read_to_string(&ticket).is_ok_and(|text| text.ends_with('\n')));
        Ok(())
    }

    pub(crate) fn mobile_command(&self, host: &str, ticket: &str, more: &[&str]) -> Result<Command, LabError> {
        let mut command = self.lab.wayfs(host, &super::program())?;
        command.args(["link", "mobile", ticket, "--socket"]).arg(self.lab.directory(host)?.join("link.sock"));
        command.args(more);
        Ok(command)
    }

    pub(crate) fn start_mobile(&mut self, more: &[&str]) -> Result<(), LabError> {
        self.mobile = Some(self.mobile_at("far", more)?);
        Ok(())
    }

    /// A mobile that is in.
    pub(crate) fn mobile_at(&self, host: &str, more: &[&str]) -> Result<Process, LabError> {
        let command = self.mobile_command(host, &self.ticket(), more)?;
        let mobile = self.lab.spawn(host, "mobile", command)?;
        until("the mobile to be in", || self.status(host).is_some_and(|it| it["peers"][0]["heard_ms"].is_u64()));
        Ok(mobile)
    }

    pub(crate) fn hop(&self) -> Link {
        self.hop.unwrap()
    }

    /// How the link of a host is; `None` if it does not answer.
    pub(crate) fn status(&self, host: &str) -> Option<Value> {
        let mut command = self.lab.wayfs(host, &super::program()).unwrap();
        command.args(["link", "status", "--json", "--socket"]).arg(self.lab.directory(host).unwrap().join("link.sock"));
        let output = self.lab.run(host, command, READY).unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    pub(crate) fn ip(&self, host: &str, arguments: &str) {
        let mut command = Command::new("ip");
        command.args(arguments.split_whitespace());
        let output = self.lab.run(host, command, READY).unwrap();
        assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Sends bytes over TCP from one host to an address of the other, and compares them. `midway` is called when some have come.
    pub(crate) fn transfer(&self, from: &str, to: (&str, impl Into<IpAddr>), len: usize, midway: impl FnOnce()) {
        let sent: Vec<u8> = (0..len).map(|n| (n * 31 + n / 251) as u8).collect();
        let address = to.1.into();
        let listener = self.lab.inside(to.0, || TcpListener::bind((address, 0))).unwrap().unwrap();
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

    pub(crate) fn both_ways(&self, len: usize) {
        self.transfer("far", ("near", BASE), len, || {});
        self.transfer("near", ("far", MOBILE), len, || {});
    }
}

pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < READY, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn output(mut process: Process) -> (Option<i32>, String) {
    let status = process.wait(READY).unwrap();
    (status.code(), process.output())
}

/// Interrupts a process, which must end well.
pub(crate) fn interrupt(process: Option<Process>) {
    let process = process.unwrap();
    process.signal(Signal::INT);
    let (code, text) = output(process);
    assert_eq!(code, Some(0), "{text}");
}
