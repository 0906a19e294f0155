"""What can be set, as a JSON schema: for tools, and for what is generated from it."""

from scorer.api.meta import JsonObject
from webhook.settings.programs import PROGRAMS
from webhook.settings.values import Unit


def schema_of(program: str) -> JsonObject:
    """Return the JSON schema of what a program reads: types, bounds, defaults and descriptions.

    In each setting, ``x-variable`` names its environment variable, and ``x-unit`` says what its number counts.
    """
    settings = PROGRAMS[program]
    schema: JsonObject = settings.model_json_schema()
    for name, entry in schema["properties"].items():
        entry["x-variable"] = settings.variable(name)
        for mark in settings.model_fields[name].metadata:
            if isinstance(mark, Unit):
                entry["x-unit"] = mark.name
    return schema
