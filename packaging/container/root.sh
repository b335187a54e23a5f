#!/bin/sh
# Puts together what the image holds, from the static binary: packaging/container/root.sh [TARGET] [DIRECTORY]
set -eu
target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
root=${2:-${CARGO_TARGET_DIR:-target}/container}
rm -rf "$root"
# The directory of the data belongs to the user of the image, so that a volume made from it does too.
mkdir -p "$root/data" "$root/etc" "$root/tmp"
chmod 700 "$root/data"
chmod 1777 "$root/tmp"
install -m 755 "${CARGO_TARGET_DIR:-target}/$target/release/overdue" "$root/overdue"
printf 'overdue:x:65532:65532::/data:/\n' > "$root/etc/passwd"
printf 'overdue:x:65532:\n' > "$root/etc/group"
echo "$root"
