#!/bin/sh
# Run one step of a Dockerfile, as root in its own mount namespace, and copy the files that it changes into a folder.
#
#   step.sh SCRATCH LAYERS SHOWN CHANGED USER FOLDER COMMAND...
#
# SCRATCH  an empty folder
# LAYERS   the image so far, uppermost layer first, separated by colons. An empty entry: the files of this machine
# SHOWN    folders of this machine that the step also sees, separated by colons
# CHANGED  an empty folder, for the files that the step changes
# USER     user:group of the command
# FOLDER   working directory of the command, created if missing
set -eu
scratch=$1 layers=$2 shown=$3 changed=$4 user=$5 folder=$6
shift 6
path=$PATH
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
chroot=$(command -v chroot)

mount -t tmpfs -o mode=755 step "$scratch"
mkdir "$scratch/empty" "$scratch/machine" "$scratch/upper" "$scratch/work" "$scratch/root"
case $layers in
*:) # Layers must not contain each other, and all are inside of /, so that it becomes a file system of its own first.
    mount -t overlay -o "lowerdir=$scratch/empty:/" machine "$scratch/machine"
    layers="$layers$scratch/machine" ;;
esac
mount -t overlay -o "lowerdir=$layers:$scratch/empty,upperdir=$scratch/upper,workdir=$scratch/work" step "$scratch/root"
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

if [ "$folder" != / ]; then
    set -- env --chdir="$folder" "$@"
fi
PATH=$path "$chroot" --userspec="$user" "$scratch/root" "$@"
cp -a "$scratch/upper/." "$changed"
