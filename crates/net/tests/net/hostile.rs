//! Peers that lie, and things that are no peers: nothing falls over.

use crate::pair::{addr, endpoint, soon};
use quinn::VarInt;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use wayfs_net::{
    CloseCode, Closed, Connection, Endpoint, FRAME_LEN_MAX, FrameError, HEADER_LEN_MAX, NetConfig, RequestError,
    StreamCode, UnpackError,
};

#[derive(Debug)]
struct Gullible;

impl ServerCertVerifier for Gullible {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }
}

enum Shows {
    Nothing,
    Ed25519,
    Ecdsa,
}

/// A client made of QUIC and TLS alone, that says what it likes.
fn liar(alpn: &[u8], shows: Shows) -> quinn::Endpoint {
    let builder = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Gullible));
    let algorithm = match shows {
        Shows::Ecdsa => &PKCS_ECDSA_P256_SHA256,
        Shows::Ed25519 | Shows::Nothing => &PKCS_ED25519,
    };
    let key = KeyPair::generate_for(algorithm).unwrap();
    let certificate = CertificateParams::new(vec![]).unwrap().self_signed(&key).unwrap();
    let mut tls = match shows {
        Shows::Nothing => builder.with_no_client_auth(),
        Shows::Ed25519 | Shows::Ecdsa => builder
            .with_client_auth_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .unwrap(),
    };
    tls.alpn_protocols = vec![alpn.to_vec()];
    let tls = quinn::crypto::rustls::QuicClientConfig::try_from(tls).unwrap();
    let mut endpoint = quinn::Endpoint::client("127.0.0.1:0".parse().unwrap()).unwrap();
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(tls)));
    endpoint
}

const ALPN: &[u8] = b"wayfs/2";
const GREETING: [u8; 5] = [0; 5];

/// A connection whose other end lies, with the control stream greeted.
struct Lie {
    _server: Endpoint,
    _liar: quinn::Endpoint,
    far: Connection,
    quic: quinn::Connection,
    control: (quinn::SendStream, quinn::RecvStream),
}

async fn lie(config: NetConfig) -> Lie {
    let lie = stranger(config).await;
    lie.far.admit();
    lie
}

/// The same, not admitted.
async fn stranger(config: NetConfig) -> Lie {
    let server = endpoint(config);
    let liar = liar(ALPN, Shows::Ed25519);
    let quic = soon("a handshake", liar.connect(addr(&server), "any").unwrap()).await.unwrap();
    let mut control = quic.open_bi().await.unwrap();
    control.0.write_all(&GREETING).await.unwrap();
    let far = soon("the server's end", server.accept()).await.unwrap();
    Lie { _server: server, _liar: liar, far, quic, control }
}

/// Whether an honest client is still served.
async fn assert_serves(server: &Endpoint) {
    let client = endpoint(NetConfig::default());
    let near = soon("a connection", client.connect(&[addr(server)], server.id())).await.unwrap();
    let far = soon("its other end", server.accept()).await.unwrap();
    let (sender, _receiver) = near.control().unwrap();
    let (_sender, mut receiver) = far.control().unwrap();
    sender.send("fine".into()).await.unwrap();
    assert_eq!(soon("a frame", receiver.recv()).await.unwrap().unwrap(), "fine");
}

async fn assert_closed_with(quic: &quinn::Connection, code: CloseCode) {
    match soon("the close", quic.closed()).await {
        quinn::ConnectionError::ApplicationClosed(close) => {
            assert_eq!(close.error_code, VarInt::from_u32(code.raw()));
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn random_datagrams_disturb_nobody() {
    let server = endpoint(NetConfig::default());
    let noise = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut state = 12_345u64;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    for round in 0..2000 {
        let mut packet: Vec<u8> = (0..random() % 1400).map(|_| random() as u8).collect();
        // Half of them look like the start of a QUIC connection.
        if round % 2 == 0 && packet.len() > 5 {
            packet[0] |= 0xc0;
            packet[1..5].copy_from_slice(&[0, 0, 0, 1]);
        }
        noise.send_to(&packet, addr(&server)).await.unwrap();
    }
    assert_serves(&server).await;
}

#[tokio::test]
async fn other_protocols_and_clients_without_an_ed25519_key_get_no_connection() {
    let server = endpoint(NetConfig::default());
    for (alpn, shows) in [(&b"h3"[..], Shows::Ed25519), (ALPN, Shows::Nothing), (ALPN, Shows::Ecdsa)] {
        let liar = liar(alpn, shows);
        let ended = async {
            match liar.connect(addr(&server), "any").unwrap().await {
                // TLS 1.3 lets a client believe in its success before it was looked at.
                Ok(quic) => quic.closed().await,
                Err(error) => error,
            }
        };
        let ended = soon("a refusal", ended).await;
        assert!(matches!(ended, quinn::ConnectionError::ConnectionClosed(_)), "{ended}");
    }
    assert_serves(&server).await;
}

#[tokio::test]
async fn a_peer_of_the_protocol_before_is_told_so() {
    let server = endpoint(NetConfig::default());
    let liar = liar(b"wayfs/1", Shows::Ed25519);
    let error = soon("a refusal", liar.connect(addr(&server), "any").unwrap()).await.unwrap_err();
    let words = Closed::from(&error).to_string();
    assert!(words.contains("another version"), "{words}");
    assert_serves(&server).await;
}

#[tokio::test]
async fn a_peer_that_never_greets_or_greets_wrongly_is_let_go() {
    let impatient = NetConfig { connect_timeout: Duration::from_millis(300), ..NetConfig::default() };
    let server = endpoint(impatient);
    let liar = liar(ALPN, Shows::Ed25519);
    let mute = liar.connect(addr(&server), "any").unwrap().await.unwrap();
    let rude = liar.connect(addr(&server), "any").unwrap().await.unwrap();
    let (mut send, _recv) = rude.open_bi().await.unwrap();
    send.write_all(b"GET / HTTP/1.1").await.unwrap();
    assert_closed_with(&rude, CloseCode::CONTROL_LOST).await;
    soon("the end of the mute one", mute.closed()).await;
    assert_serves(&server).await;
}

#[tokio::test]
async fn a_frame_that_claims_too_much_ends_the_connection_by_name() {
    let mut lie = lie(NetConfig::default()).await;
    let (_sender, mut receiver) = lie.far.control().unwrap();
    let claimed = FRAME_LEN_MAX as u32 + 1;
    let mut frame = vec![1];
    frame.extend_from_slice(&claimed.to_le_bytes());
    lie.control.0.write_all(&frame).await.unwrap();
    let error = soon("the error", receiver.recv()).await.unwrap_err();
    assert_eq!(error, FrameError::TooLong(claimed as usize));
    assert_closed_with(&lie.quic, CloseCode::FRAME_TOO_LONG).await;
    assert_eq!(soon("the end", lie.far.closed()).await, Closed::ByUs);
}

#[tokio::test]
async fn a_frame_of_unknown_kind_ends_the_connection_by_name() {
    let mut lie = lie(NetConfig::default()).await;
    let (_sender, mut receiver) = lie.far.control().unwrap();
    lie.control.0.write_all(&[1, 2, 0, 0, 0, b'o', b'k', 77, 0, 0, 0, 0]).await.unwrap();
    assert_eq!(soon("the good one", receiver.recv()).await.unwrap().unwrap(), "ok");
    assert_eq!(soon("the error", receiver.recv()).await.unwrap_err(), FrameError::Kind(77));
    assert_closed_with(&lie.quic, CloseCode::FRAME_KIND).await;
}

#[tokio::test]
async fn a_packed_frame_that_is_a_bomb_or_damaged_ends_the_connection_by_name() {
    let mut bomb = zstd::stream::raw::Encoder::new(1).unwrap();
    bomb.set_parameter(zstd::stream::raw::CParameter::WindowLog(17)).unwrap();
    let bomb = pack(&mut bomb, &vec![0; FRAME_LEN_MAX + 1]);
    for (packed, expected) in [
        (bomb.as_slice(), Some(UnpackError::TooLong)),
        (b"rubbish in place of a frame", None),
        (b"\x28\xb5\x2f\xfd\0\xff", None),
    ] {
        let mut lie = lie(NetConfig::default()).await;
        let (_sender, mut receiver) = lie.far.control().unwrap();
        let head = [&[2][..], &u32::try_from(packed.len()).unwrap().to_le_bytes()].concat();
        lie.control.0.write_all(&[&[1, 2, 0, 0, 0, b'o', b'k'], &head[..], packed].concat()).await.unwrap();
        assert_eq!(soon("the good one", receiver.recv()).await.unwrap().unwrap(), "ok");
        let error = soon("the error", receiver.recv()).await.unwrap_err();
        let FrameError::Unpack(why) = error else { panic!("{error}") };
        assert!(expected.is_none_or(|expected| expected == why), "{why}");
        assert_closed_with(&lie.quic, CloseCode::FRAME_DAMAGED).await;
    }
}

fn pack(encoder: &mut zstd::stream::raw::Encoder<'_>, bytes: &[u8]) -> Vec<u8> {
    use zstd::stream::raw::{InBuffer, Operation, OutBuffer};
    let mut packed = Vec::with_capacity(bytes.len() + 1024);
    let mut output = OutBuffer::around(&mut packed);
    let mut input = InBuffer::around(bytes);
    while input.pos() < bytes.len() {
        encoder.run(&mut input, &mut output).unwrap();
    }
    assert_eq!(encoder.flush(&mut output).unwrap(), 0);
    packed
}

#[tokio::test]
async fn a_control_stream_that_ends_within_a_frame_ends_the_connection() {
    for reset in [false, true] {
        let mut lie = lie(NetConfig::default()).await;
        let (_sender, mut receiver) = lie.far.control().unwrap();
        lie.control.0.write_all(&[1, 9, 0, 0, 0, b'o']).await.unwrap();
        if reset {
            lie.control.0.reset(VarInt::from_u32(3)).unwrap();
        } else {
            lie.control.0.finish().unwrap();
        }
        let error = soon("the error", receiver.recv()).await.unwrap_err();
        assert_eq!(error, FrameError::Truncated);
        assert_closed_with(&lie.quic, CloseCode::CONTROL_LOST).await;
    }
}

#[tokio::test]
async fn requests_that_lie_are_refused_alone() {
    let long_header = (HEADER_LEN_MAX as u32 + 1).to_le_bytes();
    let lies: [(Vec<u8>, StreamCode); 5] = [
        (vec![9; 40], StreamCode::MALFORMED),
        (vec![1, 200], StreamCode::MALFORMED),
        ([&[1, 1][..], &long_header, &[0; 8]].concat(), StreamCode::HEADER_TOO_LONG),
        ([&[1, 1, 4, 0, 0, 0][..], &[0xff; 8]].concat(), StreamCode::BODY_TOO_LONG),
        (vec![1, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'x'], StreamCode::MALFORMED),
    ];
    let lie = lie(NetConfig::default()).await;
    for (bytes, code) in lies {
        let (mut send, mut recv) = lie.quic.open_bi().await.unwrap();
        send.write_all(&bytes).await.unwrap();
        // The server may have stopped the stream before its end was said.
        let _ = send.finish();
        let end = soon("a refusal", recv.read_to_end(100)).await;
        match end {
            Err(quinn::ReadToEndError::Read(quinn::ReadError::Reset(given))) => {
                assert_eq!(given, VarInt::from_u32(code.raw()), "{bytes:?}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(lie.far.close_reason(), None);
    let (mut send, _recv) = lie.quic.open_bi().await.unwrap();
    send.write_all(&[1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'o', b'k']).await.unwrap();
    send.finish().unwrap();
    let request = soon("a good request", lie.far.accept_request()).await.unwrap();
    assert_eq!(request.header, "ok");
}

#[tokio::test]
async fn bodies_that_lie_about_their_length_are_noticed() {
    let lie = lie(NetConfig::default()).await;
    let head = |len: u8| vec![1, 0, 0, 0, 0, 0, len, 0, 0, 0, 0, 0, 0, 0];
    let bodies: [(Vec<u8>, RequestError); 5] = [
        (vec![3, 0, 0, 0, 1, 2, 3], RequestError::Truncated { got: 3, declared: 10 }),
        (vec![3, 0, 0, 0, 1, 2], RequestError::Truncated { got: 2, declared: 10 }),
        (vec![3, 0], RequestError::Truncated { got: 0, declared: 10 }),
        (vec![11, 0, 0, 0, 1, 2, 3], RequestError::Malformed("the body goes on after its declared end")),
        (
            [&[10, 0, 0, 0][..], &[1; 10], &[1, 0, 0, 0, 1]].concat(),
            RequestError::Malformed("the body goes on after its declared end"),
        ),
    ];
    for (body, expected) in bodies {
        let (mut send, _recv) = lie.quic.open_bi().await.unwrap();
        send.write_all(&head(10)).await.unwrap();
        send.write_all(&body).await.unwrap();
        send.finish().unwrap();
        let request = soon("a request", lie.far.accept_request()).await.unwrap();
        let error = soon("the error", request.body.read_all(100)).await.unwrap_err();
        assert_eq!(error, expected);
    }
    assert_eq!(lie.far.close_reason(), None);
}

#[tokio::test]
async fn a_request_that_never_ends_its_header_holds_up_no_other_and_is_given_up() {
    let quick = NetConfig { request_idle_timeout: Duration::from_millis(300), ..NetConfig::default() };
    let lie = lie(quick).await;
    let (mut slow, mut slow_end) = lie.quic.open_bi().await.unwrap();
    slow.write_all(&[1, 0, 9, 0]).await.unwrap();
    let (mut send, _recv) = lie.quic.open_bi().await.unwrap();
    send.write_all(&[1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'x']).await.unwrap();
    let request = soon("the other request", lie.far.accept_request()).await.unwrap();
    assert_eq!(request.header, "x");
    let end = soon("the end of the slow one", slow_end.read_to_end(10)).await.unwrap_err();
    let idle = quinn::ReadError::Reset(VarInt::from_u32(StreamCode::IDLE.raw()));
    assert_eq!(end, quinn::ReadToEndError::Read(idle));
}

#[tokio::test]
async fn answers_that_lie_are_noticed() {
    let lie = lie(NetConfig::default()).await;
    let long_header = (HEADER_LEN_MAX as u32 + 1).to_le_bytes();
    let answers: [(Vec<u8>, RequestError); 4] = [
        (vec![], RequestError::Malformed("no answer")),
        (vec![0, 0, 5], RequestError::Malformed("neither an answer nor a sign of life")),
        ([&[1][..], &long_header, &[0; 8]].concat(), RequestError::HeaderTooLong { len: HEADER_LEN_MAX as u64 + 1 }),
        (vec![0, 1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b'x'], RequestError::Malformed("ends within its header")),
    ];
    for (bytes, expected) in answers {
        let answering = async {
            let (mut send, _recv) = lie.quic.accept_bi().await.unwrap();
            send.write_all(&bytes).await.unwrap();
            let _ = send.finish();
            let _ = send.stopped().await;
        };
        let asking = lie.far.request("a".into());
        let (error, ()) = soon("an error", async { tokio::join!(asking, answering) }).await;
        assert_eq!(error.unwrap_err(), expected);
    }
    assert_eq!(lie.far.close_reason(), None);
}

#[tokio::test]
async fn a_flood_of_probes_is_answered_sparingly() {
    let lie = lie(NetConfig::default()).await;
    for _ in 0..5000 {
        lie.quic.send_datagram_wait(bytes::Bytes::from_static(b"?")).await.unwrap();
    }
    let mut answers = 0;
    while tokio::time::timeout(Duration::from_millis(300), lie.quic.read_datagram()).await.is_ok() {
        answers += 1;
    }
    assert!((1..500).contains(&answers), "{answers} answers");
    assert_eq!(lie.far.close_reason(), None);
}

#[tokio::test]
async fn a_stranger_has_one_stream_and_little_room_until_it_is_admitted() {
    let mut stranger = stranger(NetConfig::default()).await;
    let another = stranger.quic.open_bi();
    tokio::pin!(another);
    let mut sent = 0;
    let more = vec![0; 16 << 10];
    // Nobody reads yet: what is taken is the window.
    while let Ok(wrote) = tokio::time::timeout(Duration::from_millis(500), stranger.control.0.write(&more)).await {
        sent += wrote.unwrap();
        assert!(sent <= 64 << 10, "{sent} bytes of a stranger are held");
    }
    assert!(futures_are_pending(&mut another).await, "a second stream was given to a stranger");
    stranger.far.admit();
    soon("a stream for a member", another).await.unwrap();
    soon("room for a member", stranger.control.0.write_all(&vec![0; 1 << 20])).await.unwrap();
}

async fn futures_are_pending<F: Future>(future: &mut std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn a_stranger_cannot_announce_a_long_frame() {
    let mut stranger = stranger(NetConfig::default()).await;
    let (_sender, mut receiver) = stranger.far.control().unwrap();
    let head = [&[1u8][..], &(65u32 << 10).to_le_bytes()].concat();
    stranger.control.0.write_all(&head).await.unwrap();
    assert_eq!(soon("a refusal", receiver.recv()).await, Err(FrameError::TooLong(65 << 10)));
    assert_closed_with(&stranger.quic, CloseCode::FRAME_TOO_LONG).await;
}

/// The door once held 4,096 silent strangers for ten seconds each, and members were refused meanwhile.
#[tokio::test]
async fn strangers_who_say_nothing_keep_nobody_out() {
    let server = endpoint(NetConfig { connections_max: 40, ..NetConfig::default() });
    let accepting = server.clone();
    // As a server does: whoever comes is waited for.
    let kept = tokio::spawn(async move {
        while let Some(told) = accepting.accept().await {
            tokio::spawn(async move {
                let (sender, mut receiver) = told.control().unwrap();
                if let Ok(Some(frame)) = receiver.recv().await {
                    told.admit();
                    let _ = sender.send(frame).await;
                    told.closed().await;
                }
            });
        }
    });
    let strangers = liar(ALPN, Shows::Ed25519);
    let mut idle = Vec::new();
    for _ in 0..120 {
        let quic = soon("a handshake", strangers.connect(addr(&server), "any").unwrap()).await;
        // Refused ones would be the fault: the door is shut.
        let quic = quic.expect("there is room for one more at the door");
        let mut control = quic.open_bi().await.unwrap();
        control.0.write_all(&GREETING).await.unwrap();
        idle.push((quic, control));
    }
    let client = endpoint(NetConfig::default());
    let near = soon("a connection", client.connect(&[addr(&server)], server.id())).await.unwrap();
    let (sender, mut receiver) = near.control().unwrap();
    sender.send("a member".into()).await.unwrap();
    assert_eq!(soon("an answer", receiver.recv()).await.unwrap().unwrap(), "a member");
    kept.abort();
}

/// First packets that a dial sends when it is given up, which close what they begin: of each dial the last.
async fn closing_first_packets(count: usize) -> Vec<Vec<u8>> {
    let catcher = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let dialling = liar(ALPN, Shows::Ed25519);
    let mut packets = BTreeMap::new();
    let mut buffer = [0; 2048];
    for _ in 0..count {
        let dial = dialling.connect(catcher.local_addr().unwrap(), "any").unwrap();
        let first = soon("a first packet", catcher.recv(&mut buffer)).await.unwrap();
        assert!(first >= 1200, "{first}");
        drop(dial);
        let len = soon("the last packet", catcher.recv(&mut buffer)).await.unwrap();
        let name_end = 6 + usize::from(buffer[5]);
        packets.insert(buffer[6..name_end].to_vec(), buffer[..len].to_vec());
    }
    packets.into_values().collect()
}

/// A connection whose first packet closes it is held for the whole idle timeout: 3,000 were, 66 MB of them.
#[tokio::test]
async fn forged_packets_that_close_what_they_begin_leave_little_behind() {
    let server = endpoint(NetConfig::default());
    let packets = closing_first_packets(150).await;
    let sockets: Vec<_> =
        (1..=8).map(|network| std::net::UdpSocket::bind((format!("127.0.{network}.1"), 0)).unwrap()).collect();
    for (number, packet) in packets.iter().enumerate() {
        sockets[number % sockets.len()].send_to(packet, addr(&server).to_string()).unwrap();
    }
    assert_serves(&server).await;
    // Each of the eight networks begins a few before the first of them has come to nothing.
    assert!(server.connections() < 40, "{} connections are held", server.connections());
}
