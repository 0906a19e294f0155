"""The OpenAPI v3 documents that the embedded API server answers with."""

import pytest
from openapi_spec_validator import validate

from scorer.api.crd.definitions import structural_schema
from scorer.api.kinds import BUILT_IN, KINDS, MEMBER_CLUSTER, OUR_KINDS, PLACEMENT, Kind
from webhook.embedded.api_server.openapi import document, index
from webhook.embedded.api_server.status import ApiError

ALL = tuple(KINDS.values())
VERSIONS = sorted({(kind.group, version) for kind in ALL for version in kind.versions})
BOAT = Kind("example.com", ("v1",), "Boat", "boats", True)
CRP = "io.kubernetes-fleet.placement.v1beta1.ClusterResourcePlacement"


def boats(*versions: object) -> dict[tuple[str, str], dict[str, object]]:
    return {BOAT.group_kind: {"spec": {"versions": list(versions)}}}


def schema_of_boats(definitions: dict[tuple[str, str], dict[str, object]]) -> dict[str, object]:
    return document((BOAT,), "example.com", "v1", definitions)["components"]["schemas"]["com.example.v1.Boat"]


@pytest.mark.parametrize(("group", "version"), VERSIONS)
def test_every_document_is_valid_openapi(group, version):
    validate(document(ALL, group, version, {}))


def test_the_index_leads_to_every_document():
    paths = index(ALL)["paths"]
    assert paths["api/v1"] == {"serverRelativeURL": "/openapi/v3/api/v1"}
    assert sorted(paths) == sorted(
        f"apis/{group}/{version}" if group else f"api/{version}" for group, version in VERSIONS
    )


def test_a_schema_is_that_of_the_definition_with_the_metadata_described():
    schemas = document(ALL, PLACEMENT.group, "v1beta1", {})["components"]["schemas"]
    found, defined = schemas[CRP], structural_schema(PLACEMENT)
    assert found["properties"]["spec"] == defined["properties"]["spec"]
    (reference,) = found["properties"]["metadata"]["allOf"]
    metadata = schemas[reference["$ref"].rpartition("/")[2]]
    assert all(field["description"] for field in metadata["properties"].values())
    assert defined["properties"]["metadata"] == {"type": "object"}


@pytest.mark.parametrize("kind", [*OUR_KINDS, *BUILT_IN], ids=str)
def test_every_kind_can_be_patched_with_a_check_of_its_fields(kind):
    """Where it cannot, kubectl wants a document of OpenAPI v2."""
    identity = {"group": kind.group, "version": kind.versions[0], "kind": kind.kind}
    patches = [
        item["patch"]["parameters"]
        for item in document(ALL, kind.group, kind.versions[0], {})["paths"].values()
        if "patch" in item and item["patch"]["x-kubernetes-group-version-kind"] == identity
    ]
    assert [sorted(each["name"] for each in found) for found in patches] == [["dryRun", "fieldValidation"]]


@pytest.mark.parametrize(
    ("kind", "paths"),
    [
        pytest.param(MEMBER_CLUSTER, ["/memberclusters", "/memberclusters/{name}"], id="cluster-scoped"),
        pytest.param(
            BOAT,
            ["/boats", "/namespaces/{namespace}/boats", "/namespaces/{namespace}/boats/{name}"],
            id="namespaced",
        ),
    ],
)
def test_paths(kind, paths):
    found = document((kind,), kind.group, "v1", {})["paths"]
    assert [path.removeprefix(f"/apis/{kind.group}/v1") for path in found] == paths


def test_a_kind_that_the_hub_was_given_is_described_by_its_definition():
    schema = {"type": "object", "description": "Sails."}
    assert schema_of_boats(boats({"name": "v1", "schema": {"openAPIV3Schema": schema}})).items() >= schema.items()


@pytest.mark.parametrize(
    "definitions",
    [
        pytest.param({}, id="none"),
        pytest.param(boats(), id="no-versions"),
        pytest.param(boats({"name": "v2", "schema": {"openAPIV3Schema": {"type": "object"}}}), id="another-version"),
        pytest.param(boats({"name": "v1", "schema": "x"}), id="no-schema"),
        pytest.param(boats("v1"), id="no-object"),
    ],
)
def test_a_kind_without_a_readable_definition_takes_anything(definitions):
    assert schema_of_boats(definitions)["x-kubernetes-preserve-unknown-fields"] is True


def test_a_group_and_version_that_is_not_served():
    with pytest.raises(ApiError, match=r"no API version 'example\.com/v2'"):
        document((BOAT,), "example.com", "v2", {})
