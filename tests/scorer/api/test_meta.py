"""Reading: strict, nulls dropped, camelCase only, and never anything but a ValidationError."""

import copy
import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from scorer.api.crd.models import MODELS
from scorer.api.meta import (
    ApiModel,
    Int32,
    Int64,
    ObjectMeta,
    dump_json,
    format_time,
    parse_time,
    shared_default,
    without_nulls,
)
from scorer.api.placement.placement import (
    ClusterResourcePlacement,
    PlacementPolicy,
    PlacementType,
    PreferredClusterSelector,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)
FIELDS = [
    "spec",
    "status",
    "metadata",
    "policy",
    "tolerations",
    "affinity",
    "identity",
    "stages",
    "conditions",
    "type",
    "name",
]
objects = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3),
    max_leaves=8,
)


class Numbers(ApiModel):
    """All the ways in which an integer is bounded."""

    plain: Int32 = 0
    narrow: Int32 = Field(default=0, ge=-100, le=100)
    maybe: Int32 | None = Field(default=None, ge=0)
    many: tuple[Int32, ...] = ()
    wide: Int64 = 0


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        ("plain", [-(2**31), 2**31 - 1], [-(2**31) - 1, 2**31, 10**400]),
        ("narrow", [-100, 100], [-101, 101, 2**31]),
        ("maybe", [0, 2**31 - 1], [-1, 2**31]),
        ("wide", [-(2**63), 2**63 - 1], [2**63, -(2**63) - 1]),
    ],
)
def test_bounds_of_integers(field, good, bad):
    """The bounds of the type hold, and do not replace narrower ones of the field."""
    for value in good:
        assert getattr(Numbers.read({field: value}), field) == value
    for value in bad:
        with pytest.raises(ValidationError, match=field):
            Numbers.read({field: value})
    with pytest.raises(ValidationError, match="many"):
        Numbers.read({"many": [2**31]})


@pytest.mark.parametrize("weight", [-101, 101])
def test_the_bounds_of_a_real_field_hold(weight):
    with pytest.raises(ValidationError, match="weight"):
        PreferredClusterSelector.read({"weight": weight, "preference": {}})


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param({"numberOfClusters": "3"}, id="text-is-no-integer"),
        pytest.param({"numberOfClusters": True}, id="a-bool-is-no-integer"),
        pytest.param({"numberOfClusters": 3.0}, id="a-fraction-is-no-integer"),
        pytest.param({"clusterNames": [5]}, id="a-number-is-no-text"),
        pytest.param({"clusterNames": "a"}, id="a-text-is-no-list"),
        pytest.param({"tolerations": {}}, id="an-object-is-no-list"),
        pytest.param({"affinity": []}, id="a-list-is-no-object"),
        pytest.param({"placementType": "pickall"}, id="words-are-case-sensitive"),
    ],
)
def test_nothing_is_coerced(policy):
    with pytest.raises(ValidationError):
        PlacementPolicy.read(policy)


def test_null_is_absent_and_presence_differs_from_emptiness():
    policy = PlacementPolicy.read({"placementType": None, "tolerations": [], "affinity": {}, "clusterNames": None})
    assert policy.placement_type is PlacementType.PICK_ALL
    assert policy.model_fields_set == {"tolerations", "affinity"}


def test_unknown_fields_and_python_names_are_ignored():
    policy = PlacementPolicy.read({"numberOfCluster": 1, "number_of_clusters": 2, "cluster_names": 3})
    assert policy == PlacementPolicy()
    assert policy.model_fields_set == set()


def test_reading_lists_every_mistake_and_leaves_the_document_alone():
    document = {
        "spec": {
            "resourceSelectors": [{"group": "", "kind": 1}, {"group": "", "version": "v1", "kind": "A"}],
            "revisionHistoryLimit": 0,
            "policy": None,
        }
    }
    before = copy.deepcopy(document)
    with pytest.raises(ValidationError) as caught:
        ClusterResourcePlacement.read(document)
    assert {".".join(map(str, error["loc"])) for error in caught.value.errors()} == {
        "spec.resourceSelectors.0.version",
        "spec.resourceSelectors.0.kind",
        "spec.revisionHistoryLimit",
    }
    assert document == before


@given(document=st.dictionaries(st.sampled_from(FIELDS), objects), model=st.sampled_from(sorted(MODELS)))
def test_any_json_object_reads_or_is_refused(document, model):
    try:
        read = MODELS[model].read(document)
    except ValidationError:
        return
    assert isinstance(read, MODELS[model])


@pytest.mark.parametrize("depth", [100, 210, 300, 900])
def test_deep_nesting_is_refused_or_ignored(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    if depth < 200:
        assert ObjectMeta.read({"name": "a", "unknown": value}).name == "a"
        return
    with pytest.raises(ValidationError, match=r"recursion|nested"):
        ObjectMeta.read({"name": "a", "unknown": value})


def test_a_lone_surrogate_is_replaced():
    assert ObjectMeta.read({"name": "a\ud800b"}).name == "a\N{REPLACEMENT CHARACTER}b"
    assert json.loads(dump_json({"\udfff": ["\ud800", 2**70, None]})) == {"\ufffd": ["\ufffd", float(2**70), None]}


@given(json_values)
def test_without_nulls_drops_members_only(value):
    def count(item: object) -> int:
        match item:
            case dict():
                return sum(count(inner) for inner in item.values() if inner is not None)
            case list():
                return len(item) + sum(map(count, item))
            case _:
                return 0

    stripped = without_nulls(value)
    assert count(stripped) == count(value)
    assert without_nulls(stripped) == stripped


@given(st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC)))
def test_times_are_written_in_whole_seconds_and_read_back(instant):
    assert parse_time(format_time(instant)) == instant.replace(microsecond=0)


def test_a_time_needs_an_offset():
    assert parse_time("2026-11-20T13:00:00+01:00") == datetime(2026, 11, 20, 12, tzinfo=UTC)
    with pytest.raises(ValueError, match="offset"):
        parse_time("2026-11-20T13:00:00")


@pytest.mark.parametrize("text", ["0001-01-01T00:00+14:00", "9999-12-31T23:59:59-00:01"])
def test_a_time_lies_in_the_years_that_there_are(text):
    with pytest.raises(ValueError, match=r"lies outside the years 1 to 9999 in UTC"):
        parse_time(text)


def test_instants_in_utc_share_one_time_zone_and_others_keep_theirs():
    meta = ObjectMeta.read(
        {"creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": "2026-01-02T03:04:05+02:00"}
    )
    assert meta.creation_timestamp == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert meta.creation_timestamp.tzinfo is UTC
    assert meta.deletion_timestamp == datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC)
    assert meta.deletion_timestamp.tzinfo is not UTC


def test_the_default_of_an_absent_part_is_shared_and_builds_no_validator():
    class Phases(ApiModel):
        phase: str = "Pending"
        names: tuple[str, ...] = ()

    class Whole(ApiModel):
        status: Phases = Field(default_factory=shared_default(Phases))

    first, second = Whole.read({}), Whole.read({})
    assert first.status is second.status
    assert not Phases.__pydantic_complete__
    assert (first.status, first.status.model_fields_set) == (Phases(), set())
