#!/bin/sh
# Writes the release files into an empty directory: binaries, packages (deb, rpm, apk), an archive of
# the image, the source, completions and manual pages, software bills of materials (SBOM, CycloneDX),
# provenance, checksums; and with OVERDUE_DOWNLOADS, the URL below which they are published, a PKGBUILD
# and a formula of Homebrew.
#
#     packaging/release.sh DIRECTORY [TARGET]...
#
# Without a target, it builds for this machine. static.sh lists the requirements for another
# processor; nfpm.sh and container/archive.sh name the programs that they need. Two runs for a commit
# with the same compiler write equal bytes, whatever the directories are called.
set -eu
directory=$(mkdir -p "$1" && cd "$1" && pwd)
shift
if [ -n "$(ls -A "$directory")" ]; then
    echo "$directory is not empty: its files would become part of the release" >&2
    exit 1
fi
cd "$(dirname "$0")/.."
for tool in nfpm buildah dpkg-deb python3 git; do
    command -v "$tool" > /dev/null || { echo "$tool is not installed" >&2 && exit 1; }
done
[ $# -gt 0 ] || set -- "$(rustc -vV | sed -n 's/^host: //p')"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
for target; do
    packaging/static.sh "$target"
    for program in overdue overdue-run; do
        cp "${CARGO_TARGET_DIR:-target}/$target/release/$program" "$directory/$program-$target"
    done
    tree=$(packaging/deb.sh "$target")
    cp "$tree" "$directory/"
    packaging/nfpm.sh "$directory" "$target"
    python3 packaging/sbom.py "$target" > "$directory/overdue-$target.cdx.json"
done
packaging/container/archive.sh "$directory/overdue-image.tar" "$@"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
git archive --format=tar --prefix="overdue-$version/" HEAD | gzip --no-name --best > "$directory/overdue-$version.tar.gz"
# The pages and completions are the same for all processors.
tar --create --gzip --file "$directory/overdue-man-completions.tar.gz" --directory "${tree%.deb}/usr/share" \
    --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner man bash-completion fish zsh
if [ -n "${OVERDUE_DOWNLOADS-}" ]; then
    python3 packaging/manifests.py "$directory" "$OVERDUE_DOWNLOADS" "${OVERDUE_HOMEPAGE-$OVERDUE_DOWNLOADS}"
fi
python3 packaging/provenance.py "$directory" "$@" > "$directory.provenance"
mv "$directory.provenance" "$directory/provenance.intoto.json"
cd "$directory"
# The list is made before its own file exists.
sums=$(sha256sum -- *)
printf '%s\n' "$sums" > SHA256SUMS
cat SHA256SUMS
