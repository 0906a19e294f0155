"""Status back-reporting: copies the statuses that a member reports to the original objects on the hub.

The API has no condition for a failed back-report. The placement gets a Warning Event and a log line instead, once per
new reason.

Source: docs/specifications/rollout.md 18.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from scorer.api.event import Event
from scorer.api.family import FAMILIES, FAMILY_OF, Family, PlacementRef, placement_of_work
from scorer.api.kinds import WORK, Kind, api_version
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_BINDING, PARENT_PLACEMENT, PARENT_PLACEMENT_NAMESPACE
from scorer.api.unstructured.documents import is_deleting, label, status_of
from scorer.rollout.status.back_report import (
    BackReport,
    plan_back_reports,
    report_back_error,
    reports_to_originals,
    with_reported_status,
)
from scorer.rollout.status.failures import failure_of
from webhook.controllers.machinery.failures import concerned_placement
from webhook.controllers.machinery.result import DONE, Result
from webhook.controllers.machinery.wiring import Signal, Waker, Watch, Wiring
from webhook.controllers.placements.listing import all_placements
from webhook.controllers.placements.resource_watches import Selectables, Touched
from webhook.kube.cache.changes import ObjectDelta, desired
from webhook.kube.cache.hub import Hub
from webhook.kube.listers.placements import children
from webhook.kube.ports import ForbiddenError, InvalidObjectError, Key, NotFoundError, RetryError, ServedKinds

log = logging.getLogger(__name__)


class BackReportController:
    """Copies statuses for one placement at a time.

    Args:
        hub: The hub cluster.
        served: Kinds that the hub serves.
        record: Records Events.
    """

    def __init__(self, hub: Hub, served: ServedKinds, record: Callable[[JsonObject, Event], None]) -> None:
        self._hub = hub
        self._served = served
        self._record = record
        self._reported: dict[PlacementRef, tuple[str, str]] = {}

    def wiring(self, selectables: Selectables) -> Wiring[PlacementRef]:
        """Return the wiring: the placement, its bindings and Works, and newly selected objects enqueue it.

        Args:
            selectables: Reports newly selected objects.
        """
        return Wiring(
            name="back_report",
            reconcile=self.reconcile,
            concerned=concerned_placement,
            owner=str,  # owns the statuses that it writes, too: placements that report on one object conflict
            watches=tuple(self._watches(selectables)),
            resync=lambda: (ref for ref, placement in all_placements(self._hub.cache) if _reports(placement)),
        )

    def _watches(self, selectables: Selectables) -> Iterator[Waker[PlacementRef]]:
        for family in FAMILIES:
            yield Watch(family.placement, partial(_itself, family))
            yield Watch(family.binding, partial(self._of_binding, family))
        yield Watch(WORK, self._of_work)
        yield Signal(selectables.subscribe, self._of_selected)

    def _of_binding(self, family: Family, change: ObjectDelta) -> Iterator[PlacementRef]:
        """Yield the placement of a binding, if back-reporting applies to it."""
        return self._reporting(family.parent(change.document))

    def _of_work(self, change: ObjectDelta) -> Iterator[PlacementRef]:
        """Yield the placement of a Work, whose status has the reports, and the one that its old labels named."""
        for document in change:
            if document is not None and label(document, PARENT_BINDING):
                yield from self._reporting(placement_of_work(document))

    def _of_selected(self, touched: Touched) -> Iterator[PlacementRef]:
        """Yield a placement with a new selected object: the object does not have the reported status yet."""
        if touched.is_new:
            yield from self._reporting(touched.ref)

    def _reporting(self, ref: PlacementRef) -> Iterator[PlacementRef]:
        """Yield a placement if back-reporting is enabled, or if its status still reports a failure."""
        placement = self._hub.cache.get(FAMILY_OF[ref.kind].placement, ref.name, ref.namespace)
        if placement is not None and _reports(placement):
            yield ref

    async def reconcile(self, ref: PlacementRef) -> Result:
        """Copy the reported statuses of a placement to its originals.

        Raises:
            ConflictError: Another client wrote to an object first. The queue retries.
            RetryError: The served kinds are not known yet.
            StoreError: The hub did not respond.
        """
        family = FAMILY_OF[ref.kind]
        placement = self._hub.cache.get(family.placement, ref.name, ref.namespace)
        if placement is None or is_deleting(placement) or not reports_to_originals(placement):
            self._reported.pop(ref, None)
            return DONE
        if error := report_back_error(placement):
            self._tell(ref, placement, "InvalidReportBackStrategy", error)
            return DONE
        bindings = children(self._hub.cache, family.binding, ref)
        reports = plan_back_reports(placement, bindings, self._works(ref))
        if reports and not self._served.kinds:
            raise RetryError("discovery of the hub has not completed yet")
        answers = [(report, await self._copy(report)) for report in reports]
        problems = "; ".join(f"{report}: {problem}" for report, problem in answers if problem)
        self._tell(ref, placement, "StatusNotReportedBack", problems)
        return DONE

    def _works(self, ref: PlacementRef) -> list[JsonObject]:
        works = self._hub.cache.labelled(WORK, PARENT_PLACEMENT, ref.name)
        return [work for work in works if label(work, PARENT_PLACEMENT_NAMESPACE) == ref.namespace]

    async def _copy(self, report: BackReport) -> str:
        """Copy one status to its object. Return why that is impossible, empty if it is done or not needed."""
        kind = self._kind(report)
        if kind is None:
            return f"the hub does not serve kind {report.kind} of {api_version(report.group, report.version)}"
        try:
            # Read from the store, as its kind might not be cached. Written with this resource version, so that a
            # concurrent write of a user causes a conflict and is not lost.
            current = await self._hub.store.get(kind, Key(report.name, report.namespace))
        except NotFoundError:  # deleted, so it is about to leave the placement
            return ""
        except ForbiddenError as error:
            return str(error)
        if (changed := with_reported_status(current, report)) is None:
            return ""
        if not kind.has_status:
            return f"kind {report.kind} has no status subresource"
        self._hub.writes += 1
        try:
            await self._hub.store.replace_status(kind, changed)
        except NotFoundError:
            return ""
        except (ForbiddenError, InvalidObjectError) as error:
            return str(error)
        return ""

    def _kind(self, report: BackReport) -> Kind | None:
        """Return the kind of an object with the selected version first, or None if the hub does not serve it."""
        kind = self._served.kinds.get((report.group, report.kind))
        if kind is None or report.version not in kind.versions:
            return None
        return replace(
            kind, versions=(report.version, *(version for version in kind.versions if version != report.version))
        )

    def _tell(self, ref: PlacementRef, placement: JsonObject, reason: str, problem: str) -> None:
        """Report a problem unless it is unchanged. An empty one clears the last report."""
        if not problem:
            self._reported.pop(ref, None)
        elif self._reported.get(ref) != (reason, problem):
            self._reported[ref] = reason, problem
            log.warning("status report failed", extra={"placement": str(ref), "reason": reason, "error": problem})
            self._record(placement, Event(reason, problem, type="Warning"))


def _itself(family: Family, change: ObjectDelta) -> Iterator[PlacementRef]:
    """Yield a placement whose spec or selection has changed, if back-reporting applies to it."""
    new = change.new
    if new is not None and _reports(new) and (change.touches(desired) or change.alters(_selected)):
        yield family.ref(new)


def _reports(placement: JsonObject) -> bool:
    return reports_to_originals(placement) or bool(failure_of(placement))


def _selected(placement: JsonObject) -> object:
    return status_of(placement).get("selectedResources")
