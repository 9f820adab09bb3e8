//! Sockets at ports below 1024, from which many servers take calls only (`secure` in their lists of exports). Only root has them; whoever
//! is not, or finds none free, gets any port, and servers that insist say no.

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

/// The ports that are tried: those below belong to services.
const FIRST: u16 = 665;
const LAST: u16 = 1023;
/// Ports that are tried before any will do.
const TRIES: u16 = 32;

/// Addresses of this machine to be tried, reserved ones first; for a server of the same family.
fn candidates(server: SocketAddr) -> impl Iterator<Item = SocketAddr> {
    let any = match server {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let tries = if rustix::process::geteuid().is_root() { TRIES } else { 0 };
    // Processes begin at different places, so that they seldom meet.
    let start = (std::process::id() % u32::from(LAST - FIRST + 1)) as u16;
    let reserved = (0..tries).map(move |n| FIRST + (start + n) % (LAST - FIRST + 1));
    reserved.chain([0]).map(move |port| SocketAddr::new(any, port))
}

/// A datagram socket that only hears the server.
pub(super) fn datagrams(server: SocketAddr) -> io::Result<UdpSocket> {
    let mut last = io::ErrorKind::AddrInUse.into();
    for here in candidates(server) {
        match UdpSocket::bind(here).and_then(|socket| socket.connect(server).map(|()| socket)) {
            Ok(socket) => return Ok(socket),
            Err(error) if is_taken(&error) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// A connection, made within a time.
pub(super) fn stream(server: SocketAddr, within: Duration) -> io::Result<TcpStream> {
    let mut last = io::ErrorKind::AddrInUse.into();
    for here in candidates(server) {
        match connect_from(here, server, within) {
            Ok(stream) => return Ok(stream),
            Err(error) if is_taken(&error) => last = error,
            Err(error) => return Err(error),
        }
    }
    Err(last)
}

/// The port is another's, or an earlier connection to the same server still lingers there.
fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable | io::ErrorKind::PermissionDenied)
}

fn connect_from(here: SocketAddr, server: SocketAddr, within: Duration) -> io::Result<TcpStream> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    bind(&socket, &here)?;
    match connect(&socket, &server) {
        Ok(()) => {}
        Err(Errno::INPROGRESS) => {
            let timeout =
                Timespec { tv_sec: within.as_secs().cast_signed(), tv_nsec: i64::from(within.subsec_nanos()) };
            if rustix::event::poll(&mut [PollFd::new(&socket, PollFlags::OUT)], Some(&timeout))? == 0 {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sockopt::socket_error(&socket)??;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(TcpStream::from(socket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn root_calls_from_reserved_ports_and_others_from_any() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = listener.local_addr().unwrap();
        let first = stream(server, Duration::from_secs(5)).unwrap();
        // The second finds the port of the first taken.
        let second = stream(server, Duration::from_secs(5)).unwrap();
        let ports = [first.local_addr().unwrap().port(), second.local_addr().unwrap().port()];
        assert_ne!(ports[0], ports[1]);
        let udp = datagrams(server).unwrap().local_addr().unwrap().port();
        if rustix::process::geteuid().is_root() {
            assert!(ports.into_iter().chain([udp]).all(|port| port < 1024), "{ports:?} {udp}");
        }
    }

    #[test]
    fn a_server_that_is_not_there_is_told_of_at_once() {
        let nobody = {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            listener.local_addr().unwrap()
        };
        assert_eq!(stream(nobody, Duration::from_secs(5)).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
