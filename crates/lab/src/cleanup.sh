# Takes a laboratory away: ends its processes, aborts and unmounts its mounts, unbinds its namespaces, removes its directory.
#
#   sh -c SCRIPT lab-guard RUN MARK
#
# Runs when standard input ends, which it does when the laboratory is done, and when it dies in whatever way.
# RUN is its directory, MARK the value of WAYFS_LAB_RUN in the environment of its processes.
trap '' INT TERM HUP QUIT
cat >/dev/null
run=$1
mark=WAYFS_LAB_RUN=$2

# Environments are words that end with a zero byte.
marked() {
    grep -lzxF "$mark" /proc/[0-9]*/environ 2>/dev/null | sed 's|/proc/\([0-9]*\)/environ|\1|'
}

# The mounts below the directory, the deepest first.
mounts() {
    awk -v dir="$run/" '{ gsub(/\\040/, " ", $5); if (index($5, dir) == 1) print $3, $5 }' /proc/self/mountinfo |
        sort -r -k 2
}

round=0
while [ "$round" -lt 20 ]; do
    round=$((round + 1))
    pids=$(marked)
    for pid in $pids; do
        kill -KILL "$pid" 2>/dev/null
    done
    # Whoever waits in a FUSE mount whose daemon is gone gets an error, and can die.
    mounts | while read -r device place; do
        connection=/sys/fs/fuse/connections/${device#*:}
        [ -w "$connection/abort" ] && echo 1 >"$connection/abort" 2>/dev/null
        umount -l "$place" 2>/dev/null
    done
    [ -z "$pids" ] && [ -z "$(mounts)" ] && break
    sleep 0.05
done
rm -rf --one-file-system "$run"
