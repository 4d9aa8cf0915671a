#!/usr/bin/env bash
# Installs the files of a release, each into a clean root, and runs them: static archives and the Arch package in roots of
# nothing else, the Debian packages and the wheel in a new Debian; Homebrew's formula with a stand-in for Homebrew, the
# flake with one for nixpkgs. Says what it leaves out for want of a tool.
#
#     release/try.sh [DIRECTORY]      (target/release-files)
#
# Needs root. DEBIAN is the release that mmdebstrap installs (bookworm).
set -euo pipefail
directory=$(realpath -m "${1:-$(dirname "$0")/../target/release-files}")
cd "$(dirname "$0")/.."
work=$(mktemp -d)
receiver=
trap '[ -z "$receiver" ] || kill "$receiver" || true; rm -rf "$work"' EXIT
architecture=$(dpkg --print-architecture 2>/dev/null || true)
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

main() {
    (cd "$directory" && sha256sum --check --quiet SHA256SUMS)
    local processor
    for processor in x86_64 aarch64; do
        try "static archives for $processor" "$directory/*-$processor-unknown-linux-musl.tar.gz" \
            "chroot $(emulator $processor)" static_archives $processor
    done
    try "Arch package" "$directory/PKGBUILD" makepkg arch
    try "Debian packages" "$directory/*_$architecture.deb" mmdebstrap debian
    if [ "$architecture" != arm64 ]; then
        try "Debian packages for another processor" "$directory/*_arm64.deb" "dpkg-deb $(emulator aarch64)" foreign
    fi
    try "wheel" "$directory/*.whl" mmdebstrap wheel
    try "Homebrew formula" "$directory/rc3.rb" ruby formula
    try "flake" flake.nix nix-instantiate flake
}

# try WHAT FILES TOOLS FUNCTION ARGUMENTS
try() {
    local tool
    if ! compgen -G "$2" >/dev/null; then
        echo "LEFT OUT: $1: no $2"
        return
    fi
    for tool in $3; do
        if ! command -v "$tool" >/dev/null; then
            echo "LEFT OUT: $1: needs $tool"
            return
        fi
    done
    "${@:4}"
    echo "works: $1"
}

# emulator PROCESSOR: of its programs; none where they run by themselves.
emulator() {
    if [ "$1" != "$(uname -m)" ]; then echo "qemu-$1-static"; fi
}

static_archives() {
    local archive name root
    for archive in "$directory"/*-"$1"-unknown-linux-musl.tar.gz; do
        name=$(basename "$archive" .tar.gz)
        root=$work/$name
        mkdir "$root"
        tar --extract --gzip --file "$archive" --directory "$root" --strip-components 1
        is_static "$root/${name%%-*}"
        has_licences "$root/THIRD-PARTY-LICENSES"
        in_root "$root" "/${name%%-*}" --version | grep -F "$version"
        if [ "${name%%-*}" = rc3 ]; then transfer "$root" /rc3; fi
    done
}

is_static() {
    if readelf --program-headers "$1" | grep INTERP; then
        echo "$1 needs a loader" >&2
        return 1
    fi
}

# has_licences FILE: with the texts of a crate that all contain, and of what is beside the crates.
has_licences() {
    zgrep --quiet '^ring 0' "$1"
    zgrep --quiet 'THE SOFTWARE IS PROVIDED "AS IS" AND' "$1"
    zgrep --quiet 'the standard library of Rust' "$1"
}

# in_root ROOT PROGRAM ARGUMENTS: in that root; a program of another processor by qemu.
# It replaces the shell, so that $! is the program: for pipelines, ( ) and the background.
in_root() {
    local root=$1 emulator=
    case $(readelf --file-header "$root/$2") in
        *AArch64*) emulator=$(emulator aarch64) ;;
        *X86-64*) emulator=$(emulator x86_64) ;;
    esac
    if [ -n "$emulator" ]; then cp --update "$(command -v "$emulator")" "$root/"; fi
    HOME=/home XDG_STATE_HOME=/state exec chroot "$root" ${emulator:+"/$emulator"} "${@:2}"
}

# transfer ROOT PROGRAM: five megabytes from one process to another.
transfer() {
    local root=$1 program=$2
    mkdir -p "$root/received" "$root/tmp" "$root/home" "$root/state"
    rm -rf "$root/ticket" "$root/received/sent"
    head -c 5000000 /dev/urandom >"$root/sent"
    in_root "$root" "$program" recv --listen 127.0.0.1 --dir /received --ticket-file /ticket &
    receiver=$!
    until [ -s "$root/ticket" ]; do
        kill -0 $receiver
        sleep 0.1
    done
    (in_root "$root" "$program" send --quiet --ticket-file /ticket /sent)
    wait $receiver
    receiver=
    cmp "$root/sent" "$root/received/sent"
}

# makepkg refuses to run as root, and asks pacman what is installed, which matters to nobody here; the archive beside the
# recipe takes the place of a download.
arch() {
    local package
    mkdir "$work/arch" "$work/arch-root"
    cp "$directory/PKGBUILD" "$directory"/rc3-"$version"-*-linux-musl.tar.gz "$work/arch/"
    chmod 755 "$work"
    chown -R nobody "$work/arch"
    (cd "$work/arch" && setpriv --reuid nobody --clear-groups \
        env HOME="$work/arch" PACMAN=true makepkg --nodeps --noconfirm >/dev/null)
    package=$(ls "$work/arch"/*.pkg.tar*)
    tar --extract --auto-compress --file "$package" --directory "$work/arch-root"
    in_root "$work/arch-root" /usr/bin/rc3 --version | grep -F "$version"
    transfer "$work/arch-root" /usr/bin/rc3
    has_licences "$work/arch-root/usr/share/licenses/rc3-bin/THIRD-PARTY-LICENSES"
}

debian() {
    local root=$work/debian
    mmdebstrap --quiet --variant=apt "${DEBIAN:-bookworm}" "$root"
    cp "$directory"/*_"$architecture".deb "$root/tmp/"
    chroot "$root" sh -euc 'apt-get install --quiet --yes --no-install-recommends /tmp/*.deb >/dev/null'
    in_root "$root" /usr/bin/kickass --version | grep -F "$version"
    transfer "$root" /usr/bin/rc3
    chroot "$root" test -f /usr/lib/systemd/system/rc3-recv.service
    upgrade "$root"
    has_licences "$root/usr/share/doc/rc3/THIRD-PARTY-LICENSES.gz"
    has_licences "$root/usr/share/doc/rc3-kickass-tools/THIRD-PARTY-LICENSES.gz"
}

# upgrade ROOT: to the same version. What runs is restarted, and nothing is enabled. No systemd runs there: a stand-in
# notes what it is asked.
upgrade() {
    local root=$1
    mkdir -p "$root/run/systemd/system"
    printf '#!/bin/sh\necho "$@" >>/asked\n' >"$root/usr/bin/deb-systemd-invoke"
    chroot "$root" sh -euc 'dpkg --install /tmp/rc3_*.deb >/dev/null 2>&1'
    grep --line-regexp 'try-restart rc3-recv.service rc3-tunnel.service' "$root/asked"
    [ -z "$(find "$root/etc/systemd" -name 'rc3-*')" ]
}

# They depend on nothing, so what they hold is enough.
foreign() {
    local root=$work/arm64 package
    for package in "$directory"/*_arm64.deb; do
        [ -z "$(dpkg-deb --field "$package" Depends)" ]
        dpkg-deb --extract "$package" "$root"
    done
    in_root "$root" /usr/bin/kickass --version | grep -F "$version"
    transfer "$root" /usr/bin/rc3
}

wheel() {
    local root=$work/python
    mmdebstrap --quiet --variant=apt --include=python3-venv "${DEBIAN:-bookworm}" "$root"
    cp "$directory"/*.whl "$root/tmp/"
    chroot "$root" sh -euc 'python3 -m venv /venv && /venv/bin/pip install --quiet --no-index /tmp/*.whl'
    has_licences "$root"/venv/lib/python3*/site-packages/rc3-*.dist-info/licenses/THIRD-PARTY-LICENSES
    chroot "$root" /venv/bin/python -c 'import rc3; print("the wheel has", ", ".join(rc3.__all__))'
}

# Asks the formula, as Homebrew would, what it would run.
formula() {
    ruby -c "$directory/rc3.rb" >/dev/null
    ruby -r pathname -e '
        class Formula
          %w[desc homepage url sha256 license depends_on].each do |name|
            define_singleton_method(name) { |*values| puts "#{name}: #{values}" }
          end
          def self.test; end
          def bin = Pathname("/bin")
          def man1 = Pathname("/man1")
          def std_cargo_args(path:) = ["--locked", "--path", path].tap { File.stat("#{path}/Cargo.toml") }
          def system(*command) = puts("runs: #{command.join(" ")}")
          def generate_completions_from_executable(*command) = puts("completions: #{command.join(" ")}")
        end
        load ARGV[0]
        Rc3.new.install' "$directory/rc3.rb" | tee "$work/formula"
    grep -F "$(sha256sum "$directory/rc3-$version-source.tar.gz" | cut -d ' ' -f 1)" "$work/formula" >/dev/null
}

flake() {
    local expression="
        let pkgs = { installShellFiles = null; rustPlatform.buildRustPackage = settings: settings; };
            nixpkgs = {
                lib.genAttrs = names: make: builtins.listToAttrs (map (name: { inherit name; value = make name; }) names);
                legacyPackages = nixpkgs.lib.genAttrs [ \"x86_64-linux\" \"aarch64-darwin\" ] (system: pkgs);
            };
            packages = ((import $PWD/flake.nix).outputs { self = $PWD; inherit nixpkgs; }).packages;
        in with packages.aarch64-darwin; [ default.pname default.version kickass.cargoBuildFlags ]"
    nix-instantiate --eval --strict --expr "$expression" | grep -F "[ \"rc3\" \"$version\" [ \"--package\" \"rc3-kickass-tools\" \"--bin\" \"kickass\" ] ]"
}

main
