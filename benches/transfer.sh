#!/usr/bin/env bash
# Sends a file through `rc3 send` and `rc3 recv` between two network namespaces, as root, and prints the rate and the
# CPU seconds of both ends. Usage: benches/transfer.sh [MEGABYTES]
set -euo pipefail
cd "$(dirname "$0")/.."
megabytes=${1:-500}

cargo build --release -p rc3
rc3=${CARGO_TARGET_DIR:-target}/release/rc3
left=rc3-left-$$ right=rc3-right-$$
work=$(mktemp -d)
trap 'ip netns delete "$left" || true; ip netns delete "$right" || true; rm -rf "$work"' EXIT

ip netns add "$left"
ip netns add "$right"
ip -n "$left" link add veth0 type veth peer name veth0 netns "$right"
ip -n "$left" addr add 10.85.0.1/24 dev veth0
ip -n "$right" addr add 10.85.0.2/24 dev veth0
ip -n "$left" link set veth0 up
ip -n "$right" link set veth0 up

head -c "${megabytes}000000" /dev/urandom >"$work/file"
mkdir "$work/in"
# Prints its line on standard error when the command ends.
measured() {
    local end=$1 namespace=$2
    shift 2
    TIMEFORMAT="$end: %R s, CPU %U s user and %S s system"
    time ip netns exec "$namespace" timeout 300 "$@"
}
measured receiver "$right" "$rc3" recv --listen 10.85.0.2:4433 --dir "$work/in" --json >"$work/recv" &
for _ in {1..50}; do
    if grep -qs ticket "$work/recv"; then break; fi
    sleep 0.1
done
ticket=$(grep -oE 'rc3://[^"]*' "$work/recv")
measured sender "$left" "$rc3" send "$work/file" "$ticket" --json >"$work/send"
wait
tail -n 1 "$work/send"
cmp "$work/file" "$work/in/file" && echo "the same bytes arrived"
