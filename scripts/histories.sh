#!/bin/sh
# Records and checks what programs see, for so many minutes: scripts/histories.sh MINUTES [SEED] [far|near|killed]
# far: two clients at two stations, with kills, moves and spells offline (the default); near: four clients at one server;
# killed: three clients at one server, with kills and spells offline.
set -eu
minutes=${1:?minutes}
case ${3:-far} in
far) test=histories ;;
near) test=histories_near ;;
killed) test=histories_killed ;;
*) echo "far, near or killed, not $3" >&2 && exit 2 ;;
esac
cd "$(dirname "$0")/.."
cargo build --package wayfs
WAYFS_HISTORIES_SECONDS=$((minutes * 60)) WAYFS_HISTORIES_SEED=${2:-$(date +%s)} \
    cargo test --package wayfs-system-tests --test "$test" -- --nocapture
