"""Automatic approval of a stage by a query result or an object's status, through the ordinary approval request.

The annotation ``harbormaster.dev/analysis`` of a run defines the check after each stage. Condition ``Analyzed`` of the
approval request reports its progress. Once the check is met, the controller sets ``Approved`` as a user would. The run
does not see the difference, and a user may approve at any time before.

Source: docs/specifications/staged-updates.md 6.2.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from scorer.api.conditions import TRUE
from scorer.api.event import Event
from scorer.api.family import FAMILIES, family_in, placement_ref
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.names import ANALYSIS, REJECTED
from scorer.api.unstructured.documents import (
    annotation,
    current_condition,
    dicts_at,
    has_current_status,
    is_deleting,
    name_of,
    namespace_of,
    status_of,
    text_at,
)
from scorer.staged_update.approval.analysis import AnalysisError, Check, ObjectCheck, QueryCheck, read_analysis
from scorer.staged_update.approval.analysis_evaluation import (
    ANALYZED,
    PASSED,
    CheckResult,
    NotSeen,
    Observation,
    awaits_request,
    is_met,
    is_rejected,
    judge,
    pause,
    read_object,
)
from scorer.staged_update.approval.requests import APPROVED
from scorer.staged_update.record import PROGRESSING, REQUEST_CREATED, reason, status, tasks_of
from webhook.controllers.machinery.failures import Concerned
from webhook.controllers.machinery.result import DONE, Result
from webhook.controllers.machinery.wiring import Watch, Wiring
from webhook.controllers.staged_updates.query_endpoints import QueryEndpoints
from webhook.kube.cache.changes import ObjectDelta, desired
from webhook.kube.cache.hub import Hub
from webhook.kube.ports import ForbiddenError, Key, NotFoundError, NotServedError, ServedKinds, StoreError
from webhook.settings.analysis import AnalysisOptions
from webhook.settings.environment import PREFIX

REFRESH_SECONDS: Final = 60.0
"""Minimum interval between two discoveries of the kinds that the hub serves."""

Record = Callable[[JsonObject, Event], None]


class RequestRef(NamedTuple):
    """Key of an approval request. An empty namespace means the cluster-scoped family."""

    name: str
    namespace: str = ""


class AnalysisController:
    """Runs the automatic checks that stages wait for.

    Args:
        hub: The hub cluster.
        now: The clock.
        served: Kinds that the hub serves.
        options: Allowed endpoints and kinds.
        record: Records Events.
    """

    def __init__(
        self, hub: Hub, now: Callable[[], datetime], served: ServedKinds, options: AnalysisOptions, record: Record
    ) -> None:
        self._hub = hub
        self._now = now
        self._served = served
        self._options = options
        self._record = record
        self._endpoints = QueryEndpoints(options, now)
        self._failures: dict[RequestRef, int] = {}
        """Consecutive failed checks per request."""
        self._refreshed_at = float("-inf")
        """Time of the last discovery, in the event loop's clock."""

    def wiring(self) -> Wiring[RequestRef]:
        """Return the wiring: approval requests, and runs that start or stop waiting for one, enqueue the request."""
        return Wiring(
            name="analysis",
            reconcile=self.reconcile,
            concerned=lambda ref: Concerned(family_in(ref.namespace).approval_request, Key(ref.name, ref.namespace)),
            owner=self._owner,
            watches=(
                *(Watch(family.approval_request, _of_request) for family in FAMILIES),
                *(Watch(family.run, _of_run) for family in FAMILIES),
            ),
        )

    def _owner(self, ref: RequestRef) -> str | None:
        """Return the placement of a request's run, None if the run is not cached.

        The placement's controllers write the request as well.
        """
        request, family = self._request(ref), family_in(ref.namespace)
        parent = text_at(request or {}, "spec", "parentStageRollout")
        run = self._hub.cache.get(family.run, parent, ref.namespace)
        return None if run is None else str(placement_ref(text_at(run, "spec", "placementName"), ref.namespace))

    async def reconcile(self, ref: RequestRef) -> Result:
        """Evaluate the check of a request's stage, and approve the request once it is met.

        Raises:
            StoreError: The status of the request cannot be written, or another client has written the request.
        """
        look = await self._look(ref)
        request = self._request(ref)
        if request is None or look is None:
            self._failures.pop(ref, None)
            return DONE
        if look.status is not None:
            current = await self._hub.store_status(family_in(ref.namespace).approval_request, request, look.status)
            if look.approves:
                message = text_at(current_condition(current, APPROVED), "message")
                self._record(current, Event(PASSED, f"approved: {message}"))
        return Result(look.again)

    def _request(self, ref: RequestRef) -> JsonObject | None:
        return self._hub.cache.get(family_in(ref.namespace).approval_request, ref.name, ref.namespace)

    async def _look(self, ref: RequestRef) -> CheckResult | None:
        """Return the result of a check. None if the request has no check."""
        question = self._question(ref)
        if not isinstance(question, _Question):
            return question
        observation = await self._observe(question.check, ref.namespace)
        # The check took a while: a user may have stopped the run, rejected or approved the request, or edited the
        # check.
        now = self._question(ref)
        if not isinstance(now, _Question):
            return now
        if now.check != question.check:
            return CheckResult(None, again=timedelta())
        failures = self._failures.get(ref, 0)
        self._failures[ref] = failures + 1 if isinstance(observation, NotSeen) and observation.failed else 0
        return judge(now.request, now.check, observation, self._now(), failures)

    def _question(self, ref: RequestRef) -> "_Question | CheckResult | None":
        """Return the check to run for a request, or the result to report instead. None if neither applies."""
        request = self._request(ref)
        if request is None or is_deleting(request) or has_current_status(request, APPROVED, TRUE):
            return None
        parent = text_at(request, "spec", "parentStageRollout")
        run = self._hub.cache.get(family_in(ref.namespace).run, parent, ref.namespace)
        if run is None or not (text := annotation(run, ANALYSIS)):
            return None
        if not awaits_request(run, request):  # a resumed run starts the check over
            is_met_already = has_current_status(request, ANALYZED, TRUE)
            return (
                pause(request, "NotAsked", "the run is not waiting for this approval", self._now())
                if is_met_already
                else None
            )
        if is_rejected(run, request):
            message = "a user has rejected the request: only a user can approve it now"
            return pause(request, "Rejected", message, self._now())
        try:
            check = read_analysis(text, ref.namespace).get(text_at(request, "spec", "targetStage"))
        except AnalysisError as error:
            return pause(request, "AnalysisInvalid", f"annotation {ANALYSIS}: {error}", self._now())
        if isinstance(check, ObjectCheck):
            check = check.of_run(parent, ref.namespace)
        return None if check is None else _Question(request, check)

    async def _observe(self, check: Check, home: str) -> Observation:
        """Return the observation of a check. *home* is the namespace of the run."""
        if isinstance(check, QueryCheck):
            return await self._endpoints.query(check, home)
        try:
            return await self._read(check, home)
        except ForbiddenError:
            message = f"the loop may not read {check.kind} objects. `harbormaster rbac reconcile` prints its roles"
            return NotSeen("Forbidden", message, failed=True)
        except StoreError as error:
            return NotSeen("Unavailable", f"{check.kind} {check.name} cannot be read: {error}"[:200], failed=True)

    async def _read(self, check: ObjectCheck, home: str) -> Observation:
        kind = await self._kind_of(check)
        if kind is None:
            return NotSeen("KindNotAllowed", f"the hub does not serve kind {check.kind} of {check.api_version}")
        if _word(kind) not in self._options.kinds:
            return NotSeen("KindNotAllowed", f"{_word(kind)} is not in {PREFIX}ANALYSIS_KINDS of the loop")
        if not kind.namespaced and home:
            return NotSeen("KindNotAllowed", f"kind {check.kind} is cluster-scoped, but the run is namespaced")
        if kind.namespaced and not check.namespace:
            return NotSeen("NamespaceMissing", f"kind {check.kind} is namespaced: namespace must be set")
        key = Key(check.name, check.namespace if kind.namespaced else "")
        cached = self._cached_observation(kind, key, check)
        return cached if cached is not None and not is_met(check, cached) else await self._read_now(kind, key, check)

    def _cached_observation(self, kind: Kind, key: Key, check: ObjectCheck) -> Observation | None:
        """Return an observation from the cache. None: unknown, the kind is not watched, or its objects are trimmed.

        The cache may lag. An object that is missing for that reason does no harm, because the next check finds it. The
        cache alone never approves.
        """
        cache = self._hub.cache
        return read_object(cache.get(kind, key.name, key.namespace), check) if cache.holds_whole(kind) else None

    async def _read_now(self, kind: Kind, key: Key, check: ObjectCheck) -> Observation:
        try:
            document = await self._hub.store.get(kind, key)
        except NotServedError:
            return NotSeen("Unavailable", f"the hub does not serve kind {check.kind}", failed=True)
        except NotFoundError:
            return read_object(None, check)
        return read_object(document, check)

    async def _kind_of(self, check: ObjectCheck) -> Kind | None:
        """Return a kind as the hub serves it, or None if it does not serve the version of the check.

        While the kind is unknown, the discovery is repeated at intervals.
        """
        place, now = (check.group, check.kind), asyncio.get_running_loop().time()
        if place not in self._served.kinds and now - self._refreshed_at >= REFRESH_SECONDS:
            self._refreshed_at = now
            await self._served.refresh()
        kind = self._served.kinds.get(place)
        return kind if kind is not None and check.version in kind.versions else None


class _Question(NamedTuple):
    """The check to run for a request."""

    request: JsonObject
    check: Check


def _word(kind: Kind) -> str:
    """Return a kind as written in the settings."""
    return f"{kind.plural}.{kind.group}".removesuffix(".")


def _of_request(change: ObjectDelta) -> Iterator[RequestRef]:
    """Yield a request that was created, deleted, edited or approved. Reports of progress do not enqueue it."""
    if change.touches(_seen_of_request):
        yield RequestRef(name_of(change.document), namespace_of(change.document))


def _seen_of_request(request: JsonObject) -> object:
    return desired(request), has_current_status(request, APPROVED, TRUE)


def _of_run(change: ObjectDelta) -> Iterator[RequestRef]:
    """Yield the requests of a run with an analysis if the run was edited, or its waits have changed."""
    run = change.document
    if annotation(run, ANALYSIS) and change.touches(_seen_of_run):
        for stage in dicts_at(status_of(run), "stagesStatus"):
            names = (text_at(task, "approvalRequestName") for task in dicts_at(stage, "afterStageTaskStatus"))
            yield from (RequestRef(name, namespace_of(run)) for name in names if name)


def _seen_of_run(run: JsonObject) -> object:
    stages = dicts_at(status_of(run), "stagesStatus")
    waits = [
        (reason(stage, PROGRESSING), [status(task, REQUEST_CREATED) for task in tasks_of(stage)]) for stage in stages
    ]
    return desired(run), annotation(run, ANALYSIS), annotation(run, REJECTED), waits
