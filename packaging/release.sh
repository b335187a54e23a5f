#!/bin/sh
# Writes the release files into a directory: binary, packages, software bill of materials (SBOM,
# CycloneDX), checksums.
#
#     packaging/release.sh DIRECTORY [TARGET]...
#
# Without a target, it builds for this machine. static.sh lists the requirements for another
# processor.
set -eu
directory=$(mkdir -p "$1" && cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- "$(rustc -vV | sed -n 's/^host: //p')"
for target; do
    packaging/static.sh "$target" >/dev/null
    cp "${CARGO_TARGET_DIR:-target}/$target/release/overdue" "$directory/overdue-$target"
    cp "$(packaging/deb.sh "$target")" "$directory/"
    python3 packaging/sbom.py "$target" > "$directory/overdue-$target.cdx.json"
done
cd "$directory"
# Excludes the file of an earlier run from its own checksums.
rm -f SHA256SUMS
sha256sum -- * > SHA256SUMS
cat SHA256SUMS
