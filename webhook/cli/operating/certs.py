"""``harbormaster certs``: inspect the certificate authority of ``harbormaster serve``, or rotate it early."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from webhook.cli.errors import UserError, complain
from webhook.cli.options.base import grouped, output_option, run
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.text.output import print_document, print_table

if TYPE_CHECKING:
    from datetime import timedelta

    from certs.rotation import Lineage
    from webhook.doctor.certificate_report import CertificateState
    from webhook.kube.certificates.authority_secret import AuthoritySecret
    from webhook.kube.webhook_configurations.ca_bundles import CaBundles, Registered
    from webhook.settings.programs import CertsSettings

HELP: Final = """Inspect and rotate the certificate authority of `harbormaster serve`.

If HARBORMASTER_CERTIFICATE_SECRET names a Secret, all replicas of `serve` share the certificate authority in it. They
create it, replace it after two thirds of its lifetime, and make the webhook configurations trust it. Use these commands
to inspect it, and to replace it early when a key is compromised.

\b
Examples:
  harbormaster certs inspect --context hub
  harbormaster certs rotate --force --context hub

\b
Exit codes:
  0  shown without problems, or replaced
  1  a problem with the certificates, a rollover that is not due, or an unreachable hub
"""
INSPECT: Final = """Show the certificate authority, the webhooks that trust it, and the next rollover.

Reports problems, such as an overdue rollover or a webhook configuration that trusts another authority. The APIService
of the API for teams is included if it exists, and must exist if HARBORMASTER_TEAM_ANSWERS is true. -o pem prints the
certificates that clients should trust, for the `caFile` of a scheduler or for `--ca-file`.

\b
Examples:
  harbormaster certs inspect --context hub
  harbormaster certs inspect --kubeconfig hub.kubeconfig -o pem > ca.crt
  harbormaster certs inspect --context hub -o json | jq .nextRollover

\b
Exit codes:
  0  no problems
  1  problems, an unreachable hub, or no permission to read the Secret
"""
ROTATE: Final = """Replace the certificate authority.

The replicas do this automatically, so the command refuses unless a rollover is due. --force replaces the authority now.
Clients that trust only the previous authority are served until that one expires. Clients that trust only the authority
before it lose access. If there may be such clients, the command warns, and on a terminal asks for confirmation.

When a key is compromised, --distrust ends the trust in all previous authorities immediately. For some seconds, until
every replica and every API server has picked up the change, writes to harbormaster's kinds may be refused.

The new authority is valid for as long as the present one, or for HARBORMASTER_AUTHORITY_LIFE_SECONDS if that is set.

\b
Examples:
  harbormaster certs rotate --context hub
  harbormaster certs rotate --force --context hub
  harbormaster certs rotate --force --distrust --context hub

\b
Exit codes:
  0  replaced (the replicas follow within seconds)
  1  not due, not confirmed, replaced by another client first, or an unreachable hub
"""
SECRET: Final = "harbormaster-ca"  # noqa: S105 - its name
_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _AuthorityOptions:
    """Location of the authority. None: unset, as in the settings.

    Args:
        namespace: Namespace of the installation.
        secret: Name of the Secret.
        webhook_configuration: Name of the two configurations.
    """

    namespace: str | None
    secret: str | None
    webhook_configuration: str | None

    def settings(self) -> "CertsSettings":
        """Read the settings. Raises `UserError`."""
        from webhook.settings.environment import SettingsError
        from webhook.settings.programs import CertsSettings

        try:
            settings = CertsSettings.read(
                os.environ,
                namespace=self.namespace,
                certificate_secret=self.secret,
                webhook_configuration=self.webhook_configuration,
            )
        except SettingsError as error:
            raise UserError(str(error)) from error
        return settings if settings.certificate_secret else settings.model_copy(update={"certificate_secret": SECRET})


def place_options(command: _Command) -> _Command:
    """Add the options that locate the authority to a command, as an `_AuthorityOptions` named ``place``."""
    return grouped(
        "place",
        _AuthorityOptions,
        click.option(
            "-n",
            "--namespace",
            metavar="NS",
            help="Namespace where harbormaster is installed.  [env: HARBORMASTER_NAMESPACE]  "
            "[default: harbormaster-system]",
        ),
        click.option(
            "--secret",
            metavar="NAME",
            help=f"Secret with the authority.  [env: HARBORMASTER_CERTIFICATE_SECRET]  [default: {SECRET}]",
        ),
        click.option(
            "--webhook-configuration",
            metavar="NAME",
            help="Name of both webhook configurations.  [env: HARBORMASTER_WEBHOOK_CONFIGURATION]  "
            "[default: harbormaster]",
        ),
    )(command)


@click.group("certs", help=HELP, short_help="Inspect and rotate the certificate authority of `harbormaster serve`.")
def command() -> None:
    """Group the two commands."""


@command.command(
    "inspect", help=INSPECT, short_help="Show the authority, the webhooks that trust it, and the next rollover."
)
@place_options
@output_option("table", "json", "yaml", "pem")
@hub_options
def inspect_command(place: _AuthorityOptions, output: str, hub: HubOptions) -> int:
    """Show the authority, then its problems. Return the exit code."""
    state = run(_look(hub, place.settings()))
    if output == "pem":
        return _print_pem(state)
    document = state.document()
    if output == "table":
        _print_tables(document)
        for problem in document["problems"]:
            complain(f"error: {problem}")
    else:
        print_document(document, output)
    return 1 if document["problems"] else 0


@command.command("rotate", help=ROTATE, short_help="Replace the certificate authority.")
@click.option("--force", is_flag=True, help="Replace the authority even if a rollover is not due.")
@click.option("--distrust", is_flag=True, help="Stop trusting all previous authorities. Requires --force.")
@place_options
@output_option("table", "json", "yaml")
@hub_options
def rotate_command(*, force: bool, distrust: bool, place: _AuthorityOptions, output: str, hub: HubOptions) -> int:
    """Write the next generation into the Secret. Raises `click.UsageError`."""
    if distrust and not force:
        raise click.UsageError("--distrust requires --force: all previous authorities lose trust immediately")
    state = run(_rotate(hub, place.settings(), force=force, distrust=distrust))
    if output != "table":
        document = state.document()
        for member in ("problems", "webhookConfigurations", "apiService"):  # of before
            document.pop(member, None)
        print_document(document, output)
        return 0
    lineage = state.stored.lineage
    assert lineage is not None
    click.echo(
        f"Secret {state.secret}: generation {lineage.generation}, {lineage.active.name}. Replicas follow within seconds"
    )
    return 0


async def _look(hub: HubOptions, settings: "CertsSettings") -> "CertificateState":
    async with _Hub(hub, settings) as session:
        return await session.inspect()


async def _rotate(hub: HubOptions, settings: "CertsSettings", *, force: bool, distrust: bool) -> "CertificateState":
    """Write the next generation. Raises `UserError`."""
    from webhook.kube.certificates.authority_secret import StoredLineage
    from webhook.kube.ports import ConflictError

    async with _Hub(hub, settings) as session:
        state = await session.look()
        lineage = state.stored.lineage
        if lineage is None:
            raise UserError(state.problems())
        _check_due(state, lineage, force=force)
        _warn(state, lineage, distrust=distrust)
        next_lineage = lineage.rolled_over(state.now, _next_life(settings, lineage), distrust=distrust)
        try:
            await session.secret.write(next_lineage, state.stored)
        except ConflictError as error:
            raise UserError(
                f"Secret {state.secret} was changed by another client: inspect it with harbormaster certs inspect"
            ) from error
        return replace(state, stored=StoredLineage(None, next_lineage))


def _next_life(settings: "CertsSettings", lineage: "Lineage") -> "timedelta":
    """Return the lifetime of the next authority: that of the present authority, unless the environment overrides it.

    The lifetime is configured on the replicas, so this command may not know it.
    """
    from datetime import timedelta

    from webhook.settings.certificates import LONGEST_LIFE_SECONDS

    if "authority_life_seconds" in settings.model_fields_set:
        return timedelta(seconds=settings.authority_life_seconds)
    return min(lineage.active.not_after - lineage.active.not_before, timedelta(seconds=LONGEST_LIFE_SECONDS))


def _check_due(state: "CertificateState", lineage: "Lineage", *, force: bool) -> None:
    """Raise `UserError` if a rollover is neither due nor forced."""
    from scorer.api.unstructured.json_object import format_time

    if not force and not lineage.is_due(state.now):
        raise UserError(
            f"{lineage.active.name} is due for replacement at {format_time(lineage.due())}, which the replicas do "
            "automatically. To replace it now, add --force"
        )


def _warn(state: "CertificateState", lineage: "Lineage", *, distrust: bool) -> None:
    """Warn about clients that lose access. On a terminal, ask for confirmation. Raises `UserError`."""
    from webhook.doctor.certificate_report import untrusting_clients

    warning = untrusting_clients(lineage, state.now)
    if distrust:
        warning = (
            "clients that do not trust the new authority yet lose access. For some seconds, this includes the API "
            "server"
        )
    if not warning:
        return
    complain(f"warning: {warning}")
    if sys.stdin.isatty() and not click.confirm("Continue?", err=True):
        raise UserError("not confirmed: the authority was not replaced")


class _Hub:
    """The certificates on a hub, opened by ``async with``.

    Refusals and timeouts of its API server are raised as `UserError`.
    """

    secret: "AuthoritySecret"
    _bundles: "CaBundles"

    def __init__(self, hub: HubOptions, settings: "CertsSettings") -> None:
        self._connection = hub.find()
        if self._connection.ours:
            raise UserError(
                "harbormaster up creates an authority at every start, and keeps it in memory. Select another hub "
                "with --context NAME or --kubeconfig FILE"
            )
        self._settings = settings

    async def __aenter__(self) -> "_Hub":
        from webhook.cli.hub.login import open_server
        from webhook.kube.certificates.authority_secret import AuthoritySecret
        from webhook.kube.webhook_configurations.ca_bundles import CaBundles

        self._server = await open_server(self._connection)
        self.secret = AuthoritySecret(self._server, self._settings.namespace, self._settings.certificate_secret)
        self._bundles = CaBundles(self._server, self._settings.webhook_configuration)
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        from webhook.cli.hub.connection import unreachable
        from webhook.kube.ports import StoreError, UnavailableError

        await self._server.__aexit__()
        if isinstance(error, UnavailableError):
            raise unreachable(self._connection, error) from error
        if isinstance(error, StoreError):
            raise UserError(str(error)) from error

    async def look(self) -> "CertificateState":
        """Read the Secret and the webhook configurations. Raises `webhook.kube.ports.StoreError`."""
        from webhook.doctor.certificate_report import CertificateState
        from webhook.runtime.clock import utc_now

        stored, registered = await self.secret.read(), await self._bundles.read()
        return CertificateState(self.secret.key, stored, self._bundles.name, registered, utc_now())

    async def inspect(self) -> "CertificateState":
        """Read the APIService as well. Raises `webhook.kube.ports.StoreError`."""
        state, service = await self.look(), await self._api_service()
        return replace(state, api_service=service, is_api_service_required=self._settings.team_answers)

    async def _api_service(self) -> "Registered | None":
        """Return the APIService of the API for teams, if it exists and the caller may get it."""
        from webhook.access.front_proxy import API_SERVICE
        from webhook.kube.ports import ForbiddenError, NotFoundError
        from webhook.kube.webhook_configurations.ca_bundles import read_api_service

        try:
            return await read_api_service(self._server, API_SERVICE)
        except NotFoundError:
            return None
        except ForbiddenError as error:
            if self._settings.team_answers:
                raise
            complain(f"note: APIService {API_SERVICE} not inspected: {error}")
            return None


def _print_pem(state: "CertificateState") -> int:
    from certs.rotation import pem_of

    if state.stored.lineage is None:
        raise UserError(state.problems())
    click.echo(pem_of(state.stored.lineage.trusted()).decode(), nl=False)
    return 0


def _print_tables(document: dict[str, Any]) -> None:
    from webhook.doctor.certificate_report import configuration_rows, rows

    if "generation" not in document:
        return
    print_table(
        ("SECRET", "GENERATION", "NEXT ROLLOVER"),
        [(document["secret"], document["generation"], document["nextRollover"])],
    )
    click.echo()
    print_table(("CERTIFICATE", "ROLE", "FROM", "UNTIL"), rows(document), whole=("CERTIFICATE",))
    click.echo()
    print_table(("CONFIGURATION", "ENTRIES", "TRUSTS"), configuration_rows(document), whole=("CONFIGURATION",))
