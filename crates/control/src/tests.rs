//! Client, server and registry together, over real sockets in a scratch directory.

use crate::report::{QueueReport, StatusReport};
use crate::server::CONNECTIONS_OF_USER_MAX;
use crate::{
    CONNECTIONS_MAX, CallError, Command, CommandHandler, ControlClient, ControlError, ControlServer, DaemonKind, Done,
    ErrorKind, Event, EventKind, EventsWanted, Level, Progress, Registration, Registry, Reply, Sink, StartError, Watch,
};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Does a little of everything.
#[derive(Default)]
struct Echo {
    left: AtomicUsize,
}

impl CommandHandler for Echo {
    fn run(&self, command: Command, out: &mut dyn Sink) -> Result<Done, ControlError> {
        match command {
            Command::Status => Ok(Done::Status(status())),
            Command::Sync { .. } => {
                for done in 1..=3 {
                    let progress =
                        Progress { what: "sending".into(), done_bytes: done, total_bytes: 3, ..Progress::default() };
                    out.progress(&progress).map_err(|_| ControlError::new(ErrorKind::NotTrue, "gone", ""))?;
                }
                Ok(Done::Nothing)
            }
            Command::Events(_) => {
                // Bounded, so that a failing test ends.
                for count in 0..1000 {
                    let event = Event {
                        unix_ms: count,
                        kind: EventKind::Edited,
                        volume: None,
                        path: None,
                        from: None,
                        record: None,
                        by: None,
                        size_bytes: None,
                        detail: String::new(),
                    };
                    if out.event(&event).is_err() {
                        self.left.fetch_add(1, Ordering::SeqCst);
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(5));
                }
                Ok(Done::Nothing)
            }
            Command::Pins => panic!("a bug"),
            Command::Queue { .. } => Ok(Done::Queue(QueueReport::default())),
            other => Err(ControlError::wrong_daemon(&other, DaemonKind::Server)),
        }
    }
}

#[test]
fn a_command_gets_its_result() {
    let place = Place::new();
    let _server = place.start();
    assert_eq!(place.client().ask(&Command::Status).unwrap(), Done::Status(status()));
}

#[test]
fn progress_comes_before_the_result() {
    let place = Place::new();
    let _server = place.start();
    let mut seen = Vec::new();
    let sync = Command::Sync { volume: None, path: None, until: Level::Safe, timeout_ms: Some(1000) };
    let done = place.client().call(&sync, &mut |reply| {
        seen.push(reply.clone());
        Watch::GoOn
    });
    assert_eq!(done.unwrap(), Done::Nothing);
    assert!(matches!(&seen[0], Reply::Progress(p) if p.done_bytes == 1 && p.what == "sending"));
}

#[test]
fn a_daemon_sees_that_its_reader_hung_up() {
    let place = Place::new();
    let handler = Arc::new(Echo::default());
    let _server = ControlServer::start(&place.socket(), handler.clone()).unwrap();
    let ended = place.client().call(&Command::Events(EventsWanted::default()), &mut |_| Watch::Stop);
    assert!(matches!(ended, Err(CallError::Broken { .. })));
    wait_until("the handler notices", || handler.left.load(Ordering::SeqCst) == 1);
}

#[test]
fn a_refusal_and_a_bug_come_back_as_errors() {
    let place = Place::new();
    let _server = place.start();
    let Err(CallError::Refused(error)) = place.client().ask(&Command::Stop) else { panic!("expected a refusal") };
    assert_eq!(error.kind, ErrorKind::Usage);
    assert!(error.message.contains("stop") && error.next_step.contains("--at"), "{error:?}");
    let Err(CallError::Refused(error)) = place.client().ask(&Command::Pins) else { panic!("expected a refusal") };
    assert_eq!(error.kind, ErrorKind::Failed);
    assert!(place.client().ask(&Command::Status).is_ok(), "the daemon goes on");
}

#[test]
fn several_commands_share_a_connection_and_garbage_is_answered() {
    let place = Place::new();
    let _server = place.start();
    let mut stream = place.raw();
    stream.write_all(b"{\"command\":\"queue\",\"limit\":1}\nrubbish\n{\"command\":\"status\"}\n").unwrap();
    let mut lines = BufReader::new(stream).lines();
    let mut next = || serde_json::from_str::<Reply>(&lines.next().unwrap().unwrap()).unwrap();
    assert!(matches!(next(), Reply::Done(done) if matches!(*done, Done::Queue(_))));
    assert!(matches!(next(), Reply::Error(e) if e.kind == ErrorKind::Usage));
    assert!(matches!(next(), Reply::Done(done) if matches!(*done, Done::Status(_))));
}

#[test]
fn an_endless_line_is_cut_off() {
    let place = Place::new();
    let _server = place.start();
    let mut stream = place.raw();
    // The daemon may close while we still write: that is an error of the write, not of the test.
    let _ = stream.write_all(&vec![b'x'; 200_000]);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.contains("longer than"), "{answer}");
}

#[test]
fn one_connection_too_many_is_told_so() {
    let place = Place::new();
    let _server = place.start();
    let _held: Vec<UnixStream> = (0..CONNECTIONS_MAX).map(|_| place.raw()).collect();
    let refused = place.client().ask(&Command::Status);
    assert!(matches!(refused, Err(CallError::Refused(e)) if e.kind == ErrorKind::Busy));
}

#[test]
fn a_socket_for_all_asks_with_the_rights_of_who_connected_and_has_places_for_many() {
    let place = Place::new();
    let handler = Arc::new(Echo::default());
    let _server = ControlServer::start_for_all(&place.socket(), handler).unwrap();
    assert_eq!(std::fs::metadata(place.socket()).unwrap().permissions().mode() & 0o777, 0o666);
    let refused = place.client().ask(&Command::Status);
    assert!(matches!(refused, Err(CallError::Refused(e)) if e.kind == ErrorKind::Refused), "nobody allowed anything");
    let held: Vec<UnixStream> = (0..CONNECTIONS_OF_USER_MAX).map(|_| place.raw()).collect();
    let refused = place.client().ask(&Command::Status);
    assert!(matches!(refused, Err(CallError::Refused(e)) if e.kind == ErrorKind::Busy), "no more for one user");
    drop(held);
}

#[test]
fn a_command_without_end_is_not_kept() {
    let place = Place::new();
    let _server = ControlServer::start_for_all(&place.socket(), Arc::new(Echo::default())).unwrap();
    let mut stream = place.raw();
    // The daemon hangs up in the middle of it.
    let _ = stream.write_all(&vec![b' '; 1 << 20]);
    let mut said = String::new();
    let _ = stream.read_to_string(&mut said);
    assert!(said.is_empty() || said.contains("longer than"), "{said}");
    assert!(matches!(place.client().ask(&Command::Status), Err(CallError::Refused(e)) if e.kind == ErrorKind::Refused));
}

#[test]
fn only_this_user_may_connect_and_one_daemon_serves_a_socket() {
    let place = Place::new();
    let server = place.start();
    assert_eq!(std::fs::metadata(place.socket()).unwrap().permissions().mode() & 0o777, 0o600);
    let second = ControlServer::start(&place.socket(), Arc::new(Echo::default()));
    assert!(matches!(second, Err(StartError::AlreadyRunning(_))));
    server.stop();
    assert!(!place.socket().exists());
    assert!(matches!(ControlClient::connect(&place.socket()), Err(CallError::Connect { .. })));
}

#[test]
fn a_dead_daemons_socket_is_replaced_but_a_file_is_not() {
    let place = Place::new();
    drop(std::os::unix::net::UnixListener::bind(place.socket()).unwrap());
    drop(place.start());
    std::fs::write(place.socket(), b"precious").unwrap();
    let refused = ControlServer::start(&place.socket(), Arc::new(Echo::default()));
    assert!(matches!(refused, Err(StartError::InTheWay(_))));
    assert_eq!(std::fs::read(place.socket()).unwrap(), b"precious");
}

#[test]
fn a_socket_may_lie_deeper_than_an_address_is_long() {
    let place = Place::new();
    let deep = place.directory.path().join("d".repeat(120)).join("e".repeat(120)).join("control.sock");
    let _server = ControlServer::start(&deep, Arc::new(Echo::default())).unwrap();
    assert!(ControlClient::connect(&deep).unwrap().ask(&Command::Status).is_ok());
}

#[test]
fn stopping_ends_readers_of_events() {
    let place = Place::new();
    let server = place.start();
    let client = place.client();
    let reader =
        std::thread::spawn(move || client.call(&Command::Events(EventsWanted::default()), &mut |_| Watch::GoOn));
    std::thread::sleep(Duration::from_millis(50));
    server.stop();
    assert!(matches!(reader.join().unwrap(), Ok(Done::Nothing) | Err(CallError::Broken { .. })));
}

#[test]
fn the_registry_finds_the_daemon_behind_a_path() {
    let place = Place::new();
    let _server = place.start();
    let registry = place.registry();
    let _outer = registry.register(&place.registration("/data/mnt", &place.socket())).unwrap();
    let _inner = registry.register(&place.registration("/data/mnt/inner", &place.socket())).unwrap();
    let found = |path: &str| registry.find_by_path(Path::new(path)).map(|f| (f.daemon.place, f.path));
    assert_eq!(found("/data/mnt/a/../b"), Some((PathBuf::from("/data/mnt"), PathBuf::from("b"))));
    assert_eq!(found("/data/mnt"), Some((PathBuf::from("/data/mnt"), PathBuf::new())));
    assert_eq!(found("/data/mnt/inner/x"), Some((PathBuf::from("/data/mnt/inner"), PathBuf::from("x"))));
    assert_eq!(found("/data/mntx"), None);
}

#[test]
fn the_registry_follows_links_outside_of_mounts() {
    let place = Place::new();
    let _server = place.start();
    let registry = place.registry();
    let real = place.directory.path().canonicalize().unwrap().join("real");
    std::fs::create_dir(&real).unwrap();
    let link = place.directory.path().join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let _entry = registry.register(&place.registration(real.to_str().unwrap(), &place.socket())).unwrap();
    assert_eq!(registry.find_by_path(&link).unwrap().path, PathBuf::new());
    assert_eq!(registry.find_by_path(&link.join("not-there")).unwrap().path, PathBuf::from("not-there"));
}

#[test]
fn stale_and_broken_entries_are_skipped_and_dropped_ones_are_gone() {
    let place = Place::new();
    let server = place.start();
    let registry = place.registry();
    let live = registry.register(&place.registration("/a", &place.socket())).unwrap();
    let dead = registry.register(&place.registration("/b", &place.directory.path().join("nobody.sock"))).unwrap();
    let directory = place.directory.path().join("run");
    std::fs::write(directory.join("broken.json"), b"{").unwrap();
    std::fs::write(directory.join("huge.json"), vec![b' '; 100_000]).unwrap();
    let places = |registry: &Registry| registry.running().into_iter().map(|r| r.place).collect::<Vec<_>>();
    assert_eq!(places(&registry), [PathBuf::from("/a")]);
    // The next daemon that registers sweeps the dead one's entry away.
    std::mem::forget(dead);
    let more = registry.register(&place.registration("/c", &place.socket())).unwrap();
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 4);
    drop((live, more));
    assert!(places(&registry).is_empty());
    server.stop();
}

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("control.sock")
    }

    fn start(&self) -> ControlServer {
        ControlServer::start(&self.socket(), Arc::new(Echo::default())).unwrap()
    }

    fn client(&self) -> ControlClient {
        ControlClient::connect(&self.socket()).unwrap()
    }

    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        stream
    }

    fn registry(&self) -> Registry {
        Registry::at(self.directory.path().join("run"))
    }

    fn registration(&self, place: &str, socket: &Path) -> Registration {
        Registration {
            kind: DaemonKind::Mount,
            place: place.into(),
            socket: socket.into(),
            pid: 1,
            volume: "v".into(),
            for_all: None,
        }
    }
}

fn status() -> StatusReport {
    StatusReport {
        kind: DaemonKind::Mount,
        version: "1".into(),
        pid: 2,
        uptime_ms: 3,
        node: "n".into(),
        listening: vec![],
        volumes: vec![],
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(5);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
