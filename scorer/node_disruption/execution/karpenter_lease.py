"""Whether a running Karpenter holds its Lease, and so disrupts nodes of the same cluster.

A Lease is held for as long as it is renewed, and by whose clock its holder writes the time makes no difference: as
leaders are elected everywhere in Kubernetes, it is over when nothing has been written to it for its duration, on a
clock of our own that never jumps. So one that is seen for the first time counts as held, however old it looks.

A Lease that cannot be understood but has a holder counts as held: two controllers that disrupt the same nodes would
undo each other's work.

Source: nodepool-disruption.md 5.1; Karpenter v1.15.0 ``pkg/operator/operator.go``; client-go ``tools/leaderelection``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import name_of, namespace_of, spec_of, text_at
from scorer.node_disruption.cluster.pod import read_instant

_DEFAULT_SECONDS: Final = 15


@dataclass(frozen=True, slots=True)
class Sighting:
    """A Lease as it was seen.

    Args:
        lease: The Lease.
        since: When it was first seen to say that, in seconds of a clock of our own.
    """

    lease: JsonObject
    since: float


Sightings = Mapping[str, Sighting]
"""By namespace and name."""


def sightings(leases: Iterable[JsonObject], before: Sightings, clock: float) -> Sightings:
    """Return what is known of *leases*, as they are read now.

    Args:
        leases: All that there are of the name.
        before: What was known when they were read last; nothing, the first time.
        clock: Seconds, of a clock that never jumps.
    """
    by_key: dict[str, Sighting] = {}
    for lease in sorted(leases, key=lambda each: (namespace_of(each), name_of(each))):
        key = f"{namespace_of(lease)}/{name_of(lease)}"
        previous = before.get(key)
        unchanged = previous is not None and spec_of(previous.lease) == spec_of(lease)
        by_key[key] = previous if unchanged and previous is not None else Sighting(lease, clock)
    return by_key


def current_leader(seen: Sightings, clock: float) -> str:
    """Return who leads by one of the Leases that were *seen*, for people; empty: nobody."""
    for lease_key, sighting in seen.items():
        holder = text_at(sighting.lease, "spec", "holderIdentity")
        if holder and _is_held(sighting, clock):
            renewed = text_at(sighting.lease, "spec", "renewTime") or "never"
            return f"Karpenter runs here: {holder} holds the Lease {lease_key} (renewed {renewed})"
    return ""


def _is_held(seen: Sighting, clock: float) -> bool:
    spec = spec_of(seen.lease)
    seconds = spec.get("leaseDurationSeconds")
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 < seconds <= 86_400:
        seconds = _DEFAULT_SECONDS
    return read_instant(spec.get("renewTime")) is None or clock <= seen.since + seconds
