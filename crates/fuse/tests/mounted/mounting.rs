use std::fs::{self, File};
use std::io::ErrorKind;
use std::sync::Arc;

use wayfs_fuse::loopback::{Loopback, LoopbackOptions};
use wayfs_fuse::{
    Config, Handler, Mount, MountError, MountMethod, MountOptions, Reply, Request, Session, SessionError, UmountError,
    UmountMode,
};

use crate::stage::{Plan, Watchdog, must_skip, stage, stage_with};

#[test]
fn a_mount_in_use_is_busy_until_forced() {
    let Some(stage) = stage(Plan::default()) else { return };
    fs::write(stage.at("file"), "x").unwrap();
    let file = File::open(stage.at("file")).unwrap();
    let refused = stage.session().umount(UmountMode::Orderly);
    assert!(matches!(refused, Err(UmountError::Busy { .. })), "{refused:?}");
    assert_eq!(fs::read_to_string(stage.at("file")).unwrap(), "x", "still served");
    drop(file);
    stage.finish();
}

#[test]
fn a_lazy_umount_serves_what_is_open() {
    let Some(stage) = stage(Plan::default()) else { return };
    fs::write(stage.at("file"), "x").unwrap();
    let file = File::open(stage.at("file")).unwrap();
    stage.session().umount(UmountMode::Lazy).unwrap();
    assert!(!stage.at("file").exists(), "out of the tree");
    assert_eq!(std::io::read_to_string(&file).unwrap(), "x", "but served");
    drop(file);
    stage.finish();
}

#[test]
fn someone_elses_umount_ends_the_session() {
    let Some(stage) = stage(Plan::default()) else { return };
    let status = std::process::Command::new("umount").arg(stage.point()).status().unwrap();
    assert!(status.success());
    // Ends, and does not unmount a second time.
    stage.finish();
}

#[test]
fn a_second_mount_on_one_place_is_refused() {
    let Some(stage) = stage(Plan::default()) else { return };
    let error = Mount::new(&MountOptions::new(stage.point())).unwrap_err();
    assert!(matches!(error, MountError::AlreadyMounted { .. }), "{error}");
    stage.finish();
}

#[test]
fn a_mount_whose_daemon_died_is_recognised() {
    if must_skip() {
        return;
    }
    let point = tempfile::tempdir().unwrap();
    // A child mounts and dies without unmounting; the device is closed with it.
    let mount = Mount::new(&MountOptions::new(point.path())).unwrap();
    let unmounter = mount.unmounter();
    let _watchdog = Watchdog::new(unmounter.clone());
    mount.abandon();
    let error = Mount::new(&MountOptions::new(point.path())).unwrap_err();
    assert!(matches!(error, MountError::Stale { .. }), "{error}");
    assert!(error.to_string().contains("umount"));
    unmounter.umount(UmountMode::Orderly).unwrap();
    assert!(fs::read_dir(point.path()).unwrap().next().is_none());
}

#[test]
fn an_unserved_mount_goes_when_dropped() {
    if must_skip() {
        return;
    }
    let point = tempfile::tempdir().unwrap();
    drop(Mount::new(&MountOptions::new(point.path())).unwrap());
    fs::write(point.path().join("file"), "below").unwrap();
}

#[test]
fn a_dropped_session_unmounts_even_if_in_use() {
    if must_skip() {
        return;
    }
    let (host, point) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(host.path().join("file"), "x").unwrap();
    let mount = Mount::new(&MountOptions::new(point.path())).unwrap();
    let _watchdog = Watchdog::new(mount.unmounter());
    let loopback = Loopback::new(host.path(), LoopbackOptions::default()).unwrap();
    let session = Session::new(mount, Config::default()).spawn(Arc::new(loopback), 1).unwrap();
    let file = File::open(point.path().join("file")).unwrap();
    drop(session);
    assert!(!point.path().join("file").exists());
    drop(file);
}

#[test]
fn read_only_mounts_refuse_changes() {
    let Some(stage) = stage(Plan { read_only: true, ..Plan::default() }) else { return };
    fs::write(stage.on_host("file"), "x").unwrap();
    assert_eq!(fs::read_to_string(stage.at("file")).unwrap(), "x");
    let error = fs::write(stage.at("other"), "x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
    stage.finish();
}

#[test]
fn the_mount_table_shows_what_and_where() {
    let Some(stage) = stage(Plan::default()) else { return };
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table.lines().find(|line| line.contains(stage.point().to_str().unwrap())).unwrap();
    assert!(line.starts_with("wayfs ") && line.contains(" fuse.wayfs "), "{line}");
    stage.finish();
}

#[test]
fn the_helper_mounts_and_unmounts() {
    if must_skip() {
        return;
    }
    let (host, point) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut options = MountOptions::new(point.path());
    options.method = MountMethod::Fusermount;
    let mount = match Mount::new(&options) {
        Err(MountError::NoHelper(error)) => return eprintln!("skipped: {error}"),
        result => result.unwrap(),
    };
    let _watchdog = Watchdog::new(mount.unmounter());
    let loopback = Loopback::new(host.path(), LoopbackOptions::default()).unwrap();
    let session = Session::new(mount, Config::default()).spawn(Arc::new(loopback), 2).unwrap();
    fs::write(point.path().join("file"), "by helper").unwrap();
    assert_eq!(fs::read_to_string(host.path().join("file")).unwrap(), "by helper");
    session.umount(UmountMode::Orderly).unwrap();
    session.join().unwrap();
    assert!(!point.path().join("file").exists());
}

/// Panics at the first request.
struct Fragile;

impl Handler for Fragile {
    fn handle(&self, _request: Request, _reply: Reply) {
        panic!("deliberately");
    }
}

#[test]
fn a_panic_takes_the_mount_down_and_hangs_nobody() {
    let Some(stage) = stage_with(Arc::new(Fragile), Config::default()) else { return };
    assert!(fs::read(stage.at("file")).is_err());
    let outcome = stage.join();
    assert!(matches!(outcome, Err(SessionError::Panicked)), "{outcome:?}");
}

/// Never answers, and drops what it was asked.
struct Forgetful;

impl Handler for Forgetful {
    fn handle(&self, _request: Request, _reply: Reply) {}
}

#[test]
fn dropped_replies_are_errors_to_programs() {
    let Some(stage) = stage_with(Arc::new(Forgetful), Config::default()) else { return };
    let error = fs::read(stage.at("file")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    stage.finish();
}
