# Takes a laboratory away: ends its processes, aborts and unmounts its mounts, unbinds its namespaces, removes its directory.
#
#   sh -c SCRIPT lab-guard RUN MARK
#
# Runs when standard input ends, which it does when the laboratory is done, and when it dies in whatever way. One that is to die
# while a thread of it waits for a FUSE daemon keeps standard input open until that daemon answers, so it is looked at each second.
# RUN is its directory, MARK the value of WAYFS_LAB_RUN in the environment of its processes.
trap '' INT TERM HUP QUIT
run=$1
mark=WAYFS_LAB_RUN=$2

# Whether the laboratory has ended but for threads that cannot, or has a SIGKILL (bit 9 of what is pending) that it cannot follow.
is_dying() {
    while read -r key value _; do
        case $key in
        State:) [ "$value" = Z ] && return 0 ;;
        SigPnd:) [ $((0x$value & 0x100)) -ne 0 ] && return 0 ;;
        esac
    done
    return 1
}

exec 3<&0
cat <&3 >/dev/null &
reader=$!
(
    exec 3<&-
    while sleep 1; do
        is_dying <"/proc/$PPID/status" && kill -KILL "$reader"
    done
) 2>/dev/null &
watcher=$!
wait "$reader"
kill -KILL "$watcher" 2>/dev/null
exec 3<&-

# Environments are words that end with a zero byte. sshd writes its title over its own: it is known by that, in which the words of its
# command are parted by blanks, as in no command line.
marked() {
    {
        grep -lzxF "$mark" /proc/[0-9]*/environ
        printf '%s\n' "-f $run/hosts/" | grep -laF -f - /proc/[0-9]*/cmdline
    } 2>/dev/null | sed 's|/proc/\([0-9]*\)/.*|\1|'
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
