#!/bin/sh
# Creates the files of the image from the static binary:
#
#     packaging/container/root.sh [TARGET] [DIRECTORY]
#
# `image` has the files of root, `volume` the directory of the service.
set -eu
target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
root=${2:-${CARGO_TARGET_DIR:-target}/container}
rm -rf "$root"
# The data directory belongs to the user of the image, so that a volume created from it does too.
mkdir -p "$root/volume/data" "$root/image/etc" "$root/image/tmp"
chmod 700 "$root/volume/data"
chmod 1777 "$root/image/tmp"
install -m 755 "${CARGO_TARGET_DIR:-target}/$target/release/overdue" "$root/image/overdue"
printf 'overdue:x:65532:65532::/data:/\n' > "$root/image/etc/passwd"
printf 'overdue:x:65532:\n' > "$root/image/etc/group"
# The crates that the binary contains.
mkdir -p "$root/image/usr/share/doc/overdue"
python3 "$(dirname "$0")/../sbom.py" "$target" > "$root/image/usr/share/doc/overdue/overdue.cdx.json"
echo "$root"
