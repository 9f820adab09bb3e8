//! Carries bytes between two sockets, both ways, as fast as the slower one takes them.

use super::join::Streams;
use super::socket;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Bytes of one direction that are in neither kernel, at most.
const HELD_MAX: usize = 16 * 1024;
/// How often it is looked whether the last bytes were acknowledged: at first, and at most.
const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_secs(1);

/// Until each side has everything that the other said, and has acknowledged it. An error of one side ends both.
pub(super) async fn carry(streams: &Streams) -> io::Result<()> {
    let Streams { mobile, wire, to_mobile, to_wire } = streams;
    tokio::try_join!(pump(mobile, wire, to_wire), pump(wire, mobile, to_mobile))?;
    for stream in [mobile, wire] {
        delivered(stream).await;
        socket::end_well(stream.as_fd());
    }
    Ok(())
}

/// One direction, to its end: the other one may go on.
async fn pump(from: &TcpStream, to: &TcpStream, held: &AtomicU64) -> io::Result<()> {
    let mut buffer = vec![0; HELD_MAX];
    loop {
        // Whoever resets while the other is silent is heard at once, too.
        tokio::select! {
            ready = from.readable() => ready?,
            error = broken(to) => return Err(error),
        }
        let len = match from.try_read(&mut buffer) {
            Ok(0) => return shutdown(to),
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        let mut rest = &buffer[..len];
        while !rest.is_empty() {
            held.store(rest.len() as u64, Ordering::Relaxed);
            tokio::select! {
                ready = to.writable() => ready?,
                error = broken(from) => return Err(error),
            }
            match to.try_write(rest) {
                Ok(len) => rest = &rest[len..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        held.store(0, Ordering::Relaxed);
    }
}

/// Ends when the other end has reset the connection, or is given up.
async fn broken(stream: &TcpStream) -> io::Error {
    match stream.ready(Interest::ERROR).await {
        Ok(_) => stream.take_error().ok().flatten().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()),
        Err(error) => error,
    }
}

/// Says that no more comes.
fn shutdown(stream: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(stream, rustix::net::Shutdown::Write) {
        // It has gone already, which the other direction tells.
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits until the other end has acknowledged everything, or is given up.
async fn delivered(stream: &TcpStream) {
    let mut wait = LOOK_MIN;
    while !socket::is_over(stream.as_fd()) {
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LOOK_MAX);
    }
}
