#!/usr/bin/env bash
# Figure 11 of the Kick-Ass paper on real sockets, as root: long flows over two routers in user space, of which the first
# signals rates, with cross traffic at the second. Three network namespaces, two `kickass forward`:
#   senders -> access, signals -> cross traffic enters -> 100 Mbit/s, drop-tail -> receiver
# Usage:
#   benches/kickass-path.sh [RUN...]
# where a RUN is access-10, access-100 or access-100-alone; without arguments all. Results are kept in the folder $OUT;
# report and picture go to docs/reproduction. SECONDS_LONG (40) sets how long new flows begin, SEED (1) which.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${SECONDS_LONG:-40} seed=${SEED:-1}

cargo build --release -p rc3-kickass-tools
cargo build --release -p rc3-lab --bin flows
bin=${CARGO_TARGET_DIR:-target}/release
out=${OUT:-$(mktemp -d)}
mkdir -p "$out/long"
work=$(mktemp -d)
# The forwarders reload their configurations as nobody.
chmod 755 "$work"
a=kickass-a-$$ m=kickass-m-$$ b=kickass-b-$$
running=()
stop_all() {
    # The last started first: senders, receivers, forwarders.
    for ((n = ${#running[@]} - 1; n >= 0; n--)); do
        kill "${running[n]}" 2>/dev/null && wait "${running[n]}" || true
    done
    running=()
}
finish() {
    stop_all
    for namespace in "$a" "$m" "$b"; do ip netns delete "$namespace" || true; done
    rm -rf "$work"
}
trap finish EXIT
for namespace in "$a" "$m" "$b"; do
    ip netns add "$namespace"
    ip -n "$namespace" link set lo up
    # Each flow goes to a host without remembered paths.
    ip netns exec "$namespace" sysctl -qw net.ipv4.tcp_no_metrics_save=1
done
ip netns exec "$m" sysctl -qw net.ipv4.ip_forward=1

# until_there FILE: waits until the file is not empty.
until_there() {
    for _ in {1..100}; do
        if [ -s "$1" ]; then return; fi
        sleep 0.1
    done
    echo "nothing in $1" >&2
    return 1
}

# start OUTPUT COMMAND...: starts a process whose standard output goes to a file. ip replaces itself by the program it
# starts, so killing ip kills that.
start() {
    local output=$1
    shift
    rm -f "$output"
    nice -n -10 "$@" >"$output" &
    running+=($!)
}

# measure NAME RATE SIZE CROSS: one run with an access of this rate.
measure() {
    local name=$1 rate=$2 size=$3 cross=$4 results=$out/long/$1
    cat >"$work/access.toml" <<TOML
[forward]
statistics = "50ms"

[[port]]
name = "kick-a"
netns = "$a"
addresses = ["10.90.1.2/24"]
routes = ["10.90.1.0/24"]
rate = "1gbit"
delay = "5ms"

[[port]]
name = "kick-m"
netns = "$m"
addresses = ["10.90.3.2/24"]
routes = ["10.90.2.0/24", "10.90.3.0/24"]
rate = "$rate"
delay = "5ms"
buffer = "1500k"
kickass = {}
TOML
    cat >"$work/core.toml" <<TOML
[[port]]
name = "kick-n"
netns = "$m"
addresses = ["10.90.4.2/24"]
routes = ["10.90.1.0/24", "10.90.4.0/24"]
rate = "1gbit"
delay = "20ms"

[[port]]
name = "kick-b"
netns = "$b"
addresses = ["10.90.2.2/24"]
routes = ["10.90.2.0/24"]
rate = "100mbit"
delay = "20ms"
buffer = "625k"
TOML
    rm -f "$results".*
    for part in access core; do
        start "$work/$part" "$bin/kickass" forward --config "$work/$part.toml" --json
        until_there "$work/$part"
    done
    ip -n "$a" route replace 10.90.2.0/24 dev kick-a
    ip -n "$m" route replace 10.90.1.0/24 dev kick-m
    ip -n "$m" route replace 10.90.2.0/24 dev kick-n
    for net in 10.90.1.0/24 10.90.4.0/24; do ip -n "$b" route replace "$net" dev kick-b; done
    start "$work/flows" ip netns exec "$b" "$bin/flows" serve 10.90.2.2:4433 "$work/certificate"
    start "$work/others" ip netns exec "$b" "$bin/flows" serve 10.90.2.2:4434 "$work/other-certificate"
    until_there "$work/flows"
    until_there "$work/others"
    if [ "$cross" = yes ]; then
        # They stop with the long flows.
        start "$work/cross" ip netns exec "$m" "$bin/flows" send 10.90.2.2:4434 "$work/other-certificate" \
            --load light --schemes cubic --senders 32 --time "$((seconds + 300))s" --seed "$seed"
    fi
    ip netns exec "$a" nice -n -10 timeout $((seconds + 300)) "$bin/flows" send 10.90.2.2:4433 "$work/certificate" \
        --load light --size "$size" --schemes kickass --senders 2 --time "${seconds}s" --seed "$seed" \
        >"$work/modes"
    stop_all
    cp "$work/flows" "$results.csv"
    cp "$work/others" "$results.others"
    cp "$work/modes" "$results.modes"
    tail -n 1 "$work/access" >"$results.json"
    tail -n 1 "$work/core" >"$results.core"
    sed -nE 's/.*"waiting":\{"packets":[0-9]+,"bytes":([0-9]+)\}.*/\1/p' "$work/access" >"$results.waiting"
    printf '%s: %s long flows, %s of others\n' "$name" "$(($(wc -l <"$results.csv") - 1))" \
        "$(($(wc -l <"$results.others") - 1))"
}

if [ $# -eq 0 ]; then set -- access-10 access-100 access-100-alone; fi
for name; do
    case $name in
        access-10) measure "$name" 10mbit 5M yes ;;
        access-100) measure "$name" 100mbit 20M yes ;;
        access-100-alone) measure "$name" 100mbit 20M no ;;
        *)
            echo "there is no run $name" >&2
            exit 1
            ;;
    esac
done
"$bin/flows" report "$out" "$out/report"
docs=docs/reproduction/sockets-fig11
mkdir -p "$docs"
cp "$out/report/sockets-fig11"/*.svg "$out/report/sockets-fig11/report.md" "$docs/"
echo "lines of all flows and totals of both routers (.json, .core) are in $out"
