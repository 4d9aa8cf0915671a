#!/usr/bin/env bash
# Copies many small files and one large file over 100 Mbit/s with a round trip of 100 ms by `rc3 copy`, scp, rsync and
# `tar | ssh`, as root, between two network namespaces, and prints time and CPU as a Markdown table. `kickass
# forward` is the link. scp takes several round trips for each file, so it copies at most 500 of the small ones.
# Needs ssh and sshd. Usage: benches/copy.sh [FILES [MEGABYTES]]   (10000 files of 10 kB, 1000 MB)
set -euo pipefail
cd "$(dirname "$0")/.."
files=${1:-10000} megabytes=${2:-1000}
few=$((files < 500 ? files : 500))

for needed in ssh sshd ssh-keygen; do
    if ! command -v "$needed" >/dev/null; then
        echo "missing: $needed" >&2
        exit 1
    fi
done
cargo build --release -p rc3 -p rc3-kickass-tools
rc3=$(realpath "${CARGO_TARGET_DIR:-target}/release/rc3")
kickass=${rc3%rc3}kickass
near=rc3-near-$$ far=rc3-far-$$
work=$(mktemp -d)
chmod 755 "$work"
sshd= forwarder=
finish() {
    if [ -n "$sshd" ]; then kill "$sshd" || true; fi
    if [ -n "$forwarder" ]; then kill "$forwarder" && wait "$forwarder" || true; fi
    ip netns delete "$near" || true
    ip netns delete "$far" || true
    rm -rf "$work"
}
trap finish EXIT

ip netns add "$near"
ip netns add "$far"
# Half of the round trip each way; the buffers have one bandwidth-delay product.
cat >"$work/forward.toml" <<EOF
[[port]]
name = "kick-near"
netns = "$near"
addresses = ["10.86.1.2/24"]
routes = ["10.86.1.0/24"]
rate = "100mbit"
delay = "50ms"
buffer = "1250k"

[[port]]
name = "kick-far"
netns = "$far"
addresses = ["10.86.2.2/24"]
routes = ["10.86.2.0/24"]
rate = "100mbit"
delay = "50ms"
buffer = "1250k"
EOF
"$kickass" forward --config "$work/forward.toml" --json >"$work/events" &
forwarder=$!
for _ in {1..50}; do
    if grep -qs ready "$work/events"; then break; fi
    sleep 0.1
done
ip -n "$near" link set lo up
ip -n "$far" link set lo up
ip -n "$near" route add 10.86.2.0/24 dev kick-near
ip -n "$far" route add 10.86.1.0/24 dev kick-far

ssh-keygen -q -t ed25519 -N '' -f "$work/host"
ssh-keygen -q -t ed25519 -N '' -f "$work/user"
cat >"$work/sshd_config" <<EOF
ListenAddress 10.86.2.2
HostKey $work/host
AuthorizedKeysFile $work/user.pub
StrictModes no
UsePAM no
PermitRootLogin yes
PidFile none
Subsystem sftp internal-sftp
EOF
mkdir -p /run/sshd
ip netns exec "$far" "$(command -v sshd)" -D -e -f "$work/sshd_config" 2>"$work/sshd.log" &
sshd=$!
options=(-F none -i "$work/user" -oStrictHostKeyChecking=no -oUserKnownHostsFile="$work/known" -oBatchMode=yes -oLogLevel=ERROR)
ssh="ssh ${options[*]}"
for _ in {1..50}; do
    if ip netns exec "$near" ssh "${options[@]}" 10.86.2.2 true 2>/dev/null; then break; fi
    sleep 0.1
done

mkdir -p "$work/small/tree" "$work/few/tree" "$work/large/tree" "$work/in"
head -c $((files * 10000)) /dev/urandom | split -b 10000 -a 6 -d - "$work/small/tree/f"
find "$work/small/tree" -type f | sort | sed -n "1,${few}p" | xargs cp -t "$work/few/tree"
head -c "${megabytes}000000" /dev/urandom >"$work/large/tree/big"

# CPU ticks of sshd and everything it started and waited for.
ticks() { awk '{ print $14 + $15 + $16 + $17 }' "/proc/$sshd/stat"; }

# measure KIND NAME COMMAND...: one row. The command runs in the directory of its source.
measure() {
    local kind=$1 name=$2 before
    shift 2
    rm -rf "$work/in"
    mkdir "$work/in"
    before=$(ticks)
    TIMEFORMAT='%R %U %S'
    if ! (cd "$work/$kind" && { time ip netns exec "$near" timeout 1800 "$@" >"$work/out" 2>&1; } 2>"$work/time"); then
        echo "| $kind | $name | failed: $(tail -n 1 "$work/out") | | |"
        return
    fi
    local verdict=same
    diff -rq "$work/$kind/tree" "$work/in/tree" >/dev/null || verdict=DIFFERENT
    sleep 1
    awk -v kind="$kind" -v name="$name" -v verdict="$verdict" -v far=$(($(ticks) - before)) \
        '{ printf "| %s | %s | %.1f s | %.1f s | %.1f s | %s |\n", kind, name, $1, $2 + $3, far / 100, verdict }' "$work/time"
}

echo "small: $files files of 10 kB; few: $few of them; large: one of $megabytes MB; 100 Mbit/s, 100 ms"
echo
echo "| files | program | time | CPU near | CPU far | content |"
echo "|---|---|---|---|---|---|"
for kind in small large; do
    measure "$kind" "rc3 copy" "$rc3" copy --quiet --no-path-memory -e "$ssh" --rc3-path "$rc3" tree "10.86.2.2:$work/in"
    measure "$kind" "rc3 copy --via-ssh" "$rc3" copy --quiet --via-ssh -e "$ssh" --rc3-path "$rc3" tree "10.86.2.2:$work/in"
    if command -v scp >/dev/null; then
        measure "${kind/small/few}" scp scp -q -r "${options[@]}" tree "10.86.2.2:$work/in"
    else
        echo "| $kind | scp | missing | | |"
    fi
    if command -v rsync >/dev/null; then
        measure "$kind" "rsync -a" rsync -a -e "$ssh" tree "10.86.2.2:$work/in"
    else
        echo "| $kind | rsync | missing | | |"
    fi
    measure "$kind" "tar \\| ssh" bash -c "set -o pipefail; tar c tree | $ssh 10.86.2.2 tar x -C '$work/in'"
done
