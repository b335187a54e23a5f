#!/bin/sh
# Builds a binary that needs no library of the system. Run it in the root of the package:
#
#     packaging/static.sh [TARGET]
#
# The target is named even for this machine: otherwise the flag would also apply to build scripts
# and procedural macros, which cannot be static. The C library is the static one of glibc (Debian:
# libc6-dev, Fedora: glibc-static).
set -eu
target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
# Commit for `overdue --version`, "unknown" without git.
OVERDUE_COMMIT=${OVERDUE_COMMIT-$(git rev-parse --short=12 HEAD 2>/dev/null || true)}
export OVERDUE_COMMIT
case $target in
aarch64-*)
    # Kernels for this processor have pages of 4, 16 or 64 kB. The allocator works with pages up to
    # the size that it was built for.
    export JEMALLOC_SYS_WITH_LG_PAGE=16
    # The linker of gcc-aarch64-linux-gnu (Debian), unless this machine has this processor.
    [ "$(uname -m)" = aarch64 ] ||
        export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="${CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER:-aarch64-linux-gnu-gcc}"
    ;;
esac
# Optimises across all crates, which Cargo.toml leaves out for faster builds.
export CARGO_PROFILE_RELEASE_LTO="${CARGO_PROFILE_RELEASE_LTO:-fat}"
export CARGO_PROFILE_RELEASE_CODEGEN_UNITS="${CARGO_PROFILE_RELEASE_CODEGEN_UNITS:-1}"
RUSTFLAGS='-C target-feature=+crt-static' cargo build --package overdue --release --locked --target "$target"
binary=${CARGO_TARGET_DIR:-target}/$target/release/overdue
if readelf -d "$binary" | grep -q NEEDED; then
    echo "$binary is not static:" >&2
    readelf -d "$binary" | grep NEEDED >&2
    exit 1
fi
# In a static binary, this function loads modules of the system's C library (nsswitch.conf) and
# crashes, so the binary must not contain it. Only optimisation at link time removes the unused
# methods of the standard library that call it.
if [ "$CARGO_PROFILE_RELEASE_LTO" != off ] && grep -q getaddrinfo "$binary"; then
    echo "$binary contains getaddrinfo: a dependency looks up names without outbound::resolver" >&2
    exit 1
fi
ls -l "$binary"
