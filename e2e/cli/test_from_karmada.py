"""Applications that Karmada runs become ours and return to Karmada, as ``docs/moving-from-karmada.md`` says.

The commands and the placement are read from the page and typed in a shell, at the hub and the members of the fleet and
at a control plane of Karmada whose own controllers write to the same members. The page's names of members are replaced.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from e2e.controlplane.cluster import Etcd, JsonObject
from e2e.controlplane.shared import started
from e2e.fleet.bed import Fleet
from e2e.fleet.objects import CONFIG_MAP, DEPLOYMENT, make_config_map, make_deployment, make_namespace
from e2e.fleet.settled import assert_settled
from e2e.fleet.shell import Shell
from e2e.fleet.waiting import wait_until
from e2e.fleet.writes import Writes
from e2e.karmada.control_plane import MANAGED, Karmada, space_of
from e2e.karmada.definitions import CLUSTER, POLICY
from scorer.api.kinds import APPLIED_WORK, KINDS, NAMESPACE, PLACEMENT, Kind
from tests.docs.pages import DOCS, read_page

PAGE: Final = DOCS / "moving-from-karmada.md"
NAMES: Final = {"berlin": "bravelion", "dublin": "jumpingcat"}
"""Members of the page, and of the fleet."""
MEMBERS: Final = tuple(NAMES.values())
HOME: Final = "shop"
SERVICE: Final = KINDS["", "Service"]
THERE: Final[Sequence[tuple[Kind, str, str]]] = (
    (NAMESPACE, HOME, ""),
    (CONFIG_MAP, "settings", HOME),
    (DEPLOYMENT, "web", HOME),
    (SERVICE, "web", HOME),
)
"""All that Karmada propagates."""
PICKS, COMPARE, SUSPEND, TAKE_OVER, BACK, REMOVE = (
    "2. Write placements and overrides",
    "3. Compare on the members, without writing",
    "4. Suspend Karmada for one application",
    "5. Take over",
    "Go back",
    "6. Remove Karmada",
)


def blocks_of(heading: str) -> list[str]:
    """Return the blocks of a step of the page, with the members of the fleet."""
    found = read_page(PAGE).sections[heading]
    return [re.sub("|".join(NAMES), lambda name: NAMES[name[0]], each) for each in found]


def content(image: str = "example.com/web:1", replicas: int = 2, **data: str) -> list[JsonObject]:
    """Make the manifests of the application, without its namespace."""
    deployment = make_deployment("web", HOME, image)
    deployment["spec"]["replicas"] = replicas
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": HOME},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }
    return [make_config_map("settings", HOME, **(data or {"colour": "blue"})), deployment, service]


class Application:
    """The application on the members, its owners, and the steps of the page that move it.

    Args:
        fleet: Where it is moved to.
        karmada: Where it comes from.
        shell: Where the page is typed.
    """

    def __init__(self, fleet: Fleet, karmada: Karmada, shell: Shell) -> None:
        self.fleet = fleet
        self.karmada = karmada
        self.shell = shell

    def start(self) -> None:
        """Have Karmada propagate it to both members."""
        self.karmada.run()
        for name in MEMBERS:
            self.karmada.join(name, self.fleet.members[name].cluster)
        self.karmada.objects.create(make_namespace(HOME))
        self.karmada.propagate("web", HOME, content(), MEMBERS)
        for name in MEMBERS:
            wait_until("Karmada applies the namespace", partial(self._unlabelled, name))

    def clear(self) -> None:
        """Remove it everywhere, and the members from Karmada."""
        self.karmada.clear(HOME)
        hub, members = self.fleet.on_hub, [self.fleet.clusters[name] for name in MEMBERS]
        hub.delete(PLACEMENT, HOME)
        wait_until("the placement is deleted", lambda: "it is there" if hub.find(PLACEMENT, HOME) else "")
        for objects in (hub, *members):
            objects.delete(NAMESPACE, HOME)
        wait_until(
            "it is gone", lambda: "".join(each.cluster.name for each in (hub, *members) if each.find(NAMESPACE, HOME))
        )

    def _unlabelled(self, name: str) -> str:
        labels = self.fleet.clusters[name].get(NAMESPACE, HOME)["metadata"]["labels"]
        return "" if labels.get(MANAGED) == "true" else f"{name}: {labels}"

    def live(self) -> dict[tuple[str, str, str], JsonObject]:
        """Return its objects by member, kind and name; those that are missing are left out."""
        return {
            (name, kind.kind, key[0]): found
            for name in MEMBERS
            for kind, *key in THERE
            if (found := self.fleet.clusters[name].find(kind, *key))
        }

    def identities(self) -> dict[tuple[str, str, str], tuple[str, Any]]:
        """Return what a recreated object, and one whose Pods restart, would have otherwise: uid and template.

        The generation of a Deployment also rises with its annotations.
        """
        return {
            key: (found["metadata"]["uid"], found.get("spec", {}).get("template")) for key, found in self.live().items()
        }

    def uids(self) -> dict[tuple[str, str, str], str]:
        """Return the uid of each object."""
        return {key: uid for key, (uid, _) in self.identities().items()}

    def generations(self) -> dict[str, int]:
        """Return the generation of the Deployment on each member."""
        return {
            name: self.fleet.clusters[name].get(DEPLOYMENT, "web", HOME)["metadata"]["generation"] for name in MEMBERS
        }

    def compare(self, **changes: Any) -> None:
        """Type step 3 with these manifests on the hub."""
        for document in (make_namespace(HOME), *content(**changes)):
            self.fleet.on_hub.create(document)
        placement, _ = blocks_of(COMPARE)
        self.shell.type_in("kubectl --context hub apply -f -", placement)

    def differences(self) -> list[JsonObject]:
        """Return what the command of step 3 prints."""
        _, command = blocks_of(COMPARE)
        return [
            entry
            for line in re.findall(r"\[.*?\](?= \[|$)", self.shell.type_in(command))
            for entry in yaml.safe_load(line)
        ]

    def suspend(self) -> None:
        """Type step 4 until it says that Karmada is suspended."""
        change, command = blocks_of(SUSPEND)
        self.shell.type_in(change)

        def problem() -> str:
            rows = [row for row in self.shell.rows(command) if row["KIND"] != "Namespace"]
            return "" if rows and all(row["PRESERVED"] == row["SUSPENDED"] == "true" for row in rows) else f"{rows}"

        wait_until("Karmada is suspended", problem)
        spaces = {row["SPACE"] for row in self.shell.rows(command)}
        assert spaces == {space_of(name) for name in MEMBERS}

    def take_over(self) -> None:
        """Type step 5, and wait until every object is owned."""
        (block,) = blocks_of(TAKE_OVER)
        self.shell.type_in(block)
        wait_until("everything is taken over", self._unowned)

    def _unowned(self) -> str:
        owned = {
            key: [owner["kind"] for owner in found["metadata"].get("ownerReferences", ())]
            for key, found in self.live().items()
        }
        return "" if all(kinds == [APPLIED_WORK.kind] for kinds in owned.values()) else f"{owned}"

    def change(self, where: str, image: str) -> None:
        """Change the image of the Deployment on the hub or on Karmada's API server."""
        objects = self.fleet.on_hub if where == "hub" else self.karmada.objects
        containers = [{"name": "web", "image": image}]
        objects.patch(DEPLOYMENT, "web", {"spec": {"template": {"spec": {"containers": containers}}}}, HOME)

    def images(self) -> dict[str, str]:
        """Return the image of the Deployment on each member."""
        return {
            name: self.fleet.clusters[name].get(DEPLOYMENT, "web", HOME)["spec"]["template"]["spec"]["containers"][0][
                "image"
            ]
            for name in MEMBERS
        }

    def wait_image(self, image: str) -> None:
        """Wait until the Deployment has an image on every member."""
        wait_until(
            f"{image} is everywhere", lambda: "" if set(self.images().values()) == {image} else f"{self.images()}"
        )


@pytest.fixture(scope="module")
def karmada(programs: Mapping[str, Path], folder: Path, etcd: Etcd) -> Iterator[Karmada]:
    """A control plane of Karmada without members, whose controllers do not run."""
    with started(Karmada(programs, folder / "karmada", etcd)) as found:
        yield found


@pytest.fixture
def application(fleet: Fleet, karmada: Karmada, tmp_path: Path) -> Iterator[Application]:
    """The application of the page, on two members of the fleet, as Karmada has propagated it."""
    members = {name: fleet.members[name].cluster for name in MEMBERS}
    found = Application(fleet, karmada, Shell(tmp_path, {"karmada": karmada.cluster, "hub": fleet.hub, **members}))
    try:
        found.start()
        yield found
    finally:
        found.clear()
    assert_settled(fleet)


def test_an_application_moves_in_place(application: Application, fleet: Fleet, karmada: Karmada) -> None:
    """Neither the take-over nor the removal of Karmada recreates an object or changes a specification."""
    born, writes = application.identities(), Writes(fleet)
    assert len(born) == len(MEMBERS) * len(THERE)
    (picks,) = blocks_of(PICKS)
    clusters = {row["NAME"]: row["CLUSTERS"] for row in application.shell.rows(picks)}
    assert clusters == dict.fromkeys(("settings-configmap", "web-deployment", "web-service"), ",".join(MEMBERS))

    application.compare(replicas=3)
    wait_until("the differences are reported", lambda: "" if application.differences() else "none yet")
    paths = {
        (each["kind"], details["path"], details["valueInHub"], details["valueInMember"])
        for each in application.differences()
        for details in each["observedDiffs"]
    }
    assert paths == {("Deployment", "/spec/replicas", "3", "2")}
    assert application.identities() == born
    fleet.on_hub.patch(DEPLOYMENT, "web", {"spec": {"replicas": 2}}, HOME)
    wait_until("nothing differs", lambda: f"{application.differences()}" if application.differences() else "")

    application.suspend()
    application.take_over()
    assert application.identities() == born
    agents = [write for each in writes.on_members().values() for write in each]
    assert {write.verb for write in agents if HOME in write.name.split("/")} <= {"update", "patch"}

    application.change("hub", "example.com/web:2")
    application.wait_image("example.com/web:2")
    changed = application.identities()
    application.change("karmada", "example.com/web:2")
    wait_until("Karmada's Works follow, though they are suspended", lambda: works_without(karmada, "example.com/web:2"))

    labels, removal = blocks_of(REMOVE)
    application.shell.type_in(labels)
    application.shell.type_in(removal)
    wait_until("Karmada's Works are deleted", lambda: works_left(karmada))
    assert {MANAGED in found["metadata"].get("labels", {}) for found in application.live().values()} == {False}
    for name in MEMBERS:
        karmada.unjoin(name)
    karmada.objects.delete(NAMESPACE, HOME)
    assert application.identities() == changed
    assert application._unowned() == ""
    assert {key: uid for key, (uid, _) in changed.items()} == {key: uid for key, (uid, _) in born.items()}


def works_left(karmada: Karmada) -> str:
    """Return the Works of Karmada that are not of Namespaces."""
    return "; ".join(f"{key}" for name in MEMBERS for key in karmada.works(name) if key[0] != NAMESPACE.kind)


def works_without(karmada: Karmada, image: str) -> str:
    """Return the Works of the Deployment without an image."""
    works = {name: karmada.works(name)["Deployment", f"{HOME}/web"] for name in MEMBERS}
    return "; ".join(name for name, work in works.items() if image not in str(work["spec"]["workload"]))


def test_an_application_returns_to_karmada(application: Application, fleet: Fleet, karmada: Karmada) -> None:
    born = application.identities()
    application.compare()
    application.suspend()
    application.take_over()
    (block,) = blocks_of(BACK)
    application.shell.type_in(block)

    def problem() -> str:
        owned = {key: each["metadata"].get("ownerReferences") for key, each in application.live().items()}
        return f"{owned}" if any(owned.values()) or fleet.on_hub.find(PLACEMENT, HOME) else ""

    wait_until("the objects are released", problem)
    assert application.identities() == born
    assert {each["metadata"]["labels"].get(MANAGED) for each in application.live().values()} == {"true"}
    application.change("karmada", "example.com/web:3")
    application.wait_image("example.com/web:3")
    assert application.uids() == {key: uid for key, (uid, _) in born.items()}

    first, *_ = MEMBERS
    member = fleet.clusters[first]
    member.patch(DEPLOYMENT, "web", {"metadata": {"labels": {MANAGED: None}}}, HOME)
    application.change("karmada", "example.com/web:4")
    wait_until("Karmada refuses the object", lambda: refused(karmada, first))
    assert application.images()[first] == "example.com/web:3"
    karmada.objects.patch(POLICY, "web", {"spec": {"conflictResolution": "Overwrite"}}, HOME)
    application.wait_image("example.com/web:4")


def refused(karmada: Karmada, cluster: str) -> str:
    """Return an empty text when Karmada cannot apply the Deployment, as its Work says."""
    conditions = karmada.works(cluster)["Deployment", f"{HOME}/web"]["status"]["conditions"]
    reasons = [each for each in conditions if each["type"] == "Applied" and each["status"] == "False"]
    return "" if reasons else f"{conditions}"


def test_a_template_that_is_out_of_date_reverts_its_object_once(application: Application, karmada: Karmada) -> None:
    application.compare()
    application.suspend()
    application.take_over()
    application.change("hub", "example.com/web:2")
    application.wait_image("example.com/web:2")
    uids, before = application.uids(), application.generations()
    karmada.objects.delete(DEPLOYMENT, "web", HOME)

    def problem() -> str:
        now = application.generations()
        return "" if all(now[name] >= before[name] + 2 for name in MEMBERS) else f"{now} after {before}"

    wait_until("Karmada and the agents have each changed it", problem)
    application.wait_image("example.com/web:2")
    assert application.uids() == uids


@pytest.mark.parametrize("removal", ["unjoin", "namespace"])
def test_karmada_deletes_the_namespaces_that_have_its_label(
    application: Application, fleet: Fleet, karmada: Karmada, removal: str
) -> None:
    """Without the first command of step 6; the placement recreates what it has lost."""
    application.compare()
    application.suspend()
    application.take_over()
    first, *_ = MEMBERS
    before = application.uids()
    if removal == "unjoin":
        karmada.objects.delete(CLUSTER, first)
    else:
        karmada.objects.delete(NAMESPACE, HOME)

    def problem() -> str:
        found = fleet.clusters[first].find(NAMESPACE, HOME)
        return "it remains" if found and found["metadata"]["uid"] == before[first, "Namespace", HOME] else ""

    wait_until("the namespace is deleted", problem)
