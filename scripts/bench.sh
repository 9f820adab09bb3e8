#!/bin/sh
# Compares a mount with the file system under it and with a plain loopback FUSE file system, and measures time to safe
# and reconciliation. Numbers of one run on a busy machine: read ratios, and run it again.
#
#   scripts/bench.sh [--rounds N | --json FILE]
set -eu
cd "$(dirname "$0")/.."
cargo build --release --package wayfs --package wayfs-bench
WAYFS_BIN=$(pwd)/target/release/wayfs exec target/release/wayfs-bench "$@"
