#!/usr/bin/env bash
# Compares rc3 with other transports on real sockets, repeats Figs. 15 to 18 of the RC3 paper, and updates docs/results.
# Usage, as root on a quiet machine:
#   benches/results.sh [RUNS]      how often each scheme takes its turn (5): about 90 minutes
# `rc3-lab net check` names what the machine lacks; a machine that is too busy ends the run with code 4.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
out=${OUT:-$target/results}
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
for part in all figures figures-200mbit; do
    mkdir -p "docs/results/$part"
    cp "$out/$part"/*.svg "$out/$part/report.md" "$out/commit" "docs/results/$part/"
done
