#!/usr/bin/env bash
# Runs every experiment of the RC3 papers and writes docs/REPRODUCTION.md with its pictures: what was found
# (docs/reproduction/findings.md), then what was measured. Usage: benches/reproduction.sh [OPTIONS of rc3 sim run]
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --bin rc3
rc3=${CARGO_TARGET_DIR:-target}/release/rc3
out=${OUT:-$(mktemp -d)}
"$rc3" sim run all "$@" --out "$out"

docs=docs/reproduction
for folder in "$out"/*/; do
    name=$(basename "$folder")
    mkdir -p "$docs/$name"
    cp "$folder"/*.svg "$folder/report.md" "$docs/$name/"
done
# The title stands in findings.md already; links lead one folder further down.
{
    cat "$docs/findings.md"
    echo
    tail -n +2 "$out/report.md" | sed -E 's#\]\(([a-z0-9-]+/)#](reproduction/\1#'
} >docs/REPRODUCTION.md
echo "every flow and all tables are in $out"
