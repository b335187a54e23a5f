#!/bin/sh
# Builds the Debian package from the static binary with dpkg-deb, which each Debian has:
#
#     packaging/static.sh && packaging/deb.sh [TARGET]
#
# It prints the path of the package. The same binary gives the same package, byte for byte.
set -eu
umask 022
cd "$(dirname "$0")/.."
target=${1:-$(rustc -vV | sed -n 's/^host: //p')}
out=${CARGO_TARGET_DIR:-target}
case $target in
x86_64-*) arch=amd64 ;;
aarch64-*) arch=arm64 ;;
armv7-*) arch=armhf ;;
riscv64*) arch=riscv64 ;;
*) echo "no Debian architecture is known for $target" >&2 && exit 1 ;;
esac
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)-1
maintainer='The overdue authors <overdue@example.org>'
root=$out/deb/overdue_${version}_$arch
rm -rf "$root"
put() { # MODE FILE PLACE
    mkdir -p "$root/$(dirname "$3")"
    install -m "$1" "$2" "$root/$3"
}
put 755 "$out/$target/release/overdue" usr/bin/overdue
for unit in overdue.service overdue.socket overdue-smtp.socket; do put 644 "packaging/systemd/$unit" "lib/systemd/system/$unit"; done
put 644 packaging/systemd/overdue.sysusers usr/lib/sysusers.d/overdue.conf
# Variables may contain passwords, for example in the address of a proxy.
put 640 packaging/default/overdue etc/default/overdue
# Manual pages and completions are generated from the flags. A binary for another processor cannot
# run here: then a build for this machine generates them.
if "$root/usr/bin/overdue" --version > /dev/null 2>&1; then
    overdue() { "$root/usr/bin/overdue" "$@"; }
else
    overdue() { cargo run --locked --quiet --release -- "$@"; }
fi
generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT
overdue man "$generated/man"
for shell in bash zsh fish; do overdue completions "$shell" > "$generated/$shell"; done
put 644 "$generated/bash" usr/share/bash-completion/completions/overdue
put 644 "$generated/zsh" usr/share/zsh/vendor-completions/_overdue
put 644 "$generated/fish" usr/share/fish/vendor_completions.d/overdue.fish
for page in "$generated"/man/*.1; do
    put 644 "$page" "usr/share/man/man1/$(basename "$page")"
done
gzip -9n "$root"/usr/share/man/man1/*
for chapter in README.md src/docs/*.md; do put 644 "$chapter" "usr/share/doc/overdue/$chapter"; done
# The crates that the binary contains.
python3 packaging/sbom.py "$target" > "$generated/overdue.cdx.json"
put 644 "$generated/overdue.cdx.json" usr/share/doc/overdue/overdue.cdx.json
put 644 packaging/CHANGELOG.md usr/share/doc/overdue/changelog
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
printf 'overdue (%s) unstable; urgency=medium\n\n  * What has changed is in changelog.gz.\n\n -- %s  %s\n' \
    "$version" "$maintainer" "$(LC_ALL=C date -u -R -d "@$epoch")" > "$root/usr/share/doc/overdue/changelog.Debian"
gzip -9n "$root/usr/share/doc/overdue/changelog" "$root/usr/share/doc/overdue/changelog.Debian"
for example in packaging/examples/*; do put 644 "$example" "usr/share/doc/overdue/examples/$(basename "$example")"; done
for example in packaging/prometheus/* packaging/proxy/* packaging/cluster/* packaging/container/compose.yaml; do
    put 644 "$example" "usr/share/doc/overdue/examples/${example#packaging/}"
done
{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: overdue\n\nFiles: *\n'
    printf 'Copyright: %s\nLicense: Expat\n' "$(sed -n 's/^Copyright (c) //p' LICENSE)"
    sed -n '/^Permission/,$p' LICENSE | sed 's/^$/./; s/^/ /'
} > "$root/usr/share/doc/overdue/copyright"
mkdir -p "$root/DEBIAN"
for script in postinst prerm postrm; do install -m 755 "packaging/deb/$script" "$root/DEBIAN/$script"; done
echo /etc/default/overdue > "$root/DEBIAN/conffiles"
cat > "$root/DEBIAN/control" <<CONTROL
Package: overdue
Version: $version
Architecture: $arch
Maintainer: $maintainer
Installed-Size: $(du -sk "$root" | cut -f 1)
Section: net
Priority: optional
Recommends: systemd
Description: notifies people when a scheduled job did not report
 Jobs ping a URL when they finish. A check that misses its deadline goes late,
 then down, and its channels are notified. Compatible with clients of
 Healthchecks. One static program with an embedded database.
CONTROL
# The times of files would differ between builds.
find "$root" -exec touch -h -d "@$epoch" {} +
SOURCE_DATE_EPOCH=$epoch dpkg-deb --root-owner-group -Zxz --build "$root" "$root.deb" >/dev/null
echo "$root.deb"
