"""JSON Schemas (draft 7) of our kinds, for editors and for checks of files: strict, and self-contained.

The layout is that of kubeconform and of catalogs of CustomResourceDefinitions: ``<group>/<kind>_<version>.json``, in
lower case. ``all.json`` alongside them finds the schema of each document by its ``apiVersion`` and ``kind``, so that
one entry in the settings of an editor is enough for files of mixed kinds. Documents of other kinds are accepted.

No part of a status is required: in a file, it is a sketch for a simulation.

Rules between fields are not part of a schema. `harbormaster lint` checks those.
"""

from collections.abc import Iterator
from typing import Any, Final

from scorer.api.crd.definitions import metadata_schema, structural_schema
from scorer.api.crd.shape import OPEN, OTHER_METADATA, WHOLE_OBJECT
from scorer.api.kinds import OUR_KINDS, Kind, api_version
from scorer.api.meta import JsonObject

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
ALL: Final = "all.json"
_FORMATS: Final = ("date-time", "date")
"""Formats that JSON Schema defines."""


def json_schemas() -> Iterator[tuple[str, JsonObject]]:
    """Yield the path of each file below the folder of schemas, and its content."""
    places = [(kind, version) for kind in OUR_KINDS for version in kind.versions]
    for kind, version in places:
        yield file_of(kind, version), json_schema(kind, version)
    yield ALL, _by_kind(places)


def file_of(kind: Kind, version: str) -> str:
    """Return the path of the schema of a kind."""
    return f"{kind.group}/{kind.kind.lower()}_{version}.json"


def json_schema(kind: Kind, version: str) -> JsonObject:
    """Return the schema of the objects of a kind in one of its versions."""
    schema = _strict(structural_schema(kind))
    metadata = _strict(metadata_schema())
    metadata["properties"] = {**metadata["properties"], **OTHER_METADATA}
    fields = schema["properties"]
    schema["properties"] = {
        **fields,
        "apiVersion": {**fields["apiVersion"], "const": api_version(kind.group, version)},
        "kind": {**fields["kind"], "const": kind.kind},
        "metadata": metadata,
    }
    if "status" in fields:
        schema["properties"]["status"] = _without_required(fields["status"])
    schema["required"] = sorted({*schema.get("required", ()), "apiVersion", "kind", "metadata"})
    return {"$schema": DRAFT, "title": kind.kind, **schema}


def _by_kind(places: list[tuple[Kind, str]]) -> JsonObject:
    return {
        "$schema": DRAFT,
        "title": "Kinds of harbormaster",
        "type": "object",
        "allOf": [
            {
                "if": {
                    "properties": {
                        "apiVersion": {"const": api_version(kind.group, version)},
                        "kind": {"const": kind.kind},
                    },
                    "required": ["apiVersion", "kind"],
                },
                "then": {"$ref": file_of(kind, version)},
            }
            for kind, version in places
        ],
    }


def _strict(node: JsonObject) -> JsonObject:
    """Copy a structural schema as JSON Schema. Objects in it have only the described fields."""
    schema: dict[str, Any] = {key: value for key, value in node.items() if not key.startswith("x-kubernetes-")}
    if schema.get("format") not in _FORMATS:
        schema.pop("format", None)
    for key in ("items", "additionalProperties"):
        if key in schema:
            schema[key] = _strict(schema[key])
    if "properties" in schema:
        schema["properties"] = {name: _strict(field) for name, field in schema["properties"].items()}
        if not node.get(OPEN):
            schema["additionalProperties"] = False
    if node.get(WHOLE_OBJECT):
        schema["required"] = ["apiVersion", "kind"]
    return schema


def _without_required(node: Any) -> Any:
    """Copy a schema without required fields."""
    if isinstance(node, list):
        return [_without_required(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _without_required(value) for key, value in node.items() if key != "required" or not isinstance(value, list)
    }
