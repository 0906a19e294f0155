"""A proposal: changes to a hub that are judged by admission and planned by the engine, but not made.

Server and command line share all of it. They differ only in the source of the hub, a cache or files.

Source: docs/specifications/scheduling.md 22; docs/specifications/placement-api.md 2.8.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from scorer.api import kinds
from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.crd.pruning import apply_schema_defaults
from scorer.api.family import CLUSTER, FAMILIES, NAMESPACED, PLACEMENTS, Family, family_in
from scorer.api.kinds import KINDS, Kind, group_kind
from scorer.api.meta import JsonObject
from scorer.api.values.quoting import quote
from scorer.fleet import Fleet
from scorer.upgrade.planning.forecast import no_deadline
from scorer.what_if.assumptions import settled_placements, with_assumed_rollouts
from scorer.what_if.changes import with_dependent_objects
from scorer.what_if.document import what_if
from scorer.what_if.runs import approval_outcomes, planned_runs
from scorer.what_if.state import FIELDS, UNJUDGED, HubState, HypotheticalChanges, ObjectKey, identity_of
from scorer.what_if.upgrades import gate_outcomes, planned_upgrades
from webhook.access.rights import UNDISPUTED, Reviewed
from webhook.admission.documents import DocumentSet
from webhook.admission.judge import judge
from webhook.admission.registry import has_rules
from webhook.admission.rehearsal import RehearsalVerdict, WriteOperation, default, rehearse
from webhook.answers.plan_answer import AdmissionVerdict, Plan, PlanCoverage, verdict_document
from webhook.answers.proposed_objects import (
    APPROVALS,
    as_written,
    fleet_in_thought,
    is_readable,
    kinds_named,
    unknown_member,
    unknown_object,
)
from webhook.kube.ports import Key
from webhook.validation.framework.context import Context, HubKinds
from webhook.validation.framework.field import shape_errors

RUNS: Final = tuple(family.run for family in FAMILIES)
APPROVAL_REQUESTS: Final = tuple(family.approval_request for family in FAMILIES)
UPGRADES: Final = (
    kinds.UPGRADE_RUN,
    kinds.UPGRADE_STRATEGY,
    kinds.UPGRADE_GATE,
    kinds.UPGRADE_REQUEST,
    kinds.VERSION_CATALOG,
)
SHOWN_KINDS: Final = (*PLACEMENTS, *RUNS, *APPROVAL_REQUESTS, *UPGRADES)
"""Kinds that a plan is about. Those that the caller may not list are left out."""
_OVERRIDE_SNAPSHOTS: Final = frozenset(family.override_snapshot for family in FAMILIES)
CONTENT_SNAPSHOTS: Final = frozenset(family.resource_snapshot for family in FAMILIES) | _OVERRIDE_SNAPSHOTS
"""Kinds that hold the objects of placements."""
OVERRIDE_KINDS: Final = _OVERRIDE_SNAPSHOTS | {family.override for family in FAMILIES}
CLUSTER_WIDE: Final = frozenset(
    {kinds.MEMBER_CLUSTER, kinds.MAINTENANCE_WINDOW, CLUSTER.override, CLUSTER.override_snapshot}
)
"""Cluster-scoped kinds that decide on the placements of a namespace. An answer about a namespace has none of their
objects, but the decisions depend on them."""
_WITH_OBJECTS: Final = {kind.group_kind for kind in CONTENT_SNAPSHOTS | OVERRIDE_KINDS}
"""Kinds in `FIELDS` whose objects have parts of the objects of placements."""


class ProposedObject(NamedTuple):
    """An object that would be written. Its kind, name and namespace have been checked."""

    kind: Kind
    document: JsonObject

    @property
    def identity(self) -> ObjectKey:
        """Unique key of the object."""
        return identity_of(self.document)


class Deleted(NamedTuple):
    """An object that would be deleted. *kind* is ``KIND`` or ``KIND.GROUP``."""

    kind: str
    name: str
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """The proposed changes, all made together.

    Args:
        objects: Objects to create or replace.
        adopted: Objects that are on the hub already, but are judged as if they were created now.
        deleted: Objects to delete.
        lost: Member clusters that would be lost.
        drained: Member clusters to taint and drain.
        settles: Whether placements without bindings and snapshots count as rolled out before the changes.
    """

    objects: Sequence[ProposedObject] = ()
    adopted: Sequence[ProposedObject] = ()
    deleted: Sequence[Deleted] = ()
    lost: Sequence[str] = ()
    drained: Sequence[str] = ()
    settles: bool = True


class Misfit(NamedTuple):
    """One part of a proposal that does not fit the hub: JSON Pointer, kind of error, message."""

    pointer: str
    code: str
    detail: str


class ProposalError(Exception):
    """A proposal that does not fit the hub. Lists every error."""

    def __init__(self, mistakes: Sequence[Misfit]) -> None:
        super().__init__("; ".join(f"{mistake.pointer}: {mistake.detail}" for mistake in mistakes))
        self.mistakes = tuple(mistakes)


@dataclass(frozen=True, slots=True)
class Audience:
    """The objects that the caller may see, and those that the caller has requested.

    Args:
        kinds: The kinds of placements, of their runs, and of approval requests, that the caller may see.
        only: The requested placements. None: unlimited.
        runs: The requested staged update runs. None means all unfinished ones.
        contents: The kinds of resource snapshots and override snapshots that the caller may list.
        compared: The kinds of objects that admission may compare with, as group and kind. None: unlimited.
        selected: The kinds of stored objects that new placements may select, as group and kind. None: unlimited.
        namespace: The only namespace whose objects are visible. Empty: unlimited.
    """

    kinds: Collection[Kind] = frozenset(SHOWN_KINDS)
    only: Collection[ObjectKey] | None = None
    runs: Collection[ObjectKey] | None = None
    contents: Collection[Kind] = CONTENT_SNAPSHOTS
    compared: Collection[tuple[str, str]] | None = None
    selected: Collection[tuple[str, str]] | None = None
    namespace: str = ""

    def knows(self, identity: tuple[str, str]) -> bool:
        """Return whether the caller may see objects of a group and kind.

        Placements may be hidden, together with their bindings, snapshots and runs, and so may all kinds that admission
        must not compare with. Members are always visible.
        """
        if identity not in FIELDS:
            return self.compared is None or identity in self.compared
        kind = KINDS[identity]
        if kind in UPGRADES:
            return kind in self.kinds
        family = NAMESPACED if kind.namespaced else CLUSTER
        is_named = kind in (family.run, family.approval_request)
        return family.placement in self.kinds and (not is_named or kind in self.kinds)

    def sees_objects(self, family: Family) -> bool:
        """Return whether the caller may see the objects of a family's placements.

        That requires the override snapshots of both families, because overrides of both may apply to the objects. In
        its own namespace, the caller sees the effects of all overrides in the status of the placements.
        """
        overrides = frozenset() if self.namespace else _OVERRIDE_SNAPSHOTS
        return family.resource_snapshot in self.contents and overrides.issubset(self.contents)

    def decides(self, identity: tuple[str, str]) -> bool:
        """Return whether objects of a group and kind are inputs of the decisions on placements that the caller sees."""
        return self.knows(identity) or (bool(self.namespace) and KINDS[identity] in CLUSTER_WIDE)

    def covers(self, kind: Kind) -> bool:
        """Return whether an answer may be about *kind*."""
        return not self.namespace or kind.namespaced or kind in CLUSTER_WIDE

    def sees_effects(self, identity: tuple[str, str]) -> bool:
        """Return whether the caller may see the effects of a change to an object of a group and kind.

        The effects of an object that placements select reveal whether it equals the placed one.
        """
        sees_objects = all(self.sees_objects(family) for family in FAMILIES if family.placement in self.kinds)
        return self.knows(identity) and (sees_objects or (identity in FIELDS and identity not in _WITH_OBJECTS))


PLANNED_IF_THERE: Final = (kinds.MAINTENANCE_WINDOW, kinds.EVICTION, *APPROVAL_REQUESTS, *UPGRADES)
"""Kinds that a plan reads if the hub serves them and the caller may read them."""
PLANNED_KINDS: Final = (
    kinds.MEMBER_CLUSTER,
    *(kind for identity in FIELDS if (kind := KINDS[identity]) not in PLANNED_IF_THERE),
)
"""Kinds that a plan depends on."""
EVERYBODY: Final = Audience()
NO_REVIEWS: Final[Mapping[ObjectKey, Reviewed]] = {}


@dataclass(slots=True)
class _Judgements:
    """The verdicts of admission on a proposal, and the admitted changes."""

    admission: list[AdmissionVerdict] = field(default_factory=list)
    objects: list[JsonObject] = field(default_factory=list)
    members: list[MemberCluster] = field(default_factory=list)
    adopted: list[JsonObject] = field(default_factory=list)
    deleted: list[ObjectKey] = field(default_factory=list)
    hidden: list[ObjectKey] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class JudgedProposal:
    """A proposal after admission.

    Args:
        admission: The verdicts.
        state: The hub, with the adopted objects that admission allows and with the assumed rollouts.
        changes: The admitted changes.
        hidden: Changes that are omitted, as the caller may not list their kind.
        assumed: Placements that count as rolled out, because the hub has none of their snapshots.
    """

    admission: list[AdmissionVerdict]
    state: HubState
    changes: HypotheticalChanges
    hidden: Sequence[ObjectKey] = ()
    assumed: Sequence[ObjectKey] = ()


def plan(
    hub: DocumentSet,
    proposal: Proposal,
    context: Context,
    audience: Audience = EVERYBODY,
    reviews: Mapping[ObjectKey, Reviewed] = NO_REVIEWS,
    unread: Collection[Kind] = (),
    *,
    pulse: Callable[[], None] = no_deadline,
) -> Plan:
    """Return the verdicts of admission on a proposal, and its effects. Raises as `judge_proposal`.

    *unread* are kinds that the plan depends on and that are missing in *hub*, because they cannot be listed. *pulse* is
    called repeatedly while upgrade runs are planned. An exception that it raises aborts the plan.
    """
    judged = judge_proposal(hub, proposal, context, audience, reviews)
    outcome = what_if(judged.state, judged.changes, audience.only)
    for entry in outcome["placements"]:
        if not audience.sees_objects(family_in(entry["namespace"])):
            entry["rollout"]["contentHash"] = ""
    runs = planned_runs(judged.state, judged.changes, audience.runs, {kind.kind for kind in audience.contents})
    upgrades = planned_upgrades(judged.state, judged.changes, pulse) if audience.only is None else []
    outcomes = [
        *outcome["outcomes"],
        *approval_outcomes(judged.state, judged.changes),
        *gate_outcomes(judged.state, judged.changes),
    ]
    covered = coverage(judged, audience, unread, UNJUDGED)
    admission = judged.admission
    return {**outcome, "runs": runs, "upgrades": upgrades, "outcomes": outcomes, "admission": admission, **covered}


def judge_proposal(
    hub: DocumentSet,
    proposal: Proposal,
    context: Context,
    audience: Audience = EVERYBODY,
    reviews: Mapping[ObjectKey, Reviewed] = NO_REVIEWS,
    *,
    await_runs: bool = True,
) -> JudgedProposal:
    """Return the verdicts of admission on a proposal, and the admitted changes.

    Args:
        hub: The current hub.
        proposal: The changes. Those that admission refuses are omitted.
        context: Context of admission: the author, the kinds of the hub, the switches, the instant of the evaluation.
            The objects of *hub* replace its own.
        audience: Objects that the caller may see.
        reviews: The reviews of the author's rights, by object.
        await_runs: See `settled_placements`.

    Raises:
        ProposalError: The proposal names an object that is not on the hub, or one object twice.
    """
    deleted = _resolved(hub, proposal, context.kinds, audience)
    written_objects = [
        as_written(item.kind, item.document, stored(hub, item, audience), context.now) for item in proposal.objects
    ]
    fleet = fleet_in_thought(hub.fleet, written_objects, proposal.lost)
    documents = [document for document, _ in written_objects] + [item.document for item in proposal.adopted]
    documents = [document for document in documents if is_readable(document)]
    deletions = [((deletion.group, deletion.kind), Key(deletion.name, deletion.namespace)) for deletion in deleted]
    deletions += [(kinds.MEMBER_CLUSTER.group_kind, Key(name)) for name in proposal.lost]
    comparable = hub if audience.compared is None else hub.limited(audience.compared)
    overlay = comparable.overlaid(documents, deletions, fleet)
    context = replace(context, existing=overlay.existing, hub=overlay)
    judgements = _Judgements()
    for item in proposal.adopted:
        verdict = _verdict(item.document, None, "CREATE", context, UNDISPUTED)
        judgements.admission.append(verdict_document(item.identity, "CREATE", verdict))
        if verdict.allowed:
            judgements.adopted.append(verdict.document)
    for item, (document, notes) in zip(proposal.objects, written_objects, strict=True):
        old = stored(hub, item, audience)
        _judge(judgements, item, document, old, context, reviews.get(item.identity, UNDISPUTED), notes, audience)
    for identity in deleted:
        _judge_deletion(judgements, identity, hub, context)
    state = _state(hub, judgements.adopted, context, audience)
    changes = HypotheticalChanges(
        judgements.members, judgements.objects, frozenset(judgements.deleted), proposal.lost, proposal.drained
    )
    changes = with_dependent_objects(state, changes)
    settled: Collection[ObjectKey] = ()
    if changes and proposal.settles:
        settled = settled_placements(state, changes, judgements.adopted, await_runs=await_runs)
    state, assumed = with_assumed_rollouts(state, settled)
    return JudgedProposal(judgements.admission, state, changes, judgements.hidden, assumed)


def coverage(
    judged: JudgedProposal, audience: Audience, unread: Collection[Kind], unjudged_kinds: Collection[tuple[str, str]]
) -> PlanCoverage:
    """Return the parts of the proposal and of the hub that an answer does not cover."""
    changes = [*map(identity_of, judged.changes.objects), *judged.changes.deleted]
    unjudged = Counter(change.kind for change in changes if (change.group, change.kind) in unjudged_kinds)
    unread_kinds = {*unread, *(kind for kind in SHOWN_KINDS if kind not in audience.kinds)}
    hidden = sorted(judged.hidden)
    return {
        "complete": not (unjudged or hidden or any(map(audience.covers, unread_kinds))),
        "notJudged": [{"kind": kind, "count": count} for kind, count in sorted(unjudged.items())],
        "hidden": [{"kind": item.kind, "namespace": item.namespace, "name": item.name} for item in hidden],
        "unread": sorted(kind.resource for kind in unread_kinds if audience.covers(kind)),
        "assumed": [
            {"kind": item.kind, "namespace": item.namespace, "name": item.name}
            for item in sorted(judged.assumed)
            if audience.only is None or item in audience.only
        ],
    }


def stored(hub: DocumentSet, item: ProposedObject, audience: Audience) -> JsonObject | None:
    """Return the stored object that *item* would replace, or None if it does not exist or the caller may not see it."""
    if not audience.knows(item.kind.group_kind):
        return None
    return hub.find(item.kind, item.identity.name, item.identity.namespace)


def _verdict(
    document: JsonObject, old: JsonObject | None, operation: WriteOperation, context: Context, rights_review: Reviewed
) -> RehearsalVerdict:
    verdict = rehearse(document, old, operation, context, rights_review)
    if has_rules(document):
        return verdict
    return replace(verdict, warnings=())  # it would only warn that the kind has no rules


def _judge(
    judgements: _Judgements,
    item: ProposedObject,
    document: JsonObject,
    old: JsonObject | None,
    context: Context,
    rights_review: Reviewed,
    notes: Sequence[str],
    audience: Audience,
) -> None:
    if item.kind in APPROVALS and not audience.knows(item.kind.group_kind):
        old = document  # only controllers create approvals, so a user updates one that the caller may not see
    operation: WriteOperation = "CREATE" if old is None else "UPDATE"
    verdict = _verdict(document, old, operation, context, rights_review)
    verdict = replace(verdict, warnings=(*notes, *verdict.warnings))
    if verdict.allowed and item.kind == kinds.MEMBER_CLUSTER:
        try:
            judgements.members.append(MemberCluster.read(verdict.document))
        except ValidationError as error:  # admission tolerates old mistakes that an update leaves alone
            verdict = replace(verdict, errors=tuple(shape_errors(error)))
    elif verdict.allowed and audience.sees_effects(item.kind.group_kind):
        judgements.objects.append(verdict.document)
    elif verdict.allowed:
        judgements.hidden.append(item.identity)
    judgements.admission.append(verdict_document(item.identity, operation, verdict))


def _judge_deletion(judgements: _Judgements, identity: ObjectKey, hub: DocumentSet, context: Context) -> None:
    kind = context.kinds.find(identity.group, identity.kind)
    assert kind is not None
    old = hub.find(kind, identity.name, identity.namespace)
    assert old is not None
    verdict = RehearsalVerdict(old)
    if has_rules(old):
        judgement = judge("DELETE", None, old, context)
        refusal = "" if judgement.allowed else judgement.message
        verdict = RehearsalVerdict(old, judgement.errors, refusal, judgement.reason, judgement.warnings)
    judgements.admission.append(verdict_document(identity, "DELETE", verdict))
    if verdict.allowed:
        judgements.deleted.append(identity)


def _state(hub: DocumentSet, documents: Sequence[JsonObject], context: Context, audience: Audience) -> HubState:
    selectable = hub if audience.selected is None else hub.limited(audience.selected)
    fields: dict[str, Any] = {name: [] for name in FIELDS.values()}
    for kind, name in FIELDS.items():
        if audience.decides(kind):
            fields[name] += hub.existing(KINDS[kind])
    fields["placements"] = [*map(_defaulted, fields["placements"])]
    for document in documents:
        fields[FIELDS[group_kind(document)]].append(document)
    state = HubState(
        hub.fleet,
        context.now,
        content=partial(selectable.others, {*FIELDS, kinds.MEMBER_CLUSTER.group_kind}),
        kinds={**context.kinds.custom, **KINDS},
        removal=context.settings.removal,
        overrides_complete=all(hub.is_complete(kind) and audience.decides(kind.group_kind) for kind in OVERRIDE_KINDS),
    )
    return replace(state, **fields)


def _defaulted(placement: JsonObject) -> JsonObject:
    """Return a stored placement with current defaults, so that spelling out a default is not a change."""
    kind = KINDS[group_kind(placement)]
    return default(apply_schema_defaults(kind, placement), None, "CREATE").document


def _resolved(hub: DocumentSet, proposal: Proposal, hub_kinds: HubKinds, audience: Audience) -> list[ObjectKey]:
    """Return the identities of the deleted objects.

    Raises:
        ProposalError: A part of the proposal does not fit the hub, or another part.
    """
    mistakes = list(_misfits(hub.fleet, proposal, audience, hub))
    deleted: dict[ObjectKey, str] = {}
    identities = {item.identity for item in proposal.objects}
    for at, deletion in enumerate(proposal.deleted):
        pointer = f"/deleted/{at}"
        matching_kinds = [kind for kind in kinds_named(deletion.kind, hub_kinds) if audience.knows(kind.group_kind)]
        if not kinds_named(deletion.kind, hub_kinds):
            mistakes.append(Misfit(f"{pointer}/kind", "unknown", f"{quote(deletion.kind)} is not a known kind"))
            continue
        existing_kinds = [
            kind for kind in matching_kinds if hub.find(kind, deletion.name, deletion.namespace) is not None
        ]
        place = f"{deletion.namespace}/{deletion.name}" if deletion.namespace else deletion.name
        if not existing_kinds:
            mistakes.append(Misfit(f"{pointer}/name", "unknown", f"there is no {deletion.kind} {quote(place)}"))
            continue
        identity = ObjectKey(*existing_kinds[0].group_kind, deletion.name, deletion.namespace)
        if identity in deleted or identity in identities:
            first_pointer = deleted.get(identity) or "/objects"
            mistakes.append(Misfit(pointer, "duplicate", f"{deletion.kind} {quote(place)} is also in {first_pointer}"))
        deleted.setdefault(identity, pointer)
    if mistakes:
        raise ProposalError(mistakes)
    return list(deleted)


def _misfits(fleet: Fleet, proposal: Proposal, audience: Audience, hub: DocumentSet) -> Iterator[Misfit]:
    places: dict[ObjectKey, int] = {}
    for at, item in enumerate(proposal.objects):
        if (first := places.setdefault(item.identity, at)) != at:
            detail = f"{item.identity.kind} {quote(item.identity.name)} is also in /objects/{first}"
            yield Misfit(f"/objects/{at}/metadata/name", "duplicate", detail)
    members = kinds.MEMBER_CLUSTER.group_kind
    positions = {place.name: at for place, at in places.items() if (place.group, place.kind) == members}
    removals: dict[str, str] = {
        deletion.name: f"/deleted/{at}"
        for at, deletion in enumerate(proposal.deleted)
        if deletion.kind == kinds.MEMBER_CLUSTER.kind
    }
    for member, names in (("lost", proposal.lost), ("drained", proposal.drained)):
        for at, name in enumerate(names):
            pointer = f"/{member}/{at}"
            if fleet.row(name) is None:
                yield Misfit(pointer, "unknown", unknown_member(name, fleet))
            elif (first_at := removals.setdefault(name, pointer)) != pointer:
                yield Misfit(pointer, "duplicate", f"member cluster {quote(name)} is also in {first_at}")
            elif member == "lost" and name in positions:
                yield Misfit(
                    pointer, "duplicate", f"member cluster {quote(name)} is also in /objects/{positions[name]}"
                )
    identities = places.keys() | {item.identity for item in proposal.adopted}
    for member, refs in (("placements", audience.only), ("runs", audience.runs)):
        for at, identity in enumerate(refs or ()):
            kind = KINDS[identity.group, identity.kind]
            visible = audience.knows(kind.group_kind)
            if not visible or (
                identity not in identities and hub.find(kind, identity.name, identity.namespace) is None
            ):
                others = {identity_of(document) for document in hub.existing(kind)} if visible else set()
                others |= {other for other in identities if visible and other[:2] == identity[:2]}
                yield Misfit(f"/{member}/{at}", "unknown", unknown_object(identity, others))
