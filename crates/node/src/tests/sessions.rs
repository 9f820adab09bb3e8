use crate::testing::{Machine, Plan, eventually, noise};
use crate::{ChildRole, LinkState};
use std::time::Duration;
use wayfs_types::FileId;
use wayfs_types::request::{Level, LockFamily, LockKind, LockOwner, LockRange, LockRequest, Request};

#[test]
fn a_change_at_one_client_is_seen_at_another() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let a = Machine::below(&home, &dir.path().join("a"), ChildRole::Client, &[&home]);
    let b = Machine::below(&home, &dir.path().join("b"), ChildRole::Client, &[&home]);
    a.write("letter", b"dear b");
    a.wait(Level::Stable);
    eventually("b sees the letter", || b.read("letter").is_ok_and(|bytes| bytes == b"dear b"));
    b.write("letter", b"dear a");
    b.wait(Level::Safe);
    assert_eq!(a.read("letter").unwrap(), b"dear a", "a's cache was broken before b was told that it is safe");
}

#[test]
fn a_station_passes_records_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let near = Machine::below(&home, &dir.path().join("near"), ChildRole::Client, &[&station]);
    let far = Machine::below(&home, &dir.path().join("far"), ChildRole::Client, &[&home]);
    near.write("n", b"near");
    near.wait(Level::Visible);
    eventually("far sees it", || far.read("n").is_ok_and(|bytes| bytes == b"near"));
    far.write("f", b"far");
    far.wait(Level::Visible);
    eventually("near sees it", || near.read("f").is_ok_and(|bytes| bytes == b"far"));
    // What a home spends is counted: two files that children made, or more records.
    let metrics = home.volume.metrics();
    assert!(metrics.records_applied.value() >= 2 && metrics.sync.count() > 0);
    assert!(metrics.engine_time.value() > Duration::ZERO);
}

#[test]
fn what_is_written_offline_arrives_when_the_home_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let client = Machine::below(&home, &dir.path().join("c"), ChildRole::Client, &[&home]);
    client.write("before", b"1");
    client.wait(Level::Safe);
    client.learn_root();
    client.go_offline();
    eventually("the link says so", || client.link.as_ref().unwrap().status().state == LinkState::Offline);
    for i in 0..50 {
        client.write(&format!("offline-{i}"), format!("{i}").as_bytes());
    }
    let big = noise(300_000, 1);
    client.write("offline-big", &big);
    assert!(home.find(FileId::ROOT, "offline-0").is_none());
    client.link.as_ref().unwrap().go_online();
    client.wait(Level::Stable);
    assert_eq!(home.read("offline-49").unwrap(), b"49");
    assert_eq!(home.read("offline-big").unwrap(), big);
}

#[test]
fn a_crash_of_the_client_loses_nothing_that_was_synced() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let place = dir.path().join("c");
    let client = Machine::below(&home, &place, ChildRole::Client, &[&home]);
    client.write("known", b"x");
    client.wait(Level::Safe);
    client.learn_root();
    client.go_offline();
    let big = noise(200_000, 2);
    client.write("big", &big);
    client.volume.sync(crate::testing::PATIENCE).unwrap();
    let origin = client.origin();
    client.crash();
    let mut plan = Plan::new(&place, wayfs_proto::Role::Client, origin);
    plan.servers = vec![home.info()];
    let client = Machine::start(plan);
    client.wait(Level::Stable);
    assert_eq!(home.read("big").unwrap(), big);
}

#[test]
fn a_crash_of_the_home_loses_nothing_that_was_safe() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("home");
    let home = Machine::home(&place);
    let port = home.endpoint.local_addr().unwrap().port();
    let client = Machine::below(&home, &dir.path().join("c"), ChildRole::Client, &[&home]);
    let big = noise(150_000, 3);
    client.write("big", &big);
    client.wait(Level::Safe);
    client.learn_root();
    home.crash();
    let mut plan = Plan::new(&place, wayfs_proto::Role::Home, wayfs_types::OriginId::new(1).unwrap());
    plan.port = port;
    let home = Machine::start(plan);
    assert_eq!(home.read("big").unwrap(), big);
    client.write("after", b"the client comes back by itself");
    client.wait(Level::Stable);
    assert!(home.read("after").is_ok());
}

#[test]
fn a_client_moves_when_its_station_dies() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let client = Machine::below(&home, &dir.path().join("c"), ChildRole::Client, &[&home, &station]);
    let link = client.link.as_ref().unwrap();
    link.pin(Some(station.endpoint.id()));
    eventually("it uses the station", || {
        link.status().state == LinkState::Connected
            && link.status().parent.is_some_and(|parent| parent.node == station.endpoint.id())
    });
    client.write("at-station", b"1");
    client.wait(Level::Visible);
    link.pin(None);
    station.crash();
    eventually("it uses the home", || {
        link.status().state == LinkState::Connected
            && link.status().parent.is_some_and(|parent| parent.node == home.endpoint.id())
    });
    client.write("at-home", b"2");
    client.wait(Level::Stable);
    assert!(home.read("at-station").is_ok());
    assert!(client.read("at-station").is_ok());
}

/// QUIC's own machine ends a connection with such a reason when more is lost than it bears.
#[test]
fn a_connection_that_ends_in_a_transfer_is_dialled_again_and_the_transfer_goes_on() {
    const LEN: u64 = 48 << 20;
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let client = Machine::below(&home, &dir.path().join("c"), ChildRole::Client, &[&home]);
    let film = noise(LEN as usize, 9);
    client.write("film", &film);
    let sent = || client.volume.metrics().bytes_up.value();
    for part in 1..=3_u64 {
        eventually("a part to go", || sent() > part * (8 << 20));
        assert!(sent() < LEN + part * (8 << 20), "it is through before its connection ended");
        let peers: Vec<_> = home.volume.sessions().iter().map(|session| session.peer).collect();
        assert!(!peers.is_empty() || part > 1, "the client is there");
        for session in peers.into_iter().filter_map(|peer| home.volume.session(peer)) {
            session.connection.close(wayfs_net::CloseCode::CONTROL_LOST, "too many gaps in stream buffer");
        }
    }
    client.wait(Level::Stable);
    assert!(home.read("film").unwrap() == film);
    // What was taken does not go again: at each end no more was under way than eight chunks.
    let again = sent() - LEN;
    assert!(again < 3 * 8 * wayfs_content::CHUNK_MAX as u64, "{again} bytes went twice");
}

#[test]
fn a_revoked_machine_is_put_out_and_stays_out() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let client = Machine::below(&home, &dir.path().join("c"), ChildRole::Client, &[&home]);
    client.write("x", b"x");
    client.wait(Level::Safe);
    assert_eq!(
        home.volume.revoke(client.endpoint.id(), wayfs_proto::Held::Taken, crate::testing::PATIENCE).unwrap(),
        1
    );
    eventually("it is refused", || matches!(client.link.as_ref().unwrap().status().state, LinkState::Refused { .. }));
    assert!(home.volume.sessions().is_empty());
}

#[test]
fn stations_become_known_to_clients() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    eventually("the home knows the station", || home.volume.directory().find(station.endpoint.id()).is_some());
    let client = Machine::below(&home, &dir.path().join("c"), ChildRole::Client, &[&home]);
    eventually("the client knows the station", || {
        client.link.as_ref().unwrap().status().candidates.iter().any(|known| known.server.node == station.endpoint.id())
    });
}

#[test]
fn without_any_parent_a_request_ends_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let place = dir.path().join("c");
    let plan = Machine::plan_below(&home, &place, ChildRole::Client, &[&home]);
    home.crash();
    let client = Machine::start(plan);
    let outcome =
        client.ask(wayfs_types::request::Request::Lookup { parent: FileId::ROOT, name: crate::testing::name("x") });
    assert!(outcome.is_err(), "{outcome:?}");
}

/// Starts a home again in its directory, at another port.
fn moved(place: &std::path::Path) -> Machine {
    Machine::start(Plan::new(place, wayfs_proto::Role::Home, wayfs_types::OriginId::new(1).unwrap()))
}

/// [S-moved]
#[test]
fn a_home_that_moved_tells_its_stations_and_they_tell_the_clients() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("home");
    let home = Machine::home(&place);
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let client = Machine::below(&home, &dir.path().join("c"), ChildRole::Client, &[&station]);
    let id = home.endpoint.id();
    client.write("before", b"1");
    client.wait(Level::Visible);
    eventually("the home knows where its station is", || {
        home.volume.directory().find(station.endpoint.id()).is_some_and(|found| !found.addresses.is_empty())
    });
    let old = home.info().addresses;
    home.crash();
    // Somebody else has the old port.
    let _taken = std::net::UdpSocket::bind(old[0].to_string());
    let home = moved(&place);
    assert_ne!(home.info().addresses, old);
    client.write("after", b"2");
    client.wait(Level::Stable);
    assert_eq!(home.read("after").unwrap(), b"2");
    eventually("the client has heard where the home is", || {
        client.volume.directory().find(id).is_some_and(|found| found.addresses == home.info().addresses)
    });
}

#[test]
fn a_client_finds_a_moved_home_by_a_new_tickets_address() {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("home");
    let home = Machine::home(&place);
    let client = Machine::below(&home, &dir.path().join("c"), ChildRole::Client, &[&home]);
    client.write("before", b"1");
    client.wait(Level::Visible);
    client.learn_root();
    let old = home.info().addresses;
    home.crash();
    let _taken = std::net::UdpSocket::bind(old[0].to_string());
    let home = moved(&place);
    client.write("after", b"2");
    assert!(client.volume.directory().tell(home.endpoint.id(), home.info().addresses));
    client.wait(Level::Stable);
    assert_eq!(client.volume.directory().find(home.endpoint.id()).unwrap().addresses, home.info().addresses);
}

/// [S-servers]
#[test]
fn a_removed_station_loses_its_clients_too() {
    let dir = tempfile::tempdir().unwrap();
    let home = Machine::home(&dir.path().join("home"));
    let station = Machine::below(&home, &dir.path().join("s"), ChildRole::Station, &[&home]);
    let client = Machine::below(&home, &dir.path().join("c"), ChildRole::Client, &[&station]);
    client.write("at-station", b"1");
    client.wait(Level::Visible);
    let id = station.endpoint.id();
    assert_eq!(client.link.as_ref().unwrap().status().parent.unwrap().node, id);
    home.volume.revoke(id, wayfs_proto::Held::Taken, crate::testing::PATIENCE).unwrap();
    eventually("the client is at the home", || {
        let status = client.link.as_ref().unwrap().status();
        status.state == LinkState::Connected && status.parent.is_some_and(|parent| parent.node == home.endpoint.id())
    });
    assert_eq!(client.volume.directory().find(id), None, "the removed station is forgotten");
    client.write("at-home", b"2");
    client.wait(Level::Stable);
}

/// A client that is connected to the home, and a station that is as near.
fn beside_a_station(dir: &std::path::Path) -> (Machine, Machine, Machine) {
    let home = Machine::home(&dir.join("home"));
    let station = Machine::below(&home, &dir.join("s"), ChildRole::Station, &[&home]);
    let client = Machine::below(&home, &dir.join("c"), ChildRole::Client, &[&home, &station]);
    client.link.as_ref().unwrap().pin(Some(home.endpoint.id()));
    eventually("it uses the home", || is_at(&client, &home));
    (home, station, client)
}

fn is_at(client: &Machine, server: &Machine) -> bool {
    let status = client.link.as_ref().unwrap().status();
    status.state == LinkState::Connected && status.parent.is_some_and(|parent| parent.node == server.endpoint.id())
}

/// Waits until a client has measured a server anew so often.
fn looks_at(client: &Machine, server: &Machine, times: usize) {
    let link = client.link.as_ref().unwrap();
    let measured = || {
        let candidates = link.status().candidates;
        candidates.into_iter().find(|one| one.server.node == server.endpoint.id()).and_then(|one| one.measured_at)
    };
    for _ in 0..times {
        let before = measured();
        eventually("it measures the other", || measured() != before);
    }
}

/// Proves [S-same-server].
#[test]
fn a_client_joins_the_server_that_all_of_its_site_take() {
    let dir = tempfile::tempdir().unwrap();
    let (home, station, client) = beside_a_station(dir.path());
    let link = client.link.as_ref().unwrap();
    client.write("before", b"1");
    link.pin(None);
    eventually("it joins the station", || is_at(&client, &station));
    client.wait(Level::Stable);
    assert!(home.read("before").is_ok());
    looks_at(&client, &home, 4);
    assert!(is_at(&client, &station), "it stays there");
}

/// Proves [S-same-server].
#[test]
fn whoever_holds_a_lock_joins_nobody_before_he_lets_go() {
    let dir = tempfile::tempdir().unwrap();
    let (home, station, client) = beside_a_station(dir.path());
    let (file, _) = client.write("locked", b"1");
    let (family, owner, range) = (LockFamily::Flock, LockOwner(7), LockRange::WHOLE);
    let lock = LockRequest { file, family, owner, pid: 1, range, kind: LockKind::Write, wait: false };
    client.ask(Request::Lock(lock)).unwrap();
    client.link.as_ref().unwrap().pin(None);
    looks_at(&client, &station, 6);
    assert!(is_at(&client, &home), "it would lose its lock");
    client.ask(Request::Unlock { file, family, owner, range }).unwrap();
    eventually("it joins the station", || is_at(&client, &station));
}
