//! Direct and buffered access to one file.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{World, run, within};

/// Sixteen asynchronous direct writes at a time (Linux's own interface, numbers of x86-64), buffered readers all the while.
/// What a completion announced, a buffered read must show.
const WRITES: &str = r#"
import ctypes, os, sys, mmap, threading, random
libc = ctypes.CDLL(None, use_errno=True)
SETUP, SUBMIT, GETEVENTS = 206, 209, 208
class Iocb(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("key", ctypes.c_uint32), ("rw", ctypes.c_int32), ("op", ctypes.c_uint16),
                ("prio", ctypes.c_int16), ("fd", ctypes.c_uint32), ("buf", ctypes.c_uint64), ("n", ctypes.c_uint64),
                ("off", ctypes.c_int64), ("r2", ctypes.c_uint64), ("flags", ctypes.c_uint32), ("resfd", ctypes.c_uint32)]
class Event(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("obj", ctypes.c_uint64), ("res", ctypes.c_int64), ("res2", ctypes.c_int64)]
path, B, N, stale, over = sys.argv[1], 65536, 16, 0, False
fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
os.write(fd, bytes(B * N))
os.fsync(fd)
direct = os.open(path, os.O_RDWR | os.O_DIRECT)
context = ctypes.c_uint64(0)
assert libc.syscall(SETUP, 64, ctypes.byref(context)) == 0
def read_on():
    other = os.open(path, os.O_RDONLY)
    while not over:
        os.pread(other, B, random.randrange(N) * B)
readers = [threading.Thread(target=read_on) for _ in range(2)]
for reader in readers: reader.start()
try:
    for turn in range(1, 41):
        kept, control = [], (ctypes.POINTER(Iocb) * N)()
        for at in range(N):
            room = mmap.mmap(-1, B)
            room.write(bytes([turn]) * B)
            address = ctypes.addressof(ctypes.c_char.from_buffer(room))
            kept.append((room, Iocb(data=at, op=1, fd=direct, buf=address, n=B, off=at * B)))
            control[at] = ctypes.pointer(kept[-1][1])
        assert libc.syscall(SUBMIT, ctypes.c_uint64(context.value), N, control) == N
        done, events = 0, (Event * N)()
        while done < N:
            count = libc.syscall(GETEVENTS, ctypes.c_uint64(context.value), 1, N, events, None)
            assert count > 0
            for event in events[:count]:
                assert event.res == B, event.res
                stale += os.pread(fd, B, event.data * B) != bytes([turn]) * B
            done += count
finally:
    over = True
    for reader in readers: reader.join()
assert stale == 0, f"{stale} of {40 * N} reads show what was there before"
"#;

/// Proves [S-posix].
#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "the script has the numbers of system calls of x86-64")]
fn what_was_written_directly_and_later_is_read_by_others() {
    within("asynchronous direct writes", Duration::from_secs(120), || {
        let world = World::default();
        let directory = world.directory("direct");
        run(Command::new("python3").args(["-c", WRITES]).arg(directory.join("a"))).ok();
    });
}
