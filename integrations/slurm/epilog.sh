#!/bin/sh
# Epilog of slurmd: restores the settings that a killed `punctual qualify --tuned` left changed on this node.
#
#   slurm.conf: Epilog=/etc/slurm/punctual-epilog.sh
#
# It does nothing where nothing is journalled, or where there is no punctual. If a setting can't be restored,
# its status is not 0, and Slurm drains the node. It restores what jobs changed, not what an administrator did:
# qualify.sbatch gives the runs of jobs this journal.
state=${PUNCTUAL_STATE:-/var/lib/punctual-slurm}
punctual=${PUNCTUAL:-/usr/local/bin/punctual}
[ -d "$state" ] && [ -x "$punctual" ] || exit 0
exec "$punctual" tune restore --state "$state" >/dev/null
