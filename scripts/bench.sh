#!/bin/sh
# Compares a mount (with its home on this machine) with the file system under it, in a scratch directory.
# Numbers of one run on a busy machine: read ratios, and run it again.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
cargo build --release --package wayfs
wayfs=$root/target/release/wayfs
work=$(mktemp -d "${TMPDIR:-/tmp}/wayfs-bench.XXXXXX")
port=${WAYFS_BENCH_PORT:-7430}
files=${WAYFS_BENCH_FILES:-2000}
megabytes=${WAYFS_BENCH_MEGABYTES:-256}
export XDG_STATE_HOME="$work/state" XDG_RUNTIME_DIR="$work/run"
unset WAYFS_AT WAYFS_TICKET || true
mnt=$work/mnt
native=$work/native
mkdir -p "$mnt" "$native" "$work/run"

end() {
    "$wayfs" umount "$mnt" >/dev/null 2>&1 || "$wayfs" umount --force "$mnt" >/dev/null 2>&1 || true
    "$wayfs" --at "$work/home" stop >/dev/null 2>&1 || true
    grep -q " $mnt " /proc/self/mounts || rm -rf "$work"
}
trap end EXIT
trap 'exit 130' INT TERM

"$wayfs" serve --daemon --data "$work/home" --listen "127.0.0.1:$port" >/dev/null
"$wayfs" --at "$work/home" volume create bench >/dev/null
"$wayfs" --at "$work/home" volume ticket bench 2>/dev/null | "$wayfs" mount --daemon - "$mnt" --cache "$work/cache" >/dev/null

now() { date +%s%N; }

# Sets `ms` to the milliseconds that a command takes.
measure() {
    from=$(now)
    "$@" >/dev/null 2>&1
    ms=$((($(now) - from) / 1000000))
    [ "$ms" -gt 0 ] || ms=1
}

write_big() { dd if=/dev/urandom of="$1/big" bs=1M count="$megabytes" conv=fsync; }
read_big() { dd if="$1/big" of=/dev/null bs=1M; }
create() { mkdir -p "$1/small" && i=0 && while [ "$i" -lt "$files" ]; do echo "file $i" >"$1/small/$i"; i=$((i + 1)); done; }
list() { ls -lR "$1/small"; }
read_small() { cat "$1"/small/*; }
pack() { tar cf "$1/small.tar" -C "$1" small; }
unpack() { mkdir -p "$1/copy" && tar xf "$native/small.tar" -C "$1/copy"; }
delete() { rm -rf "$1/small" "$1/copy"; }

printf '%-34s %10s %10s %8s\n' "operation" "native ms" "mount ms" "ratio"
row() {
    measure "$2" "$native"
    below=$ms
    measure "$2" "$mnt"
    printf '%-34s %10d %10d %8s\n' "$1" "$below" "$ms" "$(awk -v a="$below" -v b="$ms" 'BEGIN { printf "%.2f", a / b }')"
}
row "write $megabytes MiB, fsync" write_big
row "read $megabytes MiB" read_big
row "create $files small files" create
row "ls -lR of them" list
row "read them" read_small
row "tar c of them" pack
row "tar x of them" unpack
row "remove all" delete
measure "$wayfs" --at "$mnt" sync --until stable --timeout 120
printf '%-34s %10s %10d\n' "wait until stable" "" "$ms"
