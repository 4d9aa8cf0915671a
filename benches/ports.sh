#!/usr/bin/env bash
# Builds published programs that use quinn with rc3-net in its place, and runs quinn's own examples over loopback:
# docs/PORTING.md, "Ported programs". Downloads the programs by cargo. Usage:
#   benches/ports.sh [FOLDER]
# where FOLDER keeps the scratch projects; the default is a temporary one. CARGO_TARGET_DIR applies.
#
# The dependency in their own Cargo.toml becomes rc3-net: `[patch]` would replace the quinn that rc3-net itself uses, too.
# Lines of code that docs/PORTING.md names are changed, and printed.
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
temporary=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" || true; rm -rf "$temporary"' EXIT
folder=${1:-$temporary/projects}
mkdir -p "$folder"
cd "$folder"
export CARGO_PROFILE_DEV_DEBUG=0

# --- what is published

mkdir -p published/src ported
touch published/src/lib.rs
cat > published/Cargo.toml <<EOF
[package]
name = "published"
version = "0.0.0"
[workspace]
[dependencies]
qcp = "=0.9.1"
quinn = "=0.11.12"
solana-quic-client = "=2.3.13"
solana-streamer = "=2.3.13"
web-transport-quinn = { version = "=0.13.5", default-features = false, features = ["ring"] }
wtransport = { version = "=0.7.2", default-features = false, features = ["self-signed", "ring", "quinn"] }
EOF
(cd published && cargo metadata --format-version 1 > metadata.json)

# unported NAME: the folder of a published crate.
unported() {
    grep -o "\"manifest_path\":\"[^\"]*/$1-[0-9][^\"/]*/Cargo.toml\"" published/metadata.json | head -1 | cut -d'"' -f4 | xargs dirname
}

# --- crates with rc3-net in place of quinn

crates=(qcp solana-quic-client solana-streamer web-transport-quinn wtransport)
for crate in "${crates[@]}"; do
    rm -rf "ported/$crate"
    cp -r "$(unported "$crate")" "ported/$crate"
    chmod -R u+w "ported/$crate"
    rm -f "ported/$crate/Cargo.lock"
    sed -i "/^\[dependencies.quinn\]/,/^\[/ s|^version = .*|package = \"rc3-net\"\npath = \"$repository/crates/rc3-net\"|" \
        "ported/$crate/Cargo.toml"
    # A feature that rc3-net does not have.
    sed -i '/^\[dependencies.quinn\]/,/^$/ { /^ *"platform-verifier",\?$/d }' "ported/$crate/Cargo.toml"
done
sed -i '/enable_segmentation_offload(/d; /\.send_fairness(/d' \
    ported/solana-streamer/src/quic.rs ported/solana-quic-client/src/nonblocking/quic_client.rs
mkdir -p crates/src
sed '/^quinn = /d; s/"published"/"ports"/' published/Cargo.toml > crates/Cargo.toml
{
    echo '[patch.crates-io]'
    printf '%s\n' "${crates[@]}" | sed 's|.*|& = { path = "../ported/&" }|'
} >> crates/Cargo.toml
echo 'pub use {qcp, solana_quic_client, solana_streamer, web_transport_quinn, wtransport};' > crates/src/lib.rs
for crate in "${crates[@]}"; do
    (cd crates && cargo check --quiet --package "$crate")
    echo "$crate: lines of code that differ:"
    { diff -r "$(unported "$crate")/src" "ported/$crate/src" || true; } | grep '^[<>]' || echo none
done

# --- quinn's examples

mkdir -p examples/src
touch examples/src/lib.rs
rm -rf examples/examples
cp -r "$(unported quinn)/examples" examples/examples
chmod -R u+w examples/examples
cat > examples/Cargo.toml <<EOF
[package]
name = "examples"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
quinn = { package = "rc3-net", path = "$repository/crates/rc3-net" }
[dev-dependencies]
anyhow = "1"
bytes = "1"
clap = { version = "4", features = ["derive"] }
directories-next = "2"
rcgen = "0.14"
rustls = { version = "0.23", default-features = false, features = ["ring", "std"] }
tokio = { version = "1", features = ["macros", "rt-multi-thread", "time"] }
tracing = "0.1"
tracing-futures = { version = "0.2", default-features = false, features = ["std-future"] }
tracing-subscriber = { version = "0.3", features = ["env-filter"] }
url = "2"
[features]
default = ["rustls-ring"]
rustls-aws-lc-rs = []
rustls-ring = []
EOF
sed -i 's/^use proto::crypto::rustls::/use quinn::crypto::rustls::/' examples/examples/*.rs
diff -r "$(unported quinn)/examples" examples/examples | grep '^[<>d]' || true
cd examples
cargo build --examples
examples=${CARGO_TARGET_DIR:-target}/debug/examples
for example in connection insecure_connection single_socket; do
    timeout 60 "$examples/$example"
    echo "$example: ran"
done
export XDG_DATA_HOME=$temporary/data
timeout 60 "$examples/server" --listen 127.0.0.1:4848 "$PWD/src" &
server=$!
sleep 2
timeout 30 "$examples/client" --host localhost https://127.0.0.1:4848/lib.rs
echo "client, server: ran"
