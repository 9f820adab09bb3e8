//! Volumes as their owners handle them: readers, events, conflicts by name, archives, the end of a volume.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod machine;

use machine::{Machine, code, err, out};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A machine with a server and the volume `work`, and a way to mount it several times.
struct Office {
    machine: Machine,
}

impl Office {
    /// `None`, with a word about it, where nothing can be mounted.
    fn open() -> Option<Self> {
        if !Path::new("/dev/fuse").exists() {
            eprintln!("no /dev/fuse here: nothing to mount with");
            return None;
        }
        let machine = Machine::new();
        assert_eq!(code(&machine.serve(&["--daemon"])), 0);
        let office = Self { machine };
        office.at_server(&["volume", "create", "work"]);
        Some(office)
    }

    fn at_server(&self, arguments: &[&str]) -> String {
        let done = self.server(arguments);
        assert_eq!(code(&done), 0, "{arguments:?}: {}{}", err(&done), self.machine.logs());
        out(&done)
    }

    fn server(&self, arguments: &[&str]) -> std::process::Output {
        self.machine.run(&[&["--at", &self.machine.text("data")], arguments].concat())
    }

    /// Mounts as a user of that name, with a ticket of that kind.
    fn mount(&self, user: &str, ticket: &[&str]) -> PathBuf {
        let (at, cache) = (self.machine.path(&format!("mnt-{user}")), self.machine.text(&format!("cache-{user}")));
        std::fs::create_dir(&at).unwrap();
        let text = self.at_server(&[&["volume", "ticket", "work"], ticket].concat());
        let arguments = ["mount", "--daemon", text.trim(), at.to_str().unwrap(), "--cache", &cache];
        let mut command = self.machine.command(&arguments);
        let done = command.env("WAYFS_USER", user).env("WAYFS_HOST", "desk").output().unwrap();
        assert_eq!(code(&done), 0, "{}{}", err(&done), self.machine.logs());
        at
    }

    fn at(&self, mount: &Path, arguments: &[&str]) -> std::process::Output {
        self.machine.run(&[&["--at", mount.to_str().unwrap()], arguments].concat())
    }

    fn json(&self, mount: &Path, arguments: &[&str]) -> serde_json::Value {
        let done = self.at(mount, &[arguments, &["--json"]].concat());
        assert_eq!(code(&done), 0, "{}", err(&done));
        serde_json::from_str(&out(&done)).unwrap()
    }
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_reader_reads_and_its_mount_says_so_to_whoever_writes() {
    let Some(office) = Office::open() else { return };
    let (ann, rita) = (office.mount("ann", &[]), office.mount("rita", &["--read-only"]));
    std::fs::write(ann.join("plan"), "first").unwrap();
    eventually("the reader sees it", || std::fs::read(rita.join("plan")).is_ok_and(|bytes| bytes == b"first"));
    for refused in [
        std::fs::write(rita.join("plan"), "mine"),
        std::fs::write(rita.join("new"), "mine"),
        std::fs::remove_file(rita.join("plan")),
        std::fs::create_dir(rita.join("dir")),
    ] {
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
    }
    assert_eq!(office.json(&rita, &["status"])[0]["volumes"][0]["read_only"], true);
    assert!(out(&office.at(&rita, &["status"])).contains("read-only"));
    let members = office.at_server(&["volume", "members", "work"]);
    assert!(members.lines().any(|line| line.contains("rita@desk") && line.contains("reader")), "{members}");
}

#[test]
fn events_name_the_file_its_version_and_its_size_at_every_step() {
    let Some(office) = Office::open() else { return };
    let ann = office.mount("ann", &[]);
    let mut command = office.machine.command(&["--at", ann.to_str().unwrap(), "events"]);
    let mut listening = command.stdout(Stdio::piped()).spawn().unwrap();
    let heard = listen(&mut listening);
    // Nobody can tell from outside when it listens: what is written is written again until it is heard.
    let mut number = 0;
    let mut all: Vec<serde_json::Value> = Vec::new();
    eventually("a version is stable", || {
        number += 1;
        std::fs::write(ann.join("plan"), format!("{number:1000}")).unwrap();
        all.extend(heard.try_iter());
        all.iter().any(|event| event["kind"] == "stable" && event["size_bytes"] == 1000)
    });
    listening.kill().unwrap();
    listening.wait().unwrap();
    let stable = all.iter().find(|event| event["kind"] == "stable" && event["size_bytes"] == 1000).unwrap();
    assert_eq!(stable["path"], "plan");
    for kind in ["safe", "visible"] {
        let told = all.iter().filter(|event| event["kind"] == kind && event["record"] == stable["record"]);
        assert_eq!(told.count(), 1, "{kind} of {}: {all:?}", stable["record"]);
    }
}

/// Lines of JSON as they come.
fn listen(child: &mut Child) -> std::sync::mpsc::Receiver<serde_json::Value> {
    let (send, receive) = std::sync::mpsc::channel();
    let stdout = child.stdout.take().unwrap();
    std::thread::spawn(move || {
        let lines = std::io::BufRead::lines(std::io::BufReader::new(stdout));
        for line in lines.map_while(Result::ok) {
            if send.send(serde_json::from_str(&line).unwrap()).is_err() {
                return;
            }
        }
    });
    receive
}

#[test]
fn conflicts_name_both_sides_and_are_settled_by_name() {
    let Some(office) = Office::open() else { return };
    let (ann, bob) = (office.mount("ann", &[]), office.mount("bob", &[]));
    let meet = |name: &str| {
        std::fs::write(ann.join(name), "first").unwrap();
        eventually("both see it", || std::fs::read(bob.join(name)).is_ok_and(|bytes| bytes == b"first"));
        assert_eq!(code(&office.at(&bob, &["offline"])), 0);
        std::fs::write(bob.join(name), "bob's").unwrap();
        std::fs::write(ann.join(name), "ann's").unwrap();
        assert_eq!(code(&office.at(&ann, &["sync", "--until", "visible", "--timeout", "20"])), 0);
        assert_eq!(code(&office.at(&bob, &["auto"])), 0);
        let open = || office.json(&ann, &["conflicts", "list"])["conflicts"].as_array().unwrap().clone();
        eventually("the conflict is known", || open().iter().any(|conflict| conflict["path"] == name));
        open().into_iter().find(|conflict| conflict["path"] == name).unwrap()
    };
    let conflict = meet("plan.txt");
    assert_eq!((&conflict["winner"]["by"], &conflict["other"]["by"]), (&"ann@desk".into(), &"bob@desk".into()));
    let settled = office.at(&ann, &["conflicts", "resolve", "plan.txt", "--keep", "bob@desk"]);
    assert_eq!(code(&settled), 0, "{}{}", out(&settled), err(&settled));
    assert_eq!(std::fs::read(ann.join("plan.txt")).unwrap(), b"bob's");
    // A name that means both sides is answered with what to say.
    meet("list.txt");
    let unclear = office.at(&ann, &["conflicts", "resolve", "list.txt", "--keep", "desk"]);
    let said = out(&unclear) + &err(&unclear);
    assert!(code(&unclear) != 0 && said.contains("--keep 'list.txt'"), "{said}");
}

#[test]
fn waiting_for_a_path_is_true_only_when_it_is() {
    let Some(office) = Office::open() else { return };
    let ann = office.mount("ann", &[]);
    std::fs::create_dir(ann.join("dir")).unwrap();
    std::fs::write(ann.join("dir/file"), "first").unwrap();
    let (dir, file) = (ann.join("dir"), ann.join("dir/file"));
    let sync = |path: &Path| machine_sync(&office, path);
    assert_eq!((sync(&dir), sync(&file)), (0, 0));
    assert_eq!(code(&office.at(&ann, &["offline"])), 0);
    std::fs::write(&file, "second").unwrap();
    assert_eq!((sync(&dir), sync(&file)), (1, 1));
    std::fs::remove_file(&file).unwrap();
    assert_eq!(sync(&dir), 1, "a removal below it is not there either");
    let queue = office.json(&ann, &["queue"]);
    assert!(queue["items"].as_array().unwrap().iter().any(|item| item["path"] == "dir/file"), "{queue}");
    assert_eq!(code(&office.at(&ann, &["online"])), 0);
    eventually("all is visible", || sync(&dir) == 0);
}

fn machine_sync(office: &Office, path: &Path) -> i32 {
    code(&office.machine.run(&["sync", path.to_str().unwrap(), "--until", "visible", "--timeout", "1"]))
}

#[test]
fn a_volume_goes_out_as_an_archive_and_away_for_good() {
    let Some(office) = Office::open() else { return };
    let ann = office.mount("ann", &[]);
    std::fs::write(ann.join("plan"), "first").unwrap();
    assert_eq!(code(&office.at(&ann, &["sync", "--until", "stable", "--timeout", "20"])), 0);
    let archive = office.machine.text("work.tar");
    office.at_server(&["volume", "export", "work", "--tar", &archive]);
    assert_eq!(code(&office.server(&["volume", "export", "work", "--tar", &archive])), 2, "nothing is overwritten");
    let streamed = office.server(&["volume", "export", "work", "--tar", "-"]);
    assert_eq!(streamed.stdout, std::fs::read(&archive).unwrap(), "{}", err(&streamed));
    office.at_server(&["volume", "create", "copy"]);
    office.at_server(&["volume", "import", "copy", "--tar", &archive, "--into", "a/b"]);
    let info = office.at_server(&["info", "a/b/plan", "--volume", "copy", "--json"]);
    assert!(info.contains("\"size_bytes\":5"), "{info}");

    assert_eq!(code(&office.server(&["volume", "delete", "work"])), 2, "nobody confirmed");
    let in_use = office.server(&["volume", "delete", "work", "--yes"]);
    assert!(code(&in_use) == 5 && err(&in_use).contains("@"), "{}", err(&in_use));
    office.at_server(&["volume", "delete", "work", "--yes", "--force"]);
    assert!(!office.at_server(&["volume", "list"]).contains("work"));
    eventually("the mount says so", || out(&office.at(&ann, &["status"])).contains("deleted"));
    assert_eq!(std::fs::read(ann.join("plan")).unwrap(), b"first", "what is cached can be copied away");
}
