#!/usr/bin/env bash
# Builds the QUIC implementations that `rc3-lab net run interop` meets: install.sh [FOLDER], from the root of the
# repository. FOLDER must be `interop` beside rc3-lab [default: target/release/interop]. A peer that cannot be had is
# left out, with a line that says so; the others go on.
set -uo pipefail
folder=$(realpath -m "${1:-target/release/interop}")
here=$(realpath "$(dirname "$0")")
quic_go=v0.65.0 x_net=v0.62.0 aioquic=1.7.2

# peer NAME TEXT COMMAND...: TEXT says what it is, with its version.
peer() {
    local made=$folder/$1
    rm -f "$made/version"
    mkdir -p "$made"
    if (cd "$made" && "${@:3}") >"$made/install.log" 2>&1; then
        echo "$2" >"$made/version"
        echo "$1: $2"
    else
        echo "skipped $1: $(tail -n 1 "$made/install.log") (all of it: $made/install.log)"
    fi
}

# Both modules carry the endpoint that their makers give to the runner.
quic_go() {
    local module=github.com/quic-go/quic-go/interop
    GOBIN=$PWD go install "$module/client@$quic_go" "$module/server@$quic_go"
}

x_net() {
    GOBIN=$PWD go install "golang.org/x/net/internal/quic/cmd/interop@$x_net"
}

# Its examples, of which that endpoint consists, are in the source package.
aioquic() {
    python3 -m venv venv && local pip=(venv/bin/python -m pip --quiet --disable-pip-version-check)
    "${pip[@]}" install "aioquic==$aioquic" starlette jinja2 wsproto httpx &&
        "${pip[@]}" download --no-deps --no-binary aioquic "aioquic==$aioquic" &&
        tar -xzf "aioquic-$aioquic.tar.gz" --strip-components 1 "aioquic-$aioquic/examples"
}

ngtcp2() {
    command -v gtlsclient gtlsserver || {
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -qq ngtcp2-client ngtcp2-server
    }
}

s2n_quic() {
    cargo build --release --manifest-path "$here/../Cargo.toml" --target-dir "$PWD/target" &&
        cp target/release/rc3-peers . && rm -rf target && ./rc3-peers version
}

peer quic-go "quic-go $quic_go" quic_go
peer x-net "golang.org/x/net/quic $x_net" x_net
peer aioquic "aioquic $aioquic" aioquic
peer ngtcp2 "ngtcp2 of Debian, GnuTLS, HTTP/3 in all cases" ngtcp2
peer s2n-quic "s2n-quic $(sed -n '/^name = "s2n-quic"$/{n;s/.*"\(.*\)"/\1/p}' "$here/../Cargo.lock")" s2n_quic
