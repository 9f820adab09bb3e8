//! Exclusive directories: the mode itself, and what is left without the home.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Site, eventually, run_for};

/// Longest time for news to travel, on a busy machine.
const SOON: Duration = Duration::from_secs(60);

fn is_without_home(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(113 | 110))
}

fn exclusive(path: &Path) -> bool {
    rustix::fs::getxattr(path, "user.wayfs.exclusive", &mut [0_u8; 8]).is_ok()
}

/// Proves [S-exclusive-mode]: it is inherited, shown, listed nowhere, and taken off again.
#[test]
fn the_mode_is_inherited_and_shown_and_taken_off() {
    let site = Site::apart();
    let (machine, mount) = &site.clients[0];
    let root = site.root(0);
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::write(root.join("a/b/file"), "x").unwrap();
    for path in [root.clone(), root.join("a"), root.join("a/b"), root.join("a/b/file")] {
        assert!(exclusive(&path), "{}", path.display());
    }
    assert!(!exclusive(mount.root()), "what is above is as it was");
    let mut names = [0_u8; 4096];
    let len = rustix::fs::listxattr(&root, &mut names).unwrap();
    assert!(!String::from_utf8_lossy(&names[..len]).contains("wayfs"), "a copy does not take it along");
    let info = mount.wayfs(machine, &["info", &root.join("a/b/file").to_string_lossy()]).ok().out;
    assert!(info.contains("exclusive   yes"), "{info}");
    let text = root.to_string_lossy();
    let off = mount.wayfs(machine, &["exclusive", "--off", "--json", &text]).ok().out;
    assert!(off.contains("\"directories\":3") && off.contains("\"exclusive\":false"), "{off}");
    assert!(!exclusive(&root.join("a/b")));
    // What is below has it as well when it is set again.
    mount.wayfs(machine, &["exclusive", &text]).ok();
    assert!(exclusive(&root.join("a/b")));
    assert_eq!(mount.wayfs(machine, &["exclusive", "/"]).code(), 4, "that is in no mount");
}

/// Proves [S-exclusive-mode]: without the home each change is an error that says so, and what was written is kept.
#[test]
fn without_the_home_changes_are_errors_and_nothing_is_lost() {
    let mut site = Site::apart();
    let root = site.root(0);
    fs::write(root.join("file"), "before").unwrap();
    let mut open = OpenOptions::new().read(true).write(true).open(root.join("file")).unwrap();
    site.home.1.process.kill();
    eventually("the station noticed", SOON, || {
        fs::create_dir(root.join("made")).is_err_and(|error| is_without_home(&error))
    });
    let create = || File::options().write(true).create_new(true).open(root.join("lock"));
    assert!(create().is_err_and(|error| is_without_home(&error)));
    assert!(OpenOptions::new().append(true).open(root.join("file")).is_err_and(|error| is_without_home(&error)));
    let locked = rustix::fs::flock(&open, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    assert!(locked.is_err_and(|error| is_without_home(&error.into())));
    let mut text = String::new();
    File::open(root.join("file")).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "before", "reading goes on");
    // What is written through a handle that was open is told to be nowhere, and is kept.
    open.write_all(b"after!").unwrap();
    assert!(open.sync_all().is_err_and(|error| is_without_home(&error)));
    // Beside it all is as ever.
    fs::write(site.clients[0].1.path("elsewhere"), "x").unwrap();
    let port = site.home.1.port;
    site.home.1 = site.home.0.serve(port, &[]);
    let there = site.root(1).join("file");
    eventually("the other has what was written", SOON, || {
        fs::read_to_string(&there).is_ok_and(|text| text == "after!")
    });
    drop(open);
    let names: Vec<_> = fs::read_dir(site.root(1)).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["file"], "no copy, and nothing of what was refused");
}

/// Proves [S-exclusive-mode]: a machine that goes lets go of its locks for those at other stations.
#[test]
fn who_is_killed_with_a_lock_keeps_nobody_at_another_station_from_it_for_long() {
    let mut site = Site::apart();
    let paths = site.share("file", b"x");
    let script = "import fcntl, sys, time\nfile = open(sys.argv[1], 'r+')\nfcntl.flock(file, fcntl.LOCK_EX)\nprint('has it', flush=True)\ntime.sleep(1000)";
    let mut holder = Command::new("python3");
    let mut holder = holder.arg("-c").arg(script).arg(&paths[0]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = [0; 6];
    holder.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    let there = File::open(&paths[1]).unwrap();
    let tried = rustix::fs::flock(&there, rustix::fs::FlockOperation::NonBlockingLockExclusive);
    assert_eq!(tried, Err(rustix::io::Errno::AGAIN));
    site.clients[0].1.kill();
    let wait = "import fcntl, sys\nfile = open(sys.argv[1], 'r+')\nfcntl.flock(file, fcntl.LOCK_EX)";
    run_for(SOON, Command::new("python3").arg("-c").arg(wait).arg(&paths[1])).ok();
    holder.kill().unwrap();
    holder.wait().unwrap();
}
