#!/bin/sh
# Settings that `punctual tune` changed can be restored only as long as the program is there.
set -e

if [ "$1" = remove ]; then
    if [ -e /var/lib/punctual/journal.jsonl ] && ! punctual tune restore; then
        echo "punctual: not all settings are restored; the package is not removed." \
            "Restore them with 'punctual tune restore --force'," \
            "or keep them: rm /var/lib/punctual/journal.jsonl" >&2
        exit 1
    fi
    # Only the administrator can have enabled or started them.
    for unit in /usr/lib/systemd/system/punctual*.service; do
        [ -e "$unit" ] || continue
        unit=${unit##*/}
        if [ -d /run/systemd/system ]; then
            # All instances of a template.
            case $unit in *@.service) running="${unit%.service}*.service" ;; *) running=$unit ;; esac
            systemctl stop "$running"
            systemctl --quiet disable "$unit"
        elif command -v systemctl >/dev/null; then
            systemctl --quiet --root=/ disable "$unit"
        fi
    done
fi
