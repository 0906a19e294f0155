"""Hashes of resource snapshots, as a Go program made them from the same text (e2e/controlplane/snapshots)."""

import json

from scorer.rollout.snapshots.resources import resource_hash
from tests.vector_families.line import Line, compare


def check_resource_hash(line: Line) -> None:
    """The objects have the hash that KubeFleet would write."""
    compare({"hash": resource_hash(json.loads(line["objects"]))}, line["want"])
