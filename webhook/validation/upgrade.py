"""Rules on the kinds of ``upgrade.harbormaster.dev``: so far their shape.

The models check types, bounds and enums, even if the API server has checked them before.

Source: upgrade-runs.md 3 and 4; serving.md 1.8, last row.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from scorer.api.cel import CEL_RULES
from scorer.api.kinds import UPGRADE_GROUP
from scorer.api.meta import ApiObject, JsonObject
from scorer.api.upgrade.gate import ClusterUpgradeGate
from scorer.api.upgrade.maintenance_window import ClusterMaintenanceWindow
from scorer.api.upgrade.profile import ClusterUpgradeProfile
from scorer.api.upgrade.request import ClusterUpgradeRequest
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.api.upgrade.strategy import ClusterUpgradeStrategy
from scorer.api.upgrade.version_catalog import ClusterVersionCatalog
from webhook.validation.context import Context
from webhook.validation.reading import Finding, read_object
from webhook.validation.rule import OURS, Rule, Severity, enforces

SHAPE: Final = Rule(
    "C-01",
    (Severity.DENY,),
    "Types, bounds and enum values are those of the schema.",
    OURS,
    in_schema=True,
)
CEL_ONLY: Final = tuple(
    Rule(rule_id, (Severity.DENY,), f"{message[:1].upper()}{message[1:]}.", OURS)
    for rule_id, message in {
        rule_id: rule.message
        for kind, by_field in CEL_RULES.items()
        if kind.group == UPGRADE_GROUP
        for rules in by_field.values()
        for rule in rules
        for rule_id in rule.ids
    }.items()
)
"""What only the API server checks so far."""

_Validate: TypeAlias = Callable[[JsonObject, JsonObject | None, Context], Iterator[Finding]]


def _shape_of(model: type[ApiObject]) -> _Validate:
    @enforces(SHAPE)
    def validate(document: JsonObject, old: JsonObject | None, context: Context) -> Iterator[Finding]:
        del old, context
        yield from (replace(error, rule="C-01") for error in read_object(model, document).errors)

    return validate


validate_strategy = _shape_of(ClusterUpgradeStrategy)
validate_run = _shape_of(ClusterUpgradeRun)
validate_gate = _shape_of(ClusterUpgradeGate)
validate_profile = _shape_of(ClusterUpgradeProfile)
validate_window = _shape_of(ClusterMaintenanceWindow)
validate_catalog = _shape_of(ClusterVersionCatalog)
validate_request = _shape_of(ClusterUpgradeRequest)
