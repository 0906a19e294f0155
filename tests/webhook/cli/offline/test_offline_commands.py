"""``plan``, ``explain -f`` and ``validate``: shapes, exit codes, and mistakes told with their place."""

import json
import re

import pytest
import yaml

from tests.webhook.cli.fleets import binding, by_nodes, member, placement, write

TAINT = {"key": "dry-dock", "effect": "NoSchedule"}
NOW = "2026-03-01T12:00:00Z"


@pytest.fixture
def fleet(tmp_path):
    """Return a folder with four members: two can be had, one is tainted, one is silent."""
    folder = tmp_path / "fleet"
    folder.mkdir()
    silent = {"harbormaster.dev/simulate": "silent=14m"}
    write(
        folder / "members.yaml",
        member("dover", 10),
        member("faro", 2),
        member("genoa", 20, taints=[TAINT]),
        member("oslo", 30, annotations=silent),
    )
    return folder


def test_plan_prints_the_document_that_others_build_on(cli, fleet):
    """Shape: design of the command line, ``plan -o json``."""
    write(fleet / "web.yaml", placement(placementType="PickN", numberOfClusters=1, affinity=by_nodes()))
    result = cli("plan", "-f", fleet, "-o", "json", "--now", NOW)
    assert json.loads(result.stdout) == {
        "placements": [
            {
                "name": "web",
                "namespace": "",
                "type": "PickN",
                "wanted": 1,
                "picked": [
                    {"cluster": "dover", "rank": 1, "new": True, "score": {"topologySpread": 0, "affinity": 11}}
                ],
                "notPicked": [{"cluster": "faro", "score": {"topologySpread": 0, "affinity": 0}}],
                "filtered": [
                    {
                        "cluster": "genoa",
                        "plugin": "TaintToleration",
                        "reason": "TaintNotTolerated: taint dry-dock:NoSchedule not tolerated",
                    },
                    {
                        "cluster": "oslo",
                        "plugin": "ClusterEligibility",
                        "reason": "HeartbeatStale: last heartbeat 14m ago, limit 5m",
                    },
                ],
                "dropped": [],
                "satisfied": True,
                "message": "found all clusters needed: 1 cluster",
                "before": [],
                "moves": {"gained": ["dover"], "lost": [], "stays": []},
                "rollout": {
                    "type": "RollingUpdate",
                    "snapshot": "web-0-snapshot",
                    "contentHash": "83ff749c5d8eb5a0b62d714175bcbaef1409b371fc5a229a002db6fcc1f144e1",
                    "maxUnavailable": "25%",
                    "maxSurge": "25%",
                    "evictions": [],
                    "applyStrategy": [],
                    "waits": [],
                    "steps": [
                        {
                            "step": 1,
                            "update": [],
                            "bind": ["dover"],
                            "remove": [],
                            "waiting": [],
                            "budget": {
                                "target": 1,
                                "ready": 0,
                                "canBeReady": 0,
                                "mayVanish": 0,
                                "maxToRemove": 0,
                                "maxToAdd": 2,
                            },
                        }
                    ],
                    "more": 0,
                    "failures": [],
                    "removals": [],
                    "contentRemovals": [],
                    "blocked": None,
                },
                "changed": True,
            }
        ],
        "runs": [],
        "upgrades": [],
        "outcomes": [],
        "complete": True,
        "notJudged": [],
        "hidden": [],
        "unread": [],
        "assumed": [],
        "admission": [
            {
                "kind": "ClusterResourcePlacement",
                "namespace": "",
                "name": "web",
                "operation": "CREATE",
                "allowed": True,
                "errors": [],
                "warnings": [],
            }
        ],
        "fleet": {"gained": [], "changed": [], "lost": [], "drained": []},
        "evaluatedAt": NOW,
    }
    assert (result.exit_code, result.stderr) == (2, "")


def test_plan_of_what_is_bound_already_changes_nothing(cli, fleet):
    web = placement(placementType="PickN", numberOfClusters=1, affinity=by_nodes())
    write(fleet / "web.yaml", web, binding("web-dover", "web", "dover"))
    result = cli("plan", "-f", fleet, "-o", "yaml")
    picked = yaml.safe_load(result.stdout)["placements"][0]["picked"]
    assert [(pick["cluster"], pick["new"]) for pick in picked] == [("dover", False)]
    assert result.exit_code == 0


def test_plan_says_what_would_be_dropped(cli, fleet):
    web = placement(placementType="PickN", numberOfClusters=1, affinity=by_nodes())
    write(fleet / "web.yaml", web, *(binding(f"web-{name}", "web", name) for name in ("dover", "faro")))
    result = cli("plan", "-f", fleet)
    assert result.stdout.splitlines()[1].split() == ["crp/web", "PickN", "1", "1", "faro", "-dover"]
    assert result.exit_code == 2


def test_a_dump_is_judged_at_the_moment_it_was_taken(cli, tmp_path):
    """Agents that reported in the files are not played; the newest heartbeat is the present."""

    def agent(at):
        conditions = [{"type": kind, "status": "True", "reason": "x"} for kind in ("Joined", "Healthy")]
        for condition in conditions:
            condition |= {"lastTransitionTime": at, "message": "", "observedGeneration": 1}
        return [{"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": at}]

    write(
        tmp_path / "dump.yaml",
        member("dover", agentStatus=agent("2020-01-01T00:10:00Z")),
        member("faro", agentStatus=agent("2020-01-01T00:00:00Z")),
        placement(),
    )
    entry = json.loads(cli("plan", "-f", tmp_path, "-o", "json").stdout)["placements"][0]
    assert [pick["cluster"] for pick in entry["picked"]] == ["dover"]
    assert entry["filtered"][0]["reason"].startswith("HeartbeatStale: last heartbeat 10m ago")
    later = cli("plan", "-f", tmp_path, "-o", "json", "--now", "2020-01-02T00:00:00Z")
    assert json.loads(later.stdout)["placements"][0]["picked"] == []


def test_members_are_played_as_their_annotations_ask(cli, tmp_path):
    leaving = {"harbormaster.dev/simulate": "leaving"}
    write(tmp_path / "a.yaml", member("dover"), member("faro", annotations=leaving), placement())
    entry = json.loads(cli("plan", "-f", tmp_path, "-o", "json").stdout)["placements"][0]
    assert [pick["cluster"] for pick in entry["picked"]] == ["dover"]
    assert entry["filtered"][0]["reason"].startswith("ClusterLeaving")


def test_other_objects_are_left_aside_and_no_placement_is_no_change(cli, tmp_path):
    write(tmp_path / "a.yaml", member("dover"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}})
    result = cli("plan", "-f", tmp_path, "-o", "json")
    plan = json.loads(result.stdout)
    assert (plan["placements"], plan["admission"], result.exit_code) == ([], [], 0)


@pytest.mark.parametrize(
    ("document", "mistake"),
    [
        pytest.param(
            placement(placementType="PickN"),
            "spec.policy.numberOfClusters: Required value: must be set when placementType is PickN",
            id="refused-by-admission",
        ),
        pytest.param(
            placement(placementType="PickN", numberOfClusters="three"),
            'spec.policy.numberOfClusters: Invalid value: "three": must be an integer',
            id="wrong-type",
        ),
        pytest.param(
            member("genoa") | {"spec": {"identity": "me"}},
            'spec.identity: Invalid value: "me": must be an object',
            id="wrong-type-in-a-member",
        ),
        pytest.param(
            member("genoa", annotations={"harbormaster.dev/simulate": "sunk"}),
            "metadata.annotations: annotation harbormaster.dev/simulate: 'sunk': expected silent",
            id="unknown-behaviour",
        ),
        pytest.param(
            binding("b", "web", "dover") | {"spec": {"state": "Lost", "targetCluster": "dover"}},
            "",
            id="binding-of-unknown-state",
        ),
    ],
)
def test_mistakes_are_told_with_file_document_and_field(cli, tmp_path, document, mistake):
    file = write(tmp_path / "a.yaml", member("dover"), document)
    result = cli("plan", "-f", file, "-o", "json")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {file}: document 2: {mistake}")


@pytest.mark.parametrize("arguments", [(), ("-f",), ("-f", "x", "--now", "noon"), ("-f", "x", "-o", "xml")])
def test_mistakes_in_the_usage_end_with_1_because_2_means_changes(cli, arguments):
    result = cli("plan", *arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert re.search(r"\(see: harbormaster( plan)? --help\)", result.stderr)
    assert result.stderr.count("\n") == 1


class TestExplain:
    """``explain -f``."""

    @pytest.fixture(autouse=True)
    def _web(self, fleet):
        terms = [{"labelSelector": {"matchLabels": {"region": "eu"}}}]
        required = {
            "clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}
        }
        write(
            fleet / "web.yaml",
            placement(placementType="PickN", numberOfClusters=1, affinity=by_nodes()),
            placement("eu", placementType="PickAll", affinity=required),
            placement("fixed", placementType="PickFixed", clusterNames=["faro", "nowhere"]),
        )

    def test_the_whole_fleet_in_one_table(self, cli, fleet):
        result = cli("explain", "-f", fleet, "crp/web", "--now", NOW)
        assert result.exit_code == 0
        assert result.stdout == (
            "crp/web wants 1 cluster, has 1. Evaluated at 2026-03-01T12:00:00Z.\n"
            "Policy snapshot: none yet. Fleet: 4 clusters, picked in 1 round.\n"
            "Not picked: 1 HeartbeatStale, 1 ScoreTooLow, 1 TaintNotTolerated.\n"
            "\n"
            "RANK   CLUSTER   VERDICT             AFFINITY   WHY\n"
            "1      dover     Picked              11\n"
            "2      faro      ScoreTooLow         0          11 short of dover by affinity\n"
            "       genoa     TaintNotTolerated              taint dry-dock:NoSchedule not tolerated\n"
            "       oslo      HeartbeatStale                 last heartbeat 14m ago, limit 5m\n"
            "\n"
            "Clusters that set the ranges:\n"
            "  kubernetes-fleet.io/node-count runs from 2 (faro, 0s old) to 30 (oslo, which cannot be picked itself).\n"
            "\n"
            "What would help:\n"
            "  faro would be picked with numberOfClusters 2\n"
            "  genoa would pass with: a toleration for taint dry-dock:NoSchedule\n"
            "  oslo would pass with: its agent sending a heartbeat\n"
        )

    def test_one_cluster_with_all_its_numbers(self, cli, fleet):
        words = cli("explain", "-f", fleet, "crp/web", "dover", "--now", NOW).stdout
        for expected in (
            "dover: picked as number 1 with affinity 11",
            "passed  eligibility  last heartbeat 0s ago, joined True, healthy True",
            "affinity score 11",
            "+11  preference 1, weight 40: kubernetes-fleet.io/node-count is 10 (0s old) in the range 2 (faro, 0s "
            "old) to 30 (oslo, which cannot be picked itself); more is better; 0.285714 of 40 is 11.428571",
            "rank 1, round 1",
        ):
            assert expected in words
        assert "faro:" not in words

    def test_a_refused_cluster_shows_the_failed_check_and_the_wanted_value(self, cli, fleet):
        words = cli("explain", "-f", fleet, "crp/eu", "faro").stdout
        assert "FAILED  affinity" in words
        assert "term 1 does not match: label region is absent, wanted In eu" in words
        words = cli("explain", "-f", fleet, "crp/web", "genoa").stdout
        assert "FAILED  taints       taint dry-dock:NoSchedule not tolerated" in words
        assert "what would help: would pass with: a toleration for taint dry-dock:NoSchedule" in words

    def test_a_listed_cluster_that_does_not_exist_is_explained_too(self, cli, fleet):
        result = cli("explain", "-f", fleet, "crp/fixed", "nowhere")
        assert result.exit_code == 0
        assert "there is no member cluster of this name" in result.stdout

    def test_json_is_what_the_server_answers(self, cli, fleet):
        result = cli("explain", "-f", fleet, "crp/web", "faro", "genoa", "-o", "json", "--now", NOW)
        answer = json.loads(result.stdout)
        decision = {"placement", "snapshot", "trigger", "wanted", "found", "fleetSize", "batches", "counts", "message"}
        assert answer.keys() == {"fleetRevision", "policyHash", "evaluatedAt", "items", *decision}
        assert (answer["fleetSize"], answer["counts"]["TaintNotTolerated"]) == (4, 1)
        assert [(item["cluster"], item["verdict"]) for item in answer["items"]] == [
            ("faro", "ScoreTooLow"),
            ("genoa", "TaintNotTolerated"),
        ]
        assert answer["items"][0]["gap"] == {"toLastPicked": "dover", "decidedBy": "affinity", "difference": -11}

    @pytest.mark.parametrize("words", [["-f", "x"], ["dover"], ["--now", NOW]])
    def test_past_decisions_are_about_a_placement_of_the_running_hub(self, cli, fleet, words):
        result = cli("explain", "crp/web", "--runs", *words)
        assert result.exit_code == 1
        assert "--runs cannot be used with" in result.stderr

    def test_a_score_of_somebody_else_and_its_end_are_told(self, cli, fleet):
        name = "scores.harbormaster.dev/latency"
        write(
            fleet / "scored.yaml",
            member("keen", nodes=5, annotations={name: '{"value": "7", "validUntil": "2026-03-01T12:02:00Z"}'}),
            member("late", nodes=5, annotations={name: '{"value": "9", "validUntil": "2026-03-01T11:00:00Z"}'}),
        )
        sorter = {"name": name, "sortOrder": "Ascending"}
        preferred = [{"weight": 10, "preference": {"propertySorter": sorter}}]
        affinity = {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
        write(fleet / "fast.yaml", placement("fast", placementType="PickN", numberOfClusters=1, affinity=affinity))
        words = cli("explain", "-f", fleet, "crp/fast", "keen", "late", "--now", NOW).stdout
        assert f"{name} is 7 (valid for 2m (until 2026-03-01T12:02:00Z))" in words
        assert f"{name} was 9, which expired 1h ago (at 2026-03-01T11:00:00Z)" in words
        assert f"warning: {name} expired 1h ago and counts as not reported" in words

    @pytest.mark.parametrize(
        ("words", "mistake"),
        [
            (["nope"], "there is no ClusterResourcePlacement 'nope' in the files, available: crp/web"),
            (["rp/web"], "there is no ResourcePlacement"),
            (["nope", "-n", "shop"], "there is no ResourcePlacement"),
            (["pod/web"], "'pod/web' is not a placement: expected NAME, crp/NAME or rp/NAMESPACE/NAME"),
            (
                ["cuprun/spring"],
                "'cuprun/spring' is not a placement: expected NAME, crp/NAME or rp/NAMESPACE/NAME. For an upgrade run: "
                "harbormaster upgrade status spring, harbormaster upgrade plan spring",
            ),
            (
                ["sur/shop/web-7"],
                "'sur/shop/web-7' is not a placement: expected NAME, crp/NAME or rp/NAMESPACE/NAME. For a staged "
                "update: harbormaster run status web-7 -n shop",
            ),
            (["crp/nope"], "there is no ClusterResourcePlacement 'nope' in the files, available: crp/web"),
            (["crp/web", "atlantis"], "there is no member cluster 'atlantis'. The fleet: dover, faro, genoa, oslo"),
        ],
    )
    def test_what_is_not_there_is_named(self, cli, fleet, words, mistake):
        result = cli("explain", "-f", fleet, *words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"error: {mistake}")


class TestValidate:
    """``validate``."""

    def test_all_mistakes_of_all_objects_are_shown(self, cli, tmp_path):
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Loud", "labels": {"a": 1}}}
        file = write(
            tmp_path / "a.yaml",
            placement(placementType="PickN", clusterNames=["dover"]),
            placement("fine"),
            config,
        )
        result = cli("validate", "-f", file, "-o", "json")
        answer = json.loads(result.stdout)
        assert (result.exit_code, answer["allowed"]) == (1, False)
        found = [(item["document"], item["name"], item["allowed"]) for item in answer["items"]]
        assert found == [(1, "web", False), (2, "fine", True), (3, "Loud", False)]
        assert [error["field"] for item in answer["items"] for error in item["errors"]] == [
            "spec.policy.clusterNames",
            "spec.policy.numberOfClusters",
            "metadata.labels.a",
            "metadata.name",
        ]

    def test_a_table_has_a_line_for_every_mistake(self, cli, tmp_path):
        file = write(tmp_path / "a.yaml", placement(placementType="PickN", clusterNames=["dover"]))
        lines = cli("validate", "-f", file).stdout.splitlines()
        assert lines[1].split("   ")[:3] == [f"{file}: document 1", "ClusterResourcePlacement web", "refused"]
        assert lines[2].strip().startswith("spec.policy.numberOfClusters: Required value")
