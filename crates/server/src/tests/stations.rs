use super::harness::{Joiner, PATIENCE, config, create, join_station, run, start, ticket, ticket_text};
use crate::Server;
use std::path::Path;
use std::sync::Arc;
use wayfs_control::{
    Command, Done, Event, EventKind, EventsWanted, Gone, Keep, Level, Progress, Selection, Sink, TicketRole,
};
use wayfs_node::testing::{eventually, name, noise};
use wayfs_node::{LinkState, ParentLink, Volume};
use wayfs_proto::Holder;
use wayfs_types::request::{Answer, Change, Request};
use wayfs_types::{Content, Digest, FileId, Inode, Kind, RecordId, WallTime};

/// A client that uses one server only.
struct Client {
    volume: Arc<Volume>,
    link: ParentLink,
    joiner: Joiner,
}

impl Client {
    fn join(home: &Server, at: &Server, dir: &Path) -> Self {
        let joiner = Joiner::new();
        let grant = joiner.join(&ticket(home, "docs", TicketRole::Client)).unwrap();
        let (volume, link) = joiner.open(&grant, dir);
        link.pin(Some(at.node()));
        let client = Self { volume, link, joiner };
        eventually("the client is connected", || {
            let status = client.link.status();
            status.state == LinkState::Connected && status.parent.is_some_and(|parent| parent.node == at.node())
        });
        client
    }

    fn change(&self, change: Change) -> (FileId, Inode) {
        match self.volume.request(Request::Change { user: 0, change }, PATIENCE) {
            Ok(Answer::Changed { file, inode, .. }) => (file, Arc::unwrap_or_clone(inode)),
            other => panic!("changed nothing: {other:?}"),
        }
    }

    fn find(&self, text: &str) -> Option<(FileId, Inode)> {
        match self.volume.request(Request::Lookup { parent: FileId::ROOT, name: name(text) }, PATIENCE) {
            Ok(Answer::File(file, inode)) => Some((file, Arc::unwrap_or_clone(inode))),
            _ => None,
        }
    }

    fn write(&self, text: &str, bytes: &[u8]) -> (FileId, RecordId) {
        let create =
            || Change::Create { parent: FileId::ROOT, name: name(text), kind: Kind::File, mode: 0o644, uid: 0, gid: 0 };
        let (file, inode) = self.find(text).unwrap_or_else(|| self.change(create()));
        let content =
            wayfs_content::build(&bytes::Bytes::copy_from_slice(bytes), &mut self.volume.contents().sink()).unwrap();
        let (file, inode) =
            self.change(Change::Store { file, base: inode.version, content, mtime: WallTime::from_nanos(5) });
        (file, inode.version)
    }

    fn reached(&self, until: Level) -> bool {
        self.volume.request(Request::Wait { record: None, until }, PATIENCE) == Ok(Answer::Reached)
    }

    fn read(&self, text: &str) -> Option<Vec<u8>> {
        let (file, inode) = self.find(text)?;
        match &inode.content {
            Content::Inline(bytes) => Some(bytes.to_vec()),
            Content::Tree { root, depth: 0, .. } => {
                self.volume.fetch(file, inode.version, &[*root], PATIENCE).ok()?;
                self.volume.contents().get(root).ok().map(|bytes| bytes.to_vec())
            }
            Content::Tree { .. } => panic!("these tests use small files"),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.volume.abandon();
        self.joiner.endpoint.connections();
    }
}

fn pair(dir: &Path, policy: &str) -> (Server, Server) {
    let home = start(&dir.join("home"));
    create(&home, "docs");
    let mut station = config(&dir.join("station"));
    station.policy = Some(policy.into());
    let station = Server::start(station).unwrap();
    join_station(&station, ticket_text(&home, "docs", TicketRole::Station, None)).unwrap();
    (home, station)
}

fn holder(server: &Server, (file, version): (FileId, RecordId)) -> Option<Holder> {
    server.volume("docs")?.look(|replica| replica.holder(file, version))?.ok()
}

#[test]
fn write_through_sends_contents_at_once_and_on_demand_does_not() {
    let dir = tempfile::tempdir().unwrap();
    for (policy, sent) in [("write-through", true), ("on-demand", false)] {
        let dir = dir.path().join(policy);
        let (home, station) = pair(&dir, policy);
        let near = Client::join(&home, &station, &dir.join("near"));
        let written = near.write("photo", &noise(80_000, 1));
        assert!(near.reached(Level::Safe) && near.reached(Level::Visible));
        if sent {
            eventually("the home holds it", || holder(&home, written) == Some(Holder::Here));
        } else {
            assert!(matches!(holder(&home, written), Some(Holder::Child(..))));
        }
    }
}

#[test]
fn contents_travel_between_clients_of_two_servers() {
    let dir = tempfile::tempdir().unwrap();
    let (home, station) = pair(dir.path(), "on-demand");
    let near = Client::join(&home, &station, &dir.path().join("near"));
    let far = Client::join(&home, &home, &dir.path().join("far"));
    let (one, other) = (noise(120_000, 2), noise(120_000, 3));
    near.write("from-near", &one);
    assert!(near.reached(Level::Visible) && near.reached(Level::Safe));
    eventually("far reads what near wrote", || far.read("from-near").as_deref() == Some(&one[..]));
    far.write("from-far", &other);
    assert!(far.reached(Level::Stable));
    eventually("near reads what far wrote", || near.read("from-far").as_deref() == Some(&other[..]));
}

/// Below a path as well as for all: what the home has not seen is not visible.
#[test]
fn waiting_for_a_directory_counts_what_lies_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (mut home, station) = pair(dir.path(), "on-demand");
    let near = Client::join(&home, &station, &dir.path().join("near"));
    near.write("plan", b"first");
    assert!(near.reached(Level::Visible));
    home.stop();
    near.write("plan", b"second");
    assert!(near.reached(Level::Safe));
    let sync = |path: &str, until| {
        let command = Command::Sync { volume: None, path: Some(path.into()), until, timeout_ms: Some(300) };
        match run(&station, command) {
            Ok(Done::Sync(report)) => report.reached,
            other => panic!("no answer: {other:?}"),
        }
    };
    for path in ["", "plan"] {
        assert!(sync(path, Level::Safe), "{path}");
        assert!(!sync(path, Level::Visible), "{path}");
    }
}

/// Listens until a file is stable.
#[derive(Default)]
struct Ear {
    heard: Vec<Event>,
}

impl Sink for Ear {
    fn progress(&mut self, _progress: &Progress) -> Result<(), Gone> {
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Result<(), Gone> {
        self.heard.push(event.clone());
        Ok(())
    }

    fn is_gone(&mut self) -> bool {
        self.heard.iter().any(|event| event.kind == EventKind::Stable && event.size_bytes == Some(80_000))
    }
}

#[test]
fn events_follow_a_version_to_the_home_with_its_path_and_size() {
    let dir = tempfile::tempdir().unwrap();
    let (home, station) = pair(dir.path(), "write-through");
    let near = Client::join(&home, &station, &dir.path().join("near"));
    let listening: Vec<_> = [&home, &station]
        .map(|server| server.control())
        .map(|control| {
            std::thread::spawn(move || {
                let mut ear = Ear::default();
                control.run(Command::Events(EventsWanted::default()), &mut ear).unwrap();
                ear.heard
            })
        })
        .into();
    // The listeners have no way to say that they listen: what is written before is not told.
    std::thread::sleep(std::time::Duration::from_millis(500));
    let (_, version) = near.write("photo", &noise(80_000, 7));
    for listener in listening {
        eventually("it is stable", || listener.is_finished());
        let heard = listener.join().unwrap();
        for kind in [EventKind::Safe, EventKind::Visible, EventKind::Stable] {
            let of_version = heard.iter().filter(|event| event.record == Some(version.to_string()));
            let told: Vec<_> = of_version.filter(|event| event.kind == kind).collect();
            assert_eq!(told.len(), 1, "{kind:?}: {heard:?}");
            assert_eq!((told[0].path.as_deref(), told[0].size_bytes), (Some(Path::new("photo")), Some(80_000)));
        }
    }
}

/// A client has no list of members, but may ask.
#[test]
fn a_client_learns_what_other_members_are_called() {
    let dir = tempfile::tempdir().unwrap();
    let (home, station) = pair(dir.path(), "on-demand");
    let near = Client::join(&home, &station, &dir.path().join("near"));
    let far = Client::join(&home, &home, &dir.path().join("far"));
    let origins = [&near, &far].map(|client| client.volume.origin());
    eventually("the station knows both", || {
        let labels = near.joiner.runtime.block_on(near.link.labels(origins.to_vec()));
        labels == origins.map(|origin| (origin, "ann@laptop".to_owned()))
    });
    let nobody = wayfs_types::OriginId::new(4711).unwrap();
    assert!(far.joiner.runtime.block_on(far.link.labels(vec![nobody])).is_empty());
}

#[test]
fn a_station_that_crashed_still_has_what_was_safe() {
    let dir = tempfile::tempdir().unwrap();
    let (home, mut station) = pair(dir.path(), "on-demand");
    let near = Client::join(&home, &station, &dir.path().join("near"));
    let photo = noise(100_000, 4);
    near.write("photo", &photo);
    assert!(near.reached(Level::Safe));
    let mut again = config(&dir.path().join("station"));
    again.listen = station.address();
    station.abandon();
    drop((near, station));
    let station = Server::start(again).unwrap();
    let sync = Command::Sync { volume: None, path: None, until: Level::Stable, timeout_ms: Some(7000) };
    eventually(
        "everything is at the home",
        || matches!(run(&station, sync.clone()), Ok(Done::Sync(report)) if report.reached),
    );
    drop(station);
    let far = Client::join(&home, &home, &dir.path().join("far"));
    eventually("far reads it from the home alone", || far.read("photo").as_deref() == Some(&photo[..]));
}

/// [S-one-account] Claims 36006: what waits at a station is sent by its own name, whatever version its file shows.
#[test]
fn a_station_that_is_told_to_send_sends_what_was_stored_over_too() {
    let dir = tempfile::tempdir().unwrap();
    let (home, station) = pair(dir.path(), "on-demand");
    let near = Client::join(&home, &station, &dir.path().join("near"));
    let (file, base) = near.write("photo", &noise(100_000, 4));
    assert!(near.reached(Level::Visible));
    let root = near.find("photo").and_then(|(_, inode)| inode.content.root()).unwrap();
    // Nobody has these bytes: what was there before is not let go for them.
    let content = Content::Tree { size: 50_000, root: Digest::of(b"nowhere"), depth: 0, holes: 0 };
    let (_, newer) = near.change(Change::Store { file, base, content, mtime: WallTime::from_nanos(6) });
    let at_home = home.volume("docs").unwrap();
    let shown = || at_home.look(|replica| replica.inode(file)).and_then(|inode| Some(inode.ok()??.version));
    eventually("the home shows the newer one", || shown() == Some(newer.version));
    let sync = Command::Sync { volume: None, path: None, until: Level::Stable, timeout_ms: Some(1) };
    assert!(matches!(run(&station, sync), Ok(Done::Sync(report)) if !report.reached), "the newer one is nowhere");
    eventually("the older one is at the home", || at_home.contents().get(&root).is_ok());
}

#[test]
fn a_conflict_is_listed_and_settled_at_the_home() {
    let dir = tempfile::tempdir().unwrap();
    let home = start(&dir.path().join("home"));
    create(&home, "docs");
    let ann = Client::join(&home, &home, &dir.path().join("ann"));
    let bob = Client::join(&home, &home, &dir.path().join("bob"));
    ann.write("plan", b"first");
    assert!(ann.reached(Level::Stable));
    eventually("bob sees it", || bob.read("plan").as_deref() == Some(b"first"));
    bob.link.go_offline();
    eventually("bob is away", || bob.volume.sessions().is_empty());
    bob.write("plan", b"bob's");
    ann.write("plan", b"ann's");
    assert!(ann.reached(Level::Stable));
    bob.link.go_online();
    assert!(bob.reached(Level::Visible));
    let list = || match run(&home, Command::ConflictsList { volume: None }) {
        Ok(Done::Conflicts(report)) => report.conflicts,
        other => panic!("no list: {other:?}"),
    };
    eventually("the conflict is known", || list().len() == 1);
    let conflict = list().remove(0);
    assert!(
        conflict.other.path.as_ref().is_some_and(|path| path.to_string_lossy().contains(".conflict-")),
        "{conflict:?}"
    );
    let resolve = |dry_run| Command::ConflictsResolve {
        volume: None,
        which: Selection::All { glob: Some("pl*".into()) },
        keep: Keep::Name(conflict.other.path.clone().unwrap().to_string_lossy().into_owned()),
        dry_run,
    };
    let Ok(Done::Resolved(said)) = run(&home, resolve(true)) else { panic!("no dry run") };
    assert_eq!((said.resolved.len(), list().len()), (1, 1));
    let Ok(Done::Resolved(done)) = run(&home, resolve(false)) else { panic!("not resolved") };
    assert_eq!((done.resolved.len(), done.failed.len()), (1, 0), "{done:?}");
    assert!(list().is_empty());
    eventually("ann has what bob wrote", || ann.read("plan").as_deref() == Some(b"bob's"));
}

/// The copy goes, and with it what its station answers for: what is to stay is at the home first.
#[test]
fn contents_that_settle_a_conflict_are_at_the_home_before_the_copy_goes() {
    let dir = tempfile::tempdir().unwrap();
    let (home, mut station) = pair(dir.path(), "on-demand");
    let far = Client::join(&home, &home, &dir.path().join("far"));
    let near = Client::join(&home, &station, &dir.path().join("near"));
    far.write("plan", b"first");
    assert!(far.reached(Level::Stable));
    eventually("near sees it", || near.read("plan").as_deref() == Some(b"first"));
    near.link.go_offline();
    eventually("near is away", || near.volume.sessions().is_empty());
    let long = noise(300_000, 7);
    near.write("plan", &long);
    far.write("plan", b"far's");
    assert!(far.reached(Level::Stable));
    near.link.go_online();
    eventually("the home has near's record", || near.reached(Level::Visible));
    let which = Selection::All { glob: Some("plan*".into()) };
    let copy = match run(&home, Command::ConflictsList { volume: None }) {
        Ok(Done::Conflicts(report)) if report.conflicts.len() == 1 => report.conflicts[0].other.path.clone().unwrap(),
        other => panic!("no conflict: {other:?}"),
    };
    let keep = Keep::Name(copy.to_string_lossy().into_owned());
    let settled = run(&home, Command::ConflictsResolve { volume: None, which, keep, dry_run: false });
    let Ok(Done::Resolved(done)) = settled else { panic!("not resolved: {settled:?}") };
    assert_eq!((done.resolved.len(), done.failed.len()), (1, 0), "{done:?}");
    station.abandon();
    drop((near, station));
    std::fs::remove_dir_all(dir.path().join("station")).unwrap();
    let fresh = Client::join(&home, &home, &dir.path().join("fresh"));
    eventually("it is read from the home alone", || fresh.read("plan").as_deref() == Some(&long[..]));
}

#[test]
fn a_station_catches_up_with_many_files() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().join("tree");
    for directory in 0..20 {
        let directory = tree.join(directory.to_string());
        std::fs::create_dir_all(&directory).unwrap();
        for file in 0..100 {
            std::fs::write(directory.join(file.to_string()), format!("{file}")).unwrap();
        }
    }
    let home = start(&dir.path().join("home"));
    create(&home, "docs");
    run(&home, Command::VolumeImport { volume: "docs".into(), from: tree, form: Default::default(), into: "".into() })
        .unwrap();
    let station = start(&dir.path().join("station"));
    join_station(&station, ticket_text(&home, "docs", TicketRole::Station, None)).unwrap();
    let last = Command::Info { volume: None, path: "9/99".into() };
    eventually("the station knows all", || {
        (0..20).all(|directory| {
            let path = format!("{directory}/99").into();
            run(&station, Command::Info { volume: None, path }).is_ok()
        })
    });
    assert!(run(&station, last).is_ok());
}

/// [S-promotion] The home is gone for good: its station takes its place, its clients go on, others join, and it is the home
/// after a restart.
#[test]
fn a_station_takes_the_place_of_its_home() {
    let dir = tempfile::tempdir().unwrap();
    let mut home = start(&dir.path().join("home"));
    create(&home, "docs");
    let mut station = start(&dir.path().join("station"));
    join_station(&station, ticket_text(&home, "docs", TicketRole::Station, None)).unwrap();
    let ann = Client::join(&home, &station, &dir.path().join("ann"));
    let large = noise(100_000, 3);
    ann.write("small", b"small");
    ann.write("large", &large);
    assert!(ann.reached(Level::Stable));
    home.stop();
    drop(home);
    ann.write("later", b"later");
    assert!(ann.reached(Level::Safe));
    let outlook = station.outlook("docs").unwrap().unwrap();
    assert!(outlook.prospect.is_whole && outlook.prospect.tentative > 0, "{outlook:?}");
    assert_eq!(outlook.elsewhere.files, 0, "{outlook:?}");
    station.promote("docs").unwrap().unwrap();
    assert!(station.promote("docs").unwrap().is_err(), "it is the home now");
    let bob = Client::join(&station, &station, &dir.path().join("bob"));
    for (name, bytes) in [("small", &b"small"[..]), ("large", &large), ("later", b"later")] {
        eventually("the new home has it", || bob.read(name).is_some_and(|read| read == bytes));
    }
    bob.write("on", b"on");
    assert!(bob.reached(Level::Stable));
    eventually("its own client goes on", || ann.read("on").is_some_and(|read| read == b"on"));
    // As a ticket of the new home does.
    bob.write("again", b"again");
    ann.volume.directory().trust_home(station.node());
    ann.volume.directory().tell(station.node(), vec![station.address().into()]);
    eventually("it sees what is new", || ann.read("again").is_some_and(|read| read == b"again"));
    ann.write("after", b"after");
    assert!(ann.reached(Level::Stable));
    eventually("its bytes are called stable", || {
        station.volume("docs").unwrap().prospect().is_some_and(|prospect| prospect.missing == 0)
    });
    let mut again = config(&dir.path().join("station"));
    again.listen = station.address();
    station.stop();
    drop(station);
    let station = Server::start(again).unwrap();
    assert!(station.promote("docs").unwrap().is_err(), "also after a restart");
    eventually("and it serves", || bob.read("after").is_some_and(|read| read == b"after"));
    assert_eq!(station.volume("docs").unwrap().succession().unwrap().origin.raw(), 1);
}
