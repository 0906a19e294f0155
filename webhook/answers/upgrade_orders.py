"""Orders of callers on upgrade runs, gates and profiles. No other answer writes objects that users also write.

An order is a change to an object, based on the version that was read. It is written with our own account, so the
caller's rights are reviewed first, and admission judges the change as made by the caller: our own writes may bypass the
hooks. For the same reason, an order is recorded in the history here, with its caller. A refused order on a run is
recorded as an Event of the run, like a refusal by the loop.

Source: docs/specifications/upgrade-runs.md 9, 10.2 and 12.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import pydantic
from typing_extensions import TypedDict

from scorer.api.event import Event
from scorer.api.kinds import UPGRADE_GATE, UPGRADE_PROFILE, UPGRADE_RUN, Kind
from scorer.api.meta import JsonObject, first_mistake, format_time
from scorer.api.names import REQUESTED_BY
from scorer.api.unstructured.documents import (
    dicts_at,
    generation_of,
    label,
    name_of,
    status_of,
    text_at,
    with_metadata,
    with_spec,
)
from scorer.api.upgrade.profile import ClusterUpgradeProfile
from scorer.api.upgrade.run import ClusterUpgradeRun, SkipTarget
from scorer.api.values.answer import Count
from scorer.api.values.name_grammar import name_error
from scorer.api.values.quoting import printable, quote
from scorer.upgrade.messages import LONGEST_TOLD, shortened
from scorer.upgrade.patches import (
    UpgradeOrderRefusedError,
    order_answer,
    order_skip,
    order_start,
    order_stop,
    retry_run,
)
from scorer.upgrade.profiles.target import NoTargetError, TargetErrorCode, target_of
from scorer.upgrade.profiles.triggers import PROFILE_LABEL, generated_run
from webhook.access.ports import Authorizer, NotReviewedError
from webhook.access.rights import Access
from webhook.access.user import UserInfo
from webhook.admission.authorization import authorized
from webhook.admission.judge import judge, mutate
from webhook.admission.rights import Rights
from webhook.history.actions import AcceptedWrite
from webhook.history.service import EventSinks
from webhook.kube.listers.upgrades import HubUpgrades
from webhook.kube.ports import AlreadyExistsError, ConflictError, InvalidObjectError, Key, NotFoundError, Store
from webhook.validation.framework.context import Context

_ATTEMPTS: Final = 5
_TOKEN_BYTES: Final = 8
_LONGEST_NAME: Final = 320

Order = Callable[[ClusterUpgradeRun], JsonObject | None]
"""Returns the patch of a run, None if it is already in that state. Raises `UpgradeOrderRefusedError`."""


class UnknownOrderError(Exception):
    """The object of an order does not exist, or the caller may not see it."""


class NotAllowedError(Exception):
    """The caller lacks a right that the order requires. The message names the right."""


@dataclass(frozen=True, slots=True)
class Ordered:
    """Result of an order.

    Args:
        changed: Whether anything was written.
        document: The object after the order.
    """

    changed: bool
    document: JsonObject


class UpgradeOrders:
    """Executes orders.

    Args:
        store: The hub.
        upgrades: The upgrades of the hub, for the catalog of releases.
        authorizer: Reviews the rights of callers.
        rights: Reviews the rights that authors of runs need.
        admission: Returns the other inputs of admission rules besides the object. Called for each attempt of an order.
        now: The clock.
        sinks: Receivers of Events and history entries.
    """

    def __init__(
        self,
        store: Store,
        upgrades: HubUpgrades,
        authorizer: Authorizer,
        rights: Rights,
        admission: Callable[[], Context],
        now: Callable[[], datetime],
        sinks: EventSinks,
    ) -> None:
        self._store = store
        self._upgrades = upgrades
        self._authorizer = authorizer
        self._rights = rights
        self._admission = admission
        self._now = now
        self._sinks = sinks

    async def start(self, name: str, user: UserInfo) -> Ordered:
        """Start or restart a run. Refused if it is in progress or has ended. See `_order` for the errors."""
        token = secrets.token_hex(_TOKEN_BYTES)

        def order(run: ClusterUpgradeRun) -> JsonObject | None:
            patch, start_time = order_start(run, token), run.status.start_time
            if patch is None and start_time is not None:
                state = run.status.state.value
                raise UpgradeOrderRefusedError(
                    f"run {run.metadata.name} is {state}, and was started at {format_time(start_time)}"
                )
            return patch

        return await self._order(name, user, order)

    async def stop(self, name: str, user: UserInfo) -> Ordered:
        """Stop a run. See `_order` for the errors."""
        return await self._order(name, user, order_stop)

    async def skip(self, name: str, user: UserInfo, targets: Sequence[SkipTarget]) -> Ordered:
        """Skip parts of a run. See `_order` for the errors."""
        return await self._order(name, user, lambda run: order_skip(run, targets))

    async def retry(self, name: str, user: UserInfo, new_name: str) -> JsonObject:
        """Return a new run for the unfinished part of another one, without writing it. See `_order` for the errors."""
        return retry_run(_read(await self._get(UPGRADE_RUN, name, user)), new_name)

    async def answer(self, name: str, user: UserInfo, message: str, *, approve: bool) -> Ordered:
        """Approve or reject a gate. See `_order` for the errors."""
        for attempt in range(_ATTEMPTS):
            document = await self._get(UPGRADE_GATE, name, user)
            await self._require(user, Access("update", UPGRADE_GATE.group, f"{UPGRADE_GATE.plural}/status", name))
            text = message or f"{'approved' if approve else 'rejected'} by {_printable_name(user)}"
            try:
                with self._telling(_run_of(document), user):
                    return await self._answer(document, user, text, approve=approve)
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError  # the last attempt returns or raises

    async def _answer(self, gate: JsonObject, user: UserInfo, message: str, *, approve: bool) -> Ordered:
        conditions = order_answer(gate, message, self._now(), approve=approve)
        if conditions is None:
            return Ordered(False, gate)
        answered_gate = {**gate, "status": {**status_of(gate), "conditions": conditions}}
        await self._judge(UPGRADE_GATE, answered_gate, gate, user, subresource="status")
        # Write the user first: a user without an answer is harmless, an answer without a user is not.
        requested_gate = await self._store.replace_metadata(UPGRADE_GATE, _requested(gate, user))
        answered_gate = {**requested_gate, "status": {**status_of(requested_gate), "conditions": conditions}}
        stored_gate = await self._store.replace_status(UPGRADE_GATE, answered_gate)
        self._sinks.history.note_write(AcceptedWrite(stored_gate, gate, "status"), _printable_name(user))
        return Ordered(True, stored_gate)

    async def generate(self, name: str, user: UserInfo) -> Ordered:
        """Create the run of a profile for the current release, without starting it. See `_order` for the errors.

        An existing run for the same target is left unchanged. If another profile created it, the order is refused.
        """
        document = await self._get(UPGRADE_PROFILE, name, user)
        await self._require(user, Access("create", UPGRADE_RUN.group, UPGRADE_RUN.plural))
        try:
            profile = ClusterUpgradeProfile.read(document)
        except pydantic.ValidationError as error:
            raise UpgradeOrderRefusedError(f"profile {name} cannot be read: {first_mistake(error)}") from error
        try:
            target = target_of(profile.spec, self._upgrades.catalog())
        except NoTargetError as error:
            raise UpgradeOrderRefusedError(f"{error.code.value}: {error}") from error
        run = _requested(generated_run(profile, target, start=False), user)
        new_run = mutate(run, None, "CREATE").document
        await self._judge(UPGRADE_RUN, new_run, None, user)
        try:
            created_run = await self._store.create(UPGRADE_RUN, new_run)
            self._sinks.history.note_write(AcceptedWrite(created_run), _printable_name(user))
            return Ordered(True, created_run)
        except AlreadyExistsError:
            stored_run = await self._store.get(UPGRADE_RUN, Key(name_of(new_run)))
        if (other := label(stored_run, PROFILE_LABEL)) and other != name:
            message = f"run {name_of(stored_run)} already exists, created by profile {other}"
            raise UpgradeOrderRefusedError(f"{TargetErrorCode.RUN_NAME_TAKEN.value}: {message}")
        return Ordered(False, stored_run)

    async def _order(self, name: str, user: UserInfo, order: Order) -> Ordered:
        """Change a run by an order.

        Raises:
            UnknownOrderError: The run does not exist, or the caller may not see it.
            NotAllowedError: The caller may not change it in this way.
            UpgradeOrderRefusedError: The run does not allow that now, or admission refuses the change.
            NotReviewedError: The caller's rights cannot be reviewed.
            StoreError: The hub does not accept the change.
        """
        for attempt in range(_ATTEMPTS):
            document = await self._get(UPGRADE_RUN, name, user)
            await self._require(user, Access("update", UPGRADE_RUN.group, UPGRADE_RUN.plural, name))
            try:
                with self._telling(document, user):
                    return await self._change(document, user, order)
            except ConflictError:
                if attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError  # the last attempt returns or raises

    async def _change(self, run: JsonObject, user: UserInfo, order: Order) -> Ordered:
        patch = order(_read(run))
        if patch is None:
            return Ordered(False, run)
        changed = _requested(with_spec(run, **patch["spec"]), user)
        await self._judge(UPGRADE_RUN, changed, run, user)
        stored_run = await self._store.replace(UPGRADE_RUN, changed)
        self._sinks.history.note_write(AcceptedWrite(stored_run, run), _printable_name(user))
        return Ordered(True, stored_run)

    @contextmanager
    def _telling(self, run: JsonObject, user: UserInfo) -> Iterator[None]:
        """Record the refusal of an order as an Event of the run, unless the caller may not give the order."""
        try:
            yield
        except (UpgradeOrderRefusedError, InvalidObjectError) as error:
            message = f"order of {_printable_name(user)} refused: {error}"
            self._sinks.record(run, Event("CommandRefused", shortened(message, LONGEST_TOLD), "Warning"))
            raise

    async def _get(self, kind: Kind, name: str, user: UserInfo) -> JsonObject:
        """Return an object from the hub.

        Raises:
            UnknownOrderError: The object does not exist, its name is invalid, or the caller may not get it.
        """
        unknown = UnknownOrderError(f"there is no {kind.kind} {quote(name)}")
        if name_error(kind, name):
            raise unknown
        if not await self._authorizer.may(user, Access("get", kind.group, kind.plural, name)):
            raise unknown
        try:
            return await self._store.get(kind, Key(name))
        except NotFoundError as error:
            raise unknown from error

    async def _require(self, user: UserInfo, access: Access) -> None:
        if not await self._authorizer.may(user, access):
            raise NotAllowedError(f'"{_printable_name(user)}" may not {access}')

    async def _judge(
        self, kind: Kind, new: JsonObject, old: JsonObject | None, user: UserInfo, *, subresource: str = ""
    ) -> None:
        """Run admission for a change by the caller.

        Raises:
            NotReviewedError: The rights that the change needs cannot be reviewed.
            UpgradeOrderRefusedError: Admission refuses the change.
        """
        context = replace(self._admission().with_user(user), now=self._now())
        operation = "CREATE" if old is None else "UPDATE"
        write: JsonObject = {
            "kind": {"group": kind.group, "kind": kind.kind},
            "operation": operation,
            "object": new,
            "oldObject": old,
        }
        accesses = () if subresource else self._rights.needed(write, user, context)
        rights_review = await self._rights.review(user, accesses)
        if rights_review.unanswered:
            raise NotReviewedError(rights_review.unanswered)
        verdict = authorized(
            judge(operation, new, old, context, subresource=subresource),
            rights_review,
            user,
            context.settings.placement_authorization,
        )
        if not verdict.allowed:
            raise UpgradeOrderRefusedError(f"admission refuses the change: {verdict.message}")


def _read(document: JsonObject) -> ClusterUpgradeRun:
    try:
        return ClusterUpgradeRun.read(document)
    except pydantic.ValidationError as error:
        raise UpgradeOrderRefusedError(f"run {name_of(document)} cannot be read: {first_mistake(error)}") from error


def _run_of(gate: JsonObject) -> JsonObject:
    """Return the run of a gate as the subject of an Event. A gate without a run is its own subject."""
    for owner in dicts_at(gate, "metadata", "ownerReferences"):
        if owner.get("kind") == UPGRADE_RUN.kind:
            return {**owner, "metadata": {"name": text_at(owner, "name"), "uid": text_at(owner, "uid")}}
    return gate


def _requested(document: JsonObject, user: UserInfo) -> JsonObject:
    return with_metadata(document, annotations={REQUESTED_BY: _printable_name(user)})


def _printable_name(user: UserInfo) -> str:
    return printable(user.username[:_LONGEST_NAME])


class OrderAnswer(TypedDict):
    """Result of an order."""

    name: str
    """Name of the object."""
    changed: bool
    """False: it was already in that state."""
    generation: Count
    """The loop has processed the order when `status.observedGeneration` of the object reaches this value."""
    state: str
    """State of the object at the time of the order, empty without a status."""


def ordered_document(order: Ordered) -> OrderAnswer:
    """Return the result of an order. The loop has processed it when ``observedGeneration`` reaches the generation."""
    return {
        "name": name_of(order.document),
        "changed": order.changed,
        "generation": generation_of(order.document),
        "state": status_of(order.document).get("state") or "",
    }
