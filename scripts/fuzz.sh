#!/bin/sh
# Fuzzes every decoder for a while, one after the other. Needs a nightly toolchain and cargo-fuzz (`cargo install cargo-fuzz`).
#
#   scripts/fuzz.sh [SECONDS [TARGET...]]     default 300 seconds for each target
#
# Whole sessions of arbitrary well-formed messages against each role run on stable Rust in the tests of `proto`, 150 worlds of each kind; more:
#   WAYFS_RANDOM_PEERS=5000 cargo test -p wayfs-proto --lib random_peers
set -eu
cd "$(dirname "$0")/../fuzz"
seconds=${1:-300}
[ $# -eq 0 ] || shift
for target in ${*:-$(cargo +nightly fuzz list)}; do
    echo "Fuzzing $target for $seconds s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=20
done
