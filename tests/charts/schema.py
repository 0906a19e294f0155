"""``values.schema.json``: what Helm refuses before it renders anything, made from the documented values."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from scorer.api.meta import JsonObject
from tests.charts.settings import Setting
from tests.charts.values import Value


def schema_page(title: str, values: Iterable[Value], settings: Mapping[str, Setting]) -> str:
    """Return the schema of a chart's values.

    Args:
        title: Of the chart.
        values: Those that ``values.yaml`` documents.
        settings: The schemas of those below ``settings``.
    """
    top = _group()
    top = {"$schema": "http://json-schema.org/draft-07/schema#", "title": f"Values of {title}", **top}
    for value in values:
        group = top
        for key in value.path[:-1]:
            group = group["properties"].setdefault(key, _group())
        group["properties"][value.path[-1]] = _schema(value, settings)
    top["properties"]["global"] = {"type": "object", "description": "What a chart above this one shares with it."}
    return json.dumps(top, indent=2, ensure_ascii=False) + "\n"


def _group() -> JsonObject:
    return {"type": "object", "additionalProperties": False, "properties": {}}


def _schema(value: Value, settings: Mapping[str, Setting]) -> JsonObject:
    told: JsonObject = {"description": value.description}
    if value.path[0] == "settings":
        return told | settings[value.path[-1]].schema
    if "type" in value.facets or "enum" in value.facets:
        return told | value.facets
    return told | {"type": _type(value.default)} | value.facets


def _type(default: Any) -> str:
    match default:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
