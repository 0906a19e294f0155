"""Pruning, null dropping and defaulting, as an API server does them (placement-api.md 2.8)."""

import copy
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api import kinds
from scorer.api.crd.definitions import structural_schema
from scorer.api.crd.pruning import (
    apply_schema_defaults,
    nearest_field,
    object_schema,
    prune,
    strip_nulls,
    unknown_fields,
    with_metadata,
)
from scorer.api.crd.shape import OPEN, WHOLE_OBJECT
from scorer.api.kinds import KINDS, OUR_KINDS
from scorer.api.values.field_path import FieldPath

leaves = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x", "External", "25%"])


def documents(schema: dict, depth: int = 0) -> st.SearchStrategy:
    """Draw objects that follow *schema* here and there, with nulls, wrong types and unknown members."""
    if depth > 8 or not ({"properties", "items", "additionalProperties"} & schema.keys()):
        return leaves
    if "items" in schema:
        return leaves | st.lists(st.deferred(lambda: documents(schema["items"], depth + 1)), max_size=2)
    if "additionalProperties" in schema:
        return st.dictionaries(
            st.sampled_from("ab"), st.deferred(lambda: documents(schema["additionalProperties"], depth + 1))
        )
    fields = {
        name: st.deferred(lambda field=field: documents(field, depth + 1))
        for name, field in schema["properties"].items()
    }
    return leaves | st.fixed_dictionaries({}, optional={**fields, "unknown": leaves})


@st.composite
def kinds_and_documents(draw):
    kind = draw(st.sampled_from(OUR_KINDS))
    fields = structural_schema(kind)["properties"]
    return kind, draw(st.fixed_dictionaries({}, optional={name: documents(field) for name, field in fields.items()}))


def placement(spec: dict) -> dict:
    return {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacement", "spec": spec}


def defaulted(spec: dict) -> dict:
    return apply_schema_defaults(kinds.PLACEMENT, placement(spec))["spec"]


ALWAYS = {"revisionHistoryLimit": 10, "statusReportingScope": "ClusterScopeOnly"}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        pytest.param({}, ALWAYS, id="absent-objects-stay-absent"),
        pytest.param({"strategy": {}}, {"strategy": {"type": "RollingUpdate"}, **ALWAYS}, id="empty-object-is-filled"),
        pytest.param({"strategy": None}, {"strategy": None, **ALWAYS}, id="null-object-is-not"),
        pytest.param({"revisionHistoryLimit": None}, ALWAYS, id="null-is-absent"),
        pytest.param({"revisionHistoryLimit": 0}, {**ALWAYS, "revisionHistoryLimit": 0}, id="zero-is-a-value"),
        pytest.param({"statusReportingScope": ""}, {**ALWAYS, "statusReportingScope": ""}, id="empty-text-is-a-value"),
        pytest.param(
            {"resourceSelectors": [{"kind": "A"}, {"kind": "B", "selectionScope": "NamespaceOnly"}]},
            {
                "resourceSelectors": [
                    {"kind": "A", "selectionScope": "NamespaceWithResources"},
                    {"kind": "B", "selectionScope": "NamespaceOnly"},
                ],
                **ALWAYS,
            },
            id="every-item",
        ),
        pytest.param(
            {"policy": {"tolerations": [{}, 5]}},
            {"policy": {"placementType": "PickAll", "tolerations": [{"operator": "Equal"}, 5]}, **ALWAYS},
            id="deep",
        ),
        pytest.param({"policy": "PickAll"}, {"policy": "PickAll", **ALWAYS}, id="wrong-type-is-left-alone"),
        pytest.param(
            {"resourceSelectors": {"a": {"kind": "A"}}},
            {"resourceSelectors": {"a": {"kind": "A"}}, **ALWAYS},
            id="map-in-the-place-of-a-list-is-left-alone",
        ),
    ],
)
def test_defaults(spec, wanted):
    assert defaulted(spec) == wanted


def test_a_default_object_gets_the_defaults_inside_it():
    pool = apply_schema_defaults(kinds.NODE_POOL, {"spec": {"template": {"spec": {}}}})
    assert pool["spec"] == {
        "template": {"spec": {}},
        "disruption": {
            "consolidateAfter": "0s",
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "budgets": [{"nodes": "10%"}],
        },
    }


def test_defaults_are_not_shared_between_documents():
    first = apply_schema_defaults(kinds.NODE_POOL, {"spec": {}})
    first["spec"]["disruption"]["budgets"].append("mine")
    assert apply_schema_defaults(kinds.NODE_POOL, {"spec": {}})["spec"]["disruption"]["budgets"] == [{"nodes": "10%"}]


@pytest.mark.parametrize("member", ["topologySpreadConstraints", "tolerations"])
def test_a_list_that_is_too_long_to_be_stored_gets_no_defaults(member):
    def document(count):
        return {"spec": {"policy": {"placementType": "PickN", member: [{} for _ in range(count)]}}}

    def items(count):
        return apply_schema_defaults(kinds.PLACEMENT, document(count))["spec"]["policy"][member]

    assert all(items(100))
    assert not any(items(101))


def test_the_default_state_of_runs_is_a_setting():
    run = {"spec": {"placementName": "a"}}
    assert apply_schema_defaults(kinds.STAGED_RUN, run)["spec"]["state"] == "Initialize"
    assert apply_schema_defaults(kinds.STAGED_RUN, run, staged_run_default_state="Run")["spec"]["state"] == "Run"


def test_pruning_says_what_it_dropped():
    document = placement({"policy": {"numberOfCluster": 3, "tolerations": [{"key": "a", "when": 1}]}, "extra": {}})
    document["metadata"] = {"name": "a", "labels": {"anything": "goes"}, "lables": {}}
    pruned = prune(kinds.PLACEMENT, document)
    assert pruned.document == {
        **placement({"policy": {"tolerations": [{"key": "a"}]}}),
        "metadata": {"name": "a", "labels": {"anything": "goes"}},
    }
    assert sorted(map(str, pruned.dropped)) == [
        "metadata.lables",
        "spec.extra",
        "spec.policy.numberOfCluster",
        "spec.policy.tolerations[0].when",
    ]


def test_embedded_objects_and_free_values_are_kept_whole():
    work = {"spec": {"workload": {"manifests": [{"kind": "ConfigMap", "data": None, "x": {"y": None}}]}}}
    assert prune(kinds.WORK, work).document is work
    assert strip_nulls(kinds.WORK, work) is work
    envelope = {"data": {"a.yaml": {"kind": "ConfigMap", "data": None}}}
    assert prune(kinds.ENVELOPE, envelope).document is envelope
    assert strip_nulls(kinds.ENVELOPE, envelope) is envelope


BOAT = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "sails": {"type": "array", "items": {"type": "object", "properties": {"area": {"type": "integer"}}}},
                "crew": {"type": "object", "additionalProperties": {"type": "object", "properties": {"rank": {}}}},
                "cargo": {"type": "object", OPEN: True, "properties": {"hold": {"type": "object"}}},
                "any": {"type": "object", "additionalProperties": True},
                "none": {"type": "object"},
                "whole": {"type": "object", OPEN: True, WHOLE_OBJECT: True},
                "size": {"x-kubernetes-int-or-string": True},
            },
        }
    },
}


@pytest.mark.parametrize(
    ("document", "unknown"),
    [
        pytest.param({"spce": {}}, {"spce": "spec"}, id="at-the-top"),
        pytest.param({"metadata": {"lables": {}, "labels": {"a": "b"}}}, {"metadata.lables": "labels"}, id="metadata"),
        pytest.param(
            {"metadata": {"ownerReferences": [{"kind": "A", "Uid": "1"}]}},
            {"metadata.ownerReferences[0].Uid": "uid"},
            id="deep-in-metadata",
        ),
        pytest.param({"spec": {"sails": [{}, {"aera": 1}]}}, {"spec.sails[1].aera": "area"}, id="item"),
        pytest.param({"spec": {"sails": [{"AREA": None}]}}, {"spec.sails[0].AREA": "area"}, id="null"),
        pytest.param({"spec": {"crew": {"ann": {"rnak": 1}}}}, {"spec.crew.ann.rnak": "rank"}, id="value-of-a-map"),
        pytest.param({"spec": {"cargo": {"x": {"y": 1}}}}, {}, id="preserved"),
        pytest.param({"spec": {"cargo": {"hold": {"y": 1}}}}, {"spec.cargo.hold.y": ""}, id="named-in-preserved"),
        pytest.param({"spec": {"any": {"x": {"y": 1}}}}, {}, id="any-values"),
        pytest.param({"spec": {"none": {"x": 1}}}, {"spec.none.x": ""}, id="object-without-fields"),
        pytest.param({"spec": {"whole": {"spec": {}, "metadata": {"name": "a"}}}}, {}, id="embedded"),
        pytest.param(
            {"spec": {"whole": {"metadata": {"nmae": "a"}}}}, {"spec.whole.metadata.nmae": "name"}, id="in-embedded"
        ),
        pytest.param({"spec": {"size": {"x": 1}, "sails": {"x": 1}, "crew": []}}, {}, id="wrong-types"),
        pytest.param({"apiVersion": "v1", "kind": "Boat", "spec": None}, {}, id="known"),
    ],
)
def test_unknown_fields_are_found_at_every_depth(document, unknown):
    schema = with_metadata(BOAT)
    assert {str(path): nearest_field(path, schema) for path in unknown_fields(document, schema)} == unknown


def _closed_objects(schema: dict, at: tuple = ()) -> Iterator[tuple]:
    """Yield the path of every object that takes only the fields that its schema names."""
    if schema.get("properties") and not schema.get(OPEN):
        yield at
    for name, field in schema.get("properties", {}).items():
        yield from _closed_objects(field, (*at, name))
    for below, part in (("items", 0), ("additionalProperties", "a")):
        if isinstance(schema.get(below), dict):
            yield from _closed_objects(schema[below], (*at, part))


@pytest.mark.parametrize("kind", OUR_KINDS, ids=str)
def test_no_object_of_our_kinds_takes_another_field(kind):
    schema = object_schema(kind)
    paths = list(_closed_objects(schema))
    assert ("spec",) in paths or "spec" not in schema["properties"] or schema["properties"]["spec"].get(OPEN)
    for path in paths:
        document = {"oddity": None}
        for part in reversed(path):
            document = [document] if isinstance(part, int) else {part: document}
        assert unknown_fields(document, schema) == (FieldPath((*path, "oddity")),)


def test_nulls_are_dropped_where_the_schema_looks():
    document = placement({"policy": None, "strategy": {"type": None}, "resourceSelectors": [None, {"name": None}]})
    assert strip_nulls(kinds.PLACEMENT, document) == placement({"strategy": {}, "resourceSelectors": [None, {}]})


@pytest.mark.parametrize("key", [("", "ConfigMap"), ("apps", "Deployment")])
def test_kinds_that_are_not_ours_pass_untouched(key):
    document = {"spec": {"a": None}}
    assert apply_schema_defaults(KINDS[key], document) is document
    assert prune(KINDS[key], document).document is document
    assert strip_nulls(KINDS[key], document) is document


@given(kinds_and_documents())
def test_each_step_done_twice_is_done_once_and_changes_no_argument(drawn):
    kind, document = drawn
    before = copy.deepcopy(document)
    for step in (apply_schema_defaults, strip_nulls, lambda kind, document: prune(kind, document).document):
        once = step(kind, document)
        assert document == before
        assert step(kind, once) is once
        assert (once is document) or once != document


@given(kinds_and_documents())
def test_defaulting_only_adds(drawn):
    kind, document = drawn

    def kept(old, new):
        match old, new:
            case None, _:
                return True
            case dict(), dict():
                return all(kept(item, new.get(name)) for name, item in old.items())
            case list(), list():
                return len(old) == len(new) and all(map(kept, old, new))
            case _:
                return old == new and type(old) is type(new)

    assert kept(document, apply_schema_defaults(kind, document))


@given(kinds_and_documents())
def test_pruned_documents_have_no_unknown_member_left(drawn):
    kind, document = drawn
    pruned = prune(kind, document)
    assert not prune(kind, pruned.document).dropped
    assert bool(pruned.dropped) == (pruned.document is not document)
    for path in pruned.dropped:
        value = document
        for part in path.parts:
            value = value[part]
