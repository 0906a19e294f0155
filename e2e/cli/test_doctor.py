"""``harbormaster doctor`` on a real hub: a healthy installation is all well, each break turns its own line alone."""

import contextlib
import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.authority import Authority
from e2e.charts.rendering import Helm
from e2e.conftest import StartService, wait_served
from e2e.controlplane.cluster import Cluster, JsonObject
from e2e.controlplane.printed import called_with, printed
from e2e.controlplane.service import Service
from e2e.fleet.bed import ACCOUNT, LEASES, grant
from e2e.fleet.objects import Objects, condition_of, kind_of, make_namespace
from e2e.fleet.processes import LEASE, SYSTEM, Agent, Reconciler
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, INTERNAL_MEMBER_CLUSTER, KINDS, MEMBER_CLUSTER, OUR_KINDS
from scorer.api.names import AGENT_VERSION, ALLOW_DELETION
from tests.charts.made import HUB
from webhook.doctor.examination import CHECKS
from webhook.kube.webhook_configurations.ca_bundles import CONFIGURATIONS
from webhook.runtime import clock

BERLIN, SPACE = "berlin", "fleet-member-berlin"
SERVER_ACCOUNT = "harbormaster-serve"
AGENT = "harbormaster-agent"
RBAC = "rbac.authorization.k8s.io"
CLUSTER_ROLE, CLUSTER_ROLE_BINDING = KINDS[RBAC, "ClusterRole"], KINDS[RBAC, "ClusterRoleBinding"]
POLICY_BINDING = KINDS["admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"]
GATES = "clusterupgradegates.upgrade.harbormaster.dev"
CLOCK_SECONDS = 120


def examine(hub: Cluster, *words: str, user: Path | None = None) -> tuple[int, JsonObject]:
    """What the doctor says of a hub, and the code that it ends with."""
    done = called_with({}, "doctor", f"--kubeconfig={user or hub.kubeconfig}", "-o", "json", *words)
    assert done.stdout, done.output
    return done.exit_code, json.loads(done.stdout)


def not_well(document: JsonObject) -> dict[str, str]:
    """The checks that are not ok, with what they say."""
    found = {each["check"]: each for each in document["checks"]}
    assert list(found) == list(CHECKS)
    return {
        name: " ".join((each["state"], each["found"], *each["problems"]))
        for name, each in found.items()
        if each["state"] != "ok"
    }


def differing_checks(hub: Cluster, expected: set[str]) -> str:
    """Return the failed checks with their findings, empty if they are the expected ones."""
    failed = not_well(examine(hub, "--release=pier")[1])
    return "" if set(failed) == expected else str(failed)


@pytest.fixture(scope="module")
def helm(programs) -> Helm:
    """The real helm."""
    return Helm(programs["helm"])


SWITCHED_ON = {
    "settings": {"guardRail": True, "enforceBudgets": True, "networkingAgents": True, "leaseName": "lead"},
    "reconcile": {"secrets": True, "backReport": True},
}
ONE_PROCESS = {
    "reconcile": {"mode": "Server", "select": ["namespaces", "boats.example.com"]},
    "certs": {"mode": "files", "files": {"secretName": "certificate"}},
}
ALONE = {"reconcile": {"mode": "Off"}, "nameOverride": "dock"}
SECRET_PATH = {"webhook": {"secrets": ["c0ffee" * 10]}}
OF_PODS = {"installation", "certificates", "admission", "leader"}
"""What cannot be well where no Pod runs."""


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param(SECRET_PATH, OF_PODS, id="default"),
        pytest.param(SECRET_PATH | SWITCHED_ON, OF_PODS, id="switched-on"),
        pytest.param(SECRET_PATH | ONE_PROCESS, OF_PODS, id="one-process"),
        pytest.param(SECRET_PATH | ALONE, OF_PODS - {"leader"}, id="without-loop"),
        pytest.param({}, OF_PODS | {"webhooks"}, id="rendered-without-a-secret-path"),
    ],
)
def test_what_the_chart_makes_is_what_the_doctor_expects(helm, own_hub, values, expected):
    """Under any name, in any namespace: definitions, hooks, rights and policies are all well."""
    objects = Objects(own_hub)
    documents = [
        each
        for each in helm.render(HUB, values, release="pier", namespace="dock")
        if "helm.sh/hook" not in each["metadata"].get("annotations", {}) and each["kind"] != "CustomResourceDefinition"
    ]
    made = [each for each in documents if (each["apiVersion"].rpartition("/")[0], each["kind"]) in KINDS]
    objects.apply([make_namespace("dock")])
    try:
        objects.apply(made)
        # Until the API server has read the configurations, it stores a dry run without calling a hook.
        wait_until("the doctor names what needs a Pod", lambda: differing_checks(own_hub, expected))
        code, document = examine(own_hub, "--release=pier")
        said = not_well(document)
        assert (code, document["namespace"], document["release"]) == (1, "dock", "pier")
        assert "0 of 2 replicas of serve are available" in said["installation"]
        assert "no endpoints available" in said["admission"]
        assert "Set webhook.secrets of the chart" in said.get("webhooks", "Set webhook.secrets of the chart")
        assert "c0ffee" not in json.dumps(document)
    finally:
        for each in reversed(made):
            objects.delete(kind_of(each), each["metadata"]["name"], each["metadata"].get("namespace", ""))


class Installation:
    """An installation by hand, as docs/install.md has it, with one member: the hub itself.

    Args:
        hub: The hub.
        start_service: Starts the server.
        folder: For kubeconfigs and logs.
    """

    def __init__(self, hub: Cluster, start_service: StartService, folder: Path) -> None:
        self.hub, self.objects, self.folder = hub, Objects(hub), folder
        for process, account in (("serve", SERVER_ACCOUNT), ("reconcile", ACCOUNT)):
            grant(hub, process, account)
        defaults = {"removal_confirmation": ""}  # as doctor expects the hooks
        self.loop = Reconciler(self.login(ACCOUNT), folder, "loop", defaults)
        self.service: Service = start_service(hub, self.login(SERVER_ACCOUNT), wait=False, **defaults)
        self.agent = self.make_agent()

    def start(self) -> None:
        """Start its processes, and wait until all is well."""
        self.loop.start(wait=False)
        self.service.program.wait_ready(self.service.ready)
        self.service.register()
        self.join()
        self.wait_well()

    def login(self, account: str) -> Path:
        """A kubeconfig of a ServiceAccount."""
        return self.hub.write_kubeconfig(account, self.hub.token_of(SYSTEM, account), folder=self.folder)

    def make_agent(self, clock_seconds: int = 0) -> Agent:
        """An agent of the member, not started yet."""
        logins = self.hub.kubeconfigs["lion"], self.hub.kubeconfig
        words = (f"--namespace={SYSTEM}",)
        return Agent(BERLIN, *logins, self.folder, {}, words, clock_seconds)

    def join(self) -> None:
        """Make the hub a member of itself, by its agent."""
        identity = {"kind": "User", "name": "lion", "apiGroup": RBAC}
        document = {
            "apiVersion": MEMBER_CLUSTER.api_version,
            "kind": MEMBER_CLUSTER.kind,
            "metadata": {"name": BERLIN},
            "spec": {"identity": identity},
        }
        self.objects.create(document)
        binding = KINDS[RBAC, "RoleBinding"]
        wait_until(
            "the hub is ready for the member",
            lambda: (
                ""
                if self.objects.find(binding, f"fleet-rolebinding-{BERLIN}", SPACE)
                else self.loop.program.last_words()
            ),
        )
        self.agent.start()

    def define(self, name: str) -> None:
        """Apply one definition as it is printed, and wait until its kind is served."""
        items = json.loads(printed("crds", "-o", "json"))["items"]
        self.objects.apply([each for each in items if each["metadata"]["name"] == name])
        wait_served(self.hub, next(kind for kind in OUR_KINDS if kind.resource == name))

    def examine(self, *words: str) -> tuple[int, JsonObject]:
        """What the doctor says; the installation is found without a word."""
        return examine(self.hub, *words)

    def wait_well(self) -> None:
        """Wait until all is well."""
        wait_until("all is well", lambda: str(not_well(self.examine()[1]) or ""))

    def end(self) -> None:
        """End its processes, and take away what it has left."""
        for role in (self.agent, self.loop):
            role.program.stop(number=signal.SIGKILL)
        for kind in CONFIGURATIONS:
            self.objects.delete(kind, "harbormaster")
        # The API server may ask the hooks for a moment longer, and they refuse this by default.
        meant = {"metadata": {"annotations": {ALLOW_DELETION: "true"}}}
        self.objects.patch(KINDS["", "Namespace"], SYSTEM, meant)
        # Others on this hub use the same namespace, and nothing can be made in one that is still being deleted.
        self.objects.delete(KINDS["", "Namespace"], SYSTEM)
        wait_until(
            "its namespace is gone", lambda: "not yet" if self.objects.find(KINDS["", "Namespace"], SYSTEM) else ""
        )


@pytest.fixture(scope="module")
def installation(
    own_hub: Cluster, start_service: StartService, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """One installation for all tests below; each leaves it as well as it was."""
    found = Installation(own_hub, start_service, tmp_path_factory.mktemp("doctor"))
    try:
        found.start()
        yield found
    finally:
        found.end()


def test_a_healthy_installation_is_all_well(installation):
    code, document = installation.examine()
    assert (code, document["well"], document["namespace"], document["release"]) == (0, True, SYSTEM, "")
    assert [each["state"] for each in document["checks"]] == ["ok"] * len(CHECKS)
    found = {each["check"]: each["found"] for each in document["checks"]}
    assert re.fullmatch(r"loop\S* leads since 20\S+Z", found["leader"])
    assert found["agent-versions"].startswith("1 agent with release ")
    assert "Checked by its roles only" not in str(found)
    assert all(each["milliseconds"] >= 0 for each in document["checks"])


def test_for_people_there_is_a_line_for_each(installation):
    done = called_with({}, "doctor", f"--kubeconfig={installation.hub.kubeconfig}")
    assert [line.split()[:2] for line in done.stdout.splitlines()] == [["[ok]", check] for check in CHECKS]


def test_who_may_read_nothing_is_told_so(installation):
    """And may still see that the hub answers; nothing that was not checked counts as well."""
    code, document = examine(installation.hub, user=installation.hub.kubeconfigs["bob"])
    said = not_well(document)
    assert code == 1
    assert set(said) == {*CHECKS} - {"hub", "confirmation"}
    assert all(each.startswith("unchecked not checked: you may not ") for each in said.values()), said
    assert said["definitions"].endswith("you may not list customresourcedefinitions")


def test_a_wrong_clock_here_is_told_and_nothing_is_judged_by_it(installation, monkeypatch):
    right = clock.utc_now
    monkeypatch.setattr(clock, "utc_now", lambda: right() - timedelta(days=400))
    code, document = installation.examine()
    found = not_well(document)
    assert (code, set(found)) == (1, {"hub"}), found
    assert "The clock of this machine is 9600 h behind the clock of the hub" in found["hub"]


Break = Callable[[Installation], AbstractContextManager[None]]


@contextlib.contextmanager
def definition_missing(of: Installation) -> Iterator[None]:
    of.objects.patch(
        CUSTOM_RESOURCE_DEFINITION, GATES, {"metadata": {"annotations": {"harbormaster.dev/allow-deletion": "true"}}}
    )
    of.objects.delete(CUSTOM_RESOURCE_DEFINITION, GATES)
    wait_until("it is gone", lambda: "there" if of.objects.find(CUSTOM_RESOURCE_DEFINITION, GATES) else "")
    try:
        yield
    finally:
        of.define(GATES)


@contextlib.contextmanager
def definition_old(of: Installation) -> Iterator[None]:
    found = of.objects.get(CUSTOM_RESOURCE_DEFINITION, GATES)
    for version in found["spec"]["versions"]:
        del version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["displayName"]
    of.objects.patch(CUSTOM_RESOURCE_DEFINITION, GATES, {"spec": {"versions": found["spec"]["versions"]}})
    try:
        yield
    finally:
        of.define(GATES)


@contextlib.contextmanager
def hook_unreachable(of: Installation) -> Iterator[None]:
    of.service.program.stop(number=signal.SIGKILL)
    try:
        yield
    finally:
        of.service.start()


@contextlib.contextmanager
def changed_hooks(of: Installation, change: Callable[[JsonObject], None]) -> Iterator[None]:
    for kind in CONFIGURATIONS:
        document = of.objects.get(kind, "harbormaster")
        for hook in document["webhooks"]:
            change(hook)
        of.objects.patch(kind, "harbormaster", {"webhooks": document["webhooks"]})
    try:
        yield
    finally:
        of.service.register()


def trust_another(of: Installation) -> AbstractContextManager[None]:
    other = json.loads(
        printed(
            "webhook-configuration", "-o", "json", f"--ca={another_authority(of.folder)}", f"--url={of.service.url}"
        )
    )
    bundle = other["items"][0]["webhooks"][0]["clientConfig"]["caBundle"]
    return changed_hooks(of, lambda hook: hook["clientConfig"].update(caBundle=bundle))


def another_authority(folder: Path) -> Path:
    """The certificate of an authority that has signed nothing."""
    path = folder / "another.crt"
    path.write_bytes(Authority.new(datetime.now(UTC)).pem)
    return path


def fail_open(of: Installation) -> AbstractContextManager[None]:
    return changed_hooks(of, lambda hook: hook.update(failurePolicy="Ignore"))


@contextlib.contextmanager
def right_missing(of: Installation) -> Iterator[None]:
    role = of.objects.get(CLUSTER_ROLE, SERVER_ACCOUNT)
    without = [each for each in role["rules"] if each["resources"] != ["tokenreviews"]]
    of.objects.patch(CLUSTER_ROLE, SERVER_ACCOUNT, {"rules": without})
    try:
        yield
    finally:
        of.objects.patch(CLUSTER_ROLE, SERVER_ACCOUNT, {"rules": role["rules"]})


@contextlib.contextmanager
def bound(of: Installation, role: str, subject: JsonObject) -> Iterator[None]:
    head = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "too-much"}}
    ref = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
    of.objects.create({**head, "roleRef": ref, "subjects": [subject]})
    try:
        yield
    finally:
        of.objects.delete(CLUSTER_ROLE_BINDING, "too-much")


def loop_may_too_much(of: Installation) -> AbstractContextManager[None]:
    return bound(of, "cluster-admin", {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": SYSTEM})


def agent_may_too_much(of: Installation) -> AbstractContextManager[None]:
    return bound(of, "system:aggregate-to-view", {"kind": "User", "name": "lion", "apiGroup": RBAC})


@contextlib.contextmanager
def policy_unbound(of: Installation) -> Iterator[None]:
    name = f"harbormaster-serve-leases-of-{SERVER_ACCOUNT}"
    document = of.objects.get(POLICY_BINDING, name)
    of.objects.delete(POLICY_BINDING, name)
    try:
        yield
    finally:
        kept = {key: document[key] for key in ("apiVersion", "kind", "spec")}
        of.objects.create({**kept, "metadata": {"name": name}})


@contextlib.contextmanager
def lease_stale(of: Installation) -> Iterator[None]:
    """The leader has been killed."""
    of.loop.program.stop(number=signal.SIGKILL)
    try:
        wait_until("the Lease is stale", lambda: "" if "leader" in not_well(of.examine()[1]) else "it is fresh")
        yield
    finally:
        of.loop.start()


@contextlib.contextmanager
def lease_foreign(of: Installation) -> Iterator[None]:
    """Another client holds the Lease, for a day."""
    given = {"holderIdentity": "foreign", "leaseDurationSeconds": 86400, "renewTime": "2100-01-01T00:00:00.000000Z"}
    of.objects.patch(LEASES, LEASE, {"spec": given}, SYSTEM)
    try:
        yield
    finally:
        of.loop.stop()  # it would believe the other client for five minutes
        of.objects.delete(LEASES, LEASE, SYSTEM)
        of.loop.start()


@contextlib.contextmanager
def agent_older(of: Installation) -> Iterator[None]:
    """The last report of an agent of an older release, which the loop has taken over."""
    of.agent.program.stop(number=signal.SIGKILL)
    value = {"value": "0.0.1", "observationTime": "2026-01-01T00:00:00Z"}
    of.objects.patch_status(INTERNAL_MEMBER_CLUSTER, BERLIN, {"properties": {AGENT_VERSION: value}}, SPACE)

    def told() -> str:
        return str(of.objects.get(MEMBER_CLUSTER, BERLIN)["status"]["properties"][AGENT_VERSION]["value"])

    try:
        wait_until("the loop has heard it", lambda: "" if told() == "0.0.1" else told())
        yield
    finally:
        of.agent.start()
        wait_until("the loop has heard of the agent", lambda: told() if told() == "0.0.1" else "")


@contextlib.contextmanager
def agents_clock_off(of: Installation) -> Iterator[None]:
    of.agent.program.stop(number=signal.SIGKILL)
    ahead = of.make_agent(CLOCK_SECONDS)
    try:
        ahead.start()
        wait_until("it has reported", lambda: "" if "agent-clocks" in not_well(of.examine()[1]) else "nothing yet")
        yield
    finally:
        ahead.program.stop(number=signal.SIGKILL)
        of.agent.start()


@pytest.mark.parametrize(
    ("happens", "check", "said"),
    [
        (definition_missing, "definitions", f"{GATES} is missing"),
        (definition_old, "definitions", "is old: it lacks spec.displayName"),
        (hook_unreachable, "admission", "connection refused"),
        (trust_another, "certificates", "x509"),
        (fail_open, "webhooks", 'failurePolicy is "Ignore", not "Fail"'),
        (right_missing, "server-rights", f"{SERVER_ACCOUNT} may not create tokenreviews.authentication.k8s.io"),
        (loop_may_too_much, "loop-rights", f"{ACCOUNT} may * *.*, but does not need to"),
        (agent_may_too_much, "agent-rights", "berlin: its agent (lion) may get, list, watch"),
        (policy_unbound, "policies", "harbormaster's server may write only Leases hb-res-*"),
        (lease_stale, "leader", "but has not renewed it for"),
        (lease_foreign, "leader", "but leaseDurationSeconds is 86400, and a loop sets 15"),
        (agent_older, "agent-versions", "berlin: its agent has release 0.0.1, older than"),
        (agents_clock_off, "agent-clocks", "berlin: its agent's clock is"),
    ],
)
def test_each_break_turns_its_line_alone(installation, happens: Break, check, said):
    with happens(installation):
        code, document = installation.examine()
        found = not_well(document)
    wrong = {name: each for name, each in found.items() if each.startswith("wrong")}
    assert (code, set(wrong)) == (1, {check}), found
    assert said in wrong[check]
    assert set(found) - set(wrong) <= {"admission", "certificates"}, found  # without the one, the other is unchecked
    assert next(each["advice"] for each in document["checks"] if each["check"] == check)
    installation.wait_well()


def test_the_rights_of_an_agent_in_its_member_are_checked_where_the_member_is_named(installation):
    """By the roles that are printed, all is well; each right less or more turns the line."""

    def look() -> JsonObject:
        found = installation.examine(f"--member-kubeconfig={installation.hub.kubeconfig}")[1]["checks"][-1]
        assert found["check"] == "member-rights"
        return found

    grant(installation.hub, "agent", AGENT)
    subject = {"kind": "ServiceAccount", "name": AGENT, "namespace": SYSTEM}
    user = f"system:serviceaccount:{SYSTEM}:{AGENT}"
    try:
        assert look()["state"] == "ok", look()
        with bound(installation, "cluster-admin", subject):
            assert look()["problems"] == [f"{user} may * {each}, but does not need to" for each in ("*", "*.*")]
        role = installation.objects.get(CLUSTER_ROLE, AGENT)
        less = [each for each in role["rules"] if "appliedworks" not in each.get("resources", ())]
        installation.objects.patch(CLUSTER_ROLE, AGENT, {"rules": less})
        assert [each.partition(" may not ")[2][:6] for each in look()["problems"]] == ["create"]
    finally:
        installation.objects.delete(CLUSTER_ROLE_BINDING, f"{AGENT}-of-{AGENT}")


def test_it_asks_and_changes_nothing(installation):
    """Every write of the caller is a dry run or a question. Others write beside it, such as for a deleted namespace."""
    before = {each["metadata"]["name"] for each in installation.objects.all(KINDS["", "Namespace"])}
    versions = condition_of(installation.objects.get(MEMBER_CLUSTER, BERLIN), "Joined")
    mark = installation.hub.audit_mark()
    assert installation.examine()[0] == 0
    asked = [each["requestURI"] for each in installation.hub.audit(mark) if each["user"]["username"] == "admin"]
    assert asked
    assert [uri for uri in asked if "dryRun=All" not in uri] == []
    assert before == {each["metadata"]["name"] for each in installation.objects.all(KINDS["", "Namespace"])}
    assert versions == condition_of(installation.objects.get(MEMBER_CLUSTER, BERLIN), "Joined")
