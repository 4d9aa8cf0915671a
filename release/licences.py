#!/usr/bin/env python3
"""Prints the licence texts of what a package contains beside this project's code: each once, below what it covers.

    release/licences.py MANIFEST PACKAGE TARGET
"""

import html
import json
import pathlib
import re
import subprocess
import sys

TEXT = re.compile(r"(licen[cs]e|copying|copyright|notice)([-_.].*)?", re.IGNORECASE)
SOURCE = {".c", ".h", ".rs"}


def main(manifest, package, target):
    rust = pathlib.Path(run("rustc", "--print", "sysroot").strip(), "share/doc/rust")
    library = html.unescape(re.sub("<[^>]*>", "", (rust / "COPYRIGHT-library.html").read_text()))
    covered = {}
    cover(covered, "the standard library of Rust", re.sub(r"\n\s*\n", "\n\n", library))
    if target.endswith("-musl"):
        cover(covered, "musl (MIT)", filled(rust, "MIT", ["2005-2020 Rich Felker, et al."]))
    for crate in crates(manifest, package, target):
        name = f"{crate['name']} {crate['version']} ({crate['license']})"
        texts = list(licence_texts(pathlib.Path(crate["manifest_path"]).parent))
        if not texts:
            # The authors are its only notice. Of several licences the first one is chosen.
            licence = re.split("[ /]", crate["license"])[0]
            texts = [filled(rust, licence, crate["authors"])]
        for text in texts:
            cover(covered, name, text)
    for names, text in covered.values():
        print("=" * 80, *names, "=" * 80, text.strip("\n"), sep="\n", end="\n\n")


def crates(manifest, package, target):
    """What is built into the package, of others."""
    tree = ["--package", package, "--target", target, "--edges", "normal,no-proc-macro", "--prefix", "none"]
    listed = run("cargo", "tree", "--locked", "--manifest-path", manifest, *tree)
    used = set(re.findall(r"^(\S+) v(\S+)", listed, re.MULTILINE))
    metadata = run("cargo", "metadata", "--locked", "--manifest-path", manifest, "--format-version", "1")
    for crate in json.loads(metadata)["packages"]:
        if crate["source"] and (crate["name"], crate["version"]) in used:
            yield crate


def filled(rust, licence, holders):
    """The text of a licence with its holders, above it if it has no place for them."""
    text = (rust / f"licenses/{licence}.txt").read_text()
    notice = "\n".join(f"Copyright (c) {holder}" for holder in holders)
    placed = re.sub(r"^Copyright \(c\) <.*> *$", lambda _: notice, text, flags=re.MULTILINE)
    return placed if placed != text else f"{notice}\n\n{text}"


def licence_texts(folder):
    """What a crate has of others is in folders below."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and TEXT.fullmatch(path.name) and path.suffix not in SOURCE:
            yield path.read_text()


def cover(covered, name, text):
    # Copies differ in how their lines are broken.
    names, _ = covered.setdefault(" ".join(text.split()), ([], text))
    if name not in names:
        names.append(name)


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


main(*sys.argv[1:])
