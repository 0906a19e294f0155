"""The settings of each program: names and defaults, which must go on meaning what operators have written down."""

from collections import Counter

import pytest

from scorer.rollout.confirmation.policy import DEFAULT_KINDS
from webhook.settings.admission import ReviewSettings
from webhook.settings.environment import PREFIX, Settings
from webhook.settings.installation import NamespaceSettings
from webhook.settings.programs import PROGRAMS, ServerSettings, ServeSettings, UpSettings

DEFAULTS = {
    "HARBORMASTER_ADMISSION_BODY_BYTES": 8 * 1024**2,
    "HARBORMASTER_ADMISSION_CLIENT_NAMES": ["kube-apiserver"],
    "HARBORMASTER_ADMISSION_IN_FLIGHT": 100,
    "HARBORMASTER_ALLOWED_KINDS": "",
    "HARBORMASTER_ALLOWED_USERS": [],
    "HARBORMASTER_ANALYSIS_CA": None,
    "HARBORMASTER_ANALYSIS_ENDPOINTS": [],
    "HARBORMASTER_ANALYSIS_ENDPOINT_NAMESPACES": [],
    "HARBORMASTER_ANALYSIS_KINDS": [],
    "HARBORMASTER_ANALYSIS_SECONDS": 10,
    "HARBORMASTER_ANALYSIS_TOKEN_FILE": None,
    "HARBORMASTER_API_BODY_BYTES": 1024**2,
    "HARBORMASTER_AUTHORITY_LIFE_SECONDS": 365 * 86400,
    "HARBORMASTER_BLOCKED_KINDS": "",
    "HARBORMASTER_BLOCKED_NAMESPACES": ["kube-*"],
    "HARBORMASTER_HANDOFF_CA": None,
    "HARBORMASTER_HISTORY_DAYS": 7,
    "HARBORMASTER_HISTORY_MEGABYTES": 8,
    "HARBORMASTER_HISTORY_SECONDS": 10,
    "HARBORMASTER_HANDOFF_SECRET_FILE": None,
    "HARBORMASTER_HANDOFF_UNBOUND_REPORTS": False,
    "HARBORMASTER_HANDOFF_URL": "",
    "HARBORMASTER_NOTIFICATIONS_CA": None,
    "HARBORMASTER_NOTIFICATIONS_HUB": "",
    "HARBORMASTER_NOTIFICATIONS_REASONS": [
        "PlacementRolloutStalled",
        "RemovalPending",
        "ApprovalNeeded",
        "Warning/DisruptionBlocked",
        "DisruptionUnblocked",
        "MemberClusterSilent",
        "MemberClusterReporting",
        "CertificateNearEnd",
    ],
    "HARBORMASTER_NOTIFICATIONS_SECRET_FILE": None,
    "HARBORMASTER_NOTIFICATIONS_URL": "",
    "HARBORMASTER_OIDC_CA": None,
    "HARBORMASTER_OIDC_CLIENT_ID": "",
    "HARBORMASTER_OIDC_CLIENT_SECRET_FILE": None,
    "HARBORMASTER_OIDC_GROUPS_CLAIM": "",
    "HARBORMASTER_OIDC_GROUPS_PREFIX": "",
    "HARBORMASTER_OIDC_ISSUER_URL": "",
    "HARBORMASTER_OIDC_NAME": "",
    "HARBORMASTER_OIDC_PAGE_URL": "",
    "HARBORMASTER_OIDC_SCOPES": ["openid", "profile", "email"],
    "HARBORMASTER_OIDC_SESSION_SECONDS": 28_800,
    "HARBORMASTER_OIDC_SESSION_SECRET_FILE": None,
    "HARBORMASTER_OIDC_USERNAME_CLAIM": "sub",
    "HARBORMASTER_OIDC_USERNAME_PREFIX": "",
    "HARBORMASTER_HUB_TOKEN_SECONDS": 604_800.0,
    "HARBORMASTER_HUB_TOKEN_RENEWAL_SECONDS": 3600.0,
    "HARBORMASTER_BLOCK_POD_DISRUPTION_BUDGETS": False,
    "HARBORMASTER_BLOCK_WORKLOADS": False,
    "HARBORMASTER_BODIES_BYTES": 64 * 1024**2,
    "HARBORMASTER_BODY_SECONDS": 5,
    "HARBORMASTER_CERTIFICATE_CHECK_SECONDS": 10,
    "HARBORMASTER_CERTIFICATE_SECRET": "",
    "HARBORMASTER_CLIENT_CA": None,
    "HARBORMASTER_COMMIT": "",
    "HARBORMASTER_CONNECTIONS": 1000,
    "HARBORMASTER_DENY_MEMBER_LABEL_CHANGES": False,
    "HARBORMASTER_DNS_NAMES": ["localhost"],
    "HARBORMASTER_DRAIN_LIMIT_SECONDS": 100,
    "HARBORMASTER_DRAIN_SECONDS": 15,
    "HARBORMASTER_ENFORCEMENT_EXEMPT_USERS": [
        "system:serviceaccount:karpenter:karpenter",
        "system:serviceaccount:kube-system:karpenter",
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:serviceaccount:kube-system:node-controller",
        "system:serviceaccount:kube-system:cloud-node-lifecycle-controller",
        "system:kube-controller-manager",
        "system:cloud-controller-manager",
    ],
    "HARBORMASTER_ENFORCE_BUDGETS": False,
    "HARBORMASTER_EVENT_STREAMS": 100,
    "HARBORMASTER_EVENT_STREAMS_PER_CALLER": 20,
    "HARBORMASTER_EXPIRATION_MODE": "Forceful",
    "HARBORMASTER_EXTENDER_ALLOW_ANONYMOUS": False,
    "HARBORMASTER_EXTENDER_BODY_BYTES": 32 * 1024**2,
    "HARBORMASTER_EXTENDER_CLUSTER_LABELS": [
        "harbormaster.dev/member-cluster",
        "kubernetes-fleet.io/member-name",
        "liqo.io/remote-cluster-id",
        "multicluster.admiralty.io/cluster-target-name",
        "multicluster.admiralty.io/target-name",
    ],
    "HARBORMASTER_EXTENDER_DEFAULT_PREFERENCES": [],
    "HARBORMASTER_EXTENDER_DURING_UPDATE": "Filter",
    "HARBORMASTER_EXTENDER_MAX_SCORE": 10,
    "HARBORMASTER_EXTENDER_NODE_POOL_PREFERENCES": [],
    "HARBORMASTER_EXTENDER_ORDINARY_NODES": "Reject",
    "HARBORMASTER_EXTENDER_PROTECT_DO_NOT_DISRUPT": True,
    "HARBORMASTER_EXTENDER_UNKNOWN_NODES": "Allow",
    "HARBORMASTER_FAILED_LOGINS_PER_SECOND": 5,
    "HARBORMASTER_FORCE_DELETE_SECONDS": 900,
    "HARBORMASTER_GATE_MEMBERS": ["Eviction", "Upgrade"],
    "HARBORMASTER_GUARD_RAIL": False,
    "HARBORMASTER_HANDSHAKES_PER_ADDRESS": 200,
    "HARBORMASTER_HANDSHAKE_SECONDS": 3,
    "HARBORMASTER_HOST": "127.0.0.1",
    "HARBORMASTER_HTTPS_PORT": 9443,
    "HARBORMASTER_HTTP_HOST": "127.0.0.1",
    "HARBORMASTER_HTTP_PORT": 8081,
    "HARBORMASTER_IDENTITY_BY_ADMINS_ONLY": False,
    "HARBORMASTER_IP_ADDRESSES": ["127.0.0.1", "::1"],
    "HARBORMASTER_KEEPALIVE_SECONDS": 120,
    "HARBORMASTER_LEAF_LIFE_SECONDS": 7 * 86400,
    "HARBORMASTER_LEASE_NAME": "harbormaster-reconcile",
    "HARBORMASTER_LIVE_SECONDS": 0.05,
    "HARBORMASTER_LIVE_WARNINGS": True,
    "HARBORMASTER_LOG_FORMAT": "json",
    "HARBORMASTER_LOG_LEVEL": "info",
    "HARBORMASTER_LOOP_USER": "",
    "HARBORMASTER_METRICS_AUTH": False,
    "HARBORMASTER_NAMESPACE": "harbormaster-system",
    "HARBORMASTER_NETWORKING_AGENTS": False,
    "HARBORMASTER_NODE_DISRUPTION_KARPENTER_LEASE": "karpenter-leader-election",
    "HARBORMASTER_NODE_DISRUPTION_MODE": "Advise",
    "HARBORMASTER_NODE_DISRUPTION_PRICES": None,
    "HARBORMASTER_NODE_DISRUPTION_SPOT_TO_SPOT": False,
    "HARBORMASTER_PAGE_ACTIONS": False,
    "HARBORMASTER_PAGE_ON_HTTP": False,
    "HARBORMASTER_PLACEMENT_AUTHORIZATION": "Warn",
    "HARBORMASTER_PLAIN_ADMISSION_PATHS": True,
    "HARBORMASTER_PROTECT_DELETIONS": True,
    "HARBORMASTER_PROTECT_WORKS": True,
    "HARBORMASTER_RECONCILE_WORKERS": 16,
    "HARBORMASTER_REMOVAL_CONFIRMATION": "",
    "HARBORMASTER_REMOVAL_CONFIRMATION_CLUSTERS": "Off",
    "HARBORMASTER_REMOVAL_CONFIRMATION_DATA": "Confirm",
    "HARBORMASTER_REMOVAL_CONFIRMATION_EXEMPT": "harbormaster.dev/ephemeral=true",
    "HARBORMASTER_REMOVAL_CONFIRMATION_KINDS": list(DEFAULT_KINDS),
    "HARBORMASTER_REMOVAL_CONFIRMATION_MANY_CLUSTERS": "Confirm",
    "HARBORMASTER_REMOVAL_CONFIRMATION_MANY_OBJECTS": "Confirm",
    "HARBORMASTER_REMOVAL_CONFIRMATION_NODE_POOL": "Confirm",
    "HARBORMASTER_REMOVAL_CONFIRMATION_OBJECTS": "Warn",
    "HARBORMASTER_REMOVAL_CONFIRMATION_PLACEMENT": "Confirm",
    "HARBORMASTER_REMOVAL_CONFIRMATION_WINDOW_SECONDS": 3600,
    "HARBORMASTER_REMOVAL_NEEDS_BUDGET": True,
    "HARBORMASTER_REQUESTS_PER_SECOND": 50,
    "HARBORMASTER_REPAIR_WEBHOOKS": False,
    "HARBORMASTER_REQUEST_BURST": 100,
    "HARBORMASTER_REQUIRE_CLIENT_CERTIFICATE": False,
    "HARBORMASTER_RESOURCE_COLLECTION_SECONDS": 15,
    "HARBORMASTER_RESOURCE_SNAPSHOT_INTERVAL_SECONDS": 30,
    "HARBORMASTER_ROLLOUT_STALLED_SECONDS": 600,
    "HARBORMASTER_SERVICE_ACCOUNT": "harbormaster-reconcile",
    "HARBORMASTER_SHARDS": 1,
    "HARBORMASTER_SHUTDOWN_SECONDS": 10,
    "HARBORMASTER_SKIPPED_NAMESPACES": [],
    "HARBORMASTER_STAGED_RUNS_DEFAULT_STATE": "Initialize",
    "HARBORMASTER_STRICT_OVERRIDES": False,
    "HARBORMASTER_TEAM_ANSWERS": False,
    "HARBORMASTER_TEMPLATE_DO_NOT_DISRUPT": True,
    "HARBORMASTER_TLS_CA": None,
    "HARBORMASTER_TLS_CERT": None,
    "HARBORMASTER_TLS_KEY": None,
    "HARBORMASTER_TOKEN_AUDIENCE": "",
    "HARBORMASTER_TRACING_ENDPOINT": "",
    "HARBORMASTER_TRACING_SHARE": 1,
    "HARBORMASTER_WEBHOOKS_EXPECTED": False,
    "HARBORMASTER_WEBHOOK_CONFIGURATION": "harbormaster",
    "HARBORMASTER_WEBHOOK_SECRET_FILE": None,
    "HARBORMASTER_WORKERS": 1,
    "HARBORMASTER_WORKLOADS_ENABLED": False,
    "HARBORMASTER_WRITE_CONCURRENCY": 32,
    "HARBORMASTER_DEFAULT_UPGRADER": "handoff",
    "HARBORMASTER_UPGRADERS": ["handoff"],
    "HARBORMASTER_UPGRADER_CALL_SECONDS": 10,
    "HARBORMASTER_UPGRADER_POLL_SECONDS": 15,
}


UP = {
    "HARBORMASTER_DEFAULT_UPGRADER": "simulated",
    "HARBORMASTER_DRAIN_LIMIT_SECONDS": 0,
    "HARBORMASTER_DRAIN_SECONDS": 0,
    "HARBORMASTER_HISTORY_SECONDS": 1,
    "HARBORMASTER_LOG_FORMAT": "text",
    "HARBORMASTER_LOG_LEVEL": "error",
    "HARBORMASTER_PAGE_ON_HTTP": True,
    "HARBORMASTER_SHUTDOWN_SECONDS": 2,
    "HARBORMASTER_UPGRADERS": ["simulated", "handoff"],
    "HARBORMASTER_UPGRADER_POLL_SECONDS": 1,
}
"""Where `up` differs."""
FOLDER = {"XDG_STATE_HOME": "", "HARBORMASTER_DATA": "/home/ada/.local/state/harbormaster"}
HUB = {"KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": None}
TYPED = {
    **FOLDER,
    "HARBORMASTER_SERVER": "",
    "KUBECONFIG": "",
    "NO_COLOR": "",
    "FORCE_HYPERLINK": "",
    "TERM": "",
    "KUBE_EDITOR": "",
    "KUBECTL_EXTERNAL_DIFF": "",
    "EDITOR": "",
}


@pytest.fixture(autouse=True)
def at_home(monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")


def defaults(program: type[Settings]) -> dict[str, object]:
    found = program.read({}).model_dump(mode="json")
    return {program.variable(name): found[name] for name in program.names()}


def test_names_and_defaults_stay_as_they_are():
    found = {}
    for name in ("cli", "up", "webhook-configuration", "rbac", "certs", "join", "agent", "reconcile", "serve"):
        found |= defaults(PROGRAMS[name])
    assert found == DEFAULTS | TYPED | HUB


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_default_is_the_same_in_every_program_but_up(name):
    other = UP if name == "up" else {}
    common = DEFAULTS | TYPED | HUB | other
    found = defaults(PROGRAMS[name])
    assert found == {variable: common[variable] for variable in found}


def test_every_program_reads_what_it_has_use_for():
    read = {name: set(defaults(program)) for name, program in PROGRAMS.items()}
    assert read["cli"] == set(TYPED)
    assert read["agent"] == {
        PREFIX + name
        for name in (
            "HTTP_HOST",
            "HTTP_PORT",
            "CONNECTIONS",
            "HANDSHAKES_PER_ADDRESS",
            "HANDSHAKE_SECONDS",
            "NAMESPACE",
            "ALLOWED_KINDS",
            "BLOCKED_NAMESPACES",
            "HUB_TOKEN_SECONDS",
            "HUB_TOKEN_RENEWAL_SECONDS",
            "NODE_DISRUPTION_MODE",
            "NODE_DISRUPTION_KARPENTER_LEASE",
            "NODE_DISRUPTION_PRICES",
            "NODE_DISRUPTION_SPOT_TO_SPOT",
            "EXPIRATION_MODE",
            "TEMPLATE_DO_NOT_DISRUPT",
            "COMMIT",
            "LOG_FORMAT",
            "LOG_LEVEL",
        )
    }
    assert read["rbac"] == {
        PREFIX + name
        for name in (
            "NAMESPACE",
            "SERVICE_ACCOUNT",
            "LOOP_USER",
            "ALLOWED_USERS",
            "LEASE_NAME",
            "NETWORKING_AGENTS",
            "ANALYSIS_KINDS",
            "UPGRADERS",
            "HANDOFF_SECRET_FILE",
            "CERTIFICATE_SECRET",
            "WEBHOOK_CONFIGURATION",
            "TEAM_ANSWERS",
            "NODE_DISRUPTION_MODE",
            "NODE_DISRUPTION_KARPENTER_LEASE",
        )
    }
    assert read["certs"] == {
        PREFIX + name
        for name in (
            "NAMESPACE",
            "CERTIFICATE_SECRET",
            "WEBHOOK_CONFIGURATION",
            "TEAM_ANSWERS",
            "AUTHORITY_LIFE_SECONDS",
            "LEAF_LIFE_SECONDS",
        )
    }
    assert read["reconcile"] < read["serve"]
    assert read["webhook-configuration"] < read["serve"] & read["up"]
    of_members = {PREFIX + name for name in ("BLOCKED_NAMESPACES", "HUB_TOKEN_SECONDS", "HUB_TOKEN_RENEWAL_SECONDS")}
    assert read["serve"] == set(DEFAULTS) - of_members | set(HUB)
    assert read["join"] == {PREFIX + "NAMESPACE"}
    assert read["up"] - read["serve"] == set(FOLDER)
    of_sign_in = {name for name in DEFAULTS if name.startswith(PREFIX + "OIDC_")}
    assert read["serve"] - read["up"] == set(HUB) | of_sign_in | {
        PREFIX + name
        for name in (
            "CERTIFICATE_SECRET",
            "WEBHOOK_CONFIGURATION",
            "TEAM_ANSWERS",
            "WEBHOOKS_EXPECTED",
            "REPAIR_WEBHOOKS",
            "AUTHORITY_LIFE_SECONDS",
            "LEAF_LIFE_SECONDS",
            "TLS_CERT",
            "TLS_KEY",
            "TLS_CA",
            "TOKEN_AUDIENCE",
            "WORKERS",
            "LEASE_NAME",
            "SHARDS",
            "WRITE_CONCURRENCY",
            "RESOURCE_SNAPSHOT_INTERVAL_SECONDS",
            "RESOURCE_COLLECTION_SECONDS",
            "TRACING_ENDPOINT",
            "TRACING_SHARE",
            "NODE_DISRUPTION_MODE",
            "NODE_DISRUPTION_KARPENTER_LEASE",
            "NODE_DISRUPTION_PRICES",
            "NODE_DISRUPTION_SPOT_TO_SPOT",
        )
    }


@pytest.mark.parametrize("program", [*PROGRAMS.values(), NamespaceSettings, ReviewSettings, ServerSettings])
def test_every_program_has_what_it_lists(program):
    for part in program.reads:
        assert part in program.model_fields if isinstance(part, str) else issubclass(program, part), part


@pytest.mark.parametrize("program", PROGRAMS.values())
def test_no_area_hides_a_check_of_another(program):
    """Of two validators of one name, pydantic keeps one."""
    checks = Counter(
        name
        for area in program.__mro__
        if issubclass(area, Settings)
        for name in area.__pydantic_decorators__.field_validators.keys() & vars(area).keys()
    )
    assert [name for name, count in checks.items() if count > 1] == []


def test_what_is_said_wins_over_the_defaults_of_up():
    assert UpSettings.read({PREFIX + "PAGE_ON_HTTP": "false", PREFIX + "DRAIN_LIMIT_SECONDS": "5"}) == UpSettings(
        page_on_http=False, drain_limit_seconds=5
    )


def test_every_field_of_up_is_described_as_elsewhere():
    for name, field in UpSettings.model_fields.items():
        if name in ServeSettings.model_fields:
            assert field.description == ServeSettings.model_fields[name].description
