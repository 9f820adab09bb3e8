#!/bin/sh
# Fuzzes one target after the other for a while. Needs a nightly toolchain and cargo-fuzz (`cargo install cargo-fuzz`).
#
#   scripts/fuzz.sh [SECONDS [TARGET...]]     default 300 seconds for each target, and all of them
#   WAYFS_FUZZ_SANITIZER=address              default none: quicker to build and to run, and the program is safe Rust but for its
#                                             calls of the system
#
# Each target begins with what is in fuzz/seeds/TARGET and with the words in fuzz/dictionaries/TARGET.dict, if they are there; what it finds
# on the way stays in fuzz/corpus/TARGET for the next run. What was run for how long stands in docs/fuzzing.md.
#
# Whole sessions of arbitrary well-formed messages against each role run on stable Rust in the tests of `proto`, 150 worlds of each kind; more:
#   WAYFS_RANDOM_PEERS=5000 cargo test -p wayfs-proto --lib random_peers
# Small changes of the seeds run there, too: cargo test -p wayfs-decoder-tests
set -eu
cd "$(dirname "$0")/../fuzz"
seconds=${1:-300}
[ $# -eq 0 ] || shift
sanitizer=${WAYFS_FUZZ_SANITIZER:-none}
for target in ${*:-$(cargo +nightly fuzz list)}; do
    echo "Fuzzing $target for $seconds s"
    mkdir -p "corpus/$target"
    set -- "corpus/$target"
    [ ! -d "seeds/$target" ] || set -- "$@" "seeds/$target"
    dictionary=
    [ ! -f "dictionaries/$target.dict" ] || dictionary=-dict=dictionaries/$target.dict
    # shellcheck disable=SC2086  # no dictionary is no argument
    cargo +nightly fuzz run --sanitizer "$sanitizer" "$target" "$@" -- \
        -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=20 $dictionary
done
