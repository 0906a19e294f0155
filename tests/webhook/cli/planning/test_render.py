"""``render``: the objects of each cluster from files, their differences, a folder for GitOps, and mistakes."""

import json
import re
from base64 import b64encode

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.webhook.cli.fleets import binding, member, placement, write
from tests.webhook.controllers.staged_world import make_run, make_strategy

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
PASSWORD = b64encode(b"correct horse").decode()


def config_map(name="rates", **data):
    metadata = {"name": name, "namespace": "shop", "uid": "u-1", "resourceVersion": "7"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


PLACED = {"name": "rates", "namespace": "shop"}
"""Metadata of the ConfigMap without the fields of the hub."""


def secret(password=PASSWORD, **members):
    metadata = {"name": "keys", "namespace": "shop", "annotations": {"kapp.k14s.io/original": password}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": password}, **members}


def deployment():
    pod = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": pod}
    metadata = {"name": "web", "namespace": "shop"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def override(*patches, kind="ConfigMap", name="rates", labels=None):
    terms = [{"labelSelector": {"matchLabels": labels}}] if labels else []
    rule = {"clusterSelector": {"clusterSelectorTerms": terms}, "jsonPatchOverrides": list(patches)}
    selector = {"group": "", "version": "v1", "kind": kind, "name": name}
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ResourceOverride",
        "metadata": {"name": "zone", "namespace": "shop"},
        "spec": {
            "placement": {"name": "web"},
            "resourceSelectors": [selector],
            "policy": {"overrideRules": [rule]},
        },
    }


PATCH = {"op": "add", "path": "/data/at", "value": "${MEMBER-CLUSTER-NAME}"}


@pytest.fixture
def fleet(tmp_path):
    """Return a function that writes a fleet of two members and one placement, with more objects."""

    def written(*documents, name="fleet"):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        members = (member("dover", labels={"sea": "north"}), member("genoa"))
        write(folder / "fleet.yaml", *members, placement(), NAMESPACE, *documents)
        return folder

    return written


def objects(result):
    """Return the rendered objects with the comments before them."""
    assert result.exit_code == 0, result.stderr
    heads = re.findall(r"^# (.*)$", result.stdout, re.MULTILINE)
    return list(zip(heads, yaml.safe_load_all(result.stdout), strict=True))


class TestYaml:
    """``-o yaml``."""

    def test_each_cluster_gets_its_objects_in_the_order_of_application(self, cli, fleet):
        result = cli("render", "-f", fleet(deployment(), config_map(a="1")))
        shown = [(head, each["kind"]) for head, each in objects(result)]
        assert shown == [
            (f"{cluster}: crp/web", kind)
            for cluster in ("dover", "genoa")
            for kind in ("Namespace", "ConfigMap", "Deployment")
        ]

    def test_the_fields_of_the_hub_are_left_out_and_overrides_applied(self, cli, fleet):
        result = cli("render", "-f", fleet(config_map(a="1"), override(PATCH, labels={"sea": "north"})))
        found = {head: each for head, each in objects(result) if each["kind"] == "ConfigMap"}
        assert found["dover: crp/web"]["data"] == {"a": "1", "at": "dover"}
        assert found["genoa: crp/web"]["data"] == {"a": "1"}
        assert found["genoa: crp/web"]["metadata"] == {"name": "rates", "namespace": "shop"}

    def test_it_is_the_same_in_every_run(self, cli, fleet):
        folder = fleet(config_map(b="1", a="2"), deployment())
        assert cli("render", "-f", folder).stdout == cli("render", "-f", folder).stdout

    def test_only_named_clusters_and_placements(self, cli, fleet):
        folder = fleet(config_map(a="1"), placement("other"))
        result = cli("render", "-f", folder, "--cluster", "genoa", "--placement", "crp/web")
        assert {head for head, _ in objects(result)} == {"genoa: crp/web"}

    def test_json_is_the_answer_of_the_server(self, cli, fleet):
        result = cli("render", "-f", fleet(config_map(a="1")), "-o", "json")
        (entry,) = json.loads(result.stdout)["placements"]
        assert [group["clusters"] for group in entry["groups"]] == [["dover", "genoa"]]


class TestDiff:
    """``-o diff``."""

    def test_clusters_with_equal_changes_are_one_group(self, cli, fleet):
        base = fleet(config_map(a="1"), name="base")
        result = cli("render", "-f", fleet(config_map(a="2")), "--base", base, "-o", "diff")
        assert result.exit_code == 2
        assert result.stdout.splitlines() == [
            "# crp/web on dover genoa",
            "--- base/ConfigMap/shop/rates",
            "+++ rendered/ConfigMap/shop/rates",
            "@@ -1,6 +1,6 @@",
            " apiVersion: v1",
            " data:",
            "-  a: '1'",
            "+  a: '2'",
            " kind: ConfigMap",
            " metadata:",
            "   name: rates",
        ]

    @pytest.mark.parametrize("changes_run", [False, True], ids=["run-of-the-hub", "run-of-the-changes"])
    def test_a_placement_that_a_run_rolls_out_has_only_the_changed_object(self, cli, tmp_path, changes_run):
        external = placement()
        external["spec"]["strategy"] = {"type": "External"}
        rings = make_strategy({"name": "all", "labelSelector": {}})
        run = make_run("spring", placementName="web", stagedRolloutStrategyName="careful")
        hub = [member("dover"), external, NAMESPACE, config_map(a="1"), config_map("fees", a="1"), rings]
        base = write(tmp_path / "base.yaml", *hub, *([] if changes_run else [run]))
        changes = write(tmp_path / "changes.yaml", config_map(a="2"), *([run] if changes_run else []))
        result = cli("render", "--on", base, "-f", changes, "-o", "diff")
        assert result.exit_code == 2, result.stderr
        heads = [line for line in result.stdout.splitlines() if line.startswith(("#", "+", "-"))]
        assert heads == [
            "# crp/web on dover",
            "--- live/ConfigMap/shop/rates",
            "+++ rendered/ConfigMap/shop/rates",
            "-  a: '1'",
            "+  a: '2'",
        ]

    def test_clusters_with_different_changes_are_shown_apart(self, cli, fleet):
        base = fleet(config_map(a="1"), name="base")
        result = cli("render", "-f", fleet(config_map(a="1"), override(PATCH)), "--base", base, "-o", "diff")
        heads = [line for line in result.stdout.splitlines() if line.startswith("#")]
        assert heads == ["# crp/web on dover", "# crp/web on genoa"]

    def test_added_and_removed_objects(self, cli, fleet):
        base = fleet(config_map("old", a="1"), name="base")
        result = cli("render", "-f", fleet(config_map("new", a="1")), "--base", base, "-o", "diff")
        files = [line for line in result.stdout.splitlines() if line.startswith(("---", "+++"))]
        assert files == [
            *("--- /dev/null", "+++ rendered/ConfigMap/shop/new"),
            *("--- base/ConfigMap/shop/old", "+++ /dev/null"),
        ]

    def test_no_difference(self, cli, fleet):
        folder = fleet(config_map(a="1"), override(PATCH))
        result = cli("render", "-f", folder, "--base", folder, "-o", "diff")
        assert (result.exit_code, result.stdout) == (0, "")

    def test_the_order_of_members_is_no_difference(self, cli, fleet):
        base = fleet(config_map(a="1", b="2"), name="base")
        result = cli("render", "-f", fleet(config_map(b="2", a="1")), "--base", base, "-o", "diff")
        assert result.exit_code == 0


class TestDeletions:
    """``--delete``, and ``-o markdown``, which a release with deletions needs."""

    @pytest.mark.parametrize(
        ("words", "removed"),
        [
            pytest.param(["configmap/rates", "-n", "shop"], {"ConfigMap/shop/rates": "dover genoa"}, id="object"),
            pytest.param(
                ["crp/web"], {"Namespace/shop": "dover genoa", "ConfigMap/shop/rates": "dover genoa"}, id="placement"
            ),
            pytest.param(["crp/kept"], {}, id="abandoned"),
            pytest.param(["membercluster/dover"], {}, id="member-that-leaves-with-its-content"),
            pytest.param(["ns/home"], {}, id="namespace-of-a-placement"),
        ],
    )
    def test_the_objects_that_leave_each_cluster(self, cli, fleet, words, removed):
        kept = placement("kept")
        kept["spec"]["strategy"] = {"deleteStrategy": {"propagationPolicy": "Abandon"}}
        kept["spec"]["resourceSelectors"] = [{"group": "", "version": "v1", "kind": "Namespace", "name": "other"}]
        home, other = ({**NAMESPACE, "metadata": {"name": name}} for name in ("home", "other"))
        local = {**placement("local"), "kind": "ResourcePlacement", "metadata": {"name": "local", "namespace": "home"}}
        local["spec"]["resourceSelectors"] = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "fees"}]
        fees = {**config_map(a="1"), "metadata": {"name": "fees", "namespace": "home"}}
        there = fleet(config_map(a="1"), kept, home, other, local, fees)
        command = ["render", "--on", there, "--delete", *words]
        result = cli(*command, "-o", "json")
        assert result.exit_code == 0, result.stderr
        groups = [group for entry in json.loads(result.stdout)["placements"] for group in entry["groups"]]
        assert {
            "/".join(filter(None, (item["kind"], item["namespace"], item["name"]))): " ".join(group["clusters"])
            for group in groups
            for item in group["objects"]
            if item["change"] == "Removed"
        } == removed
        comment = cli(*command, "-o", "markdown")
        assert comment.exit_code == (2 if removed else 0)
        for name, clusters in removed.items():
            assert f"--- live/{name}" in comment.stdout
            assert f"# crp/web on {clusters}" in comment.stdout
        if removed:
            assert f"### Objects: {len(removed)} removed on 2 clusters" in comment.stdout
            assert f"| `crp/web` | `dover` `genoa` | 0 | {len(removed)} | 0 |" in comment.stdout
        else:
            assert "### No object changes" in comment.stdout

    def test_a_plan_as_markdown_shows_them(self, cli, fleet):
        there = fleet(config_map(a="1"))
        comment = cli("plan", "--on", there, "--delete", "cm/rates", "-n", "shop", "-o", "markdown").stdout
        assert "--- live/ConfigMap/shop/rates" in comment

    @pytest.mark.parametrize(
        ("words", "mistake"),
        [
            pytest.param(
                ["--on", "{}", "--delete", "cm/none"],
                'error: --delete cm/none: there is no ConfigMap "default/none"',
                id="name",
            ),
            pytest.param(
                ["-f", "{}", "--delete", "crp/web"],
                "--delete requires a hub to delete from: --on FILE or --hub",
                id="no-hub",
            ),
            pytest.param(
                ["--on", "{}", "--delete", "rp/shop/x", "-n", "b"],
                "error: 'rp/shop/x' is not in the namespace of --namespace, 'b'",
                id="two-namespaces",
            ),
        ],
    )
    def test_a_wrong_deletion_is_an_error(self, cli, fleet, words, mistake):
        there = fleet(config_map(a="1"))
        result = cli("render", *(word.format(there) for word in words))
        assert (result.exit_code, mistake in result.stderr) == (1, True), result.stderr


class TestSecrets:
    """Values are never shown, in no format."""

    @pytest.mark.parametrize("output", ["yaml", "json", "diff"])
    def test_no_value_is_shown(self, cli, fleet, output):
        changed = secret(b64encode(b"battery staple").decode(), stringData={"token": "plain text"})
        base = fleet(secret(), name="base")
        words = ["--base", base] if output != "yaml" else []
        result = cli("render", "-f", fleet(changed), *words, "-o", output)
        for value in (b"correct horse", b"battery staple"):
            assert b64encode(value).decode() not in result.output
        assert "plain text" not in result.output
        assert "***" in result.stdout

    def test_a_changed_value_is_marked_as_such(self, cli, fleet):
        base = fleet(secret(), name="base")
        result = cli("render", "-f", fleet(secret(b64encode(b"x").decode())), "--base", base, "-o", "diff")
        assert "-  password: '*** (before)'" in result.stdout.splitlines()
        assert "+  password: '*** (after)'" in result.stdout.splitlines()

    def test_clusters_whose_secrets_differ_are_one_group(self, cli, fleet):
        patch = {"op": "replace", "path": "/data/password", "value": b64encode(b"z").decode()}
        hidden = override(patch, kind="Secret", name="keys", labels={"sea": "north"})
        result = cli("render", "-f", fleet(secret(), hidden), "-o", "json")
        (entry,) = json.loads(result.stdout)["placements"]
        assert [group["clusters"] for group in entry["groups"]] == [["dover", "genoa"]]

    def test_an_override_that_fails_does_not_show_its_value(self, cli, fleet):
        patch = {"op": "replace", "path": "/data/none", "value": "plain text"}
        result = cli("render", "-f", fleet(secret(), override(patch, kind="Secret", name="keys")))
        assert result.exit_code == 1
        assert "(hidden)" in result.stderr
        assert "plain text" not in result.output

    @pytest.mark.parametrize("member", ["finalizers", "ownerReferences", "generateName"])
    def test_a_value_elsewhere_in_a_secret_is_hidden(self, cli, fleet, member):
        value = ["plain text"] if member == "finalizers" else "plain text"
        patch = {"op": "add", "path": f"/metadata/{member}", "value": value}
        folder = fleet(secret(), override(patch, kind="Secret", name="keys"))
        assert "plain text" not in cli("render", "-f", folder, "-o", "diff").output

    def test_a_variable_that_fails_does_not_show_its_value(self, cli, fleet):
        patch = {"op": "replace", "path": "/data/password", "value": "${MEMBER-CLUSTER-LABEL-KEY-plain-text}"}
        result = cli("render", "-f", fleet(secret(), override(patch, kind="Secret", name="keys")))
        assert "a variable in the value cannot be replaced" in result.stderr
        assert "plain-text" not in result.output

    def test_a_folder_has_no_secrets(self, cli, fleet, tmp_path):
        out = tmp_path / "out"
        result = cli("render", "-f", fleet(secret(), config_map(a="1")), "-o", f"dir={out}")
        assert result.exit_code == 0
        assert "note: not written, because values of Secrets are hidden: 2 objects" in result.stderr
        assert not list(out.rglob("*keys*"))
        assert list(out.rglob("*rates*"))


class TestOutputFolder:
    """The output of a run is no input of the next one."""

    @pytest.mark.parametrize("place", ["out", "a/out", "."])
    def test_a_folder_that_the_next_run_would_read_is_refused(self, cli, fleet, place):
        folder = fleet(config_map(a="1"))
        result = cli("render", "-f", folder, "-o", f"dir={folder / place}")
        assert result.exit_code == 1
        assert f"is in {folder}, so that the next run would read it" in result.stderr
        assert [path.name for path in folder.iterdir()] == ["fleet.yaml"]

    @pytest.mark.parametrize(
        ("place", "words"),
        [
            pytest.param("out", ["--ignore", "out"], id="ignored"),
            pytest.param("a/out", ["--ignore", "a"], id="in-an-ignored-folder"),
            pytest.param(".out", [], id="hidden"),
            pytest.param("../out", [], id="next-to-it"),
        ],
    )
    def test_a_folder_that_the_next_run_does_not_read_may_be_written_twice(self, cli, fleet, place, words):
        folder = fleet(config_map(a="1"))
        for _ in range(2):
            result = cli("render", "-f", folder, *words, "-o", f"dir={folder / place}")
            assert result.exit_code == 0, result.stderr

    def test_nothing_is_written_if_objects_of_a_cluster_cannot_be_made(self, cli, fleet, tmp_path):
        out = tmp_path / "out"
        cli("render", "-f", fleet(config_map(a="1")), "-o", f"dir={out}")
        before = {path: path.read_bytes() for path in out.rglob("*.yaml")}
        patch = {"op": "replace", "path": "/data/none", "value": "2"}
        changed = fleet(config_map(a="2"), override(patch, labels={"sea": "north"}))
        result = cli("render", "-f", changed, "-o", f"dir={out}")
        assert result.exit_code == 1
        assert "error: crp/web on dover: " in result.stderr
        assert {path: path.read_bytes() for path in out.rglob("*.yaml")} == before

    @pytest.mark.parametrize("words", [["--cluster", "genoa"], ["--placement", "web"], []])
    def test_only_a_complete_run_removes_other_files_of_earlier_runs(self, cli, fleet, tmp_path, words):
        out = tmp_path / "out"
        cli("render", "-f", fleet(config_map("old", a="1")), "-o", f"dir={out}")
        result = cli("render", "-f", fleet(config_map("new", a="1")), *words, "-o", f"dir={out}")
        assert result.exit_code == 0, result.stderr
        assert (out / "genoa" / "configmap_shop_new.yaml").exists()
        assert [(out / name / "configmap_shop_old.yaml").exists() for name in ("dover", "genoa")] == [bool(words)] * 2


class TestProblems:
    """Mistakes, and objects that cannot be made."""

    def test_an_override_that_fails_is_an_error_and_the_rest_is_shown(self, cli, fleet):
        patch = {"op": "replace", "path": "/data/none", "value": "2"}
        folder = fleet(config_map(a="1"), override(patch, labels={"sea": "north"}))
        result = cli("render", "-f", folder)
        assert result.exit_code == 1
        assert "error: crp/web on dover: ResourceOverride shop/zone" in result.stderr
        assert "path '/data/none' does not exist" in result.stderr
        assert "# genoa: crp/web" in result.stdout
        assert "# dover: crp/web" not in result.stdout

    @pytest.mark.parametrize(
        ("words", "mistake"),
        [
            pytest.param(
                ["--cluster", "dove"],
                '--cluster dove: there is no member cluster "dove". The fleet: dover, genoa',
                id="cluster",
            ),
            pytest.param(
                ["--placement", "crp/none"],
                '--placement crp/none: there is no ClusterResourcePlacement "none". Known: web',
                id="placement",
            ),
            pytest.param(["--placement", "pod/web"], "'pod/web' is not a placement: expected NAME", id="reference"),
            pytest.param(
                ["-o", "table"], "'table' is not one of 'yaml', 'json', 'diff', 'markdown', 'dir=FOLDER'", id="format"
            ),
            pytest.param(["-o", "dir="], "'dir=' is not one of", id="no-folder"),
            pytest.param(
                ["--base", "x.yaml"], "--base cannot be used with -o yaml: use diff, markdown or json", id="base"
            ),
            pytest.param(["--overwrite"], "--overwrite requires -o dir=FOLDER", id="overwrite"),
            pytest.param(["--on", "x", "--hub"], "--on cannot be used with a running hub", id="two-hubs"),
        ],
    )
    def test_a_wrong_call_names_the_mistake(self, cli, fleet, words, mistake):
        result = cli("render", "-f", fleet(config_map(a="1")), *words)
        assert result.exit_code == 1
        assert mistake in result.stderr
        assert result.stdout == ""

    def test_nothing_to_render(self, cli):
        assert "specify what to render: -f FILE, --on FILE or --hub" in cli("render").stderr

    def test_a_refused_placement_is_an_error(self, cli, fleet):
        broken = placement("broken", placementType="PickN")
        result = cli("render", "-f", fleet(broken))
        assert result.exit_code == 1
        assert "spec.policy.numberOfClusters" in result.stderr

    @pytest.mark.parametrize("words", [(), ("--base",)], ids=["rendered", "base"])
    def test_a_refused_override_is_an_error(self, cli, fleet, words):
        patch = {"op": "replace", "path": "/metadata/name", "value": "other"}
        broken = fleet(config_map(a="1"), override(patch))
        files = [*words, broken, "-o", "diff", "-f", fleet(name="new")] if words else ["-f", broken]
        for command in ("render", "plan")[: 1 if words else 2]:
            result = cli(command, *files)
            assert result.exit_code == 1
            assert "spec.policy.overrideRules[0].jsonPatchOverrides[0].path" in result.stderr

    def test_an_invalid_selection_is_an_error(self, cli, fleet):
        document = placement("nets")
        document["spec"]["resourceSelectors"] = [
            {"group": "example.com", "version": "v1", "kind": "Network", "name": "a"}
        ]
        result = cli("render", "-f", fleet(document))
        assert result.exit_code == 1
        assert "error: crp/nets: the hub serves no Network of group 'example.com' in version 'v1'" in result.stderr


def test_a_dump_with_a_change_is_compared_with_the_snapshots_of_its_clusters(cli, tmp_path):
    """The objects of the dump that are not given again count as they are in the latest resource snapshot."""
    kind = {"apiVersion": "placement.kubernetes-fleet.io/v1"}
    labels = {"kubernetes-fleet.io/parent-CRP": "web", "kubernetes-fleet.io/resource-index": "0"}
    dump = write(
        tmp_path / "dump.yaml",
        member("dover"),
        placement(),
        {
            **kind,
            "kind": "ClusterResourceSnapshot",
            "metadata": {
                "name": "web-0-snapshot",
                "labels": labels | {"kubernetes-fleet.io/is-latest-snapshot": "true"},
                "annotations": {
                    "kubernetes-fleet.io/resource-hash": "x",
                    "kubernetes-fleet.io/number-of-resource-snapshots": "1",
                },
            },
            "spec": {"selectedResources": [NAMESPACE, {**config_map(a="1"), "metadata": PLACED}]},
        },
        binding("web-dover", "web", "dover"),
    )
    change = write(tmp_path / "change.yaml", config_map(a="2"))
    result = cli("render", "--on", dump, "-f", change, "-o", "diff")
    assert result.exit_code == 2, result.stderr
    assert [line for line in result.stdout.splitlines() if line[0] in "+-"] == [
        "--- live/ConfigMap/shop/rates",
        "+++ rendered/ConfigMap/shop/rates",
        "-  a: '1'",
        "+  a: '2'",
    ]
    assert cli("render", "--on", dump, "-o", "diff").exit_code == 0


def test_the_example_fleet_is_rendered(cli, tmp_path):
    result = cli("render", "-f", ROOT / "examples" / "fleet", "-o", f"dir={tmp_path / 'out'}")
    assert result.exit_code == 0, result.stderr
    for path in (tmp_path / "out").rglob("*.yaml"):
        assert yaml.safe_load(path.read_text(encoding="utf-8"))["kind"].lower() in path.name


class TestRepository:
    """Files without snapshots are the hub: ``plan`` and ``render`` compare a change with the same state."""

    ASSUMED = "assumed to be rolled out, as the hub has no resource snapshots of them: crp/web"

    @pytest.mark.parametrize(
        "others",
        [
            pytest.param([override(PATCH)], id="override"),
            pytest.param([binding(f"web-{name}", "web", name) for name in ("dover", "genoa")], id="bindings"),
        ],
    )
    def test_a_changed_object_is_a_change_of_that_object_only(self, cli, fleet, tmp_path, others):
        there = fleet(config_map(a="1"), *others)
        file = write(tmp_path / "change.yaml", config_map(a="2"))
        planned = cli("plan", "--on", there, "-f", file)
        assert planned.exit_code == 2, planned.stderr
        assert f"note: {self.ASSUMED}" in planned.stderr
        assert "update dover" in planned.stdout
        shown = cli("render", "--on", there, "-f", file, "-o", "diff")
        assert (shown.exit_code, f"note: {self.ASSUMED}" in shown.stderr) == (2, True)
        clusters = [line for line in shown.stdout.splitlines() if line.startswith("# ")]
        changed = {line for line in shown.stdout.splitlines() if line[0] in "+-" and line[:3] not in ("---", "+++")}
        assert clusters[0].startswith("# crp/web on dover")
        assert changed == {"-  a: '1'", "+  a: '2'"}

    def test_a_changed_override_is_a_change_of_the_objects_that_it_selects(self, cli, fleet, tmp_path):
        there = fleet(config_map(a="1"), override(PATCH))
        file = write(tmp_path / "change.yaml", override({**PATCH, "value": "here"}))
        planned = cli("plan", "--on", there, "-f", file)
        assert (planned.exit_code, "update dover" in planned.stdout) == (2, True), planned.stderr
        shown = cli("render", "--on", there, "-f", file, "-o", "diff").stdout.splitlines()
        assert [line for line in shown if line[:4] in ("-  a", "+  a")][:2] == ["-  at: dover", "+  at: here"]

    def test_the_same_object_is_no_change(self, cli, fleet, tmp_path):
        there, file = fleet(config_map(a="1")), write(tmp_path / "same.yaml", config_map(a="1"))
        assert cli("plan", "--on", there, "-f", file).exit_code == 0
        assert cli("render", "--on", there, "-f", file, "-o", "diff").exit_code == 0

    def test_the_files_alone_are_new(self, cli, fleet):
        there = fleet(config_map(a="1"))
        assert "+dover" in cli("plan", "-f", there).stdout
        assert "+++ rendered/ConfigMap/shop/rates" in cli("render", "-f", there, "-o", "diff").stdout

    def test_other_selectors_may_select_more_than_is_known(self, cli, fleet, tmp_path):
        document = placement()
        (selector,) = document["spec"]["resourceSelectors"]
        document["spec"]["resourceSelectors"] = [selector, {**selector, "name": "till"}]
        there, file = fleet(config_map(a="1")), write(tmp_path / "change.yaml", document)
        assert cli("plan", "--on", there, "-f", file).exit_code == 2
        shown = cli("render", "--on", there, "-f", file, "-o", "diff")
        assert "note: crp/web: its selectors change, and may select objects that this plan cannot see" in shown.stderr
