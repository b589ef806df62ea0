#!/bin/sh
# Starts the unit under a systemd of its own: `systemd.sh UNIT PROGRAM`, in an empty directory and a mount
# namespace. It sees this machine's files under a layer in memory, its own processes, and no
# network. Ends with 77 where that is not possible.
set -eu
unit=$1
program=$2
here=$PWD

if [ "${3-}" = inside ]; then
    mount --make-rprivate /
    cd layer
    mkdir up work root
    mount -t overlay none -o lowerdir=/,upperdir=up,workdir=work root || exit 77
    cd root
    mount -t proc none proc
    mount -t sysfs none sys
    mount -t cgroup2 none sys/fs/cgroup
    for folder in run dev tmp; do mount -t tmpfs none $folder; done
    for device in null:3 zero:5 full:7 random:8 urandom:9; do
        mknod -m 666 "dev/${device%:*}" c 1 "${device#*:}" || exit 77
    done
    mkdir dev/pts dev/shm dev/mqueue dev/hugepages
    mount -t devpts none dev/pts -o newinstance,ptmxmode=666
    ln -s pts/ptmx dev/ptmx
    mknod -m 666 dev/tty c 5 0
    : >dev/console
    cp "$program" usr/bin/punctual
    units=etc/systemd/system
    mkdir -p $units/punctual-watch.service.d
    cp "$unit" $units/punctual-watch.service
    # Only these two units, not what a whole system starts.
    printf '[Unit]\nDefaultDependencies=no\n[Service]\nStandardOutput=file:/run/watch.out\nStandardError=file:/run/watch.err\n' \
        >$units/punctual-watch.service.d/alone.conf
    printf '[Unit]\nDefaultDependencies=no\nWants=punctual-watch.service\n[Service]\nType=oneshot\nExecStart=/bin/sh /probe.sh\nStandardOutput=file:/probe.out\nStandardError=file:/probe.err\nExecStopPost=/bin/touch /probe.done\n' \
        >$units/probe.service
    cat >probe.sh <<'END'
until [ -s /run/punctual-watch/punctual.prom ]; do sleep 0.1; done
systemctl is-active punctual-watch
pid=$(systemctl show -P MainPID punctual-watch)
grep -E '^(CapEff|CapBnd|Seccomp|NoNewPrivs):' "/proc/$pid/status"
stat -c 'user %u' "/proc/$pid" | sed 's/user 0$/root/; s/user .*/not root/'
setpriv --reuid 65534 --regid 65534 --clear-groups grep -c punctual_run_info{ /run/punctual-watch/punctual.prom
systemctl stop punctual-watch
systemctl show -P Result punctual-watch
[ -e /run/punctual-watch ] || echo no metrics
ls /var/lib/punctual-watch/*/run.json | wc -l
cat /run/watch.err
END
    mkdir old
    pivot_root . old
    cd /
    umount -l old
    exec env -i container=lxc PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --system --unit=probe.service --show-status=no
fi

mkdir layer cgroup
mount -t tmpfs none layer || exit 77
mount -t cgroup2 none cgroup || exit 77
own=cgroup/punctual-test-$$
# What it makes must not be beside the groups of this machine's own systemd.
{ mkdir $own && echo $$ >$own/cgroup.procs; } || exit 77
setpriv --pdeathsig KILL unshare -m -p -f -n -u -i -C --kill-child sh "$0" "$unit" "$program" inside >inside.out 2>&1 &
init=$!
tries=0
until [ -e layer/up/probe.done ] || [ $tries -ge 500 ] || ! kill -0 $init 2>/dev/null; do
    sleep 0.1
    tries=$((tries + 1))
done
kill -KILL $init 2>/dev/null || true
status=0
wait $init || status=$?
echo $$ >cgroup/cgroup.procs
until find $own -depth -type d -exec rmdir {} + 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 1000 ] || break
    sleep 0.05
done
[ "$status" -ne 77 ] || exit 77
cat "$here/layer/up/probe.out" "$here/layer/up/probe.err"
