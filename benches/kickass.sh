#!/usr/bin/env bash
# Figures 8, 9 and 10 of the Kick-Ass paper on real sockets, as root: eight senders in one network namespace, their
# receiver in another, `kickass forward` with a round trip of 100 ms between them. Usage:
#   benches/kickass.sh [RUN...]
# where a RUN is LOAD/NAME, for example light/cubic; without arguments all. Results are kept in the folder $OUT, so that
# further runs can be added; reports and pictures of all results go to docs/reproduction. SECONDS_LIGHT (60) and
# SECONDS_HEAVY (120) set how long new flows begin, SEED (1) which flows.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds_light=${SECONDS_LIGHT:-60} seconds_heavy=${SECONDS_HEAVY:-120} seed=${SEED:-1}

cargo build --release -p rc3-kickass-tools
cargo build --release -p rc3-lab --bin flows
bin=${CARGO_TARGET_DIR:-target}/release
out=${OUT:-$(mktemp -d)}
work=$(mktemp -d)
# The forwarder reloads its configuration as nobody.
chmod 755 "$work"
a=kickass-a-$$ b=kickass-b-$$
forwarder= receiver= senders=
stop() {
    if [ -n "$1" ]; then kill "$1" 2>/dev/null && wait "$1" || true; fi
}
finish() {
    stop "$senders"
    stop "$receiver"
    stop "$forwarder"
    ip netns delete "$a" || true
    ip netns delete "$b" || true
    rm -rf "$work"
}
trap finish EXIT
ip netns add "$a"
ip netns add "$b"
inside() {
    local namespace=$1
    shift
    ip netns exec "$namespace" "$@"
}
for namespace in "$a" "$b"; do
    # Each flow goes to a host without remembered paths.
    inside "$namespace" sysctl -qw net.ipv4.tcp_no_metrics_save=1
done

# until_there FILE: waits until the file is not empty.
until_there() {
    for _ in {1..100}; do
        if [ -s "$1" ]; then return; fi
        sleep 0.1
    done
    echo "nothing in $1" >&2
    return 1
}

# measure LOAD NAME ECN SCHEMES KEYS: one run, with these schemes at a port with these keys.
measure() {
    local load=$1 name=$2 ecn=$3 schemes=$4 keys=$5 rate=100mbit seconds=$seconds_light
    if [ "$load" = heavy ]; then rate=10mbit seconds=$seconds_heavy; fi
    mkdir -p "$out/$load"
    local results=$out/$load/$name
    cat >"$work/forward.toml" <<TOML
[forward]
statistics = "50ms"

[[port]]
name = "kick-a"
netns = "$a"
addresses = ["10.90.1.2/24"]
routes = ["10.90.1.0/24"]
rate = "1gbit"
delay = "50ms"

[[port]]
name = "kick-b"
netns = "$b"
addresses = ["10.90.2.2/24"]
routes = ["10.90.2.0/24"]
rate = "$rate"
delay = "50ms"
buffer = "1500k"
$keys
TOML
    rm -f "$results".* "$work"/events "$work"/flows
    # Start all of them before other processes, so that packets do not wait for a processor.
    nice -n -10 "$bin/kickass" forward --config "$work/forward.toml" --json >"$work/events" &
    forwarder=$!
    until_there "$work/events"
    ip -n "$a" route add 10.90.2.0/24 dev kick-a
    ip -n "$b" route add 10.90.1.0/24 dev kick-b
    for namespace in "$a" "$b"; do inside "$namespace" sysctl -qw net.ipv4.tcp_ecn="$ecn"; done
    # ip replaces itself by the program it starts, so killing ip kills that.
    ip netns exec "$b" nice -n -10 "$bin/flows" serve 10.90.2.2:4433 "$work/certificate" >"$work/flows" &
    receiver=$!
    until_there "$work/flows"
    ip netns exec "$a" nice -n -10 timeout $((seconds + 300)) "$bin/flows" send 10.90.2.2:4433 "$work/certificate" \
        --load "$load" --schemes "$schemes" --time "${seconds}s" --seed "$seed" >"$work/modes" &
    senders=$!
    wait "$senders"
    senders=
    stop "$receiver"
    receiver=
    stop "$forwarder"
    forwarder=
    cp "$work/flows" "$results.csv"
    cp "$work/modes" "$results.modes"
    tail -n 1 "$work/events" >"$results.json"
    # Bytes queued at the second port, in each sample.
    sed -nE 's/.*"waiting":\{"packets":[0-9]+,"bytes":([0-9]+)\}.*/\1/p' "$work/events" >"$results.waiting"
    printf '%s/%s: %s flows\n' "$load" "$name" "$(($(wc -l <"$results.csv") - 1))"
}

# run LOAD/NAME
run() {
    local load=${1%/*} name=${1#*/}
    local fq_codel='queue = { kind = "fq-codel", ecn = true }'
    local signals='kickass = {}'
    # The values that the authors of RCP use for completion times.
    local signals_fct='kickass = { rcp = { alpha = 0.1, beta = 1.0 } }'
    local levels='queue = { kind = "strict-priority" }'
    case $name in
        cubic) measure "$load" "$name" 0 cubic "" ;;
        cubic-fq-codel) measure "$load" "$name" 1 cubic "$fq_codel" ;;
        rc3 | pcc) measure "$load" "$name" 0 "$name" "" ;;
        rlp) measure "$load" "$name" 0 "$name" "$levels" ;;
        kickass) measure "$load" "$name" 0 "$name" "$signals" ;;
        kickass-fct) measure "$load" "$name" 0 kickass "$signals_fct" ;;
        kickass-rlp) measure "$load" "$name" 0 "$name" "$levels"$'\n'"$signals" ;;
        shared) measure "$load" "$name" 0 cubic,kickass "$signals" ;;
        alone) measure "$load" "$name" 0 cubic "$signals" ;;
        *)
            echo "there is no run $1" >&2
            return 1
            ;;
    esac
}

if [ $# -eq 0 ]; then
    set -- {light,heavy}/{cubic,cubic-fq-codel,pcc,rc3,rlp,kickass,kickass-fct,kickass-rlp} light/{alone,shared}
fi
for each; do run "$each"; done
"$bin/flows" report "$out" "$out/report"
for folder in "$out"/report/*/; do
    docs=docs/reproduction/$(basename "$folder")
    mkdir -p "$docs"
    cp "$folder"/*.svg "$folder/report.md" "$docs/"
done
echo "lines of all flows and totals of the forwarder are in $out"
