#!/bin/sh
# How the cost of each operation grows with the size of a volume: engines over tables in memory, every read, write and
# message counted. A short form of it is a test.
#
#   scripts/bench-scale.sh [--files-max N] [--only WORD] [--json FILE]
set -eu
cd "$(dirname "$0")/.."
cargo build --release --package wayfs-bench
exec target/release/wayfs-bench scale "$@"
