#!/bin/sh
# Builds a binary that needs no library of the system it runs on. Run it in the root of the package:
#
#     packaging/static.sh [TARGET]
#
# The target is named even when it is this machine's: otherwise the flag would reach build scripts and procedural macros too, and
# those cannot be static. The C library is glibc's static one (Debian: libc6-dev, Fedora: glibc-static).
set -eu
target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
# What `overdue --version` says. Without git it says "unknown".
OVERDUE_COMMIT=${OVERDUE_COMMIT-$(git rev-parse --short=12 HEAD 2>/dev/null || true)}
export OVERDUE_COMMIT
case $target in
aarch64-*)
    # Kernels of this processor have pages of 4, 16 or 64 kB. The allocator works where they are no larger than what it was built for.
    export JEMALLOC_SYS_WITH_LG_PAGE=16
    # The linker of gcc-aarch64-linux-gnu (Debian), unless this is such a machine.
    [ "$(uname -m)" = aarch64 ] ||
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER:-aarch64-linux-gnu-gcc}"
    ;;
esac
RUSTFLAGS='-C target-feature=+crt-static' cargo build --package overdue --release --locked --target "$target"
binary=${CARGO_TARGET_DIR:-target}/$target/release/overdue
if readelf -d "$binary" | grep -q NEEDED; then
    echo "$binary is not static:" >&2
    readelf -d "$binary" | grep NEEDED >&2
    exit 1
fi
# Called in a static binary, it loads modules of the system's own C library (nsswitch.conf) and crashes. Nothing may look names up by it.
if grep -q getaddrinfo "$binary"; then
    echo "$binary holds getaddrinfo: something looks up names without `outbound::resolver`" >&2
    exit 1
fi
ls -l "$binary"
