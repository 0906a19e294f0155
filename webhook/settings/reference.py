"""Settings as documents: the JSON schema of a program, and the reference page.

``python -m webhook.settings`` prints the page.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import create_model

from scorer.api.meta import JsonObject
from webhook.settings.groups import GROUPS, SettingsGroup
from webhook.settings.programs import PROGRAMS
from webhook.settings.values import MEBIBYTE, Unit, format_value

HEAD: Final = """\
# Settings

<!-- Made from the classes in webhook/settings by `make docs`. -->

Every setting is an environment variable. The most common ones are also options of the programs, and an option
overrides the variable. Items of lists are separated by commas. `1`, `yes` and `on` mean `true`, and `0`, `no` and `off`
mean `false`. If a value is invalid, the program exits at startup with a message that names the variable and the value.

`harbormaster settings serve` prints the effective values and their sources.

## Programs

A program reads the settings in its row and ignores all others. `cli` stands for all commands that query a hub. With a
kubeconfig, the commands `plan`, `render`, `explain`, `status`, `gate`, `budgets` and `upgrade plan -f` compute the
answer themselves. They then also read the settings that `serve` and `up` share, so give them the values of the hub's
`serve`.

"""


def page() -> str:
    """Return the page, in Markdown."""
    schemas = {program: schema_of(program) for program in PROGRAMS}
    return HEAD + "\n".join((_programs(), *(_section(room, schemas) for room in GROUPS)))


def _programs() -> str:
    rows = []
    for program, settings in PROGRAMS.items():
        rooms = (room.title for room in GROUPS if not set(settings.names()).isdisjoint(room.names()))
        links = (f"[{title}](#{title.lower().replace(' ', '-')})" for title in rooms)
        rows.append((f"`{program}`", ", ".join(links)))
    return _table(("program", "reads settings of"), rows)


def _section(room: SettingsGroup, schemas: Mapping[str, JsonObject]) -> str:
    rows = [_row(name, schemas) for name in room.names()]
    table = _table(("variable", "default", "values", "read by", "meaning"), rows)
    return f"## {room.title}\n\n{room.about}\n\n{table}"


def _row(name: str, schemas: Mapping[str, JsonObject]) -> tuple[str, ...]:
    readers = {program: schema for program, schema in schemas.items() if name in schema["properties"]}
    entries = {program: schema["properties"][name] for program, schema in readers.items()}
    entry, schema = next(iter(entries.values())), next(iter(readers.values()))
    return (
        f"`{entry['x-variable']}`",
        _default(entries),
        _values(entry, schema.get("$defs", {})),
        ", ".join(readers),
        entry["description"],
    )


def _default(entries: Mapping[str, JsonObject]) -> str:
    """Return the default, and the defaults of programs that have another one."""
    usual, *_ = texts = {program: _default_text(entry) for program, entry in entries.items()}
    others = [f"`{program}`: {text}" for program, text in texts.items() if text != texts[usual]]
    return "; ".join((texts[usual], *others)).removeprefix("; ")


def _default_text(entry: JsonObject) -> str:
    match entry.get("default"):
        case [str(), *_] as words:
            return ", ".join(f"`{word}`" for word in words)
        case int() as count if entry.get("x-unit") == "bytes":
            return f"`{count}` ({count // MEBIBYTE} MiB)"
        case value:
            text = format_value(value)
            return f"`{text}`" if text else ""


def _values(entry: JsonObject, definitions: Mapping[str, JsonObject]) -> str:
    """Return the values of a setting: its unit and its bounds, or its choices."""
    kind = _resolved(entry, definitions)
    if "enum" in kind:
        return ", ".join(f"`{value}`" for value in kind["enum"])
    match kind["type"]:
        case "array":
            return _list_values(kind, definitions)
        case "boolean":
            return "`true`, `false`"
        case "integer" | "number":
            return ", ".join(filter(None, (entry.get("x-unit"), _bounds(kind))))
    if kind.get("format") == "path":
        return "path"
    return ", ".join(("text", *_text_bounds(kind)))


def _list_values(kind: JsonObject, definitions: Mapping[str, JsonObject]) -> str:
    item = _resolved(kind["items"], definitions)
    if item["type"] == "object":
        return "JSON list"
    if "enum" in item:
        return f"list of {', '.join(f'`{value}`' for value in item['enum'])}"
    length = f"list of at most {kind['maxItems']}" if "maxItems" in kind else "list"
    return ", each ".join(filter(None, (length, ", ".join(_text_bounds(item)))))


def _resolved(entry: JsonObject, definitions: Mapping[str, JsonObject]) -> JsonObject:
    """Return an entry's schema with its `$ref` resolved, ignoring the `null` alternative of an optional setting."""
    first: JsonObject = entry["anyOf"][0] if "anyOf" in entry else entry
    reference: Any = first.get("$ref", "")
    return definitions[reference.rpartition("/")[2]] if reference else first


def _bounds(kind: JsonObject) -> str:
    low, high = kind.get("minimum"), kind.get("maximum")
    if "exclusiveMinimum" in kind:
        if kind["type"] == "number":
            return f"more than {format_value(kind['exclusiveMinimum'])}"
        low = kind["exclusiveMinimum"] + 1
    if high is not None:
        return f"{format_value(low)} to {format_value(high)}"
    return f"{format_value(low)} or more"


def _text_bounds(kind: JsonObject) -> Iterator[str]:
    if "pattern" in kind:
        yield f"like `{kind['pattern']}`"
    if "maxLength" in kind:
        yield f"at most {kind['maxLength']} characters"


def _table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = (headers, ["---"] * len(headers), *rows)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def schema_of(program: str) -> JsonObject:
    """Return the JSON schema of the settings of a program: types, bounds, defaults and descriptions.

    In each setting, ``x-variable`` names its environment variable, and ``x-unit`` the unit of its number.
    """
    settings = PROGRAMS[program]
    fields: dict[str, Any] = {
        name: (field.annotation, field) for name, field in settings.model_fields.items() if name in settings.names()
    }
    model = create_model(settings.__name__, __config__=settings.model_config, __doc__=settings.__doc__, **fields)
    schema: JsonObject = model.model_json_schema()
    for name, entry in schema["properties"].items():
        entry["x-variable"] = settings.variable(name)
        for mark in settings.model_fields[name].metadata:
            if isinstance(mark, Unit):
                entry["x-unit"] = mark.name
    return schema
