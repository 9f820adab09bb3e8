#!/bin/sh
# Compares a mount with the file system under it and with a plain loopback FUSE file system, and measures time to safe
# and reconciliation; then small and large files, edits, mixed loads, backlogs, full volumes, sweeps, rest and removal with a station and
# a home beside the mount, which take most of the time. Numbers of one run on a busy machine: read ratios, and run it again.
#
#   scripts/bench.sh [--rounds N] [--size small|whole] [--rows WORD,...] [--json FILE]
#
# Words: parts of the names of rows about files, and events, safe, two, reconcile, hop, small, large, edits, mixed,
# unsent, full, sweep, door, idle, removed.
set -eu
cd "$(dirname "$0")/.."
cargo build --release --package wayfs --package wayfs-bench
WAYFS_BIN=$(pwd)/target/release/wayfs exec target/release/wayfs-bench "$@"
