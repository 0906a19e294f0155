"""Cells of ``get`` tables: paths, ages, and every path that our definitions use."""

from datetime import UTC, datetime

import pytest

from scorer.api.crd.columns import PRINTER_COLUMNS
from scorer.api.crd.table import _STEP, cells, columns_of, find_path, format_age
from scorer.api.kinds import KINDS, MEMBER_CLUSTER, NODE_POOL, PLACEMENT, STAGED_RUN

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MEMBER = {
    "metadata": {"name": "a", "creationTimestamp": "2026-03-01T10:00:00Z"},
    "status": {
        "conditions": [{"type": "Ready", "status": "False"}, {"type": "Joined", "status": "True"}],
        "properties": {"kubernetes-fleet.io/node-count": {"value": "4"}},
        "agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": "2026-03-01T11:59:23Z"}],
        "resourceUsage": {"available": {"cpu": "2", "memory": "4Gi"}},
    },
}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        pytest.param(".metadata.name", "a", id="member"),
        pytest.param('.status.conditions[?(@.type=="Joined")].status', "True", id="filter"),
        pytest.param(r".status.properties.kubernetes-fleet\.io/node-count.value", "4", id="escaped-dot"),
        pytest.param(".status.conditions[1].type", "Joined", id="index"),
        pytest.param(".status.conditions[7].type", None, id="index-too-large"),
        pytest.param(".status.nothing.here", None, id="absent"),
        pytest.param(".metadata.name.more", None, id="below-text"),
        pytest.param("$..x", None, id="not-understood"),
    ],
)
def test_paths(path, value):
    assert find_path(MEMBER, path) == value


def test_every_path_of_our_definitions_is_understood():
    for columns in PRINTER_COLUMNS.values():
        for column in columns:
            position = 0
            while position < len(column.path):
                step = _STEP.match(column.path, position)
                assert step, column.path
                position = step.end()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-1, "0s"),
        (-9, "<invalid>"),
        (119, "119s"),
        (120, "2m"),
        (190, "3m10s"),
        (3600, "60m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 600, "3h10m"),
        (86400, "24h"),
        (2 * 86400 + 3600, "2d1h"),
        (400 * 86400, "400d"),
        (3 * 365 * 86400, "3y"),
        (3 * 365 * 86400 + 86400, "3y1d"),
        (30 * 365 * 86400, "30y"),
    ],
)
def test_ages_are_written_as_kubectl_does(seconds, text):
    """Source: apimachinery pkg/util/duration, HumanDuration."""
    assert format_age(seconds) == text


def test_a_member_shows_the_columns_of_its_definition():
    columns = columns_of(MEMBER_CLUSTER, wide=False)
    assert cells(MEMBER, columns, NOW) == ["True", "120m", "37s", "4", "2", "4Gi", ""]
    assert len(columns_of(MEMBER_CLUSTER, wide=True)) > len(columns)


def test_who_has_joined_is_told_by_the_hub_or_else_by_the_agent():
    """As an explanation tells it, which looks at the agent."""
    columns = columns_of(MEMBER_CLUSTER, wide=False)[:1]
    said = {"type": "MemberAgent", "conditions": [{"type": "Joined", "status": "True"}]}
    concluded = [{"type": "Joined", "status": "False"}]
    assert cells({"metadata": {}, "status": {"agentStatus": [said]}}, columns, NOW) == ["True"]
    assert cells({"metadata": {}, "status": {"agentStatus": [said], "conditions": concluded}}, columns, NOW) == [
        "False"
    ]
    assert cells({"metadata": {}, "status": {"agentStatus": None}}, columns, NOW) == [""]


def test_a_run_shows_the_snapshot_that_it_uses():
    """Most runs name none."""
    run = {"metadata": {}, "spec": {"placementName": "p"}, "status": {"resourceSnapshotIndexUsed": "3"}}
    assert cells(run, columns_of(STAGED_RUN, wide=False), NOW)[:3] == ["p", "3", ""]


def test_what_is_missing_is_empty():
    """As in the tables of an API server, also where a date is missing."""
    assert cells({"metadata": {}}, columns_of(MEMBER_CLUSTER, wide=False), NOW) == [""] * 7


def test_kinds_of_others_show_the_columns_of_their_definition_and_an_age():
    boats = {"additionalPrinterColumns": [{"name": "Mast", "type": "boolean", "jsonPath": ".spec.mast"}]}
    definition = {"spec": {"versions": [{"storage": True, **boats}]}}
    columns = columns_of(KINDS["", "Pod"], wide=False, definition=definition)
    assert cells({"metadata": {}, "spec": {"mast": True}}, columns, NOW) == ["true", ""]
    assert [column.name for column in columns_of(NODE_POOL, wide=False)][-1] == "Age"


@pytest.mark.parametrize(
    ("annotations", "words"),
    [
        pytest.param({}, "", id="none"),
        pytest.param({"latency": '{"value":"42"}'}, "latency=42", id="without-end"),
        pytest.param(
            {"latency": '{"value":"42","validUntil":"2026-03-01T12:05:00Z"}'}, "latency=42 (5m left)", id="valid"
        ),
        pytest.param(
            {"latency": '{"value":"42","validUntil":"2026-03-01T14:39:30Z"}'}, "latency=42 (2h 39m left)", id="hours"
        ),
        pytest.param(
            {"latency": '{"value":"42","validUntil":"2199-03-01T12:00:00Z"}'}, "latency=42 (173y left)", id="years"
        ),
        pytest.param(
            {"b": '{"value":"1","validUntil":"2026-03-01T11:58:50Z"}', "a": "nonsense"},
            "a=<unreadable>, b=1 (expired 1m 10s ago)",
            id="expired-and-unreadable",
        ),
    ],
)
def test_external_scores_are_in_the_wide_table_of_members(annotations, words):
    named = {f"scores.harbormaster.dev/{name}": text for name, text in annotations.items()}
    member = {**MEMBER, "metadata": {**MEMBER["metadata"], "annotations": {"who": "ann", **named}}}
    columns = columns_of(MEMBER_CLUSTER, wide=True)
    assert dict(zip([column.name for column in columns], cells(member, columns, NOW), strict=True))["Scores"] == words
    assert "Scores" not in [column.name for column in columns_of(MEMBER_CLUSTER, wide=False)]
    assert "Scores" not in [column.name for column in PRINTER_COLUMNS[MEMBER_CLUSTER]]


def test_a_placement_shows_on_how_many_clusters_the_latest_release_is_available():
    def entry(name, *conditions):
        return {"clusterName": name, "conditions": [{"type": kind, "status": status} for kind, status in conditions]}

    shortfall = {"conditions": [{"type": "Scheduled", "status": "False"}]}
    reached = [entry("a", ("RolloutStarted", "True"), ("Available", "True")), entry("b", ("RolloutStarted", "False"))]
    columns = columns_of(PLACEMENT, wide=False)
    assert [column.name for column in columns][-3:] == ["Updated", "State", "Age"]
    document = {"metadata": {"generation": 1}, "status": {"placementStatuses": [*reached, shortfall]}}
    assert cells(document, columns, datetime(2026, 1, 1, tzinfo=UTC))[-3] == "1/2"
    assert cells({"metadata": {}}, columns, datetime(2026, 1, 1, tzinfo=UTC))[-3] == ""


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        pytest.param([], "", id="nothing-to-see"),
        pytest.param([{"type": "RemovalPending", "status": "True"}], "removal pending", id="waits"),
        pytest.param([{"type": "ResourcesSelected", "status": "False"}], "empty", id="empty"),
        pytest.param(
            [{"type": "ResourcesSelected", "status": "False"}, {"type": "RemovalPending", "status": "True"}],
            "removal pending, empty",
            id="both",
        ),
    ],
)
def test_a_placement_shows_what_its_other_columns_do_not(conditions, state):
    document = {"metadata": {"name": "web"}, "status": {"conditions": conditions}}
    columns = [column for column in columns_of(PLACEMENT, wide=False) if column.name == "State"]
    assert cells(document, columns, NOW) == [state]
