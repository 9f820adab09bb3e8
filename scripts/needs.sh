#!/bin/sh
# Sees to what building and running needs: a C compiler, fusermount3, Rust, /dev/fuse.
# Installs missing Debian packages if it runs as root, and says what is missing otherwise.
#
#   --without-fuse   go on without /dev/fuse
#   --for-tests      also what some tests use: a browser that looks at reports, the programs for version control that the
#                    laboratory shares a tree with, an NFS server and its port mapper. Without them those tests skip themselves.
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

case " $* " in
*" --for-tests "*)
    extra=""
    for program in chromium cvs git rpcbind rsync sqlite3; do
        command -v "$program" >/dev/null 2>&1 || extra="$extra $program"
    done
    command -v setfacl >/dev/null 2>&1 || extra="$extra acl"
    command -v inotifywait >/dev/null 2>&1 || extra="$extra inotify-tools"
    command -v node >/dev/null 2>&1 || extra="$extra nodejs"
    # Not every distribution has a user-space NFS server.
    command -v ganesha.nfsd >/dev/null 2>&1 || extra="$extra nfs-ganesha nfs-ganesha-vfs"
    if [ -n "$extra" ] && [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "Installing$extra"
        # shellcheck disable=SC2086  # a list of words
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $extra; } >/dev/null 2>&1 ||
            echo "Not installed:$extra. Tests that need them are skipped."
    elif [ -n "$extra" ]; then
        echo "Not installed:$extra. Tests that need them are skipped."
    fi
    ;;
esac

if ! command -v cargo >/dev/null 2>&1; then
    echo "Rust is missing: see https://rustup.rs (version 1.90 or newer)." >&2
    exit 1
fi
if [ ! -e /dev/fuse ]; then
    echo "/dev/fuse is missing: load the module with 'modprobe fuse', or give the container '--device /dev/fuse'." >&2
    case " $* " in *" --without-fuse "*) ;; *) exit 1 ;; esac
fi
