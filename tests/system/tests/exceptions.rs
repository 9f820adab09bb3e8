//! The exceptions at the end of SEMANTICS.md, on a real mount.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;
use wayfs_system_tests::{World, run_for};

static WORLD: LazyLock<World> = LazyLock::new(World::default);

/// Longest time for a program on a busy machine.
const BUSY: Duration = Duration::from_secs(60);

/// What all programs begin with; they work in a directory of their own, in `d`.
const BEGIN: &str = r#"
import ctypes, errno, fcntl, os, shutil, stat, struct, subprocess, sys
d = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
def refused(call, *arguments):
    "How a call of the C library, or of Python, is refused; 0: it is not."
    try:
        done = call(*arguments)
    except OSError as error:
        return error.errno
    return ctypes.get_errno() if done == -1 else 0
def is_so(found, wanted, what):
    assert found == wanted, f"{what}: {found!r}, not {wanted!r}"
"#;

fn program(world: &World, name: &str, text: &str) {
    let directory = world.directory(name);
    run_for(BUSY, Command::new("python3").args(["-c", &format!("{BEGIN}{text}")]).arg(directory)).ok();
}

/// Runs a program of another user's, which may be able to run it or not: it is opened before the user changes, who may not walk there.
const RUN_AS: &str = r#"
def run_as_user(path):
    program = os.open(path, os.O_PATH)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.setgid(12345), os.setuid(12345)
        os.dup2(write, 1)
        try:
            os.execve(program, ["id", "-u"], {})
        except OSError as error:
            os._exit(error.errno)
    os.close(write), os.close(program)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), os.read(read, 100).decode().strip()
"#;

/// Proves [S-set-id].
#[test]
fn set_id_bits_and_devices_are_kept_and_have_no_effect() {
    let text = r#"
shutil.copy("/usr/bin/id", d + "/id")
os.chmod(d + "/id", 0o6755)
is_so(stat.S_IMODE(os.stat(d + "/id").st_mode), 0o6755, "mode")
is_so(run_as_user(d + "/id"), (0, "12345"), "a program of the superuser's")
os.mknod(d + "/null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
found = os.stat(d + "/null")
is_so((stat.S_ISCHR(found.st_mode), found.st_rdev), (True, os.makedev(1, 3)), "a device")
is_so(refused(os.open, d + "/null", os.O_RDWR), errno.EACCES, "open of a device")
"#;
    program(&WORLD, "set-id", &format!("{RUN_AS}{text}"));
    let no_exec = r#"
shutil.copy("/usr/bin/id", d + "/id")
os.chmod(d + "/id", 0o755)
is_so(run_as_user(d + "/id")[0], errno.EACCES, "a program where none may run")
"#;
    program(&World::new(&["-o", "noexec"]), "no-exec", &format!("{RUN_AS}{no_exec}"));
}

/// Proves [S-access-times], [S-same-attributes], [S-far-times].
#[test]
fn times_are_those_of_changes() {
    program(
        &WORLD,
        "times",
        r#"
path = d + "/f"
with open(path, "w") as file: file.write("text")
os.utime(path, ns=(5, 7_000_000_001))
found = os.stat(path)
is_so((found.st_atime_ns, found.st_mtime_ns), (7_000_000_001, 7_000_000_001), "times that were set")
with open(path) as file: file.read()
is_so(os.stat(path).st_atime_ns, 7_000_000_001, "time of access after a read")

before = os.stat(path)
os.chmod(path, stat.S_IMODE(before.st_mode))
os.chown(path, before.st_uid, before.st_gid)
os.utime(path, ns=(9, before.st_mtime_ns))
is_so(os.stat(path).st_ctime_ns, before.st_ctime_ns, "time of change after nothing changed")
os.chmod(path, 0o600)
is_so(os.stat(path).st_ctime_ns > before.st_ctime_ns, True, "time of change after a change")

for seconds, kept in ((10**10, 2**63 - 1), (-10**10, -2**63)):
    os.utime(path, (seconds, seconds))
    is_so(os.stat(path).st_mtime_ns, kept, f"{seconds} s")
"#,
    );
}

/// Proves [S-whiteouts], [S-file-flags], [S-allocate].
#[test]
fn what_is_refused_is_refused_with_a_word_that_says_so() {
    program(
        &WORLD,
        "refused",
        r#"
path = (d + "/f").encode()
with open(path, "w") as file: file.write("x" * 8192)
WHITEOUT, AT_FDCWD = 4, -100
is_so(refused(libc.renameat2, AT_FDCWD, path, AT_FDCWD, path + b"2", WHITEOUT), errno.EINVAL, "a whiteout")
fd = os.open(path, os.O_RDWR)
GET_FLAGS, SET_FLAGS = 0x80086601, 0x40086602
is_so(refused(fcntl.ioctl, fd, GET_FLAGS, bytes(8)), errno.ENOTTY, "flags of a file")
is_so(refused(fcntl.ioctl, fd, SET_FLAGS, bytes(8)), errno.ENOTTY, "flags that are set")
offset = ctypes.c_int64
COLLAPSE, INSERT = 8, 32
for mode in (COLLAPSE, INSERT):
    is_so(refused(libc.fallocate, fd, mode, offset(0), offset(4096)), errno.EOPNOTSUPP, f"fallocate, mode {mode}")
space = os.statvfs(d)
too_much = space.f_bavail * space.f_frsize + (1 << 40)
is_so(refused(libc.fallocate, fd, 0, offset(0), offset(too_much)), errno.ENOSPC, "more than there is")
is_so(os.fstat(fd).st_size, 8192, "size after that")
is_so(refused(libc.fallocate, fd, 0, offset(0), offset(1 << 24)), 0, "16 MiB")
os.close(fd)
is_so(os.stat(path).st_size, 1 << 24, "size after that")
"#,
    );
}

/// Proves [S-lock-of-reader].
#[test]
fn a_record_lock_of_a_reader_ends_with_its_handle() {
    program(
        &WORLD,
        "readers-lock",
        r#"
path = d + "/f"
with open(path, "w") as file: file.write("text")
def is_free():
    return subprocess.run([sys.executable, "-c", """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit(1)
""", path]).returncode == 0
for way, is_free_then in ((os.O_RDONLY, False), (os.O_RDWR, True)):
    fd = os.open(path, way)
    fcntl.lockf(fd, fcntl.LOCK_SH)
    is_so(is_free(), False, "held")
    os.close(os.dup(fd))
    is_so(is_free(), is_free_then, "after the first close of the process")
    os.close(fd)
    is_so(is_free(), True, "after the last")
"#,
    );
}
