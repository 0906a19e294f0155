#!/bin/sh
# Run one step of a Dockerfile, as root in a mount namespace of its own. What it changes ends up in a folder.
#
#   step.sh SCRATCH LAYERS SHOWN CHANGED USER FOLDER COMMAND...
#
# SCRATCH  an empty folder
# LAYERS   what lies on top of the files of this machine, the uppermost first, with colons between
# SHOWN    folders of this machine that it sees besides, with colons between
# CHANGED  an empty folder, for what the step changes
# USER     user:group, as which it runs
# FOLDER   where the command begins; made when missing
set -eu
scratch=$1 layers=$2 shown=$3 changed=$4 user=$5 folder=$6
shift 6
path=$PATH
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

mount -t tmpfs -o mode=755 step "$scratch"
mkdir "$scratch/empty" "$scratch/machine" "$scratch/upper" "$scratch/work" "$scratch/root"
# A layer must not lie inside of another one, and all are inside of /: so that is a file system of its own first.
mount -t overlay -o "lowerdir=$scratch/empty:/" machine "$scratch/machine"
lower="$layers:$scratch/machine"
mount -t overlay -o "lowerdir=$lower,upperdir=$scratch/upper,workdir=$scratch/work" step "$scratch/root"
for each in dev proc sys; do
    mount --rbind "/$each" "$scratch/root/$each"
done
mount -t tmpfs -o mode=1777 tmp "$scratch/root/tmp"
mount -t tmpfs -o mode=755 run "$scratch/root/run"
IFS=:
for each in $shown; do
    mkdir -p "$scratch/root$each"
    mount --rbind "$each" "$scratch/root$each"
done
unset IFS
mkdir -p "$scratch/root$folder"

chroot --userspec="$user" "$scratch/root" env --chdir="$folder" PATH="$path" "$@"
cp -a "$scratch/upper/." "$changed"
