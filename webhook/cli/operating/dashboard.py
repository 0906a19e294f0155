"""``harbormaster dashboard``: the page over any hub, on this machine, for the user who runs it."""

import asyncio
import os
import shlex
import signal
import webbrowser

import click

from webhook.cli.errors import UserError, complain
from webhook.cli.hub.connection import HubConnection
from webhook.cli.options.base import run
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.program import program

HELP = """Serve the web page for a hub from this machine.

Nothing is installed on the hub. Until Ctrl-C, the command reads the hub with your rights. It writes to the hub only for
actions on the page, if you enable them with --page-actions.

The page listens only on loopback, and its address contains a key, so that other users of this machine have no access. A
key is valid once: to open another tab, use the next address that the command prints.

`harbormaster up` and `harbormaster serve` have their own page.

\b
Examples:
  harbormaster dashboard --context hub
  harbormaster dashboard --kubeconfig hub.kubeconfig --port 8090 --open
  harbormaster dashboard --context hub --page-actions

\b
Exit codes:
  0  stopped by Ctrl-C or SIGTERM
  1  an unreachable hub, no permission to read it, or a port in use
"""


@click.command("dashboard", help=HELP, short_help="Serve the web page for a hub from this machine.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1.  [default: any free port]")
@click.option(
    "--page-actions", "acts", is_flag=True, help="Offer actions on the page, which are executed with your rights."
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@hub_options
def command(port: int, hub: HubOptions, *, acts: bool, opens: bool) -> int:
    """Show the page. Raises `UserError` for the hub of `harbormaster up`."""
    connection = hub.find()
    if connection.ours:
        raise UserError(
            "harbormaster up has its own page, at the address that it printed. Select another hub with --context NAME "
            "or --kubeconfig FILE"
        )
    return run(_show(connection, _options_of(hub, connection), port, acts=acts, opens=opens))


def _options_of(hub: HubOptions, connection: HubConnection) -> str:
    """Return the options of a command that uses the same hub."""
    file = "" if hub.kubeconfig is None else f" --kubeconfig {shlex.quote(str(hub.kubeconfig))}"
    return f"{file} --context {shlex.quote(connection.context)}" if connection.context else file


async def _show(connection: HubConnection, options: str, port: int, *, acts: bool, opens: bool) -> int:
    from webhook.cli.hub.connection import unreachable
    from webhook.cli.hub.login import open_server
    from webhook.endpoints.http.services import PageFacts
    from webhook.kube.ports import UnavailableError
    from webhook.processes.dashboard import HOST, dashboard
    from webhook.processes.hub_reading import NotReadableError
    from webhook.settings.environment import SettingsError
    from webhook.settings.programs import ServerSettings
    from webhook.telemetry.logs import configure

    configure("text", "error")  # progress is logged for servers, not for users of a command
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        settings = ServerSettings.read(os.environ, page_actions=acts or None)
        async with (
            await open_server(connection) as hub,
            dashboard(hub, settings, port, _tell_next, PageFacts(program(), options)) as (
                address,
                unread,
            ),
        ):
            _tell(connection, address, unread)
            if opens:
                webbrowser.open(address)
            await loop.create_future()
    except asyncio.CancelledError:  # by a signal
        pass
    except SettingsError as error:
        raise UserError(error.mistakes) from error
    except NotReadableError as error:
        raise UserError(f"{connection}: {error}") from error
    except UnavailableError as error:
        raise unreachable(connection, error) from error
    except OSError as error:
        raise UserError(f"--port {port}: {HOST}: {(error.strerror or str(error)).lower()}") from error
    return 0


def _tell_next(address: str) -> None:
    click.echo(f"Opened. For another tab: {address}")


def _tell(connection: HubConnection, address: str, unread: list[str]) -> None:
    if unread:
        complain(f"note: not shown, because you may not read them or the hub does not serve them: {', '.join(unread)}")
    click.echo(f"{connection}\n{address}\nPress Ctrl-C to stop.")
