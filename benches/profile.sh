#!/usr/bin/env bash
# Where the CPU time of a bulk transfer goes: one stream by each scheme over a veth pair between two network namespaces,
# sampled by `perf` at sender and receiver, as two Markdown tables with nanoseconds of CPU time for each full packet. As
# root. Usage: benches/profile.sh [MEGABYTES [MTU [SCHEME...]]]   (1000 MB, 1500 bytes, all schemes)
# More megabytes give more samples: 1000 MB have an error of about 2 % of each column's sum.
set -euo pipefail
cd "$(dirname "$0")/.."
megabytes=${1:-1000} mtu=${2:-1500}
schemes=("${@:3}")

for needed in ip perf; do
    if ! command -v "$needed" >/dev/null; then echo "missing: $needed" >&2 && exit 1; fi
done
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cargo build --release -p rc3-lab --bin rc3-lab
CARGO_TARGET_DIR=$target cargo build --release --manifest-path peers/Cargo.toml
lab=$target/release/rc3-lab peers=$target/release/rc3-peers
if [ ${#schemes[@]} = 0 ]; then schemes=(rc3 rc3-trust rc3-off quinn quinn-large s2n-quic tcp); fi

near=rc3-near-$$ far=rc3-far-$$
work=$(mktemp -d)
server=
finish() {
    if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; fi
    ip netns delete "$near" || true
    ip netns delete "$far" || true
    rm -rf "$work"
}
trap finish EXIT
ip netns add "$near"
ip netns add "$far"
ip -n "$near" link add veth0 type veth peer name veth0 netns "$far"
ip -n "$near" addr add 10.87.0.1/24 dev veth0
ip -n "$far" addr add 10.87.0.2/24 dev veth0
ip -n "$near" link set veth0 mtu "$mtu" up
ip -n "$far" link set veth0 mtu "$mtu" up

# Samples of CPU time, whatever the processor counts.
sample=(perf record --quiet --event cpu-clock --freq 4000)
# Payload of a full packet: without 20 bytes of IP and 8 of UDP.
payload=$((mtu - 28))

# command SCHEME WHAT: the program and words that do this for the scheme.
command() {
    case $1 in
        s2n-quic) printf '%s\n' "$peers" "$2" "$1" ;;
        tcp) printf '%s\n' "$lab" net act "$2" "$1" ;;
        *) printf '%s\n' "$lab" net act "$2" "--mtu=$mtu" "$1" ;;
    esac
}

# groups FILE: the share of samples in each group of functions, "group share" in each line.
groups() {
    perf report --stdio --no-children --input "$1" --fields sample,dso,symbol --field-separator '|' 2>/dev/null |
        awk -F'|' '
            /^#/ || NF < 3 { next }
            {
                samples = $1 + 0; object = $2; symbol = tolower($3)
                total += samples
                if (object ~ /kernel|vmlinux|\.ko/) {
                    if (symbol ~ /copy|rep_movs|csum|memcpy/) group = "kernel: copies"
                    else if (symbol ~ /sched|futex|wake|epoll|eventfd|pick_|dequeue_task|enqueue_task|hrtimer|switch|idle|update_/) group = "kernel: wake-ups"
                    else group = "kernel: network and calls"
                }
                else if (symbol ~ /gcm|aes|chacha|poly1305|ghash|ring_core|aws_lc|gf128|rustls.*crypt/) group = "cipher"
                else if (symbol ~ /memcpy|memmove|memset|__mem|bzero/) group = "copies"
                else if (symbol ~ /collections/) group = "trees and heaps of std"
                else if (symbol ~ /malloc|free|calloc|realloc|_int_|raw_vec|dealloc|consolidate/) group = "allocation"
                else if (symbol ~ /quinn_proto/) group = "quinn-proto"
                else if (symbol ~ /rc3_core/) group = "rc3-core"
                else if (symbol ~ /rc3_net/) group = "rc3-net"
                else if (symbol ~ /s2n_quic/) group = "s2n-quic"
                else if (symbol ~ /quinn/) group = "quinn"
                else if (symbol ~ /tokio|mio/) group = "tokio"
                else group = "other"
                sum[group] += samples
            }
            END { for (group in sum) printf "%s|%.6f\n", group, sum[group] / total }'
}

for scheme in "${schemes[@]}"; do
    mapfile -t serve < <(command "$scheme" serve)
    mapfile -t send < <(command "$scheme" time)
    rm -f "$work/input" "$work/certificate"
    mkfifo "$work/input"
    ip netns exec "$far" "${sample[@]}" --output "$work/$scheme.receiver.data" "${serve[@]}" 10.87.0.2:4433 \
        <"$work/input" >"$work/certificate" &
    server=$!
    # The server ends with its input.
    exec 3>"$work/input"
    for _ in {1..100}; do
        if [ -s "$work/certificate" ]; then break; fi
        sleep 0.1
    done
    ip netns exec "$near" "${sample[@]}" --output "$work/$scheme.sender.data" "${send[@]}" 10.87.0.2:4433 \
        "$(cat "$work/certificate")" "${megabytes}000000" 1 >"$work/$scheme.json"
    exec 3>&-
    wait "$server" || true
    server=
    echo "$scheme: $(cat "$work/$scheme.json")" >&2
done

# number NAME FILE: a number of a flow's JSON line.
number() { sed -E "s/.*\"$1\":([0-9.e-]+).*/\1/" "$2"; }

echo "$megabytes MB by each scheme, MTU $mtu; nanoseconds of CPU time for each packet of $payload bytes of UDP payload"
for end in sender receiver; do
    for scheme in "${schemes[@]}"; do
        cpu=$(number "${end}_cpu" "$work/$scheme.json")
        groups "$work/$scheme.$end.data" | sed "s/^/$scheme|$cpu|/"
    done | awk -F'|' -v end="$end" -v packets="$(awk "BEGIN { print ${megabytes}e6 / $payload }")" \
        -v order="${schemes[*]}" '
        {
            cpu[$1] = $2; value[$3, $1] = $2 * $4 * 1e9 / packets
            if (!($3 in seen)) { seen[$3] = 1; name[++names] = $3 }
        }
        END {
            columns = split(order, scheme, " ")
            printf "\n| %s |", end
            for (i = 1; i <= columns; i++) printf " %s |", scheme[i]
            printf "\n|---|"
            for (i = 1; i <= columns; i++) printf "---|"
            printf "\n"
            # The largest in the first column first, by insertion.
            for (i = 2; i <= names; i++)
                for (j = i; j > 1 && value[name[j], scheme[1]] > value[name[j - 1], scheme[1]]; j--) {
                    swap = name[j]; name[j] = name[j - 1]; name[j - 1] = swap
                }
            for (n = 1; n <= names; n++) {
                printf "| %s |", name[n]
                for (i = 1; i <= columns; i++) printf " %d |", value[name[n], scheme[i]] + 0.5
                printf "\n"
            }
            printf "| all |"
            for (i = 1; i <= columns; i++) printf " %d |", cpu[scheme[i]] * 1e9 / packets + 0.5
            printf "\n"
        }'
done
