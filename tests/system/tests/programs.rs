//! Real programs at work in a mount: version control, archives, databases, compilers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;
use wayfs_system_tests::{Finished, Machine, Mount, Server, free_port, run_for, within};

/// A home and a mount beside it. The daemons end with this process.
struct World {
    home: Machine,
    _server: Server,
    client: Machine,
    mount: Mount,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let home = Machine::new("home");
    let server = home.serve(free_port(), &[]);
    server.wayfs(&home, &["volume", "create", "work"]).ok();
    let ticket = server.ticket(&home, "work");
    let client = Machine::new("client");
    let mount = client.mount(&ticket, &[]);
    World { home, _server: server, client, mount }
});

/// Longest time for one program.
const PROGRAM: Duration = Duration::from_secs(120);

fn in_directory(name: &str) -> PathBuf {
    let directory = WORLD.mount.path(name);
    let made = directory.clone();
    within("make a directory", Duration::from_secs(20), move || fs::create_dir(made).expect("make a directory"));
    directory
}

/// Whether a program is on this machine; a missing one is said aloud.
fn have(program: &str) -> bool {
    let found =
        Command::new("sh").args(["-c", &format!("command -v {program}")]).output().is_ok_and(|o| o.status.success());
    if !found {
        println!("skipped: {program} is not installed here");
    }
    found
}

fn shell(directory: &Path, script: &str) -> Finished {
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script]).current_dir(directory);
    command.env("HOME", WORLD.client.path("home")).env("GIT_CONFIG_NOSYSTEM", "1");
    run_for(PROGRAM, &mut command)
}

/// A source tree outside the mount, made once: 12 directories, 240 files.
fn source() -> PathBuf {
    let root = WORLD.home.path("source");
    if root.exists() {
        return root;
    }
    for directory in 0..12 {
        let directory_path = root.join(format!("dir-{directory}/inner"));
        fs::create_dir_all(&directory_path).unwrap();
        for file in 0..20 {
            let line = format!("line of file {file} in {directory}\n");
            fs::write(directory_path.join(format!("file-{file}.txt")), line.repeat(file * file + 1)).unwrap();
        }
    }
    root
}

#[test]
fn git_works_on_it() {
    if !have("git") {
        return;
    }
    let directory = in_directory("git");
    let script = format!(
        "git config --global user.email a@b.c; git config --global user.name n; git config --global init.defaultBranch main
         cp -r {source} origin && cd origin && git init -q && git add . && git commit -qm first
         git mv dir-0 moved && echo more >> dir-1/inner/file-3.txt && git commit -qam second
         cd .. && git clone -q origin copy && cd copy && git status --porcelain && git log --oneline | wc -l
         git checkout -q -b branch HEAD~1 && git checkout -q main && git gc -q && git fsck --strict
         git status --porcelain && diff -r --exclude=.git . ../origin",
        source = source().display()
    );
    let finished = shell(&directory, &script).ok();
    assert_eq!(finished.out.lines().next(), Some("2"), "a clean status, then two commits: {}", finished.out);
}

#[test]
fn tar_and_rsync_copy_trees_both_ways() {
    let directory = in_directory("tar");
    let script = format!(
        "tar --format=posix -C {source} -cf tree.tar . && mkdir x && tar -C x -xf tree.tar && diff -r {source} x
         tar --compare -C x -f tree.tar",
        source = source().display()
    );
    shell(&directory, &script).ok();
    if have("rsync") {
        let script = format!(
            "rsync -a {source}/ r/ && test -z \"$(rsync -ain --checksum {source}/ r/)\" && echo changed >> r/dir-3/inner/file-4.txt
             rsync -a --inplace {source}/ r/ && diff -r {source} r",
            source = source().display()
        );
        shell(&directory, &script).ok();
    }
}

#[test]
fn a_c_program_is_built_and_run() {
    if !have("cc") || !have("make") {
        return;
    }
    let directory = in_directory("c");
    let script = r#"
        for n in 1 2 3 4 5; do printf 'int f%s(void) { return %s; }\n' $n $n > f$n.c; done
        printf 'int f1(void); int f5(void);\nint main(void) { return f1() + f5() - 6; }\n' > main.c
        printf 'prog: main.o f1.o f2.o f3.o f4.o f5.o\n\tcc -o $@ $^\n%%.o: %%.c\n\tcc -c -o $@ $<\n' > Makefile
        make -s -j2 && ./prog && make -q && sleep 0.01 && touch f1.c && ! make -q && make -s && ./prog"#;
    shell(&directory, script).ok();
}

#[test]
fn sqlite_keeps_its_promises_in_both_journal_modes() {
    if !have("python3") {
        return;
    }
    let directory = in_directory("sqlite");
    let count = 2;
    for mode in ["delete", "wal"] {
        let script = format!(
            r#"
import multiprocessing, sqlite3
def work(number):
    db = sqlite3.connect("{mode}.db", timeout=60, isolation_level=None)
    for round in range(40):
        db.execute("begin immediate")
        db.execute("update counter set n = n + 1")
        db.execute("insert into log values (?, ?)", (number, round))
        db.execute("commit")
    db.close()
if __name__ == "__main__":
    db = sqlite3.connect("{mode}.db")
    assert db.execute("pragma journal_mode={mode}").fetchone()[0] == "{mode}"
    db.execute("create table counter (n integer)"); db.execute("insert into counter values (0)")
    db.execute("create table log (number integer, round integer)"); db.commit(); db.close()
    workers = [multiprocessing.Process(target=work, args=(n,)) for n in range({count})]
    [w.start() for w in workers]; [w.join() for w in workers]
    assert all(w.exitcode == 0 for w in workers)
    db = sqlite3.connect("{mode}.db")
    assert db.execute("select n from counter").fetchone()[0] == 40 * {count}
    assert db.execute("select count(*) from log").fetchone()[0] == 40 * {count}
    assert db.execute("pragma integrity_check").fetchone()[0] == "ok"
"#
        );
        fs::write(directory.join(format!("{mode}.py")), script).unwrap();
        shell(&directory, &format!("python3 {mode}.py")).ok();
    }
}

#[test]
fn shared_memory_maps_are_written_back() {
    if !have("python3") {
        return;
    }
    let directory = in_directory("mmap");
    let script = r#"
import mmap
with open("m", "wb") as f: f.truncate(1 << 20)
with open("m", "r+b") as f:
    m = mmap.mmap(f.fileno(), 0)
    m[5000:5005] = b"hello"; m[(1 << 20) - 1] = 7
    m.flush(); m.close()
data = open("m", "rb").read()
assert len(data) == 1 << 20 and data[5000:5005] == b"hello" and data[-1] == 7
"#;
    fs::write(directory.join("m.py"), script).unwrap();
    shell(&directory, "python3 m.py").ok();
}

#[test]
fn record_locks_exclude_processes() {
    if !have("python3") {
        return;
    }
    let count = 3;
    let directory = in_directory("fcntl");
    let script = format!(
        r#"
import fcntl, multiprocessing
def work(number):
    for _ in range(100):
        with open("counter", "r+") as f:
            fcntl.lockf(f, fcntl.LOCK_EX)
            n = int(f.read()); f.seek(0); f.write(str(n + 1)); f.flush()
            fcntl.lockf(f, fcntl.LOCK_UN)
if __name__ == "__main__":
    open("counter", "w").write("0")
    workers = [multiprocessing.Process(target=work, args=(n,)) for n in range({count})]
    [w.start() for w in workers]; [w.join() for w in workers]
    assert open("counter").read() == str(100 * {count}), open("counter").read()
"#
    );
    fs::write(directory.join("l.py"), script).unwrap();
    shell(&directory, "python3 l.py").ok();
}

#[test]
fn a_shell_appends_redirects_and_finds() {
    let directory = in_directory("shell");
    let script = "echo one > a; echo two >> a; cat < a > b; cmp a b; : > a; test ! -s a
        mkdir -p x/y/z; touch x/y/z/file; test \"$(find . -type f | wc -l)\" = 3
        cp -a x copy; mv copy/y moved; test -e moved/z/file; ln b c; rm b; test \"$(cat c)\" = $'one\\ntwo'
        chmod 600 c; test \"$(stat -c %a c)\" = 600; dd if=/dev/zero of=d bs=64k count=20 status=none; test \"$(stat -c %s d)\" = 1310720
        rm -r x moved copy; test \"$(ls | wc -l)\" = 3";
    shell(&directory, script).ok();
}
