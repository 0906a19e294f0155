"""Enforces the disruption budgets of a node pool on manual deletions and drains of its nodes. Opt-in.

Budgets only bind clients that check them, and ``kubectl delete node`` does not. With ``enforce_budgets`` the API server
calls this webhook for such deletions, and the webhook refuses those that exceed the budgets. A manual deletion has no
reason, so only budgets for all reasons apply. A rule against the disruption of a single node does not prevent its
deletion.

An allowed write is reserved on the pool's Lease until the cluster shows it. Two concurrent deletions that two replicas
review therefore share one budget. A drain counts as the disruption of its node: evictions from a cordoned node need
the same budget as its deletion, once for the node. Evictions from other nodes need none.

This is a guard rail, not a lock. If the webhook does not respond, the API server allows the write. If a pool, a node or
a Lease cannot be read or written, the webhook allows it with a warning. Unverified callers, whose reviews may be
forged, are not answered here (`webhook.endpoints.admission.authentication`). Nothing is reserved for a deletion whose
object differs from the stored one by uid or resourceVersion. The reservation for a deletion that is not carried out
expires soon.

Source: docs/specifications/nodepool-disruption.md 4, 10 and 13.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol

from scorer.api.kinds import NODE, NODE_CLAIM, NODE_POOL, POD, Kind
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import dict_at, is_deleting, metadata_of, name_of, spec_of, text_at
from scorer.api.values.quoting import format_count, printable, quote
from scorer.node_budgets.budgets import Allowance, allowance
from scorer.node_budgets.nodes import PoolNode
from scorer.node_budgets.pool_view import PoolView
from scorer.node_budgets.question import EXPIRED
from scorer.node_budgets.wording import describe_budget, describe_reservation
from scorer.reservations import ADMISSION_HOLDER, DISRUPTION, Reservation, end_of, held_nodes, reservation_id
from webhook.access.user import UserInfo
from webhook.admission.judge import ALLOWED, Judgement, as_warnings
from webhook.kube.ports import Key, NotFoundError, StoreError
from webhook.settings.admission import AdmissionSettings

DELETION_HELD: Final = timedelta(seconds=5)
"""An allowed deletion counts against the budget for this long, unless the cluster shows it earlier."""
DRAIN_HELD: Final = timedelta(seconds=60)
"""An eviction of a drain counts for this long, usually until the next eviction, because no watch shows a drain."""
RULE: Final = "disruption-budget"
MOST_NODES: Final = 5
"""Maximum number of disrupted nodes that a refusal names."""

Held = tuple[Reservation, ...]

log = logging.getLogger(__name__)


class Pools(Protocol):
    """The node pools of the hub."""

    def pool(self, name: str) -> PoolView | None:
        """Return a pool without its reservations. None: unknown pool."""
        ...

    def node(self, name: str) -> tuple[str, PoolNode] | None:
        """Return the pool of a node, and the node. None: unknown node, or in no pool."""
        ...

    def node_of_claim(self, claim: str) -> str:
        """Return the name of the node of a claim, empty if it has none."""
        ...


class Reservations(Protocol):
    """Reservations of nodes. See `webhook.gate.reservations.LeaseReservations`."""

    def cached(self, gate: str, thing: str) -> Held:
        """Return the active reservations, according to the cache of this replica."""
        ...

    async def change(self, gate: str, thing: str, decide: Callable[[Held], Held | None]) -> Held:
        """Change the reservations. *decide* runs again if another replica writes first."""
        ...


class Objects(Protocol):
    """Live reads of the hub."""

    async def get(self, kind: Kind, key: Key) -> JsonObject:
        """Return an object as stored. Raises `NotFoundError` or another `StoreError`."""
        ...


@dataclass(frozen=True, slots=True)
class _Disruption:
    """A write that disrupts a node.

    Args:
        node: Name of the node.
        deed: Human-readable description of the write.
        user: Author of the write.
        code: HTTP status of a refusal.
        reason: Reason for *code*.
        held: Time that the write counts against the budget, unless the cluster shows it earlier.
        kind: Kind of the deleted object. None if the node is drained.
        name: Name of the deleted object.
        old: The deleted object according to the review.
    """

    node: str
    deed: str
    user: str
    code: int
    reason: str
    held: timedelta
    kind: Kind | None = None
    name: str = ""
    old: JsonObject = field(default_factory=dict)


class DisruptionEnforcement:
    """Allows or refuses evictions, and deletions of nodes and node claims.

    Args:
        pools: The pools, from the cache.
        reservations: Reservations of nodes.
        hub: Live reads of pods and of objects that a refusal depends on.
        settings: Whether budgets are enforced, and which users are exempt.
        now: The clock.
    """

    def __init__(
        self,
        pools: Pools,
        reservations: Reservations,
        hub: Objects,
        settings: AdmissionSettings,
        now: Callable[[], datetime],
    ) -> None:
        self._pools = pools
        self._reservations = reservations
        self._hub = hub
        self._settings = settings
        self._now = now

    async def judge(self, request: JsonObject, deadline: float) -> Judgement:
        """Return the verdict on a write.

        Args:
            request: ``request`` of the review.
            deadline: Deadline of the answer, on the clock of the event loop.
        """
        user = UserInfo.read(request.get("userInfo")).username
        if not self._settings.enforce_budgets or self._is_exempt(user):
            return ALLOWED
        try:
            async with asyncio.timeout_at(deadline):
                disruption = await self._disruption(request, user)
                return ALLOWED if disruption is None else await self._judge(disruption, _is_dry_run(request))
        except TimeoutError:
            return _unguarded("timed out")
        except (StoreError, ValueError) as error:
            return _unguarded(str(error))

    def _is_exempt(self, user: str) -> bool:
        return user in self._settings.enforcement_exempt_users or user in self._settings.controllers

    async def _disruption(self, request: JsonObject, user: str) -> _Disruption | None:
        """Return the disruption that a write causes, or None if it causes none."""
        operation, plural = request.get("operation"), text_at(request, "resource", "resource")
        name, old = str(request.get("name") or ""), dict_at(request, "oldObject")
        if operation == "CREATE" and plural == POD.plural and request.get("subResource") == "eviction":
            return await self._drain(Key(name, str(request.get("namespace") or "")), user)
        if operation != "DELETE" or request.get("subResource") or is_deleting(old):
            return None
        if plural == NODE.plural:
            name = name or name_of(old)
            return _deletion(NODE, name, old, name, f'deleting Node "{name}"', user)
        if plural == NODE_CLAIM.plural:
            name = name or name_of(old)
            node = self._pools.node_of_claim(name) or text_at(old, "status", "nodeName")
            deed = f'deleting NodeClaim "{name}" of node "{node}"'
            return _deletion(NODE_CLAIM, name, old, node, deed, user)
        return None

    async def _drain(self, key: Key, user: str) -> _Disruption | None:
        """Return the drain that an eviction is part of, or None if it drains no node.

        Reads from the hub, not from the cache: ``kubectl drain`` cordons the node and evicts immediately, often before
        the watch has delivered the cordon.
        """
        try:
            pod = await self._hub.get(POD, key)
            node = text_at(pod, "spec", "nodeName")
            if _is_over(pod) or self._pools.node(node) is None:
                return None
            cordoned = spec_of(await self._hub.get(NODE, Key(node))).get("unschedulable") is True
        except NotFoundError:
            return None
        deed = f'evicting Pod "{key.namespace}/{key.name}", which drains node "{node}",'
        return _Disruption(node, deed, user, 429, "TooManyRequests", DRAIN_HELD) if cordoned else None

    async def _judge(self, disruption: _Disruption, dry_run: bool) -> Judgement:
        pool_node = self._pools.node(disruption.node)
        if pool_node is None:
            return ALLOWED
        pool, node = pool_node
        if not node.counts or node.disrupting or not node.ready:  # not counted, or already counted as disrupted
            return ALLOWED
        # First by the cache of this replica, without a request: a client that repeats a refused deletion causes no
        # writes.
        refusal = self._refusal(disruption, pool, self._reservations.cached(DISRUPTION, pool))
        if not refusal and not dry_run:
            if reason := await self._differs(disruption):
                return _unguarded(reason)
            # Then by the stored Lease: another replica may have used up the budget.
            refusal = await self._reserve(disruption, pool)
        if not refusal or await self._is_leaving(pool):
            return ALLOWED
        return Judgement(
            allowed=False, code=disruption.code, reason=disruption.reason, message=printable(refusal), rule=RULE
        )

    def _refusal(self, disruption: _Disruption, pool: str, held: Held) -> str:
        """Return why the node must not be disrupted, empty if it may be."""
        view = self._pools.pool(pool)
        if view is None or _is_held(disruption, held):
            return ""
        # After these expire, their nodes are still being disrupted.
        underway = tuple(reservation for reservation in held if reservation.holder == ADMISSION_HOLDER)
        view = view.with_reservations(reservation for reservation in held if reservation not in underway).with_held(
            *held_nodes(underway)
        )
        now = self._now()
        allowed = allowance(view.budgets, view.counts(), EXPIRED, now)
        return "" if allowed.remaining else _explain(disruption, view, allowed, now)

    async def _differs(self, disruption: _Disruption) -> str:
        """Return why the review is not about the stored object, empty if it is."""
        if disruption.kind is None:  # `_drain` has just read both pod and node
            return ""
        reviewed, subject = metadata_of(disruption.old), f"{disruption.kind.kind} {quote(disruption.name)}"
        try:
            document = await self._hub.get(disruption.kind, Key(disruption.name))
        except NotFoundError:
            return f"{subject} is already deleted"
        stored, node = metadata_of(document), text_at(document, "status", "nodeName")
        if any(reviewed.get(part) != stored.get(part) for part in ("uid", "resourceVersion")):
            return f"{subject} has changed since the review was sent"
        if disruption.kind == NODE_CLAIM and node and node != disruption.node:
            return f"{subject} belongs to node {quote(node)}"
        return ""

    async def _reserve(self, disruption: _Disruption, pool: str) -> str:
        """Reserve the node. Return why it must not be disrupted, empty if it is reserved."""
        refusal = ""

        def decide(held: Held) -> Held | None:  # runs once per attempt, on the current reservations in the Lease
            nonlocal refusal
            refusal = self._refusal(disruption, pool, held)
            return None if refusal else _with_node(disruption, pool, held, self._now())

        if not _is_held_for_long(disruption, self._reservations.cached(DISRUPTION, pool), self._now()):
            await self._reservations.change(DISRUPTION, pool, decide)
        return refusal

    async def _is_leaving(self, pool: str) -> bool:
        """Return whether the whole pool is being deleted, with all of its nodes."""
        try:
            return is_deleting(await self._hub.get(NODE_POOL, Key(pool)))
        except NotFoundError:
            return True


def _deletion(kind: Kind, name: str, old: JsonObject, node: str, deed: str, user: str) -> _Disruption:
    return _Disruption(node, deed, user, 403, "Forbidden", DELETION_HELD, kind, name, old)


def _unguarded(why: str) -> Judgement:
    log.warning("budgets not enforced", extra={"reason": why[:256]})
    return Judgement(warnings=as_warnings([f"disruption budgets are not enforced: {why}"]))


def _is_held(disruption: _Disruption, held: Held) -> bool:
    """Return whether the node is reserved already: by name, or by this user as one of a number of nodes."""
    return _named(disruption, held) is not None or _by_number(disruption, held) is not None


def _is_held_for_long(disruption: _Disruption, held: Held, now: datetime) -> bool:
    own = _named(disruption, held)
    return own is not None and (own.holder != ADMISSION_HOLDER or own.expires - now > disruption.held / 2)


def _named(disruption: _Disruption, held: Held) -> Reservation | None:
    return next(
        (
            reservation
            for reservation in held
            if not isinstance(reservation.granted, int) and disruption.node in reservation.granted
        ),
        None,
    )


def _by_number(disruption: _Disruption, held: Held) -> Reservation | None:
    """Return the user's reservation for a number of unnamed nodes, which covers the node, or None."""
    return next(
        (
            reservation
            for reservation in held
            if isinstance(reservation.granted, int)
            and reservation.granted > 0
            and reservation.identity == disruption.user
        ),
        None,
    )


def _with_node(disruption: _Disruption, pool: str, held: Held, now: datetime) -> Held | None:
    """Return *held* with the node, or None if it is already reserved for long enough.

    The node is subtracted from a reservation by number.
    """
    if _is_held_for_long(disruption, held, now):
        return None
    expires = end_of(now, disruption.held)
    named = _named(disruption, held)
    if named is not None:
        return tuple(reservation.until(expires) if reservation is named else reservation for reservation in held)
    numbered = _by_number(disruption, held)
    rest = tuple(_one_less(reservation) if reservation is numbered else reservation for reservation in held)
    identifier = reservation_id(DISRUPTION, pool, secrets.token_hex(16))
    new_reservation = Reservation(
        identifier, ADMISSION_HOLDER, disruption.user, DISRUPTION, (disruption.node,), expires, {"reason": EXPIRED}
    )
    return (*(reservation for reservation in rest if reservation.granted), new_reservation)


def _one_less(reservation: Reservation) -> Reservation:
    assert isinstance(reservation.granted, int)
    return Reservation(
        reservation.id,
        reservation.holder,
        reservation.identity,
        reservation.gate,
        reservation.granted - 1,
        reservation.expires,
        reservation.question,
    )


def _explain(disruption: _Disruption, pool: PoolView, allowed: Allowance, now: datetime) -> str:
    start = f'{disruption.deed} exceeds the disruption budgets of NodePool "{pool.name}": '
    if allowed.unusable:
        position, mistake = allowed.unusable[0]
        budget = describe_budget(position, pool.budgets[position])
        return f"{start}{budget} is invalid: {mistake}. No node of the pool may be disrupted until the budget is fixed"
    budgets = " and ".join(describe_budget(position, pool.budgets[position]) for position in allowed.binding)
    counts = pool.counts()
    allow = "allows" if len(allowed.binding) == 1 else "allow"
    total = format_count(counts.total, "node")
    message = f"{start}{budgets} {allow} {allowed.limit} of {total} to be disrupted concurrently"
    if allowed.limit:
        count = "counts" if allowed.disrupting == 1 else "count"
        message += f", and {allowed.disrupting} {count} against that: {_in_flight(pool)}"
    opening = pool.opening(EXPIRED, 1, now)
    if opening.instant is not None:
        return f"{message}. The next disruption is allowed at {format_time(opening.instant)}"
    if allowed.limit:
        return f"{message}. Retry once some of them have finished or are ready"
    return f"{message}. This does not change by itself: change the budget"


def _in_flight(pool: PoolView) -> str:
    words = [f"{node.name} ({word})" for node in pool.nodes.values() if (word := _state(node, pool))]
    words.sort()
    if (more := len(words) - MOST_NODES) > 0:
        words[MOST_NODES:] = [f"and {more} more"]
    if pool.held_count:
        numbered = [disruption for disruption in pool.counting() if isinstance(disruption.granted, int)]
        by = "; ".join(map(describe_reservation, numbered[:MOST_NODES]))
        words.append(f"{pool.held_count} reserved without a name{f' ({by})' if by else ''}")
    return ", ".join(words)


def _state(node: PoolNode, pool: PoolView) -> str:
    """Return why a node counts against the budget, empty if it does not."""
    if not node.counts:
        return ""
    if node.disrupting:
        return "being deleted" if node.deleting else "rebooting"
    if node.name in pool.held_nodes:
        reservations = [
            reservation
            for reservation in pool.reserved
            if not isinstance(reservation.granted, int) and node.name in reservation.granted
        ]
        return (
            " and ".join(
                f"reserved by {reservation.holder} until {format_time(reservation.expires)}"
                for reservation in reservations
            )
            or "reserved"
        )
    return "" if node.ready else "not ready"


def _is_over(pod: JsonObject) -> bool:
    """Return whether a pod has finished or is already being deleted."""
    return text_at(pod, "status", "phase") in {"Succeeded", "Failed"} or is_deleting(pod)


def _is_dry_run(request: JsonObject) -> bool:
    """Return whether the write is a dry run. An eviction may declare that in its body."""
    eviction, options = dict_at(request, "object", "deleteOptions"), dict_at(request, "options")
    return bool(request.get("dryRun") or eviction.get("dryRun") or options.get("dryRun"))
