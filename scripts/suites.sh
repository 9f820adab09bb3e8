#!/bin/sh
# Runs suites of others on a mount of this machine, all that are installed or those that are named:
#
#   scripts/suites.sh [NAME...]
#
#   pjdfstest   what POSIX says of names, modes and owners (fetched with `cargo install` the first time)
#   fsx         random reads, writes, mappings and truncations of one file (the same)
#   stress-ng   its class of file systems, each kind of operation with its own checks
#   fio         writes that are verified: by calls, past the page cache, asynchronous, mapped
#   dbench      an office's file server
#   bonnie++    one large file, many small ones
#   git         git's own tests, in a source tree that was built: WAYFS_GIT_SOURCE
#   sqlite      SQLite's own tests: WAYFS_SQLITE_SOURCE, with `testfixture` built in it or in its directory `b`
#
# What is expected to fail stands here with its reason; anything else that fails is a defect, and so is what a suite leaves in the
# root, or a conflict copy. Needs root.
#
#   WAYFS_SUITES=DIR        where the suites are installed (default target/suites)
#   WAYFS_FSX_SEEDS="1 2"   seeds of fsx
#   WAYFS_DBENCH_TIME=10    seconds of dbench
#   WAYFS_STRESS_TIME=3s    how long each kind of operation of stress-ng goes on
#   WAYFS_GIT_TESTS="t5*"   which tests of git, WAYFS_SQLITE_TESTS="wal lock" which of SQLite
#   WAYFS_TEST_SECONDS=1200 longest time of one of git's or SQLite's tests
#   WAYFS_SUITES_JOBS=1     how many tests of git and SQLite run at once
#   WAYFS_SUITES_KEEP=DIR   where results of git and SQLite and the words of what failed are kept; on the disk of this machine
#   WAYFS_BIN=FILE          the program (default: target/debug/wayfs, built first)
#
# Sources: `apt-get source git`, then `make NO_CURL=1 NO_EXPAT=1 NO_OPENSSL=1 NO_GETTEXT=1 NO_TCLTK=1` in it; `apt-get source sqlite3`
# and `mkdir b && cd b && ../configure && make testfixture` (tcl8.6-dev).
set -eu
cd "$(dirname "$0")/.."
sh scripts/needs.sh
[ "$(id -u)" -eq 0 ] || { echo "pjdfstest changes users: run this as root." >&2; exit 1; }
suites=${WAYFS_SUITES:-$(pwd)/target/suites}
wayfs=${WAYFS_BIN:-$(pwd)/target/debug/wayfs}
[ -n "${WAYFS_BIN:-}" ] || cargo build --package wayfs

work=$(mktemp -d "${TMPDIR:-/tmp}/ws.XXXXXX")
# Users that pjdfstest changes to must get to the mount. The path is short because that of a socket has 107 bytes at most.
chmod 755 "$work"
export XDG_STATE_HOME="$work/state" XDG_CACHE_HOME="$work/cache" XDG_CONFIG_HOME="$work/config" XDG_RUNTIME_DIR="$work/run"
mkdir -p "$work/state" "$work/cache" "$work/config" "$work/run" "$work/m" "$work/other"
unset WAYFS_AT WAYFS_TICKET || true
clean_up() {
    "$wayfs" umount --force "$work/m" >/dev/null 2>&1 || true
    "$wayfs" --at "$work/home" stop >/dev/null 2>&1 || true
    umount -l "$work/m" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

"$wayfs" serve --daemon --data "$work/home" --listen 127.0.0.1:0
"$wayfs" --at "$work/home" volume create suites >/dev/null
"$wayfs" --at "$work/home" volume ticket suites --out "$work/ticket" >/dev/null
"$wayfs" mount --daemon "$work/ticket" "$work/m" --cache "$work/client"

# Installs a suite that the registry of Rust has.
from_registry() {
    [ -x "$suites/bin/$1" ] || cargo install --quiet --root "$suites" "$1"
}

# What is expected to fail looks at times of access, which are not kept: see the end of SEMANTICS.md.
run_pjdfstest() {
    from_registry pjdfstest
    cat >"$work/pjdfstest.toml" <<'TOML'
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.01
# A read-only remount is the kernel's own doing, and mount(8) would need the program in its path for it.
allow_remount = false
expected_failures = [
    "utimensat::changes_timestamps::regular", "utimensat::changes_timestamps::dir",
    "utimensat::changes_timestamps::fifo", "utimensat::changes_timestamps::socket",
    "utimensat::changes_timestamps::block", "utimensat::changes_timestamps::char",
    "utimensat::follow_symlink", "utimensat::subsecond", "utimensat::utime_omit", "utimensat::y2038",
]
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
TOML
    mkdir "$work/m/p"
    "$suites/bin/pjdfstest" -c "$work/pjdfstest.toml" -p "$work/m/p" -s "$work/other"
}

run_fsx() {
    from_registry fsx
    cat >"$work/fsx.toml" <<'TOML'
[weights]
close_open = 5
invalidate = 1
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 3
punch_hole = 3
sendfile = 3
posix_fadvise = 1
copy_file_range = 3
TOML
    for len in 6000 262144 12000000; do
        { echo "flen = $len"; echo "[opsize]"; echo "max = $((len / 4))"; cat "$work/fsx.toml"; } >"$work/fsx-$len.toml"
        for seed in ${WAYFS_FSX_SEEDS:-1 2 3}; do
            echo "fsx: $len bytes, seed $seed"
            "$suites/bin/fsx" -f "$work/fsx-$len.toml" -N 1500 -S "$seed" -P "$work" "$work/m/fsx-$len-$seed"
        done
    done
}

# Of every kind of operation on files a few seconds, each with its own checks. Nothing is expected to fail; what a mount
# refuses (fiemap, verity) is skipped by the program itself. Left out is what does not touch the mount (binderfs, procfs).
run_stress_ng() {
    mkdir "$work/m/stress"
    stress-ng --class filesystem --sequential 1 --timeout "${WAYFS_STRESS_TIME:-3s}" --verify --temp-path "$work/m/stress" \
        --exclude binderfs,procfs --log-brief
}

run_fio() {
    mkdir "$work/m/fio"
    for way in "psync 0" "psync 1" "libaio 1" "mmap 0"; do
        engine=${way% *} direct=${way#* }
        echo "fio: $engine, direct $direct"
        fio --name=verify --directory="$work/m/fio" --filename="$engine-$direct" --size=32m --ioengine="$engine" --direct="$direct" \
            --iodepth=8 --rw=randrw --bsrange=4k-64k --verify=crc32c --verify_fatal=1 --randrepeat=1 --fsync=200 --verify_state_save=0 --minimal >/dev/null
    done
}

# The work of an office's file server, by two programs at once. Each call is checked by the program; none is expected to fail.
run_dbench() {
    mkdir "$work/m/dbench"
    dbench -D "$work/m/dbench" -c /usr/share/dbench/client.txt -t "${WAYFS_DBENCH_TIME:-10}" 2 >"$work/dbench.log" 2>&1 || {
        cat "$work/dbench.log" >&2
        exit 1
    }
    tail -n 1 "$work/dbench.log"
    # The program leaves its directories, on any file system, and no file.
    [ -z "$(find "$work/m/dbench" ! -type d)" ] || { echo "dbench left files behind" >&2; exit 1; }
}

# One large file, and a thousand small ones made, looked at and removed in order and at random. By single letters (without -f) it
# writes and reads as the others do, for minutes.
run_bonnie() {
    mkdir "$work/m/bonnie"
    bonnie++ -d "$work/m/bonnie" -u root -f -s 64:8192 -r 32 -n 1:16384:0:4 -q >"$work/bonnie.log" 2>&1 || {
        cat "$work/bonnie.log" >&2
        exit 1
    }
    rmdir "$work/m/bonnie"
    echo "bonnie++: passed"
}

# Runs tests of git or SQLite, whose names come in, on the mount, and what fails there on the disk, too; see scripts/suite_test.sh.
tests_of() {
    mkdir "$work/m/$1"
    disk=${WAYFS_SUITES_KEEP:-$work/kept}/$1
    mkdir -p "$disk"
    : >"$disk/results"
    xargs -P "${WAYFS_SUITES_JOBS:-1}" -n 1 sh scripts/suite_test.sh "$1" "$work/m/$1" "$disk"
    for outcome in passed nothing disk late FAILED; do
        echo "$1: $outcome $(grep -c "^$outcome " "$disk/results")"
    done
    sed -n 's/^disk /fails on the disk of this machine, too: /p' "$disk/results"
    ! grep -E '^(FAILED|late) ' "$disk/results" >&2
}

run_git() {
    export WAYFS_GIT_SOURCE
    (cd "$WAYFS_GIT_SOURCE/t" && ls ${WAYFS_GIT_TESTS:-$git_tests}) | sed 's/\.sh$//' | tests_of git
}
# All: the index, objects and packs, refs and their locks, work trees, clones and pushes first. Those that want a web server, Subversion, CVS or
# Perforce say themselves that they have nothing to do.
git_tests="t[0-9]*.sh"

# Each test in a process of its own: many set up what others would find.
run_sqlite() {
    export WAYFS_SQLITE_SOURCE
    WAYFS_SQLITE_FIXTURE=$WAYFS_SQLITE_SOURCE/testfixture
    [ -x "$WAYFS_SQLITE_FIXTURE" ] || WAYFS_SQLITE_FIXTURE=$WAYFS_SQLITE_SOURCE/b/testfixture
    export WAYFS_SQLITE_FIXTURE
    { if [ -n "${WAYFS_SQLITE_TESTS:-}" ]; then echo $WAYFS_SQLITE_TESTS; else echo $sqlite_tests && veryquick; fi; } | tr -s ' ' '\n' | awk '!seen[$0]++' | tests_of sqlite
}
# SQLite's own list "veryquick": all but failing allocations and disks, which are simulated inside the program, and what takes hours.
veryquick() {
    cat >"$work/list.tcl" <<'TCL'
set argv0 [lindex $argv 0]/test/list.tcl
set argv {}
source [file dirname $argv0]/permutations.test
array set suite $::testspec(veryquick)
foreach file $suite(-files) { puts [file rootname [file tail $file]] }
exit 0
TCL
    (cd "$work" && "$WAYFS_SQLITE_FIXTURE" list.tcl "$WAYFS_SQLITE_SOURCE")
}
# Before those, and whether they are in that list or not, those that have the file system do something: locks, journals of every mode, crashes in
# the middle, memory maps, threads.
sqlite_tests="lock lock2 lock3 lock4 lock5 lock6 lock7 exclusive exclusive2 journal1 journal2 journal3 jrnlmode jrnlmode2 jrnlmode3
    pager1 pager2 pager3 pager4 wal wal2 wal3 wal4 wal5 wal6 walbak walhook walmode walro walro2 walshared walthread waloverwrite
    crash crash2 crash3 crash4 crash5 crash6 crash7 crash8 walcrash walcrash2 walcrash3 savepoint6 io ioerr mmap1 mmap2 mmap3
    backup backup2 attach multiplex quota delete_db symlink symlink2 shared thread001 thread002 thread003 busy busy2 tempdb temptable
    vacuum vacuum2 incrvacuum autovacuum corrupt2 nolock superlock stmt zerodamage oserror"

# Whether a suite is here; if not, where it comes from.
has() {
    case $1 in
    pjdfstest | fsx) return 0 ;;
    stress-ng | fio | dbench | bonnie++) command -v "$1" >/dev/null 2>&1 && return 0 ;;
    git) [ -x "${WAYFS_GIT_SOURCE:-/nowhere}/t/helper/test-tool" ] && return 0 ;;
    sqlite) [ -f "${WAYFS_SQLITE_SOURCE:-/nowhere}/test/tester.tcl" ] && return 0 ;;
    *) echo "$1 is no suite" >&2 && exit 2 ;;
    esac
    echo "Not run: $1 (see the head of this script)."
    return 1
}

bad=""
for suite in ${*:-pjdfstest fsx stress-ng fio dbench bonnie++ git sqlite}; do
    has "$suite" || continue
    echo "$suite"
    began=$(date +%s)
    # Not behind `||` or `if`: there `set -e` counts no more.
    set +e
    (
        set -e
        case $suite in
        stress-ng) run_stress_ng ;;
        bonnie++) run_bonnie ;;
        *) "run_$suite" ;;
        esac
    )
    [ $? -eq 0 ] || bad="$bad $suite"
    set -e
    litter=$(find "$work/m" -name '*.conflict-*' -print; ls -A "$work/m" | grep -vxE 'p|fsx-.*|stress|fio|dbench|git|sqlite' || true)
    [ -z "$litter" ] || { echo "$suite left behind: $litter" >&2; bad="$bad $suite(litter)"; }
    find "$work/m" -mindepth 1 -maxdepth 1 -exec rm -rf {} +
    echo "$suite: $(($(date +%s) - began)) s"
done
[ -z "$bad" ] || { echo "Failed:$bad" >&2; exit 1; }
