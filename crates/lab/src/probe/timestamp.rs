//! Packets with the time at which the kernel received them: when the reader gets to run does not matter.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

/// Room for one message of control data, aligned as the kernel wants it.
const CONTROL_WORDS: usize = 16;

/// Asks for times of reception.
pub(super) fn enable(socket: &UdpSocket) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option is an int, and `on` is one that lives for the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The next packet: its length, and its time in nanoseconds since 1970.
pub(super) fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, u64)> {
    let mut control = [0_u64; CONTROL_WORDS];
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: zeroes are a valid `msghdr`: no name, no parts, no control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    // SAFETY: the message points to a buffer and control data that live for the call, with their true lengths.
    let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, 0) };
    let len = usize::try_from(len).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has filled the message in; its control data is still alive.
    let time = unsafe { time_of(&message) };
    time.map(|time| (len, time)).ok_or_else(|| io::Error::other("the kernel gave no time of reception"))
}

/// # Safety
/// The message must come from `recvmsg`, its control data still alive.
unsafe fn time_of(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: by the caller's word; the macros stay within the control data that the kernel wrote.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_TIMESTAMPNS {
                let time = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                return Some(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs());
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}
