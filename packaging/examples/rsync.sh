#!/bin/sh
# Copies a directory to another machine, for cron: 0 * * * * /usr/local/bin/copy-photos
# Exit status 24 of rsync (files vanished while it ran) does not count as a failure here.
set -eu
exec overdue run "${OVERDUE_PING_URL:-https://checks.example.org/ping/UUID}" --timeout 3000 -- sh -c '
    rsync -a --delete --stats "$@" || { status=$?; [ "$status" = 24 ] || exit "$status"; }
' rsync "${@:?give what to copy and where to}"
