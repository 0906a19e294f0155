"""The answer of ``/v1/render``: the objects of every placement on its clusters, before and after changes.

Clusters whose objects are shown alike are one group. Values of Secrets are hidden in every object, before objects are
compared and grouped: neither the output nor the groups reveal a value, nor whether two clusters have the same. A value
that changes is marked as changed.

Source: docs/specifications/what-if.md 6.
"""

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

from typing_extensions import TypedDict

from scorer.api.family import FAMILIES, NAMESPACED
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject, dump_json, format_time
from scorer.api.unstructured.secrets import hidden
from scorer.api.values.answer import Instant, one_of
from scorer.fleet import Fleet
from scorer.rollout.object_size import ObjectIdentity, by_identity
from scorer.rollout.overrides.application import LABEL_VARIABLE
from scorer.rollout.views.rendering import RenderedContent, wave_in
from scorer.rollout.works.plan import WorkCause
from scorer.staged_update.views.content_diff import ChangeKind
from scorer.what_if.changes import apply_changes
from scorer.what_if.rendering import (
    Contents,
    PlacementContent,
    future_contents,
    present_contents,
    run_contents,
    with_kept_objects,
)
from scorer.what_if.state import UNRENDERED, HubState, ObjectKey, identity_of
from webhook.access.rights import Reviewed
from webhook.admission.documents import DocumentSet
from webhook.answers.plan_answer import AdmissionVerdict, FleetOfPlan, PlanCoverage
from webhook.answers.proposal import (
    EVERYBODY,
    NO_REVIEWS,
    Audience,
    Misfit,
    Proposal,
    ProposalError,
    coverage,
    judge_proposal,
)
from webhook.answers.proposed_objects import unknown_member
from webhook.answers.update_runs import unknown_run
from webhook.runtime.yaml import format_yaml
from webhook.validation.framework.context import Context

UNCHANGED: Final = "Unchanged"
LARGEST_ANSWER: Final = 32 * 1024 * 1024
"""Maximum number of bytes of objects and differences in one answer."""
_MOST_LINE_PAIRS: Final = 16_000_000
"""Maximum number of compared pairs of lines, which takes a second. Beyond it, a diff may not be the smallest."""
_CONTEXT_LINES: Final = 3


class RenderedObject(TypedDict):
    """An object on the clusters of a group."""

    change: Annotated[str, one_of(*ChangeKind, UNCHANGED)]
    group: str
    kind: str
    namespace: str
    name: str
    wave: int
    """Agents apply the objects of a Work in the order of their waves."""
    manifest: JsonObject | None
    """The object after the changes, with the values of Secrets hidden. Null for a removed object."""
    diff: list[str]
    """Lines of a unified diff of the object as YAML, without file names. Empty if it is unchanged."""


class RenderedGroup(TypedDict):
    """Clusters with the same objects of a placement, and the same changes to them."""

    clusters: list[str]
    objects: list[RenderedObject]
    """In order of application. Removed objects come last."""
    unchanged: int
    """Number of unchanged objects, listed or not."""


class RenderFailure(TypedDict):
    """A cluster whose objects cannot be made. It keeps those that it has."""

    cluster: str
    reason: Annotated[str, one_of(*WorkCause)]
    message: str


class RenderedPlacement(TypedDict):
    """The objects of a placement."""

    name: str
    namespace: str
    message: str
    """Why the placement keeps the objects that it has, such as an error in its selectors, or why they are hidden from
    a team. Empty: it does not."""
    hidden: bool
    """Whether the objects are omitted, because the caller may not list resource and override snapshots, or because an
    answer about a namespace must not have them."""
    uncertain: bool
    """Whether the placement may select more objects than the answer has: its selectors change, but select the same of
    the known objects."""
    groups: list[RenderedGroup]
    """By their first cluster. Groups without changes are omitted unless unchanged objects are requested."""
    failures: list[RenderFailure]
    unknown: list[str]
    """Clusters whose present objects are unknown, because the snapshots that they have are no longer stored. All their
    objects are listed as added."""


class Render(PlanCoverage, TypedDict):
    """The objects of placements, without the revision of the fleet."""

    placements: list[RenderedPlacement]
    """By namespace and name."""
    admission: list[AdmissionVerdict]
    """One verdict per object that would be written or deleted."""
    evaluatedAt: Instant


class RenderAnswer(FleetOfPlan, Render, TypedDict):
    """The objects of placements on their clusters."""


@dataclass(frozen=True, slots=True)
class RenderScope:
    """The requested part of an answer.

    Args:
        clusters: Only these clusters. None: unlimited.
        unchanged: Whether unchanged objects are listed as well.
        run: Staged update run. Only its placement is rendered, with the content of the run. None: unset.
    """

    clusters: Sequence[str] | None = None
    unchanged: bool = False
    run: ObjectKey | None = None


WHOLE: Final = RenderScope()


def render(
    hub: DocumentSet,
    proposal: Proposal,
    context: Context,
    audience: Audience = EVERYBODY,
    reviews: Mapping[ObjectKey, Reviewed] = NO_REVIEWS,
    unread: Collection[Kind] = (),
    *,
    scope: RenderScope = WHOLE,
    before: Contents | None = None,
) -> Render:
    """Return the objects of placements on their clusters, before and after a proposal.

    Args:
        hub: See `judge_proposal`.
        proposal: See `judge_proposal`.
        context: See `judge_proposal`.
        audience: See `judge_proposal`.
        reviews: See `judge_proposal`.
        unread: Kinds of the hub that could not be read.
        scope: The requested part.
        before: Content to compare with. None means the present content of the clusters.

    Raises:
        ProposalError: See `judge_proposal`. Or a cluster or the run is unknown, or the answer would be too large.
    """
    judged = judge_proposal(hub, proposal, context, audience, reviews, await_runs=False)
    changed = apply_changes(judged.state, judged.changes)
    _check_clusters(scope, judged.state.fleet, changed.state.fleet)
    after_run = None if scope.run is None else run_contents(judged.state, _run(judged.state, scope.run, audience))
    if after_run is not None:
        own = frozenset(after_run)
        audience = replace(audience, only=own if audience.only is None else own.intersection(audience.only))
    if before is None:
        before = present_contents(judged.state, audience.only)
    elif audience.only is not None:
        before = {identity: content for identity, content in before.items() if identity in audience.only}
    after = with_kept_objects(before, future_contents(changed, audience.only), changed)
    if after_run is not None:
        after = {identity: content for identity, content in after_run.items() if identity in after}
    hidden = {family.placement.group_kind for family in FAMILIES if not audience.sees_objects(family)}
    reserved = {
        identity: reason for identity in {*before, *after} if (reason := _reserved(identity, before, after, audience))
    }
    placements = compared_contents(before, after, judged.state.kinds, scope, hidden, reserved)
    return {
        "placements": placements,
        "admission": judged.admission,
        "evaluatedAt": format_time(judged.state.now),
        **coverage(judged, audience, unread, UNRENDERED),
    }


def _run(state: HubState, key: ObjectKey, audience: Audience) -> JsonObject:
    """Return a run that the caller may see. Raises `ProposalError`."""
    runs = state.runs if audience.knows(key[:2]) else ()
    run = next((run for run in runs if identity_of(run) == key), None)
    if run is None:
        raise ProposalError([Misfit("/run", "unknown", unknown_run(key.name, key.namespace))])
    return run


def _check_clusters(scope: RenderScope, before: Fleet, after: Fleet) -> None:
    """Raise `ProposalError` if a requested cluster is neither a member now nor after the changes."""
    mistakes = [
        Misfit(f"/clusters/{at}", "unknown", unknown_member(name, after))
        for at, name in enumerate(scope.clusters or ())
        if before.row(name) is None and after.row(name) is None
    ]
    if mistakes:
        raise ProposalError(mistakes)


def compared_contents(
    before: Contents,
    after: Contents,
    kinds: Mapping[tuple[str, str], Kind],
    scope: RenderScope,
    hidden: Collection[tuple[str, str]] = (),
    reserved: Mapping[ObjectKey, str] = MappingProxyType({}),
) -> list[RenderedPlacement]:
    """Compare the content of placements. Return the placements by namespace and name.

    Args:
        before: The present content.
        after: The later content.
        kinds: The known kinds.
        scope: The requested part.
        hidden: The kinds of placements whose objects the caller may not see, by group and kind.
        reserved: Placements whose objects the caller may not see, and why.

    Raises:
        ProposalError: The answer would be too large.
    """
    room = _Room(LARGEST_ANSWER)
    identities = sorted(before.keys() | after.keys(), key=lambda identity: (identity.namespace, identity.name))
    return [
        _bare(identity, reserved.get(identity, ""), hidden=True)
        if identity[:2] in hidden or identity in reserved
        else _placement(identity, before.get(identity), after.get(identity), kinds, scope, room)
        for identity in identities
    ]


def _reserved(identity: ObjectKey, before: Contents, after: Contents, audience: Audience) -> str:
    """Return why an answer about a namespace must not have the objects of a placement, or an empty text.

    Rendered objects contain values of overrides and, through variables, labels of members. A team that may read the
    placed objects need not have the right to read either of these.
    """
    if not audience.namespace:
        return ""
    contents = [content for content in (before.get(identity), after.get(identity)) if content]
    overrides = {key: snapshot for content in contents for key, snapshot in content.overrides.items()}
    if any(not namespace for namespace, _ in overrides):
        return f"its objects contain values from ClusterResourceOverrides. {_BY_PLATFORM}"
    if overrides and NAMESPACED.override_snapshot not in audience.contents:
        return f"its objects contain values from ResourceOverrides, which you may not list. {_BY_PLATFORM}"
    if any(snapshot and LABEL_VARIABLE in dump_json(snapshot).decode() for snapshot in overrides.values()):
        return f"its overrides use labels of member clusters, which you may not read. {_BY_PLATFORM}"
    return ""


_BY_PLATFORM: Final = "Users with rights in the whole hub, such as the platform team, can render it"


def _bare(identity: ObjectKey, message: str = "", *, hidden: bool = False) -> RenderedPlacement:
    """Return a placement without objects."""
    return {
        "name": identity.name,
        "namespace": identity.namespace,
        "message": message,
        "hidden": hidden,
        "uncertain": False,
        "groups": [],
        "failures": [],
        "unknown": [],
    }


class _Room:
    """Counts the bytes of an answer."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, entry: RenderedObject) -> RenderedObject:
        """Return *entry*. Raises `ProposalError` if the answer becomes too large."""
        self._left -= len(dump_json(entry))
        if self._left < 0:
            size = f"{LARGEST_ANSWER // 1024 // 1024} MiB"
            detail = f"the response would exceed {size}: request fewer placements or clusters"
            raise ProposalError([Misfit("/placements", "too-many", detail)])
        return entry


_NOTHING: Final = RenderedContent()


def _placement(
    identity: ObjectKey,
    before: PlacementContent | None,
    after: PlacementContent | None,
    kinds: Mapping[tuple[str, str], Kind],
    scope: RenderScope,
    room: _Room,
) -> RenderedPlacement:
    entry = _bare(identity)
    if after:
        entry["message"], entry["uncertain"] = after.problem, after.uncertain
    old_clusters, new_clusters = (content.clusters if content else {} for content in (before, after))
    names = sorted(
        name for name in old_clusters.keys() | new_clusters.keys() if scope.clusters is None or name in scope.clusters
    )
    groups: dict[bytes, tuple[_Comparison, list[str]]] = {}
    comparisons: dict[tuple[int, int], _Comparison] = {}
    for name in names:
        old, new = old_clusters.get(name, _NOTHING), new_clusters.get(name, _NOTHING)
        if old.problem is not None:
            entry["unknown"].append(name)
            old = _NOTHING
        if new.problem is not None:
            failure = new.problem
            entry["failures"].append({"cluster": name, "reason": str(failure.cause), "message": failure.message})
            continue
        pair = id(old), id(new)
        if pair not in comparisons:
            comparisons[pair] = _Comparison(old, new, kinds)
        comparison = comparisons[pair]
        groups.setdefault(comparison.key, (comparison, []))[1].append(name)
    for comparison, clusters in groups.values():
        objects = [room.take(entry) for entry in comparison.objects() if scope.unchanged or entry["diff"]]
        if objects or scope.unchanged:
            entry["groups"].append({"clusters": clusters, "objects": objects, "unchanged": comparison.unchanged})
    return entry


class _Comparison:
    """The objects of a cluster before and after, with the values of Secrets hidden.

    Args:
        before: The present content.
        after: The later content.
        kinds: The known kinds.
    """

    def __init__(self, before: RenderedContent, after: RenderedContent, kinds: Mapping[tuple[str, str], Kind]) -> None:
        old, new = by_identity(before.objects(kinds)), by_identity(after.objects(kinds))
        pairs: list[tuple[ObjectIdentity, JsonObject | None, JsonObject | None]]
        pairs = [(identity, old.get(identity), content) for identity, content in new.items()]
        pairs += [(identity, content, None) for identity, content in reversed(old.items()) if identity not in new]
        self._kinds = kinds
        self._pairs = [_HiddenPair.of(identity, before, after) for identity, before, after in pairs]

    @cached_property
    def key(self) -> bytes:
        """Key of the comparison. Comparisons that are shown alike have equal keys."""
        return dump_json([pair[1:] for pair in self._pairs])

    @property
    def unchanged(self) -> int:
        """Number of objects that do not change."""
        return sum(pair.change == UNCHANGED for pair in self._pairs)

    def objects(self) -> Iterator[RenderedObject]:
        """Yield the objects in the order of application. Removed objects come last."""
        for pair in self._pairs:
            group, kind, namespace, name = pair.identity
            yield {
                "change": pair.change,
                "group": group,
                "kind": kind,
                "namespace": namespace,
                "name": name,
                "wave": wave_in(pair.after or pair.before, self._kinds),
                "manifest": pair.manifest,
                "diff": pair.diff(),
            }


class _HiddenPair(NamedTuple):
    """An object before and after, without the values of Secrets.

    Args:
        identity: The object.
        before: The object before the changes, empty if it is added. Values that change are marked.
        after: The object after the changes, empty if it is removed. Values that change are marked.
        manifest: The later object without marks. None if it is removed.
    """

    identity: ObjectIdentity
    before: JsonObject
    after: JsonObject
    manifest: JsonObject | None

    @classmethod
    def of(cls, identity: ObjectIdentity, before: JsonObject | None, after: JsonObject | None) -> "_HiddenPair":
        """Hide the values of Secrets in an object, and sort its members as the API server does."""
        old, new = _sorted(before or {}), _sorted(after or {})
        return cls(identity, *hidden(old, new), None if after is None else hidden(new, new)[1])

    @property
    def change(self) -> str:
        """Kind of the change: a `ChangeKind`, or `UNCHANGED`."""
        if not self.before:
            return ChangeKind.ADDED
        if not self.after:
            return ChangeKind.REMOVED
        return UNCHANGED if dump_json(self.before) == dump_json(self.after) else ChangeKind.CHANGED

    def diff(self) -> list[str]:
        """Return the lines of a unified diff without file names. Empty if the object is unchanged."""
        if self.change == UNCHANGED:
            return []
        before, after = (format_yaml(side).splitlines() if side else [] for side in (self.before, self.after))
        if len(before) * len(after) > _MOST_LINE_PAIRS:
            return _one_hunk(before, after)
        return list(difflib.unified_diff(before, after, lineterm=""))[2:]


def _one_hunk(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return a unified diff in which everything between the first and the last changed line is replaced."""
    shortest = min(len(before), len(after))
    start = next((i for i in range(shortest) if before[i] != after[i]), shortest)
    end = next((i for i in range(shortest - start) if before[-1 - i] != after[-1 - i]), shortest - start)
    first = max(0, start - _CONTEXT_LINES)
    old, new = (side[: len(side) - max(0, end - _CONTEXT_LINES)] for side in (before, after))
    tail = min(end, _CONTEXT_LINES)
    return [
        f"@@ -{first + 1},{len(old) - first} +{first + 1},{len(new) - first} @@",
        *(f" {line}" for line in old[first:start]),
        *(f"-{line}" for line in old[start : len(old) - tail]),
        *(f"+{line}" for line in new[start : len(new) - tail]),
        *(f" {line}" for line in old[len(old) - tail :]),
    ]


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
