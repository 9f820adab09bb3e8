//! Single packets: sent at planned times, received with the kernel's.

use super::timestamp;
use crate::priority::{self, Priority};
use crate::{LabError, Topology};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// IP and UDP headers.
const HEADERS_LEN: usize = 28;
/// A probe carries its number.
const PAYLOAD_LEN_MIN: usize = 8;
/// How long the reader waits for one more packet before it asks whether the sender is done.
const PATIENCE: Duration = Duration::from_millis(100);
/// Room for packets that the reader has not yet fetched.
const BUFFER_LEN: usize = 32 << 20;

/// A packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// When, after the start.
    pub at: Duration,
    /// Bytes with their IP and UDP headers, 36 to 1500.
    pub len: usize,
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Bytes with headers.
    pub len: usize,
    /// When it was given to the kernel, in nanoseconds since 1970.
    pub sent: u64,
    /// When the kernel at the far end had it first, in nanoseconds since 1970; `None` if it did not arrive.
    pub received: Option<u64>,
}

impl Probe {
    /// How long it was on its way, in microseconds.
    pub fn delay_us(&self) -> Option<f64> {
        self.received.map(|received| (received as f64 - self.sent as f64) / 1000.0)
    }
}

/// Sends packets from one host to another and tells what became of each, in the order of sending. `drain` is how long
/// stragglers are waited for after the last was sent.
///
/// # Errors
/// [`LabError`] if a host is unknown or the kernel refuses.
pub fn packets(
    lab: &Topology,
    from: &str,
    to: &str,
    plan: &[Planned],
    drain: Duration,
) -> Result<Vec<Probe>, LabError> {
    let doing = || LabError::io("make a socket for probes");
    let receiver = lab.inside(to, || UdpSocket::bind("0.0.0.0:0"))?.map_err(doing())?;
    let sender = lab.inside(from, || UdpSocket::bind("0.0.0.0:0"))?.map_err(doing())?;
    let target = SocketAddr::new(lab.address(to)?.into(), receiver.local_addr().map_err(doing())?.port());
    timestamp::enable(&receiver).map_err(doing())?;
    receiver.set_read_timeout(Some(PATIENCE)).map_err(doing())?;
    // Without the right to a large buffer, a fast stream loses at the reader; the rights are those of the laboratory.
    rustix::net::sockopt::set_socket_recv_buffer_size_force(&receiver, BUFFER_LEN)
        .map_err(|error| LabError::io("enlarge a socket's buffer")(error.into()))?;
    let done = AtomicBool::new(false);
    let (sent, received) = thread::scope(|scope| {
        let reading = scope.spawn(|| read(&receiver, plan.len(), &done));
        let sending = scope.spawn(|| send(&sender, target, plan));
        let sent = sending.join().expect("sending does not panic");
        thread::sleep(drain);
        done.store(true, Ordering::Relaxed);
        (sent, reading.join().expect("reading does not panic"))
    });
    let sent = sent.map_err(LabError::io("send a probe"))?;
    let received = received.map_err(LabError::io("receive a probe"))?;
    let probes = plan.iter().zip(sent).zip(received);
    Ok(probes.map(|((planned, sent), received)| Probe { len: planned.len, sent, received }).collect())
}

/// Sends at the planned times, or as soon after as it can.
fn send(socket: &UdpSocket, target: SocketAddr, plan: &[Planned]) -> io::Result<Vec<u64>> {
    priority::raise(Priority::Prober);
    let start = monotonic();
    let mut packet = vec![0; 1500];
    plan.iter()
        .enumerate()
        .map(|(number, planned)| {
            let payload = planned.len.clamp(HEADERS_LEN + PAYLOAD_LEN_MIN, packet.len()) - HEADERS_LEN;
            packet[..PAYLOAD_LEN_MIN].copy_from_slice(&(number as u64).to_be_bytes());
            let wait = planned.at.saturating_sub(monotonic().saturating_sub(start));
            if !wait.is_zero() {
                thread::sleep(wait);
            }
            let now = real_time();
            match socket.send_to(&packet[..payload], target) {
                // The device is full or taken out of service: the packet is lost as on any host.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => Ok(now),
                Err(error) if error.kind() == io::ErrorKind::NetworkUnreachable => Ok(now),
                Ok(_) => Ok(now),
                Err(error) => Err(error),
            }
        })
        .collect()
}

fn read(socket: &UdpSocket, count: usize, done: &AtomicBool) -> io::Result<Vec<Option<u64>>> {
    let mut received = vec![None; count];
    let mut missing = count;
    let mut buffer = [0; 1500];
    while missing > 0 {
        match timestamp::receive(socket, &mut buffer) {
            Ok((len, time)) => {
                let number = buffer[..len].first_chunk().map(|bytes| u64::from_be_bytes(*bytes) as usize);
                // A duplicate does not count; its first copy does.
                if let Some(slot @ None) = number.and_then(|number| received.get_mut(number)) {
                    *slot = Some(time);
                    missing -= 1;
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(received)
}

fn monotonic() -> Duration {
    time(rustix::time::ClockId::Monotonic)
}

/// Nanoseconds since 1970, as the kernel stamps packets.
fn real_time() -> u64 {
    u64::try_from(time(rustix::time::ClockId::Realtime).as_nanos()).unwrap_or(u64::MAX)
}

fn time(clock: rustix::time::ClockId) -> Duration {
    let now = rustix::time::clock_gettime(clock);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}
