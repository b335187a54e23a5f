#!/bin/sh
# Nightly restic backup, for cron: 30 3 * * * root /usr/local/bin/restic-backup /home /etc
# /etc/restic.env (mode 600) contains OVERDUE_PING_URL, RESTIC_REPOSITORY and RESTIC_PASSWORD_FILE.
set -eua
. "${RESTIC_ENV:-/etc/restic.env}"
# One check for both steps: the exit status is that of the first step that fails. restic exits with 3 if it could not read some files.
exec overdue run --spool "${OVERDUE_SPOOL:-/var/lib/restic-spool}" --timeout 21600 -- sh -ec '
    restic backup "$@"
    restic forget --prune --keep-daily 7 --keep-weekly 5 --keep-monthly 12
' restic "${@:?give what to back up}"
