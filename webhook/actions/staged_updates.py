"""Actions on staged update runs: the parts that commands and the page share."""

from collections.abc import Sequence

from scorer.api.unstructured.json_object import JsonObject
from scorer.rollout.snapshots.groups import snapshot_groups


def retained_indices(snapshots: Sequence[JsonObject]) -> set[int]:
    """Return the indexes of the complete groups of resource snapshots, which can be rolled out."""
    return {group.index for group in snapshot_groups(snapshots) if group.master is not None}
