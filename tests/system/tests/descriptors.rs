//! Descriptors are room, too: who opens many files is told that they are too many, and nothing else fails.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::time::Duration;
use wayfs_system_tests::{Machine, free_port, run, within};

/// Longest wait for anything on one machine.
const DONE: Duration = Duration::from_secs(60);
/// Descriptors of the mount's daemon, and files that are opened: more than it can hold.
const DESCRIPTORS: u64 = 800;
const FILES: usize = 1_200;
/// Bytes of a file: too many to be kept in memory while it is open.
const LENGTH: usize = 160 << 10;

/// `ENFILE`.
const TOO_MANY: i32 = 23;

/// [S-open-files]
#[test]
fn whoever_opens_too_many_files_is_told_so_and_nothing_else_fails() {
    let may_be_lowered = run(std::process::Command::new("prlimit").arg("--version")).status.success();
    if !may_be_lowered {
        eprintln!("skipped: no prlimit to bound a daemon with");
        return;
    }
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let client = Machine::new("client");
    let bound = format!("--nofile={DESCRIPTORS}:{DESCRIPTORS}");
    let mut mount = client.mount_under(&["prlimit", &bound], &server.ticket(&home, "work"), &[]);

    let root = mount.root().to_owned();
    let (written, refused) = within("open many files", DONE, move || open_many(&root));
    assert!(!written.is_empty(), "some files can be open");
    assert!(!refused.is_empty(), "{FILES} open files of {LENGTH} bytes are more than {DESCRIPTORS} descriptors hold");
    assert!(refused.iter().all(|errno| *errno == TOO_MANY), "{refused:?}");

    // They are closed now. Nothing that went well is lost, and all goes on, also behind a kill.
    let after = mount.path("after");
    within("write a file", DONE, move || fs::write(after, "goes on").unwrap());
    mount.sync(&client, "stable");
    mount.kill();
    let mount = client.mount("work", &[]);
    let root = mount.root().to_owned();
    within("read what was written", DONE, move || {
        for number in written {
            assert_eq!(fs::read(root.join(number.to_string())).unwrap(), content(number), "file {number}");
        }
        assert_eq!(fs::read(root.join("after")).unwrap(), b"goes on");
    });
}

/// Opens and writes files, and closes none before the last: those that were written, and the errors of the others.
fn open_many(root: &std::path::Path) -> (Vec<usize>, Vec<i32>) {
    let (mut open, mut written, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..FILES {
        let made = File::create_new(root.join(number.to_string()));
        let result = made.and_then(|mut file| {
            let result = file.write_all(&content(number));
            open.push(file);
            result
        });
        match result {
            Ok(()) => written.push(number),
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::AlreadyExists);
                refused.push(error.raw_os_error().unwrap_or_default());
            }
        }
        // Names and attributes need none.
        fs::metadata(root).unwrap();
    }
    (written, refused)
}

fn content(number: usize) -> Vec<u8> {
    (0..LENGTH).map(|at| (at.wrapping_mul(31) ^ number.wrapping_mul(0x9e37) ^ (at >> 8)) as u8).collect()
}
