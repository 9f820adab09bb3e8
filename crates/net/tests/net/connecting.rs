//! Dialling, accepting, identities, closing.

use crate::pair::{addr, endpoint, pair, pair_with, soon};
use std::net::SocketAddr;
use std::time::Duration;
use wayfs_net::{
    Address, AttemptError, BindError, CloseCode, Closed, ConfigError, ConnectError, Endpoint, NetConfig, NodeIdentity,
    Resolver, TicketSecret,
};

#[tokio::test]
async fn both_sides_learn_who_the_other_is() {
    let pair = pair().await;
    assert_eq!(pair.near.peer(), pair.server.id());
    assert_eq!(pair.far.peer(), pair.client.id());
    assert!(pair.near.dialled() && !pair.far.dialled());
    assert_eq!(pair.near.remote_addr(), addr(&pair.server));
    assert_eq!(pair.far.remote_addr(), addr(&pair.client));
}

#[tokio::test]
async fn a_peer_with_another_key_is_refused_and_never_accepted() {
    let (client, server) = (endpoint(NetConfig::default()), endpoint(NetConfig::default()));
    let expected = NodeIdentity::generate().unwrap().id();
    let to = addr(&server);
    let error = soon("a refusal", client.connect(&[to], expected)).await.unwrap_err();
    let ConnectError::Unreachable { peer, attempts } = &error else { panic!("{error}") };
    assert_eq!(*peer, expected);
    assert_eq!(*attempts, vec![(to.into(), AttemptError::WrongKey(server.id()))]);
    // The next that comes is a good one, so nothing of the bad one was queued before it.
    let good = soon("a connection", client.connect(&[to], server.id())).await.unwrap();
    let accepted = soon("its other end", server.accept()).await.unwrap();
    good.close(CloseCode::application(5), "seen");
    let closed = soon("its end", accepted.closed()).await;
    let code = CloseCode::application(5);
    assert_eq!(closed, Closed::ByPeer { code, reason: "seen".to_owned() });
}

#[tokio::test]
async fn a_machine_with_a_new_key_is_known_by_its_former_ones_as_long_as_it_shows_them() {
    let client = endpoint(NetConfig::default());
    let first = NodeIdentity::generate().unwrap();
    let third = first.successor().unwrap().successor().unwrap();
    let bind = |identity| Endpoint::bind("127.0.0.1:0".parse().unwrap(), identity, NetConfig::default()).unwrap();
    let server = bind(&third);
    let to = [addr(&server)];
    for known_by in [first.id(), third.changes()[1].old(), third.id()] {
        let near = soon("a connection", client.connect(&to, known_by)).await.unwrap();
        assert_eq!(near.peer(), third.id(), "by the key that was proved");
    }
    // The successor of another is not this one's, and what follows somebody is not that somebody.
    let other = NodeIdentity::generate().unwrap();
    let (silent, former) = (bind(&other.successor().unwrap().without_changes()), bind(&first));
    let cases = [(&server, other.id()), (&silent, other.id()), (&former, third.id())];
    for (server, expected) in cases {
        let error = soon("a refusal", client.connect(&[addr(server)], expected)).await.unwrap_err();
        let ConnectError::Unreachable { attempts, .. } = &error else { panic!("{error}") };
        assert_eq!(attempts[0].1, AttemptError::WrongKey(server.id()));
    }
}

#[tokio::test]
async fn a_channel_binding_is_the_same_on_both_ends_and_differs_between_connections() {
    let (one, two) = (pair().await, pair().await);
    assert_eq!(one.near.channel_binding(), one.far.channel_binding());
    assert_ne!(one.near.channel_binding(), two.near.channel_binding());
    let secret = TicketSecret::generate().unwrap();
    let proof = secret.proof(&one.near.channel_binding(), one.client.id());
    assert!(secret.verify(&one.far.channel_binding(), one.far.peer(), &proof));
    assert!(!secret.verify(&two.far.channel_binding(), one.far.peer(), &proof));
}

/// Whoever compares a connection's counters with those of an earlier look must not take another for it.
#[tokio::test]
async fn a_connection_never_gets_the_number_of_one_that_is_gone() {
    let (client, server) = (endpoint(NetConfig::default()), endpoint(NetConfig::default()));
    let mut numbers = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let to = [addr(&server)];
        let (near, far) =
            soon("a connection", async { tokio::join!(client.connect(&to, server.id()), server.accept()) }).await;
        let (near, far) = (near.unwrap(), far.unwrap());
        assert!(numbers.insert(near.number()) && numbers.insert(far.number()), "{numbers:?}");
        drop(near);
        soon("its end", far.closed()).await;
    }
}

#[tokio::test]
async fn a_port_in_use_is_named_with_what_to_do() {
    let server = endpoint(NetConfig::default());
    let identity = NodeIdentity::generate().unwrap();
    let taken = addr(&server);
    let error = Endpoint::bind(taken, &identity, NetConfig::default()).unwrap_err();
    assert!(matches!(error, BindError::InUse(_)), "{error}");
    let words = error.to_string();
    assert!(words.contains(&taken.port().to_string()) && words.contains("ss -ulpn"), "{words}");
}

#[tokio::test]
async fn an_address_of_another_machine_cannot_be_bound() {
    let identity = NodeIdentity::generate().unwrap();
    let error = Endpoint::bind("192.0.2.7:0".parse().unwrap(), &identity, NetConfig::default()).unwrap_err();
    assert!(matches!(error, BindError::NoSuchAddress(_)), "{error}");
}

#[test]
fn without_a_runtime_binding_fails_and_does_not_panic() {
    let identity = NodeIdentity::generate().unwrap();
    let error = Endpoint::bind("127.0.0.1:0".parse().unwrap(), &identity, NetConfig::default()).unwrap_err();
    assert!(matches!(error, BindError::NoRuntime), "{error}");
}

#[test]
fn contradictory_settings_are_refused() {
    let good = NetConfig::default();
    assert_eq!(good.check(), Ok(()));
    let rare = NetConfig { keep_alive: good.idle_timeout, ..good.clone() };
    assert_eq!(rare.check(), Err(ConfigError::KeepAliveTooRare));
    let zero = NetConfig { waiting_probe: Duration::ZERO, ..good.clone() };
    assert_eq!(zero.check(), Err(ConfigError::Zero("waiting_probe")));
    let small = NetConfig { frame_queue_bytes_max: 1, ..good.clone() };
    assert_eq!(small.check(), Err(ConfigError::FrameQueueTooSmall));
    let none = NetConfig { requests_max: 0, ..good.clone() };
    assert_eq!(none.check(), Err(ConfigError::RequestsMax));
    let narrow = NetConfig { path_capacity: 1000, ..good };
    assert_eq!(narrow.check(), Err(ConfigError::PathCapacity));
}

#[tokio::test]
async fn the_address_that_answers_is_taken_and_dead_ones_cost_little() {
    let (client, server) = (endpoint(NetConfig::default()), endpoint(NetConfig::default()));
    let deaf = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let wrong_machine = endpoint(NetConfig::default());
    let addrs = [deaf.local_addr().unwrap(), "[::1]:9".parse().unwrap(), addr(&wrong_machine), addr(&server)];
    let near = soon("a connection", client.connect(&addrs, server.id())).await.unwrap();
    assert_eq!(near.remote_addr(), addr(&server));
}

/// A machine that moves is found under its name: what the name stood for at an earlier dial does not count.
#[tokio::test]
async fn a_name_is_resolved_anew_at_each_dial() {
    let (here, moved) = (std::sync::Arc::new(std::sync::Mutex::new(vec![])), "127.0.0.2:0");
    let known = std::sync::Arc::clone(&here);
    let resolver = Resolver::by(move |host| {
        assert_eq!(host, "home.test");
        Ok(known.lock().unwrap().clone())
    });
    let client = endpoint(NetConfig { resolver, ..NetConfig::default() });
    let identity = NodeIdentity::generate().unwrap();
    let server = Endpoint::bind("127.0.0.1:0".parse().unwrap(), &identity, NetConfig::default()).unwrap();
    let at: Address = format!("home.test:{}", addr(&server).port()).parse().unwrap();
    let unknown = soon("a refusal", client.connect(std::slice::from_ref(&at), identity.id())).await.unwrap_err();
    assert!(unknown.to_string().contains("the name has no address"), "{unknown}");
    here.lock().unwrap().push(addr(&server).ip());
    soon("a connection", client.connect(std::slice::from_ref(&at), identity.id())).await.unwrap();
    server.close(CloseCode::GOODBYE, "").await;
    let server = Endpoint::bind(moved.parse().unwrap(), &identity, NetConfig::default()).unwrap();
    let at: Address = format!("home.test:{}", addr(&server).port()).parse().unwrap();
    // A dead address of the name does not hide the live one.
    here.lock().unwrap().push(addr(&server).ip());
    let near = soon("a connection", client.connect(&[at], identity.id())).await.unwrap();
    assert_eq!(near.remote_addr(), addr(&server));
}

#[tokio::test]
async fn a_dial_that_nobody_answers_ends_and_tells_of_every_address() {
    let impatient = NetConfig { connect_timeout: Duration::from_millis(400), ..NetConfig::default() };
    let client = endpoint(impatient);
    let deaf = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let addrs: [SocketAddr; 2] = [deaf.local_addr().unwrap(), "[::1]:9".parse().unwrap()];
    let nobody = NodeIdentity::generate().unwrap().id();
    let error = soon("the end of the dial", client.connect(&addrs, nobody)).await.unwrap_err();
    let ConnectError::Unreachable { attempts, .. } = &error else { panic!("{error}") };
    assert_eq!(attempts[0], (addrs[0].into(), AttemptError::NoAnswer));
    assert_eq!(attempts[1], (addrs[1].into(), AttemptError::BadAddress));
    let none = soon("a refusal", client.connect(&[] as &[SocketAddr], nobody)).await.unwrap_err();
    assert_eq!(none, ConnectError::NoAddress(nobody));
}

#[tokio::test]
async fn one_socket_dials_and_accepts_over_both_families() {
    let identity = NodeIdentity::generate().unwrap();
    let Ok(both) = Endpoint::bind("[::]:0".parse().unwrap(), &identity, NetConfig::default()) else {
        // A machine without IPv6 has nothing to show here.
        return;
    };
    let server = endpoint(NetConfig::default());
    let out = soon("IPv4 out", both.connect(&[addr(&server)], server.id())).await.unwrap();
    assert_eq!(out.remote_addr(), addr(&server));
    let port = both.local_addr().unwrap().port();
    let to = SocketAddr::new("127.0.0.1".parse().unwrap(), port);
    let _in = soon("IPv4 in", server.connect(&[to], both.id())).await.unwrap();
    let accepted = soon("its other end", both.accept()).await.unwrap();
    assert_eq!(accepted.remote_addr(), addr(&server));
}

#[tokio::test]
async fn closing_tells_the_peer_why_and_ends_all_that_belongs_to_it() {
    let pair = pair().await;
    let (sender, mut receiver) = pair.near.control().unwrap();
    pair.far.close(CloseCode::NOT_ADMITTED, "who are you?\n\u{7}");
    let closed = soon("the end", pair.near.closed()).await;
    let expected = Closed::ByPeer { code: CloseCode::NOT_ADMITTED, reason: "who are you?  ".to_owned() };
    assert_eq!(closed, expected);
    assert_eq!(pair.near.close_reason(), Some(expected.clone()));
    assert_eq!(soon("the end", pair.far.closed()).await, Closed::ByUs);
    assert!(soon("an error", receiver.recv()).await.is_err());
    assert!(soon("an error", sender.send("late".into())).await.is_err());
    assert!(soon("an error", pair.near.request("late".into())).await.is_err());
    assert_eq!(soon("an error", pair.near.accept_request()).await.unwrap_err(), expected);
}

#[tokio::test]
async fn dropping_the_last_handle_closes() {
    let pair = pair().await;
    let (sender, receiver) = pair.near.control().unwrap();
    let clone = pair.near.clone();
    drop(pair.near);
    assert_eq!(clone.close_reason(), None);
    drop(clone);
    let closed = soon("the end", pair.far.closed()).await;
    let code = CloseCode::DROPPED;
    assert_eq!(closed, Closed::ByPeer { code, reason: String::new() });
    drop((sender, receiver));
}

#[tokio::test]
async fn closing_an_endpoint_closes_its_connections_and_frees_its_port() {
    let pair = pair().await;
    let taken = addr(&pair.server);
    pair.server.close(CloseCode::SHUTDOWN, "update").await;
    let closed = soon("the end", pair.near.closed()).await;
    let code = CloseCode::SHUTDOWN;
    assert_eq!(closed, Closed::ByPeer { code, reason: "update".to_owned() });
    assert!(soon("the last", pair.server.accept()).await.is_none());
    drop((pair.server, pair.far));
    let identity = NodeIdentity::generate().unwrap();
    soon("the port", async {
        while Endpoint::bind(taken, &identity, NetConfig::default()).is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_vanishes_is_noticed() {
    let quick = NetConfig {
        idle_timeout: Duration::from_millis(500),
        keep_alive: Duration::from_millis(100),
        ..NetConfig::default()
    };
    let server = endpoint(NetConfig::default());
    let proxy = crate::proxy::Proxy::start(addr(&server)).await;
    let pair = crate::pair::pair_at(endpoint(quick), server, proxy.addr()).await;
    proxy.cut();
    assert_eq!(soon("the timeout", pair.near.closed()).await, Closed::TimedOut);
}

#[tokio::test]
async fn keep_alives_keep_an_idle_connection() {
    let quick = NetConfig {
        idle_timeout: Duration::from_millis(600),
        keep_alive: Duration::from_millis(100),
        ..NetConfig::default()
    };
    let pair = pair_with(quick, NetConfig::default()).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(pair.near.close_reason(), None);
}

#[tokio::test]
async fn newcomers_past_the_limit_are_refused_and_the_others_live() {
    let full = NetConfig { connections_max: 1, ..NetConfig::default() };
    let pair = pair_with(NetConfig::default(), full).await;
    let other = endpoint(NetConfig::default());
    let refused = soon("a refusal", other.connect(&[addr(&pair.server)], pair.server.id())).await;
    assert!(matches!(refused, Err(ConnectError::Unreachable { .. })), "{refused:?}");
    assert_eq!(pair.near.close_reason(), None);
}

#[tokio::test]
async fn under_load_an_address_proves_itself_first_and_then_connects() {
    // With room for one handshake, the server is under load from the first packet on.
    let busy = NetConfig { handshakes_max: 1, ..NetConfig::default() };
    let pair = pair_with(NetConfig::default(), busy).await;
    assert_eq!(pair.far.peer(), pair.client.id());
}
