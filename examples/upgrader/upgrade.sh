#!/bin/sh
# An upgrade for upgrader.py: MEMBER, TYPE, VERSION and IMAGES say what is wanted. This one asks the command line of a
# cloud; the last line it prints is what the cluster runs now.
set -eu
case "$TYPE" in
Full) cloud clusters upgrade "$MEMBER" --version "$VERSION" --wait >&2 ;;
ControlPlaneOnly) cloud clusters upgrade "$MEMBER" --version "$VERSION" --control-plane-only --wait >&2 ;;
*) cloud clusters upgrade-images "$MEMBER" --images "$IMAGES" --wait >&2 ;;
esac
cloud clusters show "$MEMBER" --output json
