//! Settings and counts of a TCP socket that the standard library does not know.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};

/// What the kernel tells of a connection.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TcpCounts {
    /// Segments of the congestion window.
    pub cwnd: u32,
    /// Most bytes of payload in a segment that it sends.
    pub mss: u32,
    /// Segments sent again so far.
    pub retransmitted: u32,
}

/// Places of the numbers in `struct tcp_info`: eight bytes of flags, then numbers of 32 bits.
const SND_MSS: usize = 16;
const SND_CWND: usize = 80;
const TOTAL_RETRANS: usize = 100;
const INFO_LEN: usize = 104;

/// Chooses how a socket controls its window: a name of `tcp_available_congestion_control`.
///
/// # Errors
/// Those of the kernel, which may not have it.
pub fn set_congestion_control(socket: &TcpStream, name: &str) -> io::Result<()> {
    set(socket, libc::TCP_CONGESTION, name.as_bytes())
}

/// Bounds the window that a socket advertises, in bytes. The kernel takes no less than half of its smallest receive buffer.
///
/// # Errors
/// Those of the kernel.
pub fn set_window_clamp(socket: &impl AsFd, len: u32) -> io::Result<()> {
    set(socket, libc::TCP_WINDOW_CLAMP, &len.to_ne_bytes())
}

/// Bounds the payload of a segment; before the connection is made.
///
/// # Errors
/// Those of the kernel.
pub fn set_max_segment(socket: &impl AsFd, len: u32) -> io::Result<()> {
    set(socket, libc::TCP_MAXSEG, &len.to_ne_bytes())
}

/// What a connection did so far.
///
/// # Errors
/// Those of the kernel.
pub fn counts(socket: &TcpStream) -> io::Result<TcpCounts> {
    let mut info = [0_u8; INFO_LEN];
    let mut len = INFO_LEN as libc::socklen_t;
    // SAFETY: the buffer is as long as the kernel is told, and the descriptor is open.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut len)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let number = |place: usize| info[place..place + 4].try_into().map_or(0, u32::from_ne_bytes);
    Ok(TcpCounts { cwnd: number(SND_CWND), mss: number(SND_MSS), retransmitted: number(TOTAL_RETRANS) })
}

fn set(socket: &impl AsFd, option: libc::c_int, value: &[u8]) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes of the value as it is told, and the descriptor is open.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn a_connection_has_the_control_it_was_given_and_tells_of_its_window() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_max_segment(&listener, 1000).unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut receiver, _) = listener.accept().unwrap();
        set_congestion_control(&sender, "reno").unwrap();
        assert!(set_congestion_control(&sender, "nonsense").is_err());
        sender.write_all(&[7; 5000]).unwrap();
        receiver.read_exact(&mut [0; 5000]).unwrap();
        let counts = counts(&sender).unwrap();
        assert!(counts.cwnd >= 10 && counts.mss <= 1000 && counts.mss > 0, "{counts:?}");
        assert_eq!(counts.retransmitted, 0);
    }
}
