//! Real programs at work in a mount: version control, archives, databases, compilers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::Duration;
use wayfs_system_tests::{Finished, World, run_for};

static WORLD: LazyLock<World> = LazyLock::new(World::default);

/// Longest time for one program.
const PROGRAM: Duration = Duration::from_secs(120);

/// Shells at work at once, and how often each does its work.
const SHELLS: usize = 4;
const SHELL_ROUNDS: usize = 8;

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
    command.args(["-euxo", "pipefail", "-c", script]).current_dir(directory);
    command.env("REAL_HOME", std::env::var_os("HOME").unwrap_or_default());
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
        fs::create_dir_all(&directory_path).expect("make the source");
        for file in 0..20 {
            let line = format!("line of file {file} in {directory}\n");
            fs::write(directory_path.join(format!("file-{file}.txt")), line.repeat(file * file + 1))
                .expect("make the source");
        }
    }
    root
}

#[test]
fn git_works_on_it() {
    if !have("git") {
        return;
    }
    let directory = WORLD.directory("git");
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
    let directory = WORLD.directory("tar");
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
    let directory = WORLD.directory("c");
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
    let directory = WORLD.directory("sqlite");
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
    let directory = WORLD.directory("mmap");
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
    let directory = WORLD.directory("fcntl");
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

/// Several at once and again and again: what a shell looks at right after a close is not what was there before.
#[test]
fn shells_append_redirect_and_find() {
    let script = "echo one > a; echo two >> a; cat < a > b; cmp a b; : > a; test ! -s a
        mkdir -p x/y/z; touch x/y/z/file; test \"$(find . -type f | wc -l)\" = 3
        cp -a x copy; mv copy/y moved; test -e moved/z/file; ln b c; rm b; test \"$(cat c)\" = $'one\\ntwo'
        chmod 600 c; test \"$(stat -c %a c)\" = 600; dd if=/dev/zero of=d bs=64k count=20 status=none; test \"$(stat -c %s d)\" = 1310720
        rm -r x moved copy; test \"$(ls | wc -l)\" = 3";
    std::thread::scope(|threads| {
        for number in 0..SHELLS {
            threads.spawn(move || {
                for round in 0..SHELL_ROUNDS {
                    shell(&WORLD.directory(&format!("shell-{number}-{round}")), script).ok();
                }
            });
        }
    });
}

/// What `:w` does in vim by default (`backupcopy=auto`, `writebackup`), then with `backupcopy=yes`; what emacs, and what
/// editors that use the atomic save of their toolkit do. Owner, mode and bytes are those that were saved.
#[test]
fn the_save_dances_of_editors_keep_every_byte() {
    let directory = WORLD.directory("dances");
    let script = r##"
import os, stat
def put(path, text, mode=0o640, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    f = os.open(path, flags, mode); os.write(f, text); os.fsync(f); os.close(f)
def get(path): return open(path, "rb").read()
put("a.txt", b"first"); os.chmod("a.txt", 0o640)
def vim_rename(text):
    put("4913", b""); os.unlink("4913")
    os.rename("a.txt", "a.txt~"); put("a.txt", text, flags=os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.chmod("a.txt", stat.S_IMODE(os.stat("a.txt~").st_mode)); os.unlink("a.txt~")
def vim_copy(text):
    put("a.txt~", get("a.txt")); put("a.txt", text); os.unlink("a.txt~")
def emacs(text):
    os.symlink("user@host.1:2", ".#a.txt"); put("#a.txt#", text)
    assert os.readlink(".#a.txt") == "user@host.1:2"
    os.rename("a.txt", "a.txt~"); put("a.txt", text); os.chmod("a.txt", 0o640)
    os.unlink("#a.txt#"); os.unlink(".#a.txt")
def toolkit(text):
    put(".a.txt.kate-swp", text); put("a.txt.XyZ123", text, flags=os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    os.chmod("a.txt.XyZ123", 0o640); os.rename("a.txt.XyZ123", "a.txt"); os.unlink(".a.txt.kate-swp")
def office(text):
    put(".~lock.a.txt#", b"user"); put("lu1.tmp", text); os.unlink("a.txt"); os.rename("lu1.tmp", "a.txt")
    os.chmod("a.txt", 0o640); os.unlink(".~lock.a.txt#")
for round in range(5):
    for save in (vim_rename, vim_copy, emacs, toolkit, office):
        text = (save.__name__ + str(round)).encode() * (1 + round * 3000)
        reader = open("a.txt", "rb"); before = get("a.txt")
        save(text)
        assert get("a.txt") == text, save.__name__
        assert stat.S_IMODE(os.stat("a.txt").st_mode) == 0o640, save.__name__
        if save is not vim_copy: assert reader.read() == before, save.__name__
        if os.path.exists("a.txt~"): os.unlink("a.txt~")
assert sorted(os.listdir(".")) == ["a.txt", "dances.py"], os.listdir(".")
"##;
    fs::write(directory.join("dances.py"), script).unwrap();
    if have("python3") {
        shell(&directory, "python3 dances.py").ok();
    }
}

#[test]
fn vim_and_emacs_save_files() {
    let directory = WORLD.directory("editors");
    fs::write(directory.join("a.txt"), "one\ntwo\n").unwrap();
    if have("vim") {
        for copy in ["no", "yes", "auto"] {
            let script = format!(
                "vim -u NONE -i NONE -es -N -c 'set backup writebackup backupcopy={copy} undofile fsync' -c '%s/two/two {copy}/' -c wq a.txt </dev/null"
            );
            shell(&directory, &script).ok();
        }
        assert_eq!(fs::read_to_string(directory.join("a.txt")).unwrap(), "one\ntwo auto yes no\n");
    }
    if have("emacs") {
        fs::write(directory.join("b.txt"), "one\n").unwrap();
        for lines in 2..4 {
            let edit = r#"(progn (find-file "b.txt") (goto-char (point-max)) (insert "more\n") (save-buffer))"#;
            shell(&directory, &format!("emacs -Q --batch --eval '{edit}'")).ok();
            assert_eq!(fs::read_to_string(directory.join("b.txt")).unwrap().lines().count(), lines);
        }
    }
}

#[test]
fn a_crate_is_built_by_cargo_and_rebuilt_only_when_it_changed() {
    if !have("cargo") {
        return;
    }
    let directory = WORLD.directory("cargo");
    let script = r#"
        unset CARGO_TARGET_DIR RUSTFLAGS; export CARGO_HOME="$PWD/cargo-home" RUSTUP_HOME="${RUSTUP_HOME:-$REAL_HOME/.rustup}"
        mkdir -p small/src && cd small
        printf '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n' > Cargo.toml
        printf 'pub fn two() -> u32 { 2 }\n' > src/two.rs
        printf 'mod two;\nfn main() { println!("{}", two::two() + 2); }\n' > src/main.rs
        cargo build --offline && test "$(./target/debug/small)" = 4
        cargo build --offline -v 2> log; grep -q Fresh log; sleep 0.01
        printf 'pub fn two() -> u32 { 3 }\n' > src/two.rs
        cargo build --offline -v 2> log; grep -q Dirty log; test "$(./target/debug/small)" = 5"#;
    shell(&directory, script).ok();
}
