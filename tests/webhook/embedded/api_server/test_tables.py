"""Tables of objects, as kubectl asks for them."""

from datetime import UTC, datetime

import pytest

from scorer.api.kinds import EVENT, KINDS, NODE_POOL, PLACEMENT, Kind
from tests.builders.placement import make_placement
from webhook.embedded.api_server.request_info import RequestInfo
from webhook.embedded.api_server.status import ApiError
from webhook.embedded.api_server.tables import accepts_table, tables_for

NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
BOAT = Kind("example.com", ("v1",), "Boat", "boats", True)


def table(kind: Kind, *documents, definition=None, included=""):
    target = RequestInfo(kind, kind.group, kind.versions[0], None, "", "")
    return tables_for(target, definition, lambda: NOW, included).of(documents, "7")


def boat(**spec):
    metadata = {"name": "b", "creationTimestamp": "2026-05-01T11:00:00Z", "resourceVersion": "3"}
    return {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": metadata, "spec": spec}


def boats(*columns):
    return {"spec": {"versions": [{"name": "v1", "storage": True, "additionalPrinterColumns": list(columns)}]}}


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        pytest.param("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", True, id="kubectl"),
        pytest.param("application/json; as=Table; g=meta.k8s.io; v=v1", True, id="another-order"),
        pytest.param("application/json", False, id="objects"),
        pytest.param("application/json,application/json;as=Table;v=v1;g=meta.k8s.io", False, id="objects-preferred"),
        pytest.param("application/json;as=Table;v=v1beta1;g=meta.k8s.io", False, id="a-version-that-is-gone"),
        pytest.param("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", False, id="something-else"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_who_wants_a_table(accept, wanted):
    assert accepts_table(accept) is wanted


def test_a_table_of_placements():
    document = make_placement("web") | {"status": {"conditions": []}}
    document["metadata"] |= {"generation": 2, "creationTimestamp": "2026-05-01T11:00:00Z"}
    found = table(PLACEMENT, document)
    shown = dict(zip([each["name"] for each in found["columnDefinitions"]], found["rows"][0]["cells"], strict=True))
    assert (shown["Name"], shown["Gen"], shown["Scheduled"], shown["Scheduled-Gen"], shown["Age"]) == (
        "web",
        2,
        "",
        None,
        "60m",
    )
    assert found["metadata"] == {"resourceVersion": "7"}
    assert [each["name"] for each in found["columnDefinitions"] if each["priority"]] == [
        "Type",
        "Work-Synchronized",
        "Work-Synchronized-Gen",
    ]


@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_every_kind_has_a_table_even_of_an_empty_object(kind):
    found = table(kind, {"metadata": {"name": "x"}})
    assert len(found["rows"][0]["cells"]) == len(found["columnDefinitions"])
    assert {each["type"] for each in found["columnDefinitions"]} <= {"string", "integer", "number"}


@pytest.mark.parametrize(
    "value", ["x", 1, True, [], ["x"], {}, {"conditions": ["x"], "placementStatuses": "x"}], ids=str
)
@pytest.mark.parametrize("kind", KINDS.values(), ids=str)
def test_every_kind_has_a_table_even_of_a_damaged_object(kind, value):
    parts = dict.fromkeys(("spec", "status", "sourceStatus", "regarding", "series", "type", "note"), value)
    nested = {"status": {"placementStatuses": value, "conditions": value, "agentStatus": value}}
    for document in (parts, nested):
        assert table(kind, {"metadata": {"name": "x"}, **document})["rows"]


def test_an_event_is_not_shown_by_its_name():
    assert table(EVENT)["columnDefinitions"][0]["name"] == "Last Seen"


@pytest.mark.parametrize(
    ("included", "kind"),
    [
        pytest.param("", "PartialObjectMetadata", id="by-default"),
        pytest.param("Metadata", "PartialObjectMetadata", id="metadata"),
        pytest.param("Object", "Boat", id="object"),
    ],
)
def test_what_a_row_carries(included, kind):
    assert table(BOAT, boat(), included=included)["rows"][0]["object"]["kind"] == kind


def test_a_row_may_carry_nothing():
    assert table(BOAT, boat(), included="None")["rows"][0]["object"] is None


def test_including_something_else():
    with pytest.raises(ApiError, match="includeObject 'All' is not one of Metadata, None, Object"):
        table(BOAT, included="All")


@pytest.mark.parametrize(
    ("columns", "cells"),
    [
        pytest.param([{"name": "Sails", "type": "integer", "jsonPath": ".spec.sails"}], ["b", 3, "60m"], id="number"),
        pytest.param([{"name": "Sails", "type": "string", "jsonPath": ".spec.sails"}], ["b", "3", "60m"], id="text"),
        pytest.param([{"name": "Mast", "type": "number", "jsonPath": ".spec.mast"}], ["b", None, "60m"], id="absent"),
        pytest.param(["Sails", {"name": "Sails"}, {"jsonPath": ".spec"}], ["b", "60m"], id="malformed"),
        pytest.param([{"name": "Sails", "type": 1, "jsonPath": ".spec.sails"}], ["b", "3", "60m"], id="odd-type"),
    ],
)
def test_columns_of_a_definition(columns, cells):
    assert table(BOAT, boat(sails=3), definition=boats(*columns))["rows"][0]["cells"] == cells


def test_a_number_that_is_none_is_left_out():
    found = table(NODE_POOL, {"metadata": {"name": "p"}, "status": {"nodes": "many"}})
    assert found["rows"][0]["cells"][2] is None
