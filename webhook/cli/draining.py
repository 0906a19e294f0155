"""Taking placements off a member: a taint keeps new ones away, and evictions within the budgets remove those there.

Source: rollout.md 19 and 21.2; KubeFleet tools/fleet.
"""

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from scorer.api.documents import conditions_of, dicts_at, is_deleting, name_of, namespace_of, spec_of, text_at
from scorer.api.family import CLUSTER, NAMESPACED
from scorer.api.kinds import EVICTION, MEMBER_CLUSTER
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT
from scorer.rollout.eviction import EXECUTED, VALID, is_finished
from scorer.what_if.changes import CORDON
from webhook.cli.client import Client, Place, RefusedError
from webhook.cli.failure import UserError

POLL_SECONDS: Final = 0.5
FIRST_PAUSE: Final = 2.0
LONGEST_PAUSE: Final = 60.0
"""Seconds until a placement whose budget allows no eviction now is asked for again."""
_CONFLICT: Final = 409
_MISSING: Final = 404
_ATTEMPTS: Final = 5
_LONGEST_NAME: Final = 50
_TAINT: Final = {"key": CORDON.key, "value": CORDON.value, "effect": str(CORDON.effect)}


class Standing(StrEnum):
    """How far the removal of one placement is."""

    WAITS = "waits"
    GOING = "going"
    GONE = "gone"
    STAYS = "stays"


@dataclass(slots=True)
class Removal:
    """The removal of one placement from the member.

    Args:
        placement: Its name; with its namespace where it has one.
        standing: How far it is.
        message: Why it waits or stays.
        eviction: The eviction that has been asked for; empty: none.
        pause: Seconds until the next one after a refusal.
        due: When that is, by the clock of the event loop.
    """

    placement: str
    standing: Standing = Standing.WAITS
    message: str = ""
    eviction: str = ""
    pause: float = FIRST_PAUSE
    due: float = field(default=0.0)


async def cordon(client: Client, member: str, *, wanted: bool) -> bool:
    """Put the taint of a drain on a member, or take it off; return whether that changes anything.

    Raises:
        UserError: There is no such member.
    """
    for attempt in range(_ATTEMPTS):
        document = await read_member(client, member)
        taints = dicts_at(spec_of(document), "taints")
        others = [each for each in taints if each.get("key") != CORDON.key or each.get("effect") != str(CORDON.effect)]
        if (len(others) < len(taints)) is wanted:
            return False
        version = text_at(document, "metadata", "resourceVersion")
        spec = {"taints": [*others, _TAINT] if wanted else others}
        try:
            await client.patch(
                Place(MEMBER_CLUSTER, name=member), {"metadata": {"resourceVersion": version}, "spec": spec}
            )
        except RefusedError as error:
            if error.code != _CONFLICT or attempt == _ATTEMPTS - 1:
                raise
            continue
        return True
    raise AssertionError  # the last attempt returns or raises


async def read_member(client: Client, member: str) -> JsonObject:
    """Return a member.

    Raises:
        UserError: There is none of that name.
    """
    try:
        return await client.get(Place(MEMBER_CLUSTER, name=member))
    except RefusedError as error:
        if error.code != _MISSING:
            raise
        raise UserError(f"there is no {MEMBER_CLUSTER.kind} {member}") from error


class Drain:
    """The removal of all placements from one member.

    Args:
        client: Of the hub.
        member: The member.
        tell: Is called with a line whenever something changes.
    """

    def __init__(self, client: Client, member: str, tell: Callable[[str], None]) -> None:
        self._client = client
        self._member = member
        self._tell = tell
        self._removals: dict[str, Removal] = {}

    async def held(self) -> list[str]:
        """Return the names of the placements that the member has."""
        return [*await self._cluster_wide(), *await self._of_namespaces()]

    async def _cluster_wide(self) -> list[str]:
        return await self._bound(Place(CLUSTER.binding))

    async def _of_namespaces(self) -> list[str]:
        return await self._bound(Place(NAMESPACED.binding))

    async def _bound(self, place: Place) -> list[str]:
        listing = await self._client.list(place)
        found = {
            f"{namespace}/{parent}" if (namespace := namespace_of(binding)) else parent
            for binding in dicts_at(listing, "items")
            if text_at(binding, "spec", "targetCluster") == self._member
            and (parent := text_at(binding, "metadata", "labels", PARENT_PLACEMENT))
        }
        return sorted(found)

    async def run(self, seconds: float | None) -> list[Removal]:
        """Evict everything; return what has not gone: what cannot be evicted, and what waits when the time is up.

        Args:
            seconds: The longest; None: until only what cannot be evicted is left.
        """
        clock = asyncio.get_running_loop().time
        end = None if seconds is None else clock() + seconds
        for name in await self._of_namespaces():
            self._set(name, Standing.STAYS, "there are no evictions of what is placed within a namespace")
        while True:
            present = set(await self._cluster_wide())
            for name in sorted(present | {each for each in self._removals if "/" not in each}):
                await self._step(name, clock(), present=name in present)
            waiting = [each for each in self._removals.values() if each.standing in (Standing.WAITS, Standing.GOING)]
            if not waiting or (end is not None and clock() >= end):
                return [each for each in self._removals.values() if each.standing is not Standing.GONE]
            await asyncio.sleep(POLL_SECONDS)

    async def _step(self, name: str, now: float, *, present: bool) -> None:
        removal = self._removals.setdefault(name, Removal(name))
        if not present:
            self._set(name, Standing.GONE, "")
            return
        if removal.standing is Standing.STAYS:
            return
        if removal.standing is Standing.GONE:  # bound again since
            removal.eviction = ""
        if not removal.eviction:
            if now >= removal.due:
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

    async def _look(self, removal: Removal, now: float) -> None:
        """Follow an eviction; one that was refused is asked for again later, and its object is removed."""
        try:
            eviction = await self._client.get(Place(EVICTION, name=removal.eviction))
        except RefusedError as error:
            if error.code != _MISSING:
                raise
            removal.eviction = ""
            return
        answers = {each.get("type"): each for each in conditions_of(eviction)}
        if not is_finished(eviction):
            said = next((text_at(each, "message") for each in answers.values()), "")
            self._set(removal.placement, Standing.WAITS, said or "its eviction has no answer yet")
            return
        valid, executed = answers.get(VALID, {}), answers.get(EXECUTED, {})
        if executed.get("status") == "True":
            self._set(removal.placement, Standing.GOING, "evicted")
            return
        if not is_deleting(eviction):
            await self._client.delete(Place(EVICTION, name=name_of(eviction)))
        removal.eviction, removal.due = "", now + removal.pause
        removal.pause = min(removal.pause * 2, LONGEST_PAUSE)
        if valid.get("status") == "False":
            self._set(removal.placement, Standing.STAYS, text_at(valid, "message"))
        else:
            self._set(removal.placement, Standing.WAITS, text_at(executed, "message"))

    def _set(self, name: str, standing: Standing, message: str) -> None:
        removal = self._removals.setdefault(name, Removal(name))
        if (removal.standing, removal.message) == (standing, message):
            return
        removal.standing, removal.message = standing, message
        self._tell(f"{name}: {standing}{f': {message}' if message else ''}")
