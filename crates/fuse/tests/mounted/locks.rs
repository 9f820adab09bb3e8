use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::fs::FlockOperation;

use crate::stage::{Plan, stage};

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

/// An open-file-description lock: like a POSIX lock, but one process can hold two against each other.
fn record_lock(file: &File, kind: libc::c_int, start: i64, len: i64, command: libc::c_int) -> Result<libc::flock, i32> {
    // SAFETY: all-zero is a valid value of this plain struct.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = start;
    lock.l_len = len;
    // SAFETY: the command takes a pointer to a flock, which outlives the call.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    if result < 0 { Err(std::io::Error::last_os_error().raw_os_error().unwrap()) } else { Ok(lock) }
}

#[test]
fn flocks_exclude_and_are_handed_over() {
    let Some(stage) = stage(Plan::default()) else { return };
    fs::write(stage.at("file"), "x").unwrap();
    let (one, two) = (open(&stage.at("file")), open(&stage.at("file")));
    rustix::fs::flock(&one, FlockOperation::LockExclusive).unwrap();
    let refused = rustix::fs::flock(&two, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(refused, Err(rustix::io::Errno::WOULDBLOCK));
    std::thread::scope(|scope| {
        let (sender, receiver) = channel();
        let two = &two;
        scope.spawn(move || sender.send(rustix::fs::flock(two, FlockOperation::LockShared)));
        assert!(receiver.recv_timeout(Duration::from_millis(100)).is_err(), "waits");
        rustix::fs::flock(&one, FlockOperation::Unlock).unwrap();
        receiver.recv_timeout(Duration::from_secs(5)).expect("is granted").unwrap();
    });
    rustix::fs::flock(&one, FlockOperation::NonBlockingLockShared).unwrap();
    // Closing the last descriptor lets go.
    drop(two);
    rustix::fs::flock(&one, FlockOperation::LockExclusive).unwrap();
    drop(one);
    stage.finish();
}

#[test]
fn record_locks_exclude_by_range() {
    let Some(stage) = stage(Plan::default()) else { return };
    fs::write(stage.at("file"), "x").unwrap();
    let one = open(&stage.at("file"));
    let script = format!(
        "import fcntl,sys\nf=open('{}','r+')\n\
         def attempt(start):\n try:\n  fcntl.lockf(f, fcntl.LOCK_EX|fcntl.LOCK_NB, 10, start)\n  return 'free'\n except OSError as e:\n  return 'held'\n\
         print(attempt(0), attempt(50))",
        stage.at("file").display()
    );
    record_lock(&one, libc::F_WRLCK, 0, 20, libc::F_SETLK).unwrap();
    match std::process::Command::new("python3").arg("-c").arg(script).output() {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "held free"),
        Err(error) => eprintln!("skipped the second process: {error}"),
    }
    record_lock(&one, libc::F_UNLCK, 0, 0, libc::F_SETLK).unwrap();
    drop(one);
    stage.finish();
}

#[test]
fn a_lock_can_be_asked_after() {
    let Some(stage) = stage(Plan::default()) else { return };
    fs::write(stage.at("file"), "x").unwrap();
    let (one, two) = (open(&stage.at("file")), open(&stage.at("file")));
    // The kernel keeps open-file-description locks apart by owner and sends them as record locks.
    record_lock(&one, libc::F_WRLCK, 10, 5, libc::F_OFD_SETLK).unwrap();
    let found = record_lock(&two, libc::F_RDLCK, 0, 0, libc::F_OFD_GETLK).unwrap();
    assert_eq!((i32::from(found.l_type), found.l_start, found.l_len), (libc::F_WRLCK, 10, 5));
    let none = record_lock(&two, libc::F_RDLCK, 0, 10, libc::F_OFD_GETLK).unwrap();
    assert_eq!(i32::from(none.l_type), libc::F_UNLCK);
    drop((one, two));
    stage.finish();
}
