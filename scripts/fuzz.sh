#!/bin/sh
# Fuzzes targets for a while, and writes down how long each has run. Needs a nightly toolchain and cargo-fuzz (`cargo install cargo-fuzz`).
#
#   scripts/fuzz.sh [-j JOBS] [SECONDS [TARGET...]]             so long for each target; default 300 seconds, and all of them
#   scripts/fuzz.sh [-j JOBS] -t TOTAL [-g GOAL] [TARGET...]    spreads TOTAL seconds of the clock over the targets that have not run for GOAL
#                                                               seconds of a processor yet (default 3600), those that ran least first
#   scripts/fuzz.sh -r                                          prints what all runs together were, as rows of docs/fuzzing.md
#
#   -j JOBS                        targets that run at one time, default 1
#   -b                             builds nothing: the programs of the last time run (or those in WAYFS_FUZZ_PROGRAMS)
#   WAYFS_FUZZ_SLOW=10             seconds of the clock after which an input counts as slow; more beside other work, which takes the processor away
#   WAYFS_FUZZ_SANITIZER=address   default none: quicker to build and to run, and the program is safe Rust but for its calls of the system
#
# Each target begins with what is in fuzz/seeds/TARGET and with the words in fuzz/dictionaries/TARGET.dict, if they are there; what it finds
# on the way stays in fuzz/corpus/TARGET for the next run. A target that finds something ends there, its input and log in
# fuzz/artifacts/TARGET, and the others go on; the script fails at its end.
#
# Each run adds a line to fuzz/report.tsv, so that hours add up over days: when, of which commit the programs were, which target, seconds of the clock, seconds
# of a processor (the goal counts these, since a machine may have other work), executions, edges, features, edges of all code that is
# linked into the program, outcome (clean, finding, slow; stopped: ended by us before its time). What was run for how long stands in docs/fuzzing.md.
#
# Whole sessions of arbitrary well-formed messages against each role run on stable Rust in the tests of `proto`, 150 worlds of each kind; more:
#   WAYFS_RANDOM_PEERS=5000 cargo test -p wayfs-proto --lib random_peers
# Small changes of the seeds run there, too: cargo test -p wayfs-decoder-tests
set -eu
script=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
cd "$(dirname "$script")/../fuzz"
sanitizer=${WAYFS_FUZZ_SANITIZER:-none}
slow=${WAYFS_FUZZ_SLOW:-10}
report=report.tsv
[ -s "$report" ] || printf 'at\tcommit\ttarget\tseconds\tprocessor\texecutions\tedges\tfeatures\tlinked\toutcome\n' >"$report"

all_targets() { sed -n 's|^path = "fuzz_targets/\(.*\)\.rs"|\1|p' Cargo.toml; }

# In 16 units for each crate: cargo-fuzz's own choice, one, cannot use a second processor where a crate waits for the one before it.
build() {
    cargo +nightly fuzz build --sanitizer "$sanitizer" --target-dir target --codegen-units 16 "$@"
    git rev-parse --short HEAD >"$programs/commit"
}

# Runs target $2 for $1 seconds, and says in the report how it went.
run_one() {
    target=$2
    mkdir -p "corpus/$target" "artifacts/$target"
    log=artifacts/$target/log
    begin=$(date +%s)
    set -- "-max_total_time=$1" "corpus/$target"
    [ ! -d "seeds/$target" ] || set -- "$@" "seeds/$target"
    [ ! -f "dictionaries/$target.dict" ] || set -- "$@" "-dict=dictionaries/$target.dict"
    outcome=clean
    "$programs/$target" "$@" "-artifact_prefix=artifacts/$target/" -rss_limit_mb=2048 -timeout=$((slow * 2)) -report_slow_units="$slow" -print_final_stats=1 \
        >"$log" 2>&1 || outcome=finding
    if [ "$outcome" = clean ] && grep -q slow-unit- "$log"; then outcome=slow; fi
    [ "$outcome" = clean ] || cp "$log" "artifacts/$target/$outcome-$begin.log"
    times >"artifacts/$target/times"
    awk -v target="$target" -v seconds="$(($(date +%s) - begin))" -v outcome="$outcome" -v at="$(date -u +%Y-%m-%dT%H:%M)" \
        -v commit="$(cat "$programs/commit" 2>/dev/null || echo unknown)" '
        $1 ~ /^#[0-9]+$/ { for (i = 2; i < NF; i++) { if ($i == "cov:") cov = $(i + 1); if ($i == "ft:") ft = $(i + 1) } }
        /inline 8-bit counters/ { match($0, /\([0-9]+/); linked = substr($0, RSTART + 1, RLENGTH - 1) }
        $1 == "stat::number_of_executed_units:" { runs = $2 }
        # The second line of `times`, of the children: "0m1.20s 0m0.10s".
        FILENAME ~ /times$/ && FNR == 2 { split($1 $2, part, /[ms]/); cpu = part[1] * 60 + part[2] + part[3] * 60 + part[4] }
        END { printf "%s\t%s\t%s\t%d\t%.1f\t%d\t%d\t%d\t%d\t%s\n", at, commit, target, seconds, cpu, runs, cov, ft, linked, outcome }' \
        "$log" "artifacts/$target/times" | tee -a "$report"
    [ "$outcome" = clean ]
}

# What each target has in the report: seconds of a processor, executions, its coverage at the end of the last run, runs that ended with a finding.
sums() {
    all_targets | awk -F '\t' -v format="$1" '
        FILENAME == "-" { names[++count] = $1; next }
        { seconds[$3] += $5; runs[$3] += $6; cov[$3] = $7; ft[$3] = $8; linked[$3] = $9; bad[$3] += $10 == "finding" || $10 == "slow" }
        END { for (i = 1; i <= count; i++) { n = names[i]; printf format, n, seconds[n], runs[n], cov[n], linked[n], ft[n], bad[n] } }' - "$report"
}

# Names and seconds, one target a line: who ran least comes first, and nobody runs beyond the goal.
spread() {
    sums '%s\t%d\n' | grep -E "^($(echo "${*:-.*}" | tr ' ' '|'))	" | sort -t '	' -k 2n | awk -F '\t' -v left="$((total * jobs))" -v goal="$goal" '
        $2 < goal { name[++count] = $1; had[count] = $2 }
        END {
            # The level that all come up to: as many of the lowest take part as there are seconds for.
            for (part = count; part >= 1; part--) {
                sum = 0
                for (i = 1; i <= part; i++) sum += had[i]
                level = int((left + sum) / part)
                if (level > had[part] + 30) break
            }
            if (level > goal) level = goal
            for (i = 1; i <= part; i++) print level - had[i], name[i]
        }'
}

jobs=1 total='' goal=3600 building=yes
while getopts j:t:g:rb1 option; do
    case $option in
        j) jobs=$OPTARG ;;
        t) total=$OPTARG ;;
        g) goal=$OPTARG ;;
        r) sums '| `%s` | %d | %d | %d of %d / %d | %d |\n' && exit ;;
        b) building=no ;;
        1) shift && run_one "$@" && exit || exit 1 ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

programs=${WAYFS_FUZZ_PROGRAMS:-target/$(rustc +nightly -vV | sed -n 's/^host: //p')/release}
export programs
if [ -n "$total" ]; then
    plan=$(spread "$@")
else
    seconds=${1:-300}
    [ $# -eq 0 ] || shift
    plan=$(for target in ${*:-$(all_targets)}; do echo "$seconds $target"; done)
fi
if [ -z "$plan" ]; then
    echo "All have run for $goal seconds." && exit
elif [ "$building" = no ]; then
    :
elif [ $# -eq 0 ]; then
    build
else
    for target in "$@"; do build "$target"; done
fi
echo "$plan" | xargs -P "$jobs" -n 2 "$script" -1
