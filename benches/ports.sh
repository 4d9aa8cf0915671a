#!/usr/bin/env bash
# Builds published programs that use quinn with rc3-net in its place, and runs quinn's own examples over loopback:
# docs/PORTING.md, "Ported programs". Downloads the programs by cargo. Usage:
#   benches/ports.sh [FOLDER]
# where FOLDER keeps the scratch projects; the default is a temporary one. CARGO_TARGET_DIR applies.
#
# A crate called `quinn` that only re-exports rc3-net replaces quinn in the whole dependency graph, so that programs
# stay as published. quinn's examples import a TLS type from quinn-proto instead of quinn; that line is changed.
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

# --- the crate called quinn

mkdir -p quinn/src
cat > quinn/Cargo.toml <<EOF
[package]
name = "quinn"
version = "0.11.99"
edition = "2024"
[dependencies]
rc3-net = { path = "$repository/crates/rc3-net" }
[features]
bloom = []
log = []
platform-verifier = []
ring = []
runtime-tokio = []
rustls = []
rustls-log = []
rustls-ring = []
qlog = ["rc3-net/qlog"]
EOF
echo 'pub use rc3_net::*;' > quinn/src/lib.rs

# --- crates as published

mkdir -p crates/src
cat > crates/Cargo.toml <<EOF
[package]
name = "ports"
version = "0.0.0"
edition = "2024"
[workspace]
[patch.crates-io]
quinn = { path = "../quinn" }
[dependencies]
qcp = "=0.9.1"
wtransport = { version = "=0.7.2", default-features = false, features = ["self-signed", "ring", "quinn"] }
web-transport-quinn = { version = "=0.13.5", default-features = false, features = ["ring"] }
EOF
echo 'pub use {qcp, web_transport_quinn, wtransport};' > crates/src/lib.rs
for crate in wtransport web-transport-quinn qcp; do
    (cd crates && cargo check --package "$crate")
    echo "$crate: no line changed"
done

# --- quinn's examples

mkdir -p published/src examples/src
touch published/src/lib.rs examples/src/lib.rs
printf '[package]\nname = "published"\nversion = "0.0.0"\n[workspace]\n[dependencies]\nquinn = "=0.11.12"\n' \
    > published/Cargo.toml
source=$(cd published && cargo metadata --format-version 1 \
    | grep -o '"manifest_path":"[^"]*/quinn-0.11.12/Cargo.toml"' | head -1 | cut -d'"' -f4)
rm -rf examples/examples
cp -r "$(dirname "$source")/examples" examples/examples
chmod -R u+w examples/examples
cat > examples/Cargo.toml <<EOF
[package]
name = "examples"
version = "0.0.0"
edition = "2024"
[workspace]
[dependencies]
quinn = { path = "../quinn" }
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
diff -r "$(dirname "$source")/examples" examples/examples | grep '^[<>d]' || true
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
