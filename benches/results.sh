#!/usr/bin/env bash
# Compares rc3 with other transports on real sockets, repeats Figs. 15 to 18 of the RC3 paper, and writes docs/RESULTS.md.
# Usage, as root on a quiet machine:
#   benches/results.sh [RUNS]      how often each scheme takes its turn (5): about 50 minutes
#   benches/results.sh --page      only build the page, from the results in OUT (target/results) or those in docs/results
# `rc3-lab net check` names what the machine lacks; a machine that is too busy ends the run with code 4.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
out=${OUT:-$target/results}
docs=docs/results
parts="all figures figures-200mbit"

if [ "${1:-}" != --page ]; then
    runs=${1:-5}
    cargo build --profile dist -p rc3-lab --bin rc3-lab
    cargo build --release --manifest-path peers/Cargo.toml --target-dir "$target/peers"
    mkdir -p "$out"
    cp "$target/dist/rc3-lab" "$target/peers/release/rc3-peers" "$out/"
    git rev-parse --short=12 HEAD >"$out/commit"
    # The folder's name is in the reports.
    cd "$out"
    nice -n -5 ./rc3-lab net run all --runs "$runs" --out all
    # As in the paper, without other transports; at rates that two cores carry.
    papers=(--rtt 20ms --schemes rc3,rc3-trust,rc3-off --runs "$((runs + 1))")
    nice -n -5 ./rc3-lab net run fig15 fig16 fig17 fig18 --rate 400mbit "${papers[@]}" --out figures
    nice -n -5 ./rc3-lab net run fig15 --rate 200mbit "${papers[@]}" --out figures-200mbit
    cd - >/dev/null
fi
mkdir -p "$docs"
{
    cat "$docs/findings.md"
    for part in $parts; do
        if [ -f "$out/$part/report.md" ]; then
            mkdir -p "$docs/$part"
            cp "$out/$part"/*.svg "$out/$part/report.md" "$docs/$part/"
            cp "$out/commit" "$docs/$part/commit"
        fi
        if [ ! -f "$docs/$part/report.md" ]; then continue; fi
        echo
        awk -v part="$part" -v commit="$(cat "$docs/$part/commit")" '
            /^# / { $0 = $0 " (" part ", commit " commit ")" }
            /^#/ { $0 = "#" $0 }
            { gsub(/\]\(/, "](results/" part "/"); print }' "$docs/$part/report.md"
    done
} >docs/RESULTS.md
