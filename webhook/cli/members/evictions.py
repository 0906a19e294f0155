"""Taints and evictions that remove placements from a member, within the disruption budgets.

Source: docs/specifications/rollout.md 19 and 21.2; KubeFleet tools/fleet.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import pydantic

from scorer.api.cluster.member_cluster import CORDON
from scorer.api.family import CLUSTER, NAMESPACED
from scorer.api.kinds import DISRUPTION_BUDGET, EVICTION, MEMBER_CLUSTER, Kind
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.placement.binding import BindingState, previous_state
from scorer.api.placement.placement import PlacementType, Toleration
from scorer.api.unstructured.documents import (
    conditions_of,
    dict_at,
    dicts_at,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    text_at,
)
from scorer.api.unstructured.json_object import JsonObject
from scorer.plugins.taint_toleration import tolerates
from scorer.rollout.bindings import views
from scorer.rollout.removal.eviction import EXECUTED, VALID, EvictionReason, is_finished, judge_eviction
from webhook.actions.members import cordon_patch
from webhook.cli.errors import UserError
from webhook.cli.hub.client import Client, HubRefusedError, ResourcePath, retry_on_conflict

POLL_SECONDS: Final = 0.5
FIRST_PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 60.0
"""Maximum seconds until the eviction of a placement is retried after its budget refused one."""
_FORBIDDEN: Final = 403
_MISSING: Final = 404
_LONGEST_NAME: Final = 50


class RemovalPhase(StrEnum):
    """Progress of the removal of one placement."""

    WAITS = "waiting"
    GOING = "evicting"
    GONE = "evicted"
    STAYS = "remains"
    ABSENT = "absent"


_NOT_LEFT: Final = frozenset({RemovalPhase.GONE, RemovalPhase.ABSENT})
_NOT_YET: Final = (RemovalPhase.ABSENT, "not placed on the member yet")
_OF_NAMESPACE: Final = (RemovalPhase.STAYS, "namespaced placements cannot be evicted")
_COMES_BACK: Final = (RemovalPhase.STAYS, f"it tolerates the taint {CORDON.key}, so it would return")


@dataclass(slots=True)
class PlacementRemoval:
    """The removal of one placement from the member.

    Args:
        placement: Name of the placement, with its namespace if it has one.
        standing: Progress.
        message: Reason why the removal waits, or why the placement remains.
        eviction: Name of the requested eviction, empty if none.
        pause: Backoff in seconds after a refusal.
        due: Time of the next retry, by the clock of the event loop.
    """

    placement: str
    standing: RemovalPhase = RemovalPhase.WAITS
    message: str = ""
    eviction: str = ""
    pause: float = FIRST_PAUSE
    due: float = field(default=0.0)


def is_there(binding: JsonObject) -> bool:
    """Return whether the member may have content of a binding. Before it is bound, a binding is only a decision."""
    return BindingState.BOUND in (text_at(binding, "spec", "state"), previous_state(binding))


def is_replaced_on_cordoned(placement: JsonObject) -> bool:
    """Return whether the scheduler picks a cordoned member for a placement again."""
    policy = dict_at(spec_of(placement), "policy")
    if policy.get("placementType") == PlacementType.PICK_FIXED:
        return False
    try:
        tolerations = [Toleration.read(toleration) for toleration in dicts_at(policy, "tolerations")]
    except pydantic.ValidationError:
        return False
    return any(tolerates(toleration, CORDON) for toleration in tolerations)


def judged(
    placement: JsonObject | None, member: str, bindings: Sequence[JsonObject], budget: JsonObject | None
) -> tuple[RemovalPhase, str]:
    """Return the expected outcome of draining a member for one placement.

    Args:
        placement: The ClusterResourcePlacement. None: unknown, it was deleted or is unreadable for the caller.
        member: The member.
        bindings: All bindings of the placement.
        budget: Disruption budget of the placement. None: unset.
    """
    bindings_of_member = [binding for binding in bindings if text_at(binding, "spec", "targetCluster") == member]
    if not any(map(is_there, bindings_of_member)):
        return _NOT_YET
    if placement is not None and is_replaced_on_cordoned(placement):
        return _COMES_BACK
    try:
        outcome = judge_eviction(placement, member, views(bindings), budget)
    except ValueError as error:
        return RemovalPhase.WAITS, f"a binding cannot be read: {error}"
    match outcome.reason:
        case EvictionReason.INVALID:
            return RemovalPhase.STAYS, outcome.message
        case EvictionReason.EXECUTED:
            return RemovalPhase.GOING, outcome.message
        case _:
            return RemovalPhase.WAITS, outcome.message


async def cordon(client: Client, member: str, *, cordoned: bool) -> bool:
    """Add the drain taint to a member, or remove it, and return whether that changes the member.

    Raises:
        UserError: The member does not exist.
    """

    async def attempt() -> bool:
        document = await read_member(client, member)
        patch = cordon_patch(document, cordoned=cordoned)
        if patch is None:
            return False
        await client.patch(ResourcePath(MEMBER_CLUSTER, name=member), patch)
        return True

    return await retry_on_conflict(attempt)


async def read_member(client: Client, member: str) -> JsonObject:
    """Return a member.

    Raises:
        UserError: The member does not exist.
    """
    try:
        return await client.get(ResourcePath(MEMBER_CLUSTER, name=member))
    except HubRefusedError as error:
        if error.code != _MISSING:
            raise
        raise UserError(f"there is no {MEMBER_CLUSTER.kind} {member}") from error


class MemberDrain:
    """The removal of all placements from one member.

    Args:
        client: Client of the hub.
        member: The member.
        tell: Called with a line on every change.
    """

    def __init__(self, client: Client, member: str, tell: Callable[[str], None]) -> None:
        self._client = client
        self._member = member
        self._tell = tell
        self._removals: dict[str, PlacementRemoval] = {}

    async def expected(self) -> list[PlacementRemoval]:
        """Return the expected outcome of a drain without evicting, by the rules of evictions."""
        bindings_by_placement = await self._bindings(CLUSTER.binding)
        expected = []
        for name in sorted(bindings_by_placement):
            placement, budget = await self._find(CLUSTER.placement, name), await self._find(DISRUPTION_BUDGET, name)
            expected.append(
                PlacementRemoval(name, *judged(placement, self._member, bindings_by_placement[name], budget))
            )
        for name, bindings in sorted((await self._bindings(NAMESPACED.binding)).items()):
            has_bindings = any(map(is_there, self._here(bindings)))
            expected.append(PlacementRemoval(name, *(_OF_NAMESPACE if has_bindings else _NOT_YET)))
        return expected

    async def _bindings(self, kind: Kind) -> dict[str, list[JsonObject]]:
        """Return all bindings of the placements that have one on the member, by placement."""
        bindings: dict[str, list[JsonObject]] = {}
        for binding in dicts_at(await self._client.list(ResourcePath(kind)), "items"):
            if parent := text_at(binding, "metadata", "labels", PARENT_PLACEMENT):
                namespace = namespace_of(binding)
                bindings.setdefault(f"{namespace}/{parent}" if namespace else parent, []).append(binding)
        return {name: bindings for name, bindings in bindings.items() if self._here(bindings)}

    def _here(self, bindings: Iterable[JsonObject]) -> list[JsonObject]:
        return [binding for binding in bindings if text_at(binding, "spec", "targetCluster") == self._member]

    async def _find(self, kind: Kind, name: str) -> JsonObject | None:
        """Return an object, or None if it does not exist."""
        try:
            return await self._client.get(ResourcePath(kind, name=name))
        except HubRefusedError as error:
            if error.code != _MISSING:
                raise
            return None

    async def _comes_back(self, placement: str) -> bool:
        """Return whether a placement is known to be placed on the member again after an eviction."""
        try:
            document = await self._find(CLUSTER.placement, placement)
        except HubRefusedError as error:
            if error.code != _FORBIDDEN:  # without this right, the eviction itself reports the error
                raise
            return False
        return document is not None and is_replaced_on_cordoned(document)

    async def run(self, seconds: float | None) -> list[PlacementRemoval]:
        """Evict all placements. Return those that remain: not evictable, or still waiting at the timeout.

        Args:
            seconds: Timeout. None: unlimited, wait until only placements that cannot be evicted remain.
        """
        clock = asyncio.get_running_loop().time
        end = None if seconds is None else clock() + seconds
        for name, bindings in sorted((await self._bindings(NAMESPACED.binding)).items()):
            if any(map(is_there, self._here(bindings))):
                self._set(name, *_OF_NAMESPACE)
        while True:
            bindings_by_placement = await self._bindings(CLUSTER.binding)
            present = {
                name for name, bindings in bindings_by_placement.items() if any(map(is_there, self._here(bindings)))
            }
            for name in sorted(bindings_by_placement.keys() - present - self._removals.keys()):
                self._set(name, *_NOT_YET)
            for name in sorted(present | {removal for removal in self._removals if "/" not in removal}):
                await self._step(name, clock(), present=name in present)
            pending_removals = [
                removal
                for removal in self._removals.values()
                if removal.standing in (RemovalPhase.WAITS, RemovalPhase.GOING)
            ]
            if not pending_removals or (end is not None and clock() >= end):
                return [removal for removal in self._removals.values() if removal.standing not in _NOT_LEFT]
            await asyncio.sleep(POLL_SECONDS)

    async def _step(self, name: str, now: float, *, present: bool) -> None:
        removal = self._removals.setdefault(name, PlacementRemoval(name))
        if not present:
            if removal.standing is not RemovalPhase.ABSENT:
                self._set(name, RemovalPhase.GONE, "")
            return
        if removal.standing is RemovalPhase.STAYS:
            return
        if removal.standing in _NOT_LEFT:  # bound since the last pass
            removal.standing, removal.eviction = RemovalPhase.WAITS, ""
        if not removal.eviction:
            if now >= removal.due:
                if await self._comes_back(name):
                    self._set(name, *_COMES_BACK)
                    return
                removal.eviction = await self._evict(name)
            return
        await self._look(removal, now)

    async def _evict(self, placement: str) -> str:
        stem = f"drain-{self._member}-{placement}"[:_LONGEST_NAME].rstrip("-.")
        name = f"{stem}-{secrets.token_hex(4)}"
        await self._client.create(
            EVICTION,
            {
                "apiVersion": EVICTION.api_version,
                "kind": EVICTION.kind,
                "metadata": {"name": name},
                "spec": {"placementName": placement, "clusterName": self._member},
            },
        )
        return name

    async def _look(self, removal: PlacementRemoval, now: float) -> None:
        """Poll an eviction. If it was refused, delete its object and schedule a retry."""
        try:
            eviction = await self._client.get(ResourcePath(EVICTION, name=removal.eviction))
        except HubRefusedError as error:
            if error.code != _MISSING:
                raise
            removal.eviction = ""
            return
        answers = {condition.get("type"): condition for condition in conditions_of(eviction)}
        if not is_finished(eviction):
            message = next((text_at(answer, "message") for answer in answers.values()), "")
            self._set(removal.placement, RemovalPhase.WAITS, message or "eviction pending")
            return
        valid, executed = answers.get(VALID, {}), answers.get(EXECUTED, {})
        if executed.get("status") == "True":
            self._set(removal.placement, RemovalPhase.GOING, "eviction executed")
            return
        if not is_deleting(eviction):
            await self._client.delete(ResourcePath(EVICTION, name=name_of(eviction)))
        removal.eviction, removal.due = "", now + removal.pause
        removal.pause = min(removal.pause * 2, LONGEST_PAUSE)
        if valid.get("status") == "False":
            self._set(removal.placement, RemovalPhase.STAYS, text_at(valid, "message"))
        else:
            self._set(removal.placement, RemovalPhase.WAITS, text_at(executed, "message"))

    def _set(self, name: str, phase: RemovalPhase, message: str) -> None:
        removal = self._removals.setdefault(name, PlacementRemoval(name))
        if (removal.standing, removal.message) == (phase, message):
            return
        removal.standing, removal.message = phase, message
        self._tell(f"{name}: {phase}{f': {message}' if message else ''}")
