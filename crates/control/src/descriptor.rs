//! A descriptor that travels with a command (`SCM_RIGHTS`).

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use std::cell::RefCell;
use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Most descriptors looked at in one message; all but the first are closed.
const AT_ONCE: usize = 4;

/// Writes the first bytes with a descriptor; answers how many were written.
pub(crate) fn send(stream: &UnixStream, bytes: &[u8], descriptor: &OwnedFd) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor.as_fd()];
    if !control.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for a descriptor"));
    }
    Ok(rustix::net::sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
}

/// Reads a stream and keeps the descriptor that came last with the bytes, at most one.
#[derive(Debug)]
pub(crate) struct Receiving<'a> {
    stream: &'a UnixStream,
    descriptor: &'a RefCell<Option<OwnedFd>>,
}

impl<'a> Receiving<'a> {
    pub(crate) fn new(stream: &'a UnixStream, descriptor: &'a RefCell<Option<OwnedFd>>) -> Self {
        Self { stream, descriptor }
    }
}

impl Read for Receiving<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(bytes)];
        let received = rustix::net::recvmsg(self.stream, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                // Those that are left are closed when they are dropped.
                let first = descriptors.next();
                descriptors.for_each(drop);
                if first.is_some() {
                    *self.descriptor.borrow_mut() = first;
                }
            }
        }
        Ok(received.bytes)
    }
}
