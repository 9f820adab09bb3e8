//! Members with limits, over real processes: home, station and mounts. The tests run as root, whom no kernel would hold back.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
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
