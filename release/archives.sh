#!/usr/bin/env bash
# Builds what a release hands out, for one target: one archive per command with the binary, manual pages, completions and
# licences (for which it needs python3).
# For this machine's target, and for aarch64-unknown-linux-musl, also a Debian package of each where cargo-deb is installed;
# for this machine's also the Python wheel where maturin is. Then the checksums of all that is there. `release/recipes.sh` and `release/try.sh` go on from here.
#
#     release/archives.sh [DIRECTORY]      (target/release-files)
#
# TARGET is another target than this machine's: x86_64-unknown-linux-musl needs musl-gcc, aarch64-unknown-linux-musl
# aarch64-linux-gnu-gcc and qemu-aarch64-static. PROFILE=dev tries the script without minutes of optimising.
set -euo pipefail
directory=$(realpath -m "${1:-$(dirname "$0")/../target/release-files}")
cd "$(dirname "$0")/.."

profile=${PROFILE:-dist}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
host=$(rustc -vV | sed -n 's/^host: //p')
target=${TARGET:-$host}
for_target=()
if [ "$target" != "$host" ]; then for_target=(--target "$target"); fi
# The profile dev has a directory of another name.
built=$CARGO_TARGET_DIR/${for_target[1]:-}/${profile/#dev/debug}
if [ "$target" = aarch64-unknown-linux-musl ]; then
    # The linker and the C library come with the target; the compiler's library is not used.
    export CC_aarch64_unknown_linux_musl=${CC_aarch64_unknown_linux_musl:-aarch64-linux-gnu-gcc}
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER:-rust-lld}
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER:-qemu-aarch64-static}
fi
# Two runs of one commit give the same archive.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
# Whom users of the Debian packages can write to: as SECURITY.md says, the maintainer named in the commit.
maintainer=$(git log -1 --format='%cn <%ce>')

main() {
    mkdir -p "$directory"
    release rc3 rc3 crates/tools/rc3
    release rc3-kickass-tools kickass crates/tools/kickass
    if [ "$target" = "$host" ]; then wheel; fi
    (cd "$directory" && sha256sum -- $(ls | grep -E '\.(tar\.gz|deb|whl)$') >SHA256SUMS && cat SHA256SUMS)
}

# release PACKAGE COMMAND FOLDER
release() {
    local package=$1 command=$2 folder=$3
    # One package at a time: built together they would get each other's features.
    cargo build --locked --profile "$profile" "${for_target[@]}" --package "$package" --bin "$command"
    pages "$package" "$command"
    release/licences.py Cargo.toml "$package" "$target" >"$built/pages/$command/THIRD-PARTY-LICENSES"
    archive "$package" "$command" "$folder"
    case $target in "$host" | aarch64-*) debian "$package" "$command" ;; esac
}

# Manual pages and completions, written by the binary itself, which Cargo runs as the target needs.
# `[package.metadata.deb]` takes them from here, too.
pages() {
    local package=$1 command=$2 shell
    local run=(cargo run --locked --quiet --profile "$profile" "${for_target[@]}" --package "$package" --bin "$command" --)
    rm -rf "$built/pages/$command"
    mkdir -p "$built/pages/$command"
    "${run[@]}" man --out "$built/pages/$command/man"
    for shell in bash zsh fish; do
        "${run[@]}" completions "$shell" >"$built/pages/$command/$command.$shell"
    done
}

archive() {
    local package=$1 command=$2 folder=$3 name stage
    name=$command-$(version "$package")-$target
    stage=$built/pages/$name
    rm -rf "$stage"
    mkdir -p "$stage/completions"
    install -m 755 "$built/$command" "$stage/"
    cp -r "$built/pages/$command/man" "$stage/"
    cp "$built/pages/$command/$command."* "$stage/completions/"
    if [ -d "$folder/systemd" ]; then cp -r "$folder/systemd" "$stage/"; fi
    cp LICENSE-MIT LICENSE-APACHE "$built/pages/$command/THIRD-PARTY-LICENSES" CHANGELOG.md "$folder/README.md" "$stage/"
    tar --create --directory "$built/pages" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
        "$name" | gzip --no-name --best >"$directory/$name.tar.gz"
}

debian() {
    local package=$1 command=$2
    if ! cargo deb --version >/dev/null 2>&1; then
        echo "cargo-deb is not installed: no Debian package of $package (cargo install cargo-deb --locked)" >&2
        return
    fi
    debian_pages "$package" "$command"
    cargo deb --package "$package" --profile "$profile" "${for_target[@]}" --no-build --maintainer "$maintainer" --output "$directory"
}

# What Debian wants compressed, and a changelog in its own form. cargo-deb compresses nothing below `target/release`.
debian_pages() {
    local package=$1 command=$2 pages
    pages=$built/pages/$command/deb
    mkdir -p "$pages"
    cp "$built/pages/$command/man/"*.1 "$built/pages/$command/THIRD-PARTY-LICENSES" "$pages/"
    cat >"$pages/changelog.Debian" <<EOF
$package ($(version "$package")-1) unstable; urgency=medium

  * The changes of this version are in changelog.gz, beside this file.

 -- $maintainer  $(LC_ALL=C date --utc --rfc-email --date "@$SOURCE_DATE_EPOCH")
EOF
    gzip --no-name --best --force "$pages"/*
}

wheel() {
    if ! maturin --version >/dev/null 2>&1; then
        echo "maturin is not installed: no wheel (pip install maturin)" >&2
        return
    fi
    release/licences.py python/Cargo.toml rc3-python "$target" >python/THIRD-PARTY-LICENSES
    maturin build --manifest-path python/Cargo.toml --profile "$profile" --out "$directory"
}

version() {
    cargo pkgid --package "$1" | sed 's/.*[#@]//'
}

main
