"""Advisories of placements, and Events about overrides without effect.

The placement controller requests an evaluation after it has selected the objects of a placement: until then they are
unknown, and warnings about them would vanish. Overrides are evaluated shortly after a change, and member clusters are
polled for changes. Everything else waits for the resync, so no single change triggers an immediate evaluation of all
objects. The placement controller, the only writer of a placement's status, reads the results.

Source: docs/specifications/placement-api.md 11.1.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeAlias

from scorer.api.conditions import LONGEST_MESSAGE
from scorer.api.event import Event
from scorer.api.family import FAMILIES, FAMILY_OF, Family, PlacementRef
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, MEMBER_CLUSTER
from scorer.api.meta import JsonObject
from scorer.api.names import ACKNOWLEDGE
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    generation_of,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
)
from scorer.api.values.quoting import shortened
from scorer.rollout.overrides.effect import EFFECT_RULES
from scorer.rollout.status.advisories import Advisories, acknowledged, advisory_lines
from webhook.admission.advisories import advisory_text, stored_warnings
from webhook.admission.cached import StoredObjectsContext
from webhook.controllers.machinery.failures import Concerned, concerned_placement
from webhook.controllers.machinery.result import DONE, Result
from webhook.controllers.machinery.wiring import Later, Poll, Signal, Waker, Watch, Wiring
from webhook.controllers.placements.listing import placement_refs
from webhook.controllers.placements.overrides import OverrideRef, concerned_override, named_placement, owner_of_override
from webhook.kube.cache.changes import Broadcaster, ObjectDelta, desired
from webhook.kube.cache.hub import Hub
from webhook.validation.framework.field import FieldWarning

SOON: Final = timedelta(milliseconds=100)
"""Debounce of changes of overrides."""
FLEET_INTERVAL: Final = timedelta(minutes=1)
"""Poll interval for changes to member clusters."""
WITHOUT_EFFECT: Final = "OverrideWithoutEffect"

Subject: TypeAlias = PlacementRef | OverrideRef
"""A placement with the overrides that name it, or an override that names none."""


class AdvisoryController:
    """Evaluates the warnings that apply to placements and overrides.

    Args:
        hub: The hub cluster.
        now: The clock.
        record: Records Events.
    """

    def __init__(self, hub: Hub, now: Callable[[], datetime], record: Callable[[JsonObject, Event], None]) -> None:
        self._cache = hub.cache
        self._context = StoredObjectsContext(hub.cache, now)
        self._record = record
        self._changed = Broadcaster[PlacementRef]()
        self._requests = Broadcaster[PlacementRef]()
        self._requested: dict[PlacementRef, tuple[object, ...]] = {}
        """Generation, acknowledgment and content at the last request for each placement."""
        self._evaluated: dict[PlacementRef, Advisories] = {}
        self._reported: dict[OverrideRef, str] = {}
        """The last Event about each override without effect."""
        self._overrides_by_placement: Mapping[PlacementRef, Sequence[JsonObject]] | None = None
        """Overrides by the placement that they name. None: unknown, some have changed."""
        self._fleet_changed = False

    def wiring(self) -> Wiring[Subject]:
        """Return the wiring: requests and overrides enqueue a subject."""
        return Wiring(
            name="advisory",
            reconcile=self.reconcile,
            concerned=_concerned,
            owner=_owner,
            watches=tuple(self._watches()),
            resync=self._everything,
            polls=(Poll(FLEET_INTERVAL, self.after_fleet_changes),),
        )

    def of(self, ref: PlacementRef) -> Advisories | None:
        """Return the advisories of a placement, None before its first evaluation."""
        return self._evaluated.get(ref)

    def subscribe(self, handler: Callable[[PlacementRef], None]) -> Callable[[], None]:
        """Call *handler* with every placement whose advisories change. Return the unsubscriber."""
        return self._changed.subscribe(handler)

    def request(self, ref: PlacementRef, placement: JsonObject, status: Mapping[str, Any]) -> None:
        """Evaluate a placement soon if its spec, acknowledgment or content has changed since the last request.

        Args:
            ref: The placement.
            placement: The same, after its objects were selected.
            status: Its present status.
        """
        seen = generation_of(placement), acknowledgement(placement), status.get("observedResourceIndex")
        if self._requested.get(ref) != seen:
            self._requested[ref] = seen
            self._requests.publish(ref)

    def _watches(self) -> Iterator[Waker[Subject]]:
        yield Signal(self._requests.subscribe, lambda ref: (ref,))
        for family in FAMILIES:
            yield Watch(family.placement, partial(self._forget, family))
            yield Watch(family.override, self._of_override)
        yield Watch(CUSTOM_RESOURCE_DEFINITION, self._of_definition)
        yield Signal(self._changes_of_members, self._of_member)

    def _forget(self, family: Family, change: ObjectDelta) -> Iterator[Subject]:
        """Forget a deleted placement."""
        if change.new is None:
            ref = family.ref(change.document)
            self._requested.pop(ref, None)
            self._evaluated.pop(ref, None)
        return iter(())

    def _of_override(self, change: ObjectDelta) -> Iterator[Later[Subject]]:
        """Yield the placement that an override names, or the override itself."""
        if change.touches(desired) or change.alters(acknowledgement):
            self._overrides_by_placement = None
            ref = OverrideRef.of(change.document)
            if change.new is None:
                self._reported.pop(ref, None)
            yield Later(named_placement(change.document) or ref, SOON)

    def _of_definition(self, _change: ObjectDelta) -> Iterator[Subject]:
        """Forget the served kinds. The resync evaluates with the new ones."""
        self._context.forget_kinds()
        return iter(())

    def _changes_of_members(self, handler: Callable[[ObjectDelta], None]) -> Callable[[], None]:
        return self._cache.subscribe(MEMBER_CLUSTER, handler, changes_only=True)

    def _of_member(self, change: ObjectDelta) -> Iterator[Subject]:
        """Note that a member was added or deleted, or has other labels, taints or conditions."""
        self._fleet_changed = self._fleet_changed or change.touches(_seen_of_member)
        return iter(())

    async def after_fleet_changes(self) -> Sequence[Subject]:
        """Return all subjects if members have changed since the last call."""
        is_changed, self._fleet_changed = self._fleet_changed, False
        return [*self._everything()] if is_changed else []

    def _everything(self) -> Iterator[Subject]:
        yield from placement_refs(self._cache)
        for family in FAMILIES:
            for override in self._cache.list(family.override):
                if named_placement(override) is None:
                    yield OverrideRef.of(override)

    async def reconcile(self, subject: Subject) -> Result:
        """Evaluate the warnings about a subject. Nothing is written, apart from Events about overrides."""
        if isinstance(subject, OverrideRef):
            self._evaluate_override(subject)
            return DONE
        placement = self._cache.get(FAMILY_OF[subject.kind].placement, subject.name, subject.namespace)
        if placement is None or is_deleting(placement) or subject not in self._requested:
            return DONE
        context, omitted = self._context(), acknowledged(placement)
        lines = [advisory_text(warning) for warning in stored_warnings(placement, context)]
        for override in self._overrides_of(subject):
            warnings = [each for each in stored_warnings(override, context) if each.rule not in omitted]
            name = _title(override)
            self._report(override, warnings, frozenset(advisory_lines(placement)))
            lines += (advisory_text(warning, name) for warning in warnings)
        self._publish(subject, placement, Advisories.of(generation_of(placement), lines))
        return DONE

    def _evaluate_override(self, ref: OverrideRef) -> None:
        """Evaluate an override that names no placement."""
        override = self._cache.get(ref.kind, ref.name, ref.namespace)
        if override is not None and not is_deleting(override):
            self._report(override, stored_warnings(override, self._context()))

    def _publish(self, ref: PlacementRef, placement: JsonObject, advisories: Advisories) -> None:
        """Notify the placement controller, unless the status of the placement already has the advisories."""
        if self._evaluated.get(ref) == advisories:
            return
        self._evaluated[ref] = advisories
        if not advisories.is_stored(placement):
            self._changed.publish(ref)

    def _overrides_of(self, ref: PlacementRef) -> Sequence[JsonObject]:
        """Return the overrides that name a placement, by kind, namespace and name."""
        if self._overrides_by_placement is None:
            named: dict[PlacementRef, list[JsonObject]] = defaultdict(list)
            for family in FAMILIES:
                for override in self._cache.list(family.override):
                    if (target := named_placement(override)) is not None and not is_deleting(override):
                        named[target].append(override)
            self._overrides_by_placement = named
        return self._overrides_by_placement.get(ref, ())

    def _report(self, override: JsonObject, warnings: Iterable[FieldWarning], stored: Set[str] = frozenset()) -> None:
        """Record an Event about an override without effect, when its text changes.

        Args:
            override: The override.
            warnings: All warnings about the override.
            stored: The advisories of its placement, whose Event an earlier process has recorded.
        """
        ref, title = OverrideRef.of(override), _title(override)
        lines = {advisory_text(warning, title): str(warning) for warning in warnings if warning.rule in EFFECT_RULES}
        text = shortened("; ".join(lines.values()), LONGEST_MESSAGE)
        if not text:
            self._reported.pop(ref, None)
        elif self._reported.get(ref) != text:
            self._reported[ref] = text
            if lines.keys() - stored:
                self._record(override, Event(WITHOUT_EFFECT, text, "Warning"))


def acknowledgement(document: JsonObject) -> str:
    """Return the value of the annotation that acknowledges warnings, empty without it."""
    return annotation(document, ACKNOWLEDGE)


def _seen_of_member(member: JsonObject) -> tuple[object, ...]:
    statuses = [(condition.get("type"), condition.get("status")) for condition in conditions_of(member)]
    return labels_of(member), spec_of(member).get("taints"), is_deleting(member), statuses


def _title(override: JsonObject) -> str:
    namespace, name = namespace_of(override), name_of(override)
    return f"ResourceOverride {namespace}/{name}" if namespace else f"ClusterResourceOverride {name}"


def _concerned(subject: Subject) -> Concerned:
    return concerned_placement(subject) if isinstance(subject, PlacementRef) else concerned_override(subject)


def _owner(subject: Subject) -> str:
    return str(subject) if isinstance(subject, PlacementRef) else owner_of_override(subject)
