"""Defaults of placements: what the mutating hook fills in, renames and drops (placement-api.md 6, X-18, X-20)."""

from copy import deepcopy

import pytest

from tests.builders.placement import make_placement
from webhook.admission.judge import mutate
from webhook.admission.patch import apply_patch
from webhook.defaulting.placement import default

ROLLING = {"maxSurge": "25%", "maxUnavailable": "25%", "unavailablePeriodSeconds": 60}
APPLY = {
    "comparisonOption": "PartialComparison",
    "type": "ClientSideApply",
    "whenToApply": "Always",
    "whenToTakeOver": "Always",
}
DEFAULTS = {
    "policy": {"placementType": "PickAll"},
    "strategy": {"type": "RollingUpdate", "rollingUpdate": ROLLING, "applyStrategy": APPLY},
    "revisionHistoryLimit": 10,
}


def preferring(**preference):
    preferred = [{"weight": 10, "preference": preference}]
    affinity = {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return make_placement(policy={"placementType": "PickN", "numberOfClusters": 1, "affinity": affinity})


def preference_of(document):
    affinity = document["spec"]["policy"]["affinity"]["clusterAffinity"]
    return affinity["preferredDuringSchedulingIgnoredDuringExecution"][0]["preference"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param({}, DEFAULTS, id="everything"),
        pytest.param({"policy": None, "revisionHistoryLimit": None}, DEFAULTS, id="null-is-absent"),
        pytest.param(
            {"policy": {"topologySpreadConstraints": [{"topologyKey": "a"}], "tolerations": [{"key": "b"}]}},
            {
                "policy": {
                    "placementType": "PickAll",
                    "topologySpreadConstraints": [
                        {"topologyKey": "a", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
                    ],
                    "tolerations": [{"key": "b", "operator": "Equal"}],
                }
            },
            id="F-02-F-03-F-04",
        ),
        pytest.param(
            {"strategy": {"rollingUpdate": {"maxUnavailable": 1}}},
            {
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": {**ROLLING, "maxUnavailable": 1},
                    "applyStrategy": APPLY,
                }
            },
            id="F-09-keeps-what-is-there",
        ),
        pytest.param(
            {"strategy": {"type": "External"}},
            {"strategy": {"type": "External", "applyStrategy": APPLY}},
            id="F-09-External",
        ),
        pytest.param(
            {"strategy": {"applyStrategy": {"type": "ServerSideApply"}}},
            {
                "strategy": {
                    "type": "RollingUpdate",
                    "rollingUpdate": ROLLING,
                    "applyStrategy": {**APPLY, "type": "ServerSideApply", "serverSideApplyConfig": {"force": False}},
                }
            },
            id="F-11",
        ),
    ],
)
def test_defaults(given, wanted):
    document = make_placement(**given)
    before = deepcopy(document)
    spec = default(document, None).document["spec"]
    assert {key: spec[key] for key in wanted} == wanted
    assert document == before


@pytest.mark.parametrize(
    ("stored", "refilled"),
    [
        pytest.param(None, True, id="create"),
        pytest.param({}, True, id="stored-has-none"),
        pytest.param({"policy": {"placementType": "PickAll"}}, False, id="removed-by-the-user"),
    ],
)
def test_an_update_never_makes_up_a_policy(stored, refilled):
    """F-01: else "remove my policy" would quietly become "all clusters"."""
    old = make_placement(**stored) if stored is not None else None
    assert ("policy" in default(make_placement(), old).document["spec"]) is refilled


SORTER = {"name": "kubernetes-fleet.io/node-count", "sortOrder": "Descending"}


@pytest.mark.parametrize(
    ("preference", "wanted", "warns"),
    [
        pytest.param({"metricSorter": SORTER}, {"propertySorter": SORTER}, True, id="renamed"),
        pytest.param(
            {"metricSorter": SORTER, "propertySorter": SORTER}, {"propertySorter": SORTER}, True, id="same-twice"
        ),
        pytest.param(
            {"metricSorter": SORTER, "propertySorter": {**SORTER, "sortOrder": "Ascending"}},
            {"metricSorter": SORTER, "propertySorter": {**SORTER, "sortOrder": "Ascending"}},
            False,
            id="different-ones-are-left-to-the-validator",
        ),
        pytest.param({"metricSorter": None, "propertySorter": SORTER}, None, False, id="null"),
    ],
)
def test_the_old_sorter_name(preference, wanted, warns):
    """X-18."""
    document = preferring(**preference)
    defaulted = default(document, None)
    assert preference_of(defaulted.document) == (wanted or preference)
    assert bool(defaulted.warnings) is warns


def test_the_patch_of_a_rename_adds_and_removes():
    document = make_placement(**{**DEFAULTS, "policy": preferring(metricSorter=SORTER)["spec"]["policy"]})
    at = "/spec/policy/affinity/clusterAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/preference"
    assert mutate(document, None, "CREATE").patch == (
        {"op": "remove", "path": f"{at}/metricSorter"},
        {"op": "add", "path": f"{at}/propertySorter", "value": SORTER},
    )


@pytest.mark.parametrize(
    ("old", "new", "dropped"),
    [
        pytest.param(
            {"type": "RollingUpdate", "rollingUpdate": ROLLING},
            {"type": "External", "rollingUpdate": ROLLING},
            True,
            id="unchanged",
        ),
        pytest.param(
            {"rollingUpdate": {}}, {"type": "External", "rollingUpdate": ROLLING}, True, id="equal-after-defaults"
        ),
        pytest.param(
            {"rollingUpdate": ROLLING},
            {"type": "External", "rollingUpdate": {"maxSurge": 1}},
            False,
            id="changed-by-the-user",
        ),
        pytest.param({}, {"type": "External", "rollingUpdate": ROLLING}, False, id="added-by-the-user"),
        pytest.param(
            {"type": "External", "rollingUpdate": ROLLING},
            {"type": "External", "rollingUpdate": ROLLING},
            False,
            id="no-switch",
        ),
    ],
)
def test_switching_to_external(old, new, dropped):
    """X-20: the block that defaulting once put there goes with the type it belonged to."""
    document = default(make_placement(strategy=new), make_placement(strategy=old)).document
    assert ("rollingUpdate" not in document["spec"]["strategy"]) is dropped


@pytest.mark.parametrize(
    ("new", "dropped"),
    [
        pytest.param({"type": "ReportDiff", "serverSideApplyConfig": {"force": False}}, True, id="unchanged"),
        pytest.param({"serverSideApplyConfig": {}}, True, id="type-dropped"),
        pytest.param({"type": "ClientSideApply", "serverSideApplyConfig": {"force": True}}, False, id="changed"),
        pytest.param({"type": "ServerSideApply", "serverSideApplyConfig": {"force": False}}, False, id="no-switch"),
    ],
)
def test_switching_away_from_server_side_apply(new, dropped):
    old = make_placement(
        strategy={"applyStrategy": {"type": "ServerSideApply", "serverSideApplyConfig": {"force": False}}}
    )
    document = default(make_placement(strategy={"applyStrategy": new}), old).document
    assert ("serverSideApplyConfig" not in document["spec"]["strategy"]["applyStrategy"]) is dropped


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(None, id="null"),
        pytest.param("x", id="string"),
        pytest.param([], id="list"),
        pytest.param({"policy": "PickAll"}, id="policy"),
        pytest.param({"policy": {"tolerations": [1]}}, id="toleration"),
        pytest.param({"strategy": {"rollingUpdate": 3}}, id="rolling-update"),
    ],
)
def test_what_is_too_broken_is_left_alone(spec):
    document = {**make_placement(), "spec": spec}
    assert default(document, None).document is document
    assert mutate(document, None, "CREATE").patch == ()


def test_objects_being_deleted_are_left_alone():
    document = make_placement()
    document["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert mutate(document, make_placement(), "UPDATE").patch == ()


def test_a_missing_block_is_added_whole_and_once():
    document = make_placement()
    mutation = mutate(document, None, "CREATE")
    assert [(op["op"], op["path"]) for op in mutation.patch] == [
        ("add", "/spec/policy"),
        ("add", "/spec/revisionHistoryLimit"),
        ("add", "/spec/strategy"),
    ]
    assert apply_patch(document, mutation.patch) == mutation.document
    assert mutate(mutation.document, None, "CREATE").patch == ()


@pytest.mark.parametrize("member", ["topologySpreadConstraints", "tolerations"])
def test_a_list_that_will_be_refused_for_its_length_is_left_alone(member):
    """A patch of it would have an operation for each of its items."""

    def patched(count):
        document = {
            "apiVersion": "placement.kubernetes-fleet.io/v1",
            "kind": "ClusterResourcePlacement",
            "spec": {"policy": {"placementType": "PickN", member: [{} for _ in range(count)]}},
        }
        return default(document, None).document["spec"]["policy"][member]

    assert all(patched(100))
    assert not any(patched(101))
