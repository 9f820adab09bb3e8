use super::harness::{Deaf, config, create, join_station, run, start, ticket_text};
use crate::{Server, StartError};
use std::io::{Read as _, Write as _};
use std::time::Duration;
use wayfs_control::report::{StatusWord, VolumeRole};
use wayfs_control::{Command, Done, ErrorKind, EventKind, EventsWanted, TicketLimits, TicketRole};
use wayfs_node::testing::eventually;

#[test]
fn volumes_survive_a_restart_and_names_are_unique() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(dir.path());
    create(&server, "docs");
    create(&server, "photos");
    let again = run(&server, Command::VolumeCreate { name: "docs".into(), owner: None, group_writable: false });
    assert_eq!(again.unwrap_err().kind, ErrorKind::Refused);
    let bad = run(&server, Command::VolumeCreate { name: "a/b".into(), owner: None, group_writable: false });
    assert_eq!(bad.unwrap_err().kind, ErrorKind::Usage);
    let node = server.node();
    server.stop();
    drop(server);
    let server = start(dir.path());
    assert_eq!(server.node(), node);
    let Ok(Done::Volumes(list)) = run(&server, Command::VolumeList) else { panic!("no list") };
    let names: Vec<_> = list.volumes.iter().map(|volume| (volume.name.as_str(), volume.role)).collect();
    assert_eq!(names, [("docs", VolumeRole::Home), ("photos", VolumeRole::Home)]);
}

#[test]
fn a_directory_or_port_in_use_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(&dir.path().join("a"));
    let error = Server::start(config(&dir.path().join("a"))).unwrap_err();
    assert!(matches!(error, StartError::Locked(_)), "{error}");
    let mut same_port = config(&dir.path().join("b"));
    same_port.listen = server.address();
    let error = Server::start(same_port).unwrap_err();
    assert!(matches!(error, StartError::Bind(_)), "{error}");
    assert!(error.to_string().contains(&server.address().port().to_string()), "{error}");
    let mut policy = config(&dir.path().join("c"));
    policy.policy = Some("sometimes".into());
    assert!(matches!(Server::start(policy), Err(StartError::Policy { .. })));
}

#[test]
fn a_newer_volume_file_is_refused_and_a_damaged_one_stops_that_volume_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = start(dir.path());
    create(&server, "docs");
    server.stop();
    drop(server);
    let volumes = std::fs::read_dir(dir.path().join("volumes")).unwrap();
    let file = volumes.map(|entry| entry.unwrap().path().join("volume.json")).next().unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("\"format\": 2", "\"format\": 99")).unwrap();
    let error = Server::start(config(dir.path())).unwrap_err();
    assert!(error.to_string().contains("newer program"), "{error}");
    std::fs::write(&file, &text[..text.len() / 2]).unwrap();
    let mut mended = start(dir.path());
    assert!(mended.volume("docs").is_some(), "the second copy is used");
    mended.stop();
    drop(mended);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text, "and put in its place");
    for name in ["volume.json", "volume-copy.json"] {
        std::fs::write(file.with_file_name(name), &text[..text.len() / 2]).unwrap();
    }
    let mut without = start(dir.path());
    create(&without, "other");
    assert!(without.volume("docs").is_none());
    let Ok(Done::Status(status)) = run(&without, Command::Status) else { panic!("no status") };
    let broken = status.volumes.iter().find(|volume| volume.cause.contains("not served"));
    assert!(broken.is_some_and(|volume| volume.next_step.contains("backup")), "{status:?}");
    without.stop();
    drop(without);
    std::fs::write(&file, &text).unwrap();
    assert!(start(dir.path()).volume("docs").is_some());
}

#[test]
fn status_queue_and_doctor_speak_of_every_volume() {
    let dir = tempfile::tempdir().unwrap();
    let mut home = start(&dir.path().join("home"));
    create(&home, "docs");
    let station = start(&dir.path().join("station"));
    let wrong = join_station(&station, ticket_text(&home, "docs", TicketRole::Client, None));
    assert_eq!(wrong.unwrap_err().kind, ErrorKind::Usage);
    join_station(&station, ticket_text(&home, "docs", TicketRole::Station, None)).unwrap();
    // A ticket for a volume that it is in already tells where the home is, and stays unspent.
    assert!(join_station(&station, ticket_text(&home, "docs", TicketRole::Station, None)).is_ok());
    let home_itself = join_station(&home, ticket_text(&home, "docs", TicketRole::Station, None));
    assert_eq!(home_itself.unwrap_err().kind, ErrorKind::Usage);
    let word = || match run(&station, Command::Status) {
        Ok(Done::Status(status)) => status.volumes[0].word,
        other => panic!("no status: {other:?}"),
    };
    eventually("the station is active", || word() == StatusWord::Active);
    home.stop();
    eventually("the station is away", || word() == StatusWord::Away);
    for command in
        [Command::Queue { volume: None, limit: 10 }, Command::DoctorFacts, Command::Metrics, Command::StationWhy]
    {
        run(&station, command).unwrap();
    }
    let foreign = run(
        &station,
        Command::VolumeTicket {
            volume: "docs".into(),
            role: TicketRole::Client,
            expires_s: None,
            limits: TicketLimits::default(),
        },
    );
    assert_eq!(foreign.unwrap_err().kind, ErrorKind::Usage);
    assert_eq!(run(&station, Command::Pins).unwrap_err().kind, ErrorKind::Usage);
}

#[test]
fn events_and_stop_reach_whoever_asked() {
    let dir = tempfile::tempdir().unwrap();
    let home = start(&dir.path().join("home"));
    create(&home, "docs");
    let control = home.control();
    let listening = std::thread::spawn(move || {
        let mut sink = Deaf { hang_up_after: Some(1), ..Deaf::default() };
        control.run(Command::Events(EventsWanted::default()), &mut sink).unwrap();
        sink.events
    });
    let station = start(&dir.path().join("station"));
    std::thread::sleep(Duration::from_millis(100));
    join_station(&station, ticket_text(&home, "docs", TicketRole::Station, None)).unwrap();
    eventually("an event was heard", || listening.is_finished());
    let events = listening.join().unwrap();
    assert!(matches!(events[0].kind, EventKind::Member | EventKind::Connected), "{events:?}");
    assert!(!home.wait_stop(Duration::from_millis(1)));
    run(&home, Command::Stop).unwrap();
    assert!(home.wait_stop(Duration::from_secs(1)));
}

#[test]
fn metrics_are_served_on_loopback() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path());
    config.metrics = Some("127.0.0.1:0".parse().unwrap());
    config.control_socket = Some(dir.path().join("control.sock"));
    let server = Server::start(config).unwrap();
    create(&server, "docs");
    let mut stream = std::net::TcpStream::connect(server.metrics_address().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("wayfs_conflicts_open{volume=\"docs\"} 0"), "{text}");
    assert!(dir.path().join("control.sock").exists());
}
