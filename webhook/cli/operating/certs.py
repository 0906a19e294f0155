"""``harbormaster certs``: inspect the certificate authority of ``harbormaster serve``, or rotate it early."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
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
    from webhook.kube.webhook_configurations.ca_bundles import CaBundles
    from webhook.settings.programs import CertsSettings

HELP: Final = """Show and replace the certificate authority of `harbormaster serve`.

Where HARBORMASTER_CERTIFICATE_SECRET names a Secret, all replicas of `serve` share the authority in it: they make it,
replace it after two thirds of its life, and have the webhook configurations trust it. Nobody needs these commands for
that. They are for looking, and for the day on which a key has got into wrong hands.

\b
Examples:
  harbormaster certs inspect --context hub
  harbormaster certs rotate --force --context hub

\b
Exit codes:
  0  shown and in order, or replaced
  1  something is wrong with the certificates, a rollover is not due, or no hub
"""
INSPECT: Final = """Show the certificate authority, who trusts it, and when the next one comes.

Names what is wrong: a rollover that is overdue, a webhook configuration that trusts somebody else. With `-o pem` it
prints the certificates that clients should trust, for the `caFile` of a scheduler or for `--ca-file`.

\b
Examples:
  harbormaster certs inspect --context hub
  harbormaster certs inspect --kubeconfig hub.kubeconfig -o pem > ca.crt
  harbormaster certs inspect --context hub -o json | jq .nextRollover

\b
Exit codes:
  0  shown, and in order
  1  shown, and something is wrong; or no hub, or you may not read the Secret
"""
ROTATE: Final = """Make the next certificate authority.

The replicas do so by themselves in time, so this refuses unless it is due; --force does it now. Clients that know only
the authority before the new one are still served, until that one expires. Those that know only the one before that are
cut off, and you are told when there may be some. On a terminal you are asked then.

With --distrust all authorities so far stop being trusted at once, because a key is in wrong hands. For some seconds,
until every replica and every API server has heard of it, writes to our kinds may be refused.

The new authority lasts as long as HARBORMASTER_AUTHORITY_LIFE_SECONDS says.

\b
Examples:
  harbormaster certs rotate --context hub
  harbormaster certs rotate --force --context hub
  harbormaster certs rotate --force --distrust --context hub

\b
Exit codes:
  0  replaced; the replicas follow within seconds
  1  not due, cancelled, somebody else was faster, or no hub
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
            "-n", "--namespace", metavar="NS", help="Where harbormaster is installed.  [default: harbormaster-system]"
        ),
        click.option("--secret", metavar="NAME", help=f"The Secret with the authority.  [default: {SECRET}]"),
        click.option("--webhook-configuration", metavar="NAME", help="The two that trust it.  [default: harbormaster]"),
    )(command)


@click.group("certs", help=HELP, short_help="Show and replace the certificate authority of `harbormaster serve`.")
def command() -> None:
    """Hold the two commands."""


@command.command("inspect", help=INSPECT, short_help="Show the authority, who trusts it, and when the next one comes.")
@place_options
@output_option("table", "json", "yaml", "pem")
@hub_options
def inspect_command(place: _AuthorityOptions, output: str, hub: HubOptions) -> int:
    """Show everything, then what is wrong with it."""
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


@command.command("rotate", help=ROTATE, short_help="Make the next certificate authority.")
@click.option("--force", is_flag=True, help="Although it is not due.")
@click.option("--distrust", is_flag=True, help="Trust the authorities so far no more. With --force.")
@place_options
@output_option("table", "json", "yaml")
@hub_options
def rotate_command(*, force: bool, distrust: bool, place: _AuthorityOptions, output: str, hub: HubOptions) -> int:
    """Write the next generation into the Secret."""
    if distrust and not force:
        raise click.UsageError("--distrust goes with --force: the authorities so far stop being trusted at once")
    state = run(_rotate(hub, place.settings(), force=force, distrust=distrust))
    if output != "table":
        document = state.document()
        del document["problems"], document["webhookConfigurations"]  # of before
        print_document(document, output)
        return 0
    lineage = state.stored.lineage
    assert lineage is not None
    click.echo(
        f"Secret {state.secret}: generation {lineage.generation}, {lineage.active.name}; replicas follow within seconds"
    )
    return 0


async def _look(hub: HubOptions, settings: "CertsSettings") -> "CertificateState":
    async with _Hub(hub, settings) as session:
        return await session.look()


async def _rotate(hub: HubOptions, settings: "CertsSettings", *, force: bool, distrust: bool) -> "CertificateState":
    """Write the next generation. Raises `UserError`."""
    from dataclasses import replace

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
                f"Secret {state.secret} has been changed meanwhile; look at it with: harbormaster certs inspect"
            ) from error
        return replace(state, stored=StoredLineage(None, next_lineage))


def _next_life(settings: "CertsSettings", lineage: "Lineage") -> "timedelta":
    """Return the lifetime of the next authority: the same as that of this one, unless the environment overrides it.

    The lifetime that the replicas use is configured where they run, which this command may not know.
    """
    from datetime import timedelta

    from webhook.settings.certificates import LONGEST_LIFE_SECONDS

    if "authority_life_seconds" in settings.model_fields_set:
        return timedelta(seconds=settings.authority_life_seconds)
    return min(lineage.active.not_after - lineage.active.not_before, timedelta(seconds=LONGEST_LIFE_SECONDS))


def _check_due(state: "CertificateState", lineage: "Lineage", *, force: bool) -> None:
    """Raise `UserError` if a rollover is neither due nor forced."""
    from scorer.api.meta import format_time

    if not force and not lineage.is_due(state.now):
        raise UserError(
            f"{lineage.active.name} is to be replaced at {format_time(lineage.due())}, which the replicas do by "
            "themselves; to do it now: --force"
        )


def _warn(state: "CertificateState", lineage: "Lineage", *, distrust: bool) -> None:
    """Warn about clients that lose access. On a terminal, ask for confirmation. Raises `click.Abort`."""
    from webhook.doctor.certificate_report import untrusting_clients

    warning = untrusting_clients(lineage, state.now)
    if distrust:
        warning = "every client that has not heard of the new authority is cut off, the API server too for some seconds"
    if not warning:
        return
    complain(f"warning: {warning}")
    if sys.stdin.isatty():
        click.confirm("Go on?", abort=True, err=True)


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
                "harbormaster up makes an authority whenever it starts, and keeps it in memory; "
                "name another hub: --kubeconfig FILE"
            )
        self._settings = settings

    async def __aenter__(self) -> "_Hub":
        from webhook.cli.hub.connection import open_server
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
        """Read everything. Raises `webhook.kube.ports.StoreError`."""
        from webhook.doctor.certificate_report import CertificateState
        from webhook.runtime.clock import utc_now

        stored, registered = await self.secret.read(), await self._bundles.read()
        return CertificateState(self.secret.key, stored, self._bundles.name, registered, utc_now())


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
