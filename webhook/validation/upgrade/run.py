"""Rules on ClusterUpgradeRun: its goal, its sequence, and the changes that its current state allows.

Source: docs/specifications/upgrade-runs.md 3.3, 4.2 and 9.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scorer.api.meta import JsonObject, json_equal
from scorer.api.unstructured.documents import spec_of, text_at
from scorer.api.upgrade.fields import NodeImageSelection, UpgradeState, UpgradeType
from scorer.api.upgrade.run import (
    SHORTEST_MEMBER_UPGRADE_SECONDS,
    ClusterUpgradeRun,
    NodeImageChoice,
    SkipTarget,
    Upgrade,
    UpgradeRunSpec,
    UpgradeRunState,
)
from scorer.api.values.quoting import quote
from scorer.upgrade.state.record import OVER
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, Cause, FieldError, duplicate, invalid
from webhook.validation.framework.reading import Finding, PartialObject, read_object
from webhook.validation.framework.rule import CREATE, OURS, UPDATE, deny, enforces, shape_rules
from webhook.validation.upgrade.shape import (
    VERSIONS,
    WRITTEN_BY_USERS,
    validate_about,
    validate_reference,
    validate_selector,
    validate_version,
)
from webhook.validation.upgrade.strategy import SEQUENCE_RULES, validate_sequence

UPGRADE: Final = SPEC / "upgrade"
NODE_IMAGE: Final = UPGRADE / "nodeImage"
VERSION: Final = UPGRADE / "kubernetesVersion"

RULES: Final = (
    *WRITTEN_BY_USERS,
    *SEQUENCE_RULES,
    VERSIONS,
    deny(
        "C-10",
        "upgrade, strategyRef, strategy and memberSelector are immutable once the run has started.",
        OURS,
        on=UPDATE,
    ),
    deny("C-11", "Only ttlSecondsAfterFinished may change in a finished run.", OURS, on=UPDATE),
    deny("C-12", "strategy and strategyRef are mutually exclusive.", OURS),
    deny(
        "C-13", "state may change only from Initialize to Run, from Run to Stop and from Stop to Run.", OURS, on=UPDATE
    ),
    deny("C-14", "Skip targets may only be appended. Existing ones are immutable.", OURS, on=UPDATE),
    deny("C-15", "kubernetesVersion must be set, except for NodeImageOnly, where it must not be set.", OURS),
    deny("C-16", "nodeImage must not be set when the type is ControlPlaneOnly.", OURS),
    deny("C-17", "customVersions must be set when selection is Custom, and must not be set otherwise.", OURS),
    deny("C-18", f"memberUpgradeSeconds must be 0, or at least {SHORTEST_MEMBER_UPGRADE_SECONDS}.", OURS),
    deny("C-36", "customVersions must have one entry for each family.", OURS),
    deny("C-37", "A new run must not have state Stop.", OURS, on=CREATE),
    deny("C-38", "A run that is still stopping must not be started again.", OURS, on=UPDATE),
    deny("C-39", "A new restartToken must not be set while the run is Running, Pending or Stopping.", OURS, on=UPDATE),
)
SHAPE_RULES: Final = shape_rules(RULES)

AT_WORK: Final = frozenset({UpgradeState.RUNNING, UpgradeState.PENDING, UpgradeState.STOPPING})
"""States in which a run must not be restarted."""
_FORBIDDEN_CHANGES: Final[Mapping[UpgradeRunState, frozenset[UpgradeRunState]]] = {
    UpgradeRunState.INITIALIZE: frozenset({UpgradeRunState.STOP}),
    UpgradeRunState.RUN: frozenset({UpgradeRunState.INITIALIZE}),
    UpgradeRunState.STOP: frozenset({UpgradeRunState.INITIALIZE}),
}
_FIXED_BY_START: Final = (
    ("strategyRef", "strategy_ref"),
    ("strategy", "strategy"),
    ("memberSelector", "member_selector"),
)


@enforces(*RULES)
def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
    """Yield the errors and warnings of a run. For a forbidden change of a finished run, that is the only error."""
    new = read_object(ClusterUpgradeRun, document, SHAPE_RULES)
    before = None if old is None else read_object(ClusterUpgradeRun, old)
    if old is not None and before is not None and _is_too_late(document, old, new, before):
        reason = f"the run is {_state(old)}: only ttlSecondsAfterFinished can be changed"
        yield FieldError(SPEC, Cause.FORBIDDEN, reason, "C-11")
        return
    yield from map(_at_its_type, new.errors)
    if new.view is not None:
        yield from new.trusted(_judge(new.view, before.view if before else None, old, context))


def _at_its_type(error: FieldError) -> FieldError:
    """Return an error about a missing ``upgrade`` as one about its ``type``, its first required field."""
    if error.field != UPGRADE or error.cause is not Cause.REQUIRED:
        return error
    return FieldError(UPGRADE / "type", error.cause, error.message, error.rule)


def _is_too_late(
    document: JsonObject,
    stored: JsonObject,
    new: PartialObject[ClusterUpgradeRun],
    old: PartialObject[ClusterUpgradeRun],
) -> bool:
    """Return whether an update of a finished run changes more than ``ttlSecondsAfterFinished`` (C-11)."""
    if _state(stored) not in OVER or json_equal(spec_of(document), spec_of(stored)):
        return False
    if new.errors or old.errors or new.view is None or old.view is None:
        return True
    return _but_retention(new.view.spec) != _but_retention(old.view.spec)


def _but_retention(spec: UpgradeRunSpec) -> UpgradeRunSpec:
    return spec.model_copy(update={"ttl_seconds_after_finished": None})


def _judge(
    new: ClusterUpgradeRun, old: ClusterUpgradeRun | None, stored: JsonObject | None, context: Context
) -> Iterator[Finding]:
    yield from validate_about(new.metadata, old.metadata if old else None, context)
    yield from _validate_goal(new.spec)
    if old is None or stored is None:
        yield from _validate_first_state(new.spec.state)
    else:
        yield from _validate_changes(new.spec, old.spec, stored)


def _validate_goal(spec: UpgradeRunSpec) -> Iterator[Finding]:
    """The upgrade, the sequence, the members and the timeouts of a run are valid."""
    yield from validate_upgrade(spec.upgrade)
    yield from validate_reference(spec.strategy_ref)
    if spec.strategy is not None:
        if spec.strategy_ref is not None:
            at = SPEC / "strategy"
            yield FieldError(
                at, Cause.FORBIDDEN, "must not be set when strategyRef is set", "C-12", (at, SPEC / "strategyRef")
            )
        yield from validate_sequence(spec.strategy, SPEC / "strategy")
    yield from validate_selector(spec.member_selector, SPEC)
    seconds = spec.timeouts.member_upgrade_seconds
    if 0 < seconds < SHORTEST_MEMBER_UPGRADE_SECONDS:
        reason = f"must be 0 (unlimited) or at least {SHORTEST_MEMBER_UPGRADE_SECONDS}"
        yield invalid(SPEC / "timeouts" / "memberUpgradeSeconds", seconds, reason, "C-18")


def validate_upgrade(upgrade: Upgrade) -> Iterator[FieldError]:
    """An upgrade has only the versions that its type upgrades (C-15, C-16)."""
    parts = (VERSION, UPGRADE / "type")
    if upgrade.type is UpgradeType.NODE_IMAGE_ONLY:
        if upgrade.kubernetes_version is not None:
            reason = f"{quote(upgrade.kubernetes_version)}: must not be set when type is NodeImageOnly"
            yield FieldError(VERSION, Cause.FORBIDDEN, reason, "C-15", parts)
    elif upgrade.kubernetes_version is None:
        yield FieldError(VERSION, Cause.REQUIRED, f"must be set when type is {upgrade.type}", "C-15", parts)
    else:
        yield from validate_version(upgrade.kubernetes_version, VERSION)
    if upgrade.node_image is None:
        return
    if upgrade.type is UpgradeType.CONTROL_PLANE_ONLY:
        reason = "must not be set when type is ControlPlaneOnly"
        yield FieldError(NODE_IMAGE, Cause.FORBIDDEN, reason, "C-16", (NODE_IMAGE, UPGRADE / "type"))
    else:
        yield from _validate_images(upgrade.node_image)


def _validate_images(choice: NodeImageChoice) -> Iterator[FieldError]:
    """Custom requires versions, and other selections take none (C-17). Each family has one version (C-36)."""
    at = NODE_IMAGE / "customVersions"
    parts = (at, NODE_IMAGE / "selection")
    if choice.selection is NodeImageSelection.CUSTOM and not choice.custom_versions:
        yield FieldError(at, Cause.REQUIRED, "must be set when selection is Custom", "C-17", parts)
    elif choice.selection is not NodeImageSelection.CUSTOM and choice.custom_versions:
        yield FieldError(at, Cause.FORBIDDEN, f"must not be set when selection is {choice.selection}", "C-17", parts)
    visited: set[str] = set()
    for i, image in enumerate(choice.custom_versions):
        if image.family in visited:
            yield duplicate(at / i / "family", image.family, rule="C-36")
        visited.add(image.family)


def _validate_first_state(state: UpgradeRunState) -> Iterator[FieldError]:
    """A new run must not have the state Stop (C-37)."""
    if state is UpgradeRunState.STOP:
        yield invalid(SPEC / "state", state, "must be Initialize or Run for a new run", "C-37")


def _validate_changes(new: UpgradeRunSpec, old: UpgradeRunSpec, stored: JsonObject) -> Iterator[FieldError]:
    """The current state of a run allows the changes to its spec."""
    state = _state(stored)
    yield from _validate_state_change(new.state, old.state, state)
    if not _is_too_early(new.state, old.state, state):
        yield from _validate_token(new, old, stored)
    yield from _validate_skip_targets(new.skip_targets, old.skip_targets)
    if text_at(stored, "status", "startTime"):
        yield from _validate_fixed(new, old)


def _validate_state_change(new: UpgradeRunState, old: UpgradeRunState, state: UpgradeState) -> Iterator[FieldError]:
    """A run cannot return to Initialize, stop before it has started (C-13), or start while it is Stopping (C-38)."""
    at = SPEC / "state"
    if new in _FORBIDDEN_CHANGES[old]:
        yield invalid(at, new, f"cannot follow {old}", "C-13")
    elif _is_too_early(new, old, state):
        yield invalid(at, new, "the run is still Stopping. Start it when it is Stopped", "C-38")


def _is_too_early(new: UpgradeRunState, old: UpgradeRunState, state: UpgradeState) -> bool:
    """Return whether a run is started while it is Stopping (C-38). The token of such a change is not checked."""
    return old is UpgradeRunState.STOP and new is UpgradeRunState.RUN and state is UpgradeState.STOPPING


def _validate_token(new: UpgradeRunSpec, old: UpgradeRunSpec, stored: JsonObject) -> Iterator[FieldError]:
    """A run that is at work cannot be restarted (C-39).

    Admission sets a token when the state changes from Stop to Run. This rule therefore also refuses that change until
    the run has processed the Stop.
    """
    state, token = _state(stored), new.restart_token
    known_tokens = {"", old.restart_token, text_at(stored, "status", "observedRestartToken")}
    if token not in known_tokens and state in AT_WORK:
        reason = f"the run is {state}: it can be restarted when it is Stopped or Failed"
        yield invalid(SPEC / "restartToken", token, reason, "C-39")


def _validate_skip_targets(new: tuple[SkipTarget, ...], old: tuple[SkipTarget, ...]) -> Iterator[FieldError]:
    """Skip targets are only appended, because a run records only the number of processed targets (C-14)."""
    if new[: len(old)] == old:
        return
    at = SPEC / "skipTargets"
    first = next((i for i, (now, then) in enumerate(zip(new, old, strict=False)) if now != then), len(new))
    target = old[first]
    reason = f"[{first}] {target.type} {quote(target.name)} cannot be changed or removed. Append new targets"
    yield FieldError(at, Cause.FORBIDDEN, reason, "C-14")


def _validate_fixed(new: UpgradeRunSpec, old: UpgradeRunSpec) -> Iterator[FieldError]:
    """A run that has started keeps its goal, its sequence and its members (C-10)."""
    reason = "cannot be changed once the run has started"
    if _goal(new.upgrade) != _goal(old.upgrade):
        yield FieldError(UPGRADE, Cause.FORBIDDEN, reason, "C-10")
    for field, attribute in _FIXED_BY_START:
        if getattr(new, attribute) != getattr(old, attribute):
            yield FieldError(SPEC / field, Cause.FORBIDDEN, reason, "C-10")


def _goal(upgrade: Upgrade) -> tuple[object, ...]:
    """Return the upgrade in a form that is equal for equivalent upgrades."""
    images = upgrade.node_image or NodeImageChoice()
    return upgrade.type, (upgrade.kubernetes_version or "").removeprefix("v"), images


def _state(stored: JsonObject) -> UpgradeState:
    """Return the state of a stored run, NotStarted if it has none or an unknown one."""
    state = text_at(stored, "status", "state")
    return UpgradeState(state) if state in tuple(UpgradeState) else UpgradeState.NOT_STARTED
