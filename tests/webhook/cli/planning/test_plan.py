"""``plan`` with changes: on files, side by side, and on a running hub, which has to give the same document."""

import asyncio
import json
import threading

import pytest
import yaml

from scorer.api.kinds import (
    BINDING,
    DISRUPTION_BUDGET,
    KINDS,
    MEMBER_CLUSTER,
    NAMESPACED_BINDING,
    NAMESPACED_POLICY_SNAPSHOT,
    NAMESPACED_RESOURCE_SNAPSHOT,
    OVERRIDE,
    PLACEMENT,
    POLICY_SNAPSHOT,
    RESOURCE_PLACEMENT,
    RESOURCE_SNAPSHOT,
    STAGED_RUN,
    STAGED_STRATEGY,
)
from scorer.api.names import IS_LATEST_SNAPSHOT, PARENT_PLACEMENT
from tests.builders.placement import make_placement
from tests.builders.worker import make_pool_of
from tests.docs.pages import ROOT
from tests.waiting import PATIENCE_SECONDS
from tests.webhook.cli.fleets import binding, by_nodes, member, placement, write
from tests.webhook.controllers.upgrade_world import make_upgrade_run, make_upgrade_strategy, make_upgraded
from tests.webhook.controllers.world import make_config_map, make_member, pick_n
from tests.webhook.services import LISTENERS
from webhook.embedded.simulation.annotations import status_in_annotation
from webhook.processes.hub_kubeconfig import FILE
from webhook.processes.up import Up
from webhook.settings.programs import UpSettings

NOW = "2026-03-01T12:00:00Z"
TAINT = {"key": "dry-dock", "effect": "NoSchedule"}


@pytest.fixture
def base(tmp_path):
    """A hub in a file: three members, one placement of two clusters."""
    return write(
        tmp_path / "hub.yaml",
        member("dover", 10),
        member("faro", 2),
        member("genoa", 20),
        placement(placementType="PickN", numberOfClusters=2, affinity=by_nodes()),
        binding("web-dover", "web", "dover"),
        binding("web-genoa", "web", "genoa"),
    )


def make_run(name, placement_name):
    """Return a run, and its strategy, which takes one cluster after the other."""
    spec = {"placementName": placement_name, "stagedRolloutStrategyName": "one", "state": "Run"}
    stages = [{"name": "all", "labelSelector": {}, "afterStageTasks": [{"type": "Approval"}]}]
    made = ((STAGED_RUN, name, spec), (STAGED_STRATEGY, "one", {"stages": stages}))
    return [
        {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": called}, "spec": content}
        for kind, called, content in made
    ]


def make_definition(group, kind="Widget"):
    names = {"kind": kind, "plural": f"{kind.lower()}s", "shortNames": ["wd"]}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def more(number, **spec):
    document = placement(placementType="PickN", numberOfClusters=number, affinity=by_nodes())
    return {**document, "spec": {**document["spec"], **spec}}


def entries(result):
    return {entry["name"]: entry for entry in json.loads(result.stdout)["placements"]}


class TestOnFiles:
    """``--on``."""

    @pytest.mark.parametrize(
        ("spec", "field"),
        [
            ("hello", "spec"),
            ({"policy": 5}, "spec.policy"),
            ({"policy": []}, "spec.policy"),
            ({"policy": {"placementType": "PickN", "affinity": {"clusterAffinity": []}}}, "spec.policy.affinity.c"),
            ({**placement()["spec"], "revisionHistoryLimit": "9" * 5000}, "spec.revisionHistoryLimit"),
        ],
        ids=["spec", "policy", "policy-list", "affinity", "number-of-5000-digits"],
    )
    def test_a_placement_there_that_is_none_is_told_with_its_field(self, cli, tmp_path, spec, field):
        there = write(tmp_path / "hub.yaml", {**placement(), "spec": spec})
        result = cli("plan", "--on", there, "-f", write(tmp_path / "new.yaml", placement("new")))
        assert (result.exit_code, result.stdout) == (1, "")
        assert f": document 1: {field}" in result.stderr

    def test_f_is_what_is_applied_to_it(self, cli, base, tmp_path):
        file = write(tmp_path / "new.yaml", more(3), member("oslo", 30), placement("all"))
        result = cli("plan", "--on", base, "-f", file, "-o", "json", "--now", NOW)
        plan = json.loads(result.stdout)
        assert result.exit_code == 2
        assert entries(result)["web"]["moves"] == {"gained": ["oslo"], "lost": [], "stays": ["dover", "genoa"]}
        assert entries(result)["all"]["moves"]["gained"] == ["dover", "faro", "genoa", "oslo"]
        assert [(one["name"], one["operation"]) for one in plan["admission"]] == [
            ("web", "UPDATE"),
            ("oslo", "CREATE"),
            ("all", "CREATE"),
        ]
        assert plan["fleet"]["gained"] == ["oslo"]
        assert "the member counts as joined, healthy and having just reported" in result.stderr

    def test_an_upgrade_run_is_printed_with_its_turns(self, cli, tmp_path):
        members = [make_upgraded(name, group) for name, group in (("t1", "t"), ("u1", "u"))]
        fleet = write(tmp_path / "fleet.yaml", *members, make_upgrade_strategy())
        upgrade = write(tmp_path / "upgrade.yaml", make_upgrade_run())
        alone = cli("plan", "-f", fleet, "-f", upgrade, "--now", NOW)
        assert alone.exit_code == 2, alone.output
        assert alone.stdout.splitlines()[-7:] == [
            "Upgrade run r (Full to 1.31.2) follows strategy rings:",
            "  Next: t1",
            "  2026-03-01T12:00:00Z, bound by Sequence: t1",
            "  2026-03-01T12:00:01Z, bound by Sequence: u1",
            "  warning: the run has not been started: the times assume a start now",
            "  Done at 2026-03-01T12:00:02Z:",
            "    back ends are assumed to support the upgrade: their last reports are used",
        ]
        on_hub = cli("plan", "--on", fleet, "-f", upgrade, "--now", NOW)
        assert on_hub.stdout == alone.stdout
        comment = cli("plan", "--on", fleet, "-f", upgrade, "--now", NOW, "-o", "markdown").stdout
        assert "<summary>upgrade run r</summary>" in comment
        nothing = write(tmp_path / "nothing.yaml", make_upgrade_run(strategyRef={"name": "nowhere"}))
        refused = cli("plan", "--on", fleet, "-f", nothing, "--now", NOW)
        assert "Upgrade run r (Full to 1.31.2) cannot be initialized: StrategyNotFound" in refused.stdout

    def test_a_kind_that_is_not_judged_is_counted_and_fails_if_everything_must_be(self, cli, base, tmp_path):
        profile = {"apiVersion": "upgrade.harbormaster.dev/v1alpha1", "kind": "ClusterUpgradeProfile"}
        profile |= {"metadata": {"name": "weekly"}, "spec": {"channel": "Stable"}}
        weekly = write(tmp_path / "weekly.yaml", profile)
        words = ["plan", "--on", base, "-f", weekly]
        result = cli(*words)
        assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "not judged: ClusterUpgradeProfile (1)")
        result = cli(*words, "--require-complete", "-o", "json")
        assert (result.exit_code, json.loads(result.stdout)["complete"]) == (1, False)
        assert result.stderr.splitlines()[-1] == (
            "error: the plan is not complete: not judged: ClusterUpgradeProfile (1)"
        )
        assert cli("plan", "-f", base, "-f", weekly, "--require-complete").exit_code == 1
        assert cli("plan", "-f", base, "--require-complete").exit_code == 0

    @pytest.mark.parametrize("words", [["--on"], ["-f"]], ids=["on-a-dump", "on-the-files"])
    def test_an_object_of_an_unknown_kind_is_counted_and_fails_if_everything_must_be(self, cli, base, tmp_path, words):
        folder = tmp_path / "changes"
        folder.mkdir()
        release = {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "a"}}
        node_class = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "a"}}
        unnamed = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": []}
        write(folder / "changes.yaml", make_pool_of())
        write(folder / "other.yaml", release, {**release, "metadata": {"name": "b"}}, node_class, unnamed)
        words = ["plan", *words, base, "-f", folder]
        result = cli(*words)
        counts = ["not judged: EC2NodeClass (1)", "not judged: HelmRelease (2)", "not judged: NodePool (1)"]
        assert (result.exit_code, result.stdout.splitlines()[-3:]) == (0, counts)
        result = cli(*words, "--require-complete")
        assert (result.exit_code, result.stderr.splitlines()[-1]) == (
            1,
            f"error: the plan is not complete: {'; '.join(counts)}",
        )

    def test_a_deleted_placement_is_shown_with_the_content_that_it_removes(self, cli, base, tmp_path):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        hub = write(tmp_path / "more.yaml", namespace, make_config_map("rates", "shop", value="1"))
        words = ["plan", "--on", base, "--on", hub, "--delete", "crp/web"]
        result = cli(*words, "-o", "json")
        assert result.exit_code == 2, result.stderr
        (entry,) = json.loads(result.stdout)["placements"]
        assert (entry["rollout"]["type"], entry["changed"]) == ("Deletion", True)
        (removal,) = entry["rollout"]["contentRemovals"]
        assert removal["verdict"] == "Pending"
        assert removal["digest"] in cli(*words).stdout
        assert removal["digest"] in cli(*words, "-o", "markdown").stdout
        by_kind = cli("plan", "--on", base, "--delete", "clusterresourceplacement/web", "-o", "json")
        assert by_kind.exit_code == 2

    def test_a_deleted_namespace_takes_the_objects_in_it_along(self, cli, base, tmp_path):
        config_map = make_config_map("rates", "shop", value="1")
        selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}
        placements = [make_placement("local", selectors=[selector], namespace=home) for home in ("shop", "other")]
        namespaces = [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("shop", "other")
        ]
        hub = write(tmp_path / "more.yaml", *namespaces, config_map, *placements)
        result = cli("plan", "--on", base, "--on", hub, "--delete", "ns/shop", "-o", "json")
        assert result.exit_code == 2, result.stderr
        plan = json.loads(result.stdout)
        (entry,) = [entry for entry in plan["placements"] if entry["rollout"]["type"] == "Deletion"]
        assert (entry["namespace"], entry["changed"]) == ("shop", True)
        assert [removal["verdict"] for removal in entry["rollout"]["contentRemovals"]] == ["Orphaned"]
        assert [verdict["kind"] for verdict in plan["admission"]] == ["Namespace"]

    def test_a_deleted_definition_takes_the_objects_of_its_kind_along(self, cli, base, tmp_path):
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "shop"}}
        hub = write(tmp_path / "more.yaml", namespace, make_definition("example.com"), widget)
        words = ["plan", "--on", base, "--on", hub, "--delete", "crd/widgets.example.com", "-o", "json"]
        (entry,) = json.loads(cli(*words).stdout)["placements"]
        (removal,) = entry["rollout"]["contentRemovals"]
        assert (removal["effect"], entry["changed"]) == ("Widget shop/a", True)

    @pytest.mark.parametrize(
        "word",
        ["widget/a", "widgets/shop/a", "wd/a", "Widget.example.com/a"],
        ids=["kind", "plural", "short-name", "group"],
    )
    def test_a_deleted_object_of_a_custom_kind_is_found_by_the_definition_in_the_dump(self, cli, base, tmp_path, word):
        of_a_namesake = [make_definition(f"{group}.com") for group in ("elsewhere", "example")]
        widgets = [
            {"apiVersion": f"{group}.com/v1", "kind": "Widget", "metadata": {"name": "a", "namespace": "shop"}}
            for group in ("elsewhere", "example")
        ]
        hub = write(tmp_path / "more.yaml", *of_a_namesake, *widgets)
        result = cli("plan", "--on", base, "--on", hub, "--delete", word, "-n", "shop", "-o", "json")
        assert result.exit_code == 0, result.stderr
        (verdict,) = json.loads(result.stdout)["admission"]
        assert (verdict["operation"], verdict["kind"], verdict["namespace"]) == ("DELETE", "Widget", "shop")

    def test_a_deleted_object_of_a_custom_kind_is_that_of_the_named_group(self, cli, base, tmp_path):
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "shop"}}
        widget = {**service, "apiVersion": "example.com/v1"}
        hub = write(tmp_path / "more.yaml", make_definition("example.com", kind="Service"), service, widget)
        words = ["plan", "--on", base, "--on", hub, "-n", "shop"]
        result = cli(*words, "--delete", "services.example.com/a", "--delete", "svc/a")
        assert result.exit_code == 0, result.stderr

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            pytest.param(["crp/nowhere"], "error: --delete crp/nowhere: there is no", id="unknown"),
            pytest.param(
                ["rp/shop/x", "-n", "b"],
                "error: 'rp/shop/x' is not in the namespace of --namespace, 'b'",
                id="two-namespaces",
            ),
            pytest.param(["crp/nowhere", "-n", "b"], "error: --delete crp/nowhere: there is no", id="no-namespace"),
            pytest.param(["rp/web", "-n", "shop"], "error: --delete rp/web: there is no", id="namespace"),
            pytest.param(["web"], "error: 'web' is not an object: expected KIND/NAME", id="form"),
            pytest.param(["crp/a/b"], "error: 'crp/a/b': ClusterResourcePlacement has no namespace", id="scope"),
            pytest.param(["cpr/web"], "error: 'cpr' is not a known kind", id="kind"),
        ],
    )
    def test_a_deletion_that_names_no_object_is_an_error(self, cli, base, words, message):
        result = cli("plan", "--on", base, "--delete", *words)
        assert result.exit_code == 1
        assert message in result.stderr

    def test_a_deletion_needs_a_hub(self, cli, base):
        result = cli("plan", "-f", base, "--delete", "crp/web")
        assert "--delete requires a hub to delete from: --on FILE or --hub" in result.stderr

    def test_what_changes_nothing_ends_with_0(self, cli, base, tmp_path):
        result = cli("plan", "--on", base, "-f", write(tmp_path / "same.yaml", more(2)))
        assert (result.exit_code, result.stdout) == (0, "1 placement does not change.\n")

    def test_a_member_without_status_keeps_the_one_it_has_and_a_new_one_does_not_report(self, cli, base, tmp_path):
        known, new = member("genoa", taints=[TAINT]), member("oslo")
        for document in (known, new):
            del document["status"]
        file = write(tmp_path / "new.yaml", known, new, placement("all"))
        result = cli("plan", "--on", base, "-f", file, "-o", "json", "--now", NOW)
        found = entries(result)["all"]
        assert found["moves"]["gained"] == ["dover", "faro"]
        assert [one["reason"].partition(":")[0] for one in found["filtered"]] == [
            "TaintNotTolerated",
            "AgentNotReporting",
        ]
        assert f"{file}: document 2: status: neither given nor stored" in result.stderr

    def test_given_figures_count_and_the_rest_is_as_stored(self, cli, base, tmp_path):
        file = write(tmp_path / "new.yaml", member("faro", 500), more(1))
        result = cli(
            "plan",
            "--on",
            base,
            "-f",
            file,
            "-f",
            write(
                tmp_path / "p.yaml", placement("one", placementType="PickN", numberOfClusters=1, affinity=by_nodes())
            ),
            "-o",
            "json",
        )
        assert entries(result)["one"]["moves"]["gained"] == ["faro"]

    @pytest.mark.parametrize(
        ("words", "moves"),
        [
            (["--lost", "genoa"], {"gained": ["faro"], "lost": ["genoa"], "stays": ["dover"]}),
            (["--drained", "genoa"], {"gained": ["faro"], "lost": ["genoa"], "stays": ["dover"]}),
            (["--lost", "genoa", "--lost", "faro"], {"gained": [], "lost": ["genoa"], "stays": ["dover"]}),
        ],
    )
    def test_lost_and_drained_clusters(self, cli, base, words, moves):
        for ground in ("--on", "-f"):
            result = cli("plan", ground, base, *words, "-o", "json")
            assert (result.exit_code, entries(result)["web"]["moves"]) == (2, moves)

    def test_a_table_shows_what_moves_and_in_which_order(self, cli, base, tmp_path):
        budget = {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacementDisruptionBudget",
            "metadata": {"name": "web"},
            "spec": {"maxUnavailable": 0},
        }
        file = write(
            tmp_path / "new.yaml", budget, placement("other", placementType="PickFixed", clusterNames=["faro"])
        )
        result = cli("plan", "--on", base, "-f", file, "--drained", "dover")
        assert result.stdout == (
            "Fleet: drained dover\n"
            "\n"
            "PLACEMENT   TYPE        WANTED   PICKED   CLUSTERS      WHY\n"
            "crp/other   PickFixed   1        1        +faro\n"
            "crp/web     PickN       2        2        genoa dover\n"
            "\n"
            "Rollout:\n"
            "  crp/web\n"
            "    not evicted from dover: budget web has maxUnavailable 0; 0 of 2 clusters are available\n"
        )

    def test_an_order_is_shown_where_there_is_one(self, cli, base, tmp_path):
        """Two of the three wanted have to be ready before one may go."""
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
        ready = [{"type": "Available", "status": "True", "reason": "AllWorkAreAvailable"}]
        snapshot = {
            "apiVersion": RESOURCE_SNAPSHOT.api_version,
            "kind": RESOURCE_SNAPSHOT.kind,
            "metadata": {
                "name": "web-0-snapshot",
                "labels": {
                    PARENT_PLACEMENT: "web",
                    IS_LATEST_SNAPSHOT: "true",
                    "kubernetes-fleet.io/resource-index": "0",
                },
                "annotations": {"kubernetes-fleet.io/resource-hash": "x"},
            },
            "spec": {"selectedResources": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}]},
        }
        held = [binding(f"web-{name}", "web", name) | {"status": {"conditions": ready}} for name in ("dover", "genoa")]
        hub = write(tmp_path / "hub2.yaml", member("dover"), member("faro"), member("genoa"), more(2), snapshot, *held)
        shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"a": "b"}}}
        file = write(tmp_path / "new.yaml", more(3, strategy=rolling), shop)
        lines = cli("plan", "--on", hub, "-f", file).stdout.splitlines()
        assert lines[lines.index("Rollout:") :] == [
            "Rollout:",
            "  crp/web",
            "    1. place on faro",
            "    2. update dover",
            "    3. update genoa",
        ]

    def test_what_stays_is_counted(self, cli, base, tmp_path):
        file = write(tmp_path / "new.yaml", placement("other", placementType="PickFixed", clusterNames=["faro"]))
        lines = cli("plan", "--on", base, "-f", file).stdout.splitlines()
        assert [line.split()[0] for line in lines if line] == ["PLACEMENT", "crp/other", "1"]
        assert lines[-1] == "1 placement does not change."

    def test_what_admission_refuses_is_an_error_with_file_document_and_field(self, cli, base, tmp_path):
        bad = placement("bad", placementType="PickN")
        file = write(tmp_path / "new.yaml", more(3), bad)
        result = cli("plan", "--on", base, "-f", file, "-o", "json")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"error: {file}: document 2: spec.policy.numberOfClusters: Required value")

    def test_an_update_is_judged_as_one(self, cli, base, tmp_path):
        """Numbers may change, types may not."""
        file = write(tmp_path / "new.yaml", placement(placementType="PickAll"))
        result = cli("plan", "--on", base, "-f", file)
        assert result.exit_code == 1
        assert "spec.policy.placementType" in result.stderr

    def test_the_warning_of_admission_and_the_plan_say_the_same(self, cli, base, tmp_path):
        snapshot = {
            "apiVersion": POLICY_SNAPSHOT.api_version,
            "kind": POLICY_SNAPSHOT.kind,
            "metadata": {"name": "web-0", "labels": {PARENT_PLACEMENT: "web", IS_LATEST_SNAPSHOT: "true"}},
            "spec": {"policy": {"placementType": "PickN", "affinity": by_nodes()}, "policyHash": "x"},
        }
        made = write(tmp_path / "made.yaml", snapshot)
        file = write(tmp_path / "new.yaml", more(1))
        result = cli("plan", "--on", base, "--on", made, "-f", file, "-o", "json", "--now", NOW)
        assert "spec.policy: removes the placement from 1 of 2 clusters" in result.stderr
        assert len(entries(result)["web"]["moves"]["lost"]) == 1

    def test_an_override_without_effect_is_a_warning(self, cli, base, tmp_path):
        rule = {
            "clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"zone": "west"}}}]},
            "overrideType": "Delete",
        }
        override = {
            "apiVersion": OVERRIDE.api_version,
            "kind": OVERRIDE.kind,
            "metadata": {"name": "o"},
            "spec": {
                "placement": {"name": "web"},
                "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
                "policy": {"overrideRules": [rule]},
            },
        }
        file = write(tmp_path / "override.yaml", override)
        result = cli("plan", "--on", base, "-f", file, "-o", "json", "--now", NOW)
        assert 'no cluster has a label "zone"' in result.stderr
        (verdict,) = json.loads(result.stdout)["admission"]
        assert 'no cluster has a label "zone"' in verdict["warnings"][-1]


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        (
            ["--lost", "atlantis"],
            '--lost atlantis: there is no member cluster "atlantis". The fleet: dover, faro, genoa\n',
        ),
        (["--drained", "atlantis"], '--drained atlantis: there is no member cluster "atlantis". The fleet: '),
        (["--lost", "dover", "--drained", "dover"], '--drained dover: member cluster "dover" is also in --lost dover'),
        (["--lost", "dover", "--lost", "dover"], '--lost dover: member cluster "dover" is also in --lost dover'),
        (["--hub"], "--on cannot be used with a running hub: it reads the hub from files"),
        (["--compare", "x"], "--compare' requires 2 arguments. (see: harbormaster plan --help)"),
        (["--compare", "nowhere.yaml", "nowhere.yaml"], "nowhere.yaml: no such file"),
        (["--compare", "x", "y", "--lost", "dover"], "--compare cannot be used with --lost: it compares two policies"),
        (["--compare", "x", "y", "-f", "z"], "--compare takes two files and one fleet: that of a hub (--hub), of a"),
    ],
)
def test_mistakes_are_told(cli, base, words, mistake):
    result = cli("plan", "--on", base, *words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert mistake in result.stderr


@pytest.mark.parametrize("words", [["--server", "https://127.0.0.1:1", "--now", NOW], ["--lost", "a", "--now", NOW]])
def test_a_running_hub_has_its_own_clock(cli, words):
    result = cli("plan", *words)
    assert result.exit_code == 1
    assert "--now requires" in result.stderr


class TestCompare:
    """``--compare``."""

    @pytest.fixture
    def pair(self, tmp_path):
        left = write(
            tmp_path / "a.yaml", placement("web", placementType="PickN", numberOfClusters=1, affinity=by_nodes())
        )
        right = write(tmp_path / "b.yaml", placement("web", placementType="PickFixed", clusterNames=["genoa", "faro"]))
        return left, right

    def test_the_clusters_that_the_policies_disagree_about(self, cli, base, pair):
        result = cli("plan", "--compare", *pair, "-f", base)
        assert result.exit_code == 2
        assert result.stdout == (
            "a.yaml: crp/web, PickN, wants 1, gets 1\n"
            "b.yaml: crp/web, PickFixed, wants 2, gets 2\n"
            "\n"
            "CLUSTER   a.yaml                b.yaml          WHY\n"
            "genoa     1. Picked (40)        1. Picked (0)   affinity 40 with a.yaml, 0 with b.yaml\n"
            "dover     2. ScoreTooLow (18)   NotListed       a.yaml: others score higher; b.yaml: the policy does not "
            "list it\n"
            "faro      3. ScoreTooLow (0)    2. Picked (0)   a.yaml: others score higher\n"
        )

    def test_files_of_one_name_are_told_apart(self, cli, base, pair, tmp_path):
        (tmp_path / "other").mkdir()
        other = tmp_path / "other" / "a.yaml"
        other.write_text((tmp_path / "b.yaml").read_text())
        heads = [
            cli("plan", "--compare", pair[0], right, "-f", base).stdout.splitlines()[:2] for right in (other, pair[0])
        ]
        assert [line.partition(": crp/")[0] for line in heads[0]] == [pair[0], str(other)]
        assert [line.partition(": crp/")[0] for line in heads[1]] == ["a.yaml (1)", "a.yaml (2)"]

    def test_as_a_document(self, cli, base, pair):
        answer = json.loads(cli("plan", "--compare", *pair, "--on", base, "-o", "json").stdout)
        assert answer.keys() == {"left", "right", "clusters", "differs", "evaluatedAt"}
        assert (answer["left"]["file"], answer["left"]["name"], answer["right"]["found"]) == (pair[0], "web", 2)
        assert yaml.safe_load(cli("plan", "--compare", *pair, "--on", base, "-o", "yaml").stdout)["differs"] is True

    def test_the_same_policy_twice_ends_with_0(self, cli, base, pair):
        result = cli("plan", "--compare", pair[0], pair[0], "-f", base)
        assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "3 clusters are evaluated the same by both.")

    def test_a_refused_policy_is_told_with_its_file(self, cli, base, pair, tmp_path):
        bad = write(tmp_path / "bad.yaml", placement("web", placementType="PickN"))
        result = cli("plan", "--compare", pair[0], bad, "-f", base)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"error: {bad}: document 1: spec.policy.numberOfClusters: Required value")

    def test_a_file_has_one_placement(self, cli, base, pair, tmp_path):
        none = write(tmp_path / "none.yaml", member("dover"))
        result = cli("plan", "--compare", pair[0], none, "-f", base)
        assert (result.exit_code, result.stderr) == (1, f"error: {none}: has no placements, expected one\n")


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A whole running hub in a thread of its own: members report, three placements have settled."""
    data = tmp_path_factory.mktemp("up")
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def there(work, seconds=60):
        return asyncio.run_coroutine_threadsafe(work, loop).result(seconds)

    up = Up(UpSettings(**LISTENERS), data)

    async def fill():
        documents = [make_member(f"m{at}", nodes=at + 1, region="n" if at % 2 else "s") for at in range(6)]
        documents.append(make_member("silent", simulate="silent=14m"))
        documents += [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}]
        documents += [make_config_map("rates", value="1")]
        documents.append(make_placement("web", pick_n(3)))
        documents.append(make_placement("all", {"placementType": "PickAll"}))
        documents.append(make_placement("fixed", {"placementType": "PickFixed", "clusterNames": ["m0", "m1"]}))
        budget = {"apiVersion": DISRUPTION_BUDGET.api_version, "kind": DISRUPTION_BUDGET.kind}
        documents.append({**budget, "metadata": {"name": "web"}, "spec": {"maxUnavailable": 1}})
        for document in documents:
            kind = next(kind for kind in KINDS.values() if kind.kind == document["kind"])
            await up.store.create(kind, status_in_annotation(document))
        assert await up.settled(PATIENCE_SECONDS)

    try:
        there(up.__aenter__())
        try:
            there(fill())
            yield data
        finally:
            there(up.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_SECONDS)
        loop.close()


BOATS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.example.org"},
    "spec": {
        "group": "example.org",
        "names": {"kind": "Boat", "plural": "boats"},
        "scope": "Cluster",
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
BOAT = {"apiVersion": "example.org/v1", "kind": "Boat", "metadata": {"name": "dinghy"}}
PORT = make_placement(
    "port",
    {"placementType": "PickFixed", "clusterNames": ["m0"]},
    selectors=[
        {
            "group": "apiextensions.k8s.io",
            "version": "v1",
            "kind": "CustomResourceDefinition",
            "name": "boats.example.org",
        },
        {"group": "example.org", "version": "v1", "kind": "Boat", "name": "dinghy"},
    ],
)
DUMPED = (
    *(MEMBER_CLUSTER, PLACEMENT, RESOURCE_PLACEMENT, BINDING, NAMESPACED_BINDING, POLICY_SNAPSHOT),
    *(NAMESPACED_POLICY_SNAPSHOT, RESOURCE_SNAPSHOT, NAMESPACED_RESOURCE_SNAPSHOT, DISRUPTION_BUDGET),
)


def _clusters(entry):
    return [group["clusters"] for group in entry["groups"]]


@pytest.fixture
def with_boats(cli, hub, tmp_path):
    """Put a custom kind, an object of it, and its placement on the hub until the end of the test."""
    content = [write(tmp_path / name, document) for name, document in (("a.yaml", BOATS), ("b.yaml", BOAT))]
    content.append(write(tmp_path / "c.yaml", PORT))
    for file in content:
        assert cli("apply", "--data", hub, "-f", file).exit_code == 0
    rolled_out = cli("wait", "crp/port", "--for=condition=Available", "--data", hub)
    assert rolled_out.exit_code == 0, rolled_out.stderr
    yield
    for file in reversed(content):
        assert cli("delete", "--data", hub, "-f", file).exit_code == 0


class TestTheRunningHub:
    """``--server`` and its kin."""

    @pytest.fixture
    def dump(self, cli, hub, tmp_path):
        """Return the hub as `get` shows it, in a file."""
        words = ",".join(kind.resource for kind in DUMPED) + ",namespaces,configmaps"
        result = cli("get", words, "-A", "-o", "yaml", "--data", hub)
        assert result.exit_code == 0, result.stderr
        file = tmp_path / "dump.yaml"
        file.write_text(result.stdout)
        return file

    def test_it_judges_unknown_fields(self, cli, hub, tmp_path):
        document = make_placement("newer", pick_n(3))
        document["spec"]["polcy"] = document["spec"].pop("policy")
        file = write(tmp_path / "typo.yaml", document)
        refused = cli("plan", "--data", hub, "-f", file)
        said = f"error: {file}: document 1: spec.polcy: Forbidden: unknown field. Did you mean policy?"
        assert (refused.exit_code, refused.stdout, said in refused.stderr) == (1, "", True), refused.stderr
        warned = cli("plan", "--data", hub, "-f", file, "--validate=warn")
        assert (warned.exit_code, 'unknown field "spec.polcy"' in warned.stderr) == (2, True), warned.stderr

    @pytest.mark.parametrize(
        "words",
        [
            pytest.param([], id="nothing"),
            pytest.param(["--lost", "m5"], id="lost"),
            pytest.param(["--drained", "m5", "--drained", "m4"], id="drained"),
            pytest.param(["-f", "more.yaml"], id="a-larger-placement"),
            pytest.param(["-f", "less.yaml", "--lost", "m1"], id="a-smaller-placement-and-a-lost-cluster"),
            pytest.param(["-f", "members.yaml"], id="members"),
            pytest.param(["-f", "content.yaml"], id="content"),
            pytest.param(["-f", "pool.yaml"], id="a-kind-that-nothing-depends-on"),
            pytest.param(["-f", "run.yaml"], id="a-run"),
            pytest.param(["-f", "run.yaml", "--run", "spring"], id="a-run-alone"),
            pytest.param(["--delete", "crp/web"], id="a-deletion"),
        ],
    )
    def test_a_dump_of_it_gives_the_same_document(self, cli, hub, dump, tmp_path, words):
        write(tmp_path / "more.yaml", make_placement("web", pick_n(5)), make_placement("new", pick_n(2)))
        write(tmp_path / "less.yaml", make_placement("web", pick_n(1)))
        tainted = make_member("m2", nodes=3) | {"spec": {"identity": {"kind": "User", "name": "m2"}, "taints": [TAINT]}}
        unknown = make_member("new")
        del unknown["status"]
        write(
            tmp_path / "members.yaml", tainted, unknown, make_member("newer", nodes=90), make_placement("p", pick_n(2))
        )
        write(tmp_path / "content.yaml", make_config_map("rates", value="2"), make_config_map("more", value="3"))
        pool = {
            "template": {
                "spec": {"nodeClassRef": {"group": "g.io", "kind": "K", "name": "default"}, "requirements": []}
            }
        }
        write(
            tmp_path / "pool.yaml",
            {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": pool},
        )
        left_to_runs = make_placement("slow", pick_n(3), strategy={"type": "External"})
        write(tmp_path / "run.yaml", left_to_runs, *make_run("spring", "slow"))
        words = [str(tmp_path / word) if word.endswith(".yaml") else word for word in words]
        asked = cli("plan", "--data", hub, *words, "-o", "json")
        assert asked.exit_code in (0, 2), asked.stderr
        answer = json.loads(asked.stdout)
        assert answer.pop("fleetRevision")
        made = cli("plan", "--on", dump, *words, "-o", "json", "--now", answer["evaluatedAt"])
        assert json.loads(made.stdout) == answer
        assert (made.exit_code, made.stderr) == (asked.exit_code, asked.stderr)
        if words and "pool" not in words[-1]:
            assert asked.exit_code == 2

    @pytest.mark.parametrize("options", [["--data"], ["--kubeconfig"]], ids=["served", "own-answers"])
    def test_it_is_rendered_like_a_dump_of_it(self, cli, hub, dump, tmp_path, options):
        file = write(tmp_path / "content.yaml", make_config_map("rates", value="2"), make_placement("new", pick_n(2)))
        selected = [*options, str(hub if options == ["--data"] else hub / FILE)]
        asked = cli("render", *selected, "-f", file, "-o", "json")
        assert asked.exit_code == 0, asked.stderr
        answer = json.loads(asked.stdout)
        assert answer.pop("fleetRevision")
        made = cli("render", "--on", dump, "-f", file, "-o", "json", "--now", answer["evaluatedAt"])
        assert json.loads(made.stdout)["placements"] == answer["placements"]
        changed = {entry["name"]: [*map(" ".join, _clusters(entry))] for entry in answer["placements"]}
        assert changed == {"all": ["m0 m1 m2 m3 m4 m5"], "fixed": ["m0 m1"], "new": ["m4 m5"], "web": changed["web"]}
        assert cli("render", *selected, "-o", "diff").exit_code == 0
        assert cli("render", *selected, "-f", file, "-o", "diff").exit_code == 2

    def test_it_is_found_by_its_data_folder(self, cli, hub, monkeypatch):
        monkeypatch.setenv("HARBORMASTER_DATA", str(hub))
        result = cli("plan", "--lost", "m5")
        assert result.exit_code == 2
        assert result.stdout.startswith("Fleet: lost m5\n")
        assert cli("plan", "--hub").exit_code == 0

    def test_a_run_that_it_does_not_know_is_told(self, cli, hub):
        result = cli("plan", "--data", hub, "--run", "spring")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == 'error: --run spring: there is no ClusterStagedUpdateRun "spring". Known: none\n'

    def test_its_refusals_are_told_with_file_and_field(self, cli, hub, tmp_path):
        file = write(tmp_path / "bad.yaml", placement("bad", placementType="PickN"))
        result = cli("plan", "--data", hub, "-f", file)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith(f"error: {file}: document 1: spec.policy.numberOfClusters: Required value")

    def test_names_it_does_not_know_are_told(self, cli, hub):
        result = cli("plan", "--data", hub, "--lost", "atlantis", "--drained", "nowhere")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            'error: --lost atlantis: there is no member cluster "atlantis". '
            "The fleet: m0, m1, m2, m3, m4, m5, silent\n"
            'error: --drained nowhere: there is no member cluster "nowhere". '
            "The fleet: m0, m1, m2, m3, m4, m5, silent\n"
        )

    def test_what_is_wrong_with_an_object_is_told_with_file_and_document(self, cli, hub, tmp_path):
        """The server names it by a JSON Pointer into what it was sent."""
        file = write(tmp_path / "a.yaml", BOATS, make_member("m0"), BOAT)
        result = cli("plan", "--data", hub, "-f", file, "-o", "json")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (f'error: {file}: document 3: kind: "Boat" of "example.org/v1" is not a known kind\n')
        file = write(tmp_path / "b.yaml", placement(), make_member("m0"))
        result = cli("plan", "--data", hub, "-f", file, "--lost", "m0")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == f'error: --lost m0: member cluster "m0" is also in {file}: document 2\n'

    def test_a_new_member_that_nobody_gets_changes_nothing(self, cli, hub, tmp_path):
        """A message that counts it among those that do not qualify is no change."""
        new = make_member("new")
        del new["status"]
        file = write(tmp_path / "new.yaml", new)
        result = cli("plan", "--data", hub, "-f", file)
        assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "3 placements do not change.")

    def test_policies_side_by_side_on_its_fleet(self, cli, hub, tmp_path):
        left = write(tmp_path / "a.yaml", make_placement("a", pick_n(2)))
        right = write(tmp_path / "b.yaml", make_placement("b", pick_n(3)))
        result = cli("plan", "--data", hub, "--compare", left, right, "-o", "json")
        answer = json.loads(result.stdout)
        assert (result.exit_code, answer["left"]["found"], answer["right"]["found"]) == (2, 2, 3)
        assert answer["fleetRevision"]
        assert [one["cluster"] for one in answer["clusters"] if one["differs"]] == ["m3"]

    @pytest.mark.parametrize("word", ["boat/dinghy", "Boat.example.org/dinghy"], ids=["kind", "group"])
    @pytest.mark.parametrize("options", [["--data"], ["--kubeconfig"]], ids=["served", "own-answers"])
    def test_it_tells_what_a_deleted_object_of_its_own_kinds_takes_away(self, cli, hub, with_boats, options, word):
        options = [*options, str(hub if options == ["--data"] else hub / FILE)]
        result = cli("plan", *options, "--delete", word, "-o", "json")
        assert result.exit_code == 2, result.stderr
        (entry,) = [entry for entry in json.loads(result.stdout)["placements"] if entry["changed"]]
        (removal,) = entry["rollout"]["contentRemovals"]
        assert (entry["name"], removal["effect"]) == ("port", "Boat dinghy")
        rendered = cli("render", *options, "--delete", word, "--placement", "crp/port", "-o", "json")
        (placement,) = json.loads(rendered.stdout)["placements"]
        changes = {item["kind"]: item["change"] for group in placement["groups"] for item in group["objects"]}
        assert changes == {"CustomResourceDefinition": "Unchanged", "Boat": "Removed"}
        unknown = cli("plan", *options, "--delete", "bota/dinghy")
        assert (unknown.exit_code, unknown.stdout) == (1, "")
        assert unknown.stderr == "error: 'bota' is not a known kind. Did you mean boat?\n"


def test_a_warning_tells_the_whole_path(cli):
    """The limit of a header is none here."""
    result = cli("plan", "-f", ROOT / "examples" / "fleet")
    path = "spec.policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution.clusterSelectorTerms[0]"
    assert f": document 5: {path}.propertySelector.matchExpressions[0].name: " in result.stderr
    assert "..." not in result.stderr
