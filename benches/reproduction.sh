#!/usr/bin/env bash
# Runs all experiments of the papers and writes docs/REPRODUCTION.md from them: what was found
# (docs/reproduction/findings.md), the list of every printed figure, and the report of each experiment. Usage:
#   benches/reproduction.sh [--quick] [--jobs N]   everything at full size: hours on two cores; --quick: minutes,
#                                                  without fits and what-ifs, whose reports stay as they are
#   benches/reproduction.sh --page                 only build the page from the reports that are there
# An interrupted run goes on where it was: OUT (target/reproduction) keeps what has run. The working tree must be
# clean, since every report names its commit.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
cargo build --profile dist -p rc3-lab --bin rc3-lab
lab=$target/dist/rc3-lab
docs=docs/reproduction
if [ "${1:-}" != --page ]; then
    if [ -n "$(git status --porcelain)" ]; then echo "commit your changes first: reports name their commit" >&2 && exit 2; fi
    out=${OUT:-$target/reproduction}
    "$lab" sim run all --shard 1/1 --commit "$(git rev-parse --short=12 HEAD)" --out "$out" "$@"
    "$lab" sim merge "$out" --out "$out/reports"
    for folder in "$out"/reports/*/; do
        name=$(basename "$folder")
        mkdir -p "$docs/$name"
        cp "$folder"/*.svg "$folder/report.md" "$docs/$name/"
        cp "$folder/comparison.csv" "$docs/$name/"
    done
    echo "every flow and all tables are in $out/reports"
fi
{
    cat "$docs/findings.md"
    echo
    "$lab" sim coverage "$docs" | sed 's/^#/##/'
    # Reports on real sockets come from benches/kickass.sh, kickass-path.sh and `rc3-lab net run kickass-fig12`.
    names=$("$lab" sim list --json | sed -E 's/.*"name":"([^"]*)".*/\1/')
    for name in $names sockets-fig8 sockets-fig9 sockets-fig10 sockets-shared sockets-fig11 sockets-fig12; do
        report=$docs/$name/report.md
        if [ ! -f "$report" ]; then continue; fi
        echo
        # One heading level deeper, with picture paths relative to the page; flow sizes stay in the report.
        awk -v name="$name" '
            /^#/ { $0 = "#" $0 }
            /^## / && !titled { $0 = $0 " (" name ")"; titled = 1 }
            /^### By flow size/ { exit }
            { gsub(/\]\(/, "](reproduction/" name "/"); print }' "$report"
        if grep -q '^## By flow size' "$report"; then echo "[By flow size](reproduction/$name/report.md)"; fi
    done
} >docs/REPRODUCTION.md
