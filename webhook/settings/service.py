"""Everything that can be set, read once into one frozen object.

Nothing else looks at the environment. A setting is named like its field: ``https_port`` is
``HARBORMASTER_HTTPS_PORT`` in the environment and ``--https-port`` on the command line.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from scorer.api.staged_update import RunState
from scorer.extender.preferences import Preferences
from scorer.member_gate.holds import MemberDisruption
from scorer.reservations import LEASE_PREFIX
from scorer.rollout.kind_rules import parse_kind_rules
from scorer.rollout.resource_snapshots import SnapshotSettings
from scorer.rollout.selectable_kinds import SelectionSettings
from webhook.settings.admission import AdmissionSettings, PlacementAuthorization
from webhook.settings.loop import LoopSettings

PREFIX: Final = "HARBORMASTER_"
MEBIBYTE: Final = 1024 * 1024
LOOPBACK_HOSTS: Final = ("127.0.0.1", "::1", "localhost")

EXEMPT_USERS: Final = (
    "system:serviceaccount:karpenter:karpenter",
    "system:serviceaccount:kube-system:karpenter",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:node-controller",
    "system:serviceaccount:kube-system:cloud-node-lifecycle-controller",
    "system:kube-controller-manager",
    "system:cloud-controller-manager",
)

CLUSTER_LABELS: Final = (
    "harbormaster.dev/member-cluster",
    "kubernetes-fleet.io/member-name",
    "liqo.io/remote-cluster-id",
    "multicluster.admiralty.io/cluster-target-name",
    "multicluster.admiralty.io/target-name",
)

Port = Annotated[int, Field(ge=0, le=65535)]
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=253)]
NamespacePattern = Annotated[str, Field(pattern=r"^[a-z0-9][-a-z0-9]*\*?$", max_length=63)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(ge=0.001, allow_inf_nan=False)]


class DuringUpdate(StrEnum):
    """Whether a member that is being upgraded takes new pods."""

    FILTER = "Filter"
    IGNORE = "Ignore"


class OrdinaryNodes(StrEnum):
    """Whether a node without a member cluster behind it takes pods that name a placement."""

    ALLOW = "Allow"
    REJECT = "Reject"


class UnknownNodes(StrEnum):
    """Whether a node that is not known yet takes pods."""

    ALLOW = "Allow"
    REJECT = "Reject"


class ExpirationMode(StrEnum):
    """Whether nodes that have reached their greatest age wait for budgets."""

    FORCEFUL = "Forceful"
    GRACEFUL = "Graceful"


class SettingsError(Exception):
    """A setting has a value it cannot have; the message names both."""


class Settings(BaseModel):
    """How the server is run; the defaults are those of a server on one's own machine.

    Port 0 means any free port; the server tells which one it got.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    """Address of the HTTPS listener: admission, ``/v1``, the page."""
    https_port: Port = 9443
    http_host: str = "127.0.0.1"
    """Address of the plain HTTP listener: probes and metrics."""
    http_port: Port = 8081
    page_on_http: bool = False
    """Serve the page and the reading part of ``/v1`` on the plain listener too, to this machine only."""
    dns_names: tuple[str, ...] = ("localhost",)
    """DNS names in the server certificate."""
    ip_addresses: tuple[str, ...] = ("127.0.0.1", "::1")
    """IP addresses in the server certificate."""

    admission_body_bytes: int = Field(default=8 * MEBIBYTE, gt=0)
    api_body_bytes: int = Field(default=MEBIBYTE, gt=0)
    extender_body_bytes: int = Field(default=32 * MEBIBYTE, gt=0)
    admission_in_flight: int = Field(default=100, gt=0)
    """Admission requests handled at once; one more is answered 503."""
    connections: int = Field(default=1000, gt=0)
    """Connections held open, from accept on; one more closes the one that has been idle longest."""
    handshakes_per_address: int = Field(default=200, gt=0)
    """So many of them may be shaking hands from one address; one more ends the oldest."""
    bodies_bytes: int = Field(default=64 * MEBIBYTE, gt=0)
    """Memory for bodies that are being read, or are long and being judged; who needs more is answered 503."""
    event_streams: int = Field(default=100, gt=0)
    """Viewers of ``/v1/events`` at once."""
    event_streams_per_caller: int = Field(default=20, gt=0)
    """How many of them one caller may be; the plain listener, where nobody is asked who they are, has no such limit."""

    body_seconds: Seconds = 5
    handshake_seconds: Seconds = Field(default=3, gt=0)
    keepalive_seconds: Seconds = 120
    """Longer than the 90 s after which kube-apiserver closes an idle connection, so that it is never us (1.10)."""
    drain_seconds: Seconds = 15
    """How long to go on listening after SIGTERM, at least."""
    drain_limit_seconds: Seconds = 100
    """How long to wait for clients to close their connections after SIGTERM, at most."""
    shutdown_seconds: Seconds = 10
    """How long requests in flight may take once the listener is closed."""

    data: Path | None = None
    """Folder that keeps the state of ``up``."""
    tls_cert: Path | None = None
    """Certificate that ``serve`` shows, in PEM: the leaf first; read again when it changes."""
    tls_key: Path | None = None
    certificate_check_seconds: Seconds = Field(default=10, gt=0)
    """How often to look for another certificate."""
    tls_ca: Path | None = None
    """Authority of that certificate, for the server's check of itself; None: the end of the chain."""

    namespace: Name = "harbormaster-system"
    """Where harbormaster is installed."""
    service_account: Name = "harbormaster-reconcile"
    """The account of the reconcile loop there: its writes are not judged by our own rules about users."""
    loop_user: str = ""
    """Who the loop is where it is none: the CN of its client certificate; empty: its account."""
    guard_rail: bool = False
    """G-04 to G-10: definitions, namespaces and members of the fleet belong to its machinery."""
    deny_member_label_changes: bool = False
    """G-07, only with *guard_rail*."""
    protect_works: bool = True
    """G-11: Works and InternalMemberClusters are written by the machinery and their member only."""
    protect_deletions: bool = True
    """G-17 and G-18: namespaces of members, and definitions in use, are not deleted by mistake."""
    identity_by_admins_only: bool = False
    """Only admins may change the identity of a member."""
    allowed_users: tuple[str, ...] = ()
    """User names that count as admins for the guard rails."""
    block_workloads: bool = False
    """G-01 and G-02: no Pods and ReplicaSets on the hub."""
    block_pod_disruption_budgets: bool = False
    """G-03."""
    networking_agents: bool = False
    """M-09: exported services keep a member from leaving."""
    skipped_namespaces: tuple[str, ...] = ()
    """Namespaces never placed, besides ``default``, ``kube-*`` and ``fleet-*``."""
    blocked_namespaces: tuple[NamespacePattern, ...] = Field(default=("kube-*",), max_length=100)
    """In which an agent does nothing, besides its own and ``fleet-member-*``; ``*`` at the end: any rest."""
    strict_overrides: bool = False
    """X-63 denies instead of warning."""
    staged_runs_default_state: RunState = RunState.INITIALIZE
    """What an absent ``spec.state`` of a staged update run means."""
    live_warnings: bool = True
    """Warn about what the rest of the hub makes of a write; off where even that says too much (see the reference)."""
    live_seconds: Seconds = 0.05
    """How long all of that may take for one review."""
    placement_authorization: PlacementAuthorization = PlacementAuthorization.WARN
    """What becomes of a placement of things that its author may not read."""
    webhook_secret_file: Path | None = None
    """Secrets, one a line: below ``/hooks/SECRET`` the hub calls ``/validate`` and ``/mutate``. Whoever calls the plain
    paths is a stranger then: judged by the rules alone, not by rights or the state of the hub; reserves nothing."""
    require_client_certificate: bool = False
    """Answer reviews of those only who show a client certificate for one of *admission_client_names*."""
    admission_client_names: tuple[str, ...] = ("kube-apiserver",)
    """Common names of the client certificates that API servers show to webhooks."""
    plain_admission_paths: bool = True
    """Judge strangers by the rules; false: refuse them."""
    token_audience: str = ""
    """Audience that a token must be made for; empty: ``harbormaster.<namespace>.svc``."""
    client_ca: Path | None = None
    """Authorities of client certificates in PEM, read again when the file changes; None: those of the hub itself.

    Under `up`, which knows no roles and accepts none by default, their holders may ask everything of ``/v1``.
    """
    requests_per_second: Rate = 50
    """How much one caller may ask of ``/v1`` over time, of each replica; the extender has no such limit."""
    request_burst: int = Field(default=100, gt=0)
    """How much of that may come at once."""
    failed_logins_per_second: Rate = 5
    """How many bad credentials are looked at from one address; a token that was good before never waits for that."""
    metrics_auth: bool = False
    """Serve the metrics over HTTPS too, to callers who may ``get`` the path ``/metrics``."""

    extender_allow_anonymous: bool = False
    """Answer schedulers that show no credentials."""
    extender_during_update: DuringUpdate = DuringUpdate.FILTER
    """What becomes of the nodes of a member that an upgrade run is working on."""
    extender_unknown_nodes: UnknownNodes = UnknownNodes.ALLOW
    """What becomes of nodes that are in no cache yet."""
    extender_ordinary_nodes: OrdinaryNodes = OrdinaryNodes.REJECT
    """What becomes of nodes that belong to no member cluster and no node pool, for pods that name a placement."""
    extender_max_score: int = Field(default=10, ge=1, le=100)
    """The best score; kube-scheduler's own range ends at 10, and it does not check."""
    extender_cluster_labels: tuple[str, ...] = CLUSTER_LABELS
    """Labels of a node that name the member cluster behind it; the first that is there counts."""
    extender_default_preferences: Preferences = ()
    """Preferred terms, as a JSON list, for pods that follow no placement."""
    extender_node_pool_preferences: Preferences = ()
    """Preferred terms, as a JSON list, for the nodes of node pools."""
    extender_protect_do_not_disrupt: bool = True
    """No preemption where a victim is annotated ``karpenter.sh/do-not-disrupt``."""

    resource_snapshot_interval_seconds: Seconds = Field(default=30, le=300)
    """At least so much time between two snapshots of what a placement selects."""
    resource_collection_seconds: Seconds = Field(default=15, le=60)
    """So long changes of what a placement selects are collected, from the first one on."""
    allowed_kinds: str = ""
    """Kinds that placements may select, and no others: ``GROUP``, ``GROUP/VERSION`` or ``GROUP/VERSION/Kind1,Kind2``,
    separated by ``;``; empty: all but those that are blocked."""
    blocked_kinds: str = ""
    """Kinds that placements may not select, besides those that never are, written the same way."""
    workloads_enabled: bool = False
    """The hub runs workloads itself: claims of volumes are then not placed."""
    removal_needs_budget: bool = True
    """``rollout.removalNeedsBudget``: a removal counts against maxUnavailable also where nothing is wanted any more or
    the binding has failed."""
    rollout_stalled_seconds: Seconds = Field(default=600, ge=10, le=604_800)
    """How long a rollout may stand still, beyond its ``unavailablePeriodSeconds``, until it counts as stalled."""
    force_delete_seconds: float = Field(default=900, ge=30, le=3600, allow_inf_nan=False)
    """So long a leaving member is waited for that does not answer."""
    expiration_mode: ExpirationMode = ExpirationMode.FORCEFUL
    """Forceful: the gate lets expired nodes go at any time, as Karpenter does. Graceful: budgets without reasons hold
    them, and what forbids the disruption of a node does too."""
    template_do_not_disrupt: bool = True
    """``karpenter.sh/do-not-disrupt`` in the template of a pool holds for nodes that were there before it as well."""
    gate_members: tuple[MemberDisruption, ...] = (MemberDisruption.EVICTION, MemberDisruption.UPGRADE)
    """Disruptions of a member cluster that wait while another kind of disruption holds it."""
    enforce_budgets: bool = False
    """Refuse deletions of nodes and node claims, and evictions that drain a node, beyond the budgets of its pool."""
    enforcement_exempt_users: tuple[str, ...] = EXEMPT_USERS
    """Who may do so beyond the budgets: Karpenter, which keeps to them itself, and Kubernetes' controllers."""

    lease_name: Name = "harbormaster-reconcile"
    """The Lease in *namespace* by which one process leads."""
    reconcile_workers: int = Field(default=16, ge=1, le=1000)
    """How many objects each controller works on at once."""
    write_concurrency: int = Field(default=32, ge=1, le=150)
    """How many writes to the hub may be under way at once."""

    log_format: Literal["json", "text"] = "json"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.page_on_http and self.http_host not in LOOPBACK_HOSTS:
            raise ValueError(
                f"http_host: {self.http_host!r} is not of this machine alone, which page_on_http asks for; "
                f"one of {', '.join(LOOPBACK_HOSTS)}"
            )
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key: one needs the other")
        if self.require_client_certificate and not self.admission_client_names:
            raise ValueError("require_client_certificate: needs a name in admission_client_names")
        if self.allowed_kinds.strip() and self.blocked_kinds.strip():
            raise ValueError("allowed_kinds and blocked_kinds: exclude each other")
        if self.lease_name.startswith(LEASE_PREFIX):
            raise ValueError(f"lease_name: {self.lease_name!r} looks like a reservation, which the server may delete")
        if self.drain_limit_seconds < self.drain_seconds:
            raise ValueError(
                f"drain_limit_seconds: {self.drain_limit_seconds:g} is less than drain_seconds, {self.drain_seconds:g}"
            )
        return self

    @field_validator("loop_user")
    @classmethod
    def _check_loop_user(cls, name: str) -> str:
        if name and (not name.isprintable() or name.startswith("system:")):
            raise ValueError("must be the name of a user that is none of the system")
        return name

    @field_validator("allowed_kinds", "blocked_kinds")
    @classmethod
    def _check_kinds(cls, text: str) -> str:
        parse_kind_rules(text)
        return text

    @property
    def username_of_loop(self) -> str:
        """By which name the API server knows the loop."""
        return self.loop_user or f"system:serviceaccount:{self.namespace}:{self.service_account}"

    @property
    def tells_strangers(self) -> bool:
        """Whether the API server can be told from others who send reviews."""
        return self.webhook_secret_file is not None or self.require_client_certificate or not self.plain_admission_paths

    @property
    def audience(self) -> str:
        """Who a token must be made for."""
        return self.token_audience or f"harbormaster.{self.namespace}.svc"

    def admission(self) -> AdmissionSettings:
        """Return the switches of admission."""
        return AdmissionSettings(
            controllers=frozenset({self.username_of_loop}),
            protect_works=self.protect_works,
            protect_deletions=self.protect_deletions,
            guard_rail=self.guard_rail,
            deny_member_label_changes=self.deny_member_label_changes,
            allowed_users=frozenset(self.allowed_users),
            identity_by_admins_only=self.identity_by_admins_only,
            block_workloads=self.block_workloads,
            block_pod_disruption_budgets=self.block_pod_disruption_budgets,
            unblocked_namespaces=frozenset({self.namespace}),
            networking_agents=self.networking_agents,
            skipped_namespaces=frozenset({*self.skipped_namespaces, self.namespace}),
            strict_overrides=self.strict_overrides,
            staged_run_default_state=self.staged_runs_default_state,
            placement_authorization=self.placement_authorization,
            live_warnings=self.live_warnings,
            live_seconds=self.live_seconds,
            enforce_budgets=self.enforce_budgets,
            enforcement_exempt_users=frozenset(self.enforcement_exempt_users),
        )

    def loop(self) -> LoopSettings:
        """Return the settings of the reconcile loop."""
        return LoopSettings(
            snapshots=SnapshotSettings(
                timedelta(seconds=self.resource_snapshot_interval_seconds),
                timedelta(seconds=self.resource_collection_seconds),
            ),
            selection=SelectionSettings.of(
                allowed=self.allowed_kinds,
                blocked=self.blocked_kinds,
                reserved_namespaces=",".join(self.skipped_namespaces),
                workloads_enabled=self.workloads_enabled,
                home=self.namespace,
            ),
            removal_needs_budget=self.removal_needs_budget,
            stalled_after=timedelta(seconds=self.rollout_stalled_seconds),
            force_delete_after=timedelta(seconds=self.force_delete_seconds),
            workers=self.reconcile_workers,
            writes_at_once=self.write_concurrency,
            gate_members=self.gate_members,
            namespace=self.namespace,
        )

    @classmethod
    def read(cls, environment: Mapping[str, str], **given: Any) -> Self:
        """Take each setting from *given*, else from the environment, else its default.

        Lists in the environment are separated by commas. A given value of None counts as not given. Variables
        that are no settings are left alone: Kubernetes makes ``HARBORMASTER_SERVICE_HOST`` and the like.

        Raises:
            SettingsError: A value is wrong.
        """
        values: dict[str, Any] = {}
        for name in cls.model_fields:
            text = environment.get(PREFIX + name.upper())
            if text is not None:
                values[name] = _from_text(name, text)
        values |= {name: value for name, value in given.items() if value is not None}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise SettingsError(_first_mistake(error, given)) from error


_LISTS: Final = {
    "dns_names",
    "ip_addresses",
    "allowed_users",
    "skipped_namespaces",
    "blocked_namespaces",
    "extender_cluster_labels",
    "gate_members",
    "enforcement_exempt_users",
    "admission_client_names",
}
_JSON: Final = {"extender_default_preferences", "extender_node_pool_preferences"}


def _from_text(name: str, text: str) -> Any:
    if name in _LISTS:
        return split_list(text)
    if name not in _JSON:
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise SettingsError(f"{PREFIX}{name.upper()}: {text[:64]!r}: is not JSON: {error}") from error


def split_list(text: str) -> tuple[str, ...]:
    """Read what is separated by commas; an empty text is an empty list."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _first_mistake(error: ValidationError, given: Mapping[str, Any]) -> str:
    detail = error.errors(include_url=False)[0]
    if not detail["loc"]:
        return detail["msg"].removeprefix("Value error, ")
    name = str(detail["loc"][0])
    shown = name if given.get(name) is not None else PREFIX + name.upper()
    if detail["type"] == "extra_forbidden":
        return f"{shown}: there is no such setting"
    message = detail["msg"].removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    return f"{shown}: {str(detail['input'])[:64]!r}: {message}"
