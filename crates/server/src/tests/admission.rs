use super::harness::{Joiner, PATIENCE, create, join_station, run, start, ticket, ticket_text};
use wayfs_control::{Command, Done, ErrorKind, TicketRole};
use wayfs_net::{Ticket, TicketParts, TicketSecret};
use wayfs_node::testing::eventually;
use wayfs_node::{GreetError, JoinError, LinkState, Refusal};
use wayfs_types::FileId;
use wayfs_types::request::{Answer, Change, Level, Request};

fn refusal(result: Result<wayfs_node::Grant, JoinError>) -> Refusal {
    match result {
        Err(JoinError::Greet { source: GreetError::Refused(refusal), .. }) => refusal,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_ticket_admits_one_machine_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(&dir.path().join("home"));
    create(&server, "docs");
    let ticket = ticket(&server, "docs", TicketRole::Client);
    let (ann, bob) = (Joiner::new(), Joiner::new());
    let grant = ann.join(&ticket).unwrap();
    assert_eq!(grant.name, "docs");
    assert_eq!(ann.join(&ticket).unwrap().origin, grant.origin, "the answer may have been lost");
    assert_eq!(refusal(bob.join(&ticket)), Refusal::TicketSpent);
    server.stop();
    let mut config = super::harness::config(&dir.path().join("home"));
    config.listen = server.address();
    drop(server);
    let server = crate::Server::start(config).unwrap();
    assert_eq!(ann.join(&ticket).unwrap().origin, grant.origin, "also after a restart");
    assert_eq!(refusal(bob.join(&ticket)), Refusal::TicketSpent);
    drop(server);
}

#[test]
fn wrong_expired_and_invented_tickets_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir.path().join("home"));
    create(&server, "docs");
    let joiner = Joiner::new();
    let short: Ticket = ticket_text(&server, "docs", TicketRole::Client, Some(1)).parse().unwrap();
    let right = ticket(&server, "docs", TicketRole::Client);
    let forged = |secret, volume, role| {
        Ticket::new(TicketParts {
            role,
            volume,
            volume_name: "docs".into(),
            home: right.home(),
            addresses: right.addresses().to_vec(),
            secret,
            expiry_unix_s: right.expiry_unix_s(),
        })
        .unwrap()
    };
    let invented = forged(TicketSecret::generate().unwrap(), right.volume(), right.role());
    assert_eq!(refusal(joiner.join(&invented)), Refusal::TicketUnknown);
    let elsewhere = forged(right.secret().clone(), wayfs_types::VolumeId::from_bytes([3; 16]), right.role());
    assert_eq!(refusal(joiner.join(&elsewhere)), Refusal::UnknownVolume);
    let promoted = forged(right.secret().clone(), right.volume(), wayfs_net::TicketRole::Station);
    assert_eq!(refusal(joiner.join(&promoted)), Refusal::TicketRole);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    assert_eq!(refusal(joiner.join(&short)), Refusal::TicketExpired);
    assert!(joiner.join(&right).is_ok(), "the failed attempts have not used it up");
}

#[test]
fn a_joined_machine_works_through_a_station() {
    let dir = tempfile::tempdir().unwrap();
    let home = start(&dir.path().join("home"));
    create(&home, "docs");
    let station = start(&dir.path().join("station"));
    join_station(&station, ticket_text(&home, "docs", TicketRole::Station, None)).unwrap();
    let known = |server: &crate::Server| match run(server, Command::StationList { nearby: false }) {
        Ok(Done::Stations(report)) => report.stations.len(),
        other => panic!("no list: {other:?}"),
    };
    eventually("the home knows its station", || known(&home) == 2);
    let ann = Joiner::new();
    let grant = ann.join(&ticket(&home, "docs", TicketRole::Client)).unwrap();
    assert_eq!(grant.news.places.len(), 2, "of the home and of its station: {:?}", grant.news);
    let (volume, link) = ann.open(&grant, &dir.path().join("ann"));
    link.pin(Some(station.node()));
    eventually("it uses the station", || {
        link.status().state == LinkState::Connected
            && link.status().parent.is_some_and(|parent| parent.node == station.node())
    });
    let create = Change::Create {
        parent: FileId::ROOT,
        name: wayfs_node::testing::name("note"),
        kind: wayfs_types::Kind::File,
        mode: 0o644,
        uid: 0,
        gid: 0,
    };
    volume.request(Request::Change { user: 0, change: create }, PATIENCE).unwrap();
    let reached = volume.request(Request::Wait { record: None, until: Level::Visible }, PATIENCE);
    assert_eq!(reached, Ok(Answer::Reached));
    let at_home = home.volume("docs").unwrap();
    let found =
        at_home.request(Request::Lookup { parent: FileId::ROOT, name: wayfs_node::testing::name("note") }, PATIENCE);
    assert!(found.is_ok(), "{found:?}");
    volume.stop();
}

/// A client that was admitted to read only and behaves as if it might write: neither the home nor a station takes it.
#[test]
fn what_a_reader_writes_is_taken_by_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let home = start(&dir.path().join("home"));
    create(&home, "docs");
    let station = start(&dir.path().join("station"));
    join_station(&station, ticket_text(&home, "docs", TicketRole::Station, None)).unwrap();
    for (number, server) in [&home, &station].into_iter().enumerate() {
        let rita = Joiner::new();
        let grant = rita.join(&ticket(&home, "docs", TicketRole::Reader)).unwrap();
        assert_eq!(grant.role, wayfs_node::ChildRole::Reader);
        let (volume, link) = rita.open(&grant, &dir.path().join(format!("rita{number}")));
        link.pin(Some(server.node()));
        let root = Request::Attributes { file: FileId::ROOT };
        eventually("it reads", || volume.request(root.clone(), PATIENCE).is_ok());
        let create = Change::Create {
            parent: FileId::ROOT,
            name: wayfs_node::testing::name("bad"),
            kind: wayfs_types::Kind::File,
            mode: 0o644,
            uid: 0,
            gid: 0,
        };
        volume.request(Request::Change { user: 0, change: create }, PATIENCE).unwrap();
        let members = |server: &crate::Server| match run(server, Command::VolumeMembers { volume: "docs".into() }) {
            Ok(Done::Members(report)) => report.members,
            other => panic!("no list: {other:?}"),
        };
        let reached = volume.request(Request::Wait { record: None, until: Level::Safe }, PATIENCE / 4);
        assert!(reached.is_err(), "{reached:?}");
        let rita = members(server).into_iter().find(|member| member.origin == grant.origin.raw()).unwrap();
        assert_eq!((rita.role.as_str(), rita.records_applied), ("reader", 0));
        volume.abandon();
    }
    for server in [&home, &station] {
        let found = server
            .volume("docs")
            .unwrap()
            .request(Request::Lookup { parent: FileId::ROOT, name: wayfs_node::testing::name("bad") }, PATIENCE);
        assert!(found.is_err(), "{found:?}");
    }
}

#[test]
fn a_revoked_member_is_listed_as_such_and_put_out() {
    let dir = tempfile::tempdir().unwrap();
    let home = start(&dir.path().join("home"));
    create(&home, "docs");
    let ann = Joiner::new();
    let grant = ann.join(&ticket(&home, "docs", TicketRole::Client)).unwrap();
    let (volume, link) = ann.open(&grant, &dir.path().join("ann"));
    eventually("it is connected", || link.status().state == LinkState::Connected);
    let revoked =
        run(&home, Command::VolumeRevoke { volume: "docs".into(), member: "ann@laptop".into(), fence: false });
    let Ok(Done::Members(members)) = revoked else { panic!("{revoked:?}") };
    assert!(
        members.members.iter().any(|member| member.label == "ann@laptop" && member.role == "revoked"),
        "{members:?}"
    );
    eventually("it is refused", || matches!(link.status().state, LinkState::Refused { .. }));
    let again =
        run(&home, Command::VolumeRevoke { volume: "docs".into(), member: "nobody@nowhere".into(), fence: false });
    assert_eq!(again.unwrap_err().kind, ErrorKind::NotFound);
    let own = run(&home, Command::VolumeRevoke { volume: "docs".into(), member: "server@test".into(), fence: false });
    assert_eq!(own.unwrap_err().kind, ErrorKind::Refused);
    volume.stop();
}

/// [S-taken-in-again]
#[test]
fn a_new_ticket_makes_a_removed_member_one_again() {
    let dir = tempfile::tempdir().unwrap();
    let home = start(&dir.path().join("home"));
    create(&home, "docs");
    let ann = Joiner::new();
    let grant = ann.join(&ticket(&home, "docs", TicketRole::Client)).unwrap();
    let (volume, link) = ann.open(&grant, &dir.path().join("ann"));
    eventually("it is connected", || link.status().state == LinkState::Connected);
    let list = Request::List { directory: FileId::ROOT, after: None, limit: 10 };
    eventually("the root is known", || volume.request(list.clone(), PATIENCE).is_ok());
    run(&home, Command::VolumeRevoke { volume: "docs".into(), member: "ann@laptop".into(), fence: false }).unwrap();
    eventually("it is refused", || matches!(link.status().state, LinkState::Refused { .. }));
    let create = Change::Create {
        parent: FileId::ROOT,
        name: wayfs_node::testing::name("meanwhile"),
        kind: wayfs_types::Kind::File,
        mode: 0o644,
        uid: 0,
        gid: 0,
    };
    volume.request(Request::Change { user: 0, change: create }, PATIENCE).unwrap();
    let spent = ticket(&home, "docs", TicketRole::Client);
    Joiner::new().join(&spent).unwrap();
    link.offer_ticket(spent).unwrap();
    let says = |word: &str| match link.status().state {
        LinkState::Refused { reason } => reason.contains(word),
        LinkState::Offline | LinkState::Searching { .. } | LinkState::Connected => false,
    };
    eventually("the refusal of the ticket is told", || says("another machine"));

    link.offer_ticket(ticket(&home, "docs", TicketRole::Client)).unwrap();
    eventually("it is connected again", || link.status().state == LinkState::Connected);
    assert_eq!(volume.origin(), grant.origin, "it is who it was");
    let reached = volume.request(Request::Wait { record: None, until: Level::Visible }, PATIENCE);
    assert_eq!(reached, Ok(Answer::Reached));
    assert!(!dir.path().join("ann").join("ticket").exists(), "the secret is not kept any longer");
    volume.stop();
}
