#!/bin/sh
# Builds every test binary, then runs them, two side by side, each under a bound, and goes on after failures.
#
#   scripts/test.sh [WORD...]     only binaries whose name or crate directory contains one of the words
#   WAYFS_TEST_BOUND=300          seconds for one binary
#   WAYFS_TEST_AGAIN=5            a binary with more failures than this is not tried again
#   WAYFS_TEST_LANES=2            how many binaries run side by side: tests of whole machines wait more than they compute
#   WAYFS_TEST_PACKAGES="-p X"    only these packages (as cargo takes them) are built and run
#
# Ends with one line, "N passed, N failed", and is non-zero if anything failed or ran into its bound. Doc tests are not run.
# A test that fails, or that its binary's bound cut off, is run twice more in the end, alone. If both runs pass it is listed as unsteady and
# counts as passed: a fault of the product shows again, one of a machine that was starved for a moment does not. The first output stays in the log.
# Every binary gets a scratch directory of its own as TMPDIR; mounts and processes that it leaves behind are told by that.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
bound=${WAYFS_TEST_BOUND:-300}
lanes=${WAYFS_TEST_LANES:-2}
work=$(mktemp -d "${TMPDIR:-/tmp}/wayfs-test.XXXXXX") || exit 1
# Tests that become an ordinary user must come through.
chmod 711 "$work"
# A lane that was started in the background ignores Ctrl-C.
trap 'kill $lane_pids 2>/dev/null; clean_up "$work"; rm -rf "$work"' EXIT
lane_pids=""
trap 'exit 130' INT TERM

# Aborts FUSE connections below a directory (whoever waits in one gets an error), and takes the mounts away.
abort_mounts() {
    awk -v dir="$1/" '{ gsub(/\\040/, " ", $5); if (index($5, dir) == 1 && / - fuse/) print $3, $5 }' /proc/self/mountinfo |
        while read -r device place; do
            connection=/sys/fs/fuse/connections/${device#*:}
            [ -w "$connection/abort" ] && echo 1 >"$connection/abort" 2>/dev/null
            umount -l "$place" 2>/dev/null || fusermount3 -uz "$place" 2>/dev/null
        done
}

# Processes that were given this scratch directory, or one below it, and still run: daemons that left the binary's process group.
leftovers() {
    for process in /proc/[0-9]*; do
        tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -q "^WAYFS_TEST_SCRATCH=$1\(/.*\)*\$" && echo "${process#/proc/}"
    done 2>/dev/null
}

clean_up() {
    abort_mounts "$1"
    for pid in $(leftovers "$1"); do
        kill -9 "$pid" 2>/dev/null
    done
    abort_mounts "$1"
}

echo "Building (this takes a while the first time)"
# The tests of whole machines run the program itself.
packages=${WAYFS_TEST_PACKAGES:---workspace}
case $packages in
*--workspace* | *system*) cargo build --package wayfs || exit 1 ;;
esac
# shellcheck disable=SC2086  # a list of words
cargo test $packages --no-run --message-format=json >"$work/build.json" 2>"$work/build.log" || {
    cat "$work/build.log"
    # The compiler's messages are in the JSON; the rendered ones come out readable enough.
    sed -n 's/.*"rendered":"\(error[^"]*\).*/\1/p' "$work/build.json" | sed 's/\\n/\n/g'
    echo "0 passed, 1 failed (the tests do not build)"
    exit 1
}
# Directory of the crate and path of the binary, one binary a line.
sed -n '/"reason":"compiler-artifact"/{
/"profile":{[^}]*"test":true/s|.*"manifest_path":"\([^"]*\)/Cargo.toml".*"executable":"\([^"]*\)".*|\1 \2|p
}' "$work/build.json" | sort -u >"$work/binaries"

chosen() {
    [ $# -gt 1 ] || return 0
    name=$1
    shift
    for word in "$@"; do
        case $name in *"$word"*) return 0 ;; esac
    done
    return 1
}

while read -r crate binary; do
    chosen "${crate#"$root"/} $(basename "$binary")" "$@" && echo "$crate $binary"
done <"$work/binaries" >"$work/queue"
# What the lanes found: numbers of tests that passed, failures that stand, and tests to run again (directory, binary, test).
: >"$work/passed"
: >"$work/failures"
: >"$work/again"

# Takes a binary off the queue: the first lane from its front, the others from its end, so that tests of whole machines, which stand
# together, run beside those of the crates. Sets `crate` and `binary`.
take() {
    exec 8>"$work/lock"
    flock 8
    case $lane in
    1) one=$(head -n 1 "$work/queue") && sed -i 1d "$work/queue" ;;
    *) one=$(tail -n 1 "$work/queue") && sed -i '$d' "$work/queue" ;;
    esac
    exec 8>&-
    crate=${one%% *}
    binary=${one#* }
    [ -n "$one" ]
}

# Runs a command with a binary's environment: its crate's directory, a scratch directory, a bound. `timeout` leads a process group of its
# own and ends all of it: first gently, ten seconds later for good.
bounded() {
    mkdir -p "$scratch"
    (cd "$crate" && TMPDIR=$scratch WAYFS_TEST_SCRATCH=$scratch CARGO_MANIFEST_DIR=$crate RUST_BACKTRACE=${RUST_BACKTRACE:-1} \
        timeout -k 10 "$bound" "$@" </dev/null)
    code=$?
    clean_up "$scratch"
    rm -rf "$scratch"
    return $code
}

# The tests of a binary that have no result yet.
unfinished() {
    timeout 10 "$binary" --list --format terse 2>/dev/null | sed -n 's/: test$//p' | sort >"$here/all"
    sed -n 's/^test \(.*\) \.\.\. .*/\1/p' "$here/output" | sort >"$here/reported"
    comm -23 "$here/all" "$here/reported" >"$here/unfinished"
    echo "$(wc -l <"$here/unfinished") unfinished: $(head -n 8 "$here/unfinished" | tr '\n' ' ')"
}

# More failures than this in one binary are no accident: they are not tried again.
again_max=${WAYFS_TEST_AGAIN:-5}

# Notes what came of a binary whose output is there and that ended with status $1.
judge() {
    : >"$here/broken"
    ok=$(sed -n 's/^test result: .* \([0-9]*\) passed;.*/\1/p' "$here/output" | tail -n 1)
    if ! grep -q '^test result: ' "$here/output"; then
        # It ended before its summary: what had passed until then still counts.
        ok=$(grep -c '^test .* \.\.\. ok$' "$here/output")
        case $1 in
        124 | 137) why="ran into its bound of $bound s with $(unfinished)" ;;
        *) why="ended with status $1 and $(unfinished)" ;;
        esac
        echo "test result: FAILED. $ok passed; $name $why" >>"$here/output"
        sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$here/output" | sort -u - "$here/unfinished" >"$here/broken"
    elif [ "$1" -ne 0 ]; then
        # The last list of names that a test program prints is that of its failures.
        awk '/^failures:$/ { names = ""; on = 1; next } /^test result: / { on = 0 } on && /^    / { names = names $1 "\n" } END { printf "%s", names }' \
            "$here/output" >"$here/broken"
        [ -s "$here/broken" ] || echo "  $name: ended with status $1" >>"$work/failures"
    fi
    echo "$ok" >>"$work/passed"
    if [ "$(wc -l <"$here/broken")" -le "$again_max" ]; then
        sed "s|^|$crate $binary |" "$here/broken" >>"$work/again"
    else
        sed "s|^|  $(basename "$binary"): |" "$here/broken" >>"$work/failures"
    fi
}

# Runs binaries until none is left. A binary's output is shown in one piece when it has ended.
run_lane() {
    lane=$1
    here=$work/lane-$lane
    scratch=$here/s
    mkdir -p "$here"
    chmod 711 "$here"
    while take; do
        name="${crate#"$root"/} $(basename "$binary")"
        echo "Running $name"
        started=$(date +%s)
        bounded "$binary" >"$here/output" 2>&1
        judge $?
        exec 8>"$work/lock"
        flock 8
        printf '\nOutput of %s\n' "$name"
        cat "$here/output"
        echo "($(($(date +%s) - started)) s)"
        exec 8>&-
    done
}

lane=0
while [ "$lane" -lt "$lanes" ]; do
    lane=$((lane + 1))
    run_lane "$lane" &
    lane_pids="$lane_pids $!"
done
wait
lane_pids=""

# Runs one test alone. What it prints is shown if it fails.
alone() {
    bounded "$binary" --exact "$1" >"$work/alone" 2>&1
    # A filter that matches nothing passes, too.
    if [ $? -eq 0 ] && grep -q '^test result: ok. 1 passed' "$work/alone"; then
        return 0
    fi
    cat "$work/alone"
    return 1
}

scratch=$work/s
unsteady=""
while read -r crate binary one; do
    printf '\nRunning %s twice more, alone\n' "$one"
    if alone "$one" && alone "$one"; then
        echo 1 >>"$work/passed"
        unsteady="$unsteady
  $(basename "$binary"): $one"
    else
        echo "  $(basename "$binary"): $one" >>"$work/failures"
        grep -A 1 ' panicked at ' "$work/alone" | head -n 2 | cut -c 1-400 | sed 's/^/    /' >>"$work/failures.why"
    fi
done <"$work/again"

passed=$(awk '{ sum += $1 } END { print sum + 0 }' "$work/passed")
failed=$(wc -l <"$work/failures")
echo
[ -z "$unsteady" ] || printf 'Unsteady (failed once, then passed twice alone):%s\n\n' "$unsteady"
[ "$failed" -eq 0 ] || printf 'Failures:\n%s\n\n' "$(cat "$work/failures" "$work/failures.why" 2>/dev/null)"
# Mounts and servers behave otherwise where there is little room: some tests cannot pass then.
free=$(df -m --output=avail "$work" | tail -n 1)
[ "$free" -ge 5120 ] || printf 'The disk has only %s MiB left: the tests want 5 GiB beside what is built.\n\n' "$((free))"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
