//! What strangers at the door cost a server, and how long a member takes to get in meanwhile.
//!
//! Two kinds of strangers: forged ones, whose first packets come 10,000 a second from many networks and who never answer, and
//! real ones, who do whole handshakes with keys of their own as fast as two threads can, and then say nothing.

use crate::measure::median;
use crate::meter::{Standing, processor_seconds};
use crate::size::Size;
use crate::table::Row;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use wayfs_hostile_tests::{As, Member, Peer};
use wayfs_net::{Address, Ticket};
use wayfs_system_tests::{Machine, Server, free_port};

/// First packets a second.
const RATE: usize = 10_000;
/// Different first packets; they are sent again after so many.
const PACKETS: usize = 5_000;
/// Networks that forged ones come from.
const NETWORKS: u8 = 32;
/// How long each kind goes on.
const LONG: Duration = Duration::from_secs(6);
/// Threads of real strangers, and dials that each has under way.
const CROWDS: u8 = 2;
const AT_ONCE: usize = 8;
/// Shortest first packet of QUIC (RFC 9000, section 14.1).
const FIRST_LEN_MIN: usize = 1200;

/// Measures both, once and as long for each size.
pub(crate) fn rows(_: Size, _: usize) -> Result<Vec<Row>> {
    let machine = Machine::new("home");
    let home = machine.serve(free_port(), &[]);
    home.wayfs(&machine, &["volume", "create", "door"]).ok();
    let text = home.ticket(&machine, "door");
    let ticket: Ticket = text.parse()?;
    let member = Peer::new();
    let admitted = member.join(&text, As::Client, "member");
    ensure!(enter(&member, &admitted).is_some(), "the member does not get in where nobody else is");

    let packets = first_packets(&ticket)?;
    let forged = crowd(&home, (&member, &admitted), |ends| send_forged(&packets, home.port, ends))?;
    let real = crowd(&home, (&member, &admitted), |ends| {
        thread::scope(|scope| {
            let come = |crowd| {
                let stranger = Peer::at(Ipv4Addr::new(127, 1, crowd, 1));
                stranger.dial_without_end(&ticket, AT_ONCE, ends)
            };
            let crowds: Vec<_> = (0..CROWDS).map(|crowd| scope.spawn(move || come(crowd))).collect();
            crowds.into_iter().map(|crowd| crowd.join().unwrap_or_default()).sum()
        })
    })?;
    Ok([forged.rows("first packets from forged addresses"), real.rows("handshakes of strangers")].concat())
}

/// What a kind of strangers cost.
struct Cost {
    /// Strangers a second.
    rate: f64,
    /// Processor time of the server for each second.
    cores: f64,
    /// What its memory grew by at most, MiB.
    grown: f64,
    /// What a member took to get in, ms; infinite where it was refused.
    entries: Vec<f64>,
}

impl Cost {
    fn rows(mut self, who: &str) -> Vec<Row> {
        let row = |what: &str, unit, figure, limit: &str| Row {
            what: format!("{who}, {:.0} a second: {what}", self.rate),
            unit,
            figures: [None, None, Some(figure)],
            limit: limit.to_owned(),
            is_time: true,
        };
        let slowest = self.entries.iter().copied().fold(0.0, f64::max);
        let middle = median(&mut self.entries).unwrap_or(f64::INFINITY);
        vec![
            row("the server's processors", "cores", self.cores, "sight 0.5 at 10,000 a second"),
            row("the server's memory grows by", "MiB", self.grown, "sight 16"),
            row("a member gets in within", "ms", middle, &format!("median; the slowest {slowest:.0}; sight 1000")),
        ]
    }
}

/// Lets strangers come, and a member again and again meanwhile.
fn crowd(home: &Server, (peer, member): (&Peer, &Member), come: impl Fn(&AtomicBool) -> u64 + Sync) -> Result<Cost> {
    let pid = home.process.id();
    let ends = AtomicBool::new(false);
    let (before, used, began) = (Standing::of(pid)?.resident_mib, processor_seconds(pid)?, Instant::now());
    thread::scope(|scope| {
        let strangers = scope.spawn(|| come(&ends));
        let (mut entries, mut largest) = (Vec::new(), before);
        while began.elapsed() < LONG {
            entries.push(enter(peer, member).unwrap_or(f64::INFINITY));
            largest = largest.max(Standing::of(pid)?.resident_mib);
            thread::sleep(Duration::from_millis(50));
        }
        ends.store(true, Ordering::Relaxed);
        let (took, used) = (began.elapsed().as_secs_f64(), processor_seconds(pid)? - used);
        let came = strangers.join().ok().context("the strangers ended early")?;
        Ok(Cost { rate: came as f64 / took, cores: used / took, grown: largest - before, entries })
    })
}

/// What a member takes from its first packet to its welcome, ms; ends the run if no connection comes about.
fn enter(peer: &Peer, member: &Member) -> Option<f64> {
    let begin = Instant::now();
    peer.attach(member).ok().map(|_session| begin.elapsed().as_secs_f64() * 1e3)
}

/// First packets as the program makes them, each of a connection of its own.
fn first_packets(ticket: &Ticket) -> Result<Vec<Vec<u8>>> {
    let catcher = UdpSocket::bind("127.0.0.1:0")?;
    catcher.set_nonblocking(true)?;
    let at = vec![Address::from(catcher.local_addr()?)];
    let peer = Peer::new();
    // By the name of the connection, which stands behind the version (RFC 9000, section 17.2): some send theirs twice.
    let mut packets = BTreeMap::new();
    let mut buffer = [0; 2048];
    while packets.len() < PACKETS {
        peer.give_up_dialling(&at, ticket.home(), AT_ONCE);
        while let Ok(len) = catcher.recv(&mut buffer) {
            let name_end = 6 + usize::from(buffer[5]);
            if (FIRST_LEN_MIN.max(name_end)..=buffer.len()).contains(&len) {
                packets.insert(buffer[6..name_end].to_vec(), buffer[..len].to_vec());
            }
        }
    }
    Ok(packets.into_values().collect())
}

/// Sends first packets from many networks, as many a second as wanted, and hears no answer; says how many.
fn send_forged(packets: &[Vec<u8>], port: u16, ends: &AtomicBool) -> u64 {
    let sockets: Vec<UdpSocket> =
        (1..=NETWORKS).filter_map(|network| UdpSocket::bind((format!("127.0.{network}.1"), 0)).ok()).collect();
    let to = SocketAddr::from(([127, 0, 0, 1], port));
    let began = Instant::now();
    let mut sent = 0;
    while !ends.load(Ordering::Relaxed) {
        let due = (began.elapsed().as_secs_f64() * RATE as f64) as usize;
        for number in sent..due {
            let _ = sockets[number % sockets.len()].send_to(&packets[number % packets.len()], to);
        }
        sent = due.max(sent);
        thread::sleep(Duration::from_millis(1));
    }
    sent as u64
}
