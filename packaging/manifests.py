#!/usr/bin/env python3
"""Writes the files by which other package managers install a release, next to its files:

    packaging/manifests.py DIRECTORY DOWNLOADS [HOMEPAGE]

PKGBUILD is for the user repository of Arch Linux, overdue.rb for Homebrew. DOWNLOADS is the URL below
which the files of the directory are published.
"""
import hashlib
import pathlib
import re
import sys

directory, downloads = pathlib.Path(sys.argv[1]), sys.argv[2].rstrip("/")
homepage = sys.argv[3] if len(sys.argv) > 3 else downloads
here = pathlib.Path(__file__).parent
version = re.search(r'^version = "(.*)"', (here.parent / "Cargo.toml").read_text(), re.M)[1]

# Names of processors in Arch Linux.
PROCESSORS = {
    "x86_64": "x86_64-unknown-linux-gnu",
    "aarch64": "aarch64-unknown-linux-gnu",
    "armv7h": "armv7-unknown-linux-gnueabihf",
}


def checksum(name):
    return hashlib.sha256((directory / name).read_bytes()).hexdigest()


built = {name: f"overdue-{target}" for name, target in PROCESSORS.items() if (directory / f"overdue-{target}").exists()}
binaries = "".join(
    f"source_{name}=('overdue-{name}::{downloads}/{file}')\nsha256sums_{name}=('{checksum(file)}')\n"
    for name, file in built.items()
)
values = {
    "VERSION": version,
    "ARCHITECTURES": " ".join(built),
    "HOMEPAGE": homepage,
    "DOWNLOADS": downloads,
    "SOURCE_SUM": checksum(f"overdue-{version}.tar.gz"),
    "PAGES_SUM": checksum("overdue-man-completions.tar.gz"),
    "BINARIES": binaries,
}
for name in ("PKGBUILD", "overdue.rb"):
    text = (here / "manifests" / name).read_text()
    (directory / name).write_text(re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], text))
