"""Who wrote what since a moment, from the audit logs of the API servers.

Heartbeats and leases are left out, for they go on whatever happens: the status of InternalMemberClusters, what the hub
copies of it, Leases, and the record of the history. Dry runs are no writes.
"""

import urllib.parse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from e2e.controlplane.cluster import Cluster, JsonObject
from e2e.fleet.bed import AGENT_USER, LOOP_USER, Fleet
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, MEMBER_CLUSTER
from webhook.history.record import PREFIX

HEARTBEATS = frozenset({(MEMBER_CLUSTER.plural, "status"), (INTERNAL_MEMBER_CLUSTER.plural, "status")})


@dataclass(frozen=True, order=True)
class Write:
    """One kind of write to one object."""

    verb: str
    resource: str
    name: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} {self.name}"


class Writes:
    """What the loop and the agents write from the moment that this is made."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._hub = fleet.hub.audit_mark()
        self._members = {name: member.cluster.audit_mark() for name, member in fleet.members.items()}

    def of_loop(self, user: str = LOOP_USER) -> Counter[Write]:
        """On the hub, by the loop."""
        return _writes(self._fleet.hub, self._hub, {user})

    def of_agents_on_hub(self) -> Counter[Write]:
        """On the hub, by the agents."""
        return _writes(self._fleet.hub, self._hub, {member.identity for member in self._fleet.members.values()})

    def on_members(self) -> dict[str, Counter[Write]]:
        """On the members, by their agents; members without writes are left out."""
        found = {
            name: _writes(member.cluster, self._members[name], {AGENT_USER})
            for name, member in self._fleet.members.items()
        }
        return {name: writes for name, writes in found.items() if writes}


def resources(writes: Counter[Write]) -> set[str]:
    """What kinds of objects were written."""
    return {write.resource for write in writes}


def names(writes: Counter[Write], resource: str) -> set[str]:
    """Which objects of a kind were written."""
    return {write.name for write in writes if write.resource == resource}


def told(writes: Counter[Write]) -> str:
    """The writes as a text of one line each."""
    return "\n".join(f"{count} x {write}" for write, count in sorted(writes.items()))


def _writes(cluster: Cluster, since: int, users: set[str]) -> Counter[Write]:
    found: Counter[Write] = Counter()
    for event in cluster.audit(since):
        if event["user"]["username"] in users and (write := _write(event)) is not None:
            found[write] += 1
    return found


def is_of_history(target: JsonObject) -> bool:
    """Say whether a write is to the record of what has happened, which a process keeps of itself."""
    return target.get("resource") == "configmaps" and str(target.get("name", "")).startswith(PREFIX)


def assert_fenced(late: Sequence[object]) -> None:
    """Check what a process sent that was suspended past its term and then continued.

    One request may be among it: the process can be suspended between the check of its fence and the system call that
    sends, which no program can prevent (`webhook.kube.transport.write_guard`). Writes are sent one at a time, so a
    second one means that a check is missing.
    """
    assert len(late) <= 1, f"sent after its term: {late}"


def _write(event: JsonObject) -> Write | None:
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(event["requestURI"]).query)
    target = event.get("objectRef") or {}
    resource, subresource = target.get("resource", ""), target.get("subresource", "")
    if "dryRun" in query or (resource, subresource) in HEARTBEATS or resource == "leases":
        return None
    if resource in {"subjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectreviews", "tokenreviews"}:
        return None  # a question, though it is sent as a create
    if is_of_history(target):
        return None
    name = "/".join(part for part in (target.get("namespace", ""), target.get("name", "")) if part)
    return Write(event["verb"], f"{resource}/{subresource}" if subresource else resource, name)
