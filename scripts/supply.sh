#!/bin/sh
# Holds the dependencies against deny.toml: licences, where they come from, which are banned; and against the advisories, where
# their database can be had (RUSTSEC=1: fetched; else as an earlier run left it).
set -eu
cd "$(dirname "$0")/.."
if ! cargo deny --version >/dev/null 2>&1; then
    echo "cargo-deny is missing, dependencies are not checked: cargo install --locked cargo-deny" >&2
    exit 0
fi
cargo deny --locked check bans licenses sources
if [ "${RUSTSEC:-0}" = 1 ]; then
    cargo deny --locked check advisories
elif ! cargo deny --locked --offline check --disable-fetch advisories 2>/dev/null; then
    echo "The advisories were not checked, or name a dependency: RUSTSEC=1 sh scripts/supply.sh fetches them and says which." >&2
fi
