//! Who is at the other end of a connection, as the kernel saw it when the connection was made.

#![allow(unsafe_code, reason = "no wrapper asks for the groups of a peer (`SO_PEERGROUPS`)")]

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Most groups that a process can be in (`NGROUPS_MAX` of Linux).
const GROUPS_MAX: usize = 65_536;
/// Groups that most users have room in.
const GROUPS_USUAL: usize = 64;

/// A user who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Effective user.
    pub uid: u32,
    /// Effective group and supplementary groups.
    pub gids: Vec<u32>,
}

impl Peer {
    /// Who connected.
    ///
    /// # Errors
    /// What the kernel says, for something that is no Unix socket.
    pub fn of(stream: &UnixStream) -> io::Result<Self> {
        let credentials = rustix::net::sockopt::socket_peercred(stream)?;
        let mut gids = groups(stream)?;
        gids.push(credentials.gid.as_raw());
        Ok(Self { uid: credentials.uid.as_raw(), gids })
    }
}

fn groups(stream: &UnixStream) -> io::Result<Vec<u32>> {
    let mut room = GROUPS_USUAL;
    loop {
        let mut groups = vec![0_u32; room];
        let mut len = libc::socklen_t::try_from(size_of_val(groups.as_slice())).map_err(io::Error::other)?;
        // SAFETY: `groups` has `len` bytes, and takes any bits; the kernel writes no more than that, and how many it wrote to `len`.
        let done = unsafe {
            let begin = groups.as_mut_ptr().cast::<libc::c_void>();
            libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERGROUPS, begin, &raw mut len)
        };
        if done == 0 {
            groups.truncate(len as usize / size_of::<u32>());
            return Ok(groups);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ERANGE) || room >= GROUPS_MAX {
            return Err(error);
        }
        room = GROUPS_MAX;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_who_it_is() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.uid, rustix::process::geteuid().as_raw());
        let mut own: Vec<u32> = rustix::process::getgroups().unwrap().iter().map(|group| group.as_raw()).collect();
        own.push(rustix::process::getegid().as_raw());
        assert_eq!(peer.gids, own);
    }
}
