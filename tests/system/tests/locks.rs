//! Locks between programs on two machines at one server, and what they order.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wayfs_system_tests::{Machine, Mount, Server, eventually, free_port, run_for, within};

/// Longest time for a workload on a busy machine.
const BUSY: Duration = Duration::from_secs(120);
/// Longest time for news to travel.
const SOON: Duration = Duration::from_secs(20);

/// A home and two clients that are connected to it: there is no other server that one of them could move to.
struct Site {
    _home: (Machine, Server),
    clients: [(Machine, Mount); 2],
}

impl Site {
    fn new() -> Self {
        let machine = Machine::new("home");
        let home = machine.serve(free_port(), &[]);
        home.wayfs(&machine, &["volume", "create", "work"]).ok();
        let clients = ["ann", "bob"].map(|name| {
            let client = Machine::new(name);
            // The way to a server on a busy machine may look far.
            let mount = client.mount(&home.ticket(&machine, "work"), &["--sharing", "close-to-open"]);
            (client, mount)
        });
        Self { _home: (machine, home), clients }
    }

    fn root(&self, client: usize) -> PathBuf {
        self.clients[client].1.root().to_owned()
    }

    /// Puts a file where both see it.
    fn share(&self, name: &str, bytes: &[u8]) -> [PathBuf; 2] {
        let paths = [0, 1].map(|client| self.root(client).join(name));
        // For reading, too: what is written only may be written past the daemon, and whoever opens it to write before that
        // handle is gone keeps what it opened (the exception of [S-remote-change]).
        let mut file = File::options().read(true).write(true).create_new(true).open(&paths[0]).unwrap();
        file.write_all(bytes).unwrap();
        file.sync_all().unwrap();
        let (there, wanted) = (paths[1].clone(), bytes.to_vec());
        eventually("both see the file", SOON, move || fs::read(&there).is_ok_and(|found| found == wanted));
        paths
    }
}

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

#[derive(Clone, Copy)]
enum Way {
    Flock,
    Record,
    /// The file is closed with the lock held.
    Close,
}

fn counted_by_both(site: &Site, name: &str, way: Way) {
    const ROUNDS: u64 = 50;
    let paths = site.share(name, format!("{:>12}\n", 0).as_bytes());
    let workers = paths.clone().map(|path| {
        std::thread::spawn(move || {
            let mut kept = open(&path);
            for _ in 0..ROUNDS {
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
    within("both count", BUSY, move || workers.map(|worker| worker.join().unwrap()));
    // The last count came from one of them, and the other learns of it with the lock.
    let mut last = open(&paths[0]);
    match way {
        Way::Flock | Way::Close => rustix::fs::flock(&last, rustix::fs::FlockOperation::LockShared).unwrap(),
        Way::Record => rustix::fs::fcntl_lock(&last, rustix::fs::FlockOperation::LockShared).unwrap(),
    }
    let mut text = String::new();
    last.read_to_string(&mut text).unwrap();
    let copies = names(&site.root(0));
    assert_eq!(text.trim(), (2 * ROUNDS).to_string(), "counts were lost, of {copies:?}");
}

/// Proves [S-lock-order], [S-locks].
#[test]
fn a_counter_under_a_lock_loses_no_count_between_two_machines() {
    let site = Site::new();
    counted_by_both(&site, "flock", Way::Flock);
    counted_by_both(&site, "record", Way::Record);
    counted_by_both(&site, "close", Way::Close);
    assert_eq!(names(&site.root(1)), ["close", "flock", "record"]);
}

/// Proves [S-lock-order]: the default journal of SQLite, in turns and with both at once.
#[test]
fn sqlite_loses_no_transaction_between_two_machines() {
    let site = Site::new();
    let script = r#"
import os, sqlite3, sys, threading, time
paths = sys.argv[1:3]
def connect(path):
    return sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
dbs = [connect(paths[0])]
dbs[0].execute("create table t(v)")
end = time.time() + 20
while not os.path.exists(paths[1]):
    assert time.time() < end, "the other never sees the file"
    time.sleep(0.05)
dbs.append(connect(paths[1]))
for k in range(40):
    dbs[k % 2].execute("insert into t values(?)", (k,))
    got = dbs[(k + 1) % 2].execute("select count(*) from t").fetchone()[0]
    assert got == k + 1, (k, got)
def work(n):
    db = connect(paths[n])
    for k in range(20):
        db.execute("insert into t values(?)", (1000 * (n + 1) + k,))
threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
for db in dbs:
    assert db.execute("select count(*), count(distinct v) from t").fetchone() == (80, 80)
    assert db.execute("pragma integrity_check").fetchone()[0] == "ok"
"#;
    let paths = [0, 1].map(|client| site.root(client).join("t.db"));
    let mut python = Command::new("python3");
    run_for(BUSY, python.arg("-c").arg(script).args(&paths)).ok();
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

/// What one machine closes, makes and removes the other sees at its next look, in turns and without a pause.
fn look_after_change(site: &Site, name: &str) {
    let directories = [0, 1].map(|client| site.root(client).join(name));
    fs::create_dir(&directories[0]).unwrap();
    for turn in 0..60 {
        let (here, there) = (&directories[turn % 2], &directories[(turn + 1) % 2]);
        let file = format!("file-{}", turn / 4);
        let text = format!("text of turn {turn}").repeat(1 + turn % 7);
        fs::write(here.join(&file), &text).unwrap();
        assert_eq!(fs::read_to_string(there.join(&file)).unwrap(), text, "turn {turn}");
        assert_eq!(fs::metadata(there.join(&file)).unwrap().len(), text.len() as u64, "turn {turn}");
        fs::rename(here.join(&file), here.join("moved")).unwrap();
        assert!(!there.join(&file).exists(), "turn {turn}");
        assert!(names(there).contains(&"moved".to_owned()), "turn {turn}");
        fs::create_dir(there.join("made")).unwrap();
        assert!(here.join("made").is_dir(), "turn {turn}");
        fs::remove_dir(here.join("made")).unwrap();
        assert!(!there.join("made").exists(), "turn {turn}");
    }
}

/// Proves [S-close-open].
#[test]
fn what_one_machine_closed_the_other_sees_at_its_next_look() {
    let site = Site::new();
    let shared = std::thread::scope(|scope| scope.spawn(|| look_after_change(&site, "small")).join());
    shared.unwrap();
    // Large files are hashed after their close, and looked at before that is done.
    for turn in 0..8 {
        let (here, there) = (site.root(turn % 2).join("large"), site.root((turn + 1) % 2).join("large"));
        let bytes = vec![turn as u8; 3 << 20];
        fs::write(&here, &bytes).unwrap();
        assert!(fs::read(&there).unwrap() == bytes, "turn {turn}");
    }
    assert_eq!(names(&site.root(0)), ["large", "small"]);
}

/// Proves [S-exclusive]: of two machines that make a name one does, by whatever call.
#[test]
fn of_two_machines_that_make_one_name_one_does() {
    let site = Site::new();
    let script = r#"
import os, sys, threading
roots = sys.argv[1:3]
for n, root in enumerate(roots):
    open(root + "/own-%d" % n, "w").close()
ways = {
    "create": lambda root, n, name: os.close(os.open(root + "/" + name, os.O_CREAT | os.O_EXCL | os.O_WRONLY)),
    "mkdir": lambda root, n, name: os.mkdir(root + "/" + name),
    "link": lambda root, n, name: os.link(root + "/own-%d" % n, root + "/" + name),
}
for turn in range(40):
    for way, make in ways.items():
        name, won, gate = "%s-%d" % (way, turn), [], threading.Barrier(2)
        def work(n):
            gate.wait()
            try:
                make(roots[n], n, name)
                won.append(n)
            except FileExistsError:
                pass
        threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert len(won) == 1, (name, won)
        other = roots[1 - won[0]] + "/" + name
        assert os.path.lexists(other), name
        os.rmdir(other) if way == "mkdir" else os.unlink(other)
assert sorted(os.listdir(roots[0])) == ["own-0", "own-1"], os.listdir(roots[0])
assert sorted(os.listdir(roots[1])) == ["own-0", "own-1"], os.listdir(roots[1])
"#;
    let roots = [0, 1].map(|client| site.root(client));
    run_for(BUSY, Command::new("python3").arg("-c").arg(script).args(&roots)).ok();
}

/// Proves [S-exclusive]: a counter under a lock file, git pushes from both, a mail folder, an editor's save.
#[test]
fn programs_without_locks_of_the_system_work_on_two_machines() {
    let site = Site::new();
    let script = r#"
import os, subprocess, sys, threading, time
roots = sys.argv[1:3]
def both(work):
    failed = []
    def run(n):
        try:
            work(n)
        except BaseException as error:
            failed.append(repr(error))
    threads = [threading.Thread(target=run, args=(n,)) for n in range(2)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not failed, failed
# A counter, and a lock file beside it.
open(roots[0] + "/count", "w").write("0")
def count(n):
    for _ in range(25):
        while True:
            try:
                os.close(os.open(roots[n] + "/count.lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                break
            except FileExistsError:
                time.sleep(0.001)
        value = int(open(roots[n] + "/count").read())
        with open(roots[n] + "/count.new", "w") as file:
            file.write(str(value + 1))
        os.rename(roots[n] + "/count.new", roots[n] + "/count")
        os.unlink(roots[n] + "/count.lock")
both(count)
assert open(roots[1] + "/count").read() == "50", open(roots[1] + "/count").read()
# A mail folder: written in tmp, linked into new.
for name in ("mail", "mail/tmp", "mail/new"):
    os.mkdir(roots[0] + "/" + name)
def deliver(n):
    for turn in range(25):
        name = "%d.%d" % (n, turn)
        with open(roots[n] + "/mail/tmp/" + name, "w") as file:
            file.write("mail " + name)
        os.link(roots[n] + "/mail/tmp/" + name, roots[n] + "/mail/new/" + name)
        os.unlink(roots[n] + "/mail/tmp/" + name)
both(deliver)
for root in roots:
    assert len(os.listdir(root + "/mail/new")) == 50 and not os.listdir(root + "/mail/tmp")
# Both push to one repository.
environment = dict(os.environ, GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_NAME="n", GIT_AUTHOR_EMAIL="a@b.c",
    GIT_COMMITTER_NAME="n", GIT_COMMITTER_EMAIL="a@b.c", HOME=sys.argv[3])
def git(directory, *arguments, check=True):
    return subprocess.run(("git", "-C", directory) + arguments, env=environment, check=check,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
git(roots[0], "init", "-q", "--bare", "-b", "main", "shared.git")
def push(n):
    own = "%s/own-%d" % (sys.argv[3], n)
    git(roots[n], "clone", "-q", roots[n] + "/shared.git", own)
    git(own, "checkout", "-q", "-b", "from-%d" % n)
    for turn in range(5):
        git(own, "commit", "-q", "--allow-empty", "-m", "turn %d" % turn)
        end = time.time() + 60
        while git(own, "push", "-q", "origin", "from-%d" % n, check=False).returncode != 0:
            assert time.time() < end, git(own, "push", "origin", "from-%d" % n, check=False).stdout
both(push)
for root in roots:
    for n in range(2):
        assert git(root + "/shared.git", "rev-list", "--count", "from-%d" % n).stdout.strip() == "5"
    git(root + "/shared.git", "fsck", "--strict")
for root in roots:
    litter = [name for _, _, names in os.walk(root) for name in names if ".conflict-" in name]
    assert not litter, litter
"#;
    let home = site.clients[0].0.path("home");
    let roots = [0, 1].map(|client| site.root(client));
    run_for(BUSY, Command::new("python3").arg("-c").arg(script).args(&roots).arg(home)).ok();
}

/// Proves [S-append].
#[test]
fn lines_that_two_machines_append_are_all_there_once() {
    const LINES: usize = 60;
    let site = Site::new();
    let paths = site.share("log", b"begin\n");
    let workers = [0, 1].map(|client| {
        let path = paths[client].clone();
        std::thread::spawn(move || {
            let append = || OpenOptions::new().append(true).open(&path).unwrap();
            let mut kept = append();
            for line in 0..LINES {
                let text = format!("{client} {line}\n");
                if line % 3 == 0 {
                    // As daemons write their logs.
                    kept.write_all(text.as_bytes()).unwrap();
                    kept.sync_all().unwrap();
                } else {
                    // As shells do with `>>`.
                    append().write_all(text.as_bytes()).unwrap();
                }
            }
        })
    });
    within("both append", BUSY, move || workers.map(|worker| worker.join().unwrap()));
    let (here, there) = (paths[0].clone(), paths[1].clone());
    eventually("both see the same", SOON, move || {
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let (one, other) = (read(&here), read(&there));
        one == other && one.lines().count() == 2 * LINES + 1
    });
    let found = fs::read_to_string(&paths[0]).unwrap();
    let mut of_each = [0, 0];
    for line in found.lines().skip(1) {
        let (client, number) = line.split_once(' ').unwrap();
        let next = &mut of_each[client.parse::<usize>().unwrap()];
        assert_eq!(number.parse::<usize>().unwrap(), *next, "each line once, in the order of its machine");
        *next += 1;
    }
    assert_eq!(names(&site.root(0)), ["log"], "no conflict copy");
}

/// Proves [S-remote-change].
#[test]
fn whoever_follows_a_large_log_sees_what_another_machine_appends() {
    let site = Site::new();
    let paths = site.share("big.log", &vec![b'.'; 600_000]);
    // The first reader fills the cache; from then on the kernel reads the file without the daemon.
    fs::read(&paths[1]).unwrap();
    let mut follower = File::open(&paths[1]).unwrap();
    let mapped = File::open(&paths[1]).unwrap();
    follower.seek(SeekFrom::End(0)).unwrap();
    for round in 0..5 {
        let line = format!("line {round}\n");
        OpenOptions::new().append(true).open(&paths[0]).unwrap().write_all(line.as_bytes()).unwrap();
        let mut found = Vec::new();
        eventually("the line is read through the open handle", SOON, || {
            follower.read_to_end(&mut found).unwrap();
            found == line.as_bytes()
        });
        let len = follower.metadata().unwrap().len();
        assert_eq!(follower.stream_position().unwrap(), len, "size and bytes of one handle agree");
    }
    // An edit in the middle, too.
    let edit = OpenOptions::new().read(true).write(true).open(&paths[0]).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&edit, b"EDITED", 300_000).unwrap();
    drop(edit);
    eventually("the edit is read through an old handle", SOON, || {
        let mut bytes = [0; 6];
        std::os::unix::fs::FileExt::read_exact_at(&mapped, &mut bytes, 300_000).unwrap();
        &bytes == b"EDITED"
    });
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
