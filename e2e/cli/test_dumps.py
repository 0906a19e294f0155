"""A dump of a real hub, made and used in CI as ``docs/in-ci.md`` says, answers as the hub does.

The commands are read from the pages and typed in a shell. What a plan and a rendering predict is compared with what the
loop and the agents do afterwards.
"""

import re
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import pytest
import yaml

from e2e.controlplane.cluster import JsonObject
from e2e.fleet.bed import Fleet
from e2e.fleet.objects import (
    CONFIG_MAP,
    Objects,
    condition_of,
    make_config_map,
    make_placement,
    pick_fixed,
    pick_n,
    selects,
)
from e2e.fleet.processes import SYSTEM
from e2e.fleet.scene import Scene
from e2e.fleet.settled import assert_settled
from e2e.fleet.shell import Shell
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import BINDING, KINDS, NAMESPACE, PLACEMENT, RESOURCE_PLACEMENT, Kind
from scorer.api.names import CONFIRM_REMOVAL, PARENT_PLACEMENT
from tests.docs.pages import DOCS, read_page

PAGE: Final = DOCS / "in-ci.md"
FIXED: Final = ("bravelion", "jumpingcat")
SECRET: Final = KINDS["", "Secret"]
PASSWORD: Final = "correct horse"
DIGEST: Final = re.compile(r"(\w*Placement) (\S+) \(digest ([0-9a-f]{20})\)")


def command(page: Path, words: str) -> str:
    """Return the one command of a page, in a block or in a sentence, that contains *words*."""
    read = read_page(page)
    lines = {line.strip().removeprefix("$ ") for block in read.blocks for line in block.splitlines()}
    (found,) = {each for each in (*lines, *read.spans) if words in each}
    return found


PLAN: Final = command(PAGE, "plan --on fleet -f")
RENDER: Final = command(PAGE, "render --on fleet -f")
DELETE: Final = command(PAGE, "plan --on fleet --delete")
COMMENT: Final = command(PAGE, "plan --on dump.yaml -f deploy -o markdown")
PIPE: Final = command(DOCS / "asking-from-elsewhere.md", "kubectl get fleet -A -o yaml |")
DUMP: Final = command(PAGE, "kubectl get fleet")
FULL_DUMP: Final = command(PAGE, "kubectl get crd,fleet")
ROLE: Final = next(each for each in read_page(PAGE).blocks if "kind: ClusterRole\n" in each)
RBAC: Final = "rbac.authorization.k8s.io"
DUMPER: Final = "dumper"


def resource_placement() -> JsonObject:
    """Make the ResourcePlacement of the page, of one ConfigMap."""
    return {
        "apiVersion": RESOURCE_PLACEMENT.api_version,
        "kind": RESOURCE_PLACEMENT.kind,
        "metadata": {"name": "rates", "namespace": "shop"},
        "spec": {"resourceSelectors": [selects(CONFIG_MAP, "rates")], "policy": pick_fixed(*FIXED)},
    }


@pytest.fixture
def shell(fleet: Fleet, tmp_path: Path) -> Iterator[Shell]:
    """A checkout whose folder ``fleet`` has a dump of the hub with the placements of the page."""
    scene = Scene(fleet)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "login", "namespace": "payments"},
        "stringData": {"password": PASSWORD},
    }
    scene.home("payments", secret, a="1")
    scene.put(make_placement("payments", pick_n(2)))
    selector = selects(NAMESPACE, "shop", selectionScope="NamespaceOnly")
    scene.home("shop")
    scene.put(make_config_map("rates", "shop", a="1"))
    scene.put(make_placement("shop", pick_fixed(*FIXED), resourceSelectors=[selector]))
    wait_available(fleet, PLACEMENT, "shop")
    scene.put(resource_placement())
    wait_available(fleet, RESOURCE_PLACEMENT, "rates", "shop")
    wait_available(fleet, PLACEMENT, "payments")
    found = Shell(tmp_path, {"hub": fleet.hub})
    (tmp_path / "fleet").mkdir()
    found.type_in(DUMP)
    yield found
    scene.clear()
    assert_settled(fleet)


def wait_available(fleet: Fleet, kind: Kind, name: str, namespace: str = "") -> None:
    """Wait until all of a placement is available."""

    def problem() -> str:
        found = condition_of(fleet.on_hub.get(kind, name, namespace), f"{kind.kind}Available")
        return "" if found.get("status") == "True" else f"{found}; {fleet.last_words()}"

    wait_until(f"{name} is available", problem)


def picked(fleet: Fleet, name: str) -> set[str]:
    """Return the clusters of the bindings of a placement."""
    found = [each for each in fleet.on_hub.all(BINDING) if each["metadata"]["labels"].get(PARENT_PLACEMENT) == name]
    return {each["spec"]["targetCluster"] for each in found if each["spec"]["state"] == "Bound"}


def change(fleet: Fleet, shell: Shell) -> Path:
    """Write the changed manifests: one more cluster, and other content."""
    placement = fleet.on_hub.get(PLACEMENT, "payments")
    spec = {**placement["spec"], "policy": {**placement["spec"]["policy"], "numberOfClusters": 3}}
    documents = [
        {"apiVersion": PLACEMENT.api_version, "kind": PLACEMENT.kind, "metadata": {"name": "payments"}, "spec": spec},
        make_config_map("settings", "payments", a="2"),
    ]
    path = shell.folder / "changed.yaml"
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return path


def test_a_dump_predicts_what_its_hub_does(fleet: Fleet, shell: Shell) -> None:
    path = change(fleet, shell)
    (shell.folder / "payments.yaml").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    planned = shell.type_in(PLAN, code=2)
    assert planned == shell.type_in(PLAN.replace("--on fleet", "--context hub"), code=2)
    assert planned == shell.type_in(PIPE, code=2)
    rendered = shell.type_in(RENDER, code=2)
    assert rendered == shell.type_in(RENDER.replace("--on fleet", "--context hub"), code=2)
    (row,) = [line.split() for line in planned.splitlines() if line.startswith("crp/payments ")]
    (shell.folder / "deploy").mkdir()
    (shell.folder / "deploy" / "changed.yaml").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    shell.type_in("cp fleet/dump.yaml dump.yaml")
    shell.type_in(COMMENT)
    assert "`crp/payments`" in (shell.folder / "plan.md").read_text(encoding="utf-8")

    documents = yaml.safe_load_all(shell.type_in(RENDER.removesuffix(" -o diff")))
    (data,) = {each["data"]["a"] for each in documents if each["metadata"]["name"] == "settings"}
    shell.type_in(f"kubectl apply -f {path.name}")
    assert {word.strip("+") for word in row} >= set(fleet.members)
    wait_until("it is placed as planned", lambda: "" if picked(fleet, "payments") == set(fleet.members) else "not yet")
    for name, objects in fleet.clusters.items():
        wait_until(f"{name} has the rendered object", partial(not_rendered, objects, data))


def not_rendered(objects: Objects, data: str) -> str:
    """Return the ConfigMap of a member, when it has other data."""
    found = objects.find(CONFIG_MAP, "settings", "payments")
    return "" if found and found["data"] == {"a": data} else f"{found}"


def test_the_digests_of_a_plan_confirm_the_removal(fleet: Fleet, shell: Shell) -> None:
    until = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    planned = shell.type_in(DELETE, code=2)
    digests = {(kind, name): digest for kind, name, digest in DIGEST.findall(planned)}
    assert digests.keys() == {("ClusterResourcePlacement", "payments"), ("ResourcePlacement", "shop/rates")}, planned
    careful = fleet.add_reconciler("careful", removal_confirmation="Confirm")
    with fleet.other_reconcilers(careful):
        fleet.wait_leader("careful")
        for kind, name, namespace in ((RESOURCE_PLACEMENT, "rates", "shop"), (PLACEMENT, "payments", "")):
            digest = digests[kind.kind, f"{namespace}/{name}" if namespace else name]
            annotation = {CONFIRM_REMOVAL: f"{digest}@{until}"}
            fleet.on_hub.patch(kind, name, {"metadata": {"annotations": annotation}}, namespace)
            fleet.on_hub.delete(kind, name, namespace)

        def problem() -> str:
            content = ((CONFIG_MAP, "rates", "shop"), (NAMESPACE, "payments", ""))
            left = [
                f"{name}: {key}"
                for name, each in fleet.clusters.items()
                for kind, *key in content
                if each.find(kind, *key)
            ]
            return f"{left}; {fleet.last_words()}" if left else ""

        wait_until("the content is removed", problem)


def test_a_dump_has_the_values_of_secrets(shell: Shell) -> None:
    dump = (shell.folder / "fleet" / "dump.yaml").read_text(encoding="utf-8")
    assert b64encode(PASSWORD.encode()).decode() in dump


def test_a_kind_that_the_hub_lacks_is_an_error_with_its_definitions(shell: Shell) -> None:
    selector = {"group": "example.com", "version": "v1", "kind": "Boat", "labelSelector": {"matchLabels": {"a": "b"}}}
    placement = make_placement("boats", resourceSelectors=[selector])
    (shell.folder / "changed.yaml").write_text(yaml.safe_dump(placement), encoding="utf-8")
    shell.type_in(PLAN, code=2)
    shell.type_in(f"{FULL_DUMP} > fleet/dump.yaml")
    shell.type_in(PLAN, code=1)


@pytest.fixture
def dumper(fleet: Fleet, shell: Shell) -> Iterator[str]:
    """Options of kubectl for an account that has the role of the page, and none before that."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": DUMPER, "namespace": SYSTEM}}
    role = yaml.safe_load(ROLE)
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": DUMPER},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": DUMPER, "namespace": SYSTEM}],
    }
    scene = Scene(fleet)
    scene.put(account, binding)
    path = fleet.hub.write_kubeconfig(DUMPER, fleet.hub.token_of(SYSTEM, DUMPER), folder=shell.folder)
    yield f"--kubeconfig {path}"
    scene.clear()
    fleet.on_hub.delete(KINDS[RBAC, "ClusterRole"], role["metadata"]["name"])


def test_a_dump_takes_the_role_of_the_page(fleet: Fleet, shell: Shell, dumper: str) -> None:
    command_of_dumper = DUMP.replace("kubectl", f"kubectl {dumper}")
    role = yaml.safe_load(ROLE)
    rules = [{**role["rules"][0], "resources": ["memberclusters", "clusterresourceplacements", "resourceplacements"]}]
    fleet.on_hub.create({**role, "rules": rules})
    shell.type_in(command_of_dumper, code=1)
    fleet.on_hub.patch(KINDS[RBAC, "ClusterRole"], role["metadata"]["name"], {"rules": role["rules"]})

    def dumped(command: str) -> set[tuple[str, str, str]]:
        shell.type_in(command)
        return names_in((shell.folder / "fleet" / "dump.yaml").read_text(encoding="utf-8"))

    def problem() -> str:
        done = shell.run(command_of_dumper)
        return done.stderr if done.returncode else ""

    wait_until("the role is in effect", problem)
    # What an earlier test has left may disappear between the two dumps.
    wait_until("both dumps have the same objects", lambda: str(dumped(DUMP) ^ dumped(command_of_dumper) or ""))


def names_in(dump: str) -> set[tuple[str, str, str]]:
    """Return the objects of a dump."""
    items = yaml.load(dump, yaml.CSafeLoader)["items"]
    metadata = ((each["kind"], each["metadata"]) for each in items)
    return {(kind, each.get("namespace", ""), each["name"]) for kind, each in metadata}
