#!/usr/bin/env bash
# Sends packets of 1500 bytes through `kickass forward` between two network namespaces, as root, and prints how many
# arrive, their delay, and the CPU time per packet. The links have 10 Gbit/s, so that only the forwarder limits the
# rate, with 20 ms of delay and 8 strict levels. Usage: benches/forwarder.sh [RATE [SECONDS]]
set -euo pipefail
cd "$(dirname "$0")/.."
rate=${1:-1gbit} seconds=${2:-5}

cargo build --release -p rc3-kickass-tools
cargo build --release -p rc3-lab --bin blast
bin=${CARGO_TARGET_DIR:-target}/release
a=kickass-a-$$ b=kickass-b-$$
work=$(mktemp -d)
chmod 755 "$work"
forwarder=
finish() {
    if [ -n "$forwarder" ]; then kill "$forwarder" 2>/dev/null && wait "$forwarder" || true; fi
    ip netns delete "$a" || true
    ip netns delete "$b" || true
    rm -rf "$work"
}
trap finish EXIT
ip netns add "$a"
ip netns add "$b"

# Prints the ticks of 10 ms that the forwarder has used.
ticks() { awk '{ print $14 + $15 }' "/proc/$forwarder/stat"; }

# measure NAME KICKASS: one run, with this value of the key.
measure() {
    cat >"$work/forward.toml" <<TOML
[[port]]
name = "kick-a"
netns = "$a"
addresses = ["10.90.1.2/24"]
routes = ["10.90.1.0/24"]
rate = "10gbit"

[[port]]
name = "kick-b"
netns = "$b"
addresses = ["10.90.2.2/24"]
routes = ["10.90.2.0/24"]
rate = "10gbit"
delay = "20ms"
buffer = "25M"
queue = { kind = "strict-priority", levels = { 8 = 1, 16 = 2, 24 = 3, 32 = 4, 40 = 5, 48 = 6, 56 = 7 } }
kickass = $2
TOML
    rm -f "$work/events"
    "$bin/kickass" forward --config "$work/forward.toml" --json >"$work/events" &
    forwarder=$!
    for _ in {1..50}; do
        if grep -qs ready "$work/events"; then break; fi
        sleep 0.1
    done
    ip -n "$a" route add 10.90.2.0/24 dev kick-a
    # Leaves Don't Fragment clear.
    ip netns exec "$a" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_no_pmtu_disc'
    ip netns exec "$b" timeout 120 "$bin/blast" receive 10.90.2.2:4433 >"$work/received" &
    local receiver=$!
    sleep 0.5
    local before
    before=$(ticks)
    ip netns exec "$a" timeout 120 "$bin/blast" send 10.90.2.2:4433 --rate "$rate" --time "${seconds}s" >"$work/sent"
    wait "$receiver"
    local used=$(($(ticks) - before))
    local packets
    packets=$(sed -n 's/^received \([0-9]*\) .*/\1/p' "$work/received")
    printf '%s at %s: %s; %s\n' "$1" "$rate" "$(cat "$work/sent")" "$(grep received "$work/received")"
    awk -v ticks="$used" -v packets="$packets" -v seconds="$seconds" 'BEGIN {
        printf "    CPU of the forwarder: %.2f us per packet, %.0f %% of a core\n",
            ticks * 1e4 / packets, ticks / seconds }'
    kill "$forwarder"
    wait "$forwarder"
    forwarder=
}

measure "without signals" "{ on = false }"
measure "with signals" '{ fixed = "100mbit" }'
