#!/bin/sh
# Records and checks what programs at two stations see, for so many minutes: scripts/histories.sh MINUTES [SEED]
set -eu
minutes=${1:?minutes}
cd "$(dirname "$0")/.."
cargo build --package wayfs
WAYFS_HISTORIES_SECONDS=$((minutes * 60)) WAYFS_HISTORIES_SEED=${2:-$(date +%s)} \
    cargo test --package wayfs-system-tests --test histories -- --nocapture
