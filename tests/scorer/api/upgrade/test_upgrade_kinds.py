"""The kinds of upgrade.harbormaster.dev: what upgrade-runs.md shows can be read, kept and written out again."""

from datetime import date

import pytest
import yaml
from pydantic import ValidationError

from scorer.api.crd.cel import CEL_RULES
from scorer.api.crd.definitions import structural_schema
from scorer.api.crd.models import MODELS
from scorer.api.crd.pruning import apply_schema_defaults, prune
from scorer.api.kinds import (
    KINDS,
    MAINTENANCE_WINDOW,
    OUR_KINDS,
    UPGRADE_GATE,
    UPGRADE_GROUP,
    UPGRADE_PROFILE,
    UPGRADE_REQUEST,
    UPGRADE_RUN,
    UPGRADE_STRATEGY,
    VERSION_CATALOG,
    group_kind,
)
from scorer.api.upgrade.fields import UpgradeState, UpgradeType, Weekday
from scorer.api.upgrade.gate import GateState
from scorer.api.upgrade.run import OnPendingTimeout, WindowReservation

UPGRADE_KINDS = [kind for kind in OUR_KINDS if kind.group == UPGRADE_GROUP]

STRATEGY = """
kind: ClusterUpgradeStrategy
metadata: {name: rings}
spec:
  stages:
  - name: canary
    groups: [{name: canary-eu}, {name: canary-us}]
    afterStageWaitSeconds: 3600
    afterGates: [{type: Approval, displayName: "canary healthy?"}]
  - name: production
    memberSelector: {matchLabels: {env: prod}}
    maxConcurrency: "25%"
    maxAllowedFailures: "1"
    groups:
    - {name: front, memberSelector: {matchLabels: {tier: front}}, maxConcurrency: "2", maxAllowedFailures: "1"}
    - {name: back,  memberSelector: {matchLabels: {tier: back}}}
"""
RUN = """
kind: ClusterUpgradeRun
metadata: {name: to-1-31}
spec:
  state: Run
  restartToken: again
  strategyRef: {name: rings}
  memberSelector: {matchExpressions: [{key: env, operator: In, values: [prod, canary]}]}
  upgrade:
    type: Full
    kubernetesVersion: 1.31.2
    nodeImage: {selection: Custom, customVersions: [{family: ubuntu-2204, version: "202503.21.0"}]}
  skipTargets: [{type: Member, name: c7}, {type: Member, name: c7}, {type: AfterStageWait, name: canary}]
  timeouts: {memberUpgradeSeconds: 0, pendingSeconds: 86400, onPendingTimeout: Skip, gateSeconds: 60}
  versionPolicy: {onUnsupportedJump: Skip, onNotReady: Fail}
  windowPolicy: {mode: Ignore, reservation: Strict, tieBreak: ClosingSoonest, requireFit: true}
  placementGuard: {mode: Enforce}
  ttlSecondsAfterFinished: 3600
status:
  state: Running
  startTime: "2025-01-06T00:00:00Z"
  restarts: 0
  observedGeneration: 3
  observedRestartToken: ""
  observedSkipTargets: 0
  strategySnapshot: {stages: [{name: canary, groups: [{name: canary-eu}]}]}
  resolved:
    kubernetesVersion: 1.31.2
    nodeImages: [{family: ubuntu-2204, version: "202503.21.0"}]
  counts: {total: 12, completed: 4, skipped: 1, failed: 0, running: 2, pending: 1, notStarted: 4, stopped: 0}
  failureCount: 0
  nextWakeup: "2025-01-06T04:00:00Z"
  stages:
  - name: canary
    state: Completed
    startTime: "2025-01-06T00:00:00Z"
    completionTime: "2025-01-06T02:00:00Z"
    message: ""
    failureCount: 0
    maxConcurrency: 50
    maxAllowedFailures: 0
    beforeGates: []
    afterGates: [{displayName: "healthy?", type: Approval, gate: to-1-31-canary-after-0-1a2b3c4d, state: Completed}]
    afterStageWait: {seconds: 3600, state: Completed, startTime: "2025-01-06T01:00:00Z"}
    groups:
    - name: canary-eu
      state: Completed
      failureCount: 0
      maxConcurrency: 1
      maxAllowedFailures: 0
      beforeGates: []
      afterGates: []
      members:
      - name: c1
        state: Completed
        reason: ""
        message: ""
        attempt: 1
        operationID: 0b6ff2f6-7a3e-4a55-9a2f-1d3a1c5a1b11/c1/1
        upgrader: cluster-api
        startTime: "2025-01-06T00:00:00Z"
        completionTime: "2025-01-06T00:30:00Z"
        pendingSince: "2025-01-06T00:00:00Z"
        nextWindowOpen: "2025-01-06T00:00:00Z"
        fromVersion: 1.30.4
        toVersion: 1.31.2
        error: {code: "", message: ""}
  plan:
    computedAt: "2025-01-06T02:00:00Z"
    eta: "2025-01-06T23:00:00Z"
    etaP90: "2025-01-07T05:00:00Z"
    members:
    - {name: c2, action: Upgrade, start: "2025-01-06T04:00:00Z", end: "2025-01-06T04:30:00Z", boundBy: Window}
    - {name: c3, action: Skip, reason: AlreadyAtTarget}
    maxConcurrent: 2
    exposure: 1
    criticalPath: [{type: Gate, name: canary/After/0}, {type: Member, name: c2}]
    windowsMissed: [{name: c2, turn: "2025-01-06T02:00:00Z", lostSeconds: 7200}]
    blastRadius:
      stages:
      - name: canary
        clusters: 1
        nodes: 3
        regions: [westeurope]
        placements: [{name: web, clusters: 1, inUpgrade: 1, fullyExposed: true}]
    warnings: ["stage production waits although it is the last"]
  conditions:
  - {type: Progressing, status: "True", reason: UpgradeRunning, message: "", lastTransitionTime: "2025-01-06T00:00:00Z"}
"""
GATE = """
kind: ClusterUpgradeGate
metadata: {name: to-1-31-prod-before-0-1a2b3c4d}
spec:
  runName: to-1-31
  stage: prod
  group: eu
  timing: Before
  index: 0
  type: ScheduledStart
  displayName: at night
  scheduledStart: {startDay: Tuesday, startTime: "02:00", utcOffset: "+01:00"}
  absoluteStartTime: "2025-01-07T01:00:00Z"
status:
  state: Pending
  readiness: {start: 3, skip: 1, pending: 2, fail: 0, pendingReasons: {MaintenanceWindowClosed: 2}}
"""
PROFILE = """
kind: ClusterUpgradeProfile
metadata: {name: minor}
spec:
  channel: TargetKubernetesVersion
  strategyRef: {name: rings}
  memberSelector: {}
  nodeImage: {selection: Consistent}
  targetKubernetesVersion: "1.31"
  longTermSupport: true
  disabled: true
  autoStart: false
  concurrencyPolicy: Replace
  runHistoryLimit: 0
status:
  lastTriggeredAt: "2025-01-06T00:00:00Z"
  lastTriggerStatus: Failed
  lastTriggerError: {code: TargetVersionNotReleased, message: nothing}
  lastTriggerUpgradeVersions: [1.31.2]
  lastTriggerMessage: ""
  currentRun: auto-minor-targetkubernetesversion-1-31-2-1a2b3c4d
  nextCandidate: 1.31.3
"""
WINDOW = """
kind: ClusterMaintenanceWindow
metadata: {name: weekend-night}
spec:
  target: All
  memberSelector: {matchLabels: {env: prod}}
  schedule: {weekly: {intervalWeeks: 1, dayOfWeek: Saturday}}
  startTime: "22:00"
  durationHours: 8
  utcOffset: "+01:00"
  startDate: "2025-01-01"
  notAllowedDates: [{start: "2025-12-20", end: "2026-01-06"}]
"""
CATALOG = """
kind: ClusterVersionCatalog
metadata: {name: public}
spec:
  regions:
  - name: westeurope
    kubernetesVersions: [{version: 1.30.4}, {version: 1.31.2, phase: GA, lts: false}]
    nodeImages:
    - family: ubuntu-2204
      versions: [{version: "202503.07.0"}, {version: "202503.21.0", publishedAt: "2025-03-21T00:00:00Z"}]
"""
REQUEST = """
kind: ClusterUpgradeRequest
metadata: {name: to-1-31-c1-1-1a2b3c4d}
spec:
  operationID: 0b6ff2f6-7a3e-4a55-9a2f-1d3a1c5a1b11/c1/1
  runName: to-1-31
  memberName: c1
  upgradeType: Full
  kubernetesVersion: 1.31.2
  nodeImages: [{family: ubuntu-2204, version: "202503.21.0"}]
  deadline: "2025-01-06T04:00:00Z"
  dryRun: false
  cancelRequested: false
status:
  observedGeneration: 1
  phase: Accepted
  progressPercent: 0
  message: ""
  error: {code: "", message: ""}
  controlPlaneVersion: ""
  pools: [{name: np1, kubernetesVersion: 1.30.4, imageFamily: ubuntu-2204, imageVersion: "202503.07.0", nodes: 3}]
  heartbeatTime: "2025-01-06T00:01:00Z"
  finishedTime: "2025-01-06T00:30:00Z"
"""
EXAMPLES = [STRATEGY, RUN, GATE, PROFILE, WINDOW, CATALOG, REQUEST]


def load(text: str) -> dict:
    return {"apiVersion": f"{UPGRADE_GROUP}/v1alpha1", **yaml.safe_load(text)}


def read(kind, spec, status=None):
    """Read an object as it is after the API server has filled in the defaults."""
    document = {"spec": spec} | ({"status": status} if status is not None else {})
    return MODELS[kind.group_kind].read(apply_schema_defaults(kind, document))


examples = pytest.mark.parametrize("text", EXAMPLES, ids=[load(text)["kind"] for text in EXAMPLES])


def test_there_is_an_example_of_every_kind():
    assert {group_kind(load(text)) for text in EXAMPLES} == {kind.group_kind for kind in UPGRADE_KINDS}


@examples
def test_what_is_read_can_be_written_again(text):
    document = load(text)
    view = MODELS[group_kind(document)].read(document)
    assert view.model_dump(mode="json", by_alias=True, exclude_unset=True) == document


@examples
def test_the_schema_knows_every_field_of_the_examples(text):
    document = load(text)
    assert prune(KINDS[group_kind(document)], document).dropped == ()


@examples
def test_the_model_gives_an_object_the_same_defaults_as_the_schema(text):
    document = load(text)
    kind = KINDS[group_kind(document)]
    filled = apply_schema_defaults(kind, document)
    assert MODELS[kind.group_kind].read(filled).model_dump() == MODELS[kind.group_kind].read(document).model_dump()


FULL = {"upgrade": {"type": "Full", "kubernetesVersion": "1.31.2"}}
DAILY = {"schedule": {"daily": {"intervalDays": 1}}, "startTime": "22:00"}
IN_A_STAGE = {"runName": "r", "stage": "s", "timing": "Before", "index": 0, "type": "Approval"}
ATTEMPT = {"operationID": "u/c/1", "runName": "r", "memberName": "c", "upgradeType": "NodeImageOnly"}


def stage(**fields):
    return {"stages": [{"name": "a", "memberSelector": {}, **fields}]}


def test_the_least_of_a_strategy():
    (first,) = read(UPGRADE_STRATEGY, {"stages": [{"name": "a", "groups": [{"name": "g"}]}]}).spec.stages
    assert (first.max_concurrency, first.max_allowed_failures, first.after_stage_wait_seconds) == (None, None, 0)
    assert (first.groups[0].max_concurrency, first.groups[0].max_allowed_failures) == (1, 0)
    assert (first.member_selector, first.before_gates, first.after_gates) == (None, (), ())


def test_an_empty_selector_is_not_an_absent_one():
    (first,) = read(UPGRADE_STRATEGY, stage()).spec.stages
    assert first.member_selector is not None
    assert first.member_selector.matches({})


def test_the_least_of_a_run():
    run = read(UPGRADE_RUN, FULL)
    assert run.spec.upgrade.type is UpgradeType.FULL
    assert (run.spec.upgrade.node_image, run.spec.strategy, run.spec.member_selector) == (None, None, None)
    assert run.spec.timeouts.member_upgrade_seconds == 14400
    assert run.spec.timeouts.on_pending_timeout is OnPendingTimeout.WAIT
    assert run.spec.window_policy.reservation is WindowReservation.NONE
    assert (run.status.state, run.status.counts.total) == (UpgradeState.NOT_STARTED, 0)


def test_what_a_run_is_given_is_left_as_it_is():
    spec = {**FULL, "timeouts": {"memberUpgradeSeconds": 0}, "windowPolicy": {"requireFit": True}}
    filled = apply_schema_defaults(UPGRADE_RUN, {"spec": spec})["spec"]
    assert filled["timeouts"]["memberUpgradeSeconds"] == 0
    assert filled["windowPolicy"] == {"requireFit": True, "mode": "Respect", "reservation": "None", "tieBreak": "Name"}
    assert "nodeImage" not in filled["upgrade"]
    assert "strategy" not in filled


def test_the_least_of_the_others():
    assert read(UPGRADE_GATE, IN_A_STAGE).status.state is GateState.PENDING
    assert read(UPGRADE_PROFILE, {"channel": "NodeImage"}).spec.node_image is None
    assert read(UPGRADE_PROFILE, {"channel": "NodeImage", "nodeImage": {}}).spec.node_image.selection is None
    assert read(UPGRADE_REQUEST, ATTEMPT).status.phase is None
    window = read(MAINTENANCE_WINDOW, DAILY).spec
    assert (window.duration_hours, window.utc_offset, window.start_date) == (4, "+00:00", None)


def test_no_list_and_an_empty_one_differ_in_a_catalog():
    absent, empty = read(VERSION_CATALOG, {"regions": [{"name": "a"}, {"name": "b", "nodeImages": []}]}).spec.regions
    assert (absent.kubernetes_versions, absent.node_images) == (None, None)
    assert empty.node_images == ()


def test_days_and_weekdays():
    window = read(MAINTENANCE_WINDOW, load(WINDOW)["spec"]).spec
    assert window.schedule.weekly.day_of_week is Weekday.SATURDAY
    assert window.start_date == date(2025, 1, 1)
    assert [(range_.start, range_.end) for range_ in window.not_allowed_dates] == [
        (date(2025, 12, 20), date(2026, 1, 6))
    ]


@pytest.mark.parametrize(
    ("kind", "spec", "where"),
    [
        (UPGRADE_STRATEGY, {}, "spec.stages"),
        (UPGRADE_STRATEGY, {"stages": []}, "spec.stages"),
        (UPGRADE_STRATEGY, {"stages": [{"name": f"s{i}"} for i in range(32)]}, "spec.stages"),
        (UPGRADE_STRATEGY, stage(name=""), "spec.stages.0.name"),
        (UPGRADE_STRATEGY, stage(name="a" * 51), "spec.stages.0.name"),
        (UPGRADE_STRATEGY, {"stages": [{}]}, "spec.stages.0.name"),
        (UPGRADE_STRATEGY, stage(groups=[{"name": f"g{i}"} for i in range(51)]), "spec.stages.0.groups"),
        (UPGRADE_STRATEGY, stage(groups=[{"name": "a" * 51}]), "spec.stages.0.groups.0.name"),
        (UPGRADE_STRATEGY, stage(maxConcurrency=0.5), "spec.stages.0.maxConcurrency"),
        (UPGRADE_STRATEGY, stage(maxConcurrency=True), "spec.stages.0.maxConcurrency"),
        (UPGRADE_STRATEGY, stage(afterStageWaitSeconds=-1), "spec.stages.0.afterStageWaitSeconds"),
        (UPGRADE_STRATEGY, stage(afterStageWaitSeconds=2592001), "spec.stages.0.afterStageWaitSeconds"),
        (UPGRADE_STRATEGY, stage(beforeGates=[{"type": "Approval"}] * 6), "spec.stages.0.beforeGates"),
        (UPGRADE_STRATEGY, stage(afterGates=[{}]), "spec.stages.0.afterGates.0.type"),
        (
            UPGRADE_STRATEGY,
            stage(afterGates=[{"type": "Approval", "displayName": "a" * 101}]),
            "spec.stages.0.afterGates.0.displayName",
        ),
        (
            UPGRADE_STRATEGY,
            stage(beforeGates=[{"type": "ScheduledStart", "scheduledStart": {"startTime": "02:00"}}]),
            "spec.stages.0.beforeGates.0.scheduledStart.startDay",
        ),
        (UPGRADE_RUN, {}, "spec.upgrade"),
        (UPGRADE_RUN, {"upgrade": {}}, "spec.upgrade.type"),
        (UPGRADE_RUN, {"upgrade": {"type": "full"}}, "spec.upgrade.type"),
        (UPGRADE_RUN, {**FULL, "state": "Start"}, "spec.state"),
        (UPGRADE_RUN, {**FULL, "restartToken": "a" * 65}, "spec.restartToken"),
        (UPGRADE_RUN, {**FULL, "strategy": {"stages": []}}, "spec.strategy.stages"),
        (UPGRADE_RUN, {**FULL, "strategyRef": {"name": "a" * 51}}, "spec.strategyRef.name"),
        (UPGRADE_RUN, {**FULL, "skipTargets": [{"type": "All", "name": "a"}]}, "spec.skipTargets.0.type"),
        (UPGRADE_RUN, {**FULL, "skipTargets": [{"type": "Group", "name": ""}]}, "spec.skipTargets.0.name"),
        (UPGRADE_RUN, {**FULL, "skipTargets": [{"type": "Stage", "name": "a"}] * 1001}, "spec.skipTargets"),
        (UPGRADE_RUN, {**FULL, "timeouts": {"memberUpgradeSeconds": 604801}}, "spec.timeouts.memberUpgradeSeconds"),
        (UPGRADE_RUN, {**FULL, "timeouts": {"pendingSeconds": -1}}, "spec.timeouts.pendingSeconds"),
        (UPGRADE_RUN, {**FULL, "timeouts": {"gateSeconds": -1}}, "spec.timeouts.gateSeconds"),
        (UPGRADE_RUN, {**FULL, "windowPolicy": {"mode": "No"}}, "spec.windowPolicy.mode"),
        (UPGRADE_RUN, {**FULL, "ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished"),
        (
            UPGRADE_RUN,
            {"upgrade": {"type": "NodeImageOnly", "nodeImage": {"customVersions": [{"version": "1"}]}}},
            "spec.upgrade.nodeImage.customVersions.0.family",
        ),
        (UPGRADE_GATE, {**IN_A_STAGE, "index": 5}, "spec.index"),
        (UPGRADE_GATE, {**IN_A_STAGE, "timing": "During"}, "spec.timing"),
        (UPGRADE_PROFILE, {}, "spec.channel"),
        (UPGRADE_PROFILE, {"channel": "Nightly"}, "spec.channel"),
        (UPGRADE_PROFILE, {"channel": "Stable", "nodeImage": {"selection": "Custom"}}, "spec.nodeImage.selection"),
        (UPGRADE_PROFILE, {"channel": "Stable", "runHistoryLimit": -1}, "spec.runHistoryLimit"),
        (MAINTENANCE_WINDOW, {"startTime": "22:00"}, "spec.schedule"),
        (MAINTENANCE_WINDOW, {"schedule": {}}, "spec.startTime"),
        (MAINTENANCE_WINDOW, {**DAILY, "durationHours": 0}, "spec.durationHours"),
        (MAINTENANCE_WINDOW, {**DAILY, "durationHours": 25}, "spec.durationHours"),
        (MAINTENANCE_WINDOW, {**DAILY, "startDate": "2025-02-30"}, "spec.startDate"),
        (MAINTENANCE_WINDOW, {**DAILY, "startDate": "1735689600"}, "spec.startDate"),
        (MAINTENANCE_WINDOW, {**DAILY, "startDate": 1735689600}, "spec.startDate"),
        (MAINTENANCE_WINDOW, {**DAILY, "notAllowedDates": [{"start": "2025-01-01"}]}, "spec.notAllowedDates.0.end"),
        (
            MAINTENANCE_WINDOW,
            {**DAILY, "schedule": {"daily": {"intervalDays": 8}}},
            "spec.schedule.daily.intervalDays",
        ),
        (
            MAINTENANCE_WINDOW,
            {**DAILY, "schedule": {"weekly": {"intervalWeeks": 5, "dayOfWeek": "Monday"}}},
            "spec.schedule.weekly.intervalWeeks",
        ),
        (
            MAINTENANCE_WINDOW,
            {**DAILY, "schedule": {"absoluteMonthly": {"intervalMonths": 1, "dayOfMonth": 32}}},
            "spec.schedule.absoluteMonthly.dayOfMonth",
        ),
        (
            MAINTENANCE_WINDOW,
            {
                **DAILY,
                "schedule": {"relativeMonthly": {"intervalMonths": 7, "weekIndex": "Last", "dayOfWeek": "Friday"}},
            },
            "spec.schedule.relativeMonthly.intervalMonths",
        ),
        (VERSION_CATALOG, {"regions": [{}]}, "spec.regions.0.name"),
        (
            VERSION_CATALOG,
            {"regions": [{"name": "a", "kubernetesVersions": [{"version": "1.31.2", "phase": "Old"}]}]},
            "spec.regions.0.kubernetesVersions.0.phase",
        ),
        (UPGRADE_REQUEST, {**ATTEMPT, "operationID": ""}, "spec.operationID"),
        (UPGRADE_REQUEST, {**ATTEMPT, "deadline": "tomorrow"}, "spec.deadline"),
    ],
)
def test_what_is_out_of_shape_is_refused_where_it_is(kind, spec, where):
    with pytest.raises(ValidationError) as caught:
        read(kind, spec)
    found = [".".join(map(str, error["loc"])) for error in caught.value.errors()]
    assert max(found, key=len) == where
    assert all(where.startswith(place) for place in found)  # a list whose only item is broken counts as too short


@pytest.mark.parametrize("kind", UPGRADE_KINDS, ids=str)
def test_every_name_is_checked_by_the_api_server(kind):
    longest = 63 if kind in (UPGRADE_GATE, UPGRADE_REQUEST) else 50
    (named, *_) = CEL_RULES[kind][""]
    assert f"self.metadata.name.size() <= {longest} " in named.rule
    assert "matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')" in named.rule


def spec_fields(kind):
    return set(structural_schema(kind)["properties"]["spec"]["properties"])


def fields_compared(rule: str, at: str) -> set[str]:
    """Return the fields of which *rule* says that they must be what they were."""
    return {field for field in spec_fields(UPGRADE_RUN) | spec_fields(UPGRADE_REQUEST) if f"{at}{field} == " in rule}


def test_a_field_of_a_request_is_immutable_unless_it_is_cancel_requested():
    (rule,) = CEL_RULES[UPGRADE_REQUEST]["spec"]
    assert fields_compared(rule.rule, "self.") == spec_fields(UPGRADE_REQUEST) - {"cancelRequested"}


def test_every_field_of_a_run_becomes_immutable_but_the_time_to_live():
    rules = CEL_RULES[UPGRADE_RUN][""]
    started = {rule.field: fields_compared(rule.rule, "self.spec.") for rule in rules if "C-10" in rule.ids}
    goal = {"upgrade", "strategyRef", "strategy", "memberSelector"}
    assert started == {f"spec.{field}": {field} for field in goal}
    (finished,) = (rule for rule in rules if "C-11" in rule.ids)
    assert goal | fields_compared(finished.rule, "self.spec.") == spec_fields(UPGRADE_RUN) - {"ttlSecondsAfterFinished"}


def test_a_run_carries_the_rules_of_a_strategy():
    rules = {
        path.replace("spec", "spec.strategy", 1): rules for path, rules in CEL_RULES[UPGRADE_STRATEGY].items() if path
    }
    assert len(rules) == 8
    assert rules.items() <= CEL_RULES[UPGRADE_RUN].items()
