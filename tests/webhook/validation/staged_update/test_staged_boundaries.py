"""Boundaries of the rules on staged updates (S, R, Q, X-30 to X-45), through the hook, for both scopes and versions."""

import pytest

from webhook.admission.judge import judge
from webhook.validation.framework.context import Context

KINDS = [("Cluster", "v1"), ("Cluster", "v1beta1"), ("", "v1"), ("", "v1beta1")]


def make_object(kind, spec, version="v1", name="x"):
    api_version = f"placement.kubernetes-fleet.io/{version}"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def refused_fields(document, old=None):
    judgement = judge("CREATE" if old is None else "UPDATE", document, old, Context())
    assert judgement.code in {200, 422}
    return [str(error.field) for error in judgement.errors]


@pytest.mark.parametrize(("scope", "version"), KINDS)
@pytest.mark.parametrize(
    ("stages", "refused"),
    [
        pytest.param([], [], id="S-01-none"),
        pytest.param(None, [""], id="S-01-null"),
        pytest.param([{"name": f"s{i}"} for i in range(32)], [""], id="S-01-32"),
        pytest.param([{"name": "a" * 63}], [], id="S-02-63"),
        pytest.param([{"name": "a" * 64}], ["[0].name"], id="S-02-64"),
        pytest.param([{"name": ""}], ["[0].name"], id="S-02-empty"),
        pytest.param([{"name": "a\n"}], ["[0].name"], id="S-02-newline"),
        pytest.param([{"name": "\u0663"}], ["[0].name"], id="S-02-digits-of-others"),
        pytest.param([None], ["[0]"], id="S-02-null"),
        pytest.param([{"name": "a"}, {"name": "b"}, {"name": "a"}], ["[2].name"], id="X-30-apart"),
        pytest.param([{"name": "a", "sortingLabelKey": ""}], ["[0].sortingLabelKey"], id="X-33-empty"),
        pytest.param([{"name": "a", "sortingLabelKey": None}], [], id="X-33-null"),
        pytest.param(
            [{"name": "a", "afterStageTasks": [{"type": "Approval"}, {"type": "Approval"}]}],
            ["[0].afterStageTasks[1].type"],
            id="X-31",
        ),
        pytest.param([{"name": "a", "afterStageTasks": [{"type": "Approval", "waitTime": None}]}], [], id="S-07-null"),
        pytest.param(
            [{"name": "a", "beforeStageTasks": [{"type": "Approval"}] * 2}], ["[0].beforeStageTasks"], id="S-05"
        ),
    ],
)
def test_stages(stages, refused, scope, version):
    document = make_object(f"{scope}StagedUpdateStrategy", {"stages": stages}, version)
    assert refused_fields(document) == [f"spec.stages{field}" for field in refused]


@pytest.mark.parametrize("value", [1, 1000, 2**31 - 1, "1%", "100%", None])
def test_concurrency(value):
    """S-03."""
    stages = [{"name": "a", "maxConcurrency": value}]
    assert refused_fields(make_object("ClusterStagedUpdateStrategy", {"stages": stages})) == []


@pytest.mark.parametrize(
    "value", [0, -1, 2**31, True, 1.0, "1", "0%", "05%", "101%", "50%\n", "\u0665%", "+5%", "", []]
)
def test_no_concurrency(value):
    """S-03."""
    stages = [{"name": "a", "maxConcurrency": value}]
    document = make_object("ClusterStagedUpdateStrategy", {"stages": stages})
    assert refused_fields(document) == ["spec.stages[0].maxConcurrency"]


def make_waiting(text):
    tasks = [{"type": "TimedWait", "waitTime": text}]
    return make_object("ClusterStagedUpdateStrategy", {"stages": [{"name": "a", "afterStageTasks": tasks}]})


@pytest.mark.parametrize(
    "text", ["0s", "0m0s", "1s1h1m", "1h1h", "0.5s", "1.05h", "2562047h", "2562048h", "9" * 40 + "h", "1s" * 100]
)
def test_wait_times(text):
    """S-10: there is no longest one (2.5)."""
    assert refused_fields(make_waiting(text)) == []


@pytest.mark.parametrize(
    "text",
    ["", "90", "01h", "00s", "1d", "300ms", "1us", "1h 30m", " 1h", "1h\n", "+1h", "1.h", ".5h", "1H", "\u0663h", 5],
)
def test_no_wait_times(text):
    """S-10."""
    assert refused_fields(make_waiting(text)) == ["spec.stages[0].afterStageTasks[0].waitTime"]


@pytest.mark.parametrize("text", ["721h", "2562048h"])
def test_a_wait_of_more_than_a_month_is_odd(text):
    """X-34."""
    warnings = judge("CREATE", make_waiting(text), None, Context()).warnings
    assert any("720h" in warning for warning in warnings)


def make_run(scope="Cluster", version="v1", name="x", **spec):
    spec = {"placementName": "p", "stagedRolloutStrategyName": "s", **spec}
    return make_object(f"{scope}StagedUpdateRun", spec, version, name)


@pytest.mark.parametrize(("scope", "version"), KINDS)
@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        pytest.param({"placementName": "p" * 255}, [], id="R-02-255"),
        pytest.param({"placementName": None}, ["placementName"], id="R-02-null"),
        pytest.param({"stagedRolloutStrategyName": ""}, ["stagedRolloutStrategyName"], id="X-45-empty"),
        pytest.param({"state": None}, [], id="R-04-null"),
        pytest.param({"state": ""}, ["state"], id="R-04-empty"),
        pytest.param({"state": "run"}, ["state"], id="R-04-case"),
        pytest.param({"resourceSnapshotIndex": "9" * 50}, [], id="X-40-any-length"),
        pytest.param({"resourceSnapshotIndex": None}, [], id="X-40-null"),
        pytest.param({"resourceSnapshotIndex": "00"}, ["resourceSnapshotIndex"], id="X-40-leading-zero"),
        pytest.param({"resourceSnapshotIndex": "1\n"}, ["resourceSnapshotIndex"], id="X-40-newline"),
        pytest.param({"resourceSnapshotIndex": "\uff13"}, ["resourceSnapshotIndex"], id="X-40-digits-of-others"),
        pytest.param({"resourceSnapshotIndex": 3}, ["resourceSnapshotIndex"], id="R-06-number"),
        pytest.param({"resourceSnapshotIndex": True}, ["resourceSnapshotIndex"], id="R-06-bool"),
    ],
)
def test_runs(spec, refused, scope, version):
    assert refused_fields(make_run(scope, version, **spec)) == [f"spec.{field}" for field in refused]


@pytest.mark.parametrize(("scope", "version"), KINDS)
@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        pytest.param({}, {"state": "Stop"}, "state", id="R-08-absent-to-Stop"),
        pytest.param({"state": None}, {"state": "Run"}, None, id="R-08-null-to-Run"),
        pytest.param({"state": "Run"}, {"state": None}, "state", id="R-08-Run-to-null"),
        pytest.param({"state": "Initialize"}, {}, None, id="R-08-written-out-and-absent"),
        pytest.param({"resourceSnapshotIndex": ""}, {}, None, id="X-44-empty-is-absent"),
        pytest.param({"resourceSnapshotIndex": "1"}, {}, "resourceSnapshotIndex", id="X-44-removed"),
        pytest.param({"resourceSnapshotIndex": "01"}, {"resourceSnapshotIndex": "01", "state": "Run"}, None, id="X-21"),
    ],
)
def test_changes_of_a_run(old, new, refused, scope, version):
    fields = [f"spec.{refused}"] if refused else []
    assert refused_fields(make_run(scope, version, **new), make_run(scope, version, **old)) == fields


def test_names_of_runs():
    """R-01."""
    assert refused_fields(make_run(name="a" * 63)) == []
    assert refused_fields(make_run(name="a" * 64)) == ["metadata.name"]
