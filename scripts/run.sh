#!/bin/sh
# Builds wayfs and starts a home, a station and a mount on this machine. May be run again at any time: what runs stays.
#
#   state   ./.wayfs      (WAYFS_DEMO_STATE)
#   mount   ./mnt         (WAYFS_DEMO_MNT)
#   ports   UDP 7475 home, 7476 station on loopback (WAYFS_DEMO_PORT is the first)
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
state=${WAYFS_DEMO_STATE:-$root/.wayfs}
mnt=${WAYFS_DEMO_MNT:-$root/mnt}
port=${WAYFS_DEMO_PORT:-7475}
volume=demo

sh scripts/needs.sh
cargo build --release --package wayfs
wayfs=$root/target/release/wayfs

mkdir -p "$state"
chmod 700 "$state"
# Logs of the daemons go below the state, too.
export XDG_STATE_HOME="$state"
unset WAYFS_AT WAYFS_TICKET || true

runs() { "$wayfs" --at "$1" status >/dev/null 2>&1; }

if runs "$state/home"; then
    echo "The home runs already."
else
    "$wayfs" serve --daemon --data "$state/home" --listen "127.0.0.1:$port"
fi
if ! "$wayfs" --at "$state/home" --json volume list | grep -q "\"name\":\"$volume\""; then
    "$wayfs" --at "$state/home" volume create "$volume"
fi

if runs "$state/station"; then
    echo "The station runs already."
else
    "$wayfs" serve --daemon --data "$state/station" --listen "127.0.0.1:$((port + 1))"
fi
if ! "$wayfs" --at "$state/station" --json volume list | grep -q "\"name\":\"$volume\""; then
    "$wayfs" --at "$state/home" volume ticket "$volume" --station 2>/dev/null | "$wayfs" --at "$state/station" station join -
fi

if runs "$mnt"; then
    echo "The mount runs already."
else
    mkdir -p "$mnt" 2>/dev/null || "$wayfs" umount --force "$mnt"
    source=$volume
    if [ ! -e "$state/joined" ]; then
        rm -f "$state/ticket"
        "$wayfs" --at "$state/home" volume ticket "$volume" --out "$state/ticket" >/dev/null
        source=$state/ticket
    fi
    "$wayfs" mount --daemon "$source" "$mnt" --cache "$state/mount"
    : >"$state/joined"
    rm -f "$state/ticket"
fi
# On one machine home and station are equally near; the station is what there is to see.
"$wayfs" --at "$mnt" station use "127.0.0.1:$((port + 1))" >/dev/null 2>&1 || true

cat <<TEXT

WayFS runs on this machine:
  home     $state/home      (UDP 127.0.0.1:$port)
  station  $state/station   (UDP 127.0.0.1:$((port + 1)))
  mount    $mnt

Try:
  export PATH=$root/target/release:\$PATH
  echo hello > $mnt/hello.txt
  wayfs info $mnt/hello.txt        where it is safe, visible, stable
  wayfs sync --until stable $mnt   waits until the home has everything
  wayfs status                     all daemons on one screen
  wayfs station why --at $mnt      why this station
  wayfs volume ticket $volume --at $state/home
                                   admits one more machine (or a second mount here)
  make stop                        ends it all; nothing is lost
TEXT
