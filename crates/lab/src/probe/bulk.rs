//! A TCP transfer: how much arrives by when.

use crate::{LabError, Topology};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes written or read at a time.
const PIECE_LEN: usize = 256 * 1024;
/// How often progress is noted.
const NOTE_EVERY: Duration = Duration::from_millis(10);
/// Longest silence before a transfer counts as failed.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// A transfer to make: for as long, or for as much, whichever comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bulk {
    /// Seconds of sending.
    pub duration: Duration,
    /// Most bytes.
    pub len_max: u64,
}

/// How far a transfer had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Since the connection was open.
    pub at: Duration,
    /// Bytes that the reader had by then.
    pub len: u64,
}

/// Transfers from one host to another and notes how it comes along; the last note is the end.
///
/// # Errors
/// [`LabError`] if a host is unknown or the connection fails.
pub fn bulk(lab: &Topology, from: &str, to: &str, transfer: Bulk) -> Result<Vec<Progress>, LabError> {
    let doing = || LabError::io("listen for a transfer");
    let listener = lab.inside(to, || TcpListener::bind("0.0.0.0:0"))?.map_err(doing())?;
    let target = SocketAddr::new(lab.address(to)?.into(), listener.local_addr().map_err(doing())?.port());
    let sender = lab.inside(from, || TcpStream::connect_timeout(&target, SILENCE_MAX))?;
    let mut sender = sender.map_err(LabError::io("connect for a transfer"))?;
    let (receiver, _) = listener.accept().map_err(LabError::io("accept a transfer"))?;
    for socket in [&sender, &receiver] {
        socket.set_read_timeout(Some(SILENCE_MAX)).map_err(doing())?;
        socket.set_write_timeout(Some(SILENCE_MAX)).map_err(doing())?;
    }
    let start = Instant::now();
    let (sent, received) = thread::scope(|scope| {
        let reading = scope.spawn(|| receive(receiver, start));
        let sent = send(&mut sender, transfer, start);
        drop(sender);
        (sent, reading.join().expect("reading does not panic"))
    });
    sent.map_err(LabError::io("send a transfer"))?;
    received.map_err(LabError::io("receive a transfer"))
}

fn send(socket: &mut TcpStream, transfer: Bulk, start: Instant) -> io::Result<()> {
    let piece = vec![0; PIECE_LEN];
    let mut left = transfer.len_max;
    while left > 0 && start.elapsed() < transfer.duration {
        let len = left.min(PIECE_LEN as u64) as usize;
        socket.write_all(&piece[..len])?;
        left -= len as u64;
    }
    Ok(())
}

fn receive(mut socket: TcpStream, start: Instant) -> io::Result<Vec<Progress>> {
    let mut piece = vec![0; PIECE_LEN];
    let mut notes = vec![Progress { at: Duration::ZERO, len: 0 }];
    let mut total = 0;
    loop {
        let len = socket.read(&mut piece)?;
        total += len as u64;
        let now = Progress { at: start.elapsed(), len: total };
        if len == 0 || notes.last().is_none_or(|last| last.at + NOTE_EVERY <= now.at) {
            notes.push(now);
        }
        if len == 0 {
            return Ok(notes);
        }
    }
}
