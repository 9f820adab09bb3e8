use super::harness::{Joiner, config, create, join_station, run, start, ticket, ticket_text};
use crate::Server;
use std::path::Path;
use wayfs_control::{Command, Done, ErrorKind, TicketRole};
use wayfs_node::testing::eventually;
use wayfs_node::{GreetError, JoinError, LinkState, Refusal};

fn delete(force: bool, dry_run: bool) -> Command {
    Command::VolumeDelete { volume: "docs".into(), force, dry_run }
}

fn names(server: &Server) -> Vec<String> {
    match run(server, Command::VolumeList) {
        Ok(Done::Volumes(report)) => report.volumes.into_iter().map(|volume| volume.name).collect(),
        other => panic!("no list: {other:?}"),
    }
}

/// What a data directory has of volumes, but for the marks that they were deleted.
fn left(data: &Path) -> usize {
    let volumes = std::fs::read_dir(data.join("volumes")).unwrap();
    let files = volumes.flat_map(|volume| std::fs::read_dir(volume.unwrap().path()).unwrap());
    files.filter(|file| file.as_ref().unwrap().file_name() != "deleted.json").count()
}

#[test]
fn a_deleted_volume_goes_at_the_home_and_at_its_station_and_clients_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (at_home, at_station) = (dir.path().join("home"), dir.path().join("station"));
    let mut home = start(&at_home);
    create(&home, "docs");
    create(&home, "other");
    let station = start(&at_station);
    join_station(&station, ticket_text(&home, "docs", TicketRole::Station, None)).unwrap();
    let ann = Joiner::new();
    let unused = ticket(&home, "docs", TicketRole::Client);
    let grant = ann.join(&ticket(&home, "docs", TicketRole::Client)).unwrap();
    let (volume, link) = ann.open(&grant, &dir.path().join("ann"));
    eventually("the client is connected", || link.status().state == LinkState::Connected);
    eventually("the station is connected", || !home.volume("docs").unwrap().sessions().is_empty());

    let Ok(Done::Deleted(told)) = run(&home, delete(false, true)) else { panic!("no dry run") };
    assert!(!told.deleted && told.members.len() == 3, "{told:?}");
    let refused = run(&home, delete(false, false)).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Refused);
    assert_eq!(names(&home), ["docs", "other"]);
    assert_eq!(run(&station, delete(true, false)).unwrap_err().kind, ErrorKind::Usage, "only the home deletes");

    let Ok(Done::Deleted(told)) = run(&home, delete(true, false)) else { panic!("not deleted") };
    assert!(told.deleted);
    assert_eq!(names(&home), ["other"]);
    eventually("the station hears of it", || names(&station).is_empty() && left(&at_station) == 0);
    eventually("the client is told", || link.status().deleted);
    let joined = Joiner::new().join(&unused);
    assert!(
        matches!(joined, Err(JoinError::Greet { source: GreetError::Refused(Refusal::Deleted), .. })),
        "{joined:?}"
    );
    volume.abandon();

    // Another volume may have the name, and who asks for the old one is still told after a restart.
    create(&home, "docs");
    home.stop();
    let mut again = config(&at_home);
    again.listen = home.address();
    drop(home);
    let home = Server::start(again).unwrap();
    assert_eq!(names(&home), ["docs", "other"]);
    let joined = Joiner::new().join(&unused);
    assert!(matches!(joined, Err(JoinError::Greet { source: GreetError::Refused(Refusal::Deleted), .. })));
}

#[test]
fn what_a_crash_left_of_a_deleted_volume_is_removed_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut home = start(dir.path());
    create(&home, "docs");
    home.stop();
    drop(home);
    let volume = std::fs::read_dir(dir.path().join("volumes")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(volume.join("deleted.json"), br#"{"name":"docs","deleted_unix_ms":0}"#).unwrap();
    assert!(left(dir.path()) > 0);
    let home = start(dir.path());
    assert!(names(&home).is_empty());
    assert_eq!(left(dir.path()), 0);
}
