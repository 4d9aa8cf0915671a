#!/usr/bin/env bash
# The size of this project as Markdown: lines of code and of tests by crate, and words of documents. A line of code is not
# empty, no comment, and no test (`tests/`, `tests.rs`, or what `#[cfg(test)]` includes). Words are those of `wc -w`, without
# generated folders and pages of legal text. RC3 §4.1 counts 121 lines that its patch adds to TCP and IP of Linux 3.2; rc3 has a
# transport of its own. Usage:
#   benches/lines.sh
set -euo pipefail
cd "$(dirname "$0")/.."
generated='^docs/(reproduction|results)/'

# Files that only tests include: `#[cfg(test)] mod NAME;`.
test_modules=$(git grep -A1 -E '^ *#\[cfg\((all\()?test[,)]' -- '*.rs' | sed -nE 's#^(.*)/[a-z_0-9]+\.rs-.*mod ([a-z_0-9]+);$#\1/\2#p' | tr '\n' ' ')

# Prints the code lines and the test lines of its files.
count() {
    awk -v modules="$test_modules" '
        BEGIN { modules_count = split(modules, module, " ") }
        FNR == 1 { testing = 0; all_tests = FILENAME ~ /(^|\/)tests(\/|\.rs$)/
            for (nth = 1; nth <= modules_count; nth++)
                if (index(FILENAME, module[nth] ".rs") == 1 || index(FILENAME, module[nth] "/") == 1) all_tests = 1 }
        { indent = match($0, /[^ ]/); text = substr($0, indent) }
        text == "" || text ~ /^\/\// { next }
        FILENAME !~ /\.rs$/ && text ~ /^#/ { next }
        all_tests { tests++; next }
        testing && indent == at && text ~ /[};,]$/ { testing = 0; tests++; next }
        testing { tests++; next }
        text ~ /^#\[cfg\((all\()?test[,)]/ { testing = 1; at = indent; tests++; next }
        { code++ }
        END { print code + 0, tests + 0 }
    ' "$@" /dev/null
}

mapfile -t crates < <(git ls-files '*Cargo.toml' | sed 's|/*Cargo.toml$||' | grep . | sort)
printf '| part | code | tests |\n|---|---:|---:|\n'
code=0 tests=0
row() {
    read -r lines tested < <(count "${@:2}")
    code=$((code + lines)) tests=$((tests + tested))
    printf '| %s | %d | %d |\n' "$1" "$lines" "$tested"
}
for crate in "${crates[@]}"; do
    mapfile -t files < <(git ls-files "$crate/*.rs" "$crate/*.py" "$crate/*.sh")
    if [ ${#files[@]} -gt 0 ]; then row "$crate" "${files[@]}"; fi
done
row "scripts" $(git ls-files '*.sh' .ci/run | grep -vFf <(printf '%s/\n' "${crates[@]}"))
printf '| all | %d | %d |\n' "$code" "$tests"

mapfile -t pages < <(git ls-files '*.md' | grep -vE "$generated")
printf '\n%d words in %d documents\n' "$(cat "${pages[@]}" | wc -w)" "${#pages[@]}"
