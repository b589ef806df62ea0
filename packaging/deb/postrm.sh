#!/bin/sh
set -e

if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
# No settings of the journal are in force: prerm restored them.
if [ "$1" = purge ]; then
    rm -f /var/lib/punctual/journal.jsonl /var/lib/punctual/journal.old.jsonl
    rmdir /var/lib/punctual 2>/dev/null || true
    # The records of the service, whose user is made while it runs.
    rm -rf /var/lib/private/punctual-watch
    rm -f /var/lib/punctual-watch
fi
