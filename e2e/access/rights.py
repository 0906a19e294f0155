"""Who may do what: the rows of docs/who-may-do-what.md, and what a real API server or replica is asked for each."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from scorer.api.names import WORK_CLEANUP
from scorer.membership.access import agent_rules

NAMESPACE: Final = "quayside"
"""Of the installation."""
MEMBER: Final = "berlin"
SPACE: Final = f"fleet-member-{MEMBER}"
OTHERS: Final = "fleet-member-paris"
SECRET: Final = "harbormaster-ca"
LEASE: Final = "harbormaster-reconcile"
FLEET: Final = "placement.kubernetes-fleet.io"
CLUSTERS: Final = "cluster.kubernetes-fleet.io"
RBAC: Final = "rbac.authorization.k8s.io"
HOOKS: Final = "admissionregistration.k8s.io"
AGGREGATION: Final = "apiregistration.k8s.io"
CORE: Final = ""

AGENT_ON_HUB: Final = "an agent, on the hub"
AGENT: Final = "an agent, in its member"
LOOP: Final = "the loop"
SERVER: Final = "the server"
ANYBODY: Final = "a caller without credentials"
STRANGER: Final = "a caller without a role"
SCORER: Final = "a caller with a role for `/v1/score` and `/v1/placements/*`"
SCHEDULER: Final = "a scheduler with its certificate"
ACCOUNTS: Final[Mapping[str, str]] = {
    AGENT_ON_HUB: f"system:serviceaccount:{NAMESPACE}:member-{MEMBER}",
    AGENT: f"system:serviceaccount:{NAMESPACE}:harbormaster-agent",
    LOOP: f"system:serviceaccount:{NAMESPACE}:harbormaster-reconcile",
    SERVER: f"system:serviceaccount:{NAMESPACE}:harbormaster-serve",
}
"""The users of an API server."""


@dataclass(frozen=True, slots=True)
class Right:
    """Whether the API server's authorizer allows something; it decides that by itself, so it is asked to say so."""

    verbs: tuple[str, ...]
    resource: str
    group: str = CORE
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """A request that the API server gets, as a dry run: also its policies and what holds for roles decide.

    Args:
        method: ``GET`` and so on.
        path: Without a query.
        body: Sent with it; None: what is there already.
        because: What a refusal says.
    """

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    because: str = "is forbidden"


@dataclass(frozen=True, slots=True)
class Question:
    """A request that a replica of the server gets over HTTPS.

    Args:
        method: ``GET`` and so on.
        path: With its query.
        status: What comes back.
        body: Sent with it.
        audience: Of the token; empty: the usual one.
    """

    method: str
    path: str
    status: int
    body: Mapping[str, Any] | None = None
    audience: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table.

    Args:
        name: Of the check.
        who: Who asks.
        may: Whether they may.
        what: Do what, in words.
        asked: All of it is allowed, or none of it.
    """

    name: str
    who: str
    may: bool
    what: str
    asked: tuple[Right | Request | Question, ...] = field(repr=False)


def _named(kind: str, name: str, group: str = CORE, **rest: Any) -> dict[str, Any]:
    version = {CORE: "v1", "coordination.k8s.io": "coordination.k8s.io/v1", RBAC: f"{RBAC}/v1"}[group]
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}


WRITING: Final = ("create", "update", "patch", "delete")
READING: Final = ("get", "list", "watch")
_LEASES: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_SECRETS: Final = f"/api/v1/namespaces/{NAMESPACE}/secrets"
_ACCOUNTS: Final = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
_TOKEN: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
_LONG_TOKEN: Final = _TOKEN | {"spec": {"expirationSeconds": 30 * 86_400 + 1}}
_LEASE: Final[Mapping[str, Any]] = {"spec": {"holderIdentity": "another"}}
_WIDE: Final[Mapping[str, Any]] = {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}
_TLS: Final[Mapping[str, Any]] = {"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}
_SCORE: Final = {"placement": {"inline": {"placementType": "PickAll"}}}
_CLOSED: Final = {"placement": {"ref": {"kind": "ClusterResourcePlacement", "name": "closed"}}}
_OWNER: Final = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never-there", "uid": "1"}
_WORK_CHANGES: Final[tuple[Mapping[str, Any], ...]] = (
    {"metadata": {"labels": {"kubernetes-fleet.io/parent-CRP": "vault"}}},
    {"metadata": {"labels": None}},
    {"metadata": {"annotations": {"harbormaster.dev/provenance": "0"}}},
    {"metadata": {"ownerReferences": [_OWNER]}},
    {"metadata": {"finalizers": []}},
    {"metadata": {"finalizers": ["example.com/others", "example.com/more"]}},
    {"spec": {"workload": {"manifests": [_named("ConfigMap", "forged")]}}},
    {"spec": {"applyStrategy": {"type": "ReportDiff"}}},
)
_WORK: Final = f"/apis/{FLEET}/v1/namespaces/{SPACE}/works/held"
_POD: Final = {"Pod": {"metadata": {"name": "a"}}, "NodeNames": []}

ROWS: Final = (
    Row("agent-own-works", AGENT_ON_HUB, True, "read its own Works and report their status", (
        Right(("get", "list", "watch"), "works", FLEET, SPACE),
        Right(("update", "patch"), "works/status", FLEET, SPACE),
        Request("GET", f"/apis/{FLEET}/v1/namespaces/{SPACE}/works"),
    )),
    Row("agent-other-works", AGENT_ON_HUB, False, "read or write the Works of another member", (
        Right((*READING, *WRITING), "works", FLEET, OTHERS),
        Right(("update", "patch"), "works/status", FLEET, OTHERS),
        Request("GET", f"/apis/{FLEET}/v1/namespaces/{OTHERS}/works"),
        Request("GET", f"/apis/{FLEET}/v1/works"),
    )),
    Row("agent-finalizer", AGENT_ON_HUB, True, "set and remove its own finalizer on a Work", (
        Request("PATCH", _WORK, {"metadata": {"finalizers": [WORK_CLEANUP, "example.com/others"]}}),
        Request("PATCH", _WORK, {"metadata": {"finalizers": ["example.com/others"]}}),
        Request("PATCH", f"{_WORK}/status", {"status": {"conditions": []}}),
    )),
    Row("agent-changes-works", AGENT_ON_HUB, False, "change anything else of its Works", tuple(
        Request("PATCH", _WORK, change, "may write only") for change in _WORK_CHANGES
    )),
    Row("agent-makes-works", AGENT_ON_HUB, False, "create or delete Works, its own included", (
        Right(("create", "delete", "deletecollection"), "works", FLEET, SPACE),
        Request("DELETE", f"/apis/{FLEET}/v1/namespaces/{SPACE}/works/any"),
    )),
    Row("agent-members", AGENT_ON_HUB, False, "read or write MemberClusters, its own included", (
        Right((*READING, *WRITING), "memberclusters", CLUSTERS),
        Request("GET", f"/apis/{CLUSTERS}/v1/memberclusters/{MEMBER}"),
        Request("DELETE", f"/apis/{CLUSTERS}/v1/memberclusters/{MEMBER}"),
    )),
    Row("agent-hub-objects", AGENT_ON_HUB, False, "read placements, bindings or Secrets of the hub", (
        Right(READING, "clusterresourceplacements", FLEET),
        Right(READING, "clusterresourcebindings", FLEET),
        Right(READING, "secrets", CORE, SPACE),
        Request("GET", _SECRETS),
        Request("GET", f"/api/v1/namespaces/{SPACE}/secrets"),
    )),
    Row("agent-own-token", AGENT_ON_HUB, True, "request a token for its own account", (
        Request("POST", f"{_ACCOUNTS}/member-{MEMBER}/token", _TOKEN),
    )),
    Row("agent-long-token", AGENT_ON_HUB, False, "request a token that is valid for more than 30 days", (
        Request("POST", f"{_ACCOUNTS}/member-{MEMBER}/token", _LONG_TOKEN),
    )),
    Row("agent-other-token", AGENT_ON_HUB, False, "request a token for another account", (
        Request("POST", f"{_ACCOUNTS}/harbormaster-reconcile/token", _TOKEN),
        Request("POST", f"{_ACCOUNTS}/member-paris/token", _TOKEN),
    )),
    Row("agent-applies", AGENT, True, "read and write the kinds that placements place there, including Secrets", (
        Right(WRITING, "deployments", "apps"),
        Right(WRITING, "secrets"),
    )),
    Row("agent-roles", AGENT, False, "write or bind roles, exec into Pods, or impersonate another user", (
        Right((*WRITING, "bind", "escalate"), "clusterroles", RBAC),
        Right(WRITING, "clusterrolebindings", RBAC),
        Right((*WRITING, "bind", "escalate"), "roles", RBAC),
        Right(WRITING, "rolebindings", RBAC),
        Right(("create",), "pods/exec"),
        Right(("impersonate",), "users"),
        Request("POST", f"/apis/{RBAC}/v1/clusterroles", _named("ClusterRole", "wide", RBAC, **_WIDE)),
    )),
    Row("loop-fleet", LOOP, True, "write bindings, snapshots and Works, and namespaces of members", (
        Right(("create", "update", "delete"), "clusterresourcebindings", FLEET),
        Right(("create", "update", "delete"), "clusterresourcesnapshots", FLEET),
        Right(("create", "update", "delete"), "works", FLEET),
        Request("POST", "/api/v1/namespaces", _named("Namespace", "fleet-member-oslo")),
    )),
    Row("loop-secrets", LOOP, False, "read or write Secrets other than its own (`--secrets` allows reading)", (
        Right((*READING, *WRITING), "secrets"),
        Request("GET", f"{_SECRETS}/{SECRET}"),
        Request("POST", _SECRETS, _named("Secret", "one-more"), "may write only"),
        Request("POST", _SECRETS, _named("Secret", "harbormaster-work-keys", **_TLS), "may write only"),
    )),
    Row("loop-keys", LOOP, True, "create and read the Secret with the keys that sign Works", (
        Right(("get",), "secrets", CORE, NAMESPACE, "harbormaster-work-keys"),
        Request("POST", _SECRETS, _named("Secret", "harbormaster-work-keys", type="Opaque")),
    )),
    Row("loop-namespaces", LOOP, False, "write namespaces other than those of members", (
        Request("POST", "/api/v1/namespaces", _named("Namespace", "payments"), "fleet-member-"),
        Request("DELETE", f"/api/v1/namespaces/{NAMESPACE}", because="fleet-member-"),
    )),
    Row("loop-roles", LOOP, False, "write roles in other namespaces, or roles with more rights than an agent has", (
        Request(
            "POST",
            f"/apis/{RBAC}/v1/namespaces/{NAMESPACE}/roles",
            _named("Role", "agents", RBAC, rules=agent_rules()),
            "fleet-member-",
        ),
        Request(
            "POST",
            f"/apis/{RBAC}/v1/namespaces/{SPACE}/roles",
            _named("Role", "wide", RBAC, **_WIDE),
            "not currently held",
        ),
    )),
    Row("loop-leases", LOOP, False, "write Leases other than its own and those of reservations", (
        Request("POST", _LEASES, _named("Lease", "another", "coordination.k8s.io", **_LEASE), "hb-res-"),
    )),
    Row("loop-members", LOOP, False, "create or delete MemberClusters, definitions or webhook configurations", (
        Right(("create", "delete"), "memberclusters", CLUSTERS),
        Right(WRITING, "customresourcedefinitions", "apiextensions.k8s.io"),
        Right(WRITING, "validatingwebhookconfigurations", HOOKS),
    )),
    Row("server-reads", SERVER, True, "read placements, members and nodes, and review tokens and rights", (
        Right(READING, "clusterresourceplacements", FLEET),
        Right(READING, "memberclusters", CLUSTERS),
        Right(READING, "nodes"),
        Right(("create",), "tokenreviews", "authentication.k8s.io"),
        Right(("create",), "subjectaccessreviews", "authorization.k8s.io"),
    )),
    Row("server-writes", SERVER, False, "write placements, bindings, Works, members or nodes", (
        Right(WRITING, "clusterresourceplacements", FLEET),
        Right(WRITING, "clusterresourcebindings", FLEET),
        Right(WRITING, "works", FLEET),
        Right(WRITING, "memberclusters", CLUSTERS),
        Right(WRITING, "nodes"),
        Request("DELETE", f"/apis/{CLUSTERS}/v1/memberclusters/{MEMBER}"),
    )),
    Row("server-reserves", SERVER, True, "write the Leases of reservations", (
        Request("POST", _LEASES, _named("Lease", "hb-res-1", "coordination.k8s.io", **_LEASE)),
    )),
    Row("server-lease-of-loop", SERVER, False, "write or delete the loop's Lease, or create other Leases", (
        Request("PUT", f"{_LEASES}/{LEASE}", because="hb-res-"),
        Request("DELETE", f"{_LEASES}/{LEASE}", because="hb-res-"),
        Request("POST", _LEASES, _named("Lease", "another", "coordination.k8s.io", **_LEASE), "hb-res-"),
    )),
    Row("server-own-secret", SERVER, True, "read and write the Secret of its certificate authority", (
        Right(("get", "update"), "secrets", CORE, NAMESPACE, SECRET),
        Request("PUT", f"{_SECRETS}/{SECRET}"),
    )),
    Row("server-other-secrets", SERVER, False, "read or create other Secrets", (
        Right(("get", "update", "patch", "delete"), "secrets", CORE, NAMESPACE, "another"),
        Right(READING, "secrets", CORE, "kube-system"),
        Request("GET", f"{_SECRETS}/another"),
        Request("POST", _SECRETS, _named("Secret", "one-more", **_TLS), "may write only"),
    )),
    Row("server-own-hooks", SERVER, True, "write the `caBundle` of its own webhook configurations", (
        Right(("get", "patch"), "validatingwebhookconfigurations", HOOKS, "", "harbormaster"),
        Right(("get", "patch"), "mutatingwebhookconfigurations", HOOKS, "", "harbormaster"),
    )),
    Row("server-other-hooks", SERVER, False, "create or delete webhook configurations, or write others", (
        Right(("create", "delete"), "validatingwebhookconfigurations", HOOKS),
        Right(("update", "patch"), "mutatingwebhookconfigurations", HOOKS, "", "another"),
    )),
    Row("server-own-api-service", SERVER, True, "write the `caBundle` of the APIService of the API for teams", (
        Right(("get", "patch", "watch"), "apiservices", AGGREGATION, "", "v1.answers.harbormaster.dev"),
    )),
    Row("server-other-api-services", SERVER, False, "create or delete APIServices, or write others", (
        Right(("create", "delete"), "apiservices", AGGREGATION),
        Right(("update", "patch"), "apiservices", AGGREGATION, "", "v1beta1.metrics.k8s.io"),
    )),
    Row("anybody-page", ANYBODY, True, "get the files of the page, and the description of `/v1`", (
        Question("GET", "/", 200),
        Question("GET", "/v1/openapi.json", 200),
    )),
    Row("anybody-v1", ANYBODY, False, "call `/v1` or the extender, or get metrics", (
        Question("POST", "/v1/score", 401, _SCORE),
        Question("GET", "/v1/placements/crp/open", 401),
        Question("POST", "/extender/v1/filter", 401, _POD),
        Question("GET", "/metrics", 401),
    )),
    Row("stranger-v1", STRANGER, False, "call `/v1` or the extender, or get metrics", (
        Question("POST", "/v1/score", 403, _SCORE),
        Question("GET", "/v1/placements/crp/open", 403),
        Question("POST", "/v1/gate/disruption", 403, {}),
        Question("POST", "/extender/v1/filter", 403, _POD),
        Question("GET", "/metrics", 403),
    )),
    Row("scorer-v1", SCORER, True, "call the paths in the role, for placements that the caller may `get`", (
        Question("POST", "/v1/score", 200, _SCORE),
        Question("GET", "/v1/placements/crp/open", 200),
    )),
    Row("scorer-other-paths", SCORER, False, "call any other path", (
        Question("POST", "/v1/filter", 403, _SCORE),
        Question("GET", "/v1/clusters", 403),
        Question("POST", "/v1/gate/reservations", 403, {}),
        Question("GET", "/metrics", 403),
    )),
    Row("scorer-closed", SCORER, False, "see placements that the caller may not `get`, which return 404", (
        Question("POST", "/v1/score", 404, _CLOSED),
        Question("GET", "/v1/placements/crp/closed", 404),
        Question("GET", "/v1/placements/crp/no-such-thing", 404),
    )),
    Row("scorer-audience", SCORER, False, "use a token for another service", (
        Question("POST", "/v1/score", 401, _SCORE, audience="another.service.svc"),
    )),
    Row("scheduler-extender", SCHEDULER, True, "call the extender", (
        Question("POST", "/extender/v1/filter", 200, _POD),
    )),
    Row("scheduler-v1", SCHEDULER, False, "call `/v1`", (
        Question("POST", "/v1/score", 403, _SCORE),
    )),
)  # fmt: skip

ELSEWHERE: Final = (
    ("a user who may write placements", False, "place objects that they may not `get` (where rights are enforced)",
     "e2e/admission/test_authorization.py::test_enforced_they_are_a_refusal"),
    ("a user who may write placements", False,
     "place objects that they may not `get` by way of overrides, envelopes, snapshots, bindings or Works (where rights "
     "are enforced)",
     "e2e/admission/test_authorization.py::test_enforced_nobody_places_what_they_have_no_right_to_by_another_way"),
    ("a user who may write overrides", False,
     "change or omit objects that they may not `update` or `delete` (where rights are enforced)",
     "e2e/rollouts/test_teams.py::test_whoever_may_only_read_rewrites_nothing"),
    ("any user", False,
     "accidentally delete a member's namespace, the namespace of the installation, or harbormaster's definitions while "
     "objects of them exist",
     "e2e/admission/test_deletion_guard.py::test_what_holds_the_content_of_members_is_not_deleted_by_mistake"),
    ("users who may write everything, but are not admins", False, "create, change or delete the Works of a member",
     "e2e/admission/test_deletion_guard.py::test_works_are_written_by_the_machinery_alone"),
    ("a user who may write upgrade runs", False,
     "upgrade members outside their maintenance windows without the verb `ignorewindows` on `clusterupgraderuns`",
     "e2e/upgrades/test_admission.py::test_whoever_ignores_maintenance_windows_needs_the_right"),
    ("a user who may delete namespaces and write placements", False,
     "remove content from members without the verb `confirmremoval` on the placement, or `delete` and `place` on the "
     "namespace (where removals need confirmation)",
     "e2e/admission/test_removals.py::test_confirming_needs_a_right_and_reading_another"),
    ("a user who may create, update and patch namespaces", False,
     "exempt a namespace from the confirmation of removals, at its creation or later, without the verb "
     "`confirmremoval` on all ClusterResourcePlacements and on its ResourcePlacements",
     "e2e/admission/test_removals.py::test_confirming_needs_a_right_and_reading_another"),
    ("users who may write everything, but are not harbormaster", False,
     "create or delete the gates of an upgrade run, or approve or reject one that is no longer open",
     "e2e/upgrades/test_admission.py::test_gates_are_made_by_harbormaster_answered_by_people_and_deleted_with_their_run"),
    ("the loop, unless its mode of node disruption is `Act`", False, "write nodes, pods or NodeClaims, or evict pods",
     "e2e/nodes/test_node_disruption.py::test_advise_reports_and_touches_nothing"),
    ("the loop in mode `Act`", True, "taint and drain nodes of pools, and delete the NodeClaims of drained nodes",
     "e2e/nodes/test_node_disruption.py::test_act_replaces_nodes_within_the_budget_whenever_it_is_killed"),
    ("the loop in mode `Act`", False, "write or delete nodes and NodeClaims that are not part of a disruption command",
     "e2e/nodes/test_node_disruption.py::test_the_account_of_the_loop_writes_no_nodes_but_those_that_go"),
    ("any user", False, "delete or drain nodes beyond the budgets of their pool (where budgets are enforced)",
     "e2e/nodes/test_karpenter.py::test_a_drain_beyond_the_budget_is_refused"),
    ("users in `HARBORMASTER_ENFORCEMENT_EXEMPT_USERS`", True, "delete and drain nodes regardless of budgets",
     "e2e/nodes/test_karpenter.py::test_who_keeps_to_the_budgets_by_themselves_is_not_asked"),
    ("a client that is not identified as the API server", False,
     "trigger reviews of rights, get information about the hub, or reserve disruptions",
     "e2e/admission/test_strangers.py::test_a_forged_review_asks_nobody_and_learns_nothing"),
    ("a user who has signed in to the page", True, "read everything there that their user and groups may read",
     "e2e/access/test_sign_in.py::test_a_viewer_signs_in_looks_and_signs_out"),
    ("a user who has signed in to the page, without a role", False, "read anything",
     "e2e/access/test_sign_in.py::test_who_may_nothing_is_told_so_by_name"),
    ("a browser with a session", False, "write anything except through enabled actions, or read for another page",
     "tests/webhook/endpoints/ui/test_sign_in.py::test_a_session_counts_for_no_write_and_for_nobody_but_the_page"),
    ("a viewer of the page, with actions enabled", True, "approve with the page what their user may approve",
     "e2e/access/test_page_actions.py::"
     "test_a_viewer_approves_what_their_user_may_approve_and_the_audit_names_them"),
    ("a viewer of the page, with actions enabled", False, "do anything there that their user may not do on the hub",
     "e2e/access/test_page_actions.py::test_a_viewer_without_the_right_gets_the_words_of_the_api_server"),
    ("a viewer of the page, with actions enabled", False, "use a right of the server, or of its client certificate",
     "e2e/access/test_page_actions.py::test_a_certificate_of_the_server_gives_a_viewer_no_right"),
    ("another page in the browser of a viewer", False, "trigger an action",
     "tests/webhook/endpoints/ui/test_actions.py::test_no_other_site_makes_a_browser_act"),
    ("a team with the Role of [teams](teams.md)", True,
     "plan, explain, render, and read the history of the placements of its namespace",
     "e2e/rollouts/test_team_answers.py::test_the_commands_of_the_page_work_with_its_role"),
    ("a team with the Role of [teams](teams.md)", False,
     "render values of overrides that it may not list, or labels of members",
     "tests/webhook/endpoints/aggregated/test_answers.py::test_values_of_overrides_that_the_team_may_not_list_are_hidden"),
    ("a team with the Role of [teams](teams.md)", False, "query other namespaces or cluster-scoped objects",
     "e2e/rollouts/test_team_answers.py::test_and_about_nothing_else"),
    ("any client other than the API server", False, "name the user of a request to the API for teams",
     "e2e/rollouts/test_team_answers.py::test_only_the_front_proxy_names_a_user"),
    ("a user of `join` and `leave` without rights", False, "write anything with these commands",
     "e2e/members/test_join.py::test_a_caller_without_rights_is_told_and_nothing_is_written"),
)  # fmt: skip
"""What other tests check with what they have set up: who, whether they may, what, and the test."""
