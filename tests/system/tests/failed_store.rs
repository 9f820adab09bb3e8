//! A mount whose cache disk failed for good ends loudly: programs get errors, nothing goes into the directory below, and
//! `wayfs status` says why and what to do.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Machine, eventually, free_port, is_mounted, run, within};

/// Longest wait for anything on one machine.
const DONE: Duration = Duration::from_secs(40);

/// A disk that can be made to fail: ext4 in a file.
struct Disk {
    backing: PathBuf,
    directory: PathBuf,
}

impl Disk {
    /// `None`, with the reason printed, where this machine has none.
    fn new(backing: PathBuf, directory: PathBuf) -> Option<Self> {
        fs::File::create(&backing).unwrap().set_len(400 << 20).unwrap();
        let disk = Self { backing, directory };
        let made = run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&disk.backing)).status.success();
        let is_there = made && disk.attach() && disk.trigger().exists();
        if !is_there {
            eprintln!("skipped: no file system that can be made to fail");
        }
        is_there.then_some(disk)
    }

    fn attach(&self) -> bool {
        let options = "loop,errors=remount-ro";
        run(Command::new("mount").args(["-o", options]).arg(&self.backing).arg(&self.directory)).status.success()
    }

    /// The kernel's file that makes it believe in an error.
    fn trigger(&self) -> PathBuf {
        let found = run(Command::new("findmnt").args(["-n", "-o", "SOURCE"]).arg(&self.directory)).ok().out;
        let device = Path::new(found.trim()).file_name().unwrap_or_default().to_owned();
        Path::new("/sys/fs/ext4").join(device).join("trigger_fs_error")
    }

    fn fail(&self) {
        fs::write(self.trigger(), "a test says so").unwrap();
    }

    fn mend(&self) {
        self.detach();
        // 1: errors were found and mended.
        run(Command::new("e2fsck").args(["-f", "-y"]).arg(&self.backing));
        assert!(self.attach(), "the disk cannot be mounted again");
    }

    fn detach(&self) {
        let _ = rustix::mount::unmount(&self.directory, rustix::mount::UnmountFlags::DETACH);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.detach();
    }
}

/// [S-failed-store]
#[test]
fn a_mount_whose_disk_failed_ends_loudly_and_goes_on_when_it_is_mended() {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let client = Machine::new("client");
    let Some(disk) = Disk::new(client.path("disk"), client.path("cache")) else { return };
    let mut mount = client.mount(&server.ticket(&home, "work"), &[]);
    let (before, after) = (mount.path("before"), mount.path("after"));
    let kept = before.clone();
    within("write a file", DONE, move || {
        fs::write(&kept, "kept").unwrap();
        fs::File::open(&kept).unwrap().sync_all().unwrap();
    });
    disk.fail();
    let refused = within("write to a failed disk", DONE, move || {
        fs::write(&after, "lost").and_then(|()| fs::File::open(&after)?.sync_all())
    });
    assert!(refused.is_err(), "what cannot be kept is not taken");
    eventually("the daemon ends", DONE, || mount.process.ended().is_some());
    assert_eq!(mount.process.ended().and_then(|status| status.code()), Some(6), "{}", mount.process.log());
    assert!(mount.process.has_said("the mount ended"), "{}", mount.process.log());
    // Nothing is written below a dead mount.
    assert!(is_mounted(mount.root()));
    let dead = mount.path("below");
    let error = within("write into a dead mount", DONE, move || fs::write(dead, "x").unwrap_err());
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOTCONN.raw_os_error()), "{error}");
    let said = client.wayfs(&["status", "--json"]).ok().json();
    let volume = &said[0]["volumes"][0];
    assert_eq!(volume["word"], "needs-attention", "{said}");
    assert!(volume["cause"].as_str().unwrap().contains("ended"), "{said}");
    assert!(volume["next_step"].as_str().unwrap().contains("wayfs mount work"), "{said}");
    assert!(client.wayfs(&["status"]).ok().out.contains("ended"));

    disk.mend();
    let again = client.mount("work", &[]);
    let path = again.path("before");
    assert_eq!(within("read a file", DONE, move || fs::read_to_string(path).unwrap()), "kept");
    let said = client.wayfs(&["status", "--json"]).ok().json();
    assert_eq!(said.as_array().map(Vec::len), Some(1), "what ended is there again: {said}");
    drop(again);
    mount.kill();
}
