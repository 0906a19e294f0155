"""How requests and answers name placements: ``crp/web``, ``rp/team/web``."""

from collections.abc import Collection
from dataclasses import dataclass

from scorer.api.kinds import Kind


@dataclass(frozen=True, slots=True)
class PlacementRef:
    """Names a placement on the hub; *namespace* is empty for a ClusterResourcePlacement."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"rp/{self.namespace}/{self.name}" if self.namespace else f"crp/{self.name}"


def ref_prefixes(kinds: Collection[Kind]) -> tuple[str, ...]:
    """Return how references to placements of these kinds begin."""
    return tuple("rp/" if kind.namespaced else "crp/" for kind in kinds)


def unknown_placement(ref: PlacementRef) -> str:
    """Return the message about a placement that does not exist or that the caller may not read.

    It is the same for both, so that a caller cannot find out which placements exist.
    """
    return f"there is no placement {str(ref)[:320]}"


class UnknownObjectError(Exception):
    """The request names a placement or cluster that does not exist; the message says which."""
