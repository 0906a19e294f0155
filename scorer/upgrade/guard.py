"""Whether an upgrade would take too many clusters from a placement at once.

Source: upgrade-runs.md 14.5.
"""

from collections.abc import Collection, Sequence

from scorer.upgrade.facts import GuardedPlacement

_FEWEST_CLUSTERS = 2
"""A placement on one cluster loses it in any upgrade; waiting would not help."""


def endangered(member: str, guarded: Sequence[GuardedPlacement], upgrading: Collection[str]) -> GuardedPlacement | None:
    """Return a placement that would have too few clusters left if a member were upgraded now; None: there is none."""
    for placement in guarded:
        if len(placement.clusters) < _FEWEST_CLUSTERS:
            continue
        busy = sum(1 for each in upgrading if each in placement.clusters and each != member)
        if busy + 1 > placement.allowed:
            return placement
    return None
