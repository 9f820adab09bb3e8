//! Settings and counts of a TCP socket that the standard library does not know.

use rustix::net::{AddressFamily, SocketType, sockopt};
use std::io;
use std::net::{SocketAddrV4, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// What the kernel tells of a connection.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TcpCounts {
    /// Segments of the congestion window.
    pub cwnd: u32,
    /// Most bytes of payload in a segment that it sends.
    pub mss: u32,
    /// Segments sent again so far.
    pub retransmitted: u32,
    /// Bytes that the other end advertises.
    pub window: u32,
}

/// Places of the numbers in `struct tcp_info`: eight bytes of flags, then numbers of 32 bits.
const SND_MSS: usize = 16;
const SND_CWND: usize = 80;
const TOTAL_RETRANS: usize = 100;
const SND_WND: usize = 228;
const INFO_LEN: usize = 232;

/// Chooses how a socket controls its window: a name of `tcp_available_congestion_control`.
///
/// # Errors
/// Those of the kernel, which may not have it.
pub(crate) fn set_congestion_control(socket: &TcpStream, name: &str) -> io::Result<()> {
    set(socket, libc::TCP_CONGESTION, name.as_bytes())
}

/// Receive buffer for each byte of window: what short segments take up in the kernel is a few times what they carry.
const BUFFER_PER_WINDOW: usize = 8;

/// Connects, within `patience`, with a socket that advertises `window` bytes at first; [`bound_window`] keeps it there. Needs the rights of root.
///
/// # Errors
/// Those of the kernel.
pub(crate) fn connect_with_window(target: SocketAddrV4, window: u32, patience: Duration) -> io::Result<TcpStream> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
    // A kernel that chooses the size of the buffer opens the window with it.
    sockopt::set_socket_recv_buffer_size_force(&socket, window as usize * BUFFER_PER_WINDOW)?;
    bound_window(&socket, window)?;
    // The time that sending may take bounds that of connecting, too.
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
    rustix::net::connect(&socket, &target)?;
    bound_window(&socket, window)?;
    Ok(socket.into())
}

/// Bounds the window that a socket advertises, in bytes, until the kernel (Linux 6.9 and later) measures anew what segments take up in its
/// buffer, and sets a bound of its own: to be called again after each read.
///
/// # Errors
/// Those of the kernel.
pub(crate) fn bound_window(socket: &impl AsFd, len: u32) -> io::Result<()> {
    set(socket, libc::TCP_WINDOW_CLAMP, &len.to_ne_bytes())
}

/// Bounds the payload of a segment; before the connection is made.
///
/// # Errors
/// Those of the kernel.
pub(crate) fn set_max_segment(socket: &impl AsFd, len: u32) -> io::Result<()> {
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
    Ok(TcpCounts {
        cwnd: number(SND_CWND),
        mss: number(SND_MSS),
        retransmitted: number(TOTAL_RETRANS),
        window: number(SND_WND),
    })
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
    #[test]
    fn a_window_stays_within_its_bound_while_the_reader_is_quick() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        set_max_segment(&listener, 1400).unwrap();
        let std::net::SocketAddr::V4(target) = listener.local_addr().unwrap() else { panic!("an address of IPv4") };
        let mut receiver = connect_with_window(target, 32_768, Duration::from_secs(5)).unwrap();
        let (mut sender, _) = listener.accept().unwrap();
        let mut windows = Vec::new();
        let mut piece = vec![7; 4096];
        for _ in 0..512 {
            sender.write_all(&piece).unwrap();
            receiver.read_exact(&mut piece).unwrap();
            bound_window(&receiver, 32_768).unwrap();
            windows.push(counts(&sender).unwrap().window);
        }
        // What was advertised before the kernel's first measurement is not taken back.
        let widest = windows[32..].iter().copied().max().unwrap();
        assert!((16_384..=32_768).contains(&widest), "{windows:?}");
    }
}
