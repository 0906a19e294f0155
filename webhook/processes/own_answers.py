"""Answers the questions of ``/v1`` for one command, from the hub of a kubeconfig.

Advisors, planners, gates and cache are those of `harbormaster serve`, so both give equal answers.
`webhook.processes.hub_reading` reads only the kinds that the question needs. Advisors are imported when a question
needs them: a command has one question, and imports take most of its time.

Source: docs/specifications/serving.md 3.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from zoneinfo import ZoneInfo

import orjson

from scorer.api.family import FAMILY_OF, PLACEMENTS, PlacementRef, UnknownObjectError, ref_prefixes, unknown_placement
from scorer.api.kinds import MEMBER_CLUSTER, Kind
from scorer.api.meta import JsonObject, format_time
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.values.quoting import quote
from webhook.access.user import UserInfo
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.request_models import read_model
from webhook.kube.cache.informer import Cache
from webhook.kube.client.hub_store import HubStore
from webhook.kube.client.responses import ObjectRequests
from webhook.kube.ports import ForbiddenError
from webhook.kube.transport.serialization import encode
from webhook.processes.hub_reading import NamespaceStore, NotReadableError, read_owner, reading
from webhook.runtime.clock import utc_now
from webhook.settings.answers import AnswerSettings

if TYPE_CHECKING:
    from scorer.rollout.views.removals import PlacementRemovals
    from webhook.answers.plans import HubPlanner
    from webhook.gate.keeper import ReservationKeeper
    from webhook.gate.nodes import HubNodeGate
    from webhook.gate.reservations import LeaseReservations
    from webhook.gate.service import MemberGateService
    from webhook.validation.framework.context import HubKinds

ANSWER_SECONDS: Final = 60.0
"""Timeout of an answer after the hub has been read."""
MOST_REMOVALS: Final = 50
"""Maximum number of placements whose pending removals a status describes. Each takes a request."""


class OwnAnswers:
    """Answers questions about a hub, with the rights of the kubeconfig's owner. An async context manager.

    Methods raise `webhook.endpoints.http.problems.ProblemError` and `UnknownObjectError` as the handlers of
    `harbormaster serve` do, `NotReadableError` if the hub denies a required read, and `TimeoutError` if the answer
    times out.

    Args:
        hub: Sends requests to its API server.
        settings: Settings of its `harbormaster serve`. The namespace is that of reservations.
        unread: Called with the optional kinds, as ``plural.group``, that the hub does not let us read.
        now: The clock.
    """

    def __init__(
        self,
        hub: ObjectRequests,
        settings: AnswerSettings,
        unread: Callable[[Sequence[str]], None],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._hub = hub
        self._store = HubStore(hub)
        self._settings = settings
        self._unread = unread
        self._now = now
        self._owner: UserInfo | None = None
        self._nodes: HubNodeGate | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.__aexit__(kind, error, trace)

    async def explain(self, ref: PlacementRef) -> JsonObject:
        """Return the answer of ``/v1/explain`` for a placement."""
        from webhook.answers.decisions import HubDecisions
        from webhook.answers.history import RunHistory
        from webhook.answers.questions import InvalidQuestionError, PlacementQuestion

        cache = Cache(self._store)
        decisions = HubDecisions(cache, self._now, RunHistory(cache, self._now))
        async with self._reading(cache):
            try:
                return _as_json(await asyncio.to_thread(decisions.explaining(PlacementQuestion(ref))))
            except InvalidQuestionError as error:
                raise ProblemError(Problem.VALIDATION_FAILED, error.detail) from error

    async def status(self, namespace: str = "") -> JsonObject:
        """Return the answer of ``/v1/status``, limited to *namespace* unless it is empty.

        `unread` in the answer names the kinds that it does not cover. With *namespace*, namespaced kinds are read only
        there, so that rights in the namespace suffice.
        """
        from webhook.answers.advisor import HubAdvisor
        from webhook.answers.status.hub_status import RESTRICTED_KINDS, STATUS_KINDS, HubStatus
        from webhook.answers.update_runs import HubRuns

        cache = Cache(NamespaceStore(self._hub, namespace) if namespace else self._store)
        cache.watch_if_allowed(STATUS_KINDS)  # first, because the views require some of these kinds
        advisor = HubAdvisor(cache, self._now)
        runs = HubRuns(cache, self._now)

        async def removals(refs: Sequence[PlacementRef]) -> "list[PlacementRemovals]":
            snapshots = await self._resource_snapshots(refs)
            return advisor.removals_with([ref for ref in refs if ref in snapshots], lambda ref: snapshots[ref])

        async with reading(cache):
            unread = cache.unread()
            needed = [kind for kind in (MEMBER_CLUSTER, *PLACEMENTS) if kind.namespaced or not namespace]
            if not {kind.resource for kind in needed} - {*unread}:
                raise NotReadableError("; ".join(cache.refusals(needed)))
            kinds = [kind for kind in RESTRICTED_KINDS if kind.resource not in unread]
            async with asyncio.timeout(ANSWER_SECONDS):
                return _as_json(await HubStatus(advisor, runs, removals).status(kinds, unread, namespace=namespace))

    async def _resource_snapshots(self, refs: Sequence[PlacementRef]) -> "dict[PlacementRef, Sequence[JsonObject]]":
        """Return the readable resource snapshots of the first `MOST_REMOVALS` placements: all would be too large."""
        snapshots: dict[PlacementRef, Sequence[JsonObject]] = {}
        for ref in refs[:MOST_REMOVALS]:
            kind, labels = FAMILY_OF[ref.kind].resource_snapshot, {PARENT_PLACEMENT: ref.name}
            with suppress(ForbiddenError):
                snapshots[ref] = (await self._store.list(kind, ref.namespace or None, labels)).items
        return snapshots

    async def placement_runs(self, ref: PlacementRef) -> JsonObject:
        """Return the answer of ``/v1/placements/…/runs``."""
        from webhook.answers.history import RunHistory

        cache = Cache(self._store)
        history = RunHistory(cache, self._now)
        async with self._reading(cache):
            items = history.runs(ref)
        if items is None:
            raise UnknownObjectError(unknown_placement(ref))
        return _as_json({"placement": str(ref), "items": items})

    async def plan(self, changes: JsonObject) -> JsonObject:
        """Return the answer of ``/v1/plan`` to a request body."""
        from webhook.answers.proposal import Audience
        from webhook.endpoints.scheduling.plan_request import (
            PlanModel,
            plan_problems,
            read_proposal,
            requested_placements,
            requested_runs,
        )

        async with self._planner() as (planner, kinds):
            body = read_model(PlanModel, changes)
            proposal = read_proposal(body, kinds)
            audience = Audience(only=requested_placements(body), runs=requested_runs(body))
            with plan_problems():
                return _as_json(await planner.plan(proposal, await self._whoami(), audience))

    async def render(self, question: JsonObject) -> JsonObject:
        """Return the answer of ``/v1/render`` to a request body."""
        from webhook.answers.proposal import Audience
        from webhook.endpoints.scheduling.plan_request import (
            RenderModel,
            plan_problems,
            read_proposal,
            requested_placements,
            requested_scope,
        )

        async with self._planner() as (planner, kinds):
            body = read_model(RenderModel, question)
            proposal = read_proposal(body, kinds)
            audience = Audience(only=requested_placements(body), runs=())
            with plan_problems():
                return _as_json(await planner.render(proposal, await self._whoami(), audience, requested_scope(body)))

    @asynccontextmanager
    async def _planner(self) -> AsyncIterator["tuple[HubPlanner, HubKinds]"]:
        """Yield a planner on the hub, and the kinds of the hub."""
        from webhook.admission.cached import CachedContext
        from webhook.admission.rights import UndisputedRights
        from webhook.answers.plans import HubPlanner

        cache = Cache(self._store)
        context = CachedContext(cache, self._settings.admission(), self._now)
        planner = HubPlanner(cache, context, UndisputedRights(), self._now)
        async with self._reading(cache):
            yield planner, context().kinds

    async def plan_upgrade(self, question: JsonObject) -> JsonObject:
        """Return the answer of ``/v1/upgrade/plan`` to a request body."""
        from webhook.admission.cached import CachedContext
        from webhook.answers.upgrade_plans import HubUpgradePlanner
        from webhook.endpoints.upgrades.plan_request import UpgradePlanModel, read_question, upgrade_problems
        from webhook.kube.listers.maintenance_windows import MaintenanceWindows
        from webhook.kube.listers.upgrades import HubUpgrades

        async def may_get(_kind: Kind, _name: str) -> bool:
            return True

        cache = Cache(self._store)
        context = CachedContext(cache, self._settings.admission(), self._now)
        windows = MaintenanceWindows(cache)
        upgrades = HubUpgrades.watching(cache, self._store, windows, self._settings.default_upgrader)
        planner = HubUpgradePlanner(cache, upgrades, windows, self._now)
        async with self._reading(cache):
            body = read_model(UpgradePlanModel, question)
            upgrade_question = await read_question(body, context().with_user(await self._whoami()), may_get)
            with upgrade_problems():
                return _as_json(await planner.plan(upgrade_question, lambda _placement: True))

    async def budgets(self, pools: Sequence[str]) -> JsonObject:
        """Return the answer of ``/v1/budgets`` for the current time."""
        from scorer.node_budgets.documents import REASONS
        from webhook.gate.budgets import HubBudgets

        budgets = HubBudgets(await self._node_gate(), self._now)
        return _as_json(await budgets.overview(budgets.pools(pools), budgets.now(), REASONS))

    async def budget_calendar(
        self, pools: Sequence[str], start: datetime, days: int, zone: ZoneInfo | None
    ) -> JsonObject:
        """Return the answer of ``/v1/budgets/calendar``. Raises `TooLargeError` for too many pools and days."""
        from webhook.gate.budgets import HubBudgets

        budgets = HubBudgets(await self._node_gate(), self._now)
        try:
            return _as_json(await budgets.calendar(budgets.pools(pools), start, days, zone))
        except OverflowError as error:
            detail = f"from: {quote(format_time(start))}: the calendar would leave the years 1 to 9999"
            raise ProblemError(Problem.VALIDATION_FAILED, detail) from error

    async def gate(self, gate: str, question: JsonObject) -> JsonObject:
        """Return the answer of a gate, such as ``/v1/gate/rollout``."""
        from webhook.endpoints.gate.request_bodies import ClusterUpdateModel, DisruptionModel, RolloutModel, problems

        if gate == "disruption":
            from webhook.gate.keeper import Claimant
            from webhook.gate.service import NodeGateService

            nodes = NodeGateService(await self._node_gate())
            with problems():
                disruption_question = read_model(DisruptionModel, question).question()
                username = (await self._whoami()).username
                (answer,) = await nodes.answer([disruption_question], Claimant(username, username))
            return _as_json(answer.document())
        members = await self._member_gate()
        with problems():
            if gate == "rollout":
                rollout = read_model(RolloutModel, question)
                return _as_json(members.rollout(rollout.ref, rollout.cluster).document())
            update = read_model(ClusterUpdateModel, question)
            return _as_json(members.cluster_update(update.cluster, update.run or "").document())

    async def reserve(self, request: JsonObject) -> JsonObject:
        """Return the answer of a POST to ``/v1/gate/reservations``."""
        from webhook.endpoints.gate.request_bodies import ClusterUpdateModel, ReservationModel, RolloutModel
        from webhook.endpoints.gate.reservations import claimant_of, reserve_member, reserve_nodes
        from webhook.gate.service import NodeGateService

        async def admit(_question: RolloutModel | ClusterUpdateModel) -> None:
            """Admit the owner for every object, because the hub has already limited their reads."""

        username = (await self._whoami()).username
        if request["gate"] == "disruption":
            nodes = NodeGateService(await self._node_gate())
            body = read_model(ReservationModel, request)
            return _as_json(await reserve_nodes(nodes, body, claimant_of(body, username)))
        members = await self._member_gate()
        body = read_model(ReservationModel, request)
        return _as_json(await reserve_member(members, body, claimant_of(body, username), admit))

    async def reservations(self) -> JsonObject:
        """Return the answer of a GET of ``/v1/gate/reservations``."""
        from webhook.endpoints.gate.reservations import reservation_list
        from webhook.gate.service import ReservationService

        keeper = self._keeper()
        async with self._reading(Cache(self._store), keeper.reservations):
            service = ReservationService(keeper)
            if refusal := keeper.reservations.refusal:
                raise NotReadableError(refusal)
            return _as_json(reservation_list(service, (await self._whoami()).username, ref_prefixes(PLACEMENTS)))

    async def release(self, identifier: str) -> None:
        """Release a reservation, as a DELETE below ``/v1/gate/reservations`` does."""
        from webhook.endpoints.gate.request_bodies import problems
        from webhook.gate.service import ReservationService

        self._unread(())
        with problems():
            await ReservationService(self._keeper()).release(identifier, (await self._whoami()).username)

    async def _whoami(self) -> UserInfo:
        """Return the owner. Read once, and only for questions whose answer depends on them."""
        if self._owner is None:
            self._owner = await read_owner(self._hub)
        return self._owner

    async def _node_gate(self) -> "HubNodeGate":
        """Return the gate of node pools. Its objects are read once, for all questions of the command."""
        if self._nodes is None:
            from webhook.gate.nodes import HubNodeGate
            from webhook.gate.pools import COUNTED, HubNodePools

            cache, keeper = Cache(self._store), self._keeper()
            pools = HubNodePools(cache, template_do_not_disrupt=self._settings.template_do_not_disrupt)
            nodes = HubNodeGate(pools, keeper, self._store, self._settings, self._now)
            await self._stack.enter_async_context(self._reading(cache, keeper.reservations, COUNTED))
            self._nodes = nodes
        return self._nodes

    async def _member_gate(self) -> "MemberGateService":
        from webhook.gate.members import HubMemberGate
        from webhook.gate.service import MemberGateService

        cache, keeper = Cache(self._store), self._keeper()
        members = HubMemberGate(cache, keeper, self._store, self._settings, self._now)
        await self._stack.enter_async_context(self._reading(cache, keeper.reservations))
        return MemberGateService(members)

    def _keeper(self) -> "ReservationKeeper":
        from webhook.gate.keeper import ReservationKeeper
        from webhook.gate.reservations import LeaseReservations

        return ReservationKeeper(LeaseReservations(self._store, self._settings.namespace, self._now), self._now)

    @asynccontextmanager
    async def _reading(
        self, cache: Cache, reservations: "LeaseReservations | None" = None, kinds: Collection[Kind] = ()
    ) -> AsyncIterator[None]:
        async with reading(cache, reservations, kinds):
            self._unread(cache.unread())
            async with asyncio.timeout(ANSWER_SECONDS):
                yield


def _as_json(document: Mapping[str, Any]) -> JsonObject:
    """Return an answer as a client of `harbormaster serve` parses it: JSON values only, keys sorted."""
    answer: JsonObject = orjson.loads(encode(document, sort=True))
    return answer
