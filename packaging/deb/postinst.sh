#!/bin/sh
# No unit is enabled or started. One that runs goes on with the new program after an upgrade.
set -e

if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    if [ -n "$2" ]; then
        systemctl try-restart 'punctual*.service' || true
    fi
fi
