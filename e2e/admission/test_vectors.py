"""Every admission vector again, through a real kube-apiserver with our definitions and both webhook configurations.

The stored object of a line may be one that no API server lets in today, so it is written into etcd. Then the write of
the line is sent as a dry run, which goes through the whole chain: mutating hook, defaults, schema, CEL, validating
hook.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import StartService, wait_served
from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.service import Service
from e2e.controlplane.stored import kind_of, storage_key, with_server_fields
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Kind
from webhook.kube.client.paths import path_of

VECTORS = Path(__file__).parents[2] / "tests" / "vectors"
FILES = ("admission", "admission-extra", "nodepool_admission", "admission-stateful")
SETTINGS = {
    "networkingAgents": "networking_agents",
    "blockWorkloads": "block_workloads",
    "blockPDBs": "block_pod_disruption_budgets",
    "guardRail": "guard_rail",
    "denyModifyMemberClusterLabels": "deny_member_label_changes",
    "allowedUsers": "allowed_users",
}
OURSELVES = {
    "username": "system:serviceaccount:harbormaster-system:harbormaster-reconcile",
    "groups": ["system:serviceaccounts", "system:authenticated"],
}
"""Who writes where a line names nobody: the guard rails and X-50 do not hold for our own controller."""
REFUSALS = {400, 403, 409, 422}


def read_lines() -> list[JsonObject]:
    """Return all lines, those with the same switches together."""
    texts = [text for name in FILES for text in (VECTORS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    return sorted(map(json.loads, texts), key=lambda line: json.dumps(line.get("config") or {}, sort_keys=True))


def all_lines() -> list[Any]:
    """Return all lines as parameters; the core has one line per kind and verdict, among those without switches."""
    lines = read_lines()
    core: dict[tuple[str, str], str] = {}
    for line in lines:
        if not line.get("config"):
            core.setdefault(((line["object"] or line["old"])["kind"], line["want"]), line["id"])
    core_ids = set(core.values())
    return [
        pytest.param(line, id=line["id"], marks=pytest.mark.core if line["id"] in core_ids else ()) for line in lines
    ]


class Asked:
    """The replicas that the hub asks, one for each set of switches; our own identity is judged too."""

    def __init__(self, hub: Cluster, start_service: StartService) -> None:
        self._hub, self._start = hub, start_service
        self.replicas: dict[str, Service] = {}
        self._present = ""

    def switch(self, config: JsonObject) -> None:
        """Have the hub ask a replica with the switches of a line."""
        key = json.dumps(config, sort_keys=True)
        if key not in self.replicas:
            given = {SETTINGS[name]: value for name, value in config.items()}
            given["allowed_users"] = ",".join(given.get("allowed_users", ()))
            given["protect_works"] = bool(config.get("guardRail"))  # the line's one switch for G-04 to G-11
            self.replicas[key] = self._start(self._hub, **given)
        if self._present != key:
            self.replicas[key].register(service_account="somebody-else")
            self._present = key

    @contextmanager
    def hearing(self, kinds: Iterable[Kind]) -> Iterator[None]:
        """Let objects be written or deleted, one for each of *kinds*, and wait until every replica has heard of it.

        Kinds that the hub does not serve or a replica does not watch are not waited for.
        """
        written = Counter(kind.resource for kind in kinds if serves(self._hub, kind))
        expected = [
            (replica, resource, heard(replica, resource) + count)
            for replica in self.replicas.values()
            for resource, count in written.items()
            if replica.metric(f'harbormaster_cache_synced{{resource="{resource}"}}')
        ]
        yield
        for replica, resource, count in expected:
            wait_until(
                f"{replica.url} hears of {resource}",
                lambda replica=replica, resource=resource, count=count: (
                    "" if heard(replica, resource) >= count else f"{heard(replica, resource)} of {count} changes"
                ),
                pause=0.01,
            )


def serves(hub: Cluster, kind: Kind) -> bool:
    """Whether anybody can be told of the objects of a kind."""
    try:
        hub.request("GET", f"{path_of(kind)}?limit=1")
    except ApiError as error:
        assert error.code == 404, str(error)
        return False
    return True


def heard(replica: Service, resource: str) -> float:
    """How many changes of a kind the hub has sent to a replica."""
    return replica.metric(f'harbormaster_watch_events_total{{resource="{resource}"}}')


@pytest.fixture(scope="module")
def asked(bare_hub: Cluster, start_service: StartService) -> Asked:
    return Asked(bare_hub, start_service)


@pytest.mark.parametrize("line", all_lines())
def test_the_api_server_gives_the_verdict_of_the_line(line, asked, bare_hub):
    asked.switch(line.get("config") or {})
    user = {"username": OURSELVES["username"], "groups": [*OURSELVES["groups"], "writers"]}
    if line.get("user"):
        user = {"username": line["user"]["username"], "groups": [*line["user"]["groups"], "writers"]}
    with stored(bare_hub, line, asked):
        said, why = verdict(bare_hub, line, user)
    assert said == line["want"], why


def verdict(hub: Cluster, line: JsonObject, user: JsonObject) -> tuple[str, str]:
    """Send the write of a line: "allow" or "deny", and what was said."""
    document = line["object"] or line["old"]
    kind, path = place(document)
    operation = line["operation"]
    body: JsonObject | None = document
    if operation == "UPDATE":
        now, _ = hub.request("GET", f"{path}/{document['metadata']['name']}")
        body = {**document, "metadata": {**document["metadata"], "resourceVersion": now["metadata"]["resourceVersion"]}}
    method = {"CREATE": "POST", "UPDATE": "PUT", "DELETE": "DELETE"}[operation]
    if operation != "CREATE":
        path += f"/{document['metadata']['name']}"
    try:
        answer, warnings = hub.request(
            method, f"{path}?dryRun=All", body if operation != "DELETE" else None, acting_as=user
        )
    except ApiError as error:
        if operation == "CREATE" and error.status.get("reason") == "AlreadyExists":
            return "allow", "comes after admission"  # a line makes a definition that the hub has
        assert error.code in REFUSALS, f"{kind}: {error}"
        assert error.code != 409 or "denied the request" in str(error), str(error)
        return "deny", str(error)
    return "allow", f"{warnings} {json.dumps(answer)[:500]}"


@contextmanager
def stored(hub: Cluster, line: JsonObject, asked: Asked) -> Iterator[None]:
    """Put what a line takes for granted into the cluster: namespaces, definitions, other objects, the old object.

    The replicas have heard of all of it, and afterwards of its end: else they would allow what they do not know.
    """
    existing = list(line.get("existing") or ())
    definitions = [document for document in existing if document["kind"] == CUSTOM_RESOURCE_DEFINITION.kind]
    others = [document for document in existing if document["kind"] != CUSTOM_RESOURCE_DEFINITION.kind]
    subject = line["object"] or line["old"]
    spaces = {document["metadata"].get("namespace") for document in [*others, subject]} - {None, ""}
    for namespace in sorted(spaces - namespaces(hub)):
        with asked.hearing([NAMESPACE]):
            make_namespace(hub, namespace)
    for definition in definitions:
        spec = definition["spec"]
        names, version = spec["names"], spec["versions"][0]["name"]
        kind = Kind(spec["group"], (version,), names["kind"], names["plural"], spec["scope"] == "Namespaced")
        with asked.hearing([CUSTOM_RESOURCE_DEFINITION]):
            hub.kubectl("apply", "--server-side", "-f", "-", given=definition)
            wait_served(hub, kind)
    if line["old"] is not None:
        others.append(line["old"])
    keys = {storage_key(hub, document): document for document in others}
    with asked.hearing(map(kind_of, others)):
        for document in others:
            hub.etcd.put(storage_key(hub, document), with_server_fields(document))
    try:
        yield
    finally:
        with asked.hearing(map(kind_of, keys.values())):
            for key in keys:
                hub.etcd.delete(key)
        for definition in definitions:
            with asked.hearing([CUSTOM_RESOURCE_DEFINITION]):
                hub.kubectl("delete", "crd", definition["metadata"]["name"])


def namespaces(hub: Cluster) -> set[str]:
    return {item["metadata"]["name"] for item in hub.request("GET", "/api/v1/namespaces")[0]["items"]}


def make_namespace(hub: Cluster, name: str) -> None:
    """Make a namespace with the ServiceAccount that pods run as by default."""
    for path, kind, known in (
        ("/api/v1/namespaces", "Namespace", name),
        (f"/api/v1/namespaces/{name}/serviceaccounts", "ServiceAccount", "default"),
    ):
        try:
            hub.request("POST", path, {"apiVersion": "v1", "kind": kind, "metadata": {"name": known}})
        except ApiError as error:
            assert error.status["reason"] == "AlreadyExists", str(error)


def place(document: JsonObject) -> tuple[Kind, str]:
    """The path of the kind, in the version that the line speaks."""
    kind = kind_of(document)
    start = "/apis" if kind.group else "/api"
    namespace = document["metadata"].get("namespace")
    where = f"/namespaces/{namespace}" if kind.namespaced and namespace else ""
    return kind, f"{start}/{document['apiVersion']}{where}/{kind.plural}"
