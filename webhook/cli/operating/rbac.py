"""``harbormaster rbac``: the roles that our processes need, ready for ``kubectl apply``."""

import json
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import UserError, complain
from webhook.cli.options.base import grouped, output_option
from webhook.cli.text.output import print_document
from webhook.settings.installation import SERVE_ACCOUNT

if TYPE_CHECKING:
    from webhook.processes.account_policies import Policy
    from webhook.processes.node_rights import NodeRights
    from webhook.processes.rbac import SelectedResources
    from webhook.processes.rbac_objects import PolicyRule, Role
    from webhook.settings.programs import RbacSettings

HELP: Final = """Print ClusterRoles, Roles and their bindings for one of the processes of harbormaster.

A comment above each rule explains why the process needs it. The rules allow nothing else. No process may impersonate
users. On the hub, the loop may create Secrets in the namespace of the installation, for the keys that sign Works, and
`serve` may write the Secret of its certificate authority if the settings name one. `*`, bind and escalate appear only
if an option requests them.

Limits that RBAC cannot express, such as the Leases and namespaces that an account may create, are set by
ValidatingAdmissionPolicies, which are printed as well.

\b
Examples:
  harbormaster rbac reconcile | kubectl --context hub apply -f -
  harbormaster rbac reconcile --select namespaces --select configmaps --select boats.example.com
  harbormaster rbac serve --service-account quay -n harbormaster-system
  harbormaster rbac agent --user member-a-agent -o json

\b
Exit codes:
  0  printed
  1  an error
"""

RECONCILE: Final = """Print the roles that `harbormaster reconcile` needs on the hub.

The loop reads the kinds that placements select. --select names them, and replaces the default: all built-in kinds that
can be selected, except Secrets, because an account that reads all Secrets of a hub can act as any user there. If
placements place Secrets, add --secrets.

If a placement selects a kind that the loop may not read, the status of the placement reports it. A placement of a whole
namespace omits the kind, and an Event reports it.

The loop also gets the kinds of HARBORMASTER_ANALYSIS_KINDS, whose conditions may approve a stage of a staged update
run, and the Clusters of Cluster API if `cluster-api` is one of HARBORMASTER_UPGRADERS.

--serve adds the roles of the server to the same account, for `harbormaster serve --reconcile`.

Admission exempts the loop from its rules about users, so it must know the loop's user: set
HARBORMASTER_SERVICE_ACCOUNT, or HARBORMASTER_LOOP_USER if the loop uses a client certificate, for `serve` and
`webhook-configuration` as well.

\b
Examples:
  harbormaster rbac reconcile | kubectl --context hub apply -f -
  harbormaster rbac reconcile --secrets --serve | kubectl --context hub apply -f -
  harbormaster rbac reconcile --select namespaces --select deploy --select boats.example.com
  HARBORMASTER_LOOP_USER=hub-loop harbormaster rbac reconcile --back-report -o json

\b
Exit codes:
  0  printed
  1  an error, such as an unknown kind
"""

SERVE: Final = """Print the roles that `harbormaster serve` needs on the hub.

The server reads the objects that admission and /v1 depend on, and creates TokenReviews and SubjectAccessReviews. It
writes the Leases of reservations, the history, Events and, for authorized callers, commands to upgrade runs and
decisions on their gates. For `serve --reconcile`, see `rbac reconcile --serve`.

If the server keeps a certificate authority of its own, it also writes the Secret of the authority and the webhook
configurations: set the same HARBORMASTER_CERTIFICATE_SECRET here. If upgraders report to the server, it also writes the
status of their requests: set the same HARBORMASTER_HANDOFF_SECRET_FILE here.

Most hubs need neither commands to upgrade runs over HTTPS nor queries about node pools: omit these rights with
--no-upgrade-orders and --no-node-pools.

\b
Examples:
  harbormaster rbac serve | kubectl --context hub apply -f -
  harbormaster rbac serve --no-upgrade-orders --no-node-pools | kubectl --context hub apply -f -
  HARBORMASTER_CERTIFICATE_SECRET=harbormaster-ca harbormaster rbac serve | kubectl --context hub apply -f -

\b
Exit codes:
  0  printed
  1  an error
"""

AGENT: Final = """Print the roles that `harbormaster agent` needs on its own member.

On the hub, `harbormaster reconcile` creates the role that the agent needs: the Role fleet-role-NAME for the
`spec.identity` of the MemberCluster. On the member, the agent may write the kinds named by --apply. The default is all
built-in kinds that placements select, except roles and role bindings. Those require --apply-rbac, because a user who
can place roles can get any right on the member.

Even without --apply-rbac, an agent is powerful. A user who can make it write a workload can run that workload as any
ServiceAccount of the namespace, and mount any Secret of the namespace. The agent may delete everything that it may
write.

Webhooks, definitions and API services affect every request to the member. --no-apply-control-plane omits admission
webhooks and policies, API services, certificate requests and flow schemas.

RBAC cannot exclude namespaces: the agent itself refuses its own and `kube-*` (`harbormaster agent
--blocked-namespaces`, `--allowed-kinds`). This does not restrict another client that has the agent's token.

\b
Examples:
  harbormaster rbac agent | kubectl --context member apply -f -
  harbormaster rbac agent --apply namespaces --apply configmaps --apply deployments

\b
Exit codes:
  0  printed
  1  an error, such as an unknown kind
"""

AGENT_ACCOUNT: Final = "harbormaster-agent"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_LONGEST: Final = 100
_Command = TypeVar("_Command", bound=Callable[..., Any])


@click.group("rbac", help=HELP, short_help="Print the RBAC roles that harbormaster needs.")
def command() -> None:
    """Hold one command per process."""


@dataclass(frozen=True, slots=True)
class _SubjectOptions:
    """Subject of the role bindings.

    Args:
        namespace: Namespace of the installation. None: unset, as in the settings.
        account: A ServiceAccount there. None means the default one, unless a user is named.
        user_name: A user.
    """

    namespace: str | None
    account: str | None
    user_name: str | None


def subject_options(account: str) -> Callable[[_Command], _Command]:
    """Return a decorator that adds the options for the subject of the roles, as ``subject``.

    *account* is the default ServiceAccount in the help text.
    """
    return grouped(
        "subject",
        _SubjectOptions,
        click.option(
            "-n",
            "--namespace",
            metavar="NS",
            help="Namespace where harbormaster is installed.  [env: HARBORMASTER_NAMESPACE]  "
            "[default: harbormaster-system]",
        ),
        click.option(
            "--service-account",
            "account",
            metavar="NAME",
            help=f"ServiceAccount that the process runs as.  [default: {account}]",
        ),
        click.option(
            "--user",
            "user_name",
            metavar="NAME",
            help="User that the process runs as, instead of a ServiceAccount: the CN of a client certificate.",
        ),
    )


@dataclass(frozen=True, slots=True)
class ServerRights:
    """Rights of the server that most installations do not need.

    Args:
        upgrade_orders: Whether the server may start, stop and change upgrade runs for callers.
        node_pools: Whether the server may read nodes, claims, pods and their budgets.
    """

    upgrade_orders: bool
    node_pools: bool


server_options = grouped(
    "optional",
    ServerRights,
    click.option(
        "--upgrade-orders/--no-upgrade-orders",
        default=True,
        help="Allow the server to start, stop and change upgrade runs for callers over HTTPS.  [default: allow]",
    ),
    click.option(
        "--node-pools/--no-node-pools",
        default=True,
        help="Allow the server to read pods and NodeClaims for requests about node pools.  [default: allow]",
    ),
)


@command.command("reconcile", help=RECONCILE, short_help="Print the roles that the loop needs on the hub.")
@click.option(
    "--select", "select", multiple=True, metavar="KIND", help="A kind that placements may select. Repeatable."
)
@click.option(
    "--select-everything", is_flag=True, help="Allow placements to select all kinds (`*`), including Secrets."
)
@click.option(
    "--secrets",
    is_flag=True,
    help="Allow the loop to read all Secrets of the hub, so that placements can select Secrets.",
)
@click.option(
    "--back-report", is_flag=True, help="Allow the loop to write the status of placed objects back to the hub."
)
@click.option("--serve", "with_server", is_flag=True, help="Add the roles of the server, for `serve --reconcile`.")
@server_options
@subject_options("that of the settings: harbormaster-reconcile")
@output_option("yaml", "json")
def reconcile(
    select: Sequence[str],
    select_everything: bool,
    secrets: bool,
    back_report: bool,
    with_server: bool,
    optional: ServerRights,
    subject: _SubjectOptions,
    output: str,
) -> int:
    """Print the roles of the loop. Raises `click.UsageError` or `UserError`."""
    from webhook.processes.account_policies import (
        key_policies,
        member_policies,
        node_policies,
        reconcile_policies,
    )
    from webhook.processes.rbac import SelectedResources, default_selection, reconcile_roles
    from webhook.settings.gate import NodeDisruptionMode
    from webhook.settings.upgraders import CLUSTER_API

    if select and select_everything:
        raise click.UsageError("--select and --select-everything cannot be used together")
    selection = _read("--select", (*select, "secrets") if select and secrets else select)
    selected = (
        SelectedResources(everything=True) if select_everything else selection or default_selection(secrets=secrets)
    )
    settings = _settings(subject.namespace)
    roles = reconcile_roles(
        selected,
        settings.namespace,
        lease=settings.lease_name,
        back_report=back_report,
        analysis_kinds=settings.analysis_kinds,
        cluster_api=CLUSTER_API in settings.upgraders,
        nodes=_node_rights(settings),
    )
    policies = reconcile_policies(settings.lease_name) + member_policies(settings.allowed_users)
    policies += key_policies(settings.certificate_secret if with_server else "")
    if settings.node_disruption_mode is NodeDisruptionMode.ACT:
        policies += node_policies()
    if with_server:
        roles += _serve_roles(settings, optional)
    if subject.user_name is None and subject.account is None:
        subject = replace(subject, user_name=settings.loop_user or None)
    holder = _holder(settings.namespace, subject, settings.service_account)
    _check_loop(settings, subject)
    return _print(roles, holder, output, policies)


@command.command("serve", help=SERVE, short_help="Print the roles that the HTTPS server needs on the hub.")
@click.option(
    "--networking-agents",
    is_flag=True,
    help="Allow the server to read exported services, so that it can refuse the deletion of a member that still has "
    "some.",
)
@server_options
@subject_options(SERVE_ACCOUNT)
@output_option("yaml", "json")
def serve(networking_agents: bool, optional: ServerRights, subject: _SubjectOptions, output: str) -> int:
    """Print the roles of the server. Raises `UserError`."""
    from webhook.processes.account_policies import certificate_policies, serve_policies

    settings, account = _settings(subject.namespace), subject.account
    if subject.user_name is None and account == settings.service_account:
        raise UserError(
            f"--service-account {account!r}: is the account of the loop, which needs more rights than the server may "
            "have. For serve --reconcile, run: harbormaster rbac reconcile --serve"
        )
    roles = _serve_roles(settings, optional, networking_agents=networking_agents)
    policies = serve_policies() + certificate_policies(settings.certificate_secret)
    return _print(roles, _holder(settings.namespace, subject, SERVE_ACCOUNT), output, policies)


def _serve_roles(
    settings: "RbacSettings", optional: ServerRights, *, networking_agents: bool = False
) -> "tuple[Role, ...]":
    from webhook.processes.rbac import serve_roles

    return serve_roles(
        settings.namespace,
        networking_agents=networking_agents or settings.networking_agents,
        certificate_secret=settings.certificate_secret,
        webhook_configuration=settings.webhook_configuration,
        hand_off=settings.handoff_secret_file is not None,
        upgrade_orders=optional.upgrade_orders,
        node_pools=optional.node_pools,
        team_answers=settings.team_answers,
    )


@command.command("agent", help=AGENT, short_help="Print the roles that an agent needs on its member.")
@click.option("--apply", "apply", multiple=True, metavar="KIND", help="A kind that the agent may apply. Repeatable.")
@click.option(
    "--apply-rbac",
    is_flag=True,
    help="Also grant the right to apply roles and role bindings, with the verbs bind and escalate.",
)
@click.option(
    "--apply-control-plane/--no-apply-control-plane",
    default=True,
    help="Without --apply: add kinds that affect every request, such as webhook configurations.  [default: add them]",
)
@subject_options(AGENT_ACCOUNT)
@output_option("yaml", "json")
def agent(
    apply: Sequence[str], apply_rbac: bool, apply_control_plane: bool, subject: _SubjectOptions, output: str
) -> int:
    """Print the roles of an agent on its member. Raises `UserError`."""
    from webhook.processes.rbac import UnknownKindError, agent_roles, checked_applied, default_applied

    try:
        kinds = _read("--apply", apply) or default_applied(control_plane=apply_control_plane)
        applied = checked_applied(kinds)
    except UnknownKindError as error:
        raise UserError(f"--apply {error}") from error
    settings = _settings(subject.namespace)
    home = settings.namespace
    roles = agent_roles(applied, home, apply_rbac=apply_rbac, nodes=_node_rights(settings))
    return _print(roles, _holder(home, subject, AGENT_ACCOUNT), output)


def _node_rights(settings: "RbacSettings") -> "NodeRights":
    from webhook.processes.node_rights import NodeRights

    return NodeRights.of(settings.node_disruption_mode, settings.node_disruption_karpenter_lease)


def _read(option: str, words: Sequence[str]) -> "SelectedResources | None":
    from webhook.processes.rbac import UnknownKindError, parse_selection

    try:
        return parse_selection(words) if words else None
    except UnknownKindError as error:
        raise UserError(f"{option} {error}") from error


def _settings(namespace: str | None) -> "RbacSettings":
    from webhook.settings.environment import SettingsError
    from webhook.settings.programs import RbacSettings

    try:
        return RbacSettings.read(os.environ, namespace=namespace)
    except SettingsError as error:
        raise UserError(str(error)) from error


def _holder(namespace: str, subject: _SubjectOptions, usual: str) -> JsonObject:
    """Return the subject of the roles for a binding. *usual* is the account if the user names none.

    Raises:
        UserError: A name is invalid.
        click.UsageError: Both a user and an account are named.
    """
    from webhook.processes.rbac_objects import service_account, user

    user_name = subject.user_name
    if user_name is not None:
        if subject.account is not None:
            raise click.UsageError("--user and --service-account cannot be used together")
        if not user_name or not user_name.isprintable() or user_name.startswith("system:"):
            raise UserError(f"--user {user_name!r}: must be the name of a user, and must not start with system:")
        return user(user_name)
    name = usual if subject.account is None else subject.account
    if not _NAME.fullmatch(name):
        raise UserError(f"--service-account {name!r}: must be the name of a ServiceAccount")
    return service_account(namespace, name)


def _check_loop(settings: "RbacSettings", subject: _SubjectOptions) -> None:
    """Require that admission knows the loop by the name that gets its roles: only that name is exempt from some rules.

    Raises:
        UserError: The loop would run as a user that admission does not recognize as the loop. For a ServiceAccount,
            only a warning is printed.
    """
    account, user_name = subject.account, subject.user_name
    if user_name is not None and user_name != settings.loop_user:
        raise UserError(
            f"--user {user_name!r}: admission knows the loop as {settings.username_of_loop!r}, and would refuse its "
            f"writes. Set HARBORMASTER_LOOP_USER={user_name} here, for serve and for webhook-configuration"
        )
    if account is not None and (settings.loop_user or account != settings.service_account):
        complain(
            f"--service-account {account!r}: admission knows the loop as {settings.username_of_loop!r}. For serve and "
            f"webhook-configuration, too, set HARBORMASTER_SERVICE_ACCOUNT={account}"
            + (", and no HARBORMASTER_LOOP_USER" if settings.loop_user else "")
        )


def _print(roles: "Sequence[Role]", holder: JsonObject, output: str, policies: "tuple[Policy, ...]" = ()) -> int:
    """Print all objects, as commented YAML documents or one JSON list.

    The policies come first: applied in this order, they narrow the rights before the roles give them.
    """
    from webhook.processes.account_policies import policy_documents
    from webhook.processes.rbac_objects import documents, username_of

    narrowing: list[tuple[JsonObject, tuple[PolicyRule, ...]]] = [
        (document, ()) for document in policy_documents(policies, username_of(holder))
    ]
    objects = [*narrowing, *documents(roles, holder)]
    if output == "json":
        items = [document for document, _ in objects]
        print_document({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}, "json")
        return 0
    click.echo("---\n".join("".join(_commented(document, rules)) for document, rules in objects), nl=False)
    return 0


def _commented(document: JsonObject, rules: "Sequence[PolicyRule]") -> Iterator[str]:
    """Yield the text of an object, with the reason above each rule of a role. A repeated reason is printed once."""
    from webhook.runtime.yaml import format_yaml

    yield format_yaml({key: value for key, value in document.items() if key != "rules"})
    if rules:
        yield "rules:\n"
    message = ""
    for rule in rules:
        if rule.why != message:
            yield f"# {rule.why}\n"
        message = rule.why
        for position, (key, values) in enumerate(rule.document().items()):
            yield f"{'  ' if position else '- '}{key}: {_listed(values)}\n"


def _listed(values: Sequence[str]) -> str:
    """Return a list as one line, or as several if one would be too long."""
    words = ", ".join(json.dumps(value) for value in values)
    if len(words) <= _LONGEST:
        return f"[{words}]"
    lines = textwrap.wrap(words, _LONGEST, break_long_words=False, break_on_hyphens=False)
    return "[\n" + "".join(f"    {line}\n" for line in lines) + "  ]"
