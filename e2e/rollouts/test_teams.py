"""A team with exactly the Role of docs/teams.md, and one that may read more, against what the platform places.

Rights are enforced. The objects are those that the page shows.
"""

from collections.abc import Iterator, Sequence

import pytest
import yaml

from e2e.controlplane.cluster import ADMIN, ApiError, Cluster, JsonObject
from e2e.fleet.bed import MEMBERS, Fleet, example_member
from e2e.fleet.objects import DEPLOYMENT, kind_of, labels_of, selects
from e2e.fleet.scene import Scene
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import KINDS, NAMESPACED_OVERRIDE, NAMESPACED_OVERRIDE_SNAPSHOT, PLACEMENT, RESOURCE_PLACEMENT
from scorer.api.names import IGNORE_RESOURCE_OVERRIDES
from scorer.api.unstructured.documents import spec_of
from tests.docs.pages import DOCS, manifests_of
from webhook.kube.client.paths import path_of

PAGE = DOCS / "teams.md"
HOME = "kiosk"
TEAM: JsonObject = {"username": "tina", "groups": ["team-kiosk"]}
READERS: JsonObject = {"username": "rita", "groups": ["readers-of-kiosk"]}
QUOTA, POLICY = KINDS["", "ResourceQuota"], KINDS["networking.k8s.io", "NetworkPolicy"]
ROLES, ROLE_BINDINGS = (KINDS["rbac.authorization.k8s.io", kind] for kind in ("Role", "RoleBinding"))
PRODUCTION = tuple(name for name in MEMBERS if labels_of(example_member(name)).get("env") == "prod")
MACHINE = "platform-agent"
"""A Deployment of the platform in the namespace of the team."""


def documents() -> list[JsonObject]:
    """Return the manifests of the page, in their order."""
    return [document for block in manifests_of(PAGE) for document in yaml.safe_load_all(block)]


def deployment(name: str) -> JsonObject:
    labels = {"app": name}
    container = {"name": "main", "image": "example.com/good:1", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": HOME},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


def network_policy() -> JsonObject:
    metadata = {"name": "deny-all", "namespace": HOME}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata,
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"]},
    }


def readers() -> list[JsonObject]:
    """Return the rights of users who may write overrides and placements, and only read all that these concern."""
    fleet = "placement.kubernetes-fleet.io"
    metadata = {"name": "reads", "namespace": HOME}
    rules = [
        {"apiGroups": [fleet], "resources": ["resourceoverrides", "resourceplacements"], "verbs": ["*"]},
        {"apiGroups": [fleet], "resources": ["resourceenvelopes"], "verbs": ["*"]},
        {"apiGroups": ["", "apps", "networking.k8s.io"], "resources": ["*"], "verbs": ["get", "list"]},
    ]
    subject = {"apiGroup": ROLES.group, "kind": "Group", "name": READERS["groups"][0]}
    return [
        {"apiVersion": ROLES.api_version, "kind": ROLES.kind, "metadata": metadata, "rules": rules},
        {
            "apiVersion": ROLES.api_version,
            "kind": ROLE_BINDINGS.kind,
            "metadata": metadata,
            "roleRef": {"apiGroup": ROLES.group, "kind": ROLES.kind, "name": "reads"},
            "subjects": [subject],
        },
    ]


@pytest.fixture(scope="module")
def strict(fleet: Fleet, start_service) -> Cluster:
    """The hub of the fleet, with rights enforced."""
    start_service(fleet.hub, placement_authorization="Enforce").register()
    return fleet.hub


@pytest.fixture
def platform(strict: Cluster, scene: Scene, fleet: Fleet) -> Iterator[Cluster]:
    """The hub with what the page has the platform do, which has reached the members."""
    shown = [document for document in documents() if document["kind"] != "ResourcePlacement"]
    own = next(document for document in shown if document["kind"] == "ClusterResourcePlacement")
    terms = spec_of(own)["resourceSelectors"]
    terms += [selects(POLICY, "deny-all"), selects(DEPLOYMENT, MACHINE)]
    rest = [document for document in shown if document is not own]
    scene.put(*rest, network_policy(), deployment(MACHINE), *readers(), own)
    wait_until("what limits the team is on the members", lambda: missing(fleet, "limits"))
    yield strict
    for item in fleet.on_hub.all(NAMESPACED_OVERRIDE, HOME):
        fleet.on_hub.delete(NAMESPACED_OVERRIDE, item["metadata"]["name"], HOME)


def missing(fleet: Fleet, quota: str) -> str:
    lacking = [name for name in PRODUCTION if fleet.clusters[name].find(QUOTA, quota, HOME) is None]
    return f"{quota} is not on {lacking}" if lacking else ""


def override(name: str, target: JsonObject, *rules: JsonObject) -> JsonObject:
    return {
        "apiVersion": NAMESPACED_OVERRIDE.api_version,
        "kind": NAMESPACED_OVERRIDE.kind,
        "metadata": {"name": name, "namespace": HOME},
        "spec": {
            "placement": {"name": "namespace-kiosk"},
            "resourceSelectors": [target],
            "policy": {"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []}, **rule} for rule in rules]},
        },
    }


DELETE: JsonObject = {"overrideType": "Delete"}
POD = "/spec/template/spec"


def patching(path: str, value: object) -> JsonObject:
    return {"jsonPatchOverrides": [{"op": "add", "path": path, "value": value}]}


def write(hub: Cluster, who: JsonObject, document: JsonObject, *, dry: bool = True) -> Sequence[str]:
    """Create an object as a user; returns the warnings."""
    path = path_of(kind_of(document), HOME) + ("?dryRun=All" if dry else "")
    return hub.request("POST", path, document, user=ADMIN, acting_as=who)[1]


IMAGE, NETWORK = patching(f"{POD}/containers/0/image", "example.com/bad:1"), patching(f"{POD}/hostNetwork", True)
ATTACKS = {
    "quota-left-out": (override("a", selects(QUOTA, "limits"), DELETE), ['delete resourcequotas "limits"']),
    "quota-raised": (
        override("a", selects(QUOTA, "limits"), patching("/spec/hard/pods", "1000")),
        ['update resourcequotas "limits"'],
    ),
    "policy-left-out": (
        override("a", selects(POLICY, "deny-all"), DELETE),
        ['delete networkpolicies.networking.k8s.io "deny-all"'],
    ),
    "both-kinds-of-rules": (
        override("a", selects(POLICY, "deny-all"), patching("/spec/ingress", [{}]), DELETE),
        [f'{verb} networkpolicies.networking.k8s.io "deny-all"' for verb in ("update", "delete")],
    ),
}
ON_WORKLOADS = {
    "image": (override("a", selects(DEPLOYMENT, MACHINE), IMAGE), [f'update deployments.apps "{MACHINE}"']),
    "host-network": (override("a", selects(DEPLOYMENT, MACHINE), NETWORK), [f'update deployments.apps "{MACHINE}"']),
    "workload-left-out": (
        override("a", selects(DEPLOYMENT, MACHINE), DELETE),
        [f'delete deployments.apps "{MACHINE}"'],
    ),
}


def test_whoever_may_only_read_rewrites_nothing(platform):
    for name, (document, lacking) in {**ATTACKS, **ON_WORKLOADS}.items():
        with pytest.raises(ApiError) as error:
            write(platform, READERS, document)
        assert error.value.code == 403, name
        for words in lacking:
            assert f'"rita" may not {words} in namespace "{HOME}" or place it' in str(error.value), name


def test_nor_does_a_team_with_the_rights_of_the_page(platform):
    for name, (document, lacking) in ATTACKS.items():
        with pytest.raises(ApiError) as error:
            write(platform, TEAM, document)
        assert error.value.code == 403, name
        assert f'"tina" may not {lacking[0]}' in str(error.value), name
    own = override("own", selects(DEPLOYMENT, "web"), IMAGE)
    assert not [warning for warning in write(platform, TEAM, own) if "may not" in warning]


def test_an_envelope_takes_the_right_to_create_what_it_holds(platform):
    for entry, lacking in (
        (deployment("web"), 'create deployments.apps "web"'),
        (network_policy(), 'create networkpolicies.networking.k8s.io "deny-all"'),
    ):
        envelope = {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ResourceEnvelope",
            "metadata": {"name": "e", "namespace": HOME},
            "data": {"a.yaml": entry},
        }
        with pytest.raises(ApiError, match="may not") as error:
            write(platform, READERS, envelope)
        assert lacking in str(error.value)


def test_an_override_of_an_earlier_release_keeps_its_effect_and_does_no_more(platform, fleet):
    """It was written when reading was enough: by an administrator here, whose rights are not reviewed."""
    targets = [selects(QUOTA, "limits"), selects(POLICY, "deny-all")]
    earlier = override("earlier", targets[0], DELETE)
    earlier["spec"]["resourceSelectors"] = targets
    fleet.on_hub.create(earlier)
    wait_until("the loop has written what it writes", lambda: "" if snapshots(fleet) else "no snapshot")
    path = path_of(NAMESPACED_OVERRIDE, HOME, "earlier")

    def change(stored: JsonObject, **spec: object) -> tuple[JsonObject, list[str]]:
        document = {**stored, "spec": {**stored["spec"], **spec}}
        return platform.request("PUT", f"{path}?dryRun=All", document, user=ADMIN, acting_as=READERS)

    def stored() -> JsonObject:
        return fleet.on_hub.get(NAMESPACED_OVERRIDE, "earlier", HOME)

    labelled = stored()
    labelled["metadata"]["labels"] = {"team": "kiosk"}
    assert not [warning for warning in change(labelled)[1] if "may not" in warning]
    assert any(
        'may not delete resourcequotas "limits"' in text for text in change(stored(), resourceSelectors=targets[:1])[1]
    )
    for spec in (
        {"resourceSelectors": [*targets, selects(DEPLOYMENT, MACHINE)]},
        {"policy": override("a", targets[0], DELETE, IMAGE)["spec"]["policy"]},
        {"policy": override("a", targets[0], IMAGE)["spec"]["policy"]},
    ):
        with pytest.raises(ApiError, match='"rita" may not'):
            change(stored(), **spec)

    rolled_out(fleet, "true", left_out=False)
    rolled_out(fleet, "false", left_out=True)
    rolled_out(fleet, "true", left_out=False)


MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
RULES = "/spec/policy/overrideRules"


def rewriting() -> Iterator[tuple[str, str, JsonObject | list[JsonObject], str]]:
    """Yield method, path, body and its type of writes by which an override could rewrite more."""
    new, more = (
        override("new", selects(POLICY, "deny-all"), patching("/spec/ingress", [{}])),
        selects(POLICY, "deny-all"),
    )
    other = {**new, "apiVersion": f"{NAMESPACED_OVERRIDE.group}/{NAMESPACED_OVERRIDE.versions[1]}"}
    least = {"clusterSelector": {"clusterSelectorTerms": []}, **DELETE}
    every = path_of(NAMESPACED_OVERRIDE, HOME)
    yield "POST", every, {**new, "metadata": {"generateName": "new-", "namespace": HOME}}, "application/json"
    yield (
        "POST",
        every.replace(*(f"/{version}/" for version in NAMESPACED_OVERRIDE.versions)),
        other,
        "application/json",
    )
    yield "PATCH", f"{every}/new?fieldManager=rita", new, APPLY
    earlier = path_of(NAMESPACED_OVERRIDE, HOME, "earlier")
    forced = override("earlier", selects(DEPLOYMENT, MACHINE), NETWORK)
    yield "PATCH", f"{earlier}?fieldManager=rita&force=true", forced, APPLY
    yield "PATCH", earlier, {"spec": {"policy": forced["spec"]["policy"]}}, MERGE
    yield "PATCH", earlier, {"spec": {"resourceSelectors": [more]}}, MERGE
    yield "PATCH", earlier, [{"op": "remove", "path": f"{RULES}/1"}], JSON_PATCH
    yield "PATCH", earlier, [{"op": "move", "from": f"{RULES}/0", "path": f"{RULES}/1"}], JSON_PATCH
    yield "PATCH", earlier, [{"op": "copy", "from": f"{RULES}/0", "path": f"{RULES}/-"}], JSON_PATCH
    yield "PATCH", earlier, [{"op": "replace", "path": f"{RULES}/1", "value": least}], JSON_PATCH
    yield "PATCH", earlier, [{"op": "remove", "path": f"{RULES}/1/clusterSelector"}], JSON_PATCH


def test_no_other_way_of_writing_an_override_takes_fewer_rights(platform, fleet):
    """The last of two rules that write an image has effect, and the first one is what the reader would like."""
    good = patching(f"{POD}/containers/0/image", "example.com/good:1")
    fleet.on_hub.create(override("earlier", selects(DEPLOYMENT, MACHINE), IMAGE, good))
    stored = fleet.on_hub.get(NAMESPACED_OVERRIDE, "earlier", HOME)
    for method, path, body, kind in rewriting():
        with pytest.raises(ApiError, match=r'"rita" may not (update|delete) (deployments|networkpolicies)') as error:
            platform.request(method, path, body, user=ADMIN, acting_as=READERS, content_type=kind)
        assert error.value.code == 403, (method, path, body)
    status = path_of(NAMESPACED_OVERRIDE, HOME, "earlier") + "/status"
    with pytest.raises(ApiError) as error:
        platform.request("PATCH", status, {"spec": {"policy": None}}, user=ADMIN, acting_as=READERS, content_type=MERGE)
    assert error.value.code in (403, 404)
    assert [each["spec"] for each in fleet.on_hub.all(NAMESPACED_OVERRIDE, HOME)] == [stored["spec"]]


def snapshots(fleet: Fleet) -> list[JsonObject]:
    return fleet.on_hub.all(NAMESPACED_OVERRIDE_SNAPSHOT, HOME)


def rolled_out(fleet: Fleet, ignores: str, *, left_out: bool) -> None:
    """Set the annotation of the placement, and wait until the override is in force on its members, or is not."""
    fleet.on_hub.patch(
        PLACEMENT, "namespace-kiosk", {"metadata": {"annotations": {IGNORE_RESOURCE_OVERRIDES: ignores}}}
    )

    def problem() -> str:
        found = {name: fleet.clusters[name].find(QUOTA, "limits", HOME) is None for name in PRODUCTION}
        return "" if set(found.values()) == {left_out} else f"quota left out: {found}, ignoring: {ignores}"

    wait_until("the overrides are applied or not", problem)


def test_the_quotas_of_the_page_hold_on_a_member(platform, fleet, scene):
    """No controller counts here: what is used is written by the test. The API server decides."""
    member = fleet.clusters[PRODUCTION[0]]
    wait_until("quotas are there", lambda: missing(fleet, "limits") or missing(fleet, "no-system-priority"))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": HOME}}
    scene.put(account, on=member)
    for quota in ("limits", "no-system-priority"):
        hard = member.get(QUOTA, quota, HOME)["spec"]["hard"]
        member.patch_status(QUOTA, quota, {"hard": hard, "used": dict.fromkeys(hard, "0")}, HOME)

    def pod(cpu: str = "1", **spec: object) -> JsonObject:
        limits = {"cpu": cpu, "memory": "1Gi", "ephemeral-storage": "1Gi"} if cpu else {}
        container = {"name": "main", "image": "example.com/good:1", "resources": {"limits": limits}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "web", "namespace": HOME},
            "spec": {"containers": [container], "automountServiceAccountToken": False, **spec},
        }

    def create(document: JsonObject) -> None:
        path = path_of(KINDS["", document["kind"]], HOME) + "?dryRun=All"
        member.cluster.request("POST", path, document)

    create(pod())
    for refused in (pod(""), pod("100"), pod(priorityClassName="system-cluster-critical"), pod(hostNetwork=True)):
        with pytest.raises(ApiError) as error:
            create(refused)
        assert error.value.code == 403, refused
    balancer = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    with pytest.raises(ApiError, match="exceeded quota"):
        create(
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": HOME}, "spec": balancer}
        )


def test_the_team_places_what_is_its_own(platform, fleet):
    """With the rights of the page, and without a warning about rights."""
    own = next(document for document in documents() if document["kind"] == "ResourcePlacement")
    service = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    made = (
        deployment("web"),
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": HOME}, "spec": service},
        own,
    )
    for document in made:
        assert not [warning for warning in write(platform, TEAM, document, dry=False) if "may not" in warning]

    def problem() -> str:
        there = [name for name in PRODUCTION if fleet.clusters[name].find(DEPLOYMENT, "web", HOME)]
        return "" if there else "it is nowhere"

    wait_until("the team's Deployment is placed", problem)
    fleet.on_hub.delete(RESOURCE_PLACEMENT, "web", HOME)
    wait_until("it goes", lambda: "still there" if fleet.on_hub.find(RESOURCE_PLACEMENT, "web", HOME) else "")


def test_the_page_shows_a_role_without_the_rights_that_limit_the_team():
    role = next(document for document in documents() if document["kind"] == "Role")
    allowed = {resource for rule in role["rules"] for resource in rule["resources"]}
    assert allowed.isdisjoint({"*", "resourcequotas", "limitranges", "networkpolicies", "resourceenvelopes"})
