"""The catalog of rules: the requirements of admission by kind and operation, and the layer that enforces each.

Nothing is stated twice. Every module of rules lists its rules alongside the code, tied to the functions that the
registry of kinds calls. Kinds and operations come from the registry, and the checks of the API server come from the
CRDs. Only the rules without a kind and those of the live checks are listed here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, get_args

from scorer.api.crd.cel import CEL_RULES
from scorer.api.crd.definitions import structural_schema
from scorer.api.kinds import OUR_KINDS, Kind
from scorer.api.meta import JsonObject
from scorer.api.node_class import AKS_NODE_CLASS
from webhook.admission import impact, taking_over
from webhook.admission.admitted import Admitted, Operation
from webhook.admission.registry import REGISTRY
from webhook.defaulting import schema as schema_defaults
from webhook.validation.framework.rule import CREATE, DELETE, UPDATE, Rule, Severity, allow, pick, rules_of, warn
from webhook.validation.guard_rails import writes as guard_rail
from webhook.validation.live import eviction as live_eviction
from webhook.validation.live import member_cluster as live_member_cluster
from webhook.validation.live import node_pool as live_node_pool
from webhook.validation.live import override as live_override
from webhook.validation.live import placement as live_placement
from webhook.validation.live import selected_objects
from webhook.validation.live import staged_update as live_staged_update
from webhook.validation.live import upgrade as live_upgrade
from webhook.validation.placement import override


class Layer(StrEnum):
    """Layer that enforces a rule."""

    SCHEMA = "schema"
    CEL = "CEL"
    WEBHOOK = "webhook"
    LIVE = "live"


@dataclass(frozen=True, slots=True)
class RuleEnforcement:
    """Enforcement of a rule for one kind.

    Args:
        kind: The kind.
        operations: Operations that it applies to.
        layers: Layers that enforce it: the schema or the CEL rules of the CRD (in the API server), the webhook, or its
            live checks, which read the rest of the hub.
        subresource: ``status`` for a rule on writes of the status.
    """

    kind: Kind
    operations: tuple[Operation, ...]
    layers: tuple[Layer, ...]
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One rule of the catalog. A rule that other systems enforce has no kinds."""

    rule: Rule
    enforced: tuple[RuleEnforcement, ...] = ()


GENERAL_RULES: Final = (
    allow(
        "D-01",
        "An invalid object may be deleted too. "
        "M-09, C-52, guard rails and removal confirmations can refuse a deletion.",
        on=DELETE,
    ),
    allow("D-02", "A deletion passes even if its review contains no object.", on=DELETE),
    allow("D-06", "An update of an object that is being deleted passes: finalizers can be removed.", on=UPDATE),
    allow("U-07", "An invalid object that is being deleted may be written: see D-06.", on=UPDATE),
)
"""Rules for every kind that has rules."""
CHANGE_RULES: Final = (
    allow("U-06", "A stored invalid object can be repaired: see X-21.", on=UPDATE),
    allow(
        "X-21",
        "An update is refused only for the fields that it changes. A stored error in other fields causes a warning.",
        on=UPDATE,
    ),
)
"""Rules for every kind whose updates are only reviewed for what they change."""

_LOSSES: Final = (warn(impact.RULE, "Warns about clusters and objects that an update removes.", on=UPDATE),)
_ONE_GROUP: Final = warn("C-42", "Every member of a run should be in exactly one of its groups.")
_BEYOND_BUDGET: Final = warn("K-42", "An update should drift no more nodes than the budgets allow in a day.", on=UPDATE)
LIVE_RULES: Final[Mapping[Callable[..., Any], tuple[Rule, ...]]] = {
    impact.warn_about_lost_clusters: _LOSSES,
    impact.warn_about_lost_objects: _LOSSES,
    taking_over.warn_about_taking_over: (
        warn(
            taking_over.RULE, "Warns about existing objects on members that would later be removed with the placement."
        ),
    ),
    live_placement.warn_about_number: (
        warn("X-05", "At least numberOfClusters clusters should have joined and match the terms and tolerations."),
    ),
    live_placement.warn_about_unknown_clusters: (
        warn("X-07", "The clusters of clusterNames should be member clusters."),
    ),
    live_placement.warn_about_unknown_properties: (
        warn("X-08", "A property should be well known, or reported by a member."),
    ),
    live_placement.warn_about_empty_selectors: (warn("X-25", "A selector should match an object on the hub."),),
    live_placement.warn_about_shared_objects: (
        warn("X-22", "No other placement should place the same object on the same clusters."),
    ),
    live_placement.warn_about_history: (
        warn("X-24", "revisionHistoryLimit should keep the snapshots that unfinished runs use.", on=UPDATE),
    ),
    selected_objects.warn_about_jobs_with_a_ttl: (
        warn("X-37", "A selected Job should not have ttlSecondsAfterFinished unless it runs once per manifest."),
    ),
    live_staged_update.warn_about_stages: (
        warn("X-35", "Every member cluster should be in exactly one stage and have a valid sorting label."),
    ),
    live_staged_update.warn_about_use: (
        warn("X-36", "No unfinished run should use a strategy that is changed or deleted.", on=UPDATE | DELETE),
    ),
    live_staged_update.warn_about_references: (
        warn(
            "X-41",
            "Placement, strategy and snapshot of a run should exist, and the placement should be External.",
            on=CREATE,
        ),
    ),
    live_staged_update.warn_about_analysis: (
        warn("X-54", "The analysis of a run should name stages of its strategy with an Approval in afterStageTasks."),
    ),
    live_staged_update.warn_about_other_runs: (warn("X-43", "No other run of the placement should be unfinished."),),
    live_upgrade.warn_about_groups: (
        warn("C-40", "A group without a memberSelector should be named by the group label of at least one member."),
        warn("C-41", "The group label of every member should name a group of the strategy."),
        _ONE_GROUP,
    ),
    live_upgrade.warn_about_run: (
        _ONE_GROUP,
        warn("C-43", "No member of a run should already have a higher version."),
        warn("C-44", "No member of a run should be more than one minor version behind."),
        warn("C-45", "The version of a run should not be a preview."),
        warn("C-46", "The version of a run should be in the catalog of every member's region."),
        warn("C-47", "No other unfinished run should include a member of the run."),
        warn("C-56", "The strategy of a run should exist."),
    ),
    live_node_pool.warn_about_drift: (
        warn("K-41", "Warns about nodes that an update drifts, and when they are replaced.", on=UPDATE),
        _BEYOND_BUDGET,
        warn("K-44", "Warns about an update that lets nodes with Pods be consolidated.", on=UPDATE),
    ),
    live_node_pool.warn_about_cascade: (
        warn("K-43", "Warns about the nodes that are deleted with their NodePool.", on=DELETE),
    ),
    live_node_pool.warn_about_class_drift: (
        _BEYOND_BUDGET,
        warn("K-45", "Warns about nodes that drift, or may drift, when their node class is updated.", on=UPDATE),
        Rule(
            "K-46",
            (Severity.WARN,),
            "vnetSubnetID should not change between valid subnets.",
            "seed 002",
            operations=UPDATE,
            only=(AKS_NODE_CLASS,),
        ),
    ),
    live_override.warn_about_placement: pick(override.RULES, "X-62"),
    live_override.warn_about_effect: (
        warn(
            "X-77",
            "The hub should serve the kind and version of a selector. The scope of the kind should fit the override.",
        ),
        warn("X-78", "A placement of the override should place each selected object, in the selected version."),
        warn("X-79", "A rule should match at least one member cluster."),
    ),
    live_eviction.warn_about_target: (
        warn("X-83", "The placement of an eviction should exist and be on the cluster.", on=CREATE),
    ),
    live_eviction.warn_about_idle_budget: (warn("X-81", "A placement of the budget's name should exist."),),
    live_eviction.warn_about_closed_budget: (warn("X-82", "A budget should be able to allow an eviction."),),
    live_member_cluster.warn_about_taints: (
        warn("X-92", "The placements on a member should tolerate a new taint, which does not evict them.", on=UPDATE),
    ),
    live_member_cluster.warn_about_deletion: (
        warn("D-05", "Warns about placements on a member that is deleted: see X-93.", on=DELETE),
        warn("X-93", "A member that is deleted should have no placements.", on=DELETE),
    ),
}
"""Rules of the live checks, by check."""

_ORDER: Final[tuple[Operation, ...]] = get_args(Operation)
_WRITES: Final = CREATE | UPDATE


@dataclass(frozen=True, slots=True)
class _Found:
    """One rule as one layer enforces it for one kind."""

    rule: Rule
    kind: Kind
    operations: frozenset[str]
    layer: Layer
    subresource: str = ""


def catalogue() -> tuple[CatalogueEntry, ...]:
    """Return all rules, by id."""
    by_id: dict[str, list[_Found]] = {}
    for entry in _in_webhook():
        by_id.setdefault(entry.rule.id, []).append(entry)
    of_kinds = (rule for entry in REGISTRY.values() for rule, *_ in _rules_of_kind(entry))
    others = (*schema_defaults.RULES, *guard_rail.LEFT_TO_OTHERS)
    rules = {rule.id: rule for rule in (*of_kinds, *others)}
    for entry in _in_definitions(rules):
        by_id.setdefault(entry.rule.id, []).append(entry)
    entries = (CatalogueEntry(rule, tuple(_enforcements(by_id.get(rule.id, ())))) for rule in rules.values())
    return tuple(sorted(entries, key=lambda entry: (entry.rule.group, int(entry.rule.id.partition("-")[2]))))


def rule_texts() -> dict[str, str]:
    """Return the sentence of every rule, by id."""
    return {entry.rule.id: entry.rule.what for entry in catalogue()}


def _enforcements(group: Iterable[_Found]) -> Iterator[RuleEnforcement]:
    places: dict[tuple[Kind, str], list[_Found]] = {}
    for enforcement in group:
        places.setdefault((enforcement.kind, enforcement.subresource), []).append(enforcement)
    for (kind, subresource), entries in places.items():
        operations = frozenset().union(*(enforcement.operations for enforcement in entries))
        layers = {enforcement.layer for enforcement in entries}
        yield RuleEnforcement(
            kind,
            tuple(operation for operation in _ORDER if operation in operations),
            tuple(layer for layer in Layer if layer in layers),
            subresource,
        )


def _in_webhook() -> Iterator[_Found]:
    """Yield the rules that functions of the registry enforce, and those that the schema of a kind enforces as well."""
    for entry in REGISTRY.values():
        for rule, rule_operations, layer, subresource in _rules_of_kind(entry):
            operations = rule_operations & rule.operations if rule.operations else rule_operations
            if not operations or (rule.only and entry.kind not in rule.only):
                continue
            if _is_asked(entry, rule, operations, subresource):
                yield _Found(rule, entry.kind, operations, layer, subresource)
            if rule.in_schema:
                yield _Found(rule, entry.kind, _WRITES, Layer.SCHEMA)


def _rules_of_kind(entry: Admitted) -> Iterator[tuple[Rule, frozenset[str], Layer, str]]:
    """Yield each rule with the operations that its function is called for."""
    slots: list[tuple[Iterable[object], frozenset[str], str]] = [
        ((entry.validate, entry.default, entry.stamp), _WRITES, ""),
        ((entry.refuse_deletion, entry.warn_about_deletion), DELETE, ""),
        ((entry.warn_about_status, entry.default_status, entry.validate_status), UPDATE, "status"),
        (entry.guards, frozenset(entry.operations), ""),
    ]
    for functions, operations, subresource in slots:
        for function in functions:
            yield from ((rule, operations, Layer.WEBHOOK, subresource) for rule in rules_of(function))
    for checks, operations in ((entry.live, _WRITES), (entry.live_on_deletion, DELETE)):
        for check in checks:
            yield from ((rule, operations, Layer.LIVE, "") for rule in LIVE_RULES[check])
    if entry.validate is not None:
        general = GENERAL_RULES if entry.judged_whole else (*GENERAL_RULES, *CHANGE_RULES)
        yield from ((rule, _WRITES | DELETE, Layer.WEBHOOK, "") for rule in general)


def _is_asked(entry: Admitted, rule: Rule, operations: frozenset[str], subresource: str) -> bool:
    """Return whether the API server calls the webhook for a rule. A rule that allows is listed in any case."""
    if subresource or Severity.ALLOW in rule.severity or rule in (*rules_of(entry.default), *rules_of(entry.stamp)):
        return True
    return bool(operations & entry.operations)


def _in_definitions(rules: Mapping[str, Rule]) -> Iterator[_Found]:
    """Yield the rules that an API server enforces by the CRDs: defaults, and CEL rules by their ids."""
    for kind in OUR_KINDS:
        shape = structural_schema(kind)
        for rule in rules.values():
            if rule.only and kind not in rule.only:
                continue
            if Severity.DEFAULT in rule.severity and any(_has_default(shape, field) for field in rule.fields):
                yield _Found(rule, kind, _WRITES, Layer.SCHEMA)
        for path, cel_rules in CEL_RULES.get(kind, {}).items():
            subresource = "status" if path.startswith("status") else ""
            for rule in (rules[rule_id] for cel_rule in cel_rules for rule_id in cel_rule.ids):
                yield _Found(rule, kind, rule.operations or _WRITES, Layer.CEL, subresource)


def _has_default(schema: JsonObject, field: str) -> bool:
    node: JsonObject | None = schema
    for part in field.split("."):
        if node is None:
            return False
        node = (
            (node.get("items") or node.get("additionalProperties"))
            if part == "*"
            else node.get("properties", {}).get(part)
        )
    return node is not None and "default" in node
