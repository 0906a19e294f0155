"""The rules of an override snapshot, and the member clusters that they match.

Source: docs/specifications/rollout.md 6.3; KubeFleet pkg/utils/overrider, IsClusterMatched.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from scorer.api.meta import JsonObject
from scorer.api.names import MEMBER_NAME, PARENT_OVERRIDE
from scorer.api.placement.override import OverridePolicy, OverrideRule, OverrideType
from scorer.api.placement.placement import ClusterSelectorTerm
from scorer.api.unstructured.documents import label, labels_of, name_of, namespace_of, spec_of
from scorer.api.values.field_path import FieldPath
from scorer.api.values.label_selector import LabelSelectorRequirement, holds_for, selector_error

OVERRIDE_RULES = FieldPath.of("spec", "policy", "overrideRules")
"""Path of the rules in an override, for messages."""


@dataclass(frozen=True, slots=True)
class ParsedOverrideRule:
    """One rule that can be evaluated.

    Args:
        clusters: One selector per term, as expressions that must all match. At least one selector must match. If empty,
            the rule matches every cluster. None: disabled, it matches no cluster.
        deletes: Whether the rule drops the object.
        patches: ``jsonPatchOverrides`` as written.
    """

    clusters: tuple[tuple[LabelSelectorRequirement, ...] | None, ...] | None
    deletes: bool
    patches: tuple[JsonObject, ...]

    def holds_for(self, labels: Mapping[str, str]) -> bool:
        """Return whether the rule matches the cluster with these `member_labels`.

        A null selector matches nothing, an empty one everything.
        """
        if self.clusters is None:
            return False
        return not self.clusters or any(
            selector is not None and all(holds_for(expression, labels.get(expression.key)) for expression in selector)
            for selector in self.clusters
        )


@dataclass(frozen=True, slots=True)
class RulesError:
    """The rules of a snapshot that was stored without admission are unreadable. The message is for users."""

    message: str


def read_rules(snapshot: JsonObject) -> tuple[ParsedOverrideRule, ...] | RulesError:
    """Return the rules of an override snapshot in order, or the first error if any of them is invalid."""
    policy = override_spec(snapshot).get("policy")
    try:
        override_policy = OverridePolicy.read(policy) if isinstance(policy, Mapping) else None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        return RulesError(f"{FieldPath.of('spec', 'policy', *first['loc'])}: {first['msg']}")
    if override_policy is None or not isinstance(policy, Mapping):
        return RulesError("spec.policy: has no rules")
    for at, rule in enumerate(override_policy.override_rules):
        if wrong := _rule_error(rule, OVERRIDE_RULES / at):
            return RulesError(wrong)
    return tuple(
        ParsedOverrideRule(
            _selectors(rule), rule.override_type is OverrideType.DELETE, tuple(raw.get("jsonPatchOverrides") or ())
        )
        for rule, raw in zip(override_policy.override_rules, policy["overrideRules"], strict=True)
    )


def _selectors(rule: OverrideRule) -> tuple[tuple[LabelSelectorRequirement, ...] | None, ...] | None:
    if rule.cluster_selector is None:
        return None
    selectors = (term.label_selector for term in rule.cluster_selector.cluster_selector_terms)
    return tuple(None if selector is None else selector.requirements() for selector in selectors)


def _rule_error(rule: OverrideRule, at: FieldPath) -> str:
    terms = rule.cluster_selector.cluster_selector_terms if rule.cluster_selector else ()
    for i, term in enumerate(terms):
        path = at / "clusterSelector" / "clusterSelectorTerms" / i
        if name := _other_condition(term):
            return f"{path / name}: must not be set: overrides select clusters by label"
        if term.label_selector is not None and (error := selector_error(term.label_selector)):
            return f"{path / 'labelSelector'}: {error}"
    return ""


def _other_condition(term: ClusterSelectorTerm) -> str:
    """Return a field of a term that selects by anything but labels. Ignoring it would match too many clusters."""
    conditions = {
        "propertySelector": term.property_selector,
        "propertySorter": term.property_sorter,
        "metricSorter": term.metric_sorter,
    }
    return next((name for name, value in conditions.items() if value is not None), "")


def override_spec(snapshot: JsonObject) -> Mapping[str, Any]:
    """Return ``spec.overrideSpec`` of an override snapshot, empty when absent."""
    return spec_of(snapshot).get("overrideSpec") or {}


def member_labels(member: JsonObject) -> dict[str, str]:
    """Return the labels of a MemberCluster with its name under `MEMBER_NAME`, which overrides a stored label."""
    return {**labels_of(member), MEMBER_NAME: name_of(member)}


def describe_override(snapshot: JsonObject) -> str:
    """Return the kind and name of a snapshot's override for messages."""
    namespace, name = namespace_of(snapshot), label(snapshot, PARENT_OVERRIDE)
    return f"ResourceOverride {namespace}/{name}" if namespace else f"ClusterResourceOverride {name}"


def describe(snapshot: JsonObject) -> str:
    """Return the kind and name of a snapshot's override, and the snapshot, for messages."""
    return f"{describe_override(snapshot)} (snapshot {name_of(snapshot)})"
