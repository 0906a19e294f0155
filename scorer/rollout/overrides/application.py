"""Applying the overrides of a binding to the objects that its member cluster gets.

If a path, a variable or a snapshot does not exist, nothing is placed until the user corrects it: an object is never
placed half overridden. There are two differences from the reference:

- Once an override has deleted an object, later overrides do not apply to it.
- A patch cannot turn an object into another one, even if it bypassed admission.

Source: docs/specifications/rollout.md 6.4; KubeFleet pkg/controllers/workgenerator/override.go.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import orjson

from scorer.api.meta import JsonObject, dump_json
from scorer.api.unstructured.documents import name_of, namespace_of, spec_of
from scorer.api.unstructured.json_patch import PatchError, apply_patch
from scorer.api.unstructured.secrets import holds_secret
from scorer.rollout.bindings import Overrides
from scorer.rollout.overrides.matching import OverrideTarget, selected_by, selections_of
from scorer.rollout.overrides.rules import (
    OVERRIDE_RULES,
    ParsedOverrideRule,
    RulesError,
    describe,
    member_labels,
    read_rules,
)
from scorer.rollout.works.plan import Override, OverrideError

CLUSTER_NAME_VARIABLE: Final = "${MEMBER-CLUSTER-NAME}"
LABEL_VARIABLE: Final = "${MEMBER-CLUSTER-LABEL-KEY-"
"""Prefix of a variable, followed by the label key and a closing brace."""

_VARIABLE_START: Final = b"${MEMBER-CLUSTER-"
_LABEL: Final = re.compile(re.escape(LABEL_VARIABLE) + r'([^}"\\]*)(\})?')
_SHOWN: Final = 200


class VariableError(ValueError):
    """A value cannot be read, or a variable in it cannot be replaced on a cluster."""


def binding_override(binding: JsonObject, member: JsonObject, snapshots: Iterable[JsonObject]) -> Override:
    """Return a function that applies the overrides of a binding to one object, for `works.plan.plan_works`.

    The snapshots are parsed on the first call, because most passes create no Work.

    Args:
        binding: Names the override snapshots in the order of application.
        member: The MemberCluster that gets the objects.
        snapshots: Existing override snapshots, of both kinds, that the binding names.
    """
    return _BindingOverride(
        Overrides.of(spec_of(binding)), member, {_key(snapshot): snapshot for snapshot in snapshots}
    )


class _BindingOverride:
    def __init__(
        self, overrides: Overrides, member: JsonObject, snapshots: Mapping[tuple[str, str], JsonObject]
    ) -> None:
        self._wanted = overrides.keys
        self._member = member
        self._snapshots = snapshots

    def __call__(self, content: JsonObject) -> JsonObject | OverrideError | None:
        if not self._wanted:
            return content
        for namespace, name in self._wanted:
            if (namespace, name) not in self._snapshots:
                subject = f"ResourceOverrideSnapshot {namespace}/" if namespace else "ClusterResourceOverrideSnapshot "
                return OverrideError(f"{subject}{name} no longer exists")
        result = content
        for selection in selections_of(content):
            for override in self._by_selection.get(selection, ()):
                new_content = override.apply(result)
                if new_content is None or isinstance(new_content, OverrideError):
                    return new_content
                result = new_content
        return result

    @cached_property
    def _by_selection(self) -> Mapping[OverrideTarget, Sequence["_SnapshotOverride"]]:
        """The overrides in order, grouped by the targets that they select."""
        by_selection: dict[OverrideTarget, list[_SnapshotOverride]] = defaultdict(list)
        for key in self._wanted:
            override = _SnapshotOverride(self._snapshots[key], self._member)
            for selection in dict.fromkeys(selected_by(self._snapshots[key])):
                by_selection[selection].append(override)
        return by_selection


class _SnapshotOverride:
    """One override snapshot on one cluster."""

    def __init__(self, snapshot: JsonObject, member: JsonObject) -> None:
        self._snapshot = snapshot
        self._member = member
        self._labels = member_labels(member)
        self._rules = read_rules(snapshot)

    def apply(self, content: JsonObject) -> JsonObject | OverrideError | None:
        """Return *content* after the rules that match the cluster; None when one of them deletes it."""
        if isinstance(self._rules, RulesError):
            return OverrideError(f"{describe(self._snapshot)}: {self._rules.message}")
        result = content
        for at, rule in enumerate(self._rules):
            if not rule.holds_for(self._labels):
                continue
            if rule.deletes:
                return None
            new_content = self._patch(result, rule, at)
            if isinstance(new_content, OverrideError):
                return new_content
            result = new_content
        return result

    def _patch(self, content: JsonObject, rule: ParsedOverrideRule, at: int) -> JsonObject | OverrideError:
        operations: list[JsonObject] = []
        for position, patch in enumerate(rule.patches):
            try:
                # An absent value and null are the same on the wire.
                value = substitute(patch.get("value"), name_of(self._member), self._labels)
            except VariableError as error:
                reason = str(error)
                if _is_confidential(content, rule):
                    reason = "a variable in the value cannot be replaced"
                return self._error(content, rule, at, position, reason)
            operations.append({**patch, "value": value})
        try:
            result = apply_patch(content, operations)
        except PatchError as error:
            return self._error(content, rule, at, error.position, str(error))
        if _identity(result) != _identity(content):
            return OverrideError(
                f"{self._object_place(content, at)}: must not change apiVersion, kind, name or namespace"
            )
        return result

    def _object_place(self, content: JsonObject, at: int) -> str:
        return (
            f"{describe(self._snapshot)}: {OVERRIDE_RULES / at} on {_name(content)} for cluster {name_of(self._member)}"
        )

    def _error(
        self, content: JsonObject, rule: ParsedOverrideRule, at: int, position: int, reason: str
    ) -> OverrideError:
        patch = rule.patches[position]
        text = f"jsonPatchOverrides[{position}] {patch.get('op')} {_cut(str(patch.get('path')))}"
        if "value" in patch and patch.get("op") != "remove":
            value = "(hidden)" if _is_confidential(content, rule) else _cut(dump_json(patch["value"]).decode())
            text += f" = {value}"
        return OverrideError(f"{self._object_place(content, at)}: {text}: {_cut(reason)}")


def substitute(value: Any, cluster: str, labels: Mapping[str, str]) -> Any:
    """Return *value* with its variables replaced, wherever they are in its JSON text.

    Args:
        value: Value of a patch. It is not mutated.
        cluster: Name of the member cluster.
        labels: Labels of the cluster.

    Raises:
        VariableError: A label variable is not closed, the cluster does not have the label, or *value* is not JSON.
    """
    try:
        text = dump_json(value)
        if _VARIABLE_START not in text:
            return value
        return orjson.loads(_replace_variables(text.decode(), cluster, labels))
    except (orjson.JSONEncodeError, orjson.JSONDecodeError, RecursionError) as error:
        raise VariableError(f"the value cannot be read: {error}") from error


def _replace_variables(text: str, cluster: str, labels: Mapping[str, str]) -> str:
    def label_value(match: re.Match[str]) -> str:
        key, brace = match.groups()
        if brace is None:
            raise VariableError(f"a variable {LABEL_VARIABLE} lacks its closing brace")
        if key not in labels:
            raise VariableError(f"cluster {cluster} has no label {_cut(key)}, which {_cut(match.group())} refers to")
        return _inside_text(labels[key])

    return _LABEL.sub(label_value, text.replace(CLUSTER_NAME_VARIABLE, _inside_text(cluster)))


def _inside_text(text: str) -> str:
    return orjson.dumps(text).decode()[1:-1]


def _identity(content: JsonObject) -> tuple[Any, ...]:
    meta: Any = content.get("metadata")
    name_parts = (meta.get("name"), meta.get("namespace")) if isinstance(meta, Mapping) else None
    return content.get("apiVersion"), content.get("kind"), name_parts


def _name(content: JsonObject) -> str:
    namespace = namespace_of(content)
    return (
        f"{content.get('kind')} {namespace}/{name_of(content)}"
        if namespace
        else f"{content.get('kind')} {name_of(content)}"
    )


def _is_confidential(content: JsonObject, rule: ParsedOverrideRule) -> bool:
    """Return whether messages must not contain the values of a rule: more users may read a message than the override.

    The object may be a Secret, or an envelope with one, or the rule may add one.
    """
    return holds_secret([content, *(patch.get("value") for patch in rule.patches)])


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _key(snapshot: JsonObject) -> tuple[str, str]:
    return namespace_of(snapshot), name_of(snapshot)
