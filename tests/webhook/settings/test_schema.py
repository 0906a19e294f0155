"""The JSON schema says what reading does: bounds, choices, defaults."""

import jsonschema
import pytest

from webhook.settings.environment import SettingsError
from webhook.settings.programs import PROGRAMS
from webhook.settings.reference import schema_of

NUMBERS = [
    pytest.param(program, name, entry, id=f"{program}-{name}")
    for program in PROGRAMS
    for name, entry in schema_of(program)["properties"].items()
    if entry.get("type") in ("integer", "number")
]


def refuses(program: str, variable: str, value: float) -> bool:
    """Whether a program finds fault with the value of a variable by itself."""
    try:
        PROGRAMS[program].read({variable: str(value)})
    except SettingsError as error:
        return any(mistake.startswith(f"{variable}:") for mistake in error.mistakes)
    return False


@pytest.mark.parametrize(("program", "name", "entry"), NUMBERS)
def test_bounds_are_those_that_count(program, name, entry):
    variable, step = entry["x-variable"], 1 if entry["type"] == "integer" else 0.0001
    low = entry.get("exclusiveMinimum")
    lowest = entry["minimum"] if low is None else low + step
    assert not refuses(program, variable, lowest)
    assert refuses(program, variable, lowest - step)
    if "maximum" in entry:
        assert not refuses(program, variable, entry["maximum"])
        assert refuses(program, variable, entry["maximum"] + step)


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_defaults_fit_the_schema(program):
    schema = schema_of(program)
    jsonschema.Draft202012Validator.check_schema(schema)
    settings = PROGRAMS[program].read({})
    jsonschema.validate(settings.model_dump(mode="json", include=set(settings.names())), schema)


def test_a_program_takes_no_settings_of_others():
    schema = schema_of("agent")
    assert schema["additionalProperties"] is False
    assert "https_port" not in schema["properties"]


def test_what_a_number_counts_and_what_it_is_called_are_told():
    properties = schema_of("serve")["properties"]
    assert properties["admission_body_bytes"]["x-unit"] == "bytes"
    assert properties["force_delete_seconds"]["x-unit"] == "seconds"
    assert properties["requests_per_second"]["x-unit"] == "per second"
    assert properties["kubeconfig"]["x-variable"] == "KUBECONFIG"
    assert [
        name for name, entry in properties.items() if name.endswith("_seconds") and entry["x-unit"] != "seconds"
    ] == []
    assert [name for name, entry in properties.items() if name.endswith("_bytes") and entry["x-unit"] != "bytes"] == []
