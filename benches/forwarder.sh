#!/usr/bin/env bash
# Sends packets of 1500 bytes through `kickass forward` between two network namespaces, as root, and prints how many
# arrive, their delay, the CPU time per packet, and how long files over kernel TCP take. The links have 20 Gbit/s, so
# that only the forwarder limits the rate, with 20 ms of delay and 8 strict levels. Several builds or values of a key take
# turns; the lines at the end are the medians. The forwarder has nice -20, because sender and receiver share its cores.
#
#   benches/forwarder.sh [RATE...]      default: 1gbit 5gbit 10gbit
#   SECONDS_EACH=5 TURNS=3              how long, and how often
#   BATCH=43                            datagrams in one call of the sender; 1 sends them one by one
#   SIGNALS="off sampled"               no signals, one per millisecond, or `each` packet in two
#   OFFLOAD="true false"                values of the key
#   OTHER=path/to/kickass               another build without the key, in turns with this one
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -eq 0 ]; then set -- 1gbit 5gbit 10gbit; fi
seconds=${SECONDS_EACH:-5} turns=${TURNS:-3} batch=${BATCH:-43}
signals=${SIGNALS:-off sampled} offloads=${OFFLOAD:-true false}

cargo build --release -p rc3-kickass-tools
cargo build --release -p rc3-lab --bin blast
bin=${CARGO_TARGET_DIR:-target}/release
a=kickass-a-$$ b=kickass-b-$$
work=$(mktemp -d)
chmod 755 "$work"
forwarder= receiver=
finish() {
    for process in $receiver $forwarder; do
        kill "$process" 2>/dev/null && wait "$process" || true
    done
    ip netns delete "$a" || true
    ip netns delete "$b" || true
    rm -rf "$work"
}
trap finish EXIT
ip netns add "$a"
ip netns add "$b"

# Prints the microseconds for which the forwarder has run.
used() { awk '{ print $1 / 1000 }' "/proc/$forwarder/schedstat"; }

# start SIGNALS OFFLOAD: a forwarder with these; `other` is the other build.
start() {
    local kickass key="offload = $2" program=$bin/kickass
    case $1 in
    off) kickass='{ on = false }' ;;
    sampled) kickass='{ fixed = "100mbit", sampling = { interval = "1ms" } }' ;;
    each) kickass='{ fixed = "100mbit" }' ;;
    esac
    if [ "$2" = other ]; then key='' program=$OTHER; fi
    cat >"$work/forward.toml" <<TOML
[forward]
$key

[[port]]
name = "kick-a"
netns = "$a"
addresses = ["10.90.1.2/24"]
routes = ["10.90.1.0/24"]
rate = "20gbit"

[[port]]
name = "kick-b"
netns = "$b"
addresses = ["10.90.2.2/24"]
routes = ["10.90.2.0/24"]
rate = "20gbit"
delay = "20ms"
buffer = "50M"
queue = { kind = "strict-priority", levels = { 8 = 1, 16 = 2, 24 = 3, 32 = 4, 40 = 5, 48 = 6, 56 = 7 } }
kickass = $kickass
TOML
    rm -f "$work/events"
    nice -n -20 "$program" forward --config "$work/forward.toml" --json >"$work/events" &
    forwarder=$!
    for _ in {1..50}; do
        if grep -qs ready "$work/events"; then break; fi
        sleep 0.1
    done
    ip -n "$a" route add 10.90.2.0/24 dev kick-a
    ip -n "$b" route add 10.90.1.0/24 dev kick-b
    # Leaves Don't Fragment clear.
    ip netns exec "$a" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_no_pmtu_disc'
}

stop() {
    kill "$forwarder"
    wait "$forwarder"
    forwarder=
}

# datagrams RATE SIGNALS OFFLOAD: one run.
datagrams() {
    start "$2" "$3"
    ip netns exec "$b" timeout 120 "$bin/blast" receive 10.90.2.2:4433 --joined 1500 >"$work/received" &
    receiver=$!
    sleep 0.5
    local before
    before=$(used)
    ip netns exec "$a" timeout 120 "$bin/blast" send 10.90.2.2:4433 --rate "$1" --time "${seconds}s" \
        --batch "$batch" >"$work/sent"
    wait "$receiver"
    receiver=
    local time
    time=$(awk -v before="$before" -v after="$(used)" 'BEGIN { print after - before }')
    stop
    sed -n 's/^received \([0-9]*\) of [0-9]*, lost \([0-9.]*\) %, \([0-9]*\) packets.s, \([0-9.]*\) per read, delay median \([0-9.]*\), 99 % \([0-9.]*\), most \([0-9.]*\) ms/\1 \2 \3 \4 \5 \6 \7/p' \
        "$work/received" | awk -v time="$time" -v seconds="$seconds" -v name="$1 $2 $3" '{
            printf "%s %.2f us/packet %.0f %% of a core, lost %s %%, %s packets/s, %s per read, delay %s %s %s ms\n",
                name, time / $1, time / seconds / 1e4, $2, $3, $4, $5, $6, $7 }' | tee -a "$work/all"
}

# files SIGNALS OFFLOAD: completion times.
files() {
    start "$1" "$2"
    ip netns exec "$b" timeout 120 "$bin/blast" serve 10.90.2.2:4434 >"$work/serving" &
    receiver=$!
    sleep 0.5
    local before
    before=$(used)
    ip netns exec "$a" timeout 120 "$bin/blast" files 10.90.2.2:4434 --sizes 10000,1000000,100000000 --count 9 |
        sed "s/^/files $1 $2: /"
    awk -v before="$before" -v after="$(used)" -v name="files $1 $2" 'BEGIN {
        printf "%s: %.2f us of the forwarder for each 1500 bytes\n", name,
            (after - before) / (9 * 101.01e6 / 1448) }'
    kill "$receiver"
    wait "$receiver" || true
    receiver=
    stop
}

kinds=$offloads
if [ -n "${OTHER:-}" ]; then kinds="$kinds other"; fi
for turn in $(seq "$turns"); do
    echo "turn $turn"
    for rate in "$@"; do
        for signal in $signals; do
            for kind in $kinds; do datagrams "$rate" "$signal" "$kind"; done
        done
    done
done
echo "medians of $turns turns: us per packet, % of a core, % lost, packets/s, per read, delay median, 99 %, most"
awk '{ print $1, $2, $3 }' "$work/all" | sort -u -V | while read -r name; do
    printf '%s' "$name"
    for field in 4 6 12 14 16 20 21 22; do
        awk -v name="$name" -v field="$field" '$1 " " $2 " " $3 == name { gsub(/,/, ""); print $field }' "$work/all" |
            sort -n | awk '{ values[NR] = $1 } END { printf " %s", values[int((NR + 1) / 2)] }'
    done
    echo
done
for kind in $kinds; do files sampled "$kind"; done
