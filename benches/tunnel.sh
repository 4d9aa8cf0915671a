#!/usr/bin/env bash
# Measures the echo of keystrokes through `rc3 tunnel --stdio` and over plain TCP (CUBIC, as the tunnel) on the same path,
# as root: idle, and beside a bulk transfer (through the same tunnel, or by a second TCP connection). Prints median and
# 95th percentile in ms. First an echo server answers, so that only the transport differs; then `cat` in an ssh session
# to a real sshd, plain and with `rc3 tunnel --stdio` as its ProxyCommand (skipped without ssh and sshd). Usage:
#   benches/tunnel.sh [STROKES]
# RATE (20mbit), RTT (200ms) and QUEUE (drop-tail or strict-priority) change the path, BIN names a directory with
# the programs rc3, kickass and keystrokes instead of building them.
#
# The two hosts are network namespaces. `kickass forward` connects them with the rate, half of the round trip each way
# and a buffer of one bandwidth-delay product, because few kernels have netem.
set -euo pipefail
cd "$(dirname "$0")/.."
strokes=${1:-100} rate=${RATE:-20mbit} rtt=${RTT:-200ms} queue=${QUEUE:-drop-tail}
if ! [[ $rate =~ ^([0-9]+)mbit$ ]]; then echo "RATE is like 20mbit" >&2 && exit 2; fi
megabits=${BASH_REMATCH[1]}
if ! [[ $rtt =~ ^([0-9]+)ms$ ]]; then echo "RTT is like 200ms" >&2 && exit 2; fi
milliseconds=${BASH_REMATCH[1]}
case $queue in
    drop-tail) discipline='{ kind = "drop-tail" }' ;;
    # RFC 8622: the default mark of all low levels.
    strict-priority) discipline='{ kind = "strict-priority", levels = { 1 = 15 } }' ;;
    *) echo "QUEUE is drop-tail or strict-priority" >&2 && exit 2 ;;
esac

if [ -z "${BIN:-}" ]; then
    cargo build --release -p rc3 -p rc3-kickass-tools
    cargo build --release -p rc3-benches --bin keystrokes
    BIN=${CARGO_TARGET_DIR:-target}/release
fi
here=rc3-here-$$ there=rc3-there-$$
work=$(mktemp -d)
chmod 755 "$work"
started=()
finish() {
    for id in "${started[@]}"; do kill "$id" 2>/dev/null && wait "$id" || true; done
    for namespace in "$here" "$there"; do ip netns delete "$namespace" || true; done
    rm -rf "$work"
}
trap finish EXIT
for namespace in "$here" "$there"; do
    ip netns add "$namespace"
    ip -n "$namespace" link set lo up
done
port() {
    cat <<TOML
[[port]]
name = "$1"
netns = "$2"
addresses = ["$3/24"]
routes = ["${3%.*}.0/24"]
rate = "$rate"
buffer = "$((megabits * milliseconds * 125))"
delay = "$((milliseconds * 500))us"
queue = $discipline
kickass = { on = false }

TOML
}
{ port here "$here" 10.92.1.2 && port there "$there" 10.92.2.2; } >"$work/forward.toml"
nice -n -10 "$BIN/kickass" forward --config "$work/forward.toml" --json >"$work/events" &
started+=($!)
# wait_for TEXT FILE
wait_for() {
    for _ in {1..100}; do
        if grep -qs "$1" "$2"; then return; fi
        sleep 0.1
    done
    cat "$2" >&2
    return 1
}
wait_for ready "$work/events"
# The congestion control of the tunnel.
ip -n "$here" route add 10.92.2.0/24 dev here congctl cubic
ip -n "$there" route add 10.92.1.0/24 dev there

ip netns exec "$there" "$BIN/keystrokes" serve 0.0.0.0:7 0.0.0.0:9 &
started+=($!)
ip netns exec "$there" "$BIN/rc3" tunnel --listen --bind 10.92.2.2:4433 --state "$work/there" --no-path-memory \
    >"$work/ticket" 2>"$work/listen" &
started+=($!)
wait_for rc3:// "$work/ticket"
RC3_TICKET=$(cat "$work/ticket")
export RC3_TICKET
# In the words of `keystrokes`: after this many seconds, this many keystrokes.
idle=(echo 3 "$strokes") busy=(echo 20 "$strokes")
tunnel=("$BIN/rc3" tunnel --state "$work/here" --no-path-memory --stdio=localhost:7)

# measure NAME COMMAND...: one line of the table.
measure() {
    local name=$1
    shift
    printf '%-40s %s\n' "$name" "$(ip netns exec "$here" timeout 600 "$@" 2>"$work/errors" || cat "$work/errors")"
}
# bulk ADDRESS: fills a connection until it is killed.
bulk() { exec ip netns exec "$here" "$BIN/keystrokes" bulk 3600 "$1" 2>/dev/null; }
# measure_beside TEXT NAME COMMAND...: with a bulk transfer into the listener of the command itself, which writes TEXT
# to standard error when it listens.
measure_beside() {
    local filling
    : >"$work/errors"
    (wait_for "$1" "$work/errors" && bulk 127.0.0.1:9009) &
    filling=$!
    measure "${@:2}"
    kill "$filling" 2>/dev/null && wait "$filling" || true
    sleep 5
}

printf '%s x %s, %s, %s keystrokes\n%-40s %8s %8s\n' "$rate" "$rtt" "$queue" "$strokes" "echo in ms" median p95
measure "TCP, idle" "$BIN/keystrokes" "${idle[@]}" 10.92.2.2:7
measure "rc3 tunnel --stdio, idle" "$BIN/keystrokes" "${idle[@]}" -- "${tunnel[@]}"
bulk 10.92.2.2:9 &
filling=$!
measure "TCP, beside bulk TCP" "$BIN/keystrokes" "${busy[@]}" 10.92.2.2:7
measure "rc3 tunnel --stdio, beside bulk TCP" "$BIN/keystrokes" "${busy[@]}" -- "${tunnel[@]}"
kill "$filling" && wait "$filling" || true
# What is still queued.
sleep 5
inside=(-L 9009:localhost:9)
measure_beside 'listening on' "rc3 tunnel --stdio, beside bulk inside" \
    "$BIN/keystrokes" "${busy[@]}" -- "${tunnel[@]}" "${inside[@]}"

sshd=$(PATH=$PATH:/usr/sbin:/usr/local/sbin command -v sshd || true)
if [ -z "$sshd" ] || ! command -v ssh >/dev/null; then
    echo "SKIPPED the ssh sessions: needs ssh and sshd"
    exit
fi
for key in host user; do ssh-keygen -q -t ed25519 -N '' -f "$work/$key"; done
cat >"$work/sshd" <<SSHD
Port 22
ListenAddress 0.0.0.0
HostKey $work/host
AuthorizedKeysFile $work/user.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
SSHD
mkdir -p /run/sshd
ip netns exec "$there" "$sshd" -D -e -f "$work/sshd" 2>/dev/null &
started+=($!)
# Without a terminal: the session then ends with its standard input.
ssh=(ssh -F none -T -i "$work/user" -oBatchMode=yes -oStrictHostKeyChecking=no -oUserKnownHostsFile="$work/known")
proxy="$BIN/rc3 tunnel --state $work/here --no-path-memory --stdio=localhost:22"
idle_ssh=("$BIN/keystrokes" "${idle[@]}" -- "${ssh[@]}") busy_ssh=("$BIN/keystrokes" "${busy[@]}" -- "${ssh[@]}")
measure "ssh, idle" "${idle_ssh[@]}" 10.92.2.2 cat
measure "ssh by rc3 tunnel, idle" "${idle_ssh[@]}" -oProxyCommand="$proxy" far cat
bulk 10.92.2.2:9 &
filling=$!
measure "ssh, beside bulk TCP" "${busy_ssh[@]}" 10.92.2.2 cat
measure "ssh by rc3 tunnel, beside bulk TCP" "${busy_ssh[@]}" -oProxyCommand="$proxy" far cat
kill "$filling" && wait "$filling" || true
sleep 5
# Verbose, ssh reports when it listens.
measure_beside 'Local forwarding listening' "ssh, beside bulk by its own -L" \
    "${busy_ssh[@]}" -v "${inside[@]}" 10.92.2.2 cat
measure_beside 'listening on' "ssh by rc3 tunnel, beside bulk inside" \
    "${busy_ssh[@]}" -oProxyCommand="$proxy ${inside[*]}" far cat
