#!/bin/sh
# Builds every test binary, then runs them one by one, each under a bound, and goes on after failures.
#
#   scripts/test.sh [WORD...]     only binaries whose name or crate directory contains one of the words
#   WAYFS_TEST_BOUND=300          seconds for one binary
#   WAYFS_TEST_PACKAGES="-p X"    only these packages (as cargo takes them) are built and run
#
# Ends with one line, "N passed, N failed", and is non-zero if anything failed or ran into its bound. Doc tests are not run.
# A test that fails, or that its binary's bound cut off, is run twice more, alone. If both runs pass it is listed as unsteady and counts as
# passed: a fault of the product shows again, one of a machine that was starved for a moment does not. The first output stays in the log.
# Every binary gets a scratch directory of its own as TMPDIR; mounts and processes that it leaves behind are told by that.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$(pwd)
bound=${WAYFS_TEST_BOUND:-300}
work=$(mktemp -d "${TMPDIR:-/tmp}/wayfs-test.XXXXXX") || exit 1
# Tests that become an ordinary user must come through.
chmod 711 "$work"
trap 'clean_up "$work"; rm -rf "$work"' EXIT
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

# Processes that were given this scratch directory and still run: daemons that left the binary's process group.
leftovers() {
    for process in /proc/[0-9]*; do
        tr '\0' '\n' 2>/dev/null <"$process/environ" | grep -qx "WAYFS_TEST_SCRATCH=$1" && echo "${process#/proc/}"
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

# The tests of a binary that have no result yet.
unfinished() {
    timeout 10 "$1" --list --format terse 2>/dev/null | sed -n 's/: test$//p' | sort >"$work/all"
    sed -n 's/^test \(.*\) \.\.\. .*/\1/p' "$2" | sort >"$work/reported"
    comm -23 "$work/all" "$work/reported" >"$work/unfinished"
    echo "$(wc -l <"$work/unfinished") unfinished: $(head -n 8 "$work/unfinished" | tr '\n' ' ')"
}

# Runs one test of a binary alone. What it prints is shown if it fails.
alone() {
    mkdir -p "$scratch"
    (cd "$1" && TMPDIR=$scratch WAYFS_TEST_SCRATCH=$scratch CARGO_MANIFEST_DIR=$1 RUST_BACKTRACE=${RUST_BACKTRACE:-1} \
        timeout -k 10 "$bound" "$2" --exact "$3" </dev/null) >"$work/alone" 2>&1
    code=$?
    clean_up "$scratch"
    rm -rf "$scratch"
    # A filter that matches nothing passes, too.
    if [ "$code" -eq 0 ] && grep -q '^test result: ok. 1 passed' "$work/alone"; then
        return 0
    fi
    cat "$work/alone"
    return 1
}

# Runs the tests that are listed in a file twice more. Sets the numbers of those that came through and of those that did not.
again() {
    came_through=0
    failed_again=0
    while read -r one; do
        [ -n "$one" ] || continue
        echo "Running $one twice more, alone"
        if alone "$1" "$2" "$one" && alone "$1" "$2" "$one"; then
            came_through=$((came_through + 1))
            unsteady="$unsteady
  $(basename "$1"): $one"
        else
            failed_again=$((failed_again + 1))
            failures="$failures
  $(basename "$1"): $one"
        fi
    done <"$3"
}

chosen() {
    [ $# -gt 1 ] || return 0
    name=$1
    shift
    for word in "$@"; do
        case $name in *"$word"*) return 0 ;; esac
    done
    return 1
}

# More failures than this in one binary are no accident: they are not tried again.
again_max=5
passed=0
failed=0
failures=""
unsteady=""
while read -r crate binary; do
    name="${crate#"$root"/} $(basename "$binary")"
    chosen "$name" "$@" || continue
    echo
    echo "Running $name"
    scratch=$work/s
    mkdir -p "$scratch"
    output=$work/output
    started=$(date +%s)
    # `timeout` leads a process group of its own and ends all of it: first gently, ten seconds later for good.
    (cd "$crate" && TMPDIR=$scratch WAYFS_TEST_SCRATCH=$scratch CARGO_MANIFEST_DIR=$crate RUST_BACKTRACE=${RUST_BACKTRACE:-1} \
        timeout -k 10 "$bound" "$binary" </dev/null) >"$output" 2>&1
    status=$?
    cat "$output"
    clean_up "$scratch"
    rm -rf "$scratch"
    ok=$(sed -n 's/^test result: .* \([0-9]*\) passed;.*/\1/p' "$output" | tail -n 1)
    : >"$work/broken"
    bad=0
    if ! grep -q '^test result: ' "$output"; then
        # It ended before its summary: what had passed until then still counts.
        ok=$(grep -c '^test .* \.\.\. ok$' "$output")
        case $status in
        124 | 137) why="ran into its bound of $bound s with $(unfinished "$binary" "$output")" ;;
        *) why="ended with status $status and $(unfinished "$binary" "$output")" ;;
        esac
        echo "test result: FAILED. $ok passed; $name $why"
        sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$output" | sort -u - "$work/unfinished" >"$work/broken"
    elif [ "$status" -ne 0 ]; then
        # The last list of names that a test program prints is that of its failures.
        awk '/^failures:$/ { names = ""; on = 1; next } /^test result: / { on = 0 } on && /^    / { names = names $1 "\n" } END { printf "%s", names }' \
            "$output" >"$work/broken"
    fi
    if [ -s "$work/broken" ] && [ "$(wc -l <"$work/broken")" -le "$again_max" ]; then
        again "$crate" "$binary" "$work/broken"
        ok=$((ok + came_through))
        bad=$failed_again
    elif [ -s "$work/broken" ]; then
        bad=$(wc -l <"$work/broken")
        failures="$failures
$(sed "s/^/  $(basename "$crate"): /" "$work/broken")"
    elif [ "$status" -ne 0 ]; then
        bad=1
        failures="$failures
  $name: ended with status $status"
    fi
    passed=$((passed + ok))
    failed=$((failed + bad))
    echo "($(($(date +%s) - started)) s)"
done <"$work/binaries"

echo
[ -z "$unsteady" ] || printf 'Unsteady (failed once, then passed twice alone):%s\n\n' "$unsteady"
[ -z "$failures" ] || printf 'Failures:%s\n\n' "$failures"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
