//! Locks between programs on two machines at one server, and what they order.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Site, busy, run_for, turns, within};

/// Longest time for a workload on a busy machine.
const BUSY: Duration = Duration::from_secs(120);

fn names(root: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

/// Adds one to the number in a file, as programs without any care for the network do.
fn count(file: &mut File) {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    let next = text.trim().parse::<u64>().unwrap() + 1;
    file.seek(SeekFrom::Start(0)).unwrap();
    file.write_all(format!("{next:>12}\n").as_bytes()).unwrap();
}

/// Record locks of two machines: who is told to be in the way, and that of two who wait for each other one is refused. Prints nothing if
/// all is as it is on one machine.
const RECORDS: &str = r#"
import errno, fcntl, os, struct, sys, threading, time
mine, theirs = [os.open(path, os.O_RDWR) for path in sys.argv[1:3]]

def first_in_the_way(fd, start, length):
    asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
    kind, _, start, length, _ = struct.unpack("hhqqi4x", fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else (kind, start, length)

def expect(wanted, found):
    if wanted != found:
        print("not", wanted, "but", found)

child, parent = os.pipe(), os.pipe()
if os.fork() == 0:
    # Another program, at the other machine.
    fcntl.lockf(theirs, fcntl.LOCK_EX, 10, 40)
    fcntl.lockf(theirs, fcntl.LOCK_SH, 5, 20)
    os.write(child[1], b"1")
    os.read(parent[0], 1)
    try:
        fcntl.lockf(theirs, fcntl.LOCK_EX, 1, 100)
        os.write(child[1], b"g")
    except OSError as error:
        os.write(child[1], b"d" if error.errno == errno.EDEADLK else b"?")
    os._exit(0)
os.read(child[0], 1)
expect((fcntl.F_RDLCK, 20, 5), first_in_the_way(mine, 0, 0))
expect((fcntl.F_WRLCK, 40, 10), first_in_the_way(mine, 30, 0))
expect(None, first_in_the_way(mine, 0, 20))
fcntl.lockf(mine, fcntl.LOCK_EX, 1, 100)
os.write(parent[1], b"1")
time.sleep(0.5)
mine_came = "granted"
try:
    fcntl.lockf(mine, fcntl.LOCK_EX, 1, 40)
except OSError as error:
    mine_came = "deadlock" if error.errno == errno.EDEADLK else error
fcntl.lockf(mine, fcntl.LOCK_UN, 1, 100)
expect({"granted": b"d", "deadlock": b"g"}.get(mine_came, mine_came), os.read(child[0], 1))
"#;

/// Proves [S-lock-wait], and that who asks what is in the way is told the first that is, whoever has it.
#[test]
fn record_locks_of_two_machines_are_as_on_one() {
    let site = Site::new();
    let [here, there] = site.share("records", &[0; 200]);
    let asked = run_for(BUSY, Command::new("python3").args(["-c", RECORDS]).args([&here, &there])).ok();
    assert_eq!(asked.out, "");
}

#[derive(Clone, Copy)]
enum Way {
    Flock,
    Record,
    /// The file is closed with the lock held.
    Close,
}

fn counted_by_both(site: &Site, name: &str, way: Way) {
    let rounds = turns(50);
    let paths = site.share(name, format!("{:>12}\n", 0).as_bytes());
    let workers = paths.clone().map(|path| {
        std::thread::spawn(move || {
            let mut kept = open(&path);
            for _ in 0..rounds {
                match way {
                    Way::Flock => {
                        rustix::fs::flock(&kept, rustix::fs::FlockOperation::LockExclusive).unwrap();
                        count(&mut kept);
                        rustix::fs::flock(&kept, rustix::fs::FlockOperation::Unlock).unwrap();
                    }
                    Way::Record => {
                        rustix::fs::fcntl_lock(&kept, rustix::fs::FlockOperation::LockExclusive).unwrap();
                        count(&mut kept);
                        rustix::fs::fcntl_lock(&kept, rustix::fs::FlockOperation::Unlock).unwrap();
                    }
                    Way::Close => {
                        let mut file = open(&path);
                        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
                        count(&mut file);
                    }
                }
            }
        })
    });
    within("both count", busy(BUSY), move || workers.map(|worker| worker.join().unwrap()));
    // The last count came from one of them, and the other learns of it with the lock.
    let mut last = open(&paths[0]);
    match way {
        Way::Flock | Way::Close => rustix::fs::flock(&last, rustix::fs::FlockOperation::LockShared).unwrap(),
        Way::Record => rustix::fs::fcntl_lock(&last, rustix::fs::FlockOperation::LockShared).unwrap(),
    }
    let mut text = String::new();
    last.read_to_string(&mut text).unwrap();
    let copies = names(&site.root(0));
    assert_eq!(text.trim(), (2 * rounds).to_string(), "counts were lost, of {copies:?}");
}

fn counted_in_all_ways(site: &Site) {
    counted_by_both(site, "flock", Way::Flock);
    counted_by_both(site, "record", Way::Record);
    counted_by_both(site, "close", Way::Close);
    assert_eq!(names(&site.root(1)), ["close", "flock", "record"]);
}

/// Proves [S-lock-order], [S-locks].
#[test]
fn a_counter_under_a_lock_loses_no_count_between_two_machines() {
    counted_in_all_ways(&Site::new());
}

/// Proves [S-exclusive-mode].
#[test]
fn a_counter_under_a_lock_loses_no_count_between_two_stations() {
    counted_in_all_ways(&Site::apart());
}

/// Proves [S-lock-order]: the default journal of SQLite, in turns and with both at once.
#[test]
fn sqlite_loses_no_transaction_between_two_machines() {
    transactions(&Site::new());
}

/// Proves [S-exclusive-mode].
#[test]
fn sqlite_loses_no_transaction_between_two_stations() {
    transactions(&Site::apart());
}

fn transactions(site: &Site) {
    let script = r#"
import os, sqlite3, sys, threading, time
paths, turns = sys.argv[1:3], int(sys.argv[3])
def connect(path):
    return sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
dbs = [connect(paths[0])]
dbs[0].execute("create table t(v)")
end = time.time() + 20
while not os.path.exists(paths[1]):
    assert time.time() < end, "the other never sees the file"
    time.sleep(0.05)
dbs.append(connect(paths[1]))
for k in range(2 * turns):
    dbs[k % 2].execute("insert into t values(?)", (k,))
    got = dbs[(k + 1) % 2].execute("select count(*) from t").fetchone()[0]
    assert got == k + 1, (k, got)
def work(n):
    db = connect(paths[n])
    for k in range(turns):
        db.execute("insert into t values(?)", (1000000 * (n + 1) + k,))
threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
for db in dbs:
    assert db.execute("select count(*), count(distinct v) from t").fetchone() == (4 * turns, 4 * turns)
    assert db.execute("pragma integrity_check").fetchone()[0] == "ok"
"#;
    let paths = [0, 1].map(|client| site.root(client).join("t.db"));
    let mut python = Command::new("python3");
    run_for(busy(BUSY), python.arg("-c").arg(script).args(&paths).arg(turns(20).to_string())).ok();
    assert_eq!(names(&site.root(0)), ["t.db"]);
}

/// A lock of an open file (`F_OFD_SETLK`), as Python spells it.
const OPEN_FILE_LOCK: &str = r#"
import errno, fcntl, os, struct, sys
SET, FREE = 37, 2
def lock(path, flags=os.O_RDWR):
    fd = os.open(path, flags)
    kind = fcntl.F_WRLCK if flags == os.O_RDWR else fcntl.F_RDLCK
    fcntl.fcntl(fd, SET, struct.pack("hhqqi4x", kind, 0, 0, 0, 0))
    return fd
def is_free(path):
    try:
        os.close(lock(path))
        return True
    except OSError as error:
        assert error.errno in (errno.EAGAIN, errno.EACCES), error
        return False
"#;

/// Proves [S-locks].
#[test]
fn a_lock_of_an_open_file_ends_with_it() {
    let site = Site::new();
    let paths = site.share("img", b"image");
    let script = format!(
        r#"{OPEN_FILE_LOCK}
import time
here, there = sys.argv[1:3]
for flags in (os.O_RDWR, os.O_RDONLY):
    fd = lock(here, flags)
    assert not is_free(there)
    copy = os.dup(fd)
    os.close(fd)
    assert not is_free(there), "a copy of the handle is open"
    os.close(copy)
    # The kernel tells of the end of a file after its last close was answered.
    end = time.time() + 20
    while not (is_free(there) and is_free(here)):
        assert time.time() < end, "the lock outlives its file"
        time.sleep(0.05)
pid = os.fork()
if pid == 0:
    lock(here)
    os._exit(0)
os.waitpid(pid, 0)
end = time.time() + 20
while not (is_free(there) and is_free(here)):
    assert time.time() < end, "the lock outlives its process"
    time.sleep(0.05)
"#
    );
    run_for(BUSY, Command::new("python3").arg("-c").arg(script).args(&paths)).ok();
}

/// Proves [S-lock-signal]: a program that gets signals while it asks for locks holds what it was told that it holds.
#[test]
fn a_signal_during_a_lock_request_leaves_nobody_with_half_a_lock() {
    let site = Site::new();
    let paths = site.share("lock", b"x");
    let script = r#"
import errno, fcntl, os, signal, subprocess, sys
here, there = sys.argv[1:3]
signal.signal(signal.SIGALRM, lambda *_: None)
mine, other = os.open(here, os.O_RDWR), os.open(there, os.O_RDWR)
def is_free(way):
    try:
        way(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        assert error.errno in (errno.EAGAIN, errno.EACCES), error
        return False
    way(other, fcntl.LOCK_UN)
    return True
def interrupted(way, how):
    signal.setitimer(signal.ITIMER_REAL, 0.0002)
    try:
        way(mine, how)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
for way in (fcntl.lockf, fcntl.flock):
    for turn in range(100):
        interrupted(way, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not is_free(way), (way, turn)
        way(mine, fcntl.LOCK_UN)
    for turn in range(50):
        way(mine, fcntl.LOCK_SH)
        interrupted(way, fcntl.LOCK_EX)
        assert not is_free(way), (way, turn, "upgrade")
        way(mine, fcntl.LOCK_UN)
"#;
    run_for(BUSY, Command::new("python3").arg("-c").arg(script).args(&paths)).ok();
}

/// Proves [S-bounded]: timers of a program end no call on a name, though that waits for the other machine; what asks the program to
/// end does, be it handled.
#[test]
fn a_timer_ends_no_wait_and_a_wish_to_end_does() {
    let site = Site::new();
    let paths = site.share("beside", b"x");
    let script = r#"
import ctypes, errno, os, signal, sys, time
libc = ctypes.CDLL(None, use_errno=True)
here, there = (os.path.dirname(path) for path in sys.argv[1:3])
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
def call(what, *arguments):
    if what(*arguments) < 0:
        raise OSError(ctypes.get_errno(), what.__name__)
signal.setitimer(signal.ITIMER_REAL, 0.0003, 0.0003)
for turn in range(300):
    mine, other = os.path.join(here, "m"), os.path.join(there, "o")
    for path in (mine, other):
        # Each looks at what the other has just changed, so that each change waits.
        call(libc.mkdir, path.encode(), 0o755)
        call(libc.rmdir, path.encode())
signal.setitimer(signal.ITIMER_REAL, 0)
# Nobody answers any more. The kernel tells of the timer only: that more came afterwards the mount finds out.
os.kill(int(sys.argv[3]), signal.SIGSTOP)
signal.signal(signal.SIGTERM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.2)
child = os.fork()
if child == 0:
    time.sleep(1)
    os.kill(os.getppid(), signal.SIGTERM)
    os._exit(0)
try:
    call(libc.mkdir, os.path.join(here, "o").encode(), 0o755)
    sys.exit("made without an answer")
except OSError as error:
    assert error.errno == errno.EINTR, error
finally:
    os.kill(int(sys.argv[3]), signal.SIGCONT)
"#;
    let server = site.home.1.process.id().to_string();
    run_for(BUSY, Command::new("python3").arg("-c").arg(script).args(&paths).arg(server)).ok();
}

/// Proves [S-wal].
#[test]
fn a_database_with_a_write_ahead_log_is_of_one_machine_at_a_time() {
    let site = Site::new();
    let script = r#"
import os, sqlite3, sys, time
paths = sys.argv[1:3]
def connect(path):
    db = sqlite3.connect(path, timeout=0.2, isolation_level=None)
    return db
a = connect(paths[0])
assert a.execute("pragma journal_mode=wal").fetchone()[0] == "wal"
a.execute("create table t(v)")
for k in range(20):
    a.execute("insert into t values(?)", (k,))
# Programs of one machine share it as ever.
beside = connect(paths[0])
beside.execute("insert into t values(20)")
end = time.time() + 20
while not os.path.exists(paths[1]):
    assert time.time() < end, "the other never sees the file"
    time.sleep(0.05)
b = connect(paths[1])
for _ in range(1):
    try:
        b.execute("insert into t values(1000)")
        raise SystemExit("two machines wrote one write-ahead log")
    except sqlite3.OperationalError as error:
        assert "lock" in str(error), error
a.close()
beside.close()
for k in range(100):
    try:
        b.execute("insert into t values(21)")
        break
    except sqlite3.OperationalError as error:
        assert "lock" in str(error), error
        time.sleep(0.1)
assert b.execute("select count(*), count(distinct v) from t").fetchone() == (22, 22)
b.close()
a = connect(paths[0])
assert a.execute("select count(*) from t").fetchone()[0] == 22
assert a.execute("pragma integrity_check").fetchone()[0] == "ok"
a.close()
"#;
    let paths = [0, 1].map(|client| site.root(client).join("w.db"));
    let mut python = Command::new("python3");
    run_for(BUSY, python.arg("-c").arg(script).args(&paths)).ok();
    assert_eq!(names(&site.root(0)), ["w.db"], "no conflict copy");
}

/// Two connections, by two mounts; the process of the first mount stands still while the second one writes.
const AWAY_SCRIPT: &str = r#"
import os, signal, sqlite3, subprocess, sys, time
def connect(path):
    return sqlite3.connect(path, timeout=0.2, isolation_level=None)
def soon(what):
    end = time.time() + 90
    while True:
        try:
            return what()
        except (sqlite3.OperationalError, OSError) as error:
            assert time.time() < end, error
            time.sleep(0.2)
other = sys.argv[1] + ".other"
with open(other, "wb") as file:
    file.write(bytes(range(256)) * 4096)
a = connect(sys.argv[1])
assert a.execute("pragma journal_mode=wal").fetchone()[0] == "wal"
a.execute("create table t(v)")
for k in range(20):
    a.execute("insert into t values(?)", (k,))
soon(lambda: os.stat(sys.argv[2]))
os.kill(int(sys.argv[3]), signal.SIGSTOP)
try:
    b = connect(sys.argv[2])
    soon(lambda: b.execute("insert into t values(1000)"))
finally:
    os.kill(int(sys.argv[3]), signal.SIGCONT)
kept = b.execute("select count(*) from t").fetchone()[0]
assert kept == 21, kept
# An empty log is the one into which a copy would be shared.
assert b.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0
# From the moment at which it is back, it is told. Before that it works offline.
open(sys.argv[2] + ".seen", "w").close()
soon(lambda: os.stat(sys.argv[1] + ".seen"))
os.remove(sys.argv[2] + ".seen")
try:
    a.execute("insert into t values(2000)")
    sys.exit("written into a log that another machine has")
except sqlite3.OperationalError as error:
    print("told:", error)
# Neither does a program get in beside the connection.
by = """
import errno, os, sys
source, database = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[2], os.O_RDWR)
log = os.open(sys.argv[2] + '-wal', os.O_RDWR)
assert os.fstat(log).st_size == 0
for change in (
    lambda: os.copy_file_range(source, log, 1 << 20),
    lambda: os.pwrite(database, b'x', 0),
    lambda: os.posix_fallocate(database, 0, 1 << 20),
    lambda: os.ftruncate(database, 0),
):
    try:
        sys.exit(f'done to a database that another machine has: {change()}')
    except OSError as error:
        assert error.errno == errno.EIO, error
"""
subprocess.run([sys.executable, "-c", by, other, sys.argv[1]], check=True)
os.remove(other)
soon(lambda: b.execute("insert into t values(1001)"))
b.close()
a.close()
a = soon(lambda: connect(sys.argv[1]))
rows = soon(lambda: a.execute("select count(*), max(v) from t").fetchone())
assert rows == (22, 1001), rows
assert a.execute("pragma integrity_check").fetchone()[0] == "ok"
a.close()
"#;

/// Proves [S-wal], where the machine that has the database loses it: it was away for a lease, and another machine wrote meanwhile.
/// Its connection, which stayed open, must hear of that before it writes what the other does not know of.
#[test]
fn who_was_away_while_another_wrote_a_write_ahead_log_hears_of_it_first() {
    let site = Site::new();
    let paths = [0, 1].map(|client| site.root(client).join("w.db"));
    let away = site.clients[0].1.process.id().to_string();
    let mut python = Command::new("python3");
    run_for(BUSY, python.arg("-c").arg(AWAY_SCRIPT).args(&paths).arg(away)).ok();
    assert_eq!(names(&site.root(0)), ["w.db"], "no conflict copy");
}
