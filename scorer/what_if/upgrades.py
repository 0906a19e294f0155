"""Forecast of upgrade runs after changes to a hub, as one document for users and programs.

Each run is evaluated by the engine of the loop at the present instant, one after another by name, so that two runs do
not start an upgrade of one member. Its plan is that of its status: the engine with an advanced clock. Back ends are not
queried. Their last reports are used instead, and they are assumed to support the upgrade.

Source: docs/specifications/what-if.md 8; docs/specifications/upgrade-runs.md 7, 9 and 14.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

import pydantic

from scorer.api.conditions import FALSE, TRUE, find_condition
from scorer.api.family import placement_ref
from scorer.api.kinds import UPGRADE_GATE, UPGRADE_RUN
from scorer.api.meta import JsonObject, first_mistake
from scorer.api.unstructured.documents import is_deleting, name_of, namespace_of, spec_of, text_at
from scorer.api.upgrade.fields import UpgradeState, UpgradeType
from scorer.api.upgrade.gate import ClusterUpgradeGate, GateState, UpgradeGateStatus
from scorer.api.upgrade.plan import PlannedAction, UpgradePlan
from scorer.api.upgrade.run import ClusterUpgradeRun, PlacementGuardMode, UpgradeRunState
from scorer.api.upgrade.strategy import ClusterUpgradeStrategy, StrategySpec
from scorer.api.upgrade.version_catalog import VersionCatalogSpec
from scorer.api.values.quoting import format_count, quote
from scorer.upgrade.back_ends.interface import Capabilities
from scorer.upgrade.back_ends.inventories import reported_inventory
from scorer.upgrade.evaluation.conditions import INITIALIZED
from scorer.upgrade.evaluation.engine import advance
from scorer.upgrade.evaluation.gates import APPROVED, REJECTED
from scorer.upgrade.members.member import Member, read_member
from scorer.upgrade.members.windows import targets_of
from scorer.upgrade.planning.durations import Sample, estimates, samples_of
from scorer.upgrade.planning.forecast import no_deadline
from scorer.upgrade.planning.plan import plan_of
from scorer.upgrade.simulation.hub import gates_of
from scorer.upgrade.state.facts import UpgradeRunFacts
from scorer.upgrade.state.operations import occupied_members, with_operation
from scorer.upgrade.state.placement_guard import GuardedPlacement, by_cluster, guarded_placements
from scorer.upgrade.state.record import OVER, plan_document
from scorer.upgrade.state.step import StartUpgrade, UpgradeStep
from scorer.upgrade.versions.catalog import ReleaseCatalog
from scorer.what_if.changes import apply_changes, unchanged
from scorer.what_if.planned import GateReason, PlannedOutcome, PlannedUpgrade, UpgradeOutlook
from scorer.what_if.state import HubState, HypotheticalChanges, identity_of
from scorer.windows.member_windows import WindowDefinition, windows_of

BACK_ENDS: Final = "back ends are assumed to support the upgrade: their last reports are used"


def planned_upgrades(
    state: HubState, changes: HypotheticalChanges, pulse: Callable[[], None] = no_deadline
) -> list[PlannedUpgrade]:
    """Return the forecast of every unfinished upgrade run, and of each that changes or is deleted, by name.

    Args:
        state: The present hub.
        changes: The hypothetical changes. Without any, the forecast shows what happens anyway.
        pulse: Called repeatedly. An exception that it raises aborts the forecast.
    """
    kind = UPGRADE_RUN.group_kind
    changed_names = {name_of(item) for item in changes.objects if identity_of(item)[:2] == kind}
    deleted_names = {item.name for item in changes.deleted if item[:2] == kind}
    if not (state.upgrade_runs or changed_names):
        return []
    new_state = apply_changes(state, changes).state if changes else unchanged(state).state
    entries = _Upgrades(new_state, pulse).entries(changed_names)
    if not changes:
        return entries
    old_entries = {entry["name"]: entry for entry in _Upgrades(unchanged(state).state, pulse).entries()}
    entries += [_deleted(entry) for name, entry in old_entries.items() if name in deleted_names]
    for entry in entries:
        if (old_entry := old_entries.get(entry["name"])) is not None:
            entry["changed"] = {**entry, "changed": False} != {**old_entry, "changed": False}
    return sorted(entries, key=lambda entry: entry["name"])


def gate_outcomes(state: HubState, changes: HypotheticalChanges) -> Iterator[PlannedOutcome]:
    """Yield the outcome of each gate that changes: whether its run accepts the approval.

    Args:
        state: The present hub.
        changes: The hypothetical changes.
    """
    gates = [item for item in changes.objects if identity_of(item)[:2] == UPGRADE_GATE.group_kind]
    if not gates:
        return
    upgrades = _Upgrades(apply_changes(state, changes).state)
    for gate in sorted(gates, key=name_of):
        reason, message = upgrades.gate_outcome(gate)
        yield {
            "kind": UPGRADE_GATE.kind,
            "namespace": "",
            "name": name_of(gate),
            "reason": reason,
            "message": message,
        }


class _Upgrades:
    """The upgrade runs of a hub.

    Args:
        state: The hub.
        pulse: Called repeatedly while a run is planned.
    """

    def __init__(self, state: HubState, pulse: Callable[[], None] = no_deadline) -> None:
        self._state = state
        self._pulse = pulse
        self._members: dict[UpgradeType, dict[str, Member]] = {}
        self._runs = {run.metadata.name: run for document in state.upgrade_runs if (run := _read(document)) is not None}
        self._steps: dict[str, tuple[UpgradeRunFacts, UpgradeStep]] = {}

    def entries(self, named: frozenset[str] | set[str] = frozenset()) -> list[PlannedUpgrade]:
        """Return the entries of the unfinished runs, and of the *named* ones."""
        documents = sorted(self._state.upgrade_runs, key=name_of)
        return [
            self._entry(document)
            for document in documents
            if name_of(document) in named or text_at(document, "status", "state") not in OVER
        ]

    def gate_outcome(self, document: JsonObject) -> tuple[GateReason, str]:
        """Return reason and message of a changed gate."""
        name, parent = name_of(document), text_at(document, "spec", "runName")
        run = self._runs.get(parent)
        if run is None:
            return "UnknownRun", f"there is no run {quote(parent)}"
        if run.status.state in OVER:
            return "RunFinished", f"run {parent} is {run.status.state.value}"
        approval = find_condition(_gate_status(document).conditions, APPROVED)
        rejects = approval is not None and (approval.status, approval.reason) == (FALSE, REJECTED)
        if approval is None or not (rejects or approval.status == TRUE):
            return "NotApproved", "it has no condition Approved with status True, or status False and reason Rejected"
        if _gate_status(document).state not in (None, GateState.PENDING):
            return "NotAccepted", "it is no longer Pending"
        before = {gate.gate: gate.state for _, gate in gates_of(run.status)}
        if before.get(name) is not UpgradeState.PENDING:
            return "NotAccepted", f"run {parent} does not wait for it now"
        if rejects:
            return "Rejected", f"it stops run {parent}"
        _, step = self._step(parent)
        after = {gate.gate: gate.state for _, gate in gates_of(step.status)}
        if after.get(name) is UpgradeState.COMPLETED:
            return "Accepted", f"run {parent} accepts it"
        return "NotAccepted", f"run {parent} does not accept it while it is {step.status.state.value}"

    def _entry(self, document: JsonObject) -> PlannedUpgrade:
        name = name_of(document)
        entry = _bare(document)
        try:
            run = ClusterUpgradeRun.read(document)
        except pydantic.ValidationError as error:
            return _with_finding(entry, "Refused", "Unreadable", first_mistake(error))
        if is_deleting(document):
            return _with_finding(entry, "Over", "Deleted", "the run is being deleted")
        if run.status.state in OVER:
            return _with_finding(entry, "Over", run.status.state.value, "the run is finished")
        facts, step = self._step(name)
        initialized = find_condition(step.status.conditions, INITIALIZED)
        if run.status.start_time is None and initialized is not None and initialized.status == FALSE:
            return _with_finding(entry, "Refused", initialized.reason, initialized.message)
        plan = plan_of(run, facts, self._placements, pulse=self._pulse)
        is_new = run.status.start_time is None
        next_members = [action.operation.member for action in step.actions if isinstance(action, StartUpgrade)]
        return {
            **entry,
            "phase": "New" if is_new else "UnderWay",
            "next": next_members,
            "plan": plan_document(plan),
            "assumptions": [*_assumptions(run, step), BACK_ENDS],
            "changed": bool(next_members) or _starts_later(plan),
        }

    def _step(self, name: str) -> tuple[UpgradeRunFacts, UpgradeStep]:
        """Return the facts of a run, and its next step. Runs before it have taken theirs."""
        if name not in self._steps:
            for earlier in sorted(self._runs):
                if earlier not in self._steps:
                    self._take_step(self._runs[earlier])
                if earlier == name:
                    break
        return self._steps[name]

    def _take_step(self, run: ClusterUpgradeRun) -> None:
        facts = self._facts(run)
        step = advance(run, facts)
        name = run.metadata.name
        self._steps[name] = facts, step
        self._runs[name] = run.model_copy(update={"status": step.status})

    def _facts(self, run: ClusterUpgradeRun) -> UpgradeRunFacts:
        members = self._members_of(run.spec.upgrade.type)
        others = (other for name, other in sorted(self._runs.items()) if name != run.metadata.name)
        guards = run.spec.placement_guard.mode is PlacementGuardMode.ENFORCE
        return UpgradeRunFacts(
            now=self._state.now.replace(microsecond=0),
            members=members,
            strategy=self._strategy(run),
            windows=self._windows,
            catalog=self._catalog,
            upgraders={member.upgrader: Capabilities() for member in members.values()},
            gates={name: _gate_status(gate) for name, gate in self._gates.items()},
            busy=dict(member for other in others for member in occupied_members(other)),
            durations=estimates(self._samples, members, run.spec.upgrade.type),
            guarded=by_cluster(self._placements) if guards else {},
        )

    def _strategy(self, run: ClusterUpgradeRun) -> StrategySpec | None:
        ref = run.spec.strategy_ref
        if ref is None or run.status.start_time is not None:
            return None
        for document in self._state.upgrade_strategies:
            if name_of(document) == ref.name:
                try:
                    return ClusterUpgradeStrategy.read(document).spec
                except pydantic.ValidationError:
                    return None
        return None

    def _members_of(self, upgrade: UpgradeType) -> Mapping[str, Member]:
        if upgrade not in self._members:
            self._members[upgrade] = dict(self._read_members(upgrade))
        return self._members[upgrade]

    def _read_members(self, upgrade: UpgradeType) -> Iterator[tuple[str, Member]]:
        targets, requests = targets_of(upgrade), self._requests
        selectors = [window for window in self._windows.values() if window.selector is not None]
        for member in self._state.fleet.members:
            metadata, joined = member.metadata, find_condition(member.status.conditions, "Joined")
            if metadata.deletion_timestamp is not None or joined is None or joined.status != TRUE:
                continue
            name = metadata.name
            own_metadata = {"name": name, "labels": dict(metadata.labels), "annotations": dict(metadata.annotations)}
            document: JsonObject = {"metadata": own_metadata}
            windows = windows_of(document, self._windows, targets, selectors)
            yield name, read_member(document, windows, reported_inventory(document, requests.get(name, ())))

    @cached_property
    def _windows(self) -> Mapping[str, WindowDefinition]:
        return {name_of(document): WindowDefinition.of(document) for document in self._state.windows}

    @cached_property
    def _gates(self) -> Mapping[str, JsonObject]:
        return {name_of(gate): gate for gate in self._state.upgrade_gates if not is_deleting(gate)}

    @cached_property
    def _catalog(self) -> ReleaseCatalog:
        return ReleaseCatalog.of(_catalogs(self._state.catalogs))

    @cached_property
    def _samples(self) -> Sequence[Sample]:
        return [sample for run in self._runs.values() for sample in samples_of(run)]

    @cached_property
    def _requests(self) -> Mapping[str, Sequence[JsonObject]]:
        requests: dict[str, list[JsonObject]] = {}
        for request in self._state.upgrade_requests:
            requests.setdefault(text_at(request, "spec", "memberName"), []).append(request)
        return requests

    @cached_property
    def _placements(self) -> Sequence[GuardedPlacement]:
        placements = {placement_ref(name_of(item), namespace_of(item)): item for item in self._state.placements}
        budgets = {placement_ref(name_of(budget)): budget for budget in self._state.budgets}
        return guarded_placements(self._state.bindings, placements.get, budgets.get)


def _read(document: JsonObject) -> ClusterUpgradeRun | None:
    try:
        return None if is_deleting(document) else ClusterUpgradeRun.read(document)
    except pydantic.ValidationError:
        return None


def _gate_status(document: JsonObject) -> UpgradeGateStatus:
    try:
        return ClusterUpgradeGate.read(document).status
    except pydantic.ValidationError:
        return UpgradeGateStatus()


def _catalogs(documents: Sequence[JsonObject]) -> Iterator[VersionCatalogSpec]:
    for document in documents:
        try:
            yield VersionCatalogSpec.read(spec_of(document))
        except pydantic.ValidationError:
            continue


def _bare(document: JsonObject) -> PlannedUpgrade:
    """Return the entry of a run without a forecast."""
    spec = spec_of(document)
    return {
        "name": name_of(document),
        "strategy": text_at(spec, "strategyRef", "name"),
        "type": text_at(spec, "upgrade", "type"),
        "kubernetesVersion": text_at(spec, "upgrade", "kubernetesVersion"),
        "state": text_at(spec, "state") or str(UpgradeRunState.INITIALIZE),
        "phase": "New",
        "finding": None,
        "next": [],
        "plan": None,
        "assumptions": [],
        "changed": False,
    }


def _with_finding(entry: PlannedUpgrade, phase: UpgradeOutlook, cause: str, message: str) -> PlannedUpgrade:
    return {**entry, "phase": phase, "finding": {"cause": cause, "message": message}}


def _deleted(entry: PlannedUpgrade) -> PlannedUpgrade:
    """Return the entry of a run that is deleted."""
    message = "the run is deleted: no further upgrade starts, and those in progress are not observed"
    return {**_with_finding(entry, "Over", "Deleted", message), "next": [], "plan": None, "assumptions": []}


def _starts_later(plan: UpgradePlan) -> bool:
    """Return whether a plan starts any upgrade from now on."""
    starts = (member.start for member in plan.members if member.action is PlannedAction.UPGRADE)
    return any(start is not None and plan.computed_at is not None and start >= plan.computed_at for start in starts)


def _assumptions(run: ClusterUpgradeRun, step: UpgradeStep) -> Iterator[str]:
    """Yield the assumptions of the plan."""
    state = step.status.state
    if state in (UpgradeState.NOT_STARTED, UpgradeState.STOPPED, UpgradeState.STOPPING, UpgradeState.FAILED):
        yield f"the run is {state.value}: it is assumed to be started now"
    if in_flight := sum(1 for _ in with_operation(run.status)):
        yield f"{format_count(in_flight, 'upgrade')} in progress {'is' if in_flight == 1 else 'are'} assumed to succeed"
    if any(True for _ in gates_of(step.status)):
        yield "an approval is assumed to be given when the run reaches its gate"
