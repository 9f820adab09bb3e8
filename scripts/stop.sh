#!/bin/sh
# Ends what `make run` started: mount first, then station, then home. Data stays in ./.wayfs.
set -u
cd "$(dirname "$0")/.."
root=$(pwd)
state=${WAYFS_DEMO_STATE:-$root/.wayfs}
mnt=${WAYFS_DEMO_MNT:-$root/mnt}
wayfs=$root/target/release/wayfs
unset WAYFS_AT WAYFS_TICKET

if [ ! -x "$wayfs" ]; then
    echo "Nothing was built, so nothing runs."
    exit 0
fi
failed=0
if grep -q " $mnt fuse.wayfs " /proc/self/mounts; then
    # What could not be sent is kept in the mount's log and goes out at the next `make run`.
    "$wayfs" umount --flush --timeout 20 "$mnt" || "$wayfs" umount --force "$mnt" || failed=1
fi
for server in station home; do
    if "$wayfs" --at "$state/$server" status >/dev/null 2>&1; then
        "$wayfs" --at "$state/$server" stop || failed=1
    fi
done
if [ "$failed" -eq 0 ]; then
    echo "Stopped. The data is in $state; 'make run' goes on with it."
fi
exit "$failed"
