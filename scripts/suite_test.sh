#!/bin/sh
# One test of git's or SQLite's own, for scripts/suites.sh: on the mount, and, if it fails there, on the disk of this machine. What fails in the
# same way on the disk is no defect of the mount. Adds a line to DISK/results: "passed", "nothing" (the test has nothing to do here), "disk",
# "late" (it did not end in time), "FAILED", and the name; the words of a test that failed are in DISK/NAME.mount and DISK/NAME.disk.
#
#   scripts/suite_test.sh git|sqlite MOUNT DISK NAME
set -u
kind=$1 mount=$2 disk=$3 name=$4
# The slowest ones take some minutes on a machine at rest.
longest=${WAYFS_TEST_SECONDS:-1200}

# Runs it in a place, with its words in a file; fails if the test does, or if its directory cannot be removed.
run() {
    case $kind in
    # Paths are short: names of sockets are in some.
    git) own="$1/trash directory.$name" && (cd "$WAYFS_GIT_SOURCE/t" && timeout -k 10 "$longest" sh "./$name.sh" --root="$1") ;;
    sqlite)
        own=$1/$name && mkdir -p "$own" && (cd "$own" &&
            timeout -k 10 "$longest" "$WAYFS_SQLITE_FIXTURE" "$WAYFS_SQLITE_SOURCE/test/permutations.test" veryquick "$name.test")
        ;;
    esac >"$2" 2>&1
    code=$?
    # Some tests make directories that nobody may write.
    [ ! -d "$own" ] || chmod -R u+rwX "$own" 2>/dev/null
    rm -rf "$own" 2>>"$2" || code=1
    # What was killed may have left a line unfinished.
    printf "\nexit %s\n" "$code" >>"$2"
    return "$code"
}

# Which of its cases failed, and how it ended.
failures() {
    grep -aE '^(not ok|!Failures|exit )' "$1" | grep -av 'TODO known breakage'
}

# Whether it had something to do.
did_something() {
    case $kind in
    git) ! grep -aq '^1\.\.0' "$1" ;;
    sqlite) ! grep -aqE ' out of [01] tests' "$1" ;;
    esac
}

words=$disk/$name
if run "$mount" "$words.mount"; then
    did_something "$words.mount" && outcome=passed || outcome=nothing
    rm -f "$words.mount"
elif grep -q '^exit 124$' "$words.mount"; then
    outcome=late
elif run "$disk" "$words.disk" || [ "$(failures "$words.mount")" != "$(failures "$words.disk")" ]; then
    outcome=FAILED
else
    outcome=disk
fi
echo "$outcome $name" >>"$disk/results"
case $outcome in
FAILED) echo "failed on the mount only: $name (see $words.mount)" ;;
late) echo "not done after $longest s on the mount: $name" ;;
esac
