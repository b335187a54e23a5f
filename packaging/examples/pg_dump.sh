#!/bin/sh
# Dumps a database, for cron: 15 2 * * * postgres /usr/local/bin/dump-database shop /var/backups/shop.dump
# The dump replaces the previous one only once it is complete. The job fails if the dump cannot be listed.
set -eu
exec overdue run "${OVERDUE_PING_URL:-https://checks.example.org/ping/UUID}" --timeout 7200 -- sh -ec '
    pg_dump --format=custom --file="$2.new" "$1"
    pg_restore --list "$2.new" > "$2.list"
    mv "$2.new" "$2"
    ls -l "$2"
' pg_dump "${1:?the database}" "${2:?the file}"
