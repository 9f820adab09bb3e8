#!/bin/sh
# What a tool can check of the house rules: format, lints, floors, what dependencies may be, and a short simulation.
#
#   --lints   format and lints only: what CI does beside the tests, which check floors, manifests, public names and parameters, too.
#             Skips itself where those of the project's compiler are not installed: others find other things.
set -eu
cd "$(dirname "$0")/.."
case ${1:-} in
--lints)
    minor=$(sed -n 's/^channel = "1\.\(.*\)\..*"/\1/p' rust-toolchain.toml)
    if ! cargo fmt --version >/dev/null 2>&1 || ! cargo clippy --version 2>/dev/null | grep -qF "clippy 0.1.$minor "; then
        echo "The formatter and Clippy of Rust 1.$minor are not installed: format and lints are not checked." && exit
    fi
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --quiet -- -D warnings
    echo "Format and lints are clean." && exit
    ;;
"") ;;
*) echo "usage: scripts/check.sh [--lints]" >&2 && exit 2 ;;
esac
cargo fmt --all --check
cargo clippy --workspace --all-targets --quiet -- -D warnings
cargo run --quiet --package xtask -- check-imports
cargo run --quiet --package xtask -- check-parameters
sh scripts/supply.sh
cargo run --quiet --package xtask -- sim --from 1 --count "${WAYFS_CHECK_SEEDS:-100}"
echo "All checks passed."
