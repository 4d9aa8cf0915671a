#!/usr/bin/env bash
# Lines of code of rc3-core and rc3-net by what they do, as a Markdown table, beside those that RC3 §4.1 counts: lines
# that its patch inserts into the TCP and IP layers of Linux 3.2. Lines that are empty, comments, tests (`#[cfg(test)]`,
# tests.rs, tests/) or only for simulations do not count. Usage:
#   benches/lines.sh
set -euo pipefail
cd "$(dirname "$0")/.."
# Row, RC3's count, and patterns of files below crates/. A file belongs to the first row that matches it.
rows='RLP sends: levels, the tail of the ledger, packets|72 + 2|core/src/machines/rlp/mod.rs core/src/machines/connection/rlp_transmit.rs core/src/laws/ladder.rs core/src/structures/ledger.rs core/src/structures/range_map.rs
RLP receives: data out of order, SACKs, ACK bump|46 + 1|core/src/machines/connection/sacks.rs core/src/machines/connection/receive.rs core/src/machines/stream/recv.rs core/src/machines/stream/receipts.rs core/src/structures/reassembler.rs core/src/structures/pieces.rs core/src/structures/taken.rs
primary beside quinn-proto: what it feeds and observes||core/src/seams/primary/* core/src/machines/connection/feed.rs core/src/laws/feeding.rs core/src/laws/primary_window.rs core/src/laws/window.rs
RLP by rate: clock, guard, order, pace||core/src/laws/clock/* core/src/laws/guard.rs core/src/laws/order.rs core/src/laws/pacer.rs core/src/laws/verdicts.rs core/src/machines/connection/guard.rs core/src/machines/rlp/arrivals.rs core/src/structures/destination_cache.rs
wire format||core/src/wire/*
protection of RLP: keys, replay, early data||core/src/seams/keys/* core/src/structures/replay.rs core/src/structures/undecryptable.rs core/src/machines/rlp/openers.rs core/src/machines/connection/zero_rtt.rs
Kick-Ass: signalled rates and fragments||core/src/laws/departures.rs core/src/laws/fragments.rs core/src/machines/connection/rate_signals.rs core/src/machines/connection/unsteered.rs core/src/stats/kickass.rs
streams, credit, connections, endpoint||core/src/machines/* core/src/structures/* core/src/laws/*
settings, errors, statistics, qlog, TLS||core/src/*
sockets: system calls, marks||net/src/socket/* net/src/marks.rs
driver of the endpoint||net/src/driver.rs net/src/driver/* net/src/wake.rs net/src/state.rs net/src/state/* net/src/shared.rs net/src/sync.rs net/src/waiters.rs
interface for applications, files, memory of paths||net/src/*'

# Prints the code lines of its files. Test code ends with the first line of the same indentation that closes it.
count() {
    awk '
        FNR == 1 { skipping = 0 }
        { indent = match($0, /[^ ]/); code = substr($0, indent) }
        skipping && indent == at && code ~ /[};,]$/ { skipping = 0; next }
        skipping || code == "" || code ~ /^\/\// { next }
        code ~ /^#\[cfg\(test\)\]$/ { skipping = 1; at = indent; next }
        { lines++ }
        END { print lines + 0 }
    ' "$@"
}

mapfile -t files < <(git ls-files 'crates/rc3-core/src/*.rs' 'crates/rc3-net/src/*.rs' |
    grep -v -e '/tests\.rs$' -e '/tests/' -e '/simulation/' -e '/faulty\.rs$')
declare -A of
while IFS='|' read -r row _ patterns; do
    set -f
    for file in "${files[@]}"; do
        for pattern in $patterns; do
            # shellcheck disable=SC2053 # a pattern
            if [[ -z ${of[$file]:-} && ${file#crates/rc3-} == $pattern ]]; then of[$file]=$row; fi
        done
    done
    set +f
done <<<"$rows"

printf '| part | RC3 §4.1, TCP + IP | rc3 |\n|---|---:|---:|\n'
total=0
while IFS='|' read -r row printed _; do
    mine=()
    for file in "${files[@]}"; do
        if [ "${of[$file]:-}" = "$row" ]; then mine+=("$file"); fi
    done
    lines=$(count "${mine[@]}")
    total=$((total + lines))
    printf '| %s | %s | %d |\n' "$row" "$printed" "$lines"
done <<<"$rows"
all=$(count "${files[@]}")
if [ "$all" != "$total" ]; then
    echo "$((all - total)) lines are in no row: give their files a row" >&2
    exit 1
fi
printf '| all | 72 + 2 + 46 + 1 = 121 | %d |\n' "$total"
