"""What a change does to each cluster, shown on the files of a repository before it is merged, without a hub."""

import json

import pytest
import yaml

from tests.docs.pages import ROOT
from tests.webhook.cli.fleets import member, placement, write

FLEET = ROOT / "examples" / "fleet"
API = "placement.kubernetes-fleet.io"
EVERYWHERE = {"clusterSelectorTerms": []}
WEB = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "web"}
HOME = {"group": "", "version": "v1", "kind": "Namespace", "name": "kiosk"}


def made(api_version, kind, name, namespace="", **members):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **members}


def config_map(**data):
    return made("v1", "ConfigMap", "web", "kiosk", data=data)


def override(name="patch", *patches, selector=WEB, of="kiosk", clusters=EVERYWHERE, namespace="kiosk"):
    """Return an override. Without patches it deletes the object."""
    rule = {"clusterSelector": clusters, **({"jsonPatchOverrides": list(patches)} if patches else {})}
    rule |= {} if patches else {"overrideType": "Delete"}
    kind, selectors = ("ResourceOverride", "resourceSelectors")
    if not namespace:
        kind, selectors = ("ClusterResourceOverride", "clusterResourceSelectors")
    spec = {"placement": {"name": of}, selectors: [selector], "policy": {"overrideRules": [rule]}}
    return made(f"{API}/v1", kind, name, namespace, spec=spec)


def patch(path, value="2", op="replace"):
    return {"op": op, "path": path, "value": value}


def labelled(**labels):
    return {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": labels}}]}


def affinity(key, operator, *values):
    expressions = [{"key": key, "operator": operator, "values": list(values)}]
    terms = [{"labelSelector": {"matchExpressions": expressions}}]
    return {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}}


KIOSK = (
    made("v1", "Namespace", "kiosk"),
    config_map(a="1"),
    made(
        f"{API}/v1",
        "ClusterResourcePlacement",
        "kiosk",
        spec={
            "resourceSelectors": [HOME],
            "policy": {"placementType": "PickFixed", "clusterNames": ["bravelion", "busybee"]},
        },
    ),
)


@pytest.fixture
def on_fleet(cli, tmp_path):
    """Return a function that runs a command for a change to the example fleet with a kiosk on two clusters."""
    kiosk = write(tmp_path / "kiosk.yaml", *KIOSK)

    def run(command, *documents, stored=(), output=()):
        more = ["--on", write(tmp_path / "stored.yaml", *stored)] if stored else []
        change = write(tmp_path / "change.yaml", *documents)
        return cli(command, "--on", FLEET, "--on", kiosk, *more, "-f", change, *output)

    return run


class TestTheExampleFleet:
    """A folder of a repository has no bindings: everything in it counts as rolled out."""

    @pytest.mark.parametrize(
        ("stored", "change"),
        [
            pytest.param([], override("adds", patch("/data/b", op="add")), id="adds-a-field"),
            pytest.param([], override("removes"), id="removes-an-object"),
            pytest.param([override("old", patch("/data/a"))], override("old", patch("/data/a", "3")), id="changed"),
            pytest.param([], config_map(a="2"), id="new-content"),
        ],
    )
    def test_a_change_of_content_rolls_out_the_clusters_of_its_placement_only(self, on_fleet, stored, change, request):
        is_removal = request.node.callspec.id == "removes-an-object"
        removed = ["    removed without a confirmation: ConfigMap kiosk/web on bravelion busybee"] if is_removal else []
        result = on_fleet("plan", change, stored=stored)
        assert result.exit_code == 2
        assert result.stdout.splitlines()[1:] == [
            "crp/kiosk   PickFixed   2        2        busybee bravelion",
            "",
            "Rollout:",
            "  crp/kiosk",
            "    1. update bravelion",
            "    2. update busybee",
            *removed,
            "",
            "19 placements do not change.",
        ]

    def test_an_eviction_is_decided_for_the_clusters_that_the_placement_has(self, on_fleet):
        spec = {"placementName": "payments", "clusterName": "bravelion"}
        eviction = made(f"{API}/v1beta1", "ClusterResourcePlacementEviction", "payments-off-bravelion", spec=spec)
        result = on_fleet("plan", eviction)
        assert result.exit_code == 2
        assert "Warning" not in result.stderr
        assert "  crp/payments\n    evicted from bravelion, and placed there again" in result.stdout

    def test_what_is_there_already_changes_nothing(self, on_fleet):
        assert on_fleet("plan", *KIOSK).exit_code == 0
        rendered = on_fleet("render", *KIOSK, output=["-o", "diff", "--placement=crp/kiosk"])
        assert (rendered.exit_code, rendered.stdout) == (0, "")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            pytest.param(
                override("case", patch("/data/a"), selector={**WEB, "kind": "Configmap"}),
                'resourceSelectors[0].kind: "Configmap": the hub has no such kind; did you mean ConfigMap?',
                id="case-of-kind",
            ),
            pytest.param(
                override("none", patch("/data/a"), clusters=labelled(env="nonesuch")),
                "labelSelector: no cluster has env=nonesuch",
                id="no-cluster",
            ),
            pytest.param(
                override("shop", patch("/data/a"), of="shop"),
                'placement.name: "shop" places no ConfigMap web in kiosk; kiosk does',
                id="other-placement",
            ),
            pytest.param(
                override("v2", patch("/data/a"), selector={**WEB, "version": "v2"}),
                'resourceSelectors[0].version: "v2": the hub serves ConfigMap in v1',
                id="other-version",
            ),
            pytest.param(
                override("typo", patch("/data/a"), selector={**WEB, "name": "webb"}),
                'resourceSelectors[0].name: "webb": "kiosk" places no such ConfigMap in kiosk yet; nearest: web',
                id="typo-in-name",
            ),
        ],
    )
    def test_an_override_without_effect_is_a_warning_that_names_the_field(self, on_fleet, change, message):
        result = on_fleet("plan", change)
        assert (result.exit_code, result.stdout) == (0, "20 placements do not change.\n")
        assert message in result.stderr

    def test_a_member_of_files_has_the_label_with_its_name(self, on_fleet):
        """The loop sets it on every member of a hub. Without it, a plan on files did not exclude clusters."""
        everywhere = made(f"{API}/v1", "ClusterResourcePlacement", "everywhere", spec={"resourceSelectors": [HOME]})
        required = affinity("kubernetes-fleet.io/member-name", "NotIn", "bravelion")
        policy = {"placementType": "PickAll", "affinity": required}
        change = {**everywhere, "spec": {**everywhere["spec"], "policy": policy}}
        result = on_fleet("plan", change, stored=[everywhere], output=["-o", "json"])
        entry = next(item for item in json.loads(result.stdout)["placements"] if item["name"] == "everywhere")
        assert (entry["moves"]["gained"], entry["moves"]["lost"]) == ([], ["bravelion"])

    def test_an_override_for_a_wrong_version_does_not_keep_the_right_one_out(self, on_fleet):
        wrong = override("v2", patch("/data/a"), selector={**WEB, "version": "v2"})
        assert on_fleet("plan", override("right", patch("/data/a")), stored=[wrong]).exit_code == 2


def test_an_override_of_an_object_in_an_envelope_is_applied_to_that_object(cli, tmp_path):
    """A rule for the Deployment in an envelope was applied to the envelope, so the cluster kept the old number.

    Source: https://github.com/kubefleet-dev/kubefleet/issues/607
    """
    deployment = made("apps/v1", "Deployment", "web", "shop", spec={"replicas": 2})
    wrapped = made(f"{API}/v1beta1", "ResourceEnvelope", "web", "shop", data={"web.yaml": deployment})
    selector = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}
    change = override(
        "west",
        patch("/spec/replicas", 5),
        selector=selector,
        of="web",
        clusters=labelled(region="west"),
        namespace="shop",
    )
    hub = write(
        tmp_path / "hub.yaml",
        member("east", labels={"region": "east"}),
        member("west", labels={"region": "west"}),
        made("v1", "Namespace", "shop"),
        wrapped,
        placement(),
    )
    file = write(tmp_path / "change.yaml", change)
    rendered = cli("render", "--on", hub, "-f", file)
    assert rendered.exit_code == 0, rendered.stderr
    parts = (part.split("\n", 1) for part in rendered.stdout.split("---\n# ")[1:])
    replicas = {
        cluster: document["spec"]["replicas"]
        for cluster, document in ((head, yaml.safe_load(text)) for head, text in parts)
        if document["kind"] == "Deployment"
    }
    assert replicas == {"east: crp/web": 2, "west: crp/web": 5}
    planned = cli("plan", "--on", hub, "-f", file)
    assert planned.exit_code == 2
    assert "    1. update west\n" in planned.stdout


def test_the_final_manifest_of_each_cluster_is_shown_before_an_override_is_applied(on_fleet):
    """Users had to apply an override and to read the resulting objects on the clusters.

    Source: https://github.com/kubefleet-dev/kubefleet/issues/611
    """
    change = override("place", patch("/data/at", "${MEMBER-CLUSTER-NAME}", op="add"))
    result = on_fleet("render", change, output=["--placement", "crp/kiosk"])
    assert result.exit_code == 0, result.stderr
    documents = list(yaml.safe_load_all(result.stdout))
    maps = [document["data"] for document in documents if document["kind"] == "ConfigMap"]
    assert maps == [{"a": "1", "at": "bravelion"}, {"a": "1", "at": "busybee"}]


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        pytest.param(
            override("bad-path", patch("/data/nothing")),
            "ResourceOverride kiosk/bad-path (snapshot bad-path-0): spec.policy.overrideRules[0] on ConfigMap "
            "kiosk/web for cluster {}: jsonPatchOverrides[0] replace /data/nothing = \"2\": path '/data/nothing' "
            "does not exist",
            id="namespaced",
        ),
        pytest.param(
            override("label", patch("/metadata/labels/nope", "x"), selector=HOME, namespace=""),
            "ClusterResourceOverride label (snapshot label-0): spec.policy.overrideRules[0] on Namespace kiosk for "
            "cluster {}: jsonPatchOverrides[0] replace /metadata/labels/nope = \"x\": path '/metadata/labels/nope' "
            "does not exist",
            id="cluster-scoped",
        ),
    ],
)
def test_an_override_that_fails_is_named_with_cluster_object_and_path(on_fleet, change, failure):
    """A status should tell what to correct when an override cannot be applied.

    Source: https://github.com/kubefleet-dev/kubefleet/issues/662
    """
    result = on_fleet("plan", change)
    assert result.exit_code == 2
    for cluster in ("bravelion", "busybee"):
        assert f"    fails: {cluster}: {failure.format(cluster)}\n" in result.stdout
    comment = on_fleet("plan", change, output=["-o", "markdown"]).stdout
    assert "| `crp/kiosk` | PickFixed | 2 | 2 | `busybee` `bravelion` | fails on `bravelion` `busybee` |" in comment
    rendered = on_fleet("render", change, output=["-o", "diff", "--placement=crp/kiosk"])
    assert (rendered.exit_code, rendered.stdout) == (1, "")
    assert f"error: crp/kiosk on busybee: {failure.format('busybee')}\n" in rendered.stderr


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("https://github.com/kubefleet-dev/kubefleet/issues/771", id="a-selector-that-matches-nothing"),
        pytest.param("https://github.com/argoproj/argo-cd/issues/9256", id="a-warning-that-gitops-tools-drop"),
    ],
)
def test_a_warning_of_admission_is_in_the_comment_on_the_pull_request(on_fleet, source):
    """An override that matches nothing gave no signal, and Argo CD does not show warnings of admission.

    Source: kubefleet-dev/kubefleet#771 and argoproj/argo-cd#9256, as the parameters.
    """
    typo = override("typo", patch("/data/a"), selector={**WEB, "name": "webb"})
    result = on_fleet("plan", typo, output=["-o", "markdown"])
    assert result.exit_code == 0
    assert "<details><summary>1 warning</summary>" in result.stdout
    assert '.name: "webb": "kiosk" places no such ConfigMap in kiosk yet; nearest: web' in result.stdout


def test_a_comment_on_a_pull_request_has_the_rendered_difference_of_each_group_of_clusters(on_fleet):
    """Reviewers had to guess which manifests a changed value affects on which environments.

    Source: https://github.com/aws-samples/appmod-blueprints/issues/647
    """
    production = override("prod", patch("/data/a"), clusters=labelled(env="prod"))
    result = on_fleet("plan", config_map(a="3"), stored=[production], output=["-o", "markdown"])
    assert result.exit_code == 2
    assert "### 1 placement changes, 19 do not change" in result.stdout
    differences = result.stdout.split("```diff\n")[1:]
    assert len(differences) == 1, result.stdout
    lines = differences[0].splitlines()
    assert [line for line in lines if line.startswith(("# crp", "-  ", "+  "))] == [
        "# crp/kiosk on busybee",
        "-  a: '1'",
        "+  a: '3'",
    ]


def test_an_object_of_a_kind_that_only_the_hub_defines_is_part_of_the_change(cli, tmp_path):
    """Repositories of Flux have HelmReleases, whose definition is not beside them."""
    group, version = "helm.toolkit.fluxcd.io", "v2"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": group,
        "names": {"kind": "HelmRelease", "plural": "helmreleases"},
        "scope": "Namespaced",
        "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
    }
    definition = made("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"helmreleases.{group}", spec=spec)
    namespace = made("v1", "Namespace", "shop")
    release = made(f"{group}/{version}", "HelmRelease", "web", "shop", spec={"values": {"tag": "1"}})
    hub = write(tmp_path / "hub.yaml", member("dover"), definition, namespace, release, placement())
    change = write(tmp_path / "change.yaml", {**release, "spec": {"values": {"tag": "2"}}})
    assert cli("plan", "--on", hub, "-f", change).exit_code == 2
    rendered = cli("render", "--on", hub, "-f", change, "-o", "diff")
    assert rendered.exit_code == 2, rendered.stderr
    assert "+    tag: '2'" in rendered.stdout
