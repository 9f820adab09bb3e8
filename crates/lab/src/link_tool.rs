//! `wayfs link` at both ends of a hop of the laboratory: a base station beside the server's wire, a mobile that routes over it.

use crate::{LabError, Process, Topology};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Where the base listens for handshakes; datagrams come to the next port.
const PORT: u16 = 7480;
/// Longest time until both ends speak.
const READY: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// Characters of a ticket, at least: a key and an address.
const TICKET_LEN_MIN: usize = 40;
/// Devices at base and mobile.
const TUN_BASE: &str = "wl-base";
pub(crate) const TUN_MOBILE: &str = "wl-mobile";

/// All ends around a base. Dropping it ends them.
#[derive(Debug)]
pub struct Tool {
    mobiles: Vec<Process>,
    base: Process,
}

/// Whether this program has the tool.
pub(crate) fn is_there(program: &Path) -> bool {
    let asked = Command::new(program).args(["link", "base", "--help"]).output();
    asked.is_ok_and(|output| output.status.success())
}

/// What is to be joined.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    /// Hosts beyond the hop.
    pub mobiles: &'a [String],
    /// The host at its near end.
    pub base: &'a str,
    /// The host that is reached over the hop.
    pub far: &'a str,
    /// What is done about losses, by its name.
    pub scheme: &'a str,
    /// Another address of the base, at which it takes mobiles: its own can be one that is reached over the link then.
    pub door: Option<Ipv4Addr>,
    /// Tells bases of a topology apart: the addresses behind this one are `10.128.PLACE.0/24` and on.
    pub place: usize,
}

impl Tool {
    /// Starts all ends and leads the mobiles' packets to the far host, and its answers back, through them.
    ///
    /// # Errors
    /// [`LabError`] if an end does not start, or routes cannot be set.
    pub fn start(lab: &Topology, program: &Path, ends: Ends<'_>) -> Result<Self, LabError> {
        let pool = format!("10.{}.{}.0/24", 128 + ends.place / 256, ends.place % 256);
        let own = lab.directory(ends.base)?;
        let ticket = own.join("link.ticket");
        let address = lab.address(ends.base)?;
        if let Some(door) = ends.door {
            ip(lab, ends.base, &format!("address replace {door}/32 dev lo"))?;
            for mobile in ends.mobiles {
                let way = way_to(lab, mobile, ends.base)?;
                ip(lab, mobile, &format!("route replace {door}/32 dev {way} src {}", lab.address(mobile)?))?;
            }
        }
        let listen = format!("{}:{PORT}", ends.door.unwrap_or(address));
        let mut command = lab.wayfs(ends.base, program)?;
        command.args([
            "link",
            "base",
            "--listen",
            &listen,
            "--scheme",
            ends.scheme,
            "--tun",
            TUN_BASE,
            "--pool",
            &pool,
        ]);
        command
            .arg("--out")
            .arg(&ticket)
            .arg("--state")
            .arg(own.join("link"))
            .arg("--socket")
            .arg(own.join("link.sock"));
        let mut base = lab.spawn(ends.base, "link-base", command)?;
        until("a ticket of wayfs link", &mut base, || Ok(is_written(&ticket)))?;
        let far = lab.address(ends.far)?;
        let mut mobiles = Vec::new();
        for mobile in ends.mobiles {
            let own = lab.directory(mobile)?;
            let mut command = lab.wayfs(mobile, program)?;
            command.args(["link", "mobile"]).arg(&ticket).args(["--tun", TUN_MOBILE]);
            command.arg("--state").arg(own.join("link")).arg("--socket").arg(own.join("link.sock"));
            let mut process = lab.spawn(mobile, "link-mobile", command)?;
            until("an interface of wayfs link", &mut process, || has_address(lab, mobile, TUN_MOBILE))?;
            ip(lab, mobile, &format!("route replace {far}/32 dev {TUN_MOBILE}"))?;
            mobiles.push(process);
        }
        let way = way_to(lab, ends.far, ends.base)?;
        ip(lab, ends.far, &format!("route replace {pool} dev {way}"))?;
        Ok(Self { mobiles, base })
    }

    /// The processes of all ends.
    pub fn processes(&self) -> impl Iterator<Item = u32> {
        self.mobiles.iter().chain([&self.base]).map(Process::id)
    }
}

/// Whether the whole ticket is there: the file is seen before what is in it.
fn is_written(ticket: &Path) -> bool {
    std::fs::read_to_string(ticket).is_ok_and(|text| text.trim().len() > TICKET_LEN_MIN)
}

/// Waits until something holds, or one of the ends has ended.
fn until(what: &str, end: &mut Process, holds: impl Fn() -> Result<bool, LabError>) -> Result<(), LabError> {
    let start = Instant::now();
    while !holds()? {
        if let Some(status) = end.ended() {
            let message = format!("{status}: {}", end.output().trim());
            return Err(LabError::Tool { tool: end.label().to_owned(), message });
        }
        if start.elapsed() > READY {
            return Err(LabError::TimedOut { what: what.to_owned(), within: READY });
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

fn has_address(lab: &Topology, host: &str, device: &str) -> Result<bool, LabError> {
    let mut command = Command::new("ip");
    command.args(["-4", "-o", "address", "show", "dev", device, "up"]);
    let output = lab.run(host, command, READY)?;
    Ok(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("inet "))
}

/// The device by which a host reaches another.
fn way_to(lab: &Topology, from: &str, to: &str) -> Result<String, LabError> {
    let mut command = Command::new("ip");
    command.args(["-o", "route", "get", &lab.address(to)?.to_string()]);
    let output = lab.run(from, command, READY)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut words = text.split_whitespace().skip_while(|word| *word != "dev").skip(1);
    let none = || LabError::Tool { tool: format!("ip route get on {from}"), message: text.clone() };
    words.next().map(str::to_owned).ok_or_else(none)
}

pub(crate) fn ip(lab: &Topology, host: &str, line: &str) -> Result<(), LabError> {
    let mut command = Command::new("ip");
    command.args(line.split_whitespace());
    let output = lab.run(host, command, READY)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(LabError::Tool { tool: format!("ip {line} on {host}"), message })
}
