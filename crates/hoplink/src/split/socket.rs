//! Sockets that speak from addresses of others.

use super::{Ends, is_same_family};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// Openings that may wait for a listener; they are taken at once.
const BACKLOG: i32 = 256;
/// States of TCP, by the kernel's numbers, in which nothing is owed any more.
const TIME_WAIT: u8 = 6;
const CLOSE: u8 = 7;

/// A socket bound to an address of somebody else, in the namespace of the calling thread. It ends with a reset unless [`end_well`].
fn bound(at: SocketAddr) -> io::Result<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    // Several connections come from, or go to, one address and port.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_socket_reuseport(&socket, true)?;
    be_transparent(&socket, at)?;
    net::bind(&socket, &at)?;
    Ok(socket)
}

/// One that is being connected.
pub(super) fn connecting(ends: Ends) -> io::Result<OwnedFd> {
    if !is_same_family(ends.from.ip(), ends.to.ip()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let socket = bound(ends.from)?;
    prepare(socket.as_fd())?;
    match net::connect(&socket, &ends.to) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// One that listens. What it takes is as it is from the first moment: one that is dropped before anybody looks at it must
/// not end as if all had been said.
pub(super) fn listening(at: SocketAddr) -> io::Result<OwnedFd> {
    let socket = bound(at)?;
    prepare(socket.as_fd())?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// How every joined connection is: nothing waits for more, urgent bytes stay in their place, and an end that is gone for hours is found.
pub(super) fn prepare(socket: BorrowedFd<'_>) -> io::Result<()> {
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_oobinline(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_socket_linger(socket, Some(Duration::ZERO))?;
    Ok(())
}

/// Closing is no reset any more.
pub(super) fn end_well(socket: BorrowedFd<'_>) {
    // One that is gone needs nothing.
    let _ = sockopt::set_socket_linger(socket, None);
}

fn be_transparent(socket: &OwnedFd, at: SocketAddr) -> io::Result<()> {
    let (level, name) = if at.is_ipv4() {
        (libc::IPPROTO_IP, libc::IP_TRANSPARENT)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_TRANSPARENT)
    };
    let on: libc::c_int = 1;
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the value is of the size told.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const on).cast(), len) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Bytes that came and were acknowledged, and that nobody has read.
pub(super) fn unread(socket: BorrowedFd<'_>) -> u64 {
    rustix::io::ioctl_fionread(socket).unwrap_or(0)
}

/// Bytes that were given to the kernel and that the other end has not acknowledged.
pub(super) fn unacknowledged(socket: BorrowedFd<'_>) -> u64 {
    let mut count: libc::c_int = 0;
    // SAFETY: the descriptor is open, and the request writes one integer.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    if result == 0 { u64::try_from(count).unwrap_or(0) } else { 0 }
}

/// Whether both ends have said and acknowledged all, or have given up.
pub(super) fn is_over(socket: BorrowedFd<'_>) -> bool {
    let mut info = [0_u8; 256];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: the descriptor is open, and the kernel writes at most `len` bytes, of which the first is the state.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    result != 0 || matches!(info[0], TIME_WAIT | CLOSE)
}
