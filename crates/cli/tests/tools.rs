//! The tools as scripts see them: the program itself against a daemon that answers by the book.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::path::{Path, PathBuf};
use std::process::{Command as Process, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wayfs_control::report::{
    ConflictsReport, FileInfo, Known, QueueReport, ResolveFailure, ResolveReport, StatusReport, SyncReport,
    TicketReport, UmountReport,
};
use wayfs_control::{
    Command, CommandHandler, ControlError, ControlServer, DaemonKind, Done, ErrorKind, Event, EventKind, Level,
    Progress, Registered, Registration, Registry, Sink, TicketRole,
};

#[test]
fn status_shows_the_daemon_and_json_is_the_report() {
    let machine = Machine::with_daemon(DaemonKind::Mount);
    let text = machine.run(&["status"]);
    assert_eq!(code(&text), 0);
    assert!(out(&text).starts_with("mount node"), "{}", out(&text));
    let json: serde_json::Value = serde_json::from_str(&out(&machine.run(&["--json", "status"]))).unwrap();
    assert_eq!(json[0]["pid"], 7);
}

#[test]
fn a_daemon_that_runs_and_does_not_answer_is_not_said_not_to_run() {
    let machine = Machine::empty();
    let socket = machine.directory.path().join("control.sock");
    // The backlog takes whoever calls; nobody answers, and the line is closed.
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let hung = std::thread::spawn(move || while listener.accept().is_ok_and(|(line, _)| line.peer_addr().is_ok()) {});
    let kind = DaemonKind::Mount;
    let registration =
        Registration { kind, place: machine.mount(), socket, pid: u32::MAX, volume: "v".into(), for_all: None };
    let registered = Registry::at(machine.directory.path().join("run")).register(&registration).unwrap();
    let status = machine.run(&["status"]);
    assert_ne!(code(&status), 0);
    assert!(!out(&status).contains("No daemon"), "{}", out(&status));
    assert!(!err(&status).is_empty());
    drop((registered, hung));
}

#[test]
fn paths_are_given_from_the_root_of_the_volume() {
    let machine = Machine::with_daemon(DaemonKind::Mount);
    let inside = machine.mount().join("a/b");
    let json: serde_json::Value =
        serde_json::from_str(&out(&machine.run(&["info", "--json", inside.to_str().unwrap()]))).unwrap();
    assert_eq!(json["path"], "a/b");
    // With --at, a path that is not inside counts from the root.
    let mount = machine.mount();
    let json = out(&machine.run(&["--at", mount.to_str().unwrap(), "info", "/x/y", "--json"]));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["path"], "x/y");
}

#[test]
fn a_wait_that_came_true_is_zero_and_one_that_did_not_is_one() {
    let machine = Machine::with_daemon(DaemonKind::Mount);
    assert_eq!(code(&machine.run(&["sync", "--until", "safe"])), 0);
    let not = machine.run(&["sync", "--until", "stable", "--timeout", "1"]);
    assert_eq!(code(&not), 1);
    assert!(err(&not).contains("wayfs queue"), "{}", err(&not));
}

#[test]
fn failures_say_what_and_what_next_and_have_codes() {
    let machine = Machine::with_daemon(DaemonKind::Mount);
    let unknown = machine.run(&["conflicts", "show", "9.9"]);
    assert_eq!(code(&unknown), 4);
    assert_eq!(err(&unknown), "wayfs: no such conflict\n  List them.\n");
    let json = machine.run(&["--json", "conflicts", "show", "9.9"]);
    let value: serde_json::Value = serde_json::from_str(&err(&json)).unwrap();
    assert_eq!(value["error"]["exit_code"], 4);
    assert_eq!(code(&machine.run(&["volume", "list"])), 3, "no server runs");
    assert_eq!(code(&machine.run(&["dance"])), 2);
    assert_eq!(code(&machine.run(&["conflicts", "resolve", "--all", "--keep", "both"])), 1, "one was not settled");
}

#[test]
fn without_a_daemon_tools_end_with_three_at_once() {
    let machine = Machine::empty();
    for arguments in [
        &["queue"][..],
        &["sync"],
        &["station", "list"],
        &["stop"],
        &["--at", "/nowhere", "status"],
        &["info", "/tmp/x"],
    ] {
        let ended = machine.run(arguments);
        assert_eq!(code(&ended), 3, "{arguments:?}: {}", err(&ended));
        assert!(err(&ended).lines().count() >= 2, "it says what to do: {}", err(&ended));
    }
    let status = machine.run(&["status"]);
    assert_eq!((code(&status), out(&status).contains("No daemon")), (0, true));
}

#[test]
fn a_ticket_goes_to_standard_output_alone() {
    let machine = Machine::with_daemon(DaemonKind::Server);
    let ticket = machine.run(&["volume", "ticket", "v"]);
    assert_eq!(out(&ticket), "wayfs1-secret\n");
    assert!(err(&ticket).contains("Admits one machine"));
}

#[test]
fn events_are_json_lines() {
    let machine = Machine::with_daemon(DaemonKind::Mount);
    let events = machine.run(&["events"]);
    let lines: Vec<serde_json::Value> = out(&events).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[2]["kind"], "edited");
}

#[test]
fn an_unmount_with_unsent_data_is_loud() {
    let mut machine = Machine::with_daemon(DaemonKind::Mount);
    let mount = machine.mount();
    // The daemon of this test does not end by itself: it is this process. Its socket is closed meanwhile.
    let child = machine.start(&["umount", mount.to_str().unwrap()]);
    std::thread::sleep(Duration::from_millis(500));
    machine.daemon = None;
    let ended = child.wait_with_output().unwrap();
    assert_eq!(code(&ended), 1);
    assert!(out(&ended).contains("3 records") && err(&ended).contains("not sent"), "{}{}", out(&ended), err(&ended));
}

#[test]
fn files_of_the_program_itself_need_no_daemon() {
    let machine = Machine::empty();
    assert!(out(&machine.run(&["init", "-"])).contains("[mount]"));
    assert!(out(&machine.run(&["completions", "bash"])).contains("wayfs"));
    assert!(out(&machine.run(&["man"])).contains(".TH wayfs"));
    let written = machine.directory.path().join("config.toml");
    assert_eq!(code(&machine.run(&["init", written.to_str().unwrap()])), 0);
    assert_eq!(code(&machine.run(&["--config", written.to_str().unwrap(), "status"])), 0);
    std::fs::write(&written, "[mount]\ncolour = 1").unwrap();
    let broken = machine.run(&["--config", written.to_str().unwrap(), "status"]);
    assert_eq!((code(&broken), err(&broken).contains("colour")), (2, true));
}

#[test]
fn doctor_and_debug_work_without_a_daemon() {
    let machine = Machine::empty();
    let doctor = machine.run(&["doctor", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&out(&doctor)).unwrap();
    assert!(report["facts"].as_array().unwrap().len() >= 7);
    let bundle: serde_json::Value = serde_json::from_str(&out(&machine.run(&["debug", "--out", "-"]))).unwrap();
    assert!(bundle["kernel"].as_str().unwrap().contains("Linux"));
}

#[test]
fn a_wrong_ticket_or_source_is_refused_before_anything_starts() {
    let machine = Machine::empty();
    let missing = machine.run(&["mount", "/no/such/ticket", "/tmp/nowhere"]);
    assert_eq!(code(&missing), 4, "{}", err(&missing));
    assert_eq!(code(&machine.run(&["mount", "v", "/tmp/nowhere", "-o", "colour=red"])), 2);
    assert_eq!(code(&machine.run(&["mount", "v", "/tmp/nowhere", "--cache-size", "much"])), 2);
    assert_eq!(code(&machine.run(&["mount", "/tmp/nowhere"])), 2, "no ticket in the environment");
}

/// Directories and a runtime directory of their own.
struct Machine {
    directory: tempfile::TempDir,
    daemon: Option<(Registered, ControlServer)>,
}

impl Machine {
    fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("mnt")).unwrap();
        Self { directory, daemon: None }
    }

    fn with_daemon(kind: DaemonKind) -> Self {
        let mut machine = Self::empty();
        let socket = machine.directory.path().join("control.sock");
        let server = ControlServer::start(&socket, Arc::new(Daemon)).unwrap();
        // No process has this id, so the tools do not wait for this test to end.
        let registration =
            Registration { kind, place: machine.mount(), socket, pid: u32::MAX, volume: "v".into(), for_all: None };
        let registered = Registry::at(machine.directory.path().join("run")).register(&registration).unwrap();
        machine.daemon = Some((registered, server));
        machine
    }

    fn mount(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("mnt")
    }

    fn start(&self, arguments: &[&str]) -> std::process::Child {
        let at = |name: &str| self.directory.path().join(name);
        Process::new(env!("CARGO_BIN_EXE_wayfs"))
            .args(arguments)
            .env("WAYFS_RUNTIME_DIR", at("run"))
            .env("XDG_STATE_HOME", at("state"))
            .env("XDG_CONFIG_HOME", at("config"))
            .env_remove("WAYFS_TICKET")
            .env_remove("WAYFS_AT")
            .env_remove("WAYFS_CONFIG")
            .current_dir(Path::new("/"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs a tool to its end, for twenty seconds at most.
    fn run(&self, arguments: &[&str]) -> Output {
        let mut child = self.start(arguments);
        let deadline = Instant::now() + Duration::from_secs(20);
        // What it writes is far below a pipe's buffer, but for manual pages: those are read while it runs.
        let stdout = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || std::io::read_to_string(stdout).unwrap());
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                child.kill().unwrap();
                panic!("wayfs {arguments:?} did not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut output = child.wait_with_output().unwrap();
        output.stdout = reader.join().unwrap().into_bytes();
        output
    }
}

/// Answers as real daemons do.
struct Daemon;

impl CommandHandler for Daemon {
    fn run(&self, command: Command, out: &mut dyn Sink) -> Result<Done, ControlError> {
        match command {
            Command::Status => Ok(Done::Status(StatusReport {
                kind: DaemonKind::Mount,
                version: "0".into(),
                pid: 7,
                uptime_ms: 1,
                node: "node".into(),
                listening: vec![],
                volumes: vec![],
            })),
            Command::Info { path, .. } => Ok(Done::Info(file_info(path))),
            Command::Queue { .. } => Ok(Done::Queue(QueueReport::default())),
            Command::Sync { until, .. } => {
                let _ = out.progress(&Progress {
                    what: "sending".into(),
                    total_bytes: 2,
                    done_bytes: 1,
                    ..Progress::default()
                });
                let reached = until == Level::Safe;
                let reason = if reached { String::new() } else { "the home is away".to_owned() };
                Ok(Done::Sync(SyncReport {
                    reached,
                    until,
                    remaining_items: 1,
                    remaining_bytes: 2,
                    lost: 0,
                    elapsed_ms: 3,
                    reason,
                }))
            }
            Command::ConflictsList { .. } => Ok(Done::Conflicts(ConflictsReport::default())),
            Command::ConflictsShow { .. } => {
                Err(ControlError::new(ErrorKind::NotFound, "no such conflict", "List them."))
            }
            Command::ConflictsResolve { dry_run, .. } => {
                let failed = vec![ResolveFailure { id: "2.3".into(), reason: "busy".into() }];
                Ok(Done::Resolved(ResolveReport { dry_run, resolved: vec![], failed }))
            }
            Command::VolumeTicket { volume, .. } => Ok(Done::Ticket(TicketReport {
                ticket: "wayfs1-secret".into(),
                volume,
                role: TicketRole::Client,
                expires_unix_ms: 0,
            })),
            Command::Events(_) => {
                for count in 0..3 {
                    let _ = out.event(&event(count));
                }
                Ok(Done::Nothing)
            }
            Command::Umount { .. } => Ok(Done::Unmounted(UmountReport { unsent_records: 3, unsent_bytes: 4 })),
            other => Err(ControlError::wrong_daemon(&other, DaemonKind::Server)),
        }
    }
}

fn event(unix_ms: i64) -> Event {
    Event {
        unix_ms,
        kind: EventKind::Edited,
        volume: None,
        path: None,
        from: None,
        record: None,
        by: None,
        size_bytes: None,
        detail: String::new(),
    }
}

fn file_info(path: PathBuf) -> FileInfo {
    FileInfo {
        path,
        volume: "v".into(),
        inode: 2,
        kind: "file".into(),
        size_bytes: 1,
        version: "2.1".into(),
        written_by: None,
        state: Level::Safe,
        safe: Known::Yes,
        visible: Known::No,
        stable: Known::No,
        safe_at: None,
        safe_unix_ms: None,
        visible_unix_ms: None,
        stable_unix_ms: None,
        told_by: "home".into(),
        home_word_age_ms: Some(4000),
        lost: None,
        waiting_for: String::new(),
        holders: vec![],
        cached_bytes: 0,
        pinned: false,
        exclusive: false,
        conflicts: vec![],
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
