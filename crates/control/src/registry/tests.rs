//! Entries, notes, and what strangers lay into the directory.

use super::*;

fn of(variables: &[(&str, &str)], account: Account) -> Vec<PathBuf> {
    let find = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value));
    Registry::from_environment(find, account).directories
}

fn daemon(pid: u32, socket: &Path) -> Registration {
    let (kind, place) = (DaemonKind::Mount, PathBuf::from("/m"));
    Registration { kind, place, socket: socket.to_owned(), pid, volume: "v".into(), for_all: None }
}

#[test]
fn a_daemon_that_was_killed_and_started_again_stands_once_in_the_list() {
    let directory = tempfile::tempdir().unwrap();
    let (run, socket) = (directory.path().join("run"), directory.path().join("control.sock"));
    let registry = Registry::at(run.clone());
    let listener = crate::socket::listen(&socket, crate::socket::FOR_OWNER).unwrap();
    // Killed: nobody takes its file away.
    std::mem::forget(registry.register(&daemon(10, &socket)).unwrap());
    let again = registry.register(&daemon(9, &socket)).unwrap();
    assert_eq!(registry.running(), [daemon(9, &socket)]);
    assert_eq!(std::fs::read_dir(&run).unwrap().count(), 1, "what the dead one left is gone");
    drop(again);
    drop(listener);
    assert_eq!(registry.running(), []);
}

#[test]
fn a_note_of_an_end_stays_until_the_daemon_is_there_again_or_it_is_cleared() {
    let directory = tempfile::tempdir().unwrap();
    let (run, socket) = (directory.path().join("run"), directory.path().join("control.sock"));
    let registry = Registry::at(run.clone());
    let ended = daemon(10, &socket);
    std::mem::forget(registry.register(&ended).unwrap());
    registry.note_end(&ended, &"x".repeat(5000)).unwrap();
    assert_eq!(registry.running(), []);
    let notes = registry.ended();
    assert_eq!((notes.len(), &notes[0].daemon, notes[0].reason.len()), (1, &ended, REASON_CHARS_MAX));
    drop(registry.register(&daemon(11, &socket)).unwrap());
    assert_eq!(registry.ended(), [], "it was started again");
    registry.note_end(&ended, "why").unwrap();
    std::fs::write(run.join("mount-1.ended"), "no note").unwrap();
    assert_eq!(registry.ended().len(), 1);
    registry.forget_ended(Path::new("/other"));
    assert_eq!(registry.ended().len(), 1);
    registry.forget_ended(&ended.place);
    assert_eq!(registry.ended(), []);
}

#[test]
fn of_two_files_that_name_one_socket_the_later_counts_in_whichever_directory() {
    let directory = tempfile::tempdir().unwrap();
    let (own, system) = (directory.path().join("own"), directory.path().join("system"));
    let socket = directory.path().join("control.sock");
    let _listener = crate::socket::listen(&socket, crate::socket::FOR_OWNER).unwrap();
    std::mem::forget(Registry::at(own.clone()).register(&daemon(10, &socket)).unwrap());
    // Files have times as coarse as the kernel's tick.
    std::thread::sleep(std::time::Duration::from_millis(20));
    let _later = Registry::at(system.clone()).register(&daemon(11, &socket)).unwrap();
    assert_eq!(Registry { directories: vec![own, system] }.running(), [daemon(11, &socket)]);
}

#[test]
fn runtime_directories_follow_the_environment() {
    let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
    let with = |own: &[&str]| paths(&[own, &["/run/wayfs-root", "/run/wayfs"]].concat());
    assert_eq!(of(&[], Account::Root), with(&[]));
    assert_eq!(of(&[("XDG_RUNTIME_DIR", "/run/user/0")], Account::Root), with(&["/run/user/0/wayfs"]));
    assert_eq!(of(&[("HOME", "/h")], Account::User), with(&["/h/.local/state/wayfs/run"]));
    assert_eq!(of(&[("WAYFS_RUNTIME_DIR", "/t"), ("HOME", "/h")], Account::User), paths(&["/t"]));
}

fn registration(socket: &Path) -> Registration {
    let (place, socket) = (PathBuf::from("/data"), socket.to_owned());
    Registration {
        kind: DaemonKind::Server,
        place,
        socket,
        pid: std::process::id(),
        volume: String::new(),
        for_all: None,
    }
}

/// Whoever may write the directory lays links under the names that come next: they are not followed.
#[test]
fn a_link_that_lies_in_the_way_is_not_followed() {
    let scratch = tempfile::tempdir().unwrap();
    let (victim, directory) = (scratch.path().join("victim"), scratch.path().join("run"));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(&victim, b"precious").unwrap();
    for number in 0..64 {
        let name = format!("server-{}-{number}.json", std::process::id());
        std::os::unix::fs::symlink(&victim, directory.join(format!("{name}.new"))).unwrap();
        std::os::unix::fs::symlink(&victim, directory.join(name)).unwrap();
    }
    let registered = Registry::at(directory).register(&registration(&scratch.path().join("none"))).unwrap();
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    assert!(std::fs::symlink_metadata(&registered.file).unwrap().is_file());
}

#[test]
fn entries_that_are_links_or_speak_for_sockets_of_others_are_skipped() {
    let scratch = tempfile::tempdir().unwrap();
    let (directory, path) = (scratch.path().join("run"), scratch.path().join("sock"));
    std::fs::create_dir(&directory).unwrap();
    let _listening = socket::listen(&path, socket::FOR_OWNER).unwrap();
    let registry = Registry::at(directory.clone());
    let registered = registry.register(&registration(&path)).unwrap();
    assert_eq!(registry.running().len(), 1);
    std::os::unix::fs::symlink(&registered.file, directory.join("other.json")).unwrap();
    assert_eq!(entries_in(&directory).len(), 1, "a link is no entry");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&registered.file, Some(65534), None).unwrap();
        assert!(registry.running().is_empty(), "another user speaks for our socket");
        std::os::unix::fs::chown(&directory, Some(65534), None).unwrap();
        let refused = registry.register(&registration(&path)).unwrap_err();
        assert!(refused.to_string().contains("another user's to write"), "{refused}");
    }
}
