"""A hub and a cluster that ``harbormaster join`` makes its member, and how an administrator calls the commands."""

import base64
import contextlib
import json
import re
import subprocess
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from e2e.controlplane.cluster import ADMIN, ApiError, Cluster, Etcd, User
from e2e.controlplane.process import kill
from e2e.controlplane.service import HARBORMASTER
from e2e.fleet.bed import ACCOUNT, COLLECTORS, grant
from e2e.fleet.objects import Objects
from e2e.fleet.processes import SYSTEM, Reconciler, Role
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import APPLIED_WORK, KINDS, MEMBER_CLUSTER, WORK, Kind
from scorer.api.unstructured.documents import is_deleting
from scorer.membership.access import RBAC_GROUP
from webhook.cli.root import root
from webhook.history.record import PREFIX as HISTORY_PREFIX
from webhook.kube.work_signing_keys import NAME as WORK_KEYS

MEMBER = "berlin"
ACCOUNT_ON_HUB = f"member-{MEMBER}"
AGENT = "harbormaster-agent"
HUB_SECRET = "harbormaster-hub"
AGENT_WORDS = ("agent", f"--cluster={MEMBER}")
"""How the agents here are called, besides where the member is."""
SECRET, ACCOUNTS, CONFIG_MAP = KINDS["", "Secret"], KINDS["", "ServiceAccount"], KINDS["", "ConfigMap"]
ROLE, ROLE_BINDING = KINDS[RBAC_GROUP, "Role"], KINDS[RBAC_GROUP, "RoleBinding"]
CLUSTER_ROLE, CLUSTER_ROLE_BINDING = KINDS[RBAC_GROUP, "ClusterRole"], KINDS[RBAC_GROUP, "ClusterRoleBinding"]
DEPLOYMENT, NAMESPACE = KINDS["apps", "Deployment"], KINDS["", "Namespace"]
DEFINITION = KINDS["apiextensions.k8s.io", "CustomResourceDefinition"]
WRITTEN = (
    SECRET,
    ACCOUNTS,
    CONFIG_MAP,
    ROLE,
    ROLE_BINDING,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    DEPLOYMENT,
    NAMESPACE,
    MEMBER_CLUSTER,
)
"""What the two commands can write, but for one definition."""
NOBODY = "lion"
"""A user of both clusters without rights."""


QUIET = {"join": ("--yes", "--agent=none"), "leave": ("--yes",)}
"""Options of every call: nothing is asked, and no agent is installed."""


class Pair:
    """A hub where harbormaster is installed, and a cluster where it is not.

    Args:
        programs: Of the control plane.
        folder: For keys and logs.
        etcd: Below both.
        install: Installs our definitions on the hub.
    """

    def __init__(
        self, programs: Mapping[str, Path], folder: Path, etcd: Etcd, install: Callable[[Cluster], None]
    ) -> None:
        self.folder = folder
        self._install = install
        self.hub = Cluster(programs, folder / "hub", etcd, "join-hub", [User(NOBODY)])
        self.member = Cluster(programs, folder / "member", etcd, "join-member", [User(NOBODY)])
        self.on_hub, self.in_member = Objects(self.hub), Objects(self.member)
        self.loop: Reconciler | None = None
        self.agent: Role | None = None
        self._agents = count()

    def start(self) -> None:
        """Start both clusters; neither loop nor agent runs yet."""
        for cluster in (self.hub, self.member):
            cluster.start()
            cluster.start_controller_manager(COLLECTORS)
        self._install(self.hub)
        grant(self.hub, "reconcile", ACCOUNT)

    def stop(self) -> None:
        """Stop everything."""
        kill(*(role.program for role in (self.loop, self.agent) if role is not None))
        self.hub.stop()
        self.member.stop()

    def kubeconfig(self, hub_user: str = ADMIN, member_user: str = ADMIN, **changes: Any) -> Path:
        """A kubeconfig with the contexts ``hub`` and ``member``, as *hub_user* and as *member_user*.

        Args:
            hub_user: Who asks the hub.
            member_user: Who asks the member.
            changes: Fields of the hub's cluster; None takes one away.
        """
        users = {"hub": (self.hub, hub_user), "member": (self.member, member_user)}
        found: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
        for name, (cluster, user) in users.items():
            read = json.loads(cluster.kubeconfigs[user].read_text(encoding="utf-8"))
            more = changes if name == "hub" else {}
            about = {**read["clusters"][0]["cluster"], **more}
            about = {field: value for field, value in about.items() if value is not None}
            found["clusters"].append({"name": name, "cluster": about})
            found["users"].append({"name": name, "user": read["users"][0]["user"]})
            found["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
        path = self.folder / f"{hub_user}-{member_user}-{len(changes)}.kubeconfig"
        path.write_text(json.dumps(found), encoding="utf-8")
        return path

    def run(
        self,
        command: str,
        *words: str,
        kubeconfig: Path | None = None,
        name: str = MEMBER,
        reached: bool = True,
        in_process: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``join`` or ``leave``.

        Args:
            command: Which of the two.
            words: Replace those that every call has. No agent is installed unless they say how.
            kubeconfig: Names both clusters; None: that of the administrator.
            name: Of the member.
            reached: Name the member's cluster, too.
            in_process: In this process: one of its own takes longer to begin than the command takes.
        """
        given: list[str | Path] = [
            HARBORMASTER,
            command,
            name,
            "--context=hub",
            *(["--member-context=member"] if reached else []),
        ]
        given += [f"--kubeconfig={kubeconfig or self.kubeconfig()}", *QUIET[command], *words]
        if in_process:
            return run_here(*given[1:])
        return subprocess.run(given, capture_output=True, text=True, check=False, timeout=300)

    def join(self, *words: str, in_process: bool = True) -> str:
        """Join without waiting, unless *words* say otherwise; returns what it printed."""
        done = self.run("join", "--timeout=0", *words, in_process=in_process)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def leave(self, *words: str, in_process: bool = True) -> str:
        """Leave; returns what it printed."""
        done = self.run("leave", *words, in_process=in_process)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_loop(self) -> None:
        """Start the loop of the hub, if it does not run; it waits half a minute, the least, for lost members."""
        if self.loop is not None and self.loop.program.running:
            return
        kubeconfig = self.hub.write_kubeconfig("loop", self.hub.token_of(SYSTEM, ACCOUNT))
        settings = {"force_delete_seconds": 30, "resource_snapshot_interval_seconds": 0}
        self.loop = Reconciler(kubeconfig, self.folder, "loop", settings)
        self.loop.start()

    def stop_loop(self) -> None:
        """End it."""
        if self.loop is not None:
            self.loop.stop()
            self.loop = None

    def start_agent(self, *, wait: bool = True, words: tuple[str, ...] = (), **settings: Any) -> Role:
        """Start the agent as its Deployment would, in place of one that runs; it has only what ``join`` gave it.

        Args:
            wait: Until it is ready.
            words: More options.
            settings: Given as ``HARBORMASTER_<NAME>``.
        """
        self.stop_agent()
        token = self.member.token_of(SYSTEM, AGENT)
        kubeconfig = self.member.write_kubeconfig("agent", token)
        called = [*AGENT_WORDS, f"--kubeconfig={kubeconfig}", *words]
        # A log of its own: tests read it, and must not find what the agent of another one has said.
        self.agent = Role(called, self.folder / f"agent-{next(self._agents)}.log", settings)
        self.agent.start(wait=wait)
        return self.agent

    def stop_agent(self, *, killed: bool = False) -> None:
        """End it."""
        if self.agent is not None:
            if killed:
                kill(self.agent.program)
            self.agent.stop()
            self.agent = None

    def token(self) -> str:
        """The agent's token for the hub, as the Secret has it."""
        return base64.b64decode(self.in_member.get(SECRET, HUB_SECRET, SYSTEM)["data"]["token"]).decode()

    def set_token(self, token: str) -> None:
        """Write a token into the Secret."""
        data = {"token": base64.b64encode(token.encode()).decode()}
        self.in_member.patch(SECRET, HUB_SECRET, {"data": data}, SYSTEM)

    def user_of(self, token: str) -> str:
        """Whose a token is on the hub; empty: the hub does not accept it."""
        question = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer, _ = self.hub.request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", question)
        return str(answer["status"].get("user", {}).get("username", "")) if "status" in answer else ""

    def everything(self) -> dict[str, str]:
        """Return the versions of all objects on both sides that the commands could write.

        Without the keys and the history of the loop, which it writes when it has the time, and without namespaces that
        are being deleted with what the previous test left in them.
        """
        versions = {}
        for cluster, objects in (("hub", self.on_hub), ("member", self.in_member)):
            ending = {item["metadata"]["name"] for item in objects.all(NAMESPACE) if is_deleting(item)}
            items = [(kind, item) for kind in WRITTEN for item in objects.all(kind)]
            if definition := objects.find(DEFINITION, APPLIED_WORK.resource):
                items.append((DEFINITION, definition))
            for kind, item in items:
                about = item["metadata"]
                namespace = about["name"] if kind == NAMESPACE else about.get("namespace", "")
                if about["name"] == WORK_KEYS or about["name"].startswith(HISTORY_PREFIX) or namespace in ending:
                    continue
                versions[f"{cluster} {kind} {about.get('namespace', '')}/{about['name']}"] = about["resourceVersion"]
        return versions

    def clear(self) -> None:
        """Take away what a test has left but the loop: the member first, then all that ``join`` can have made.

        What no test asks about stays in the member: its namespace, which takes five seconds to end, and the definition.
        """
        self.stop_agent()
        for kind, space in ((MEMBER_CLUSTER, ""), (WORK, f"fleet-member-{MEMBER}")):
            for item in self.on_hub.all(kind, space):
                name = item["metadata"]["name"]
                self.on_hub.delete(kind, name, space)  # first: from now on, the loop cannot hold it again
                with contextlib.suppress(ApiError):  # it has gone already
                    self.on_hub.patch(kind, name, {"metadata": {"finalizers": None}}, space)
        self.on_hub.delete(NAMESPACE, f"fleet-member-{MEMBER}")
        for kind in (ROLE_BINDING, ROLE, ACCOUNTS):
            self.on_hub.delete(kind, ACCOUNT_ON_HUB, SYSTEM)
        for kind in (CLUSTER_ROLE_BINDING, CLUSTER_ROLE):
            self.in_member.delete(kind, AGENT)
        for kind in (DEPLOYMENT, ROLE_BINDING, ROLE, SECRET, CONFIG_MAP, ACCOUNTS):
            for item in self.in_member.all(kind, SYSTEM):
                self.in_member.delete(kind, item["metadata"]["name"], SYSTEM)
        for item in self.in_member.all(APPLIED_WORK):
            self.in_member.patch(APPLIED_WORK, item["metadata"]["name"], {"metadata": {"finalizers": None}})
            self.in_member.delete(APPLIED_WORK, item["metadata"]["name"])
        _wait_gone(self.on_hub, NAMESPACE, f"fleet-member-{MEMBER}")


def _wait_gone(objects: Objects, kind: Kind, name: str) -> None:
    wait_until(f"{kind} {name} is gone", lambda: "it is there" if objects.find(kind, name) else "")


def run_here(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, as if it had one of its own. Raises what the command does not handle."""
    done = CliRunner().invoke(root, [str(word) for word in words], prog_name="harbormaster")
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess([], done.exit_code, done.stdout, done.stderr)


def leave_without_the_member(pair: Pair) -> None:
    """Have the member leave while only the hub is named, and see that nothing of the member itself is touched."""
    before = {name: version for name, version in pair.everything().items() if name.startswith("member ")}
    done = pair.run("leave", "--timeout=120", reached=False)
    assert done.returncode == 0, done.stderr
    assert "nothing was removed from the member itself. To clean up there, add --member-context" in done.stderr
    assert not pair.on_hub.find(ACCOUNTS, ACCOUNT_ON_HUB, SYSTEM)
    after = pair.everything()
    assert {name: version for name, version in after.items() if name.startswith("member ")} == before


def only_error(done: subprocess.CompletedProcess[str]) -> str:
    """The one line by which a command refused; fails if it did something else."""
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith("waiting: ")]
    assert len(lines) == 1, done.stderr
    assert re.match(r"error: ", lines[0]), lines
    return lines[0].removeprefix("error: ")
