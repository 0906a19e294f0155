"""The rules on upgrade kinds that the API server checks itself, by field.

Changes over time are guarded here, because a wrong one cannot be undone: the spec of a gate or request, the goal of a
started run, and the list of skip targets, since a run only remembers how many it has seen. For rules about a single
object, this module has those that fit in one line of CEL. The rest needs other objects, the user or the exact field,
and is left to admission: which targets existed before, whether a token is new, which names coincide across stages.

Rules that read ``status`` are attached to the whole object. On a write of the spec, they see the stored status instead
of the one in the request.

The ids are those of `harbormaster rules`. The message states what a rule demands.

Source: docs/specifications/upgrade-runs.md 3, 3.5, 4.1 to 4.4 and 13.4.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from scorer.api.crd.node_pool_cel import CelRule
from scorer.api.upgrade.fields import LONGEST_GENERATED_NAME, LONGEST_NAME, NAME_PATTERN
from scorer.api.upgrade.run import SHORTEST_MEMBER_UPGRADE_SECONDS
from scorer.api.upgrade.strategy import LARGEST_STAGE_CONCURRENCY

_Rules: TypeAlias = Mapping[str, tuple[CelRule, ...]]


def _name_rule(longest: int, rule_id: str) -> CelRule:
    return CelRule(
        f"self.metadata.name.size() <= {longest} && self.metadata.name.matches('{NAME_PATTERN}')",
        f"the name must have at most {longest} characters, lowercase letters, digits and '-',"
        " and start and end with a letter or digit",
        (rule_id,),
    )


_NAME: Final = _name_rule(LONGEST_NAME, "C-02")
_GENERATED_NAME: Final = _name_rule(LONGEST_GENERATED_NAME, "C-03")


def _unchanged_rule(*fields: str, at: str = "") -> str:
    """Return an expression that is true if none of *fields*, which may be absent, has changed."""
    new, old = f"self{at}", f"oldSelf{at}"
    return " && ".join(
        f"has({new}.{field}) == has({old}.{field}) && (!has({new}.{field}) || {new}.{field} == {old}.{field})"
        for field in fields
    )


_SCHEDULED = CelRule(
    "(self.type == 'ScheduledStart') == has(self.scheduledStart)",
    "scheduledStart must be set if and only if type is ScheduledStart",
    ("C-04",),
    "scheduledStart",
)
_BEFORE_ONLY = CelRule(
    "self.type != 'ScheduledStart'",
    "ScheduledStart must be in beforeGates",
    ("C-05",),
    "type",
)


def _sequence(at: str) -> _Rules:
    """Return the rules of a list of stages."""
    stage, group = f"{at}.stages[]", f"{at}.stages[].groups[]"
    return {
        f"{at}.stages": (
            CelRule("self.all(x, self.exists_one(y, y.name == x.name))", "names of stages must be unique", ("C-06",)),
        ),
        stage: (
            CelRule(
                "has(self.memberSelector) || (has(self.groups) && self.groups.size() > 0)",
                "groups or memberSelector must be set",
                ("C-07",),
            ),
        ),
        f"{stage}.maxConcurrency": (
            CelRule(
                f"type(self) != string || !self.matches('^[0-9]+$') || int(self) <= {LARGEST_STAGE_CONCURRENCY}",
                f"must be at most {LARGEST_STAGE_CONCURRENCY}, or 1% to 100%",
                ("C-08",),
                says=f"string(self) + ': must be at most {LARGEST_STAGE_CONCURRENCY}, or 1% to 100%'",
            ),
        ),
        f"{stage}.groups": (
            CelRule("self.all(x, self.exists_one(y, y.name == x.name))", "names of groups must be unique", ("C-09",)),
        ),
        **{f"{level}.beforeGates[]": (_SCHEDULED,) for level in (stage, group)},
        **{f"{level}.afterGates[]": (_BEFORE_ONLY, _SCHEDULED) for level in (stage, group)},
    }


_FIXED_BY_START: Final = ("upgrade", "strategyRef", "strategy", "memberSelector")
_FIXED_BY_END: Final = (
    *("state", "restartToken", "skipTargets"),
    *("timeouts", "versionPolicy", "windowPolicy", "placementGuard"),
)

RUN_RULES: Final[_Rules] = {
    "": (
        _NAME,
        *(
            CelRule(
                f"!has(oldSelf.status) || !has(oldSelf.status.startTime) || ({_unchanged_rule(field, at='.spec')})",
                "cannot be changed once the run has started",
                ("C-10",),
                f"spec.{field}",
                "FieldValueForbidden",
            )
            for field in _FIXED_BY_START
        ),
        CelRule(
            "!has(oldSelf.status) || !(oldSelf.status.state in ['Completed', 'Skipped']) || ("
            + _unchanged_rule(*_FIXED_BY_END, at=".spec")
            + ")",
            "of a finished run only ttlSecondsAfterFinished can be changed",
            ("C-11",),
            "spec",
            "FieldValueForbidden",
        ),
        CelRule(
            "!(has(oldSelf.status) && has(oldSelf.status.state) && oldSelf.status.state == 'Stopping'"
            " && oldSelf.spec.state == 'Stop' && self.spec.state == 'Run')",
            "the run is still Stopping. Start it when it is Stopped",
            ("C-38",),
            "spec.state",
        ),
    ),
    "spec": (
        CelRule(
            "!(has(self.strategy) && has(self.strategyRef))",
            "strategy and strategyRef are mutually exclusive",
            ("C-12",),
            "strategy",
            "FieldValueForbidden",
        ),
        CelRule(
            "!(oldSelf.state == 'Initialize' && self.state == 'Stop')"
            " && !(oldSelf.state in ['Run', 'Stop'] && self.state == 'Initialize')",
            "state may change only from Initialize to Run, from Run to Stop and from Stop to Run",
            ("C-13",),
            "state",
            says="self.state + ': cannot follow ' + oldSelf.state",
        ),
        CelRule(
            "!has(oldSelf.skipTargets) || oldSelf.skipTargets.size() == 0"
            " || (has(self.skipTargets) && self.skipTargets.size() >= oldSelf.skipTargets.size())",
            "skip targets can be added, not removed",
            ("C-14",),
            "skipTargets",
            "FieldValueForbidden",
        ),
    ),
    "spec.upgrade": (
        CelRule(
            "(self.type == 'NodeImageOnly') != has(self.kubernetesVersion)",
            "kubernetesVersion must be set unless type is NodeImageOnly",
            ("C-15",),
            "kubernetesVersion",
            says="has(self.kubernetesVersion) ? self.kubernetesVersion + ': must not be set when type is "
            "NodeImageOnly' : 'must be set when type is ' + self.type",
        ),
        CelRule(
            "self.type != 'ControlPlaneOnly' || !has(self.nodeImage)",
            "nodeImage must not be set when type is ControlPlaneOnly",
            ("C-16",),
            "nodeImage",
            "FieldValueForbidden",
        ),
    ),
    "spec.upgrade.nodeImage": (
        CelRule(
            "(self.selection == 'Custom') == (has(self.customVersions) && self.customVersions.size() > 0)",
            "customVersions must be set if and only if selection is Custom",
            ("C-17",),
            "customVersions",
        ),
    ),
    "spec.timeouts.memberUpgradeSeconds": (
        CelRule(
            f"self == 0 || self >= {SHORTEST_MEMBER_UPGRADE_SECONDS}",
            f"must be 0, or at least {SHORTEST_MEMBER_UPGRADE_SECONDS}",
            ("C-18",),
        ),
    ),
    **_sequence("spec.strategy"),
}

_IMAGE_CHANNEL = "self.channel != 'NodeImage' || !has(self.nodeImage) || !has(self.nodeImage.selection)"

PROFILE_RULES: Final[_Rules] = {
    "": (_NAME,),
    "spec": (
        CelRule(
            "(self.channel == 'TargetKubernetesVersion')"
            " == (has(self.targetKubernetesVersion) && self.targetKubernetesVersion != '')",
            "targetKubernetesVersion must be set if and only if channel is TargetKubernetesVersion",
            ("C-19",),
            "targetKubernetesVersion",
            says="has(self.targetKubernetesVersion) && self.targetKubernetesVersion != '' ? "
            "self.targetKubernetesVersion + ': must not be set when channel is ' + self.channel : 'must be a "
            "minor version such as 1.31 when channel is TargetKubernetesVersion'",
        ),
        CelRule(
            "self.channel == 'TargetKubernetesVersion' || !has(self.longTermSupport) || !self.longTermSupport",
            "longTermSupport must not be set unless channel is TargetKubernetesVersion",
            ("C-20",),
            "longTermSupport",
            "FieldValueForbidden",
        ),
        CelRule(
            f"{_IMAGE_CHANNEL} || self.nodeImage.selection == 'Consistent'",
            "nodeImage.selection must be Consistent when channel is NodeImage",
            ("C-21",),
            "nodeImage.selection",
            says="self.nodeImage.selection + ': must be Consistent when channel is NodeImage'",
        ),
    ),
}

WINDOW_RULES: Final[_Rules] = {
    "": (_NAME,),
    "spec.schedule": (
        CelRule(
            "[has(self.daily), has(self.weekly), has(self.absoluteMonthly), has(self.relativeMonthly)]"
            ".exists_one(x, x)",
            "exactly one of daily, weekly, absoluteMonthly and relativeMonthly must be set",
            ("C-22",),
        ),
    ),
    "spec.notAllowedDates[]": (CelRule("self.start <= self.end", "end must not be before start", ("C-23",)),),
}

REQUEST_RULES: Final[_Rules] = {
    "": (_GENERATED_NAME,),
    "spec": (
        CelRule(
            _unchanged_rule(
                *("operationID", "runName", "memberName", "upgradeType"),
                *("kubernetesVersion", "nodeImages", "deadline", "dryRun"),
            ),
            "the spec is immutable, except cancelRequested",
            ("C-24",),
        ),
    ),
    "status": (
        CelRule(
            "!has(oldSelf.phase) || (has(self.phase) && (self.phase == oldSelf.phase || oldSelf.phase == 'Accepted'"
            " || (oldSelf.phase == 'InProgress' && self.phase != 'Accepted')))",
            "phase may only advance: from Accepted to InProgress, then to Succeeded, Failed or Cancelled",
            ("C-25",),
            "phase",
            says="(has(self.phase) ? self.phase : 'no phase') + ': cannot follow ' + oldSelf.phase",
        ),
    ),
}

STRATEGY_RULES: Final[_Rules] = {"": (_NAME,), **_sequence("spec")}
GATE_RULES: Final[_Rules] = {
    "": (_GENERATED_NAME,),
    "spec": (CelRule("self == oldSelf", "the spec is immutable", ("C-26",)), _SCHEDULED),
}
CATALOG_RULES: Final[_Rules] = {"": (_NAME,)}
