//! Kernel TCP over emulated lines: many transfers side by side, each between hosts of its own.
//!
//! ```text
//! fixed host ── wire ── base station ── radio ── mobile
//! ```
//! The mobile opens the connection, the fixed host sends. Where `wayfs link` repairs the radio, its ends are at base station and mobile.

use crate::link_tool::{Ends, Tool};
use crate::probe::{bound_window, connect_with_window, counts, set_congestion_control, set_max_segment};
use crate::{Context, LabError, Lateness, LinePlan, Link, Topology};
use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wayfs_link::{Duplex, LineConfig};

/// Longest transfer; what takes longer counts as if it had ended then.
const LONGEST: Duration = Duration::from_secs(300);
/// Longest silence of a connection.
const SILENCE: Duration = Duration::from_secs(120);
/// Between looks at the window.
const LOOK: Duration = Duration::from_millis(100);
/// Bytes written or read at a time.
const PIECE: usize = 16 * 1024;
/// Tries of a transfer during which the emulator is late.
const TRIES_MAX: u32 = 3;
/// Transfers at the same time.
const SEATS: usize = 24;

/// A transfer.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) control: &'static str,
    /// Selective acknowledgements, and losses found by them.
    pub(super) sack: bool,
    /// Scheme of `wayfs link` at both ends of the radio.
    pub(super) scheme: Option<&'static str>,
    pub(super) wire: LineConfig,
    pub(super) radio: LineConfig,
    pub(super) duplex: Duplex,
    /// Bytes that the mobile advertises at most.
    pub(super) window: u32,
    pub(super) len: u32,
    pub(super) seed: u64,
}

/// How it went.
#[derive(Debug, Clone, Default)]
pub(super) struct Transferred {
    /// Megabits of payload per second.
    pub(super) throughput: f64,
    /// Segments that the fixed host sent again.
    pub(super) retransmitted: u32,
    /// Seconds and KB of the congestion window.
    pub(super) windows: Vec<(f64, f64)>,
}

/// Carries cases out, several at a time; what comes out is in their order, `None` where the emulator was late in every try.
pub(super) fn run_all(context: &mut Context<'_>, cases: &[Case]) -> Result<Vec<Option<Transferred>>, LabError> {
    let results = Mutex::new(vec![None; cases.len()]);
    // Seats differ by the tool alone; everything else is set for each transfer.
    let mut schemes: Vec<Option<&'static str>> = cases.iter().map(|case| case.scheme).collect();
    schemes.sort_unstable();
    schemes.dedup();
    for scheme in schemes {
        let jobs: Vec<usize> = (0..cases.len()).filter(|n| cases[*n].scheme == scheme).collect();
        let part = format!("kernel{}", scheme.map(|scheme| format!("-link-{scheme}")).unwrap_or_default());
        let mut lab = context.topology(&part, context.seed())?;
        let seats = furnish(&mut lab, context, scheme, jobs.len().min(SEATS), &cases[jobs[0]])?;
        let list = Mutex::new(jobs);
        let outcome: Result<(), LabError> = std::thread::scope(|scope| {
            let sit = |seat| {
                let (lab, list, results) = (&lab, &list, &results);
                scope.spawn(move || sit(lab, seat, cases, list, results))
            };
            let workers: Vec<_> = seats.iter().map(sit).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a transfer does not panic"))
        });
        drop(seats);
        context.finish(&part, lab);
        outcome?;
    }
    Ok(results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Three hosts and what joins them.
struct Seat {
    number: usize,
    wire: Link,
    radio: Link,
    _tool: Option<Tool>,
}

fn furnish(
    lab: &mut Topology,
    context: &Context<'_>,
    scheme: Option<&'static str>,
    count: usize,
    first: &Case,
) -> Result<Vec<Seat>, LabError> {
    let mut joined = Vec::new();
    for n in 0..count {
        let [fixed, base, mobile] = names(n);
        for host in [&fixed, &base, &mobile] {
            lab.host(host)?;
        }
        let plan = |config: &LineConfig, duplex| LinePlan { config: config.clone(), duplex, schedule: Vec::new() };
        // The end that is nearer to the mobile comes first: *down* is towards the mobile on every line.
        let wire = lab.join(&[base.as_str()], &fixed, plan(&first.wire, Duplex::Full))?[0];
        let radio = lab.join(&[mobile.as_str()], &base, plan(&first.radio, first.duplex))?[0];
        joined.push((n, wire, radio));
    }
    lab.route()?;
    let mut seats = Vec::new();
    for (number, wire, radio) in joined {
        let [fixed, base, mobile] = names(number);
        let mobiles = [mobile];
        let ends = |scheme| Ends { mobiles: &mobiles, base: &base, far: &fixed, scheme, door: None, place: number };
        let tool = scheme.map(|scheme| Tool::start(lab, context.program(), ends(scheme))).transpose()?;
        seats.push(Seat { number, wire, radio, _tool: tool });
    }
    Ok(seats)
}

fn names(number: usize) -> [String; 3] {
    ["f", "b", "m"].map(|letter| format!("{letter}{number}"))
}

fn sit(
    lab: &Topology,
    seat: &Seat,
    cases: &[Case],
    list: &Mutex<Vec<usize>>,
    results: &Mutex<Vec<Option<Transferred>>>,
) -> Result<(), LabError> {
    let locked = || list.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    loop {
        let Some(number) = locked().pop() else { return Ok(()) };
        for try_number in 0..TRIES_MAX {
            let mut case = cases[number].clone();
            case.seed = case.seed.wrapping_add(u64::from(try_number) << 32);
            let (transferred, lateness) = transfer(lab, seat, &case).inspect_err(|_| locked().clear())?;
            if lateness.is_rejected() {
                continue;
            }
            results.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[number] = Some(transferred);
            break;
        }
    }
}

fn transfer(lab: &Topology, seat: &Seat, case: &Case) -> Result<(Transferred, Lateness), LabError> {
    let [fixed, _, mobile] = names(seat.number);
    let plan = |config: &LineConfig| LinePlan { config: config.clone(), ..LinePlan::default() };
    for (link, config, more) in [(seat.wire, &case.wire, 0), (seat.radio, &case.radio, 1)] {
        lab.shape(link, plan(config));
        lab.reseed(link, case.seed.wrapping_mul(2).wrapping_add(more));
    }
    let switch = |on: bool| if on { "1" } else { "0" };
    for host in [&fixed, &mobile] {
        lab.sysctl(host, "net.ipv4.tcp_sack", switch(case.sack))?;
        lab.sysctl(host, "net.ipv4.tcp_recovery", switch(case.sack))?;
        for off in ["tcp_timestamps", "tcp_early_retrans", "tcp_frto"] {
            lab.sysctl(host, &format!("net.ipv4.{off}"), "0")?;
        }
    }
    lab.take_lateness_of(seat.radio);
    let (mut sender, receiver) = connected(lab, &fixed, &mobile, case)?;
    let over = AtomicBool::new(false);
    let begin = Instant::now();
    let (sent, received, windows) = std::thread::scope(|scope| {
        let watcher = sender.try_clone().map(|socket| {
            let over = &over;
            scope.spawn(move || watch(&socket, over, begin))
        });
        let reading = scope.spawn(move || receive(receiver, case.window, begin));
        let sent = send(&mut sender, case.len, begin);
        let last = counts(&sender).unwrap_or_default();
        // Without an end of the stream the reader would wait for the silence to pass.
        let _ = sender.shutdown(std::net::Shutdown::Write);
        let received = reading.join().expect("reading does not panic");
        over.store(true, Ordering::Relaxed);
        let windows = watcher.map(|watcher| watcher.join().expect("watching does not panic")).unwrap_or_default();
        (sent.map(|()| last), received, windows)
    });
    let last = sent.map_err(LabError::io("send a transfer"))?;
    let (len, seconds) = received.map_err(LabError::io("receive a transfer"))?;
    let throughput = len as f64 * 8.0 / 1e6 / seconds;
    let transferred = Transferred { throughput, retransmitted: last.retransmitted, windows };
    Ok((transferred, lab.take_lateness_of(seat.radio)))
}

fn connected(lab: &Topology, fixed: &str, mobile: &str, case: &Case) -> Result<(TcpStream, TcpStream), LabError> {
    let doing = || LabError::io("connect for a transfer");
    let listener = lab.inside(fixed, || -> io::Result<TcpListener> {
        let listener = TcpListener::bind("0.0.0.0:0")?;
        set_max_segment(&listener, MSS)?;
        Ok(listener)
    })?;
    let listener = listener.map_err(doing())?;
    let target = SocketAddrV4::new(lab.address(fixed)?, listener.local_addr().map_err(doing())?.port());
    let receiver = lab.inside(mobile, || connect_with_window(target, case.window, SILENCE))?.map_err(doing())?;
    let (sender, _) = listener.accept().map_err(doing())?;
    set_congestion_control(&sender, case.control).map_err(doing())?;
    for socket in [&sender, &receiver] {
        socket.set_read_timeout(Some(SILENCE)).map_err(doing())?;
        socket.set_write_timeout(Some(SILENCE)).map_err(doing())?;
    }
    Ok((sender, receiver))
}

/// Payload of a segment, as then.
pub(super) const MSS: u32 = 1400;

fn send(socket: &mut TcpStream, len: u32, begin: Instant) -> io::Result<()> {
    let piece = [0; PIECE];
    let mut left = len as usize;
    while left > 0 && begin.elapsed() < LONGEST {
        let len = left.min(PIECE);
        match socket.write_all(&piece[..len]) {
            Ok(()) => left -= len,
            Err(error) if is_given_up(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Nothing came for [`SILENCE`], or the other end saw that: the transfer counts as what it brought until then.
fn is_given_up(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, WouldBlock};
    matches!(error.kind(), BrokenPipe | ConnectionReset | TimedOut | WouldBlock)
}

fn receive(mut socket: TcpStream, window: u32, begin: Instant) -> io::Result<(u64, f64)> {
    let mut piece = [0; PIECE];
    let mut total = 0;
    loop {
        match socket.read(&mut piece) {
            Ok(0) => return Ok((total, begin.elapsed().as_secs_f64())),
            Ok(len) => total += len as u64,
            Err(error) if is_given_up(&error) => return Ok((total, begin.elapsed().as_secs_f64())),
            Err(error) => return Err(error),
        }
        bound_window(&socket, window)?;
    }
}

fn watch(socket: &TcpStream, over: &AtomicBool, begin: Instant) -> Vec<(f64, f64)> {
    let mut windows = Vec::new();
    while !over.load(Ordering::Relaxed) {
        if let Ok(counts) = counts(socket) {
            windows.push((begin.elapsed().as_secs_f64(), f64::from(counts.cwnd) * f64::from(MSS) / 1024.0));
        }
        std::thread::sleep(LOOK);
    }
    windows
}
