use std::fs::{self, File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use wayfs_fuse::{InitFlags, PassthroughError};

use crate::stage::{Plan, Stage, stage};

fn passthrough_stage() -> Option<Stage> {
    let mut plan = Plan::default();
    plan.loopback.passthrough = true;
    let stage = stage(plan)?;
    if stage.session().granted().flags.contains(InitFlags::PASSTHROUGH) {
        return Some(stage);
    }
    eprintln!("skipped: the kernel does not grant passthrough");
    stage.finish();
    None
}

/// A file that the kernel would register, or the reason why not.
fn probe(stage: &Stage) -> Result<(), PassthroughError> {
    fs::write(stage.on_host("probe"), "x").unwrap();
    let file = File::open(stage.on_host("probe")).unwrap();
    let notifier = stage.session().notifier();
    let id = notifier.backing_open(file.as_fd())?;
    notifier.backing_close(id)
}

#[test]
fn reads_and_writes_go_past_the_daemon() {
    let Some(stage) = passthrough_stage() else { return };
    if let Err(error) = probe(&stage) {
        eprintln!("skipped: {error}");
        return stage.finish();
    }
    let data = vec![3_u8; 200_000];
    fs::write(stage.at("file"), &data).unwrap();
    assert_eq!(fs::read(stage.on_host("file")).unwrap(), data);
    let open = OpenOptions::new().read(true).write(true).open(stage.at("file")).unwrap();
    // What changes on the host shows at once, without any notification: nothing is cached above it.
    let host = OpenOptions::new().write(true).open(stage.on_host("file")).unwrap();
    host.write_all_at(b"direct", 100).unwrap();
    let mut bytes = [0; 6];
    open.read_exact_at(&mut bytes, 100).unwrap();
    assert_eq!(&bytes, b"direct");
    // A second open of the same file shares the registration.
    let second = File::open(stage.at("file")).unwrap();
    open.write_all_at(b"shared", 7).unwrap();
    second.read_exact_at(&mut bytes, 7).unwrap();
    assert_eq!(&bytes, b"shared");
    drop((open, second, host));
    stage.finish();
}

#[test]
fn a_refusal_says_why() {
    let Some(stage) = stage(Plan::default()) else { return };
    let notifier = stage.session().notifier();
    if stage.session().granted().flags.contains(InitFlags::PASSTHROUGH) {
        // A file of the mount itself is on a stacked file system.
        fs::write(stage.at("file"), "x").unwrap();
        let file = File::open(stage.at("file")).unwrap();
        let error = notifier.backing_open(file.as_fd()).unwrap_err();
        assert!(!error.is_final(), "{error}");
        let nothing = wayfs_fuse::BackingId::new(77);
        assert!(notifier.backing_close(nothing).is_err());
    }
    stage.finish();
}

#[test]
fn without_the_grant_it_is_refused_at_once() {
    let mut plan = Plan::default();
    plan.config.passthrough = false;
    plan.loopback.passthrough = true;
    let Some(stage) = stage(plan) else { return };
    let file = tempfile::tempfile().unwrap();
    let error = stage.session().notifier().backing_open(file.as_fd()).unwrap_err();
    assert!(matches!(error, PassthroughError::NotGranted));
    // The loopback falls back to answering.
    fs::write(stage.at("file"), "answered").unwrap();
    assert_eq!(fs::read(stage.at("file")).unwrap(), b"answered");
    stage.finish();
}
