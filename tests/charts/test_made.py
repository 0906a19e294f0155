"""What of the charts is made from the code is what the code says now; ``make charts`` writes it anew."""

import json
import tomllib

import jsonschema
import pytest
import yaml

from tests.charts.made import AGENT, CHARTS, HUB, folders, made_files
from tests.charts.values import UndocumentedError, read_values
from tests.docs.pages import ROOT


@pytest.fixture(scope="module")
def made():
    return dict(made_files())


def test_files_made_from_the_code_are_up_to_date(made):
    stale = [path for path, text in made.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    assert [str(path.relative_to(CHARTS)) for path in stale] == [], "run `make charts`"


def test_nothing_is_left_of_what_is_not_made_any_more(made):
    assert sorted({path for folder in folders() for path in folder.iterdir()} - set(made)) == []


@pytest.mark.parametrize("chart", [HUB, AGENT], ids=lambda chart: chart.name)
def test_a_chart_is_of_the_version_of_the_program(chart):
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    described = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    assert (described["version"], described["appVersion"]) == (version, version)


@pytest.mark.parametrize("chart", [HUB, AGENT], ids=lambda chart: chart.name)
def test_the_schema_knows_every_value_and_no_other(chart):
    schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    values = yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8"))
    check = jsonschema.Draft7Validator(schema)
    assert [error.message for error in check.iter_errors(values)] == []
    for path in groups(values, schema):
        wrong = json.loads(json.dumps(values))
        at(wrong, path)["misspelled"] = 1
        assert not check.is_valid(wrong), f"{'.'.join(path) or 'the top'} takes any value"


def groups(values, schema, path=()):
    """Yield the paths of all groups of values: what takes any key is none."""
    if schema.get("additionalProperties") is False:
        yield path
        for key, inner in schema["properties"].items():
            if isinstance(values.get(key), dict):
                yield from groups(values[key], inner, (*path, key))


def at(values, path):
    """Return the group at a path."""
    for key in path:
        values = values[key]
    return values


def test_a_value_without_a_description_is_an_error(tmp_path):
    path = tmp_path / "values.yaml"
    path.write_text("# -- One.\none: 1\ngroup:\n  # no description\n  two: 2\n", encoding="utf-8")
    with pytest.raises(UndocumentedError, match=r"group\.two"):
        read_values(path)


def test_descriptions_and_schemas_are_read_from_the_comments(tmp_path):
    path = tmp_path / "values.yaml"
    path.write_text(
        'group:\n  # -- One thing,\n  # in two lines.\n  # @schema {"minimum": 1}\n  one: 1\n', encoding="utf-8"
    )
    (value,) = read_values(path)
    assert (value.name, value.default, value.description, value.facets) == (
        "group.one",
        1,
        "One thing, in two lines.",
        {"minimum": 1},
    )
