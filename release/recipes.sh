#!/usr/bin/env bash
# Makes the recipes of other package managers from the templates in `release/recipes`, with the version of this commit and
# the checksums of the archives in DIRECTORY, among them that of the source, which this script adds.
#
#     release/recipes.sh URL PAGE [DIRECTORY]      (target/release-files)
#
# URL is where the files of this release will be, PAGE the project's.
set -euo pipefail
url=$1 page=$2
directory=$(realpath -m "${3:-$(dirname "$0")/../target/release-files}")
cd "$(dirname "$0")/.."
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)

main() {
    local recipe filled
    git archive --format=tar --prefix="rc3-$version/" HEAD | gzip --no-name --best >"$directory/rc3-$version-source.tar.gz"
    for recipe in release/recipes/*; do
        filled=$(fill <"$recipe")
        printf '%s\n' "$filled" >"$directory/$(basename "$recipe")"
    done
    (cd "$directory" && sha256sum -- $(ls | grep -E '\.(tar\.gz|deb|whl)$') >SHA256SUMS)
}

# Fills a template: @VERSION@, @URL@, @HOME@, and @SHA256 FILE@.
fill() {
    local text file sum
    text=$(sed -e "s|@VERSION@|$version|g" -e "s|@URL@|$url|g" -e "s|@HOME@|$page|g")
    while [[ $text =~ @SHA256\ ([^@]+)@ ]]; do
        file=${BASH_REMATCH[1]}
        sum=$(sha256sum "$directory/$file" | cut -d ' ' -f 1) || return
        text=${text//"@SHA256 $file@"/$sum}
    done
    printf '%s\n' "$text"
}

main
