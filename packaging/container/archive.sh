#!/bin/sh
# Writes an archive of the image in OCI layout, for all the targets, with buildah and without a daemon:
#
#     packaging/static.sh && packaging/container/archive.sh FILE [TARGET]...
#     skopeo copy --all oci-archive:FILE docker://registry.example.org/overdue:latest
#     podman load -i FILE
#
# The same binaries give the same archive, byte for byte.
set -eu
file=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- "$(rustc -vV | sed -n 's/^host: //p')"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Storage of its own, so that no images of this machine are changed.
image_tool() { buildah --storage-driver vfs --root "$work/storage" --runroot "$work/run" "$@"; }
for target; do
    case $target in
    x86_64-*) platform=linux/amd64 ;;
    aarch64-*) platform=linux/arm64/v8 ;;
    armv7-*) platform=linux/arm/v7 ;;
    *) echo "no platform of images is known for $target" >&2 && exit 1 ;;
    esac
    root=$(packaging/container/root.sh "$target" "$work/$target")
    image_tool build --quiet --isolation chroot --timestamp "$epoch" --platform "$platform" --manifest overdue \
        --file packaging/container/Containerfile "$root" > /dev/null
done
image_tool manifest push --quiet --all overdue "oci:$work/layout:$version" > /dev/null
tar --create --file "$file" --directory "$work/layout" --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX .
echo "$file"
