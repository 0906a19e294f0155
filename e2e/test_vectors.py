"""Every admission vector again, through a real kube-apiserver with our definitions and both webhook configurations.

The stored object of a line may be one that no API server lets in today, so it is written into etcd. Then the write of
the line is sent as a dry run, which goes through the whole chain: mutating hook, defaults, schema, CEL, validating
hook.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import StartService, wait_served
from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.service import Service
from e2e.controlplane.stored import kind_of, storage_key, with_server_fields
from scorer.api.kinds import Kind

VECTORS = Path(__file__).parents[1] / "tests" / "vectors"
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
SECONDS_TO_KNOW = 10
"""How long a replica may take to see the other objects of a line."""


def lines(name: str) -> Iterator[Any]:
    for text in (VECTORS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        yield pytest.param(line, id=line["id"])


def all_lines() -> list[Any]:
    """All lines, those with the same switches together."""
    found = [param for name in FILES for param in lines(name)]
    return sorted(found, key=lambda param: json.dumps(param.values[0].get("config") or {}, sort_keys=True))


@pytest.fixture(scope="module")
def asking(bare_hub: Cluster, start_service: StartService):
    """Has the hub ask a replica with the switches of a line; our own identity is judged too."""
    replicas: dict[str, Service] = {}
    present: list[str] = []

    def ask(config: JsonObject) -> Cluster:
        key = json.dumps(config, sort_keys=True)
        if key not in replicas:
            given = {SETTINGS[name]: value for name, value in config.items()}
            given["allowed_users"] = ",".join(given.get("allowed_users", ()))
            given["protect_works"] = bool(config.get("guardRail"))  # the line's one switch for G-04 to G-11
            replicas[key] = start_service(**given)
        if present != [key]:
            replicas[key].register(service_account="somebody-else")
            present[:] = [key]
        return bare_hub

    return ask


@pytest.mark.parametrize("line", all_lines())
def test_the_api_server_gives_the_verdict_of_the_line(line, asking):
    hub = asking(line.get("config") or {})
    user = {"username": OURSELVES["username"], "groups": [*OURSELVES["groups"], "writers"]}
    if line.get("user"):
        user = {"username": line["user"]["username"], "groups": [*line["user"]["groups"], "writers"]}
    with stored(hub, line):
        end = time.monotonic() + (SECONDS_TO_KNOW if line.get("existing") else 0)
        while True:
            said, why = verdict(hub, line, user)
            if said == line["want"] or time.monotonic() > end:
                break
            time.sleep(0.2)
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
def stored(hub: Cluster, line: JsonObject) -> Iterator[None]:
    """Put what a line takes for granted into the cluster: namespaces, definitions, other objects, the old object."""
    existing = list(line.get("existing") or ())
    definitions = [document for document in existing if document["kind"] == "CustomResourceDefinition"]
    others = [document for document in existing if document["kind"] != "CustomResourceDefinition"]
    subject = line["object"] or line["old"]
    for document in [*others, subject]:
        if namespace := document["metadata"].get("namespace"):
            make_namespace(hub, namespace)
    for definition in definitions:
        hub.kubectl("apply", "--server-side", "-f", "-", given=definition)
        spec = definition["spec"]
        names, version = spec["names"], spec["versions"][0]["name"]
        wait_served(hub, Kind(spec["group"], (version,), names["kind"], names["plural"], spec["scope"] == "Namespaced"))
    keys = []
    if line["old"] is not None:
        others.append(line["old"])
    for document in others:
        keys.append(storage_key(hub, document))
        hub.etcd.put(keys[-1], with_server_fields(document))
    try:
        yield
    finally:
        for key in keys:
            hub.etcd.delete(key)
        for definition in definitions:
            hub.kubectl("delete", "crd", definition["metadata"]["name"])


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
