"""Every field of every kind, as ``kubectl explain`` tells it too."""

from collections.abc import Iterator
from typing import Any, Final

from scorer.api.crd.definitions import structural_schema
from scorer.api.kinds import OUR_KINDS, PLACEMENT, STAGED_RUN, Kind
from tests.docs.reference.markdown import code, lines, plain, table, titled

_PLACEMENT: Final = structural_schema(PLACEMENT)["properties"]["spec"]["properties"]
_SELECTOR: Final = _PLACEMENT["resourceSelectors"]["items"]["properties"]["labelSelector"]["properties"]
_CONDITION: Final = structural_schema(STAGED_RUN)["properties"]["status"]["properties"]["conditions"]["items"][
    "properties"
]
_SHARED: Final = {"Condition": _CONDITION, "Label selector": _SELECTOR}
"""What occurs everywhere, and is told once."""


def page() -> str:
    """Return the page of all kinds."""
    introduction = """
All fields of all kinds. `kubectl explain KIND.FIELD` shows the same text on any hub with the definitions, and
[editors](../in-your-editor.md) show it as you write. A field in **bold** is required if the object around it is
present. `[]` stands for each item of a list or each value of a map. [Rules](rules.md) lists the rules between fields.
"""
    told: dict[str, Kind] = {}
    sections = [line for kind in OUR_KINDS for line in _section(kind, told)]
    shared = [
        line
        for name, fields in _SHARED.items()
        for line in (f"## {name}", "", *_table(_rows({"properties": fields})), "")
    ]
    index = [f"- [{kind.kind}](#{kind.kind.lower()}): {structural_schema(kind)['description']}" for kind in OUR_KINDS]
    return lines(titled("Kinds", introduction), *index, "", *sections, *shared)


def _section(kind: Kind, told: dict[str, Kind]) -> Iterator[str]:
    schema = structural_schema(kind)
    versions = ", ".join(code(f"{kind.group}/{version}") for version in kind.versions)
    short = f" Short name {', '.join(map(code, kind.short_names))}." if kind.short_names else ""
    yield f"## {kind.kind}\n"
    yield f"{schema['description']} {versions}. {'Namespaced' if kind.namespaced else 'Cluster-scoped'}.{short}\n"
    fields = {
        name: field for name, field in schema["properties"].items() if name not in ("apiVersion", "kind", "metadata")
    }
    twin = told.setdefault(repr(fields), kind)
    if twin is kind:
        yield from _table(_rows({**schema, "properties": fields}))
        yield ""
    else:
        yield f"Its fields are those of [{twin.kind}](#{twin.kind.lower()}).\n"


def _table(rows: Iterator[tuple[str, str, str]]) -> Iterator[str]:
    return table(["field", "type", "meaning"], rows)


def _rows(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, str, str]]:
    for name, field in schema.get("properties", {}).items():
        here = f"{path}.{name}".lstrip(".")
        inner, steps = field, ""
        while below := inner.get("items") or inner.get("additionalProperties"):
            inner, steps = below, f"{steps}[]"
        shared = next(
            (f"[{title}](#{_anchor(title)})" for title, found in _SHARED.items() if inner.get("properties") == found),
            "",
        )
        mark = "**" if name in schema.get("required", ()) else ""
        yield f"{mark}{code(here)}{mark}", shared + steps if shared else _type(field), plain(field["description"])
        if not shared:
            yield from _rows(inner, here + steps)


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def _type(field: dict[str, Any]) -> str:
    if items := field.get("items"):
        return f"{_type(items)}[]"
    if values := field.get("additionalProperties"):
        return f"map of {_type(values)}"
    if "enum" in field:
        return ", ".join(code(str(each)) for each in field["enum"])
    if "anyOf" in field:
        return "integer or string"
    return (
        str(field.get("type", "any")) if field.get("format") not in ("date-time", "date", "byte") else field["format"]
    )
