//! One end of a connection, driven by hand.

use crate::certificate::{self, ExpectedKey, SERVER_NAME};
use crate::path_state::PathState;
use crate::probe::{TICK, count};
use crate::silence::{Silence, Step};
use crate::{NetConfig, NodeIdentity, Probing, bind};
use bytes::{Bytes, BytesMut};
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ServerConfig, StreamEvent,
    StreamId, VarInt,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// Bytes that wait to be sent or read at once.
const WINDOW: u32 = 32 << 20;
/// Datagrams made at once.
const BATCH: usize = 10;

pub(super) const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 1);

/// One address of the client after the other.
pub(super) const fn client(number: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, number, 1)), 1)
}

pub(super) struct End {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    accepts: Option<Arc<ServerConfig>>,
    pub(super) path: Arc<PathState>,
    probing: Probing,
    silence: Silence,
    looks_at: Option<Instant>,
    pub(super) probes: u64,
    /// The last look was a probe.
    probed: bool,
    stream: Option<StreamId>,
    responses: Vec<(SocketAddr, Vec<u8>)>,
}

impl End {
    pub(super) fn pair(config: &NetConfig, now: Instant) -> [Self; 2] {
        let identities = [(); 2].map(|()| NodeIdentity::generate().unwrap());
        let own = [0, 1].map(|index: usize| certificate::certified(&identities[index]).unwrap());
        let paths = [(); 2].map(|()| Arc::new(PathState::default()));
        let transport = |path| {
            let mut transport = bind::transport(config, path).unwrap();
            transport
                .max_concurrent_uni_streams(VarInt::from_u32(1))
                .stream_receive_window(VarInt::from_u32(WINDOW))
                .receive_window(VarInt::from_u32(WINDOW))
                .send_window(u64::from(WINDOW))
                .max_idle_timeout(None);
            Arc::new(transport)
        };
        let tls = certificate::server_config(&own[1]).unwrap();
        let tls = quinn_proto::crypto::rustls::QuicServerConfig::try_from(tls).unwrap();
        let mut server = ServerConfig::with_crypto(Arc::new(tls));
        server.transport_config(transport(&paths[1]));
        let server = Arc::new(server);
        let tls = certificate::client_config(&own[0], ExpectedKey::new(identities[1].id())).unwrap();
        let tls = quinn_proto::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
        let mut client = quinn_proto::ClientConfig::new(Arc::new(tls));
        client.transport_config(transport(&paths[0]));
        let endpoint = |accepts, seed| {
            let mut config = EndpointConfig::default();
            config.rng_seed(Some([seed; 32]));
            Endpoint::new(Arc::new(config), accepts, false, None)
        };
        let [near, far] = paths;
        let mut ends = [
            Self::new(endpoint(None, 1), None, near, config.probing),
            Self::new(endpoint(Some(Arc::clone(&server)), 2), Some(server), far, config.probing),
        ];
        ends[0].connection = Some(ends[0].endpoint.connect(now, client, SERVER, SERVER_NAME).unwrap());
        ends
    }

    fn new(endpoint: Endpoint, accepts: Option<Arc<ServerConfig>>, path: Arc<PathState>, probing: Probing) -> Self {
        Self {
            endpoint,
            connection: None,
            accepts,
            path,
            probing,
            silence: Silence::default(),
            looks_at: None,
            probes: 0,
            probed: false,
            stream: None,
            responses: Vec::new(),
        }
    }

    pub(super) fn is_connected(&self) -> bool {
        self.connection.as_ref().is_some_and(|(_, connection)| !connection.is_handshaking())
    }

    /// Writes up to so many bytes; tells how many.
    pub(super) fn write(&mut self, len: u64) -> u64 {
        let Some((_, connection)) = &mut self.connection else { return 0 };
        if self.stream.is_none() {
            self.stream = connection.streams().open(Dir::Uni);
        }
        let Some(stream) = self.stream else { return 0 };
        let piece = vec![7; 64 << 10];
        let mut written = 0;
        while written < len {
            let part = usize::try_from(len - written).unwrap_or(usize::MAX).min(piece.len());
            match connection.send_stream(stream).write(&piece[..part]) {
                Ok(count) => written += count as u64,
                Err(_) => break,
            }
        }
        written
    }

    /// Datagrams that go, and where.
    pub(super) fn transmit(&mut self, now: Instant) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut packets = std::mem::take(&mut self.responses);
        self.handle_endpoint_events();
        let Some((_, connection)) = &mut self.connection else { return packets };
        let mut buffer = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, BATCH, &mut buffer) {
            let segment = transmit.segment_size.unwrap_or(transmit.size);
            let whole = buffer[..transmit.size].chunks(segment);
            packets.extend(whole.map(|packet| (transmit.destination, packet.to_vec())));
            buffer.clear();
        }
        // As the path wakes whoever watches it.
        if !packets.is_empty()
            && self.probing == Probing::BySilence
            && !connection.is_handshaking()
            && (self.looks_at.is_none() || self.probed)
        {
            self.looks_at = Some(now);
        }
        packets
    }

    /// A datagram came; tells how many bytes can be read by it.
    pub(super) fn handle(&mut self, now: Instant, from: SocketAddr, bytes: &[u8]) -> u64 {
        let mut buffer = Vec::new();
        match self.endpoint.handle(now, from, None, None, BytesMut::from(bytes), &mut buffer) {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut buffer, self.accepts.clone());
                self.connection = Some(accepted.map_err(|error| error.cause).unwrap());
            }
            Some(DatagramEvent::Response(transmit)) => {
                self.responses.push((transmit.destination, buffer[..transmit.size].to_vec()))
            }
            None => {}
        }
        self.read()
    }

    fn read(&mut self) -> u64 {
        let Some((_, connection)) = &mut self.connection else { return 0 };
        while let Some(event) = connection.poll() {
            match event {
                Event::Stream(StreamEvent::Opened { dir }) => self.stream = connection.streams().accept(dir),
                Event::DatagramReceived => while connection.datagrams().recv().is_some() {},
                Event::ConnectionLost { reason } => panic!("{reason}"),
                Event::Stream(_) | Event::Connected | Event::HandshakeDataReady | Event::DatagramsUnblocked => {}
            }
        }
        let Some(stream) = self.stream.filter(|stream| stream.initiator() != connection.side()) else { return 0 };
        let mut count = 0;
        let mut readable = connection.recv_stream(stream);
        let Ok(mut chunks) = readable.read(true) else { return 0 };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            count += chunk.bytes.len() as u64;
        }
        let _ = chunks.finalize();
        count
    }

    pub(super) fn timeout(&mut self) -> Option<Instant> {
        let timeout = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout());
        timeout.into_iter().chain(self.looks_at).min()
    }

    /// Timers and probes that are due.
    pub(super) fn handle_time(&mut self, now: Instant) {
        let Some((_, connection)) = &mut self.connection else { return };
        if connection.poll_timeout().is_some_and(|at| at <= now) {
            connection.handle_timeout(now);
        }
        if self.probing == Probing::Fixed || connection.is_handshaking() || self.looks_at.is_none_or(|at| at > now) {
            return;
        }
        self.probed = false;
        self.looks_at = match self.silence.look(now, &count(&connection.stats(), &self.path)) {
            Step::Rest => None,
            Step::Sleep(at) => Some(at),
            Step::Probe(at) => {
                self.probed = true;
                self.path.arm();
                self.probes += 1;
                self.tick();
                Some(at)
            }
        };
    }

    /// As [`crate::Endpoint::note_link`]: the link is down.
    pub(super) fn note_down(&self) {
        self.path.excuse();
    }

    /// And up again.
    pub(super) fn note_up(&mut self) {
        let view = self.path.view();
        if view.in_flight > 0 || view.sent_since > 0 {
            self.path.arm();
            self.tick();
        }
    }

    /// As [`crate::Endpoint::rebind`]: this end is elsewhere.
    pub(super) fn note_moved(&mut self) {
        if let Some((_, connection)) = &mut self.connection {
            connection.local_address_changed();
        }
        self.note_down();
        self.note_up();
    }

    fn tick(&mut self) {
        if let Some((_, connection)) = &mut self.connection {
            connection.datagrams().send(Bytes::from_static(TICK), true).expect("a peer of ours takes datagrams");
        }
    }

    fn handle_endpoint_events(&mut self) {
        let Some((handle, connection)) = &mut self.connection else { return };
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
    }
}
