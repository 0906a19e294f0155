"""``harbormaster join`` and ``leave`` between a real hub and a real cluster, and the token that renews itself.

Tests without a loop come first, since what those after them share goes on.
"""

import asyncio
import base64
import json
import signal
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import pytest

from e2e.controlplane.cluster import ApiError, Cluster
from e2e.controlplane.process import kill
from e2e.controlplane.service import Service
from e2e.fleet.bed import ACCOUNT, grant
from e2e.fleet.joining import (
    ACCOUNT_ON_HUB,
    ACCOUNTS,
    AGENT,
    AGENT_WORDS,
    CLUSTER_ROLE,
    CONFIG_MAP,
    DEFINITION,
    DEPLOYMENT,
    HUB_SECRET,
    MEMBER,
    NAMESPACE,
    NOBODY,
    ROLE,
    ROLE_BINDING,
    SECRET,
    Pair,
    leave_without_the_member,
    only_error,
    run_here,
)
from e2e.fleet.objects import condition_of, make_config_map, make_namespace, make_placement
from e2e.fleet.processes import SYSTEM
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import APPLIED_WORK, KINDS, MEMBER_CLUSTER, PLACEMENT
from scorer.api.names import ALLOW_DELETION
from tests.thoroughness import SOAK
from webhook.kube.client.api_server import ApiServer
from webhook.kube.login.credentials import read_endpoint
from webhook.kube.webhook_configurations.ca_bundles import CONFIGURATIONS
from webhook.processes.agent_installation import Image, InstallMethod
from webhook.processes.join import Join, JoinOptions
from webhook.processes.leave import Leave, LeaveOptions
from webhook.processes.node_rights import NodeRights
from webhook.processes.rbac import agent_roles, default_applied
from webhook.processes.sides import JoinError, Side
from webhook.settings.gate import NodeDisruptionMode

SPACE = f"fleet-member-{MEMBER}"
SERVER = "harbormaster-serve"
WITH_AGENT = ("--agent=manifests", "--image=example.com/harbormaster:1")


def test_a_second_run_changes_nothing_and_says_so(pair: Pair) -> None:
    pair.join("-l", "region=eu", *WITH_AGENT)
    before = pair.everything()
    again = pair.join(*WITH_AGENT)
    assert pair.everything() == before
    assert f"{MEMBER} is up to date: nothing was changed" in again
    assert {line.rpartition(" ")[2] for line in again.splitlines() if line.startswith(("hub:", "member:"))} == {
        "unchanged"
    }


def test_what_was_changed_by_hand_is_put_right_and_a_good_token_stays(pair: Pair) -> None:
    pair.join("-l", "region=eu", "-l", "tier=1")
    token = pair.token()
    pair.on_hub.delete(ROLE_BINDING, ACCOUNT_ON_HUB, SYSTEM)
    pair.in_member.patch(CLUSTER_ROLE, AGENT, {"rules": []})
    pair.on_hub.patch(MEMBER_CLUSTER, MEMBER, {"metadata": {"labels": {"owner": "us"}}})
    changed = [line for line in pair.join("-l", "tier=2").splitlines() if not line.endswith("unchanged")]
    assert changed[:3] == [
        f"member: ClusterRole {AGENT} changed",
        f"hub:    RoleBinding {SYSTEM}/{ACCOUNT_ON_HUB} created",
        f"hub:    MemberCluster {MEMBER} changed",
    ]
    assert pair.token() == token
    labels = pair.on_hub.get(MEMBER_CLUSTER, MEMBER)["metadata"]["labels"]
    assert labels == {"region": "eu", "tier": "2", "owner": "us"}


def test_a_definition_of_a_newer_release_stays(pair: Pair) -> None:
    """With its field would go what the agent of that release has written there."""
    pair.join()
    ours = pair.in_member.get(DEFINITION, APPLIED_WORK.resource)["spec"]["versions"]
    versions = json.loads(json.dumps(ours))
    properties = versions[-1]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    properties["novelty"] = {"type": "string"}
    pair.in_member.patch(DEFINITION, APPLIED_WORK.resource, {"spec": {"versions": versions}})
    before = pair.everything()
    assert f"CustomResourceDefinition {APPLIED_WORK.resource} unchanged" in pair.join()
    assert pair.everything() == before
    pair.in_member.patch(DEFINITION, APPLIED_WORK.resource, {"spec": {"versions": ours}})


def test_a_token_that_the_hub_does_not_accept_is_replaced(pair: Pair) -> None:
    pair.join()
    pair.set_token(pair.hub.token_of(SYSTEM, "harbormaster-reconcile"))  # accepted, and another account's
    assert f"member: Secret {SYSTEM}/{HUB_SECRET} changed" in pair.join()
    assert pair.user_of(pair.token()) == f"system:serviceaccount:{SYSTEM}:{ACCOUNT_ON_HUB}"


def test_the_account_may_ask_for_its_own_tokens_and_do_nothing_else(pair: Pair) -> None:
    pair.join()
    for account, allowed in ((ACCOUNT_ON_HUB, True), ("harbormaster-reconcile", False), ("default", False)):
        assert may(pair.hub, "create", "serviceaccounts", account, "token") is allowed
    for verb, plural in (("get", "serviceaccounts"), ("get", "secrets"), ("list", "memberclusters"), ("list", "pods")):
        assert not may(pair.hub, verb, plural, ACCOUNT_ON_HUB)
    token = pair.token()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert 0 < claims["exp"] - claims["iat"] <= 3600, "the agent gets a longer one for it when it starts"


def may(hub: Cluster, verb: str, resource: str, name: str, subresource: str = "") -> bool:
    attributes = {"namespace": SYSTEM, "verb": verb, "resource": resource, "name": name, "subresource": subresource}
    spec = {"user": f"system:serviceaccount:{SYSTEM}:{ACCOUNT_ON_HUB}", "resourceAttributes": attributes}
    question = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer, _ = hub.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", question)
    return bool(answer["status"]["allowed"])


def test_the_deployment_fits_restricted_pod_security_and_runs_what_the_agents_here_run(pair: Pair) -> None:
    pair.join(*WITH_AGENT)
    found = pair.in_member.get(DEPLOYMENT, AGENT, SYSTEM)
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    pair.in_member.patch(NAMESPACE, SYSTEM, {"metadata": {"labels": restricted}})
    template = found["spec"]["template"]
    pod = {"metadata": {"name": "one", "labels": template["metadata"]["labels"]}, "spec": template["spec"]}
    made, _ = pair.member.request("POST", f"/api/v1/namespaces/{SYSTEM}/pods?dryRun=All", pod)
    assert made["spec"]["serviceAccountName"] == AGENT
    container = template["spec"]["containers"][0]
    loose = {**pod, "spec": {**pod["spec"], "containers": [{**container, "securityContext": {}}]}}
    with pytest.raises(ApiError, match="violates PodSecurity"):
        pair.member.request("POST", f"/api/v1/namespaces/{SYSTEM}/pods?dryRun=All", loose)
    assert [*container["command"][1:], *container["args"]] == [*AGENT_WORDS]


def test_an_agent_says_what_is_wrong_with_its_secret(pair: Pair) -> None:
    pair.join()
    pair.in_member.patch(SECRET, HUB_SECRET, {"data": {"member": base64.b64encode(b"paris").decode()}}, SYSTEM)
    agent = pair.start_agent(wait=False)
    wait_until("it ends", lambda: "it runs" if agent.program.running else "")
    assert f"Secret {SYSTEM}/{HUB_SECRET} on the member: data.member: 'paris'" in agent.program.last_words()


class CrashError(Exception):
    """The command ends here."""


def crash_after(count: int, lines: list[str]) -> Callable[[str], None]:
    """What takes the lines of a command, and ends it with number *count*; 0: never."""

    def report(line: str) -> None:
        lines.append(line)
        if len(lines) == count:
            raise CrashError

    return report


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[tuple[Side, Side]]:
    """The two sides, as the commands have them."""
    async with (
        await ApiServer.connect(kubeconfig, "hub") as hub,
        await ApiServer.connect(kubeconfig, "member") as member,
    ):
        yield Side("hub", "hub", hub), Side("member", "member", member)


async def join_until(pair: Pair, count: int = 0) -> list[str]:
    """Join, and end after *count* objects; return what became of each."""
    kubeconfig, lines = pair.kubeconfig(), list[str]()
    options = JoinOptions(
        MEMBER,
        await read_endpoint(kubeconfig, "hub"),
        SYSTEM,
        SYSTEM,
        lambda wide, nodes: agent_roles(default_applied(control_plane=wide), SYSTEM, nodes=nodes),
        {},
        image=Image.parse("example.com/harbormaster:1"),
        method=InstallMethod.MANIFESTS,
    )
    async with connected(kubeconfig) as (hub, member):
        with suppress(CrashError):
            await Join(hub, member, options, crash_after(count, lines), None).run(dry_run=False)
    return lines


async def leave_until(pair: Pair, count: int = 0) -> list[str]:
    """Leave, and end after *count* objects; return what became of each."""
    lines = list[str]()
    async with connected(pair.kubeconfig()) as (hub, member):
        leaving = Leave(hub, member, LeaveOptions(MEMBER, SYSTEM, SYSTEM), crash_after(count, lines), None)
        with suppress(CrashError):
            await leaving.check()
            await leaving.request_departure(dry_run=False)
            assert not await leaving.waited_on()  # nothing holds the MemberCluster here
            await leaving.clear(dry_run=False)
    return lines


@pytest.mark.soak
def test_a_crash_after_any_write_of_either_command_is_repaired_by_the_next_run(pair: Pair) -> None:
    """Nothing runs here but the commands: whether an agent is there does not change what they write."""
    written = asyncio.run(join_until(pair))
    removed = asyncio.run(leave_until(pair))
    assert len(written) > 10
    assert len(removed) > 8
    for count in range(1, max(len(written), len(removed)) + 1, 1 if SOAK else 5):
        interrupted = asyncio.run(join_until(pair, count))
        repaired = asyncio.run(join_until(pair))
        assert [line.endswith("unchanged") for line in repaired[:count]] == [True] * len(interrupted)
        assert all(line.endswith("unchanged") for line in asyncio.run(join_until(pair)))
        assert pair.user_of(pair.token())
        interrupted = asyncio.run(leave_until(pair, count))
        rest = asyncio.run(leave_until(pair))
        assert sorted([*interrupted, *rest]) == sorted(removed)
        names = (MEMBER, f"/{AGENT}", HUB_SECRET)
        assert not [name for name in pair.everything() if any(each in name for each in names)]
        assert asyncio.run(leave_until(pair)) == []


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["--context=none"], "has no context 'none', available: hub, member", id="no-hub"),
        pytest.param(["--member-context=none"], "has no context 'none', available: hub, member", id="no-member"),
        pytest.param(
            ["--context=member", "--member-context=hub"],
            "hub (context 'member'): does not serve MemberClusters. Install harbormaster there first",
            id="no-definitions-on-the-hub",
        ),
        pytest.param(
            ["--hub-namespace=elsewhere"], "hub (context 'hub'): has no namespace 'elsewhere'", id="not-installed-there"
        ),
        pytest.param(["--label=region"], "--label 'region': must be KEY=VALUE", id="no-label"),
        pytest.param(["--label=a b=c"], 'metadata.labels: Invalid value: "a b"', id="label-that-the-hub-refuses"),
        pytest.param(["--hub-server=nowhere"], "--hub-server 'nowhere'", id="no-address"),
        pytest.param(["--apply=roles"], "--apply 'roles': placing roles requires more rights", id="roles"),
        pytest.param(["--namespace=A"], "namespace: 'A'", id="namespace"),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_written(pair: Pair, words: list[str], complaint: str) -> None:
    before = pair.everything()
    assert complaint in only_error(pair.run("join", "--timeout=0", *words))
    assert pair.everything() == before


@pytest.mark.parametrize(("hub", "member"), [(NOBODY, "admin"), ("admin", NOBODY)], ids=["on-the-hub", "in-the-member"])
@pytest.mark.parametrize("command", ["join", "leave"])
def test_a_caller_without_rights_is_told_and_nothing_is_written(
    pair: Pair, hub: str, member: str, command: str
) -> None:
    before = pair.everything()
    said = only_error(pair.run(command, "--timeout=0", kubeconfig=pair.kubeconfig(hub, member)))
    side = "member" if hub == "admin" else "hub"
    assert said.startswith(f"{side} (context '{side}'): you may not get ")
    assert pair.everything() == before


def test_a_caller_who_may_only_read_is_told_before_anything_is_written(pair: Pair) -> None:
    """Each right by itself would be missing in the middle of the work, if rights were not asked about first."""
    reads = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    rules = [*reads, {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}]
    writes = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["create", "patch", "update", "escalate", "bind"]}
    tokens = {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]}
    without_tokens = [
        {**writes, "resources": ["serviceaccounts"], "apiGroups": [""]},
        {**writes, "apiGroups": ["rbac.authorization.k8s.io"]},
        {**writes, "apiGroups": ["cluster.kubernetes-fleet.io"]},
        {"apiGroups": ["authorization.k8s.io"], "resources": ["selfsubjectaccessreviews"], "verbs": ["create"]},
    ]
    for number, (more, complaint) in enumerate(
        [
            ([], "you may not apply ServiceAccount"),
            (without_tokens, f"you may not create ServiceAccount {SYSTEM}/{ACCOUNT_ON_HUB} (token)"),
            ([*without_tokens[:2], tokens], f"you may not write MemberCluster {MEMBER}"),
        ]
    ):
        objects = rights(f"some-{number}", [*rules, *more])
        pair.on_hub.apply(objects)
        try:
            before = pair.everything()
            said = only_error(pair.run("join", "--timeout=0", kubeconfig=pair.kubeconfig(NOBODY)))
            assert said.startswith("hub (context 'hub'): ")
            assert complaint in said
            assert pair.everything() == before
        finally:
            for document in objects:
                pair.on_hub.delete(KINDS["rbac.authorization.k8s.io", document["kind"]], document["metadata"]["name"])


def rights(name: str, rules: list[dict[str, list[str]]]) -> list[dict[str, object]]:
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": group, "kind": "User", "name": NOBODY}
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": name}}
    return [
        {**head, "kind": "ClusterRole", "rules": rules},
        {**head, "kind": "ClusterRoleBinding", "roleRef": role, "subjects": [subject]},
    ]


def test_a_cluster_of_another_hub_is_left_alone(pair: Pair) -> None:
    pair.in_member.apply([make_namespace(SYSTEM)])
    pair.in_member.create(make_config_map("harbormaster-member", SYSTEM, hub="another", member=MEMBER))
    before = pair.everything()
    for command in ("join", "leave"):
        said = only_error(pair.run(command, "--timeout=0"))
        assert f"this cluster is recorded as member {MEMBER} of hub another, not as member {MEMBER} of hub " in said
    assert pair.everything() == before


def test_a_cluster_that_is_prepared_for_another_member_is_left_alone(pair: Pair) -> None:
    pair.join()
    before = pair.everything()
    for command in ("join", "leave"):
        said = only_error(pair.run(command, "--timeout=0", name="paris"))
        assert f"Secret {SYSTEM}/{HUB_SECRET} is that of member {MEMBER} of hub " in said
    assert pair.everything() == before


def test_a_name_that_another_cluster_was_given_is_refused_before_its_agent_runs(pair: Pair) -> None:
    pair.join()
    before = pair.everything()
    uid = pair.in_member.get(NAMESPACE, "kube-system")["metadata"]["uid"]
    for command, advice in (("join", "add --take-over"), ("leave", "leave without --member-context")):
        said = only_error(pair.run(command, "--timeout=0", "--member-context=hub"))
        assert f"member {MEMBER} is the cluster whose kube-system has the uid {uid}, not member (context 'hub')" in said
        assert said.endswith(advice)
    assert pair.everything() == before


def test_a_member_with_another_identity_is_left_alone(pair: Pair) -> None:
    identity = {"kind": "User", "name": "ann"}
    document = {"apiVersion": "cluster.kubernetes-fleet.io/v1", "kind": "MemberCluster", "metadata": {"name": MEMBER}}
    pair.on_hub.create({**document, "spec": {"identity": identity}})
    before = pair.everything()
    said = only_error(pair.run("join", "--timeout=0"))
    assert f"spec.identity is User ann, not ServiceAccount {SYSTEM}/{ACCOUNT_ON_HUB}" in said
    assert pair.everything() == before


def test_a_cluster_that_does_not_answer_is_named(pair: Pair) -> None:
    before = pair.everything()
    broken = pair.kubeconfig(server="https://127.0.0.1:1")
    for command in ("join", "leave"):
        said = only_error(pair.run(command, "--timeout=0", kubeconfig=broken))
        assert said.startswith("hub (context 'hub'): https://127.0.0.1:1 does not answer GET")
    unchecked = pair.kubeconfig(**{"insecure-skip-tls-verify": True, "certificate-authority-data": None})
    assert "insecure-skip-tls-verify: must not be true: the certificate of" in only_error(
        pair.run("join", "--timeout=0", kubeconfig=unchecked)
    )
    assert pair.everything() == before


def groups(pair: Pair) -> set[str]:
    """The API groups that the agent's roles name."""
    return {group for rule in pair.in_member.get(CLUSTER_ROLE, AGENT)["rules"] for group in rule.get("apiGroups", ())}


def test_a_right_that_an_agent_holds_stays_when_its_member_joins_again(pair: Pair) -> None:
    """As one does that an earlier release has made."""
    hooks = "admissionregistration.k8s.io"
    pair.join()
    assert hooks not in groups(pair)
    pair.join("--apply-control-plane")
    wide = groups(pair)
    assert hooks in wide
    assert f"ClusterRole {AGENT} unchanged" in pair.join()
    assert groups(pair) == wide


def test_a_role_that_reads_or_that_another_hub_left_grants_nothing_more(pair: Pair) -> None:
    hooks = "admissionregistration.k8s.io"
    pair.join()
    role = pair.in_member.get(CLUSTER_ROLE, AGENT)
    reads = {"apiGroups": [hooks], "resources": ["validatingwebhookconfigurations"], "verbs": ["get"]}
    pair.in_member.patch(CLUSTER_ROLE, AGENT, {"rules": [*role["rules"], reads]})
    pair.join()
    assert hooks not in groups(pair)
    pair.join("--apply-control-plane")
    pair.in_member.delete(SECRET, HUB_SECRET, SYSTEM)
    pair.join()
    assert hooks not in groups(pair)


def test_an_agent_that_disrupts_nodes_still_may_when_its_member_joins_again(pair: Pair) -> None:
    pair.join()
    nodes = NodeRights(NodeDisruptionMode.ACT, "karpenter-of-this-member")
    acting = agent_roles(default_applied(control_plane=False), SYSTEM, nodes=nodes)
    for kind, role in zip((CLUSTER_ROLE, ROLE), acting, strict=True):
        pair.in_member.patch(kind, role.name, {"rules": [rule.document() for rule in role.rules]}, role.namespace)
    lines = pair.join()
    assert f"ClusterRole {AGENT} unchanged" in lines
    assert f"Role {SYSTEM}/{AGENT} unchanged" in lines


def test_a_member_that_is_created_anew_after_the_question_remains(pair: Pair) -> None:
    pair.join()

    async def depart() -> None:
        async with connected(pair.kubeconfig()) as (hub, member):
            leaving = Leave(hub, member, LeaveOptions(MEMBER, SYSTEM, SYSTEM), lambda _: None, None)
            await leaving.request_departure(dry_run=True)
            pair.on_hub.delete(MEMBER_CLUSTER, MEMBER)
            await asyncio.to_thread(pair.join)
            await leaving.request_departure(dry_run=False)

    with pytest.raises(JoinError, match="was recreated"):
        asyncio.run(depart())
    assert pair.on_hub.find(MEMBER_CLUSTER, MEMBER)


def test_a_member_that_is_lost_leaves_without_it(pair: Pair) -> None:
    """Here nothing holds the MemberCluster; that the loop lets it go after a while is a matter of e2e/soak."""
    pair.join()
    leave_without_the_member(pair)
    pair.leave()
    assert not pair.in_member.find(SECRET, HUB_SECRET, SYSTEM)


def test_join_says_where_no_loop_runs(pair: Pair) -> None:
    said = only_error(pair.run("join", "--timeout=1"))
    assert (
        "the loop has not processed the MemberCluster. Check that `harbormaster reconcile` is running on the hub"
    ) in said


def test_a_member_joins_gets_what_is_placed_and_leaves_with_it(pair_with_loop: Pair) -> None:
    pair = pair_with_loop
    before = pair.everything()
    shown = pair.join("--dry-run", "-l", "region=eu")
    assert pair.everything() == before
    done = pair.join("-l", "region=eu", in_process=False)
    assert [line.replace("would be ", "") for line in shown.splitlines()] == done.splitlines()[
        : len(shown.splitlines())
    ]

    pair.start_agent()
    assert pair.run("join", "-l", "region=eu", "--timeout=120").stdout.endswith(f"{MEMBER} is Joined and Healthy\n")
    member = pair.on_hub.get(MEMBER_CLUSTER, MEMBER)
    assert member["metadata"]["labels"]["region"] == "eu"
    assert condition_of(member, "Joined")["status"] == "True"

    pair.on_hub.create(make_namespace("shop"))
    pair.on_hub.create(make_config_map("prices", "shop", bread="3"))
    pair.on_hub.create(make_placement("shop"))
    placed = lambda: pair.in_member.find(CONFIG_MAP, "prices", "shop")  # noqa: E731
    wait_until("it is placed", lambda: "" if placed() else "it is not there")
    uid, token = placed()["metadata"]["uid"], pair.token()
    assert pair.user_of(token) == f"system:serviceaccount:{SYSTEM}:{ACCOUNT_ON_HUB}"

    assert pair.leave("--timeout=120", in_process=False).endswith(f"{MEMBER} has left\n")
    assert placed()["metadata"]["uid"] == uid
    assert pair.in_member.all(APPLIED_WORK)
    assert not pair.on_hub.find(NAMESPACE, SPACE)
    assert not pair.on_hub.find(ACCOUNTS, ACCOUNT_ON_HUB, SYSTEM)
    assert not pair.on_hub.find(ROLE, ACCOUNT_ON_HUB, SYSTEM)
    assert not pair.in_member.find(SECRET, HUB_SECRET, SYSTEM)
    assert not pair.in_member.find(ACCOUNTS, AGENT, SYSTEM)
    assert not pair.in_member.find(CLUSTER_ROLE, AGENT)
    wait_until("its token ends", lambda: pair.user_of(token))

    after = pair.everything()
    assert "no changes made" in pair.leave()
    assert pair.everything() == after
    pair.on_hub.delete(PLACEMENT, "shop")


def test_a_kind_that_acts_on_every_request_is_not_placed_and_says_why(pair_with_loop: Pair) -> None:
    pair = pair_with_loop
    hooks = KINDS["admissionregistration.k8s.io", "ValidatingWebhookConfiguration"]
    selector = {"group": hooks.group, "version": "v1", "kind": hooks.kind, "name": "harmless"}
    about = {"apiVersion": f"{hooks.group}/v1", "kind": hooks.kind, "metadata": {"name": "harmless"}}
    pair.join()
    pair.start_agent()
    pair.on_hub.create(about)
    pair.on_hub.create(make_placement("hooks", resourceSelectors=[selector]))

    def problem() -> str:
        said = json.dumps(pair.on_hub.get(PLACEMENT, "hooks").get("status"))
        return "" if "rbac.applyControlPlane=true" in said else said

    wait_until("the placement names the right", problem)
    assert not pair.in_member.find(hooks, "harmless")
    pair.join("--apply-control-plane")
    wait_until("it is placed", lambda: "" if pair.in_member.find(hooks, "harmless") else "it is not there")
    pair.on_hub.delete(PLACEMENT, "hooks")
    pair.on_hub.delete(hooks, "harmless")
    pair.leave("--timeout=120")


def test_the_token_is_renewed_again_and_again_and_outlives_a_kill(pair_with_loop: Pair) -> None:
    pair = pair_with_loop
    pair.join()
    seen = [pair.token()]
    first = pair.start_agent(hub_token_renewal_seconds=0.2)

    def follow(number: int) -> None:
        for _ in range(number):
            wait_until("another token", lambda: "" if pair.token() != seen[-1] else "the same")
            seen.append(pair.token())

    follow(3)
    assert len(set(seen)) == len(seen)
    pair.stop_agent(killed=True)
    last = pair.token()
    agent = pair.start_agent(hub_token_renewal_seconds=3600)  # at every start, too
    wait_until("a new token at the start", lambda: "" if pair.token() != last else "the same")
    assert not any("not renewed" in line for line in agent.program.log.read_text(encoding="utf-8").splitlines())
    logs = [each.program.log.read_text(encoding="utf-8") for each in (first, agent)]
    assert not [token for token in (*seen, last, pair.token()) if any(token in log for log in logs)]


def test_a_cluster_of_a_hub_that_is_lost_can_be_taken_over(pair_with_loop: Pair) -> None:
    pair = pair_with_loop
    pair.in_member.apply([make_namespace(SYSTEM)])
    pair.in_member.create(make_config_map("harbormaster-member", SYSTEM, hub="another", member="paris"))
    assert only_error(pair.run("join", "--timeout=0")).endswith("or if that hub is lost, add --take-over")
    pair.join("--take-over", *WITH_AGENT)
    words = pair.in_member.get(DEPLOYMENT, AGENT, SYSTEM)["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--take-over" in words
    pair.start_agent(words=("--take-over",))
    assert pair.run("join", "--timeout=120", *WITH_AGENT).returncode == 0
    assert pair.in_member.get(CONFIG_MAP, "harbormaster-member", SYSTEM)["data"]["member"] == MEMBER
    words = pair.in_member.get(DEPLOYMENT, AGENT, SYSTEM)["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--take-over" not in words


def test_a_name_that_another_cluster_has_is_refused(pair_with_loop: Pair) -> None:
    pair = pair_with_loop
    pair.join()
    pair.start_agent()
    pair.run("join", "--timeout=120")
    before = pair.everything()
    # The hub itself knows nothing of being this member; it has been one some time ago.
    pair.on_hub.create(make_config_map("harbormaster-member", SYSTEM))
    said = only_error(pair.run("join", "--timeout=0", "--member-context=hub"))
    assert f"member {MEMBER} has already joined, but member (context 'hub') has no record of it" in said
    pair.on_hub.delete(CONFIG_MAP, "harbormaster-member", SYSTEM)
    assert pair.everything().keys() == before.keys()


def test_leaving_keeps_the_definition_and_what_was_there_before_join(pair_with_loop: Pair) -> None:
    pair = pair_with_loop
    pair.in_member.apply(
        [
            make_namespace(SYSTEM),
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": AGENT, "namespace": SYSTEM}},
        ]
    )
    there = pair.in_member.get(ACCOUNTS, AGENT, SYSTEM)["metadata"]["resourceVersion"]
    pair.join()
    assert pair.in_member.get(ACCOUNTS, AGENT, SYSTEM)["metadata"]["resourceVersion"] == there
    pair.start_agent()
    pair.run("join", "--timeout=120")
    shown = pair.leave("--dry-run")
    where = ("--context=hub", "--member-context=member", f"--kubeconfig={pair.kubeconfig()}")
    asked = run_here("leave", MEMBER, *where)  # its standard input is no terminal
    assert (asked.returncode, asked.stdout) == (1, shown)
    assert asked.stderr == "error: not confirmed: standard input is not a terminal, use --yes\n"
    assert pair.on_hub.find(MEMBER_CLUSTER, MEMBER)
    done = pair.leave("--timeout=120")
    assert [line.replace("would be ", "") for line in shown.splitlines()] == done.splitlines()[:-1]
    assert pair.in_member.find(ACCOUNTS, AGENT, SYSTEM)
    assert not pair.in_member.find(CLUSTER_ROLE, AGENT)
    assert pair.in_member.find(DEFINITION, APPLIED_WORK.resource)


def readiness(port: int) -> str:
    """What the readiness probe of an agent says is wrong."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz?verbose", timeout=5) as answer:
            return str(answer.read().decode()) if answer.status != 200 else ""
    except urllib.error.HTTPError as error:
        return error.read().decode()


def test_an_agent_keeps_working_while_the_hub_is_away_and_renews_when_it_is_back(
    pair_with_loop: Pair,
) -> None:
    pair = pair_with_loop
    pair.join()
    agent = pair.start_agent(hub_token_renewal_seconds=0.5)
    pair.hub.apiserver.stop(number=signal.SIGKILL)
    try:
        wait_until("it says so", lambda: "" if "hub-token" in readiness(agent.http_port) else "it does not")
        kept = pair.token()
        pair.stop_agent(killed=True)
        pair.start_agent(wait=False, hub_token_renewal_seconds=0.5)
        wait_until("it starts", lambda: "" if pair.agent is not None and pair.agent.live() else "it is not alive")
        assert pair.token() == kept
    finally:
        pair.hub.start()
    assert pair.agent is not None
    pair.agent.wait_ready()
    wait_until("a new token", lambda: "" if pair.token() != kept else "the same")


def test_a_running_agent_whose_token_has_ended_takes_the_one_that_join_writes(pair_with_loop: Pair) -> None:
    pair = pair_with_loop
    pair.join()
    agent = pair.start_agent(hub_token_renewal_seconds=0.5)
    pair.on_hub.delete(ACCOUNTS, ACCOUNT_ON_HUB, SYSTEM)  # which ends all its tokens
    wait_until("it says so", lambda: "" if "hub-token" in readiness(agent.http_port) else "it does not")
    pair.join()
    agent.wait_ready()
    wait_until("it is accepted", lambda: "" if pair.user_of(pair.token()) else "it is not")


@contextmanager
def serving(pair: Pair) -> Iterator[Service]:
    """The server of the hub as its own account, which the hub asks; *pair* has the account until the block ends."""
    service = Service(pair.hub, pair.folder / "serve", {}, install_server(pair))
    try:
        service.start()
        service.register(ACCOUNT)
        yield service
    finally:
        for kind in CONFIGURATIONS:
            pair.on_hub.delete(kind, "harbormaster")
        kill(service.program)


def install_server(pair: Pair) -> Path:
    """Make the account of the server, and return its kubeconfig, which is always the same file."""
    grant(pair.hub, "serve", SERVER)
    return pair.hub.write_kubeconfig("serve", pair.hub.token_of(SYSTEM, SERVER))


def test_loop_server_and_agent_survive_the_namespace_of_the_installation(pair_with_loop: Pair) -> None:
    """Its deletion is refused. When it is meant all the same, all go on with the accounts that are made anew."""
    pair = pair_with_loop
    loop = pair.loop
    assert loop is not None
    pair.join()
    agent = pair.start_agent()
    pair.run("join", "--timeout=120")
    pair.on_hub.apply([make_namespace("kiosk"), make_config_map("prices", "kiosk", bread="3"), make_placement("kiosk")])

    def bread() -> str:
        found = pair.in_member.find(CONFIG_MAP, "prices", "kiosk")
        return str(found["data"]["bread"]) if found else "not placed"

    wait_until("it is placed", lambda: "" if bread() == "3" else f"bread is {bread()}")
    uid = pair.in_member.get(NAMESPACE, "kiosk")["metadata"]["uid"]
    pair.on_hub.apply(
        [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "asker", "namespace": "kiosk"}}]
    )
    with serving(pair) as service:
        with pytest.raises(ApiError, match="helm uninstall"):
            pair.on_hub.delete(NAMESPACE, SYSTEM)
        pair.on_hub.patch(NAMESPACE, SYSTEM, {"metadata": {"annotations": {ALLOW_DELETION: "true"}}})
        pair.on_hub.delete(NAMESPACE, SYSTEM)
        wait_until("it is gone", lambda: "it is there" if pair.on_hub.find(NAMESPACE, SYSTEM) else "")
        wait_until("the token has ended", lambda: pair.user_of(pair.token()))
        assert bread() == "3"

        grant(pair.hub, "reconcile", ACCOUNT)
        pair.hub.write_kubeconfig("loop", pair.hub.token_of(SYSTEM, ACCOUNT))
        install_server(pair)
        pair.join()
        pair.on_hub.patch(CONFIG_MAP, "prices", {"data": {"bread": "4"}}, "kiosk")
        wait_until("the change is placed", lambda: "" if bread() == "4" else f"bread is {bread()}")
        for role in (loop, agent):
            role.wait_ready()

        def answer() -> int:
            audience = f"harbormaster.{SYSTEM}.svc"
            return service.ask("GET", "/v1/placements", token=pair.hub.token_of("kiosk", "asker", audience)).status

        wait_until("the server asks the hub who asks", lambda: "" if answer() == 403 else f"it says {answer()}")
        assert service.ready()
    assert pair.in_member.get(NAMESPACE, "kiosk")["metadata"]["uid"] == uid
    pair.on_hub.delete(PLACEMENT, "kiosk")
    pair.leave("--timeout=120")
    for objects in (pair.on_hub, pair.in_member):
        objects.delete(NAMESPACE, "kiosk")


def test_when_the_time_is_up_both_commands_say_what_is_missing(pair_with_loop: Pair) -> None:
    pair = pair_with_loop
    said = ""

    def problem() -> str:
        nonlocal said
        said = only_error(pair.run("join", "--timeout=1"))
        waits = said.startswith(
            f"timed out after 1 s waiting for {MEMBER} to join: its agent has not reported to the hub"
        )
        return "" if waits else said

    wait_until("the loop has done its part", problem)
    assert f"has no Deployment {SYSTEM}/{AGENT}" in said
    said = only_error(pair.run("join", "--timeout=1", *WITH_AGENT))
    assert f"No Pod of Deployment {SYSTEM}/{AGENT} in member (context 'member') is available" in said
    pair.stop_loop()
    said = only_error(pair.run("leave", "--timeout=1"))
    assert said.startswith(f"timed out after 1 s waiting for {MEMBER} to leave: ")
    assert pair.in_member.find(SECRET, HUB_SECRET, SYSTEM)
    assert pair.on_hub.find(ACCOUNTS, ACCOUNT_ON_HUB, SYSTEM)
