"""CustomResourceDefinitions of our kinds, generated from the models.

One schema per kind, the union over its versions, is served under every version. The storage version is v1beta1 if it
exists, so that an existing hub stays readable (placement-api.md 4). Conversion of a model to a structural schema:

* every reference is inlined, and a field that may be None has just its type (it may be absent if it is not required);
* a default goes into the schema when it carries information: empty strings, lists and objects, zero, false and None
mean "not given" in the models only; ``json_schema_extra={"default": …}`` overrides this;
* ``json_schema_extra`` of a field holds what Python does not check: patterns, list types, enums of words that readers
take as free text; `ALWAYS_WRITTEN` makes a field required here that readers can do without;
* the docstring below a field of a model is its description, and `scorer.api.crd.descriptions` adds default and bounds.

Source: docs/specifications/placement-api.md 1, 6 and 14; docs/specifications/upgrade-runs.md 3.
"""

from collections.abc import Mapping
from copy import copy, deepcopy
from functools import lru_cache

from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from scorer.api import kinds
from scorer.api.crd.cel import CEL_RULES
from scorer.api.crd.columns import PRINTER_COLUMNS
from scorer.api.crd.descriptions import DocumentedJsonSchema, add_facts
from scorer.api.crd.models import MODELS
from scorer.api.crd.node_pool_cel import CelRule
from scorer.api.family import FAMILIES
from scorer.api.kinds import CATEGORIES, OUR_KINDS, Kind
from scorer.api.meta import JsonObject, ObjectMeta
from scorer.api.placement.staged_update import RunState


def custom_resource_definitions(*, staged_run_default_state: str = RunState.INITIALIZE.value) -> list[JsonObject]:
    """Return the CustomResourceDefinitions of all our kinds, as the API server accepts them.

    Args:
        staged_run_default_state: Default of ``spec.state`` of a staged update run (F-14).

    Raises:
        ValueError: *staged_run_default_state* is not a state of a run.
    """
    state = RunState(staged_run_default_state).value
    return [_definition(kind, staged_run_default_state=state) for kind in OUR_KINDS]


def _definition(kind: Kind, *, staged_run_default_state: str) -> JsonObject:
    names = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.kind.lower(),
        "categories": list(CATEGORIES[kind.group]),
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.resource},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [
                _version(kind, version, staged_run_default_state=staged_run_default_state) for version in kind.versions
            ],
        },
    }


def _version(kind: Kind, version: str, *, staged_run_default_state: str) -> JsonObject:
    schema = structural_schema(kind, staged_run_default_state=staged_run_default_state)
    # A copy, because the schema is cached for the whole process and the definition belongs to the caller.
    document: JsonObject = {
        "name": version,
        "served": True,
        "storage": version == kind.versions[0],
        "schema": {"openAPIV3Schema": deepcopy(schema)},
    }
    if kind.has_status:
        document["subresources"] = {"status": {}}
    if kind == kinds.NODE_POOL:
        document["subresources"]["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.nodes",
        }
    if columns := PRINTER_COLUMNS.get(kind):
        document["additionalPrinterColumns"] = [
            {"name": column.name, "type": column.type, "jsonPath": column.path}
            | ({"priority": 1} if column.wide else {})
            for column in columns
        ]
    return document


@lru_cache(maxsize=256)
def structural_schema(kind: Kind, *, staged_run_default_state: str = RunState.INITIALIZE.value) -> JsonObject:
    """Return the ``openAPIV3Schema`` of one of our kinds. It is shared and must not be mutated.

    Args:
        kind: The kind.
        staged_run_default_state: Default of ``spec.state`` of a staged update run (F-14).

    Raises:
        KeyError: *kind* is not one of `OUR_KINDS`.
    """
    document = MODELS[kind.group_kind].model_json_schema(schema_generator=_Generator)
    schema = _structural(document, document.get("$defs", {}))
    schema["properties"]["metadata"] = {"type": "object"}  # the API server has its own description of it
    if any(kind == family.run for family in FAMILIES):
        schema["properties"]["spec"]["properties"]["state"]["default"] = staged_run_default_state
    for path, rules in CEL_RULES.get(kind, {}).items():
        _attach(schema, path, rules)
    add_facts(schema)
    return schema


@lru_cache(maxsize=1)
def metadata_schema() -> JsonObject:
    """Return the schema of ``metadata``, which a definition leaves to the API server.

    It is shared and must not be mutated.
    """
    document = ObjectMeta.model_json_schema(schema_generator=_Generator)
    schema = _structural(document, document.get("$defs", {}))
    schema["description"] = "Standard object metadata, such as name and labels."
    add_facts(schema)
    return schema


class _Generator(DocumentedJsonSchema):
    """pydantic's generator without ``null``, and without the defaults that mean "not given". With descriptions."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"]) if not schema.get("default") else super().default_schema(schema)


def _structural(node: JsonObject, definitions: Mapping[str, JsonObject]) -> JsonObject:
    """Copy *node*, with references inlined, and without keywords that the API server refuses."""
    if reference := node.get("$ref"):
        node = {**definitions[reference.rpartition("/")[2]], **{key: node[key] for key in node if key != "$ref"}}
    node = {
        key: copy(value) for key, value in node.items() if key not in ("$defs", "title", "deprecated", "x-required")
    }
    if "const" in node:
        node["enum"] = [node.pop("const")]
    if "description" in node:
        node["description"] = _summary(node["description"])
    if node.get("format") == "int64":  # a double cannot hold these bounds, and the format implies them
        node = {key: value for key, value in node.items() if (key, value) not in _INT64_BOUNDS}
    if node.get("x-kubernetes-preserve-unknown-fields"):
        node.pop("additionalProperties", None)
    if "properties" in node:
        always = [name for name, field in node["properties"].items() if field.get("x-required")]
        node["properties"] = {name: _structural(field, definitions) for name, field in node["properties"].items()}
        if always or "required" in node:
            node["required"] = sorted({*node.get("required", ()), *always})
    for key in ("items", "additionalProperties"):
        if key in node:
            node[key] = _structural(node[key], definitions)
    return node


_INT64_BOUNDS = (("minimum", -(2**63)), ("maximum", 2**63 - 1))


def _summary(docstring: str) -> str:
    """Return the first paragraph of *docstring* as plain text on one line."""
    return " ".join(docstring.split("\n\n")[0].replace("``", "").split())


def _attach(schema: JsonObject, path: str, rules: tuple[CelRule, ...]) -> None:
    node = schema
    for part in filter(None, path.replace("[]", ".[]").split(".")):
        node = node["items"] if part == "[]" else node["properties"][part]
    node["x-kubernetes-validations"] = [
        {"rule": rule.rule, "message": rule.message}
        | ({"fieldPath": f".{rule.field}"} if rule.field else {})
        | ({"reason": rule.reason} if rule.reason else {})
        | ({"messageExpression": rule.says} if rule.says else {})
        for rule in rules
    ]
