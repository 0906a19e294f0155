"""How one definition of a kind is compared with another."""

from copy import deepcopy

import pytest

from scorer.api.crd.compatibility import is_newer, missing_fields, schema_of
from scorer.api.crd.definitions import custom_resource_definitions
from scorer.api.kinds import APPLIED_WORK
from scorer.api.unstructured.documents import name_of

OURS = next(each for each in custom_resource_definitions() if name_of(each) == APPLIED_WORK.resource)


def test_what_takes_any_fields_lacks_none():
    wanted = {"properties": {"a": {"properties": {"b": {}}}, "c": {"items": {"properties": {"d": {}}}}}}
    assert list(missing_fields({"x-kubernetes-preserve-unknown-fields": True}, wanted)) == []
    assert list(missing_fields({"properties": {"a": {"additionalProperties": {}}, "c": {}}}, wanted)) == ["c[].d"]


def more_fields(versions):
    schema_of(versions[-1])["properties"]["status"]["properties"]["novelty"] = {"type": "string"}


def another_version(versions):
    versions.append(deepcopy(versions[-1]) | {"name": "v2"})


def same(versions):
    """Change nothing."""


def other_words(versions):
    schema_of(versions[-1])["description"] = "another"


def fewer_fields(versions):
    more_fields(versions)
    schema_of(versions[-1])["properties"].pop("spec")


def another_version_in_place_of_ours(versions):
    versions[-1]["name"] = "v2"


@pytest.mark.parametrize(
    ("change", "newer"),
    [
        (more_fields, True),
        (another_version, True),
        (same, False),
        (other_words, False),
        (fewer_fields, False),
        (another_version_in_place_of_ours, False),
    ],
)
def test_a_definition_is_newer_when_it_has_all_of_ours_and_more(change, newer):
    stored = deepcopy(OURS)
    change(stored["spec"]["versions"])
    assert is_newer(stored, OURS) is newer
