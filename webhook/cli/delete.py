"""``harbormaster delete``: objects of the running hub."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import click

from scorer.api.documents import finalizers_of
from webhook.cli.apply import known_objects
from webhook.cli.applying import find
from webhook.cli.client import Client, Place, RefusedError
from webhook.cli.connection import Connection
from webhook.cli.documents import Found, in_order_of_dependence, read, title_of
from webhook.cli.failure import UserError, complain
from webhook.cli.files import Files
from webhook.cli.hub_options import HubOptions, hub_options
from webhook.cli.kind_words import parse_wanted
from webhook.cli.options import file_option, grouped, hub_namespace_option, run

HELP = """Delete objects.

Name them as KIND/NAME or KIND NAME..., or by the files they came from. If you delete a placement, the agents remove the
objects it has placed from its clusters. The command waits until the objects are gone.

\b
Examples:
  harbormaster delete crp/payments
  harbormaster delete crp payments web --no-wait
  harbormaster delete -f examples/fleet

\b
Exit codes:
  0  the objects are gone; with --no-wait: the hub has accepted the deletion
  1  no such object, refused, or not gone in time
"""

_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Manner:
    """How objects are deleted.

    Args:
        ignore_not_found: An object that does not exist is no error.
        wait: Wait until the objects are gone.
        timeout: Seconds to wait.
        dry_run: Delete nothing.
    """

    ignore_not_found: bool
    wait: bool
    timeout: float
    dry_run: bool

    @property
    def waits(self) -> bool:
        """Whether there is something to wait for."""
        return self.wait and not self.dry_run


@click.command("delete", help=HELP, short_help="Delete objects.")
@click.argument("words", nargs=-1, metavar="[KIND/NAME | KIND NAME]...")
@file_option
@hub_namespace_option
@grouped(
    "manner",
    Manner,
    click.option("--ignore-not-found", is_flag=True, help="An object that does not exist is no error."),
    click.option("--wait/--no-wait", default=True, help="Wait until the objects are gone.  [default: wait]"),
    click.option("--timeout", default=60.0, show_default=True, type=click.FloatRange(0), help="Seconds to wait."),
    click.option("--dry-run", is_flag=True, help="Let the hub check everything and delete nothing."),
)
@hub_options
def command(words: Sequence[str], files: Files, namespace: str | None, manner: Manner, hub: HubOptions) -> int:
    """Delete objects."""
    if bool(words) == bool(files):
        raise click.UsageError("say what to delete: KIND/NAME or -f FILE")
    found = read(files)
    connection = hub.find()
    return run(_delete(connection, words, found, namespace, manner))


async def _delete(
    connection: Connection, words: Sequence[str], found: list[Found], namespace: str | None, manner: Manner
) -> int:
    failed = False
    async with Client(connection) as client:
        if words:
            places = await _named(client, words, namespace)
        else:
            loaded = in_order_of_dependence(await known_objects(client, found, namespace))
            places = [Place(one.kind, one.namespace or None, one.name) for one in reversed(loaded)]
        waiting: list[tuple[Place, str]] = []
        for place in places:
            try:
                answer = await client.delete(place, dry_run=manner.dry_run)
            except RefusedError as error:
                if error.code == 404 and manner.ignore_not_found:
                    continue
                failed = True
                for line in error.lines():
                    complain(f"error: {line}")
                continue
            for warning in answer.warnings:
                complain(f"Warning: {warning}")
            click.echo(f"{title_of(place.kind, place.name)} deleted{' (dry run)' if manner.dry_run else ''}")
            if answer.document.get("kind") != "Status":
                waiting.append((place, str(answer.document["metadata"]["uid"])))
        if manner.waits and not await _gone(client, waiting, manner.timeout):
            return 1
    return 1 if failed else 0


async def _named(client: Client, words: Sequence[str], namespace: str | None) -> list[Place]:
    wanted = await parse_wanted(words, client)
    if nameless := next((each.kind for each in wanted if not each.name), None):
        raise UserError(f"{nameless.kind}: say which one: {nameless.kind.lower()}/NAME")
    space = namespace or client.namespace
    return [Place(each.kind, space if each.kind.namespaced else None, each.name) for each in wanted]


async def _gone(client: Client, waiting: list[tuple[Place, str]], seconds: float) -> bool:
    """Wait until all finalizers have been removed; say what is left after *seconds*."""
    end = asyncio.get_running_loop().time() + seconds
    for place, uid in waiting:
        # By uid: a new object of the same name, which another client may create at once, is not the one we wait for.
        while (left := await find(client, place)) is not None and left["metadata"].get("uid") == uid:
            if asyncio.get_running_loop().time() >= end:
                held = ", ".join(finalizers_of(left))
                complain(f"error: {title_of(place.kind, place.name)} is not gone after {seconds:g} s, held by: {held}")
                return False
            await asyncio.sleep(_POLL_SECONDS)
    return True
