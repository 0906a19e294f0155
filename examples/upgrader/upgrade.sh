#!/bin/sh
# An upgrade for upgrader.py: MEMBER, TYPE, VERSION and IMAGES say what is wanted, and the last line printed says what
# the cluster runs now. As it is, it upgrades nothing and only takes a few seconds: put commands of yours where it sleeps,
# and ask the cluster at the end.
set -eu
echo "taking $MEMBER to ${VERSION:-$IMAGES}, $TYPE" >&2
case "$TYPE" in
Full) sleep 5 ;;             # the control plane, then the nodes
ControlPlaneOnly) sleep 5 ;; # the control plane
*) sleep 5 ;;                # NodeImageOnly: new nodes with IMAGES
esac
echo "$MEMBER is upgraded" >&2
if [ "$TYPE" = Full ]; then
  printf '{"controlPlaneVersion": "%s", "pools": [{"name": "default", "kubernetesVersion": "%s", "nodes": 3}]}\n' \
    "$VERSION" "$VERSION"
fi
