#!/bin/sh
# Runs suites of others on a mount of this machine: pjdfstest (what POSIX says of names, modes and owners), fsx (random
# reads, writes, mappings and truncations of one file), and, if they are installed, stress-ng (its class of file systems), fio
# (verified writes), dbench (an office's file server) and bonnie++ (one large file, many small ones). Needs root, and fetches the
# first two with `cargo install` the first time.
#
#   WAYFS_SUITES=DIR        where the suites are installed (default target/suites)
#   WAYFS_FSX_SEEDS="1 2"   seeds of fsx
#   WAYFS_DBENCH_TIME=10    seconds of dbench
#   WAYFS_STRESS_TIME=3s    how long each kind of operation of stress-ng goes on
set -eu
cd "$(dirname "$0")/.."
sh scripts/needs.sh
[ "$(id -u)" -eq 0 ] || { echo "pjdfstest changes users: run this as root." >&2; exit 1; }
suites=${WAYFS_SUITES:-$(pwd)/target/suites}
for suite in pjdfstest fsx; do
    [ -x "$suites/bin/$suite" ] || cargo install --quiet --root "$suites" "$suite"
done
cargo build --package wayfs
wayfs=$(pwd)/target/debug/wayfs

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

# What is expected to fail looks at times of access, which are not kept: see the end of SEMANTICS.md.
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

# Of every kind of operation on files a few seconds, each with its own checks. Nothing is expected to fail; what a mount
# refuses (fiemap, verity) is skipped by the program itself. Left out is what does not touch the mount (binderfs, procfs).
if command -v stress-ng >/dev/null 2>&1; then
    mkdir "$work/m/stress"
    stress-ng --class filesystem --sequential 1 --timeout "${WAYFS_STRESS_TIME:-3s}" --verify --temp-path "$work/m/stress" \
        --exclude binderfs,procfs --log-brief
else
    echo "Not run: stress-ng (apt-get install stress-ng)."
fi

if command -v fio >/dev/null 2>&1; then
    mkdir "$work/m/fio"
    for way in "psync 0" "psync 1" "libaio 1" "mmap 0"; do
        engine=${way% *} direct=${way#* }
        echo "fio: $engine, direct $direct"
        fio --name=verify --directory="$work/m/fio" --filename="$engine-$direct" --size=32m --ioengine="$engine" --direct="$direct" \
            --iodepth=8 --rw=randrw --bsrange=4k-64k --verify=crc32c --verify_fatal=1 --randrepeat=1 --fsync=200 --verify_state_save=0 --minimal >/dev/null
    done
else
    echo "Not run: fio (apt-get install fio)."
fi

# The work of an office's file server, by two programs at once. Each call is checked by the program; none is expected to fail.
if command -v dbench >/dev/null 2>&1; then
    mkdir "$work/m/dbench"
    dbench -D "$work/m/dbench" -c /usr/share/dbench/client.txt -t "${WAYFS_DBENCH_TIME:-10}" 2 >"$work/dbench.log" 2>&1 || {
        cat "$work/dbench.log" >&2
        exit 1
    }
    tail -n 1 "$work/dbench.log"
    # The program leaves its directories, on any file system, and no file.
    [ -z "$(find "$work/m/dbench" ! -type d)" ] || { echo "dbench left files behind" >&2; exit 1; }
else
    echo "Not run: dbench (apt-get install dbench)."
fi

# One large file, and a thousand small ones made, looked at and removed in order and at random. By single letters (without -f) it
# writes and reads as the others do, for minutes.
if command -v bonnie++ >/dev/null 2>&1; then
    mkdir "$work/m/bonnie"
    bonnie++ -d "$work/m/bonnie" -u root -f -s 64:8192 -r 32 -n 1:16384:0:4 -q >"$work/bonnie.log" 2>&1 || {
        cat "$work/bonnie.log" >&2
        exit 1
    }
    rmdir "$work/m/bonnie"
    echo "bonnie++: passed"
else
    echo "Not run: bonnie++ (apt-get install bonnie++)."
fi
