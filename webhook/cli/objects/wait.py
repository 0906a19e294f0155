"""``harbormaster wait``: wait until objects meet a condition."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import click

from scorer.api.family import PLACEMENTS
from scorer.api.unstructured.documents import conditions_of, text_at
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quoting import printable
from webhook.cli.errors import SERVER_ERROR, UserError, complain
from webhook.cli.files.documents import title_of
from webhook.cli.files.parsing import SourceDocument
from webhook.cli.hub.client import Client, HubRefusedError, ResourcePath, find
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.resource_arguments import parse_resources
from webhook.cli.objects.options import ObjectFiles, file_options
from webhook.cli.options.base import grouped, hub_namespace_option, run, selecting_options, tab
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.options.times import Patience
from webhook.cli.text.jsonpath import JsonPathError, go_text, parse_path

HELP = """Wait for a condition on one or more objects.

\b
--for selects the condition:
  condition=Available           the condition is True (condition=Available=False: it is False). A prefix that names the
                                kind may be omitted: Available matches ClusterResourcePlacementAvailable
  jsonpath={.status.state}=Completed      a field has a value (without a value: it exists)
  create                        the object exists
  delete                        the object is deleted

A condition is ignored if its observedGeneration is older than the generation of the object.

\b
Examples:
  harbormaster wait crp/payments --for=condition=Available --timeout=5m
  harbormaster wait cuprun --all --for=jsonpath={.status.state}=Completed --timeout=2h
  harbormaster wait crp/payments --for=delete

\b
Exit codes:
  0  the condition is met by all objects
  1  timed out, no such object, or an unreachable hub
"""
_PAUSE_SECONDS: Final = 1.0
_DELETE: Final = "delete"
_PLACEMENT_KINDS: Final = tuple(kind.kind for kind in PLACEMENTS)
"""Prefixes of the conditions of placements, also for objects of a list, which lack their kind."""

Test = Callable[[JsonObject | None], bool]


@dataclass(frozen=True, slots=True)
class Goal:
    """Condition to wait for.

    Args:
        words: The condition as the user wrote it.
        met: Whether an object meets it. The argument is None for a missing object.
        may_be_missing: Whether the object may be missing, as for ``create`` and ``delete``.
        condition: Type of the condition, empty for other goals.
    """

    words: str
    met: Test
    may_be_missing: bool = False
    condition: str = ""


class GoalType(click.ParamType[Goal]):
    """Parameter type of ``--for``."""

    name = "goal"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Goal:
        """Return the goal, or fail with a list of the possible ones. Raises `click.BadParameter`."""
        if isinstance(value, Goal):
            return value
        text = str(value)
        word, _, rest = text.partition("=")
        if text.lower() == _DELETE:
            return Goal(_DELETE, lambda live: live is None, may_be_missing=True)
        if text.lower() == "create":
            return Goal("create", lambda live: live is not None, may_be_missing=True)
        if word == "condition" and rest:
            kind, _, status = rest.partition("=")
            return Goal(text, _condition(kind, status or "true"), condition=kind)
        if word == "jsonpath" and rest:
            try:
                return Goal(text, _field(rest))
            except JsonPathError as error:
                self.fail(f"{printable(text)[:128]}: {error}", param, ctx)
        goals = "condition=NAME, jsonpath={PATH}=VALUE, create, delete"
        raise click.BadParameter(f"{printable(text)[:64]!r} is not one of {goals}", ctx, param)


def _condition(word: str, status: str) -> Test:
    def met(live: JsonObject | None) -> bool:
        matches = _matching_types(live or {}, word)
        if len(matches) > 1:
            raise AmbiguousConditionError(f"{word!r} matches several conditions: {', '.join(matches)}")
        for condition in conditions_of(live or {}):
            if [condition.get("type")] == matches:
                about, now = condition.get("observedGeneration"), (live or {}).get("metadata", {}).get("generation")
                is_old = isinstance(about, int) and isinstance(now, int) and about < now
                return not is_old and str(condition.get("status", "")).lower() == status.lower()
        return False

    return met


class AmbiguousConditionError(Exception):
    """A short name fits several conditions of an object."""


def _matching_types(live: JsonObject, word: str) -> list[str]:
    """Return the types of conditions that *word* names: in full, else without the kind of the object or the domain.

    ``Available`` names ``ClusterResourcePlacementAvailable``, and ``SchedulerFailed`` names
    ``harbormaster.dev/SchedulerFailed``.
    """
    types, word = [str(condition.get("type", "")) for condition in conditions_of(live)], word.lower()
    in_full = [name for name in types if name.lower() == word]
    kinds = tuple(kind.lower() for kind in (text_at(live, "kind"), *_PLACEMENT_KINDS) if kind)
    short = [
        name
        for name in types
        if name.lower().rpartition("/")[2] == word or name.lower() in [f"{kind}{word}" for kind in kinds]
    ]
    return in_full or sorted(set(short))


def _field(text: str) -> Test:
    """Parse ``{.path}=value`` or ``{.path}``. Raises `JsonPathError`."""
    end = text.rfind("}") + 1
    path, equals, value = (text[:end], text[end : end + 1], text[end + 1 :]) if end else text.partition("=")
    if end and equals not in ("", "="):
        raise JsonPathError("expected {PATH}=VALUE")
    if equals and not value:
        raise JsonPathError("the value after = is empty")
    json_path = parse_path(path)
    expected = value.strip("'\"") if equals else None

    def met(current: JsonObject | None) -> bool:
        values = json_path.find([current or {}])
        if len(values) > 1:
            raise JsonPathError("the path matches more than one value")
        return bool(values) if expected is None else [go_text(value) for value in values] == [expected]

    return met


@dataclass(frozen=True, slots=True)
class Which:
    """Selection of objects of a kind by labels or namespace, instead of by name.

    Args:
        selector: Label selector, empty for any labels.
        everything: Select all objects.
        everywhere: Whether to select objects of all namespaces.
    """

    selector: str
    everything: bool
    everywhere: bool


@click.command("wait", help=HELP, short_help="Wait for a condition on one or more objects.")
@click.argument("words", nargs=-1, metavar="[KIND/NAME | KIND NAME]...", shell_complete=tab("objects"))
@click.option(
    "--for",
    "goal",
    type=GoalType(),
    required=True,
    metavar="GOAL",
    shell_complete=tab("goals"),
    help="Condition to wait for.",
)
@click.option(
    "--timeout", type=Patience(), default="30s", show_default=True, help="Maximum time to wait. 0: check once."
)
@grouped(
    "selection",
    Which,
    *selecting_options,
)
@file_options
@hub_namespace_option
@hub_options
def command(
    words: Sequence[str],
    goal: Goal,
    timeout: float,
    selection: Which,
    files: ObjectFiles,
    namespace: str | None,
    hub: HubOptions,
) -> int:
    """Wait for a condition of objects. Return the exit code. Raises `click.UsageError`."""
    if bool(words) == bool(files):
        raise click.UsageError("specify what to wait for: either KIND/NAME, or files with -f or -k")
    if files and (selection.selector or selection.everything or selection.everywhere):
        raise click.UsageError("-l, --all and -A cannot be used with files")
    documents = files.read()
    connection = hub.find()
    return run(_wait(connection, words, documents, namespace, goal, timeout, selection))


async def _wait(
    connection: HubConnection,
    words: Sequence[str],
    documents: Sequence[SourceDocument],
    namespace: str | None,
    goal: Goal,
    seconds: float,
    selection: Which,
) -> int:
    async with Client(connection) as client:
        places = await _places(client, words, documents, namespace, selection)
        if not places and goal.words != _DELETE:
            raise UserError("no matching resources found")
        end = asyncio.get_running_loop().time() + seconds
        late = 0
        for place in places:
            remaining_time = max(0.0, end - asyncio.get_running_loop().time())
            title = title_of(place.kind, place.name)
            try:
                async with asyncio.timeout(remaining_time or None):
                    is_met = await _until(client, place, goal, once=not remaining_time)
            except TimeoutError:
                is_met = False
            except AmbiguousConditionError as error:
                raise UserError(f"--for {goal.words}: {title}: {error}") from error
            except JsonPathError as error:
                raise UserError(f"--for {goal.words}: {title}: {error}") from error
            if is_met:
                click.echo(f"{title} condition met")
            else:
                late += 1
                complain(f"error: timed out waiting for {goal.words} on {title}{await _present(client, place, goal)}")
        return 1 if late else 0


async def _until(client: Client, place: ResourcePath, goal: Goal, *, once: bool) -> bool:
    """Watch an object until the goal is met, or check it only once. Return whether the goal is met.

    Raises:
        UserError: The object does not exist, and the goal does not allow for that.
    """
    while True:
        live = await find(client, place)
        if live is None and not goal.may_be_missing:
            raise UserError(f'{SERVER_ERROR} (NotFound): {place.kind.resource} "{place.name}" not found')
        if goal.met(live):
            return True
        if once:
            return False
        since = text_at(live, "metadata", "resourceVersion")
        if live is None:
            await asyncio.sleep(_PAUSE_SECONDS)
            continue
        collection = ResourcePath(place.kind, place.namespace)
        async for event in client.watch(collection, since, fields=f"metadata.name={place.name}"):
            if event.type == "DELETED":
                break
            if event.type in ("ADDED", "MODIFIED") and goal.met(event.document):
                return True
            if event.type == "ERROR":
                await asyncio.sleep(_PAUSE_SECONDS)
                break


async def _present(client: Client, place: ResourcePath, goal: Goal) -> str:
    """Return the conditions of an object that lacks the awaited one, as the end of a message, else an empty string."""
    live = await find(client, place) if goal.condition else None
    if live is None or _matching_types(live, goal.condition):
        return ""
    types = sorted(str(condition.get("type", "")) for condition in conditions_of(live))
    return f", which has no such condition. Its conditions: {', '.join(types) or 'none'}"


async def _places(
    client: Client, words: Sequence[str], documents: Sequence[SourceDocument], namespace: str | None, selection: Which
) -> list[ResourcePath]:
    if documents:
        from webhook.cli.hub.discovery import resolve_objects

        objects = await resolve_objects(client, documents, namespace)
        return [ResourcePath(item.kind, item.namespace or None, item.name) for item in objects]
    places = []
    for resource in await parse_resources(words, client):
        place = resource.place(namespace, client.namespace, everywhere=selection.everywhere)
        if resource.name:
            if selection.everywhere and resource.kind.namespaced:
                raise UserError("--all-namespaces cannot be used with object names")
            places.append(place)
            continue
        if not selection.selector and not selection.everything:
            raise UserError(
                f"{resource.kind.kind}: name the object: {resource.kind.kind.lower()}/NAME, -l LABELS or --all"
            )
        try:
            listing = await client.list(place, selection.selector)
        except HubRefusedError as error:
            raise UserError(error.lines()) from error
        items = [item["metadata"] for item in listing.get("items") or ()]
        places += [ResourcePath(resource.kind, metadata.get("namespace"), metadata["name"]) for metadata in items]
    return places
