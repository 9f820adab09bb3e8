//! Whose files a mount shows, and who may use them: programs of other users than the one that mounted.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, World, eventually, free_port};

/// Longest wait for an answer of the home.
const SEEN: Duration = Duration::from_secs(20);
/// Ann's numbers here.
const ANN: (u32, u32) = (1234, 4321);
/// Somebody else's.
const BOB: (u32, u32) = (999, 998);
/// Shown for whose number is somebody else's.
const NOBODY_HERE: u32 = u32::MAX - 1;

/// Runs a shell as another user. Only root can.
fn shell(user: (u32, u32), directory: &Path, script: &str) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("umask 022; {script}")]).current_dir(directory).uid(user.0).gid(user.1);
    command.output().expect("start a shell")
}

fn succeeds(user: (u32, u32), directory: &Path, script: &str) {
    let output = shell(user, directory, script);
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

fn fails(user: (u32, u32), directory: &Path, script: &str, why: &str) {
    let output = shell(user, directory, script);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(why), "{script}: {} {said}", output.status);
}

/// Owner, group and permission bits.
fn seen(path: &Path) -> (u32, u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.gid(), found.mode() & 0o7777)
}

/// Lets others walk to what a machine has.
fn open_to_others(machine: &Machine) {
    fs::set_permissions(machine.path(""), PermissionsExt::from_mode(0o711)).unwrap();
}

/// What the volume has, as a mount without options shows it.
fn kept(world: &World, plain: &(Machine, Mount), name: &str) -> (u32, u32, u32) {
    world.mount.sync(&world.client, "visible");
    plain.1.wayfs(&plain.0, &["refresh"]).ok();
    seen(&plain.1.path(name))
}

/// Proves [S-whose].
#[test]
fn all_is_shown_as_one_users_and_stays_whose_it_is() {
    let world = World::new(&["-o", "uid=1234,gid=4321,umask=027"]);
    open_to_others(&world.client);
    let plain = world.other("plain");
    let here = world.mount.root();
    assert_eq!(seen(here), (ANN.0, ANN.1, 0o750), "the root, which is root's in the volume");
    succeeds(ANN, here, "echo x > f; mkdir d; echo y > d/g; ln -s f l; mkfifo p");
    assert_eq!(seen(&here.join("f")), (ANN.0, ANN.1, 0o640));
    assert_eq!(seen(&here.join("d")), (ANN.0, ANN.1, 0o750));
    assert_eq!(kept(&world, &plain, "f"), (0, 0, 0o644));
    assert_eq!(kept(&world, &plain, "d/g"), (0, 0, 0o644), "as the directory");
    succeeds(ANN, here, "chown 1234:4321 f; chmod 700 f");
    assert_eq!(seen(&here.join("f")), (ANN.0, ANN.1, 0o750));
    assert_eq!(kept(&world, &plain, "f"), (0, 0, 0o755), "only that it can be run");
    succeeds(ANN, here, "chmod 600 f");
    assert_eq!(kept(&world, &plain, "f"), (0, 0, 0o644));
    let refused = chown(here.join("f"), Some(BOB.0), None).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
    fails(BOB, &world.client.path(""), "ls mnt", "Permission denied");
}

/// Proves [S-whose].
#[test]
fn users_are_mapped_both_ways_and_nobody_is_taken_for_another() {
    let world = World::default();
    let mapped = Machine::new("mapped");
    open_to_others(&mapped);
    fs::write(mapped.path("map"), "user 1000 1234\ngroup 1000 4321 # Ann\n").unwrap();
    let option = format!("idmap=file:{}", mapped.path("map").display());
    let mount = mapped.mount(&world.server.ticket(&world.home, "work"), &["-o", &option]);
    let there = world.directory("ann");
    chown(&there, Some(1000), Some(1000)).unwrap();
    for (name, uid) in [("strangers", 1234), ("everybodys", 0)] {
        let directory = world.directory(name);
        chown(&directory, Some(uid), None).unwrap();
        fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
    }
    world.mount.sync(&world.client, "visible");
    mount.wayfs(&mapped, &["refresh"]).ok();
    assert_eq!(seen(&mount.path("ann")), (ANN.0, ANN.1, 0o755));
    assert_eq!(seen(&mount.path("strangers")).0, NOBODY_HERE, "1234 is Ann here");
    succeeds(ANN, mount.root(), "echo x > ann/f");
    fails(BOB, mount.root(), "echo x > ann/g", "Permission denied");
    fails((1000, 1000), mount.root(), "echo x > everybodys/h", "Value too large");
    succeeds(BOB, mount.root(), "echo x > everybodys/b");
    mount.sync(&mapped, "visible");
    world.mount.wayfs(&world.client, &["refresh"]).ok();
    assert_eq!(seen(&there.join("f")), (1000, 1000, 0o644));
    assert_eq!(seen(&world.mount.path("everybodys/b")), (BOB.0, BOB.1, 0o644));
}

/// Proves [S-group-root].
#[test]
fn the_group_of_a_volume_makes_files_in_its_root() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "team", "--owner", "1234:4321", "--group-writable"]).ok();
    let client = Machine::new("client");
    open_to_others(&client);
    let mount = client.mount(&server.ticket(&home, "team"), &[]);
    // The root never waits: on a busy machine it is shown before the first answer.
    eventually("the root is as it was made", SEEN, || seen(mount.root()) == (ANN.0, ANN.1, 0o2775));
    succeeds((BOB.0, ANN.1), mount.root(), "echo x > f");
    assert_eq!(seen(&mount.path("f")), (BOB.0, ANN.1, 0o644));
    fails(BOB, mount.root(), "echo x > g", "Permission denied");
}
