//! Remote procedure calls (RFC 5531) over UDP or TCP, one outstanding at a time.

use nfs3_types::rpc::{
    RPC_VERSION_2, accept_stat_data, auth_unix, call_body, fragment_header, msg_body, opaque_auth, reply_body, rpc_msg,
};
use nfs3_types::xdr_codec::{Opaque, Pack, Unpack};
use std::io::{self, Cursor, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Longest message: a write or read of 64 KiB with its headers.
const MESSAGE_LEN_MAX: usize = 72 * 1024;
/// Longest time for a TCP connection to be made.
const CONNECT: Duration = Duration::from_secs(30);

/// Over what calls are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A datagram per message; what gets lost is sent again by the caller.
    Udp,
    /// A connection; what gets lost is sent again by the kernel.
    Tcp,
}

/// When a call over UDP is sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// How long the answer is waited for after each sending; after the last, the call has failed. Over TCP only the sum counts.
    pub timeouts: Vec<Duration>,
}

impl Retry {
    /// Timeouts that double, the way of most clients: `tries` sendings, the first waiting for `first`.
    pub fn doubling(first: Duration, tries: u32) -> Self {
        Self { timeouts: (0..tries).map(|try_number| first * 2_u32.saturating_pow(try_number)).collect() }
    }
}

/// What calls cost.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CallStatistics {
    /// Calls.
    pub calls: u64,
    /// Messages sent again.
    pub resent: u64,
    /// Answers to a call that was answered before or given up.
    pub stray: u64,
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// The kernel refused to send or receive.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// No answer after the last sending.
    #[error("no answer to {0} sendings")]
    TimedOut(usize),
    /// The server did not accept the call.
    #[error("the server refused the call: {0}")]
    Refused(String),
    /// The answer, or the arguments, cannot be read or written as XDR.
    #[error("XDR: {0}")]
    Format(String),
}

impl From<nfs3_types::xdr_codec::Error> for RpcError {
    fn from(error: nfs3_types::xdr_codec::Error) -> Self {
        Self::Format(error.to_string())
    }
}

/// A procedure of a program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Procedure {
    pub(super) program: u32,
    pub(super) version: u32,
    pub(super) number: u32,
}

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

/// A caller.
#[derive(Debug)]
pub(super) struct Caller {
    socket: Socket,
    retry: Retry,
    transaction: u32,
    buffer: Vec<u8>,
    pub(super) statistics: CallStatistics,
}

impl Caller {
    /// A caller of the programs at an address, in the network namespace of the calling thread.
    pub(super) fn connect(transport: Transport, server: SocketAddr, retry: Retry) -> io::Result<Self> {
        let socket = match transport {
            Transport::Udp => {
                let socket = UdpSocket::bind("0.0.0.0:0")?;
                socket.connect(server)?;
                Socket::Udp(socket)
            }
            Transport::Tcp => {
                let socket = TcpStream::connect_timeout(&server, CONNECT)?;
                socket.set_nodelay(true)?;
                Socket::Tcp(socket)
            }
        };
        // Callers that share a server must not share numbers: it remembers answers by address and number.
        let port = match &socket {
            Socket::Udp(socket) => socket.local_addr()?.port(),
            Socket::Tcp(socket) => socket.local_addr()?.port(),
        };
        let transaction = u32::from(port) << 16;
        let buffer = vec![0; MESSAGE_LEN_MAX];
        Ok(Self { socket, retry, transaction, buffer, statistics: CallStatistics::default() })
    }

    /// Calls, and gives the results as they came.
    pub(super) fn call(&mut self, procedure: Procedure, arguments: &impl Pack) -> Result<Vec<u8>, RpcError> {
        self.transaction = self.transaction.wrapping_add(1);
        self.statistics.calls += 1;
        let message = encode(self.transaction, procedure, arguments)?;
        for (sending, timeout) in self.retry.timeouts.clone().into_iter().enumerate() {
            self.statistics.resent += u64::from(sending > 0 && matches!(self.socket, Socket::Udp(_)));
            self.send(&message, sending)?;
            if let Some(results) = self.await_answer(Instant::now() + timeout)? {
                return Ok(results);
            }
        }
        Err(RpcError::TimedOut(self.retry.timeouts.len()))
    }

    fn send(&mut self, message: &[u8], sending: usize) -> io::Result<()> {
        match &mut self.socket {
            Socket::Udp(socket) => match socket.send(message) {
                // A device that is full, or an earlier refusal that the kernel tells now: as good as lost.
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ECONNREFUSED | libc::ENETUNREACH)) =>
                {
                    Ok(())
                }
                other => other.map(drop),
            },
            // The connection sends again what gets lost.
            Socket::Tcp(_) if sending > 0 => Ok(()),
            Socket::Tcp(socket) => {
                let header = fragment_header::new(message.len() as u32, true).into_xdr_buf();
                socket.write_all(&[&header, message].concat())
            }
        }
    }

    /// The results, or none by the deadline.
    fn await_answer(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, RpcError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let Some(len) = self.receive(left)? else { continue };
            let mut answer = Cursor::new(&self.buffer[..len]);
            let (transaction, _) = u32::unpack(&mut answer)?;
            if transaction != self.transaction {
                self.statistics.stray += 1;
                continue;
            }
            answer.set_position(0);
            let (message, _) = rpc_msg::unpack(&mut answer)?;
            accepted(&message)?;
            return Ok(Some(answer.get_ref()[answer.position() as usize..].to_vec()));
        }
    }

    /// The length of a message that came, or none in time.
    fn receive(&mut self, within: Duration) -> Result<Option<usize>, RpcError> {
        let result = match &mut self.socket {
            Socket::Udp(socket) => {
                socket.set_read_timeout(Some(within))?;
                socket.recv(&mut self.buffer)
            }
            Socket::Tcp(socket) => {
                socket.set_read_timeout(Some(within))?;
                read_record(socket, &mut self.buffer)
            }
        };
        match result {
            Ok(len) => Ok(Some(len)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::TimedOut
                        | io::ErrorKind::Interrupted
                        | io::ErrorKind::ConnectionRefused
                ) && matches!(self.socket, Socket::Udp(_)) =>
            {
                Ok(None)
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                // What was read of a record is lost: the connection is of no use any more.
                Err(RpcError::TimedOut(1))
            }
            Err(error) => Err(error.into()),
        }
    }
}

fn encode(transaction: u32, procedure: Procedure, arguments: &impl Pack) -> Result<Vec<u8>, RpcError> {
    let call = call_body {
        rpcvers: RPC_VERSION_2,
        prog: procedure.program,
        vers: procedure.version,
        proc: procedure.number,
        cred: opaque_auth::auth_unix(&auth_unix { machinename: Opaque::borrowed(b"lab"), ..auth_unix::default() }),
        verf: opaque_auth::default(),
    };
    let message = rpc_msg { xid: transaction, body: msg_body::CALL(call) };
    let mut bytes = Vec::with_capacity(message.packed_size() + arguments.packed_size());
    message.pack(&mut bytes)?;
    arguments.pack(&mut bytes)?;
    Ok(bytes)
}

fn accepted(message: &rpc_msg<'_, '_>) -> Result<(), RpcError> {
    match &message.body {
        msg_body::REPLY(reply_body::MSG_ACCEPTED(reply)) => match &reply.reply_data {
            accept_stat_data::SUCCESS => Ok(()),
            other => Err(RpcError::Refused(format!("{other:?}"))),
        },
        msg_body::REPLY(reply_body::MSG_DENIED(why)) => Err(RpcError::Refused(format!("{why:?}"))),
        msg_body::CALL(_) => Err(RpcError::Format("a call where an answer belongs".into())),
    }
}

/// Reads the fragments of one message.
fn read_record(socket: &mut TcpStream, buffer: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    loop {
        let mut header = [0; 4];
        socket.read_exact(&mut header)?;
        let header = fragment_header::from(header);
        let end = len + header.fragment_length() as usize;
        let room =
            buffer.get_mut(len..end).ok_or_else(|| io::Error::other("a message longer than any that was asked for"))?;
        socket.read_exact(room)?;
        len = end;
        if header.eof() {
            return Ok(len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nfs3_types::xdr_codec::Void;

    const NULL: Procedure = Procedure { program: 100_003, version: 3, number: 0 };

    #[test]
    fn timeouts_double() {
        let retry = Retry::doubling(Duration::from_millis(700), 3);
        assert_eq!(retry.timeouts.iter().map(Duration::as_millis).collect::<Vec<_>>(), [700, 1400, 2800]);
    }

    #[test]
    fn a_lost_call_is_sent_again_under_its_number_and_a_late_answer_is_not_taken_for_another() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let answering = std::thread::spawn(move || {
            let mut buffer = [0; 1000];
            let (len, _) = server.recv_from(&mut buffer).unwrap();
            let first = buffer[..len].to_vec();
            let (len, from) = server.recv_from(&mut buffer).unwrap();
            assert_eq!(buffer[..len], first);
            // Twice: the second copy is a stray of the next call.
            for _ in 0..2 {
                server.send_to(&answer(&first[..4]), from).unwrap();
            }
            let (len, from) = server.recv_from(&mut buffer).unwrap();
            server.send_to(&answer(&buffer[..len][..4]), from).unwrap();
        });
        let retry = Retry { timeouts: vec![Duration::from_millis(50), Duration::from_secs(10)] };
        let mut caller = Caller::connect(Transport::Udp, address, retry).unwrap();
        assert_eq!(caller.call(NULL, &Void).unwrap(), b"");
        assert_eq!(caller.call(NULL, &Void).unwrap(), b"");
        assert_eq!(caller.statistics, CallStatistics { calls: 2, resent: 1, stray: 1 });
        answering.join().unwrap();
    }

    #[test]
    fn nobody_there_is_a_timeout() {
        let retry = Retry { timeouts: vec![Duration::from_millis(5); 2] };
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut caller = Caller::connect(Transport::Udp, silent.local_addr().unwrap(), retry).unwrap();
        assert!(matches!(caller.call(NULL, &Void), Err(RpcError::TimedOut(2))));
    }

    /// Accepted, without results.
    fn answer(transaction: &[u8]) -> Vec<u8> {
        let words: [u32; 5] = [1, 0, 0, 0, 0];
        [transaction.to_vec(), words.iter().flat_map(|word| word.to_be_bytes()).collect()].concat()
    }
}
