#!/usr/bin/env bash
# End the cluster of this RUN folder and leave nothing: no process, mount, link, route, cgroup, sysctl or file.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/env.sh"
[[ -d $RUN ]] || exit 0
if [[ -s $RUN/init.pid ]]; then
    init=$(<"$RUN/init.pid")
    if grep -qs init.sh "/proc/$init/cmdline"; then
        kill -KILL "$init"                       # PID 1 of its namespace: the kernel ends the rest, pods and all
        for _ in $(seq 400); do [[ -d /proc/$init ]] || break; sleep 0.05; done
    fi
fi
if [[ -s $RUN/watcher.pid ]]; then               # it waits for the owner's end: not needed any more
    watcher=$(<"$RUN/watcher.pid")
    if [[ $watcher != $$ ]] && grep -qs watcher "/proc/$watcher/cmdline"; then
        # shellcheck disable=SC2046
        kill "$watcher" $(pgrep -P "$watcher") 2>/dev/null
    fi
fi
ip link del "$LINK" 2>/dev/null                  # its routes go with it
for d in /sys/fs/cgroup/*/kubepods /sys/fs/cgroup/kubepods /sys/fs/cgroup/*/shm-node; do
    for _ in $(seq 40); do
        [[ -d $d ]] || break
        find "$d" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.05
    done
done
[[ -s $RUN/sysctl.before ]] && while read -r k v; do echo "$v" > "/proc/sys/$k"; done < "$RUN/sysctl.before"
[[ -s $RUN/made.dirs ]] && while read -r d; do rmdir "$d"; done < "$RUN/made.dirs"
rmdir /tmp/hostpath_pv 2>/dev/null
rm -rf --one-file-system "$RUN"
