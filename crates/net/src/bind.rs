//! Taking a UDP port, and the settings of QUIC over it.

use crate::certificate;
use crate::door;
use crate::gate::Gate;
use crate::here::SharedRuntime;
use crate::path_state::PathState;
use crate::{ConfigError, NetConfig, NodeIdentity};
use rustix::net::sockopt;
use rustls::sign::CertifiedKey;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;
use tracing::debug;

/// Why there is no endpoint. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another program has the port.
    #[error("UDP port {} on {} is in use: stop the program that has it (`ss -ulpn sport = :{}` shows it), or choose another port", .0.port(), .0.ip(), .0.port())]
    InUse(SocketAddr),
    /// The address belongs to no interface of this machine.
    #[error("{} is no address of this machine: choose one of its own, or 0.0.0.0 or [::] for all", .0.ip())]
    NoSuchAddress(SocketAddr),
    /// The port needs rights that this process does not have.
    #[error("UDP port {} needs more rights than this process has: choose one from 1024 on", .0.port())]
    Denied(SocketAddr),
    /// The system refused for another reason.
    #[error("bind {addr}: {source}")]
    Io {
        /// The address asked for.
        addr: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// The settings contradict each other.
    #[error("network settings: {0}")]
    Config(#[from] ConfigError),
    /// TLS could not be set up with this identity.
    #[error("set up TLS: {0}")]
    Tls(String),
    /// Called outside an asynchronous runtime.
    #[error("an endpoint needs a running tokio runtime")]
    NoRuntime,
}

/// First guess of a path's round trip. Default 200 ms: a lost greeting is repeated after
/// 0.6 s instead of a second; on a longer path it is repeated once for nothing.
const RTT_GUESS: Duration = Duration::from_millis(200);

/// Room for probes that wait to be sent: only the latest matter.
const DATAGRAM_BUFFER: usize = 1 << 10;

/// An endpoint that accepts by [`server`], and what is to be asked for each that comes.
pub(crate) fn endpoint(
    addr: SocketAddr,
    own: &Arc<CertifiedKey>,
    config: &NetConfig,
) -> Result<(quinn::Endpoint, Accepting), BindError> {
    let Ok(handle) = tokio::runtime::Handle::try_current() else { return Err(BindError::NoRuntime) };
    let socket = socket(addr, config.socket_buffer)?;
    let tls = certificate::server_config(own).map_err(|error| BindError::Tls(error.to_string()))?;
    let tls =
        quinn::crypto::rustls::QuicServerConfig::try_from(tls).map_err(|error| BindError::Tls(error.to_string()))?;
    let mut server = quinn::ServerConfig::with_crypto(Arc::new(tls));
    server.max_incoming(config.handshakes_max);
    let accepting = Accepting { server: server.clone() };
    let runtime = Arc::new(SharedRuntime::new(handle));
    let quic = quinn::Endpoint::new(quinn::EndpointConfig::default(), Some(server), socket, runtime)
        .map_err(|source| BindError::Io { addr, source })?;
    Ok((quic, accepting))
}

/// What connections have that a peer dialled. Whoever comes has one stream and little room until it is admitted (`door.rs`).
#[derive(Debug, Clone)]
pub(crate) struct Accepting {
    server: quinn::ServerConfig,
}

impl Accepting {
    /// For one connection, whose path the state is of.
    pub(crate) fn config(
        &self,
        config: &NetConfig,
        path: &Arc<PathState>,
    ) -> Result<Arc<quinn::ServerConfig>, ConfigError> {
        let mut transport = transport(config, path)?;
        transport
            .max_concurrent_bidi_streams(quinn::VarInt::from_u32(1))
            .receive_window(quinn::VarInt::from_u32(door::WINDOW));
        let mut server = self.server.clone();
        server.transport_config(Arc::new(transport));
        Ok(Arc::new(server))
    }
}

pub(crate) fn certified(identity: &NodeIdentity) -> Result<Arc<CertifiedKey>, BindError> {
    certificate::certified(identity).map_err(|error| BindError::Tls(error.to_string()))
}

/// What a connection has that this side dialled; the state is of its path.
pub(crate) fn transport(config: &NetConfig, path: &Arc<PathState>) -> Result<quinn::TransportConfig, ConfigError> {
    config.check()?;
    let shared_window = Gate::shared_window(config);
    let window = |bytes: u64| quinn::VarInt::from_u64(bytes).unwrap_or(quinn::VarInt::MAX);
    let idle = quinn::IdleTimeout::try_from(config.idle_timeout).map_err(|_| ConfigError::IdleTooLong)?;
    let mut transport = quinn::TransportConfig::default();
    transport
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(Some(config.keep_alive))
        .initial_rtt(RTT_GUESS)
        // The control stream of a dialling peer is one more.
        .max_concurrent_bidi_streams(quinn::VarInt::from_u32(config.requests_max + 1))
        .max_concurrent_uni_streams(quinn::VarInt::from_u32(0))
        .stream_receive_window(window(u64::from(config.path_capacity)))
        .receive_window(window(shared_window))
        .send_window(shared_window)
        .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER))
        .datagram_send_buffer_size(DATAGRAM_BUFFER)
        .congestion_controller_factory(config.congestion.factory(Arc::clone(path)));
    Ok(transport)
}

pub(crate) fn socket(addr: SocketAddr, buffer: usize) -> Result<UdpSocket, BindError> {
    let socket = UdpSocket::bind(addr).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse(addr),
        io::ErrorKind::AddrNotAvailable => BindError::NoSuchAddress(addr),
        io::ErrorKind::PermissionDenied => BindError::Denied(addr),
        _ => BindError::Io { addr, source },
    })?;
    // A smaller buffer costs throughput on fast long paths and nothing else, so a refusal
    // is no error. The forced form passes the system's limit where the rights are there.
    let grown = sockopt::set_socket_recv_buffer_size_force(&socket, buffer)
        .or_else(|_| sockopt::set_socket_recv_buffer_size(&socket, buffer))
        .and_then(|()| sockopt::set_socket_send_buffer_size(&socket, buffer));
    if let Err(error) = grown {
        debug!(%error, "socket buffers stay as they are");
    }
    Ok(socket)
}
