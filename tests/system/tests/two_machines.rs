//! Programs on two machines at one server, without locks of the system: what one did the other sees, and names are made once.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use wayfs_system_tests::{Site, busy, eventually, run_for, turns, within};

/// Longest time for a workload on a busy machine.
const BUSY: Duration = Duration::from_secs(120);
/// Longest time for news to travel.
const SOON: Duration = Duration::from_secs(20);
/// How often a file is replaced while another machine reads it.
const REPLACED: usize = 150;

fn names(root: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
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

/// Proves [S-close-open]: kernels of both keep what both look at, until one changes it.
#[test]
fn what_the_kernels_of_two_machines_keep_ends_with_the_next_change() {
    let site = Site::new();
    for turn in 0..30 {
        let at = |client: usize| site.root(client).join(format!("d{turn}"));
        let (here, there) = (at(turn % 2), at((turn + 1) % 2));
        fs::create_dir(&here).unwrap();
        fs::write(here.join("f"), "one").unwrap();
        for _ in 0..3 {
            for place in [&there, &here] {
                assert_eq!(names(place), ["f"], "turn {turn}");
                assert_eq!(fs::metadata(place.join("f")).unwrap().len(), 3, "turn {turn}");
                assert!(!place.join("g").exists(), "turn {turn}");
            }
        }
        match turn % 5 {
            0 => fs::write(here.join("f"), "another").unwrap(),
            1 => fs::write(here.join("g"), "").unwrap(),
            2 => fs::remove_file(here.join("f")).unwrap(),
            3 => fs::rename(here.join("f"), here.join("g")).unwrap(),
            _ => fs::create_dir(here.join("g")).unwrap(),
        }
        let (f, g) = [(Some(7), false), (Some(3), true), (None, false), (None, true), (Some(3), true)][turn % 5];
        assert_eq!(fs::metadata(there.join("f")).ok().map(|found| found.len()), f, "turn {turn}");
        assert_eq!(there.join("g").exists(), g, "turn {turn}");
        assert_eq!(names(&there).len(), usize::from(f.is_some()) + usize::from(g), "turn {turn}");
        fs::write(there.join("g-too"), "").unwrap();
        assert!(here.join("g-too").exists() && names(&here).contains(&"g-too".to_owned()), "turn {turn}");
    }
}

/// What is done to a file of three bytes: then how long it is, and whether the other name is there.
type Way = (&'static str, fn(&Path), (Option<u64>, bool));

/// Proves [S-close-open]: what a kernel keeps of what its own machine made, where others made changes just before, ends with their next one.
#[test]
fn what_a_kernel_keeps_of_its_own_ends_with_the_others_change() {
    let site = Site::new();
    let ways: [Way; 6] = [
        (
            "save by rename",
            |at| fs::write(at.join("t"), "longer").and_then(|()| fs::rename(at.join("t"), at.join("f"))).unwrap(),
            (Some(6), false),
        ),
        ("write in place", |at| fs::write(at.join("f"), "other").unwrap(), (Some(5), false)),
        ("cut", |at| File::options().write(true).open(at.join("f")).unwrap().set_len(1).unwrap(), (Some(1), false)),
        ("make", |at| fs::write(at.join("n"), "").unwrap(), (Some(3), true)),
        ("remove", |at| fs::remove_file(at.join("f")).unwrap(), (None, false)),
        ("rename", |at| fs::rename(at.join("f"), at.join("n")).unwrap(), (None, true)),
    ];
    for (way, change, wanted) in ways {
        let (here, there) = (site.root(0).join(way), site.root(1).join(way));
        fs::create_dir(&here).unwrap();
        assert!(names(&there).is_empty());
        for turn in 0..6 {
            let _ = fs::remove_file(here.join("n"));
            fs::write(here.join("f"), "one").unwrap();
            for _ in 0..2 {
                assert_eq!(fs::metadata(here.join("f")).unwrap().len(), 3, "{way}, turn {turn}");
                assert!(!here.join("n").exists(), "{way}, turn {turn}");
            }
            // Until this machine has the directory alone.
            std::thread::sleep(Duration::from_millis(200));
            assert_eq!(fs::metadata(here.join("f")).unwrap().len(), 3, "{way}, turn {turn}");
            assert!(!here.join("n").exists(), "{way}, turn {turn}");
            change(&there);
            let found = (fs::metadata(here.join("f")).ok().map(|found| found.len()), here.join("n").exists());
            assert_eq!(found, wanted, "{way}, turn {turn}");
        }
    }
}

/// Proves [S-close-open]: nobody makes anything below what was the name of a directory, be it that his kernel had kept it.
#[test]
fn nothing_is_made_below_the_former_name_of_a_directory() {
    let site = Site::new();
    for turn in 0..12 {
        let [here, there] = [turn % 2, (turn + 1) % 2].map(|client| site.root(client).join("above"));
        fs::create_dir_all(here.join("d")).unwrap();
        fs::write(here.join("d/f"), "one").unwrap();
        assert_eq!(names(&there), ["d"], "turn {turn}");
        // Whoever changed a directory last has it alone, and its kernel keeps what it is told.
        fs::write(here.join("own"), "").and_then(|()| fs::remove_file(here.join("own"))).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        fs::metadata(here.join("d/f")).unwrap();
        fs::rename(there.join("d"), there.join("e")).unwrap();
        assert!(fs::write(here.join("d/g"), "").is_err(), "turn {turn}");
        fs::rename(here.join("e"), here.join("d")).unwrap();
        assert_eq!(names(&there.join("d")), ["f"], "turn {turn}");
    }
}

/// Proves [S-exclusive]: of two machines that make a name one does, by whatever call.
#[test]
fn of_two_machines_that_make_one_name_one_does() {
    names_made_by_both(&Site::new());
}

/// Proves [S-exclusive-mode]: of two machines at two stations, too.
#[test]
fn of_two_machines_at_two_stations_that_make_one_name_one_does() {
    names_made_by_both(&Site::apart());
}

fn names_made_by_both(site: &Site) {
    let script = r#"
import os, sys, threading, time
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
end = time.time() + 20
for root in roots:
    while sorted(os.listdir(root)) != ["own-0", "own-1"]:
        assert time.time() < end, os.listdir(root)
        time.sleep(0.05)
"#;
    let roots = [0, 1].map(|client| site.root(client));
    run_for(BUSY, Command::new("python3").arg("-c").arg(script).args(&roots)).ok();
}

/// Two threads, one on each mount: a counter under a lock file, a mail folder, pushes to one repository.
const LOCK_FILES_GIT_AND_MAIL: &str = r#"
import os, subprocess, sys, threading, time
roots = sys.argv[1:3]
turns = lambda usual: int(os.environ.get("WAYFS_PROGRAM_ROUNDS", usual))
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
def soon(check):
    end = time.time() + 20
    while not check():
        assert time.time() < end
        time.sleep(0.05)
# A counter, and a lock file beside it.
open(roots[0] + "/count", "w").write("0")
def count(n):
    for _ in range(turns(25)):
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
soon(lambda: int(open(roots[1] + "/count").read()) == 2 * turns(25))
# A mail folder: written in tmp, linked into new.
for name in ("mail", "mail/tmp", "mail/new"):
    os.mkdir(roots[0] + "/" + name)
    soon(lambda: os.path.exists(roots[1] + "/" + name))
def deliver(n):
    for turn in range(turns(25)):
        name = "%d.%d" % (n, turn)
        with open(roots[n] + "/mail/tmp/" + name, "w") as file:
            file.write("mail " + name)
        os.link(roots[n] + "/mail/tmp/" + name, roots[n] + "/mail/new/" + name)
        os.unlink(roots[n] + "/mail/tmp/" + name)
both(deliver)
for root in roots:
    soon(lambda: len(os.listdir(root + "/mail/new")) == 2 * turns(25) and not os.listdir(root + "/mail/tmp"))
# Both push to one repository.
environment = dict(os.environ, GIT_CONFIG_NOSYSTEM="1", GIT_AUTHOR_NAME="n", GIT_AUTHOR_EMAIL="a@b.c",
    GIT_COMMITTER_NAME="n", GIT_COMMITTER_EMAIL="a@b.c", HOME=sys.argv[3])
def git(directory, *arguments, check=True):
    return subprocess.run(("git", "-C", directory) + arguments, env=environment, check=check,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
git(roots[0], "init", "-q", "--bare", "-b", "main", "shared.git")
soon(lambda: git(roots[1], "--git-dir=shared.git", "rev-parse", "--git-dir", check=False).returncode == 0)
def push(n):
    own = "%s/own-%d" % (sys.argv[3], n)
    git(roots[n], "clone", "-q", roots[n] + "/shared.git", own)
    git(own, "checkout", "-q", "-b", "from-%d" % n)
    for turn in range(turns(5)):
        git(own, "commit", "-q", "--allow-empty", "-m", "turn %d" % turn)
        end = time.time() + 60
        while git(own, "push", "-q", "origin", "from-%d" % n, check=False).returncode != 0:
            assert time.time() < end, git(own, "push", "origin", "from-%d" % n, check=False).stdout
both(push)
for root in roots:
    for n in range(2):
        soon(lambda: git(root + "/shared.git", "rev-list", "--count", "from-%d" % n, check=False).stdout.strip() == str(turns(5)))
    git(root + "/shared.git", "fsck", "--strict")
for root in roots:
    litter = [name for _, _, names in os.walk(root) for name in names if ".conflict-" in name]
    assert not litter, litter
"#;

/// Proves [S-exclusive]: a counter under a lock file, git pushes from both, a mail folder, an editor's save.
#[test]
fn programs_without_locks_of_the_system_work_on_two_machines() {
    programs_without_locks(&Site::new());
}

/// Proves [S-exclusive-mode]: the same at two stations.
#[test]
fn programs_without_locks_of_the_system_work_at_two_stations() {
    programs_without_locks(&Site::apart());
}

fn programs_without_locks(site: &Site) {
    let home = site.clients[0].0.path("home");
    let roots = [0, 1].map(|client| site.root(client));
    run_for(busy(BUSY), Command::new("python3").arg("-c").arg(LOCK_FILES_GIT_AND_MAIL).args(&roots).arg(home)).ok();
}

/// Proves [S-append].
#[test]
fn lines_that_two_machines_append_are_all_there_once() {
    lines_of_both(&Site::new());
}

/// Proves [S-exclusive-mode].
#[test]
fn lines_that_machines_at_two_stations_append_are_all_there_once() {
    lines_of_both(&Site::apart());
}

fn lines_of_both(site: &Site) {
    let count = turns(60) as usize;
    let paths = site.share("log", b"begin\n");
    let workers = [0, 1].map(|client| {
        let path = paths[client].clone();
        std::thread::spawn(move || {
            let append = || OpenOptions::new().append(true).open(&path).unwrap();
            let mut kept = append();
            for line in 0..count {
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
    within("both append", busy(BUSY), move || workers.map(|worker| worker.join().unwrap()));
    let (here, there) = (paths[0].clone(), paths[1].clone());
    eventually("both see the same", SOON, move || {
        let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let (one, other) = (read(&here), read(&there));
        one == other && one.lines().count() == 2 * count + 1
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

/// What both scripts below need.
const BOTH: &str = r#"
import os, subprocess, sys, threading, time
roots = sys.argv[1:3]
turns = lambda usual: int(os.environ.get("WAYFS_PROGRAM_ROUNDS", usual))
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
def no_litter():
    for root in roots:
        litter = [name for _, _, names in os.walk(root) for name in names if ".conflict-" in name]
        assert not litter, litter
"#;

fn on_both(site: &Site, script: &str) {
    let roots = [0, 1].map(|client| site.root(client));
    let script = format!("{BOTH}{script}");
    run_for(busy(BUSY), Command::new("python3").arg("-c").arg(script).args(&roots)).ok();
}

/// Two machines build parts of one tree at once; then one builds what depends on both.
#[test]
fn make_builds_one_tree_on_two_machines() {
    let site = Site::new();
    on_both(
        &site,
        r#"
PARTS = 12
def tree(root):
    rules = ["all: left right\n\tcat left right > all\n"]
    for n, side in enumerate(("left", "right")):
        objects = ["%s-%d.o" % (side, k) for k in range(PARTS)]
        rules.append("%s: %s\n\tcat %s > %s\n" % (side, " ".join(objects), " ".join(objects), side))
        for k, name in enumerate(objects):
            rules.append("%s: %s-%d.c common.h\n\tcat common.h $< > $@.new && mv $@.new $@\n" % (name, side, k))
    with open(root + "/Makefile", "w") as file:
        file.write("\n".join(rules))
    for side in ("left", "right"):
        for k in range(PARTS):
            with open("%s/%s-%d.c" % (root, side, k), "w") as file:
                file.write("%s %d\n" % (side, k))
def make(n, *targets):
    done = subprocess.run(("make", "-s", "-j4", "-C", roots[n]) + targets, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
tree(roots[0])
for turn in range(turns(4)):
    writer = turn % 2
    with open(roots[writer] + "/common.h", "w") as file:
        file.write("common %d\n" % turn)
    both(lambda n: make(n, ("left", "right")[n]))
    make(1 - writer, "all")
    text = open(roots[writer] + "/all").read()
    assert text.count("common %d\n" % turn) == 2 * PARTS, text
    # Nothing is left to do, on either machine: times agree.
    for n in range(2):
        done = subprocess.run(("make", "-q", "-C", roots[n], "all"))
        assert done.returncode == 0, (turn, n)
no_litter()
"#,
    );
}

/// The ways in which editors and office programs save, in turns on two machines.
#[test]
fn saves_of_editors_in_turns_lose_nothing() {
    let site = Site::new();
    on_both(
        &site,
        r#"
def write(path, text, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    fd = os.open(path, flags, 0o644)
    os.write(fd, text.encode())
    os.fsync(fd)
    os.close(fd)
def vim(root, text):
    write(root + "/4913", "", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.unlink(root + "/4913")
    os.rename(root + "/text", root + "/text~")
    write(root + "/text", text)
    os.unlink(root + "/text~")
def gedit(root, text):
    write(root + "/.goutputstream-X", text, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.rename(root + "/.goutputstream-X", root + "/text")
def emacs(root, text):
    if not os.path.exists(root + "/text~"):
        os.link(root + "/text", root + "/text~")
    write(root + "/#text#", text)
    write(root + "/text", text)
    os.unlink(root + "/#text#")
    os.unlink(root + "/text~")
def office(root, text):
    write(root + "/.~lock.text#", "me", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    write(root + "/lu1.tmp", text)
    os.rename(root + "/text", root + "/text.bak")
    os.rename(root + "/lu1.tmp", root + "/text")
    os.unlink(root + "/text.bak")
    os.unlink(root + "/.~lock.text#")
def in_place(root, text):
    write(root + "/text", text)
write(roots[0] + "/text", "0")
text = "0"
for turn in range(turns(60)):
    n = turn % 2
    found = open(roots[n] + "/text").read()
    assert found == text, (turn, found, text)
    text = "turn %d " % turn * (turn % 60 * 40)
    (vim, gedit, emacs, office, in_place)[turn % 5](roots[n], text)
for root in roots:
    assert os.listdir(root) == ["text"], os.listdir(root)
"#,
    );
}

/// As package managers do: a status file under a lock file, renamed into place, with a log that is appended to.
#[test]
fn two_package_managers_take_turns_by_a_lock_file() {
    let site = Site::new();
    on_both(
        &site,
        r#"
write = lambda path, text: open(path, "w").write(text)
write(roots[0] + "/status", "")
def install(n):
    root = roots[n]
    for turn in range(turns(15)):
        while True:
            try:
                os.close(os.open(root + "/lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
                break
            except FileExistsError:
                time.sleep(0.001)
        lines = open(root + "/status").read().splitlines()
        lines.append("package %d-%d" % (n, turn))
        with open(root + "/status-new", "w") as file:
            file.write("\n".join(lines) + "\n")
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(root + "/status-old"):
            os.unlink(root + "/status-old")
        os.link(root + "/status", root + "/status-old")
        os.rename(root + "/status-new", root + "/status")
        with open(root + "/log", "a") as log:
            log.write("installed %d-%d\n" % (n, turn))
        os.unlink(root + "/lock")
both(install)
wanted = sorted("package %d-%d" % (n, turn) for n in range(2) for turn in range(turns(15)))
for root in roots:
    assert sorted(open(root + "/status").read().split("\n")[:-1]) == wanted
    assert len(open(root + "/log").read().splitlines()) == 2 * turns(15)
no_litter()
"#,
    );
}

/// Proves [S-unlinked]: who opens a name over which another machine renames files gets the old file or the new one, whole, and none that
/// was replaced before it asked. It was told `ESTALE`, where two were renamed over it during its walk, and `ETIMEDOUT`: the station was asked
/// for what it does not have again and again.
#[test]
fn a_reader_finds_a_whole_file_while_another_machine_replaces_it() {
    let site = Site::new();
    let [path, seen] = site.share("config", &text_of(0));
    let (replaced, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut reads = 0;
            while !is_over.load(Ordering::SeqCst) {
                let before = replaced.load(Ordering::SeqCst);
                let found = fs::read(&seen).unwrap_or_else(|error| panic!("after {reads} reads: {error}"));
                let turn = (0..=REPLACED).find(|turn| found == text_of(*turn));
                assert!(turn.is_some_and(|turn| turn >= before), "read {reads}, asked after {before}: {found:?}");
                reads += 1;
            }
        });
        for turn in 1..=REPLACED {
            fs::write(site.root(0).join("fresh"), text_of(turn)).unwrap();
            fs::rename(site.root(0).join("fresh"), &path).unwrap();
            replaced.store(turn, Ordering::SeqCst);
        }
        is_over.store(true, Ordering::SeqCst);
        reading.join().unwrap();
    });
}

/// A file that says all through which one it is.
fn text_of(turn: usize) -> Vec<u8> {
    format!("{turn:>4}").repeat(75).into_bytes()
}
