"""Decisions of the engine over the current state of the hub: rankings and explanations.

Answers are computed from one snapshot of the fleet at one instant. The instant advances in steps, so that a repeated
question gets the same bytes within a step. It advances even if no member reports, so that answers show their silence.

Source: docs/specifications/serving.md 3.1 and 3.2.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from scorer.api.family import FAMILY_OF, PlacementRef, UnknownObjectError
from scorer.api.meta import JsonObject
from scorer.api.placement.placement import PlacementPolicy
from scorer.api.unstructured.documents import dict_at
from scorer.columns import BoolColumn
from scorer.fleet import Fleet
from scorer.placement.binding_plan import BrokenBindingError
from scorer.placement.explanation import ExplainAnswer
from scorer.placement.plan_document import decide
from scorer.placement.policy_hash import policy_hash, policy_in_force
from scorer.placement.request import Request, read_request
from scorer.placement.schedule import ScheduleResult, schedule
from scorer.placement.trace import DecisionContext, explanation
from scorer.selectors import InvalidPolicyError, match_labels
from webhook.answers.history import RunHistory
from webhook.answers.questions import InvalidQuestionError, PlacementQuestion, PlacementVerdict
from webhook.answers.ranking import RankedClusters, RejectedClusters
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.placements import children

STEP = timedelta(seconds=10)
"""Length of a step. Answers within a step use the same instant."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
"""Origin of the steps, the same on all replicas."""


class HubDecisions:
    """Ranks clusters and explains decisions from a cache.

    Args:
        cache: The hub's objects.
        now: The clock.
        history: Has the trigger of the last decision. None: unknown.
    """

    def __init__(self, cache: Cache, now: Callable[[], datetime], history: RunHistory | None = None) -> None:
        self._cache = cache
        self._history = history
        self._now = now

    @property
    def fleet_revision(self) -> str:
        """Revision of the fleet, and the current step."""
        return self._revision(self._now())

    def _revision(self, now: datetime) -> str:
        return f"{self._cache.fleet.revision}/{(now - EPOCH) // STEP}"

    def evaluate(self, question: PlacementQuestion) -> PlacementVerdict:
        """Filter and rank as a first run would. Existing bindings only affect ``selected``.

        Raises:
            UnknownObjectError: No such placement or cluster.
            InvalidQuestionError: The policy or a binding cannot be used.
        """
        policy, namespace = self._policy(question)
        request = self._request(policy, namespace, question)
        moment = self._now()
        fleet, now = self._fleet(question), self._instant(question, moment)
        run = schedule(request, fleet, (), now)
        wanted_rows = self._wanted_rows(question, fleet)
        selected = {pick.cluster for pick in run.picked}
        if isinstance(question.placement, PlacementRef) and question.clusters is None:
            actual = self._deciding(question.placement, now, known_result=run)(fleet)
            selected = {pick.cluster for pick in actual.picked} | {binding.cluster for binding in actual.kept}
        eligible, rejected = RankedClusters(run, frozenset(selected), wanted_rows), RejectedClusters(run, wanted_rows)
        turned_away = run.last.turned_away() if run.last else {}
        digest = f"sha256:{policy_hash(policy)}"
        return PlacementVerdict(self._revision(moment), digest, now, eligible, rejected, turned_away)

    def explain(self, question: PlacementQuestion) -> ExplainAnswer:
        """Explain a decision. Existing bindings count for a placement on the hub, unless the question is *anew*.

        They do not count either if the question has a hypothetical fleet. Raises the errors of `explaining`.
        """
        return self.explaining(question)()

    def explaining(self, question: PlacementQuestion) -> Callable[[], ExplainAnswer]:
        """See `Advisor.explaining`.

        The decision is made twice. The first time is here, so that the shared fleet caches the columns. The second time
        is when the answer is built, possibly in another thread, on a copy of the fleet that no other task changes.
        """
        policy, namespace = self._policy(question)
        request = self._request(policy, namespace, question)
        moment = self._now()
        now, fleet = self._instant(question, moment), self._fleet(question)
        if isinstance(question.placement, PlacementRef) and question.clusters is None and not question.anew:
            decide_now = self._deciding(question.placement, now)
        else:
            decide_now = partial(_first_run, request, now)
        decide_now(fleet)
        wanted_rows = self._wanted_rows(question, fleet)
        names = None if wanted_rows is None else [name for name in fleet.names if _is_wanted(wanted_rows, fleet, name)]
        revision, occasion, copy = self._revision(moment), self._occasion(question), fleet.updated(())
        return lambda: explanation(decide_now(copy), policy, revision, names, occasion)

    def _occasion(self, question: PlacementQuestion) -> DecisionContext:
        ref = question.placement
        if not isinstance(ref, PlacementRef):
            return DecisionContext()
        family = FAMILY_OF[ref.kind]
        snapshots = children(self._cache, family.policy_snapshot, ref)
        trigger = self._history.last_trigger(ref) if self._history else None
        return DecisionContext(str(ref), policy_in_force(self._placement(ref), snapshots), trigger)

    def _policy(self, question: PlacementQuestion) -> tuple[JsonObject, str]:
        placement = question.placement
        if isinstance(placement, PlacementPolicy):
            return placement.model_dump(mode="json", by_alias=True, exclude_unset=True), ""
        return dict_at(self._placement(placement), "spec", "policy"), placement.namespace

    def _placement(self, ref: PlacementRef) -> JsonObject:
        family = FAMILY_OF.get(ref.kind)
        document = self._cache.get(family.placement, ref.name, ref.namespace) if family else None
        if document is None:
            raise UnknownObjectError(f"there is no placement {ref}")
        return document

    def _request(self, policy: JsonObject, namespace: str, question: PlacementQuestion) -> Request:
        try:
            return read_request(policy, namespace=namespace)
        except InvalidPolicyError as error:
            location = "/placement/ref" if isinstance(question.placement, PlacementRef) else "/placement/inline"
            raise InvalidQuestionError(location, str(error)) from error

    def _fleet(self, question: PlacementQuestion) -> Fleet:
        return self._cache.fleet if question.clusters is None else Fleet.of(question.clusters)

    def _instant(self, question: PlacementQuestion, moment: datetime) -> datetime:
        """Return the start of the step of *moment*. For clusters given in the question, return *moment* itself."""
        if question.clusters is not None:
            return moment
        return EPOCH + (moment - EPOCH) // STEP * STEP

    def _deciding(
        self, ref: PlacementRef, now: datetime, known_result: ScheduleResult | None = None
    ) -> Callable[[Fleet], ScheduleResult]:
        """Collect the inputs of the decision on a placement, and return a function that decides for a fleet."""
        family, document = FAMILY_OF[ref.kind], self._placement(ref)
        bindings = children(self._cache, family.binding, ref)
        snapshots = children(self._cache, family.policy_snapshot, ref)

        def decide_on(fleet: Fleet) -> ScheduleResult:
            try:
                return decide(document, fleet, bindings, snapshots, now, known_result)
            except BrokenBindingError as error:
                raise InvalidQuestionError("/placement/ref", str(error)) from error

        return decide_on

    def _wanted_rows(self, question: PlacementQuestion, fleet: Fleet) -> BoolColumn | None:
        mask: BoolColumn | None = None
        if question.names is not None:
            unknown = sorted(name for name in question.names if fleet.row(name) is None)
            if unknown:
                raise UnknownObjectError(f"there is no member cluster {unknown[0]!r}")
            mask = fleet.rows(question.names)
        if question.selector is not None:
            matches = match_labels(fleet, question.selector.requirements())
            if matches is not None:
                mask = matches if mask is None else mask & matches
        return mask


def _first_run(request: Request, now: datetime, fleet: Fleet) -> ScheduleResult:
    return schedule(request, fleet, (), now)


def _is_wanted(mask: BoolColumn | None, fleet: Fleet, name: str) -> bool:
    row = fleet.row(name)
    return mask is None or (row is not None and bool(mask[row]))
