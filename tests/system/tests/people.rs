//! Users and groups mapped by names between machines whose numbers differ. Each machine has a table of users of its own, bound over
//! the real one in a mount namespace. Needs root.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Finished, Machine, Process, World, eventually, run_for};

/// Longest wait for an answer.
const SOON: Duration = Duration::from_secs(30);
/// Shown for who is nobody here.
const NOBODY_HERE: u32 = u32::MAX - 1;

/// A machine with users of its own, and a mount by names on it.
struct Apart {
    machine: Machine,
    mount: Process,
}

impl Apart {
    /// `users` and `groups` are beside root, by name and number.
    fn new(name: &str, ticket: &str, users: &[(&str, u32)], groups: &[(&str, u32)]) -> Self {
        let machine = Machine::new(name);
        fs::set_permissions(machine.path(""), PermissionsExt::from_mode(0o711)).unwrap();
        let table = |people: &[(&str, u32)], rest: &str| {
            let all = std::iter::once(&("root", 0)).chain(people);
            all.map(|(name, number)| format!("{name}:x:{number}:{rest}\n")).collect::<String>()
        };
        fs::write(machine.path("passwd"), table(users, "0::/:/bin/sh")).unwrap();
        fs::write(machine.path("group"), table(groups, "")).unwrap();
        fs::create_dir(machine.path("mnt")).unwrap();
        let mount = Self::start(&machine, ticket);
        Self { machine, mount }
    }

    fn start(machine: &Machine, what: &str) -> Process {
        let plain = machine.command();
        let mut command = Command::new("unshare");
        let bind = "mount --bind \"$1\" /etc/passwd && mount --bind \"$2\" /etc/group && shift 2 && exec \"$@\"";
        command.args(["--mount", "--propagation", "private", "sh", "-ec", bind, "sh"]);
        command.args([machine.path("passwd"), machine.path("group")]).arg(plain.get_program());
        command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.arg("mount").arg(what).arg(machine.path("mnt")).arg("--cache").arg(machine.path("cache"));
        command.args(["-o", "idmap=names"]);
        let mut process = Process::start(&mut command, &machine.path("mount.log"));
        eventually("it is mounted", SOON, || {
            assert!(process.ended().is_none(), "the mount ended: {}", process.log());
            process.has_said("Mounted ")
        });
        process
    }

    /// Unmounts, and mounts again.
    fn again(&mut self) {
        // That something is not sent yet is said by a code of its own.
        self.wayfs(&["umount", self.machine.path("mnt").to_str().unwrap()]);
        eventually("the mount ends", SOON, || self.mount.ended().is_some());
        self.mount = Self::start(&self.machine, "work");
    }

    /// The mount as this process reaches it: through the daemon's own namespace.
    fn path(&self, name: &str) -> PathBuf {
        let mounted = self.machine.path("mnt");
        let inside = Path::new("/proc").join(self.mount.id().to_string()).join("root");
        inside.join(mounted.strip_prefix("/").unwrap()).join(name)
    }

    /// A tool of the machine, where the mount is.
    fn wayfs(&self, arguments: &[&str]) -> Finished {
        let plain = self.machine.command();
        let mut command = self.inside();
        command.arg(plain.get_program()).args(arguments);
        command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        run_for(SOON, command.env("WAYFS_AT", self.machine.path("mnt")))
    }

    /// A shell of a user, where the mount is.
    fn shell(&self, user: u32, script: &str) -> Finished {
        let mut command = self.inside();
        let number = user.to_string();
        command.args(["setpriv", "--reuid", &number, "--regid", &number, "--clear-groups", "sh", "-ec"]);
        let script = format!("cd {}; umask 022; {script}", self.machine.path("mnt").display());
        run_for(SOON, command.arg(script))
    }

    fn inside(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.mount.id().to_string(), "--mount", "--"]);
        command
    }

    /// Owner and group of a file, as they are shown.
    fn owner(&self, name: &str) -> (u32, u32) {
        let found = fs::symlink_metadata(self.path(name)).unwrap();
        (found.uid(), found.gid())
    }
}

/// Proves [S-names].
#[test]
fn people_are_who_they_are_called_on_two_machines() {
    let world = World::default();
    let base = world.mount.root().to_str().unwrap();
    let named = [
        "--user", "ann=1000", "--user", "bob=1001", "--group", "ann=1000", "--group", "bob=1001", "--group", "team=50",
    ];
    let listed = world.client.wayfs(&[&["people", base], &named[..]].concat()).ok();
    assert_eq!(listed.out, "user 1000 ann\nuser 1001 bob\ngroup 1000 ann\ngroup 1001 bob\ngroup 50 team\n");
    let shared = world.directory("shared");
    fs::set_permissions(&shared, PermissionsExt::from_mode(0o777)).unwrap();
    fs::write(world.mount.path("strangers"), "x").unwrap();
    std::os::unix::fs::chown(world.mount.path("strangers"), Some(7), Some(8)).unwrap();
    world.mount.sync(&world.client, "visible");

    let ticket = || world.server.ticket(&world.home, "work");
    let mut east =
        Apart::new("east", &ticket(), &[("ann", 501), ("bob", 502)], &[("ann", 501), ("bob", 502), ("team", 777)]);
    let west = Apart::new(
        "west",
        &ticket(),
        &[("ann", 2001), ("carl", 1000)],
        &[("ann", 2001), ("team", 778), ("carl", 1000)],
    );
    east.shell(501, "echo hers > shared/f; chmod 600 shared/f").ok();
    east.shell(501, "cat shared/f").ok();
    east.wayfs(&["sync", "--until", "visible", "--timeout", "20"]).ok();
    west.wayfs(&["refresh"]).ok();
    assert_eq!((east.owner("shared/f"), west.owner("shared/f")), ((501, 501), (2001, 2001)));
    assert_eq!(west.shell(2001, "cat shared/f; echo more >> shared/f").ok().out, "hers\n");
    assert!(!west.shell(1000, "cat shared/f").status.success(), "carl has ann's number, and is not ann");
    let refused = west.shell(1000, "echo x > shared/g");
    assert!(!refused.status.success() && refused.err.contains("Value too large"), "nobody knows carl: {refused:?}");
    assert_eq!((west.owner("strangers"), west.owner("shared")), ((NOBODY_HERE, NOBODY_HERE), (0, 0)));
    let kept = || fs::symlink_metadata(world.mount.path("shared/f")).map(|found| (found.uid(), found.gid())).ok();
    eventually("the volume has its own numbers", SOON, || kept() == Some((1000, 1000)));

    // Who is named later is known at the next mount.
    let carl = ["people", base, "--user", "carl=1002", "--group", "carl=1002", "--remove-user", "bob"];
    assert!(!world.client.wayfs(&carl).ok().out.contains("user 1001 bob"));
    east.shell(502, "echo bob > shared/b").ok();
    east.again();
    assert!(!east.shell(502, "echo bob > shared/c").status.success(), "bob is not named any more");
    let offline = ["offline"];
    east.wayfs(&offline).ok();
    east.again();
    assert_eq!(east.owner("shared/f"), (501, 501), "names are kept without the home");
}

/// Proves [S-names].
#[test]
fn only_those_in_charge_say_who_is_who() {
    let world = World::default();
    fs::set_permissions(world.client.path(""), PermissionsExt::from_mode(0o711)).unwrap();
    fs::set_permissions(world.mount.root(), PermissionsExt::from_mode(0o777)).unwrap();
    let set = |user: &str, name: &str, value: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--regid", user, "--clear-groups"]).arg(world.client.command().get_program());
        let plain = world.client.command();
        command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.args(["people", world.mount.root().to_str().unwrap(), "--user", &format!("{name}={value}")]);
        run_for(SOON, &mut command)
    };
    let refused = set("1234", "mallory", "0");
    assert!(refused.code() == 5 && refused.err.contains("not permitted"), "{refused:?}");
    set("0", "ann", "1234").ok();
    for (name, value) in [("a b", "1"), ("a", "4294967294")] {
        assert_ne!(set("0", name, value).code(), 0, "{name}={value}");
    }
    let listed = world.client.wayfs(&["people", world.mount.root().to_str().unwrap()]).ok();
    assert_eq!(listed.out, "user 1234 ann\n");
    let hidden = rustix::fs::listxattr(world.mount.root(), &mut [0_u8; 4096][..]).unwrap();
    assert_eq!(hidden, 0, "a copy takes none along");
    world.mount.wayfs(&world.client, &["offline"]).ok();
    assert_eq!(set("0", "bob", "7").code(), 3, "the home is to know of it");
}
