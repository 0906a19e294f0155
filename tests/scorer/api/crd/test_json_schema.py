"""The JSON Schemas of our kinds, by the library that others check with."""

import copy
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator
from referencing import Registry, Resource

from scorer.api.crd.json_schema import ALL, file_of, json_schema, json_schemas
from scorer.api.kinds import KINDS, OUR_KINDS, PLACEMENT, WORK, group_kind

EXAMPLES = Path(__file__).parents[4] / "examples"
SCHEMAS = dict(json_schemas())
REGISTRY = Registry().with_resources(
    (f"file:///schemas/{name}", Resource.from_contents(schema)) for name, schema in SCHEMAS.items()
)
EVERYTHING = Draft7Validator({"$ref": f"file:///schemas/{ALL}"}, registry=REGISTRY)
DOCUMENTS = [
    pytest.param(document, id=f"{path.stem}-{document['kind']}-{document['metadata']['name']}")
    for folder in ("fleet", "budgets", "disruption", "analysis", "upgrader")
    for path in sorted((EXAMPLES / folder).glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
    if document and "metadata" in document and group_kind(document) in KINDS
]
OURS = [each for each in DOCUMENTS if KINDS[group_kind(each.values[0])] in OUR_KINDS]


def mistakes(document, validator=EVERYTHING):
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(document)]


def placement(**spec):
    """Return a placement of a namespace, with more in its spec."""
    selectors = [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]
    identity = {"apiVersion": PLACEMENT.api_version, "kind": PLACEMENT.kind, "metadata": {"name": "a"}}
    return {**identity, "spec": {"resourceSelectors": selectors, **spec}}


FREE = {
    "labels",
    "annotations",
    "matchLabels",
    "limits",
    "data",
    "properties",
    "capacity",
    "allocatable",
    "available",
    "namespaces",
}
"""Objects in the examples whose members users name."""


def objects(document, path=()):
    """Yield the paths of the objects in *document* that have only certain members."""
    yield path
    for name, value in document.items():
        if isinstance(value, dict) and name not in FREE:
            yield from objects(value, (*path, name))


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_one(name):
    Draft7Validator.check_schema(SCHEMAS[name])


@pytest.mark.parametrize("name", [name for name in SCHEMAS if name != ALL])
def test_the_schema_of_a_kind_is_complete_in_itself(name):
    assert "$ref" not in str(SCHEMAS[name])
    assert "x-kubernetes" not in str(SCHEMAS[name])


def test_the_layout_is_that_of_catalogs():
    assert "placement.kubernetes-fleet.io/clusterresourceplacement_v1beta1.json" in SCHEMAS
    assert len(SCHEMAS) == sum(len(kind.versions) for kind in OUR_KINDS) + 1


@pytest.mark.parametrize("document", DOCUMENTS)
def test_examples_are_valid(document):
    assert mistakes(document) == []


@pytest.mark.parametrize("document", OURS)
def test_an_unknown_field_in_any_part_of_an_example_is_a_mistake(document):
    for path in objects(document):
        changed = copy.deepcopy(document)
        part = changed
        for name in path:
            part = part[name]
        part["misspelled"] = 1
        assert any("'misspelled' was unexpected" in mistake for mistake in mistakes(changed)), path


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param(placement(policy={"placementType": "PickSome"}), "'PickSome' is not one of", id="enum"),
        pytest.param(placement(revisionHistoryLimit=0), "0 is less than the minimum of 1", id="bound"),
        pytest.param(placement(strategy={"rollingUpdate": {"maxSurge": "5"}}), "'5' does not match", id="pattern"),
        pytest.param(placement(resourceSelectors=[]), "should be non-empty", id="empty-list"),
        pytest.param(placement() | {"metadata": {"nmae": "a"}}, "'nmae' was unexpected", id="metadata"),
        pytest.param({**placement(), "spec": {}}, "'resourceSelectors' is a required property", id="required"),
    ],
)
def test_mistakes_are_found(document, said):
    assert said in "\n".join(mistakes(document))


def test_a_number_and_a_percentage_are_both_fine():
    for surge in (2, "25%"):
        assert mistakes(placement(strategy={"rollingUpdate": {"maxSurge": surge}})) == []


def test_a_schema_is_for_one_version():
    validator = Draft7Validator(json_schema(PLACEMENT, "v1"))
    assert "'placement.kubernetes-fleet.io/v1' was expected" in mistakes(placement(), validator)[0]


def test_objects_of_other_kinds_are_left_alone():
    assert mistakes({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": 1}}) == []


def test_content_that_is_not_ours_is_open_but_is_an_object():
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}
    work = {"apiVersion": WORK.api_version, "kind": "Work", "metadata": {"name": "w", "namespace": "m"}}
    validator = Draft7Validator(SCHEMAS[file_of(WORK, "v1")])
    work["apiVersion"] = "placement.kubernetes-fleet.io/v1"
    assert mistakes(work | {"spec": {"workload": {"manifests": [manifest]}}}, validator) == []
    assert mistakes(work | {"spec": {"workload": {"manifests": [{"data": {}}]}}}, validator) != []
