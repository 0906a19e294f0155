"""Whether a running Karpenter holds its Lease, and therefore disrupts nodes of the same cluster.

As in every Kubernetes leader election, a Lease expires when it has not changed for its duration on our own monotonic
clock. The clock of its holder does not matter. A Lease that is seen for the first time therefore counts as held, even
if its timestamps are old.

An invalid Lease with a holder also counts as held: two controllers that disrupt the same nodes would undo each other's
work.

Source: docs/specifications/nodepool-disruption.md 5.1; Karpenter v1.15.0 ``pkg/operator/operator.go``; client-go
``tools/leaderelection``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scorer.api.meta import JsonObject, read_instant
from scorer.api.unstructured.documents import name_of, namespace_of, spec_of, text_at

_DEFAULT_SECONDS: Final = 15


@dataclass(frozen=True, slots=True)
class Sighting:
    """An observed Lease.

    Args:
        lease: The Lease.
        since: Time at which this content was first observed, in seconds of our monotonic clock.
    """

    lease: JsonObject
    since: float


Sightings = Mapping[str, Sighting]
"""Sightings by namespace and name."""


def sightings(leases: Iterable[JsonObject], old_sightings: Sightings, clock: float) -> Sightings:
    """Return the updated sightings of *leases*.

    Args:
        leases: All Leases of this name.
        old_sightings: Sightings of the previous read, empty at first.
        clock: Current time of a monotonic clock, in seconds.
    """
    by_key: dict[str, Sighting] = {}
    for lease in sorted(leases, key=lambda lease: (namespace_of(lease), name_of(lease))):
        key = f"{namespace_of(lease)}/{name_of(lease)}"
        previous = old_sightings.get(key)
        unchanged = previous is not None and spec_of(previous.lease) == spec_of(lease)
        by_key[key] = previous if unchanged and previous is not None else Sighting(lease, clock)
    return by_key


def current_leader(lease_sightings: Sightings, clock: float) -> str:
    """Return a message about the first held Lease in *lease_sightings* and its holder. Empty: none is held."""
    for lease_key, sighting in lease_sightings.items():
        holder = text_at(sighting.lease, "spec", "holderIdentity")
        if holder and _is_held(sighting, clock):
            renewal = text_at(sighting.lease, "spec", "renewTime") or "never"
            return f"Karpenter is running: {holder} holds the Lease {lease_key} (renewed {renewal})"
    return ""


def _is_held(sighting: Sighting, clock: float) -> bool:
    spec = spec_of(sighting.lease)
    seconds = spec.get("leaseDurationSeconds")
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 < seconds <= 86_400:
        seconds = _DEFAULT_SECONDS
    return read_instant(spec.get("renewTime")) is None or clock <= sighting.since + seconds
