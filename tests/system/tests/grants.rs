//! Members with limits, over real processes: home, station and mounts. The tests run as root, whom no kernel would hold back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port};

/// Longest time for news to cross, on a busy machine.
const SEEN: Duration = Duration::from_secs(60);

/// A home with the volume `work`, a station of it, and an owner's mount at the home.
struct Volume {
    home: Machine,
    server: Server,
    site: Machine,
    station: Server,
    owner: Machine,
    mount: Mount,
}

fn volume() -> Volume {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let site = Machine::new("site");
    let station = site.serve(free_port(), &[]);
    station.wayfs(&site, &["station", "join", &server.station_ticket(&home, "work")]).ok();
    let owner = Machine::new("owner");
    let mount = owner.mount(&server.ticket(&home, "work"), &[]);
    Volume { home, server, site, station, owner, mount }
}

impl Volume {
    /// A mount with a ticket of these options.
    fn member(&self, name: &str, options: &[&str]) -> (Machine, Mount) {
        let arguments = [&["volume", "ticket", "work"], options].concat();
        let ticket = self.server.wayfs(&self.home, &arguments).ok().out.trim().to_owned();
        let machine = Machine::new(name);
        let mount = machine.mount(&ticket, &[]);
        (machine, mount)
    }
}

/// Proves [S-limits]: what a squashed member makes is somebody's in the volume, and has no set-id bits.
#[test]
fn a_squashed_member_owns_nothing_else_and_sets_no_ids() {
    let volume = volume();
    let (machine, mount) = volume.member("guest", &["--squash", "5000:6000", "--no-setid"]);
    fs::write(mount.path("file"), "x").unwrap();
    fs::create_dir(mount.path("dir")).unwrap();
    assert!(chown(mount.path("file"), Some(0), None).is_err(), "it gives nothing away");
    assert!(fs::set_permissions(mount.path("file"), PermissionsExt::from_mode(0o4755)).is_err());
    fs::set_permissions(mount.path("file"), PermissionsExt::from_mode(0o755)).unwrap();
    mount.sync(&machine, "visible");
    volume.mount.wayfs(&volume.owner, &["refresh"]).ok();
    let seen = |name: &str| {
        let found = fs::symlink_metadata(volume.mount.path(name)).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    assert_eq!(seen("file"), (5000, 6000, 0o755));
    assert_eq!((seen("dir").0, seen("dir").1), (5000, 6000));
    let members = volume.server.wayfs(&volume.home, &["volume", "members", "work"]).ok().out;
    assert!(members.contains("squash 5000:6000, no-setid"), "{members}");
    let json = volume.server.wayfs(&volume.home, &["volume", "members", "work", "--json"]).ok().out;
    assert!(json.contains(r#""uid":5000"#) || json.contains(r#""uid": 5000"#), "{json}");
    let at_station = volume.station.wayfs(&volume.site, &["volume", "fingerprint", "work"]).ok().out;
    let at_home = volume.server.wayfs(&volume.home, &["volume", "fingerprint", "work"]).ok().out;
    assert_eq!(at_station, at_home, "two machines show the same keys");
    assert!(at_home.contains("home"), "{at_home}");
}

/// Proves [S-limits]: a member with a part sees it and the way there, reads and writes there, and nothing else.
#[test]
fn a_member_with_a_part_has_that_and_nothing_else() {
    let volume = volume();
    let owner = |name: &str| volume.mount.path(name);
    fs::create_dir_all(owner("projects/ours/inner")).unwrap();
    fs::create_dir(owner("projects/theirs")).unwrap();
    fs::write(owner("projects/secret"), vec![7; 300_000]).unwrap();
    fs::write(owner("projects/ours/film"), vec![9; 3_000_000]).unwrap();
    volume.mount.sync(&volume.owner, "stable");
    let (machine, mount) = volume.member("guest", &["--path", "/projects/ours"]);
    let names = |name: &str| -> Vec<String> {
        let entries = fs::read_dir(mount.path(name)).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names(""), ["projects"]);
    assert_eq!(names("projects"), ["ours"]);
    assert_eq!(names("projects/ours"), ["film", "inner"]);
    assert_eq!(fs::read(mount.path("projects/ours/film")).unwrap(), vec![9; 3_000_000]);
    assert!(fs::read(mount.path("projects/secret")).is_err());
    assert!(fs::write(mount.path("projects/mine"), "x").is_err());
    assert!(fs::create_dir(mount.path("mine")).is_err());
    fs::write(mount.path("projects/ours/inner/mine"), "mine").unwrap();
    mount.sync(&machine, "stable");
    eventually("the owner sees it", SEEN, || fs::read(owner("projects/ours/inner/mine")).is_ok_and(|b| b == b"mine"));
    // What comes into the part is seen, and what leaves it is not any more.
    fs::rename(owner("projects/secret"), owner("projects/ours/told")).unwrap();
    fs::rename(owner("projects/ours/film"), owner("projects/theirs/film")).unwrap();
    eventually("what was moved in is read", SEEN, || {
        fs::read(mount.path("projects/ours/told")).is_ok_and(|bytes| bytes == vec![7; 300_000])
    });
    eventually("what was moved out is gone", SEEN, || fs::read(mount.path("projects/ours/film")).is_err());
    let members = volume.server.wayfs(&volume.home, &["volume", "members", "work"]).ok().out;
    assert!(members.contains("path projects/ours"), "{members}");
    let missing = volume.server.wayfs(&volume.home, &["volume", "ticket", "work", "--path", "nowhere"]);
    assert_ne!(missing.code(), 0);
}

/// Writes a file as a program does that looks at what `write` and `fsync` say.
fn put(mount: &Mount, name: &str, len: usize) -> io::Result<()> {
    let mut file = fs::File::create(mount.path(name))?;
    file.write_all(&vec![7; len])?;
    file.sync_all()
}

fn is_quota(outcome: &io::Result<()>) -> bool {
    outcome.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EDQUOT))
}

impl Volume {
    fn quota(&self, options: &[&str]) -> String {
        self.server.wayfs(&self.home, &[&["volume", "quota", "work"], options].concat()).ok().out
    }

    /// The origin of a member, by the name of its machine.
    fn origin(&self, machine: &str) -> String {
        let members = self.server.wayfs(&self.home, &["volume", "members", "work", "--json"]).ok().json();
        let list = members["members"].as_array().cloned().unwrap();
        let is_it = |member: &&serde_json::Value| member["label"].as_str().is_some_and(|label| label.contains(machine));
        list.iter().find(is_it).unwrap_or_else(|| panic!("{members}"))["origin"].to_string()
    }
}

fn free_of(mount: &Mount) -> (u64, u64) {
    let disk = rustix::fs::statvfs(mount.root()).unwrap();
    (disk.f_bavail * disk.f_frsize, disk.f_ffree)
}

/// Proves [S-quota].
#[test]
fn a_quota_is_kept_to_and_shown() {
    let volume = volume();
    let (machine, mount) = volume.member("guest", &[]);
    let guest = volume.origin("guest");
    let said = volume.quota(&["--member", &guest, "--bytes", "1MiB", "--files", "4"]);
    assert!(said.contains("0 B of 1.0 MiB, 0 files of 4"), "{said}");
    eventually("it is told", SEEN, || free_of(&mount) == (1 << 20, 4));
    put(&mount, "first", 600_000).unwrap();
    let refused = put(&mount, "second", 600_000);
    assert!(is_quota(&refused), "{refused:?}");
    // Each fits beside the first. What is refused no sooner than at its sync waits, and it says what keeps that back.
    let written = ["second", "third"].map(|name| {
        let mut file = fs::File::create(mount.path(name)).unwrap();
        file.write_all(&[7; 300_000]).unwrap();
        file
    });
    written[0].sync_all().unwrap();
    assert!(is_quota(&written[1].sync_all()));
    let status = || mount.wayfs(&machine, &["status"]).out;
    eventually("it says so", SEEN, || status().contains("quota: what was written"));
    drop(written);
    fs::remove_file(mount.path("third")).unwrap();
    put(&mount, "second", 400_000).unwrap();
    assert!(free_of(&mount).0 < 50_000, "what is not counted yet by a server is taken off");
    put(&mount, "third", 0).unwrap();
    fs::create_dir(mount.path("fourth")).unwrap();
    assert!(is_quota(&fs::create_dir(mount.path("fifth"))));
    mount.sync(&machine, "stable");
    eventually("it says so", SEEN, || status().contains("quota: of this member"));
    let members = volume.server.wayfs(&volume.home, &["volume", "members", "work"]).ok().out;
    assert!(members.contains("977 KiB of 1.0 MiB, 4 files of 4"), "{members}");
    put(&volume.mount, "of the owner", 2_000_000).unwrap();
    fs::remove_file(mount.path("first")).unwrap();
    put(&mount, "first again", 500_000).unwrap();
    mount.sync(&machine, "stable");
    let refused = volume.server.wayfs(&volume.home, &["volume", "quota", "work", "--member", &volume.origin("site")]);
    assert_ne!(refused.code(), 0, "{}", refused.out);
    volume.quota(&["--member", &guest, "--bytes", "0", "--files", "0"]);
    eventually("it is told that there is none", SEEN, || put(&mount, "large", 3_000_000).is_ok());
    // What all take up counts together.
    let all = volume.quota(&["--bytes", "6MiB"]);
    assert!(all.contains("of 6.0 MiB"), "{all}");
    eventually("the owner is told", SEEN, || free_of(&volume.mount).0 < 6 << 20);
    assert!(is_quota(&put(&volume.mount, "too large", 5_000_000)));
    mount.sync(&machine, "stable");
}

/// Proves [S-quota]: what was acknowledged is not lost.
#[test]
fn what_was_written_offline_before_a_quota_was_lowered_waits_and_goes_up() {
    let volume = volume();
    let (machine, mount) = volume.member("guest", &[]);
    let guest = volume.origin("guest");
    volume.quota(&["--member", &guest, "--bytes", "4MiB"]);
    eventually("it is told", SEEN, || free_of(&mount).0 == 4 << 20);
    mount.wayfs(&machine, &["offline"]).ok();
    put(&mount, "film", 3_000_000).unwrap();
    assert!(is_quota(&put(&mount, "more", 3_000_000)), "it keeps to what it was told, offline, too");
    // What was refused stays in the cache, to be tried again, as long as the file is there.
    fs::remove_file(mount.path("more")).unwrap();
    volume.quota(&["--member", &guest, "--bytes", "1MiB"]);
    mount.wayfs(&machine, &["online"]).ok();
    let status = || mount.wayfs(&machine, &["status"]).out;
    eventually("it has heard", SEEN, || free_of(&mount).0 <= 1 << 20);
    assert!(!volume.mount.path("film").exists() || fs::metadata(volume.mount.path("film")).unwrap().len() == 0);
    assert_eq!(fs::read(mount.path("film")).unwrap().len(), 3_000_000, "it is here: {}", status());
    volume.quota(&["--member", &guest, "--bytes", "4MiB"]);
    mount.sync(&machine, "stable");
    volume.mount.wayfs(&volume.owner, &["refresh"]).ok();
    assert_eq!(fs::read(volume.mount.path("film")).unwrap(), vec![7; 3_000_000]);
}
