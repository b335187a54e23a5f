#!/bin/sh
# Puts what is released into a directory: binary, packages, a list of what is inside (SBOM, CycloneDX), checksums.
#
#     packaging/release.sh DIRECTORY [TARGET]...
#
# Without a target, for this machine. What another processor needs is in static.sh.
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
# A file of an earlier run is no part of itself.
rm -f SHA256SUMS
sha256sum -- * > SHA256SUMS
cat SHA256SUMS
