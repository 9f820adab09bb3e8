//! A socket that never blocks.

use super::reserved;
use crate::record::{MESSAGE_LEN_MAX, RecordError, Records, framed};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Over what calls are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A datagram a message; the kernel cuts what is longer than a packet into fragments.
    Udp,
    /// A connection.
    Tcp,
}

/// Longest time for a connection to be made in one go.
const CONNECT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) enum Socket {
    Udp(UdpSocket),
    Tcp { stream: TcpStream, records: Records, output: Vec<u8> },
}

impl Socket {
    /// In the network of the calling thread.
    pub(super) fn connect(transport: Transport, server: SocketAddr) -> io::Result<Self> {
        match transport {
            Transport::Udp => {
                let socket = reserved::datagrams(server)?;
                socket.set_nonblocking(true)?;
                Ok(Self::Udp(socket))
            }
            Transport::Tcp => {
                let stream = reserved::stream(server, CONNECT)?;
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Ok(Self::Tcp { stream, records: Records::default(), output: Vec::new() })
            }
        }
    }

    /// Port at this end.
    pub(super) fn port(&self) -> io::Result<u16> {
        match self {
            Self::Udp(socket) => socket.local_addr(),
            Self::Tcp { stream, .. } => stream.local_addr(),
        }
        .map(|address| address.port())
    }

    /// Sends a message, or keeps it until there is room. What a datagram socket refuses is as good as lost.
    pub(super) fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp(socket) => {
                // Full devices, no route, an earlier refusal: all may be different when it is sent again.
                let _ = socket.send(message);
                Ok(())
            }
            Self::Tcp { output, .. } => {
                output.extend_from_slice(&framed(message));
                self.flush()
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let Self::Tcp { stream, output, .. } = self else { return Ok(()) };
        while !output.is_empty() {
            match stream.write(output) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => drop(output.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits until something may be there, or for so long; gives the messages that are.
    pub(super) fn wait(&mut self, within: Duration, buffer: &mut [u8]) -> io::Result<Vec<Vec<u8>>> {
        self.wait_or(within, None, buffer)
    }

    /// The same, but no longer than until `wake` can be read.
    pub(super) fn wait_or(
        &mut self,
        within: Duration,
        wake: Option<&OwnedFd>,
        buffer: &mut [u8],
    ) -> io::Result<Vec<Vec<u8>>> {
        let timeout = Timespec { tv_sec: within.as_secs().cast_signed(), tv_nsec: i64::from(within.subsec_nanos()) };
        let mut flags = PollFlags::IN;
        if matches!(self, Self::Tcp { output, .. } if !output.is_empty()) {
            flags |= PollFlags::OUT;
        }
        let mut waited_for = vec![match self {
            Self::Udp(socket) => PollFd::new(socket, flags),
            Self::Tcp { stream, .. } => PollFd::new(stream, flags),
        }];
        waited_for.extend(wake.map(|wake| PollFd::new(wake, PollFlags::IN)));
        match rustix::event::poll(&mut waited_for, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        self.flush()?;
        self.receive(buffer)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Vec<Vec<u8>>> {
        let mut messages = Vec::new();
        loop {
            let read = match self {
                Self::Udp(socket) => socket.recv(buffer),
                Self::Tcp { stream, .. } => stream.read(buffer),
            };
            match (read, &mut *self) {
                (Ok(len), Self::Udp(_)) => messages.push(buffer[..len].to_vec()),
                (Ok(0), Self::Tcp { .. }) => return Err(io::ErrorKind::UnexpectedEof.into()),
                (Ok(len), Self::Tcp { records, .. }) => {
                    records.push(&buffer[..len]);
                    let broken = |error: RecordError| io::Error::new(io::ErrorKind::InvalidData, error);
                    while let Some(message) = records.poll().map_err(broken)? {
                        messages.push(message);
                    }
                }
                (Err(error), _) if error.kind() == io::ErrorKind::WouldBlock => return Ok(messages),
                (Err(error), _) if error.kind() == io::ErrorKind::Interrupted => {}
                // An ICMP message about an earlier datagram; the server may be back for the next.
                (Err(_), Self::Udp(_)) => return Ok(messages),
                (Err(error), Self::Tcp { .. }) => return Err(error),
            }
            // The caller has timers to look after, however fast messages come.
            if messages.len() >= 64 {
                return Ok(messages);
            }
        }
    }
}

/// A buffer that any message fits into.
pub(super) fn buffer() -> Vec<u8> {
    vec![0; MESSAGE_LEN_MAX]
}
