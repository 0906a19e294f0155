"""What the definitions say about themselves: ``kubectl explain`` and editors have nothing else."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from scorer.api.crd.definitions import custom_resource_definitions, structural_schema
from scorer.api.crd.descriptions import facts
from scorer.api.kinds import NODE_POOL, OUR_KINDS, PLACEMENT, STAGED_RUN, UPGRADE_RUN, Kind

LONGEST_ANNOTATION = 262_144
"""Bytes of all annotations of an object; client-side ``kubectl apply`` writes the whole object into one."""
UNITS = {
    *(
        ("Seconds", "second"),
        ("After", "duration"),
        ("Period", "duration"),
        ("Hours", "hour"),
        ("Percent", "percent"),
        ("Days", "days"),
        ("Weeks", "weeks"),
    ),
    *(("Months", "months"), ("Time", "hen|HH:MM|hours, minutes and seconds"), ("duration", "hours and minutes")),
}
"""What the description of a field says whose name ends so."""
OURS = [pytest.param(kind, id=kind.kind) for kind in OUR_KINDS]


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every field at any depth; `metadata` is the API server's. A `?` ends the path of an optional one."""
    for name, field in schema.get("properties", {}).items():
        is_optional = name not in schema.get("required", ())
        if (here := f"{path}.{name}") != ".metadata":
            yield here + "?" * is_optional, field
            yield from fields(field, here)
    for below in ("items", "additionalProperties"):
        if below in schema:
            yield from fields(schema[below], path + "[]")


def field(kind: Kind, path: str) -> str:
    """Return the description of a field."""
    return next(found["description"] for at, found in fields(structural_schema(kind)) if at.strip("?") == path)


@pytest.mark.parametrize("kind", OURS)
def test_every_field_has_a_description_that_is_plain_text_of_some_sentences(kind):
    for path, found in fields(structural_schema(kind)):
        assert re.fullmatch(r"[A-Z1].{9,398}[.]", found.get("description", "")), path
        assert "``" not in found["description"], path


@pytest.mark.parametrize("kind", OURS)
def test_descriptions_tell_default_and_bounds(kind):
    for path, found in fields(structural_schema(kind)):
        assert found["description"].endswith(" ".join(facts(found))), path
        if isinstance(found.get("default", {}), str | int):
            assert str(found["default"]).lower() in found["description"].lower(), path


@pytest.mark.parametrize("kind", OURS)
def test_descriptions_tell_units(kind):
    for path, found in fields(structural_schema(kind)):
        for ending, unit in UNITS:
            if path.strip("?").endswith(ending):
                assert re.search(unit, found["description"]), path


@pytest.mark.parametrize("kind", OURS)
def test_descriptions_of_what_users_may_leave_out_say_what_that_means(kind):
    for path, found in fields(structural_schema(kind)):
        if path.startswith(".spec") and path.endswith("?") and "default" not in found:
            assert re.search("[Aa]bsent", found["description"]), path


@pytest.mark.parametrize("definition", custom_resource_definitions(), ids=lambda found: found["metadata"]["name"])
def test_kubectl_can_apply_every_definition_with_room_to_spare(definition):
    assert len(json.dumps(definition)) < LONGEST_ANNOTATION / 2


@pytest.mark.parametrize(
    ("kind", "path", "end"),
    [
        pytest.param(PLACEMENT, ".spec.strategy.rollingUpdate.maxSurge", "Default: 25%. At least 0.", id="percent"),
        pytest.param(PLACEMENT, ".spec.revisionHistoryLimit", "Default: 10. 1 to 1000.", id="bounds"),
        pytest.param(PLACEMENT, ".spec.resourceSelectors", "1 to 100 items.", id="items"),
        pytest.param(STAGED_RUN, ".spec.placementName", "At most 255 characters.", id="characters"),
        pytest.param(UPGRADE_RUN, ".spec.timeouts.cancelOnTimeout", "Default: false.", id="false"),
        pytest.param(UPGRADE_RUN, ".spec.timeouts.gateSeconds", "Default: 0. At least 0.", id="zero"),
        pytest.param(UPGRADE_RUN, ".spec.timeouts", "Absent: the default of each field.", id="empty-object"),
        pytest.param(NODE_POOL, ".spec.disruption.budgets", 'Default: [{"nodes":"10%"}]. At most 50 items.', id="list"),
    ],
)
def test_numbers_come_from_the_schema(kind, path, end):
    assert field(kind, path).endswith(f". {end}") or field(kind, path).endswith(f" {end}")


def test_the_default_state_of_runs_is_told_as_it_is_set():
    schema = structural_schema(STAGED_RUN, staged_run_default_state="Run")
    assert schema["properties"]["spec"]["properties"]["state"]["description"].endswith("Default: Run.")
