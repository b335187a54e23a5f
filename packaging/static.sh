#!/bin/sh
# Builds binaries that need no library of the system: overdue, and overdue-run, the client alone. Run it in the root of the package:
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
armv7-*)
    # The linker of gcc-arm-linux-gnueabihf (Debian).
    export CARGO_TARGET_ARMV7_UNKNOWN_LINUX_GNUEABIHF_LINKER="${CARGO_TARGET_ARMV7_UNKNOWN_LINUX_GNUEABIHF_LINKER:-arm-linux-gnueabihf-gcc}"
    ;;
esac
# Optimises across all crates, which Cargo.toml leaves out for faster builds.
export CARGO_PROFILE_RELEASE_LTO="${CARGO_PROFILE_RELEASE_LTO:-fat}"
export CARGO_PROFILE_RELEASE_CODEGEN_UNITS="${CARGO_PROFILE_RELEASE_CODEGEN_UNITS:-1}"
# Messages of panics name source files: without the paths of this machine, two builds are equal.
cargo_home=${CARGO_HOME:-$HOME/.cargo}
flags="-C target-feature=+crt-static --remap-path-prefix=$PWD=/overdue --remap-path-prefix=$cargo_home=/cargo"
export CFLAGS="${CFLAGS-} -ffile-prefix-map=$PWD=/overdue -ffile-prefix-map=$cargo_home=/cargo"
RUSTFLAGS=$flags cargo build --package overdue --release --locked --target "$target"
for program in overdue overdue-run; do
    binary=${CARGO_TARGET_DIR:-target}/$target/release/$program
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
done
# The limit of the client, where it is built as for a release.
client=$(wc -c < "${CARGO_TARGET_DIR:-target}/$target/release/overdue-run")
if [ "$CARGO_PROFILE_RELEASE_LTO" != off ] && [ "$client" -gt 5000000 ]; then
    echo "overdue-run has $client bytes: at most 5 MB are allowed" >&2
    exit 1
fi
