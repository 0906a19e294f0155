#!/bin/sh
# Make the root of one container and become its process. Runs in mount, process and network namespaces of its own.
#
#   container.sh SCRATCH LAYERS READ_ONLY TABLE FOLDER COMMAND...
#
# SCRATCH    an empty folder
# LAYERS     what lies on top of the files of this machine, the uppermost first, with colons between; may be empty
# READ_ONLY  true or false
# TABLE      lines of three columns with tabs between: "open" - FOLDER; "ro" or "rw", SOURCE, TARGET
# FOLDER     where the command begins
#
# When only the command remains to be run, the process id, as others see it, is written to descriptor 0.
set -eu
scratch=$1 layers=$2 read_only=$3 table=$4 folder=$5
shift 5
path=$PATH
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
umask 022

mount -t tmpfs -o mode=755 container "$scratch"
mkdir "$scratch/upper" "$scratch/work" "$scratch/root"
lower=/
if [ -n "$layers" ]; then
    # A layer must not lie inside of another one, and all are inside of /: so that is a file system of its own first.
    mkdir "$scratch/empty" "$scratch/machine"
    mount -t overlay -o "lowerdir=$scratch/empty:/" machine "$scratch/machine"
    lower="$layers:$scratch/machine"
fi
mount -t overlay -o "lowerdir=$lower,upperdir=$scratch/upper,workdir=$scratch/work" container "$scratch/root"
cd "$scratch/root"
mkdir .host
pivot_root . .host
cd /

mount -t proc proc /proc
mount -t sysfs -o ro sysfs /sys
mount -t tmpfs -o mode=755 dev /dev
for device in null zero full random urandom; do
    : > "/dev/$device"
    mount --bind "/.host/dev/$device" "/dev/$device"
done
mkdir /dev/shm
mount -t tmpfs -o mode=1777 shm /dev/shm
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr

# What this machine keeps there is no part of any image.
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs -o mode=755 run /run

while IFS='	' read -r mode source target; do
    case $mode in
    open) chmod a+rx "$target" ;;
    *)
        if [ -d "/.host$source" ]; then
            mkdir -p "$target"
        else
            mkdir -p "$(dirname "$target")"
            [ -e "$target" ] || : > "$target"
        fi
        mount --bind "/.host$source" "$target"
        [ "$mode" = rw ] || mount -o remount,bind,ro "$target"
        ;;
    esac
done < "/.host$table"

read -r pid _ < /.host/proc/self/stat
umount -l /.host
rmdir /.host
if [ "$read_only" = true ]; then
    mount -o remount,bind,ro /tmp
    mount -o remount,bind,ro /run
    mount -o remount,bind,ro /
fi
[ -d "$folder" ] || { echo "workingDir $folder is not there" >&2; exit 128; }
cd "$folder"
echo "$pid" >&0
exec 0< /dev/null
unset PWD OLDPWD # the shell's own
PATH=$path
exec "$@"
