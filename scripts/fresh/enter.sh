#!/usr/bin/env bash
# enter.sh MACHINE USER FOLDER COMMAND: becomes USER in the machine and runs COMMAND there. Started as root and as the
# first process of new mount and process namespaces, with the environment that COMMAND is to see.
# With CONTAINER=1 it is a machine as Docker's defaults make one: few capabilities, a covered /proc. That it can create no
# namespaces is up to the caller (refuse-namespaces.py).
set -euo pipefail
machine=$1 user=$2 folder=$3 command=$4
container=${CONTAINER:-0}
unset CONTAINER

mount --make-rprivate /
mount --bind "$machine" "$machine"
cd "$machine"
mount --rbind /dev dev
mount --rbind /sys sys
# A whole /proc of the new process namespace: only who sees one may mount another in a user namespace.
mount -t proc proc proc
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs run
for file in etc/resolv.conf etc/hosts; do
  touch "$file"
  mount --bind "/$file" "$file"
done

if [[ $container == 1 ]]; then
  for path in proc/kcore proc/keys proc/timer_list; do
    if [[ -e $path ]]; then mount --bind /dev/null "$path"; fi
  done
  for path in proc/bus proc/fs proc/irq proc/sys proc/sysrq-trigger; do
    if [[ ! -e $path ]]; then continue; fi
    mount --bind "$path" "$path"
    mount -o remount,bind,ro "$path"
  done
  # One read-only mount above all of /sys would leave those below it writable.
  findmnt --raw --noheadings --output TARGET --submounts "$machine/sys" | while read -r path; do
    mount -o remount,bind,ro "$path"
  done
fi

# Not chroot: in a chroot no process may make a user namespace.
# A unique name: several commands may enter the same machine at once.
outside=$(mktemp -d .outside-XXXXXX)
pivot_root . "$outside"
umount -l "/$outside"
rmdir "/$outside"
cd "$folder"

become=()
if [[ $container == 1 ]]; then
  kept=chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,sys_chroot,mknod,audit_write,setfcap
  become+=(setpriv --inh-caps=-all "--bounding-set=-all,+${kept//,/,+}")
fi
if [[ $user != root ]]; then become+=(setpriv "--reuid=$user" "--regid=$user" --init-groups); fi
# Not exec: this shell is the machine's first process, and waits for orphans as an init does.
${become[@]+"${become[@]}"} bash -c "$command"
