#!/usr/bin/env bash
# Runs experiments of the papers and writes their reports and pictures into docs/, then builds docs/REPRODUCTION.md from
# docs/reproduction/findings.md and all existing reports. Usage: benches/reproduction.sh NAME... [OPTIONS of rc3-lab sim
# run], for example all --runs 1 --flows 4000. Without arguments it only builds the page.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release -p rc3-lab --bin rc3-lab
lab=${CARGO_TARGET_DIR:-target}/release/rc3-lab
docs=docs/reproduction
if [ $# -gt 0 ]; then
    out=${OUT:-$(mktemp -d)}
    "$lab" sim run "$@" --out "$out"
    for folder in "$out"/*/; do
        name=$(basename "$folder")
        mkdir -p "$docs/$name"
        cp "$folder"/*.svg "$folder/report.md" "$docs/$name/"
    done
    echo "every flow and all tables are in $out"
fi
{
    cat "$docs/findings.md"
    # Reports on real sockets come from benches/kickass.sh.
    names=$("$lab" sim list --json | sed -E 's/.*"name":"([^"]*)".*/\1/')
    for name in $names sockets-fig8 sockets-fig9 sockets-fig10 sockets-shared; do
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
