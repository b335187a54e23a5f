#!/bin/sh
# Puts what is released into a directory: binary, packages, a list of what is inside (SBOM, CycloneDX), checksums.
#
#     packaging/release.sh DIRECTORY [TARGET]...
#
# Without a target, for this machine. For aarch64 the linker is that of gcc-aarch64-linux-gnu (Debian), unless
# CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER says otherwise.
set -eu
directory=$(mkdir -p "$1" && cd "$1" && pwd)
shift
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- "$(rustc -vV | sed -n 's/^host: //p')"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER:-aarch64-linux-gnu-gcc}"
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
