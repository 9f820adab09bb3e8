#!/bin/sh
# What a tool can check of the house rules: format, lints, floors, what dependencies may be, and a short simulation.
set -eu
cd "$(dirname "$0")/.."
cargo fmt --all --check
cargo clippy --workspace --all-targets --quiet -- -D warnings
cargo run --quiet --package xtask -- check-imports
cargo run --quiet --package xtask -- check-parameters
sh scripts/supply.sh
cargo run --quiet --package xtask -- sim --from 1 --count "${WAYFS_CHECK_SEEDS:-100}"
echo "All checks passed."
