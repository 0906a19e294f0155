"""Whether a running Karpenter disrupts nodes in the same cluster: told by the Lease by which one of it leads.

A Lease that cannot be understood but has a holder counts as held: two controllers that disrupt the same nodes would
undo each other's work.

Source: nodepool-disruption.md 5.1; Karpenter v1.15.0 ``pkg/operator/operator.go``.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from scorer.api.documents import name_of, namespace_of, spec_of, text_at
from scorer.api.meta import JsonObject
from scorer.node_disruption.pod import read_instant

_DEFAULT_SECONDS: Final = 15


def rival_of(leases: Iterable[JsonObject], now: datetime) -> str:
    """Return who leads by one of *leases* at *now*, for people; empty: nobody."""
    for lease in sorted(leases, key=lambda each: (namespace_of(each), name_of(each))):
        holder = text_at(lease, "spec", "holderIdentity")
        if holder and _is_held(lease, now):
            renewed = text_at(lease, "spec", "renewTime") or "never"
            where = f"{namespace_of(lease)}/{name_of(lease)}"
            return f"Karpenter runs here: {holder} holds the Lease {where} (renewed {renewed})"
    return ""


def _is_held(lease: JsonObject, now: datetime) -> bool:
    renewed = read_instant(spec_of(lease).get("renewTime"))
    seconds = spec_of(lease).get("leaseDurationSeconds")
    if not isinstance(seconds, int) or isinstance(seconds, bool) or not 0 < seconds <= 86_400:
        seconds = _DEFAULT_SECONDS
    return renewed is None or now <= renewed + timedelta(seconds=seconds)
