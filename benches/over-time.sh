#!/usr/bin/env bash
# Adds the ratios of this commit to docs/results/over-time.csv and draws the page. Usage, on a machine with two cores or more:
#   benches/over-time.sh                      a minute, after the build
#   benches/over-time.sh PROGRAM COMMIT       the simulated ratios alone, by an rc3-lab of another commit
set -euo pipefail
# What runs in $(...) ends at its first failure too: a run that failed leaves a report.
shopt -s inherit_errexit
cd "$(dirname "$0")/.."

csv=docs/results/over-time.csv
work=$(mktemp -d)
trap '[ $? = 0 ] || cat "$work/log" >&2 || true; rm -rf "$work"' EXIT
# A fixed part, so that rows can be compared when scenarios are added.
scenarios=(fifo codel policer background priority fifo-known priority-known fifo-cubic fifo-newreno fifo-load loss-1
    rate-halves jitter-10)

main() {
    local lab=${1:-} commit=${2:-HEAD} key simulated measured=,,
    commit=$(git rev-parse --short=8 "$commit")
    key=$(git rev-list --count "$commit"),$commit,$(TZ=UTC git show -s --format=%cd --date=format-local:%Y-%m-%d "$commit")
    cargo build --quiet --release -p rc3-lab --bin rc3-lab
    local own=${CARGO_TARGET_DIR:-target}/release/rc3-lab
    simulated=$(simulate "${lab:-$own}")
    if [ -z "$lab" ]; then
        measured=$(measure "$(realpath "$own")")
        [[ $measured =~ ^[0-9.]+,[0-9.]+,[0-9.]+$ ]] || { echo "not three ratios: $measured" >&2 && exit 1; }
    fi
    # A commit has one row, and rows stand in the order of history.
    { head -n 1 "$csv"; { tail -n +2 "$csv" | grep -v ",$commit," || true; echo "$key,$simulated,$measured"; } | sort -t, -n; } >"$work/over-time.csv"
    "$own" over-time "$work/over-time.csv"
    cp "$work"/over-time.* "${csv%/*}"
    tail -n 1 "$csv"
}

# simulate PROGRAM: the mean over all flows of FCT / plain, the worst, and the mean of what others keep.
simulate() {
    "$1" sim today --quick "${scenarios[@]}" 2>"$work/log" | awk -v wanted="${#scenarios[@]}" '
        /^[a-z0-9-]+: FCT/ { scheme = $1 }
        scheme == "guard:" && $2 ~ /^[0-9]+$/ && NF > 6 {
            groups++; cells += $2; logs += $2 * log($3); if ($4 > worst) worst = $4
            if ($9 ~ /^[0-9.]+,$/) { beside += $2; kept += $2 * $9 }
        }
        END {
            if (groups != wanted) { print "only " groups " scenarios" >"/dev/stderr"; exit 1 }
            printf "%.3f,%.2f,%.3f", exp(logs / cells), worst, kept / beside
        }'
}

# measure PROGRAM: over quinn, CPU time of bulk data, median exchange, and exchange on a new connection.
measure() {
    local how=(--schemes "rc3,quinn" --runs 5 --out "$work")
    "$1" net run bulk-loopback --sizes 300M --mtu 1500 "${how[@]}" >"$work/log" 2>&1
    # Its last column is of bits per CPU second.
    awk -F'|' '/^\| rc3 \|/ && NF == 6 { split($5, of, " "); printf "%.2f,", 1 / of[1] }' "$work/report.md"
    "$1" net run exchanges-loopback --exchanges 1000 "${how[@]}" >"$work/log" 2>&1
    awk -F'|' '/^\| rc3 \|/ && NF == 7 { split($4, of, " "); printf "%s%.2f", comma, of[1]; comma = "," }' "$work/report.md"
}

main "$@"
