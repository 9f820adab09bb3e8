//! Files and directories that another machine removed while a program has them open.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Site, run_for};

/// Longest time for the program on a busy machine.
const BUSY: Duration = Duration::from_secs(60);

/// A program that opens what a machine has, and uses it when the other machine has removed it. Both look on in one process, at
/// two mounts.
const PROGRAM: &str = r#"
import fcntl, os, stat, sys, time
here, there = sys.argv[1:3]
def gone(path):
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            os.lstat(path)
        except FileNotFoundError:
            return
        time.sleep(0.01)
    raise SystemExit(f"{path} is still there")
def same(found, wanted, what):
    assert found == wanted, f"{what}: {found!r}, not {wanted!r}"
def text(size): return (b"0123456789abcdef" * (size // 16 + 1))[:size]

def attributes_of_open(size, flags):
    name = f"file-{size}-{flags}"
    with open(f"{there}/{name}", "wb") as file: file.write(text(size))
    os.chmod(f"{there}/{name}", 0o604)
    fd = os.open(f"{here}/{name}", flags)
    same(os.read(fd, size + 1) if flags != os.O_WRONLY else text(size), text(size), "bytes")
    before = os.fstat(fd)
    same((before.st_nlink, before.st_size), (1, size), "links and size")
    os.chmod(f"{there}/{name}", 0o640)
    os.setxattr(f"{there}/{name}", "user.before", b"there")
    same(stat.S_IMODE(os.stat(f"{here}/{name}").st_mode), 0o640, "mode that the other set")
    os.unlink(f"{there}/{name}")
    gone(f"{here}/{name}")
    after = os.fstat(fd)
    same((after.st_nlink, after.st_size, after.st_ino), (0, size, before.st_ino), "links, size, number when removed")
    same(after.st_mtime_ns, before.st_mtime_ns, "time when removed")
    same(stat.S_IMODE(after.st_mode), 0o640, "mode when removed")
    same(os.getxattr(fd, "user.before"), b"there", "attribute when removed")
    os.fchmod(fd, 0o600)
    os.fchown(fd, 12, 34)
    os.utime(fd, ns=(5_000_000_007, 7_000_000_009))
    os.setxattr(fd, "user.after", b"kept")
    os.removexattr(fd, "user.before")
    now = os.fstat(fd)
    same(stat.S_IMODE(now.st_mode), 0o600, "mode that was set")
    same((now.st_uid, now.st_gid), (12, 34), "owner that was set")
    same(now.st_mtime_ns, 7_000_000_009, "time that was set")
    same((now.st_nlink, now.st_size), (0, size), "links and size at the end")
    same(os.listxattr(fd), ["user.after"], "attributes")
    same(os.getxattr(fd, "user.after"), b"kept", "attribute that was set")
    if flags != os.O_WRONLY: same(os.pread(fd, size + 1, 0), text(size), "bytes at the end")
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    same(os.read(again, size + 1), text(size), "bytes of another handle")
    same(stat.S_IMODE(os.fstat(again).st_mode), 0o600, "mode of another handle")
    os.close(again)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.fsync(fd)
    os.close(fd)

def written_comes_back(size):
    name = f"written-{size}"
    with open(f"{there}/{name}", "wb") as file: file.write(text(size))
    fd = os.open(f"{here}/{name}", os.O_RDWR)
    os.unlink(f"{there}/{name}")
    gone(f"{here}/{name}")
    os.fchmod(fd, 0o600)
    os.setxattr(fd, "user.after", b"kept")
    os.ftruncate(fd, size - 3)
    same(os.fstat(fd).st_size, size - 3, "size that was cut")
    os.fsync(fd)
    os.close(fd)
    for root in (here, there):
        found = os.stat(f"{root}/{name}")
        same((found.st_size, found.st_nlink, stat.S_IMODE(found.st_mode)), (size - 3, 1, 0o600), "as it came back")
        same(os.getxattr(f"{root}/{name}", "user.after"), b"kept", "attribute as it came back")

def written_comes_back_as_it_was(size):
    name = f"as-it-was-{size}"
    with open(f"{there}/{name}", "wb") as file: file.write(text(size))
    os.chmod(f"{there}/{name}", 0o640)
    os.setxattr(f"{there}/{name}", "user.before", b"there")
    fd = os.open(f"{here}/{name}", os.O_RDWR)
    same(os.getxattr(fd, "user.before"), b"there", "attribute of an open file")
    os.unlink(f"{there}/{name}")
    gone(f"{here}/{name}")
    os.pwrite(fd, b"new", 1)
    os.fsync(fd)
    os.close(fd)
    for root in (here, there):
        found = os.stat(f"{root}/{name}")
        same((found.st_size, found.st_nlink, stat.S_IMODE(found.st_mode)), (size, 1, 0o640), "as it came back")
        same(os.getxattr(f"{root}/{name}", "user.before"), b"there", "attribute that it had")

def directory():
    os.mkdir(f"{there}/dir")
    os.mkdir(f"{there}/dir/below")
    fd = os.open(f"{here}/dir", os.O_RDONLY | os.O_DIRECTORY)
    before = os.fstat(fd)
    same(before.st_nlink, 3, "links of a directory")
    os.rmdir(f"{there}/dir/below")
    os.rmdir(f"{there}/dir")
    gone(f"{here}/dir")
    after = os.fstat(fd)
    same((after.st_nlink, after.st_ino, stat.S_ISDIR(after.st_mode)), (0, before.st_ino, True), "a removed directory")
    same(os.listdir(fd), [], "names in a removed directory")
    os.close(fd)

which = sys.argv[3]
if which == "files":
    for size in (16, 5_000, 300_000):
        for flags in (os.O_RDONLY, os.O_RDWR, os.O_WRONLY):
            attributes_of_open(size, flags)
    # Attributes alone bring nothing back.
    same([os.listdir(root) for root in (here, there)], [[], []], "names")
elif which == "written":
    for size in (16, 5_000, 300_000):
        written_comes_back(size)
        written_comes_back_as_it_was(size)
else:
    directory()
"#;

fn on_two_machines(which: &str) {
    let site = Site::new();
    let roots = [0, 1].map(|client| site.root(client));
    let out = run_for(BUSY, Command::new("python3").args(["-c", PROGRAM]).args(&roots).arg(which));
    assert!(out.status.success(), "{}{}", out.out, out.err);
}

/// Proves [S-unlinked].
#[test]
fn attributes_of_a_file_that_another_machine_removed_are_read_and_set_through_handles() {
    on_two_machines("files");
}

/// Proves [S-unlinked].
#[test]
fn what_is_written_brings_a_file_back_with_the_attributes_that_were_set_meanwhile() {
    on_two_machines("written");
}

/// Proves [S-unlinked].
#[test]
fn a_directory_that_another_machine_removed_has_no_links() {
    on_two_machines("directory");
}
