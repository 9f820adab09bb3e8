#!/bin/sh
# Sees to what building and running needs: a C compiler, fusermount3, Rust, /dev/fuse.
# Installs missing Debian packages if it runs as root, and says what is missing otherwise.
set -eu
cd "$(dirname "$0")/.."

missing=""
command -v cc >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
command -v fusermount3 >/dev/null 2>&1 || missing="$missing fuse3"
command -v diff >/dev/null 2>&1 || missing="$missing diffutils"

if [ -n "$missing" ]; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "These packages are missing:$missing. Install them, or run this as root on Debian." >&2
        exit 1
    fi
    echo "Installing$missing"
    # shellcheck disable=SC2086  # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >/dev/null 2>&1 || {
        apt-get update -q
        # shellcheck disable=SC2086
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing
    }
fi

if ! command -v cargo >/dev/null 2>&1; then
    echo "Rust is missing: see https://rustup.rs (version 1.90 or newer)." >&2
    exit 1
fi
if [ ! -e /dev/fuse ]; then
    echo "/dev/fuse is missing: load the module with 'modprobe fuse', or give the container '--device /dev/fuse'." >&2
    [ "${1:-}" = "--without-fuse" ] || exit 1
fi
