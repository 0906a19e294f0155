"""The Works that carry a binding's objects to its member cluster.

One Work per snapshot of the group and one per envelope, under names derived from their content: planning again on the
result plans nothing. A Work that a user edits by hand is rewritten, unlike in the reference, which compares labels and
hashes only.

Source: docs/specifications/rollout.md 9; KubeFleet pkg/controllers/workgenerator.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, TypeAlias

from scorer.api.family import family_in
from scorer.api.kinds import KINDS, WORK, Kind
from scorer.api.meta import JsonObject, dump_json
from scorer.api.names import (
    LEFT_OUT,
    OVERRIDES,
    PARENT_BINDING,
    PARENT_PLACEMENT,
    PARENT_PLACEMENT_NAMESPACE,
    PARENT_RESOURCE_SNAPSHOT_INDEX,
    PARENT_RESOURCE_SNAPSHOT_NAME,
    RELEASE,
    RETAINED,
    TOO_LARGE,
    WORK_GENERATION,
    WORK_OBJECTS,
    member_namespace,
)
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import (
    annotation,
    current_condition,
    generation_of,
    is_deleting,
    label,
    manifests_of,
    name_of,
    namespace_of,
    spec_of,
    with_metadata,
    with_spec,
)
from scorer.rollout.apply_strategy import effective_apply_strategy
from scorer.rollout.bindings import ROLLOUT_STARTED, Overrides
from scorer.rollout.envelopes import EnvelopeError, EnvelopeKey, unwrap
from scorer.rollout.object_size import (
    ObjectIdentity,
    StorableContent,
    by_identity,
    describe,
    fit_together,
    fits_together,
    format_left_out,
    object_identity,
    parse_left_out,
)
from scorer.rollout.removal.marks import is_marked_for_removal, objects_digest
from scorer.rollout.selection.exclusions import DEFAULT_SETTINGS, SelectionSettings
from scorer.rollout.snapshots.groups import SnapshotGroup, selected_resources
from scorer.rollout.snapshots.resources import is_envelope
from scorer.rollout.works.records import (
    format_overrides,
    has_current_records,
    is_edited,
    override_hashes,
    signed_generation,
    with_signature,
    without_marks,
)
from scorer.rollout.writes import Write, create, delete, replace


class WorkCause(StrEnum):
    """The kind of problem that keeps the controller from writing the Works."""

    OVERRIDDEN = "Overridden"
    SYNCHRONIZED = "WorkSynchronized"
    DUPLICATE_ENVELOPE_WORKS = "DuplicateEnvelopeWorks"
    NOT_YET = "NotYet"


@dataclass(frozen=True, slots=True)
class WorkProblem:
    """Problem that prevents a plan.

    Args:
        cause: All but `WorkCause.NOT_YET` become a condition, and `WorkCause.DUPLICATE_ENVELOPE_WORKS` a Warning Event
            as well. `WorkCause.NOT_YET` does not change the status.
        message: Human-readable message.
        retry: Whether to retry without an event.
    """

    cause: WorkCause
    message: str
    retry: bool = False


@dataclass(frozen=True, slots=True)
class OverrideError:
    """An override that cannot be applied to an object."""

    message: str


NONE_TAKEN: Final = frozenset[str]().__contains__

Override: TypeAlias = Callable[[JsonObject], JsonObject | OverrideError | None]
"""Applies the binding's overrides to one object. Returns the object for the cluster, or None if a rule deletes it."""


@dataclass(frozen=True, slots=True)
class Placeable:
    """Objects that may be placed.

    Args:
        kinds: The known kinds, for the scope of objects in envelopes.
        settings: The operator's selection settings. An excluded object does not get into a Work either, even from a
            snapshot that is older than the setting.
        retained: Objects that Works keep with their last content, because their removal waits for confirmation.
    """

    kinds: Mapping[tuple[str, str], Kind] = field(default_factory=lambda: KINDS)
    settings: SelectionSettings = DEFAULT_SETTINGS
    retained: frozenset[ObjectIdentity] = frozenset()


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """Writes for the Works of a binding.

    Args:
        writes: Ordered writes, empty if there is a problem. A Work to delete may already be deleting without a removal
            mark: see `scorer.rollout.removal.deletion.plan_work_deletion`.
        waiting: Whether a desired Work is still being deleted, so its successor, of the same name, cannot be created
            yet.
        problem: Set when the Works cannot be made.
        signatures: Writes that only sign a Work (`scorer.rollout.works.provenance`), which applies nothing.
        needs_manifests: Nothing was planned: a Work has become too large, and the plan needs the current manifests of
            the Works.
    """

    writes: tuple[Write, ...] = ()
    waiting: bool = False
    problem: WorkProblem | None = None
    signatures: tuple[Write, ...] = ()
    needs_manifests: bool = False

    @property
    def changed(self) -> bool:
        """Whether this pass changes any Work. The binding then reports that the apply is in progress."""
        return bool(self.writes) or self.waiting


def needs_works(binding: JsonObject, works: Collection[JsonObject]) -> bool:
    """Return whether the work generator has anything to do for a binding (rollout.md 9.1).

    A Bound binding waits until the rollout has reported, for its current spec, that it may start or must wait: before
    that, the generator would act on a spec that the rollout has not approved.
    For an Unscheduled binding, the generator maintains the existing Works but creates no new ones, unlike the
    reference: the binding may be left from an earlier membership of its cluster, and a new Work would take over the
    objects that remained there, and remove them with the binding.

    Args:
        binding: Any binding.
        works: The Works that belong to it.
    """
    if is_deleting(binding):
        return False
    match spec_of(binding).get("state"):
        case BindingState.UNSCHEDULED:
            return bool(works)
        case BindingState.BOUND:
            return (current_condition(binding, ROLLOUT_STARTED) or {}).get("status") in ("True", "False")
        case _:
            return False


def _as_it_is(content: JsonObject) -> JsonObject:
    return content


def plan_works(
    binding: JsonObject,
    group: SnapshotGroup | None,
    works: Iterable[JsonObject],
    *,
    override: Override = _as_it_is,
    report_back: Mapping[str, Any] | None = None,
    is_taken: Callable[[str], bool] = NONE_TAKEN,
    placeable: Placeable = Placeable(),
    now: datetime | None = None,
) -> WorkPlan:
    """Return the writes after which the Works of a binding match its snapshot group, overrides and apply strategy.

    Args:
        binding: One that `needs_works`.
        group: The group of ``spec.resourceSnapshotName``. None if its master does not exist.
        works: All Works that belong to the binding, without their manifests unless an earlier plan needs them.
        override: Applies the override snapshots that the binding lists.
        report_back: The placement's ``strategy.reportBackStrategy``.
        is_taken: Returns whether a Work of another placement has that name in the member's namespace.
        placeable: Objects that may be placed.
        now: The time to write on Works. None: unset.
    """
    return _WorkPlanner(binding, list(works), override, report_back, is_taken, placeable, now).plan(group)


@dataclass(frozen=True, slots=True)
class _Slot:
    """A desired Work and its objects before overrides."""

    name: str
    contents: Sequence[JsonObject]
    envelope: EnvelopeKey | None = None


class _NeedsManifestsError(Exception):
    """The existing Works were read without their manifests."""


class _ProblemError(Exception):
    def __init__(self, problem: WorkProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class _WorkPlanner:
    def __init__(
        self,
        binding: JsonObject,
        works: list[JsonObject],
        override: Override,
        report_back: Mapping[str, Any] | None,
        is_taken: Callable[[str], bool],
        placeable: Placeable,
        now: datetime | None,
    ) -> None:
        spec = spec_of(binding)
        self._binding = binding
        self._grows = spec.get("state") != BindingState.UNSCHEDULED
        self._snapshot = str(spec.get("resourceSnapshotName") or "")
        self._works = {name_of(work): work for work in works}
        self._override = override
        self._is_taken = is_taken
        self._placeable = placeable
        self._now = now
        self._strategy = {
            "applyStrategy": effective_apply_strategy(spec.get("applyStrategy")),
            "reportBackStrategy": dict(report_back) if report_back else None,
        }
        self._left_out: frozenset[ObjectIdentity] = frozenset()
        self._released: frozenset[ObjectIdentity] = frozenset()
        self._contents: Sequence[JsonObject] = ()
        self._hashes = override_hashes(spec)
        self._overrides = {OVERRIDES: format_overrides(Overrides.of(spec))}

    def plan(self, group: SnapshotGroup | None) -> WorkPlan:
        if group is not None and group.master is not None and not group.is_complete:
            message = f"resource snapshots of index {group.index} are still being created"
            return WorkPlan(problem=WorkProblem(WorkCause.NOT_YET, message, retry=True))
        try:
            if group is None or group.master is None:
                return WorkPlan(tuple(self._plan_stranded()))
            return self._follow(group)
        except _ProblemError as error:
            return WorkPlan(problem=error.problem)
        except _NeedsManifestsError:
            return WorkPlan(needs_manifests=True)

    def _plan_stranded(self) -> Iterator[Write]:
        """Yield the writes that refresh Works whose snapshot was dropped from the history, or raise `_ProblemError`."""
        works = self._works.values()
        if not works or not all(
            annotation(work, PARENT_RESOURCE_SNAPSHOT_NAME) == self._snapshot and self._hashes_agree(work)
            for work in works
        ):
            message = f"resource snapshot {self._snapshot!r} no longer exists"
            raise _ProblemError(WorkProblem(WorkCause.OVERRIDDEN, message, retry=True))
        for work in sorted(works, key=name_of):
            yield from self._refresh(work)

    def _follow(self, group: SnapshotGroup) -> WorkPlan:
        names = self._envelope_works()
        self._left_out, self._released = group.left_out(), group.released()
        self._contents = group.objects()
        slots = list(self._slots(group))
        desired_names = {names[slot.envelope] for slot in slots if slot.envelope in names}
        writes: list[Write] = []
        is_waiting = False
        for slot in slots:
            name = names.get(slot.envelope) or self._free_name(slot, desired_names)
            desired_names.add(name)
            work = self._works.get(name)
            if work is not None and is_deleting(work):
                is_waiting = True
            elif work is not None and self._is_current(work, group.index):
                writes += self._refresh(work)
            elif work is not None or self._grows:
                new_work = self._make(slot, name, work, group.index)
                writes.append(create(new_work) if work is None else replace(new_work))
        # Deletions come last: an object that moves between Works is in its new Work before it is missing from the old
        # one. The agent would otherwise delete it as unwanted, and then apply it again.
        unwanted_works = []
        for name in sorted(self._works.keys() - desired_names):
            work = self._works[name]
            if not self._holds_left_out(work) and not self._releases(name):
                unwanted_works.append(work)
            elif self._is_current(work, group.index) or EnvelopeKey.of_work(work):
                writes += self._refresh(work)
            elif not is_deleting(work):
                writes.append(replace(self._make(_Slot(name, ()), name, work, group.index)))
        writes += (delete(work) for work in unwanted_works if not (is_deleting(work) and is_marked_for_removal(work)))
        return WorkPlan(tuple(writes), is_waiting)

    def _holds_left_out(self, work: JsonObject) -> bool:
        """Return whether a Work holds objects that the snapshot leaves out, or that are retained: they must remain."""
        if not self._left_out and not self._placeable.retained:
            return False
        if (key := EnvelopeKey.of_work(work)) is not None:
            return key.identity in self._left_out or bool(self._retained_in(name_of(work)))
        return bool(self._kept_manifests(name_of(work)))

    def _releases(self, name: str) -> frozenset[ObjectIdentity]:
        """Return the objects of a Work that the agent must release: objects that the Work holds, or held before.

        A new Work may replace a lost one, so it names all released objects. An unwanted Work is kept while it names
        any: an agent of an earlier release does not know the record, and would delete the objects with the Work.
        """
        if not self._released or name not in self._works:
            return self._released
        try:
            old_release = parse_left_out(annotation(self._works[name], RELEASE))
        except (ValueError, TypeError):  # another client wrote it
            old_release = self._released
        return self._released & (self._present(name).keys() | old_release)

    def _kept_manifests(self, name: str) -> list[JsonObject]:
        """Return the objects of a Work that are selected, but too large for a snapshot, or retained."""
        retained_objects = self._retained_in(name)
        if not self._left_out or name not in self._works:
            return retained_objects
        present = self._present(name)
        left_out_objects = self._left_out - self._placeable.retained
        return [*(present[identity] for identity in sorted(left_out_objects & present.keys())), *retained_objects]

    def _retained_in(self, name: str) -> list[JsonObject]:
        """Return the objects of a Work whose removal waits for confirmation."""
        if not self._placeable.retained or name not in self._works:
            return []
        present = self._present(name)
        return [present[identity] for identity in sorted(self._placeable.retained & present.keys())]

    def _free_name(self, slot: _Slot, used_names: Collection[str]) -> str:
        """Return the name of the existing Work of a slot, else the first name that no other Work has.

        By the rules of the reference, the names are the same for a ClusterResourcePlacement ``kiosk.e`` and for a
        ResourcePlacement ``e`` in ``kiosk``. Existing Works keep theirs. The later Work gets the suffix of its family,
        which no other name has: those end in ``-work``, a number or 16 hexadecimal digits.
        """
        suffix = family_in(namespace_of(self._binding)).placement.short_names[0]
        names = [name for name in (slot.name, f"{slot.name}-{suffix}") if name not in used_names] or [slot.name]
        existing = (name for name in names if name in self._works)
        free = (name for name in names if not self._is_taken(name))
        return next(existing, None) or next(free, names[-1])

    def _slots(self, group: SnapshotGroup) -> Iterator[_Slot]:
        namespace, placement = namespace_of(self._binding), label(self._binding, PARENT_PLACEMENT)
        base = f"{namespace}.{placement}" if namespace else placement
        for at, snapshot in enumerate(group.documents):
            name = f"{base}-work" if at == 0 else f"{base}-{at - 1}"
            contents = selected_resources(snapshot)
            yield _Slot(name, [content for content in contents if not is_envelope(content)])
            for content in contents:
                if is_envelope(content):
                    key = EnvelopeKey.of(content)
                    yield _Slot(key.work_name(name), [content], key)

    def _envelope_works(self) -> dict[EnvelopeKey | None, str]:
        """Return the name of each envelope's existing Work. Raise `_ProblemError` if an envelope has several."""
        works_by_envelope: dict[EnvelopeKey, list[str]] = defaultdict(list)
        for name, work in sorted(self._works.items()):
            if (key := EnvelopeKey.of_work(work)) is not None:
                works_by_envelope[key].append(name)
        for key, names in works_by_envelope.items():
            if len(names) > 1:
                message = f"{key} has several Works: {', '.join(names)}"
                raise _ProblemError(WorkProblem(WorkCause.DUPLICATE_ENVELOPE_WORKS, message))
        return {key: names[0] for key, names in works_by_envelope.items()}

    def _hashes_agree(self, work: JsonObject) -> bool:
        return all(annotation(work, key) == value for key, value in self._hashes.items())

    def _is_current(self, work: JsonObject, index: int) -> bool:
        is_same = label(work, PARENT_RESOURCE_SNAPSHOT_INDEX) == str(index) and self._hashes_agree(work)
        return is_same and not is_edited(work) and has_current_records(work, self._contents, self._placeable.retained)

    def _refresh(self, work: JsonObject) -> Iterator[Write]:
        spec = spec_of(work)
        desired_spec = {
            "applyStrategy": effective_apply_strategy(spec.get("applyStrategy")),
            "reportBackStrategy": spec.get("reportBackStrategy"),
        }
        if is_deleting(work):
            return
        clean_work = without_marks(work)
        if annotation(work, OVERRIDES) != (self._overrides[OVERRIDES] or ""):
            clean_work = with_metadata(clean_work, annotations=self._overrides)
        if desired_spec != self._strategy:
            clean_work = with_spec(with_signature(clean_work, self._now), **self._strategy)
        elif signed_generation(work) > generation_of(work):  # the last write did not change the spec, see `is_edited`
            clean_work = with_metadata(clean_work, annotations={WORK_GENERATION: str(generation_of(work))})
        if clean_work is not work:
            yield replace(clean_work)

    def _make(self, slot: _Slot, name: str, work: JsonObject | None, index: int) -> JsonObject:
        namespace = namespace_of(self._binding)
        labels = {
            PARENT_BINDING: name_of(self._binding),
            PARENT_PLACEMENT: label(self._binding, PARENT_PLACEMENT),
            PARENT_RESOURCE_SNAPSHOT_INDEX: str(index),
            **({PARENT_PLACEMENT_NAMESPACE: namespace} if namespace else {}),
            **(slot.envelope.labels() if slot.envelope else {}),
        }
        retained_objects = self._retained_in(name)
        kept_manifests = retained_objects if slot.envelope else self._kept_manifests(name)
        content = self._fit(name, [*self._manifests(slot), *kept_manifests])
        released_objects = self._releases(name)
        annotations: dict[str, str | None] = {
            PARENT_RESOURCE_SNAPSHOT_NAME: self._snapshot,
            **self._hashes,
            **self._overrides,
            WORK_OBJECTS: objects_digest(content.objects),
            TOO_LARGE: describe(content.too_large) or None,
            # The agent keeps objects that are left out. If the Work that held them was lost, only the member has them.
            # An agent of an earlier release cannot release objects. It keeps them because of this record.
            LEFT_OUT: format_left_out(content.too_large, self._left_out | released_objects) or None,
            RELEASE: format_left_out((), released_objects) or None,
            RETAINED: format_left_out((), map(object_identity, retained_objects)) or None,
        }
        cluster = str(spec_of(self._binding).get("targetCluster") or "")
        document = work or {
            "apiVersion": WORK.api_version,
            "kind": WORK.kind,
            "metadata": {"name": name, "namespace": member_namespace(cluster)},
        }
        workload = {"manifests": list(content.objects)}
        work = with_signature(with_metadata(without_marks(document), labels=labels, annotations=annotations), self._now)
        return with_spec(work, workload=workload, **self._strategy)

    def _manifests(self, slot: _Slot) -> list[JsonObject]:
        if slot.envelope is None:
            return list(self._override_all(slot.contents))
        contents = unwrap(slot.contents[0], self._placeable.kinds, self._placeable.settings)
        if isinstance(contents, EnvelopeError):
            raise _ProblemError(WorkProblem(WorkCause.SYNCHRONIZED, contents.message))
        return sorted(self._override_all(contents), key=dump_json, reverse=True)

    def _fit(self, name: str, manifests: Sequence[JsonObject]) -> StorableContent:
        """Return the manifests that fit into a Work.

        A Work is larger than its snapshot only because of overrides, or of objects that the snapshot leaves out. Raise
        `_NeedsManifestsError` if a Work was read without its manifests, and `_ProblemError` if nothing fits.
        """
        if not (self._overrides[OVERRIDES] or self._left_out) or fits_together(manifests):
            return StorableContent(tuple(manifests))
        content = fit_together(manifests, self._present(*self._works))
        if content is None:
            message = f"Work {name} would be too large, even with the last content of its objects"
            raise _ProblemError(WorkProblem(WorkCause.SYNCHRONIZED, message))
        return content

    def _present(self, *names: str) -> Mapping[ObjectIdentity, JsonObject]:
        """Return the content that Works of the binding hold now.

        Raises:
            _NeedsManifestsError: A Work was read without its manifests.
        """
        works = [self._works[name] for name in names]
        if not all("workload" in spec_of(work) for work in works):
            raise _NeedsManifestsError
        manifests = (manifest for work in works for manifest in manifests_of(work))
        return by_identity(manifest for manifest in manifests if isinstance(manifest, dict))

    def _override_all(self, contents: Iterable[JsonObject]) -> Iterator[JsonObject]:
        for content in contents:
            result = self._override(content)
            if isinstance(result, OverrideError):
                raise _ProblemError(WorkProblem(WorkCause.OVERRIDDEN, result.message))
            if result is None:
                continue
            if reason := self._placeable.settings.exclusion_reason(result):
                subject = f"{result.get('kind')} {name_of(result)}"
                raise _ProblemError(WorkProblem(WorkCause.SYNCHRONIZED, f"{subject} {reason} and cannot be placed"))
            yield result
