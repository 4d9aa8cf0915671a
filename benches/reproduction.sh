#!/usr/bin/env bash
# Runs all experiments of the papers and writes their reports, the list of every printed figure
# (docs/reproduction/coverage.md), the coverage at the end of docs/REPRODUCTION.md, and the score in README.md. Usage:
#   benches/reproduction.sh [--quick] [--jobs N]   everything at full size: hours on two cores, 10 GB; --quick: minutes,
#                                                  without fits and what-ifs, whose reports stay as they are
#   benches/reproduction.sh --page                 only write the coverage from the reports that are there
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
missing=$("$lab" sim list | cut -d' ' -f1 | while read -r name; do [ -e "$docs/$name/report.md" ] || printf ' %s' "$name"; done)
if [ -n "$missing" ]; then echo "no report of$missing" >&2 && exit 1; fi
# Reports on real sockets come from `rc3-lab net run kickass-fig8` and so on.
"$lab" sim coverage "$docs" >"$docs/coverage.md"
# The page is written by hand down to the line that names this script. Below it is the list of coverage without single
# figures, its links relative to the page.
page=$(
    sed '/^<!-- benches\/reproduction.sh/q' docs/REPRODUCTION.md
    sed -e 1d -e '/^## /,$d' -e 's|](|](reproduction/|g; s|reproduction/\.\./||g' "$docs/coverage.md"
)
echo "$page" >docs/REPRODUCTION.md
# The README has the score.
score=$(grep '^Of [0-9]* printed figures' "$docs/coverage.md")
sed -i "s/^| Do the papers' results hold? |[^[]*/| Do the papers' results hold? | $score /" README.md
