"""Comparison of two definitions of one kind: served versions, fields and enum values that one of them lacks.

Definitions grow with releases, and another project may extend one of our kinds.
"""

from collections.abc import Iterator, Mapping

from scorer.api.unstructured.documents import dict_at, dicts_at, list_at, text_at
from scorer.api.unstructured.json_object import JsonObject


def served(definition: JsonObject) -> dict[str, JsonObject]:
    """Return the versions of a definition that an API server serves, by name."""
    return {
        text_at(version, "name"): version
        for version in dicts_at(definition, "spec", "versions")
        if version.get("served")
    }


def schema_of(version: JsonObject) -> JsonObject:
    """Return the schema of one version."""
    return dict_at(version, "schema", "openAPIV3Schema")


def missing_fields(
    stored_schema: Mapping[str, object], desired_schema: Mapping[str, object], at: str = ""
) -> Iterator[str]:
    """Yield the paths of the fields and enum values of *desired_schema* that *stored_schema* lacks.

    The fields below a missing field are not listed. A schema that preserves unknown fields lacks nothing. *at* is
    the path of both schemas.
    """
    if stored_schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    desired_fields, stored_fields = dict_at(desired_schema, "properties"), dict_at(stored_schema, "properties")
    for name, schema in desired_fields.items():
        path = f"{at}.{name}" if at else name
        if name in stored_fields:
            yield from missing_fields(stored_fields[name], schema, path)
        elif "additionalProperties" not in stored_schema:
            yield path
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if dict_at(desired_schema, key):
            yield from missing_fields(dict_at(stored_schema, key), dict_at(desired_schema, key), at + mark)
    if values := list_at(stored_schema, "enum"):
        yield from (f"{at}={value}" for value in list_at(desired_schema, "enum") if value not in values)


def is_newer(definition: JsonObject, desired_definition: JsonObject) -> bool:
    """Return whether a definition has all desired versions and fields, and others that a replacement would lose."""
    stored_versions, desired_versions = served(definition), served(desired_definition)
    if not desired_versions.keys() <= stored_versions.keys():
        return False
    pairs = [(schema_of(stored_versions[name]), schema_of(desired_versions[name])) for name in desired_versions]
    if any(field for other, own in pairs for field in missing_fields(other, own)):
        return False
    return stored_versions.keys() != desired_versions.keys() or any(
        field for other, own in pairs for field in missing_fields(own, other)
    )
