"""How lines of the extender are run, where the format leaves it open: rules for fleets, parts that are not there."""

import gc

import pytest

from tests.vector_families import extender
from tests.vector_families.extender import check_extender, generated, numbered, settings_of

NAMES = [f"vn-{number:04d}" for number in range(30)]
POD = {"metadata": {"name": "p", "namespace": "team-a"}, "spec": {"containers": []}}
OURS = "harbormaster.dev/member-cluster"
ALL_PASS = {"http_status": 200, "NodeNames_count": 30, "NodeNames_first": "vn-0000", "FailedAndUnresolvableNodes": {}}


def sent(name: str, cluster: str) -> dict[str, object]:
    return {"metadata": {"name": name, "labels": {OURS: cluster}}, "spec": {}, "status": {}}


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({"memberClusters": 10, "nodes": 30}, id="numbers"),
        pytest.param({"memberClusters": {"count": 30, "prefix": "c-"}}, id="nested"),
        pytest.param("30 member clusters c-0000 to c-0029, a virtual node vn-0000 to vn-0029 for each", id="words"),
        pytest.param(["c-%04d", "vn-%04d", 30], id="list"),
        pytest.param(30, id="number"),
        pytest.param(True, id="flag"),
    ],
)
@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"Pod": POD, "Nodes": None, "NodeNames": NAMES}, id="named"),
        pytest.param({"Pod": POD}, id="names-follow-from-the-first-one-wanted"),
        pytest.param({"Pod": POD, "NodeNames": "vn-0000..vn-0029"}, id="names-by-a-rule"),
    ],
)
def test_a_fleet_made_by_any_rule_is_healthy(rule, args):
    check_extender({"verb": "filter", "args": args, "fleet": {"generate": rule}, "want": ALL_PASS})


def test_nodes_that_are_shown_keep_their_cluster():
    shown, in_the_call = sent("a", "oslo"), sent("b", "lima")
    fleet = generated(
        {
            "args": {"Pod": POD, "Nodes": {"items": [in_the_call]}, "NodeNames": ["a", "b", "c"]},
            "fleet": {"nodes": [shown], "generate": {"memberClusters": 3}},
            "want": {},
        }
    )["fleet"]
    assert [item["metadata"]["name"] for item in fleet["memberClusters"]] == ["oslo", "lima", "generated-0"]
    assert [item["metadata"]["name"] for item in fleet["nodes"]] == ["a", "c"]


def test_without_a_rule_nothing_is_made():
    line = {"args": {"NodeNames": ["ghost"]}, "fleet": {"now": "2026-03-01T10:00:00Z", "generate": None}, "want": {}}
    assert generated(line) == line


@pytest.mark.parametrize(
    ("first", "names"),
    [
        pytest.param("vn-0009", ["vn-0009", "vn-0010", "vn-0011"], id="padded"),
        pytest.param("n9.east", ["n9.east", "n10.east", "n11.east"], id="inside"),
        pytest.param("n", ["n", "n-1", "n-2"], id="no-number"),
    ],
)
def test_names_count_on_from_the_first(first, names):
    assert numbered(first, 3) == names


def test_settings_by_dotted_names():
    config = {
        "extender.duringUpdate": "Ignore",
        "extender.preemption.protectDoNotDisrupt": False,
        "extender.nodePoolPreferences": [],
        "extender": {"allowAnonymous": False, "preemption": {"protectDoNotDisrupt": True}},
        "extender.nodeLabels": ["example.com/cluster"],
    }
    assert settings_of(config) == {
        "extender_during_update": "Ignore",
        "extender_protect_do_not_disrupt": True,
        "extender_node_pool_preferences": [],
        "extender_allow_anonymous": False,
        "extender_cluster_labels": ["example.com/cluster"],
    }


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(
            {"verb": "bind", "want": {"Error": "harbormaster: bind is not supported"}}, id="nothing-but-a-verb"
        ),
        pytest.param(
            {"verb": "filter", "args": {"Pod": POD, "NodeNames": ["a"]}, "fleet": {}, "want": {"NodeNames": ["a"]}},
            id="an-empty-fleet",
        ),
        pytest.param({"verb": "filter", "method": "HEAD", "want": {"http_status": 405}}, id="an-answer-without-a-body"),
        pytest.param({"verb": "filter", "headers": {}, "want": {"http_status": 415}}, id="no-media-type"),
        pytest.param(
            {"verb": "filter", "args_raw": " " * (32 * 2**20 + 1), "want": {"http_status": 413}}, id="a-body-too-large"
        ),
        pytest.param({"verb": "filter", "args_raw": "\ud800", "want": {"http_status": 400}}, id="a-lone-surrogate"),
        pytest.param(
            {
                "verb": "filter",
                "args": {"pod": POD, "nodes": {"items": [sent("a", ""), sent("a", "oslo"), sent("b", "")]}},
                "want": {"Nodes_items_equal": ["a", "b"], "NodeNames": None},
            },
            id="objects-under-a-name-in-other-letters",
        ),
        pytest.param(
            {
                "verb": "filter",
                "args": {
                    "Pod": {
                        "metadata": {
                            "namespace": "team-a",
                            "annotations": {
                                "harbormaster.dev/placement": "team-a/rp",
                                "harbormaster.dev/placement-mode": "Decisions",
                            },
                        }
                    },
                    "Nodes": {"items": [sent("a", "oslo")]},
                },
                "fleet": {
                    "generate": 1,
                    "placements": [{"metadata": {"name": "rp", "namespace": "team-a"}, "spec": {}}],
                    "decisions": {"rp": ["oslo"]},
                },
                "want": {"Nodes_items_equal": ["a"]},
            },
            id="decisions-by-the-bare-name-of-a-namespaced-placement",
        ),
    ],
)
def test_what_a_line_does_not_show_is_as_usual(line):
    check_extender({**line, "want": {"http_status": 200, **line["want"]}})


def test_calls_are_timed_as_the_server_runs(monkeypatch):
    monkeypatch.setenv("HARBORMASTER_VECTORS", "anywhere")
    monkeypatch.setattr(extender, "TIMED_CALLS", 10)  # as true of a few calls as of many
    frozen = []
    monkeypatch.setattr(extender, "perf_counter", lambda: frozen.append(gc.get_freeze_count()) or 0.0)
    want = {"http_status": 200, "max_ms_p99": 0}
    check_extender(
        {"verb": "filter", "args": {"Pod": POD, "NodeNames": NAMES}, "fleet": {"generate": 30}, "want": want}
    )
    assert len(frozen) == 2 * extender.TIMED_CALLS
    assert all(frozen)
    assert gc.get_freeze_count() == 0
