"""Checks the Lease of the loop: its holder, its acquisition, its last renewal, and whether a loop wrote it."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from scorer.api.meta import JsonObject, format_time, read_instant
from scorer.api.unstructured.documents import spec_of, text_at
from webhook.doctor.finding import Finding, State, judged
from webhook.doctor.members import LARGEST_OFFSET, seconds, stored_at
from webhook.kube.leader_election.lease import LONGEST_LEASE, parted_into
from webhook.kube.leader_election.term import LeaseTimes

CHECK: Final = "leader"
USUAL_SECONDS: Final = round(LeaseTimes().lease)
SLACK: Final = timedelta(seconds=2)
"""Rounding error: both times are whole seconds."""
_FOREIGN: Final = (
    "is the clock of the loop right? If so, another client has written this Lease: kubectl get lease {1} -n {0} "
    "-o yaml --show-managed-fields names that client. Stop it, then kubectl delete lease {1} -n {0}: a loop leads "
    "within {longest}"
)


def judge_leader(lease: JsonObject | None, name: str, now: datetime) -> Finding:
    """Check the Lease of the loop.

    The time of the last renewal is the API server's, since the clock of the leader may be wrong. The duration is a
    constant of the release. Another duration in the Lease is a problem.

    Args:
        lease: The Lease with its ``managedFields``. None if it is missing.
        name: Namespace and name of the Lease.
        now: Time of the hub's clock.
    """
    advice = "is `harbormaster reconcile` running? If it cannot lead, its log has `lease out of reach` with the reason"
    if lease is None:
        return judged(CHECK, [f"Lease {name} does not exist: no loop has been the leader yet"], "", advice)
    spec = spec_of(lease)
    holder = text_at(spec, "holderIdentity")
    if not holder:
        return judged(CHECK, [f"Lease {name} has no holder: no loop is the leader"], "", advice)
    renew_time = stored_at(lease, "") or read_instant(spec.get("renewTime"))
    traits = list(_not_of_a_loop(spec, now))
    if traits:
        advice = _FOREIGN.format(*name.split("/"), longest=seconds(timedelta(seconds=LONGEST_LEASE)))
    if renew_time is None or now - renew_time > timedelta(seconds=USUAL_SECONDS) + SLACK:
        since = f"for {seconds(now - renew_time)}" if renew_time else "yet"
        traits.append(f"but has not renewed it {since}")
    if traits:
        return judged(CHECK, [f"{holder} holds Lease {name}, {trait}" for trait in traits], "", advice)
    acquire_time = read_instant(spec.get("acquireTime"))
    leads = "leads" if parted_into(holder) is None else "are active"
    return Finding(CHECK, State.OK, f"{holder} {leads}{f' since {format_time(acquire_time)}' if acquire_time else ''}")


def _not_of_a_loop(spec: JsonObject, now: datetime) -> Iterator[str]:
    """Yield properties of a Lease that no loop with a correct clock writes."""
    lease_seconds = spec.get("leaseDurationSeconds")
    if lease_seconds != USUAL_SECONDS:
        yield f"but leaseDurationSeconds is {lease_seconds}, and a loop sets {USUAL_SECONDS}"
    ahead = (read_instant(spec.get("renewTime")) or now) - now
    if ahead > LARGEST_OFFSET:
        yield f"but its renewTime is {seconds(ahead)} in the future"
