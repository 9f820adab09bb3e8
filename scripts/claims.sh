#!/bin/sh
# Has a volume of real processes lose disks for ever after it said what is safe where, and holds what is left against what was
# said (docs/claims.md). Small disks and power cuts need root and loop devices; without them they are left out.
#
#   scripts/claims.sh [LOSSES] [SEED]     default: 500 losses from seed 1
#   WAYFS_CLAIMS_WORLDS=4                 so many worlds side by side (the default)
#   WAYFS_CLAIMS_MINUTES=120              no loss begins later
#   WAYFS_CLAIMS_KINDS=Flip,PowerCut      only these disasters
#   WAYFS_CLAIMS_STRICT=0                 servers need not say in the end that nothing is left (docs/claims.md)
#   WAYFS_CLAIMS_DIR=DIR                  where the report and the diaries of failing seeds go (default target/claims)
#
# Ends with 0 if all that was claimed was there.
set -eu
cd "$(dirname "$0")/.."
sh scripts/needs.sh --for-tests
directory=${WAYFS_CLAIMS_DIR:-$(pwd)/target/claims}
mkdir -p "$directory"
export WAYFS_CLAIMS_LOSSES="${1:-500}" WAYFS_CLAIMS_SEED="${2:-1}" WAYFS_CLAIMS_MINUTES="${WAYFS_CLAIMS_MINUTES:-120}"
export WAYFS_CLAIMS_WORLDS="${WAYFS_CLAIMS_WORLDS:-4}"
# The daemons do the work: unoptimised, 20 of them on two cores are so slow that bounds are met. Checks and assertions stay in.
export CARGO_PROFILE_DEV_OPT_LEVEL="${CARGO_PROFILE_DEV_OPT_LEVEL:-1}"
export WAYFS_CLAIMS_REPORT="$directory/report.md"
bound=$((WAYFS_CLAIMS_MINUTES * 60 + 1200))
# What was found is the result: another run would write over its report.
WAYFS_TEST_AGAIN=0 WAYFS_TEST_BOUND=$bound WAYFS_TEST_PACKAGES="-p wayfs-system-tests" sh scripts/test.sh claims >"$directory/output.txt" 2>&1 || failed=1
cat "$directory/report.md" 2>/dev/null || tail -n 40 "$directory/output.txt"
echo "Report: $directory/report.md; all output: $directory/output.txt"
[ -z "${failed:-}" ]
