"""What ``plan`` says of staged update runs: on files, and on a running hub."""

import json

import pytest
import yaml

from scorer.api.kinds import MAINTENANCE_WINDOW
from tests.webhook.cli.fleets import member, placement, write

API = "placement.kubernetes-fleet.io/v1beta1"
WINDOWS = MAINTENANCE_WINDOW.api_version
NOW = "2026-03-01T12:00:00Z"
HIDDEN = "aGlkZGVu"


def stage(name, **more):
    return {"name": name, "labelSelector": {"matchLabels": {"stage": name}}, **more}


def made(kind, name, version=API, namespace="", **members):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **members}


def strategy(*stages):
    return made("ClusterStagedUpdateStrategy", "careful", spec={"stages": list(stages)})


def run(name="spring", **more):
    spec = {"placementName": "web", "stagedRolloutStrategyName": "careful", "state": "Run", **more}
    return made("ClusterStagedUpdateRun", name, spec=spec)


def external():
    document = placement()
    return {**document, "spec": {**document["spec"], "strategy": {"type": "External"}}}


MEMBERS = [member(name, labels={"stage": at}) for name, at in (("dover", "try"), ("faro", "all"), ("genoa", "all"))]
CONTENT = [
    made("Namespace", "shop", "v1"),
    made("ConfigMap", "settings", "v1", "shop", data={"level": "1"}),
    made("Secret", "key", "v1", "shop", data={"token": HIDDEN}),
]
WAITS = [{"type": "TimedWait", "waitTime": "1h30m"}, {"type": "Approval"}]


@pytest.fixture
def folder(tmp_path):
    """A hub in files, with a run that has not begun."""
    there = tmp_path / "hub"
    there.mkdir()
    stages = strategy(stage("try", afterStageTasks=WAITS), stage("all", maxConcurrency=2))
    write(there / "hub.yaml", *MEMBERS, *CONTENT, external(), stages, run())
    return there


def lines(result):
    """Return what is printed of runs."""
    return result.stdout[result.stdout.index("Run ") :].splitlines()


class TestOnFiles:
    """``-f``."""

    def test_stages_waits_content_and_the_earliest_finish_are_printed(self, cli, folder):
        result = cli("plan", "-f", folder, "--now", NOW)
        assert result.exit_code == 2, result.output
        assert lines(result) == [
            "Run spring of crp/web rolls out web-0-snapshot by strategy careful:",
            "  1. try: dover",
            "     after it: 1h 30m, until 2026-03-01T13:30:00Z at the earliest",
            "     after it: approval spring-after-try",
            "  2. all: faro genoa",
            "  Next: dover",
            "  New on dover faro genoa:",
            "    + Namespace shop",
            "    + Secret shop/key",
            "    + ConfigMap shop/settings",
            "  Earliest finish: 2026-03-01T13:30:00Z, assuming:",
            "    the update of a cluster is assumed to take no time",
            "    an approval is assumed to be given when it is requested",
            "    the placement selects from the objects that the plan knows",
        ]

    @pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
    def test_documents_have_them_in_a_section_of_their_own(self, cli, folder, output, read):
        (found,) = read(cli("plan", "-f", folder, "--now", NOW, "-o", output).stdout)["runs"]
        assert (found["name"], found["phase"], found["earliestFinish"]) == ("spring", "New", "2026-03-01T13:30:00Z")
        assert [each["batches"] for each in found["stages"]] == [[["dover"]], [["faro", "genoa"]]]
        assert HIDDEN not in json.dumps(found)

    def test_what_its_initialisation_would_refuse_is_shown_and_refuses_nothing(self, cli, folder):
        write(folder / "hub.yaml", *MEMBERS, *CONTENT, external(), strategy(stage("try")), run())
        result = cli("plan", "-f", folder, "--run", "spring", "--now", NOW)
        assert (result.exit_code, result.stdout) == (
            0,
            "Run spring of crp/web cannot be initialized: clusters-in-no-stage: no stage selects 2 clusters: faro, "
            "genoa\n",
        )

    def test_a_closed_maintenance_window_is_named_and_bounds_the_earliest_finish(self, cli, folder):
        spec = {
            "memberSelector": {"matchLabels": {"stage": "all"}},
            "schedule": {"daily": {"intervalDays": 1}},
            "startTime": "22:00",
        }
        write(folder / "window.yaml", made("ClusterMaintenanceWindow", "nights", WINDOWS, spec=spec))
        printed = lines(cli("plan", "-f", folder, "--run", "spring", "--now", NOW))
        assert "     faro waits: maintenance window nights is closed until 2026-03-01T22:00:00Z" in printed
        assert "  Earliest finish: 2026-03-01T22:00:00Z, assuming:" in printed

    def test_a_run_that_is_refused_by_admission_is_a_mistake_in_the_files(self, cli, folder):
        write(folder / "more.yaml", run("other", state="Walk"))
        result = cli("plan", "-f", folder)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "more.yaml: document 1: spec.state" in result.stderr

    def test_a_run_is_shown_alone_by_its_name(self, cli, folder):
        write(folder / "more.yaml", run("other", resourceSnapshotIndex="7"))
        result = cli("plan", "-f", folder, "--run", "other", "-o", "json")
        document = json.loads(result.stdout)
        assert (result.exit_code, document["placements"]) == (0, [])
        assert [(each["name"], each["finding"]["cause"]) for each in document["runs"]] == [
            ("other", "resource-snapshot-not-found")
        ]

    def test_a_run_that_is_over_says_how_it_has_ended(self, cli, folder):
        said = {"type": "Succeeded", "status": "False", "reason": "UpdateRunFailed", "message": "preempted: by r2"}
        write(folder / "more.yaml", run("old") | {"status": {"conditions": [said]}})
        for words in ([], ["--lost", "dover"]):
            result = cli("plan", "-f", folder, "--run", "old", *words)
            assert result.exit_code == 0
            assert result.stdout.endswith("Run old of crp/web is finished: UpdateRunFailed: preempted: by r2\n")

    def test_a_name_that_no_run_has_is_a_mistake(self, cli, folder):
        result = cli("plan", "-f", folder, "--run", "spring", "-n", "shop")
        assert result.exit_code == 1
        assert result.stderr.endswith('--run spring: there is no StagedUpdateRun "shop/spring". Known: none\n')

    @pytest.mark.parametrize(
        ("words", "mistake"),
        [
            (
                ["-n", "shop", "--lost", "dover"],
                "-n requires --run or --delete: it is the namespace of that run or object",
            ),
            (["--run", "r", "--compare", "a", "b"], "--compare cannot be used with --run"),
        ],
    )
    def test_options_that_do_not_fit_together_are_refused(self, cli, folder, words, mistake):
        result = cli("plan", "-f", folder, *words)
        assert result.exit_code == 1
        assert mistake in result.stderr


class TestOnADump:
    """``--on``: the hub has the members and the placement, and the run would be created."""

    @pytest.fixture
    def base(self, tmp_path):
        return write(tmp_path / "base.yaml", *MEMBERS, *CONTENT, external())

    def test_a_run_that_would_be_created_is_planned(self, cli, base, tmp_path):
        new = write(tmp_path / "new.yaml", strategy(stage("try"), stage("all", beforeStageTasks=WAITS[1:])), run())
        result = cli("plan", "--on", base, "-f", new, "--now", NOW)
        assert result.exit_code == 2, result.output
        assert "     before it starts: approval spring-before-all" in lines(result)
        assert "  2. all, 1 at a time: faro; genoa" in lines(result)

    def test_a_new_run_has_not_begun_whatever_status_its_file_has(self, cli, base, tmp_path):
        begun = run() | {"status": {"conditions": [{"type": "Initialized", "status": "True", "reason": "x"}]}}
        new = write(tmp_path / "new.yaml", strategy(stage("try"), stage("all")), begun)
        (found,) = json.loads(cli("plan", "--on", base, "-f", new, "-o", "json").stdout)["runs"]
        assert found["phase"] == "New"
