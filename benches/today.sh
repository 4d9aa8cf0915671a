#!/usr/bin/env bash
# Sends flows of 100 kB to 10 MB through common queues on real sockets, as root: rc3 with default settings, quinn 0.11
# with default settings and with an initial window of 32 packets, and kernel TCP (CUBIC), in turn. Prints a table for
# each queue: the time from the first byte offered on a new connection until the receiver has the last byte, as a
# multiple of the ideal. Usage:
#   benches/today.sh [QUEUE:BDP...]
# where QUEUE is fifo, prio (strict priority for all except code point 1, and as much buffer again for that), policer (a
# token bucket of BDP bandwidth-delay products and no queue) or fq (fq_codel); the default is fifo:0.1 fifo:0.5 fifo:1
# prio:1. The environment variables RATE (100mbit), RTT (40ms), RUNS (5), SIZES (100k,300k,1M,3M,10M) and CONTENDERS
# change the run.
#
# Sender, router and receiver are network namespaces. The sender's card is a veth without a limit and without
# segmentation offload, so that the router's queue sees single packets. The queue is the router's, in front of an HTB
# class. `kickass forward` adds the delay behind it and on the way back, because few kernels have netem. fq is a queue
# of the forwarder.
set -euo pipefail
cd "$(dirname "$0")/.."
rate=${RATE:-100mbit} rtt=${RTT:-40ms} runs=${RUNS:-5} sizes=${SIZES:-100k,300k,1M,3M,10M}
contenders=${CONTENDERS:-rc3,quinn,quinn-iw32,tcp}
if ! [[ $rate =~ ^([0-9]+)mbit$ ]]; then echo "RATE is like 100mbit" >&2 && exit 2; fi
megabits=${BASH_REMATCH[1]}
if ! [[ $rtt =~ ^([0-9]+)ms$ ]]; then echo "RTT is like 40ms" >&2 && exit 2; fi
milliseconds=${BASH_REMATCH[1]}

cargo build --release -p rc3-kickass-tools
cargo build --release -p rc3-lab --bin compare
bin=${CARGO_TARGET_DIR:-target}/release
client=rc3-client-$$ router=rc3-router-$$ server=rc3-server-$$
work=$(mktemp -d)
# The forwarder reloads its configuration as nobody.
chmod 755 "$work"
forwarder=
stop_forwarder() {
    if [ -n "$forwarder" ]; then kill "$forwarder" 2>/dev/null && wait "$forwarder" || true; fi
    forwarder=
}
finish() {
    stop_forwarder
    for namespace in "$client" "$router" "$server"; do ip netns delete "$namespace" || true; done
    rm -rf "$work"
}
trap finish EXIT
for namespace in "$client" "$router" "$server"; do
    ip netns add "$namespace"
    ip -n "$namespace" link set lo up
done
# Each flow goes to a host without remembered paths.
for namespace in "$client" "$server"; do
    ip netns exec "$namespace" sysctl -qw net.ipv4.tcp_no_metrics_save=1
done
ip netns exec "$router" sysctl -qw net.ipv4.ip_forward=1
ip -n "$client" link add card type veth peer name card netns "$router"
ip -n "$client" link set card gso_max_segs 1
ip -n "$client" addr add 10.91.0.1/24 dev card
ip -n "$router" addr add 10.91.0.2/24 dev card
ip -n "$client" link set card up
ip -n "$router" link set card up
ip -n "$client" route add 10.91.1.0/24 via 10.91.0.2

# forward KEYS: starts the forwarder with a delay in both directions, and with these keys for the port to the receivers.
forward() {
    rm -f "$work/events"
    cat >"$work/forward.toml" <<TOML
[[port]]
name = "far"
netns = "$router"
addresses = ["10.91.2.1/24"]
routes = ["10.91.0.0/24", "10.91.2.0/24"]
rate = "10gbit"
delay = "$((milliseconds * 500))us"

[[port]]
name = "near"
netns = "$server"
addresses = ["10.91.1.2/24"]
routes = ["10.91.1.0/24"]
delay = "$((milliseconds * 500))us"
$1
TOML
    # Start all of them before other processes, so that packets do not wait for a processor.
    nice -n -10 "$bin/kickass" forward --config "$work/forward.toml" --json >"$work/events" &
    forwarder=$!
    for _ in {1..100}; do
        if grep -qs ready "$work/events"; then break; fi
        sleep 0.1
    done
    ip -n "$router" route add 10.91.1.0/24 dev far
    ip -n "$server" route add 10.91.0.0/24 dev near
}

traffic() { ip netns exec "$router" tc "$@"; }

# shape BURST LIMIT: HTB at the rate with a bucket of BURST bytes in front of a FIFO of LIMIT bytes.
shape() {
    traffic qdisc add dev far root handle 1: htb default 10
    traffic class add dev far parent 1: classid 1:1 htb rate "$rate" ceil "$rate" burst "$1" cburst "$1" quantum 1600
    # Each band borrows the other's free capacity; the better one asks first.
    for band in 10 20; do
        traffic class add dev far parent 1:1 classid "1:$band" htb rate 8kbit ceil "$rate" prio "${band%0}" \
            burst 1600 cburst "$1" quantum 1600
        traffic qdisc add dev far parent "1:$band" bfifo limit "$2"
    done
}

# measure QUEUE BDP: one table.
measure() {
    local name=$1 products=$2 bytes
    bytes=$(awk -v bits="$((megabits * milliseconds * 1000))" -v products="$products" \
        'BEGIN { printf "%d", bits / 8 * products }')
    case $name in
        fq) forward "rate = \"$rate\""$'\n'"buffer = \"$bytes\""$'\n''queue = { kind = "fq-codel", ecn = true }' ;;
        *) forward 'rate = "10gbit"' ;;
    esac
    case $name in
        # Three packets at once make up for a late timer.
        fifo | prio) shape 4500 "$bytes" ;;
        policer) shape "$bytes" 3000 ;;
        fq) ;;
        *)
            echo "there is no queue $name: choose fifo, prio, policer or fq" >&2
            return 2
            ;;
    esac
    if [ "$name" = prio ]; then
        # RFC 8622: the default mark of all low levels.
        traffic filter add dev far parent 1: protocol ip u32 match ip tos 0x04 0xfc flowid 1:20
    fi
    printf '\n%s, %s BDP (%s bytes), %s x %s, medians of %s runs (least to most), FCT / ideal:\n\n' \
        "$name" "$products" "$bytes" "$rate" "$rtt" "$runs"
    nice -n -10 "$bin/compare" flows "$client" "$server" 10.91.1.2:4433 --rate "$rate" --rtt "$rtt" --runs "$runs" \
        --sizes "$sizes" --contenders "$contenders"
    stop_forwarder
}

if [ $# -eq 0 ]; then set -- fifo:0.1 fifo:0.5 fifo:1 prio:1; fi
for each; do measure "${each%:*}" "${each#*:}"; done
