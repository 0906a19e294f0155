"""Shell completion of arguments: kinds, names, runs, reservations and contexts, read from the hub.

The shell blocks on a completion. A completion takes at most `SECONDS`, and prints nothing if the hub does not respond.
"""

import asyncio
import contextlib
import io
import os
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click
from click.shell_completion import CompletionItem

from scorer.api.family import PLACEMENTS, Family, family_in
from scorer.api.kinds import (
    CATEGORIES,
    KINDS,
    MEMBER_CLUSTER,
    NAMESPACE,
    NODE_POOL,
    OUR_KINDS,
    UPGRADE_GATE,
    UPGRADE_RUN,
    Kind,
    find_kind,
)
from scorer.api.unstructured.documents import (
    conditions_of,
    dicts_at,
    has_current_status,
    name_of,
    namespace_of,
    status_of,
    text_at,
)
from webhook.cli.hub.client import Client, HubRefusedError, ResourcePath
from webhook.cli.hub.resource_arguments import ALL, MOST, object_names
from webhook.cli.options.hub import HubOptions
from webhook.cli.program import called_by_kubectl

_Item = TypeVar("_Item")

SECONDS: Final = 2.0
_OPTIONS: Final = ("data", "server", "token_file", "ca_file", "kubeconfig", "context")

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def complete_objects(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return kinds, or names once a kind is typed. The callback of ``KIND[/NAME] [NAME]...``."""
    value = ctx.params.get(param.name or "") or ()
    words = [value] if isinstance(value, str) else [*value]
    word, slash, prefix = incomplete.partition("/")
    if slash or any("/" in word for word in words):
        names = _names(ctx, find_kind(word)) if slash else []
        return _items((f"{word}/{name}" for name in names if name.startswith(prefix)), incomplete)
    if words:
        return _items((name for name in _names(ctx, find_kind(words[0])) if name not in words), incomplete)
    complete_part, comma, _ = incomplete.rpartition(",")
    return _items((f"{complete_part}{comma}{kind_word}" for kind_word in _kind_words()), incomplete)


def complete_kind_of(kind: Kind) -> Complete:
    """Return the callback of an argument that names objects of one kind."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        value = ctx.params.get(param.name or "")
        words = value if isinstance(value, tuple | list) else ()
        return _items((name for name in _names(ctx, kind) if name not in words), incomplete)

    return complete


complete_clusters: Final = complete_kind_of(MEMBER_CLUSTER)
complete_pools: Final = complete_kind_of(NODE_POOL)
complete_namespaces: Final = complete_kind_of(NAMESPACE)
complete_upgrades: Final = complete_kind_of(UPGRADE_RUN)


def complete_of_family(kind: Callable[[Family], Kind]) -> Complete:
    """Return the callback of an argument that names an object of a staged update. ``-n`` selects the family."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return _items(_names(ctx, kind(_family(ctx))), incomplete)

    return complete


complete_updates: Final = complete_of_family(lambda family: family.run)
complete_strategies: Final = complete_of_family(lambda family: family.strategy)
complete_updated: Final = complete_of_family(lambda family: family.placement)


def complete_answerable(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return all names that can be approved or rejected: runs that wait, their approval requests and their gates."""
    waiting = _waiting(ctx)
    return _items((*(item.run for item in waiting), *(item.name for item in waiting)), incomplete)


def complete_waiting_stages(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the stages that wait for an approval, of the named run if one is named."""
    name = _named_run(ctx)
    stages = (item.stage for item in _waiting(ctx) if not name or name in (item.run, item.name))
    return _items(stages, incomplete)


def complete_upgrade_stages(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the stages of the named upgrade run."""
    name = _named_run(ctx)

    async def ask(client: Client) -> list[str]:
        upgrade_run = await client.get(ResourcePath(UPGRADE_RUN, name=name))
        return [text_at(stage, "name") for stage in dicts_at(status_of(upgrade_run), "stages")]

    return _items(_asked(ctx, ask), incomplete)


def _named_run(ctx: click.Context) -> str:
    """Return the name in NAME, KIND NAME, KIND/NAME or KIND/NAMESPACE/NAME. Empty: no run is named yet."""
    return "".join(_positional(ctx, "words")[-1:]).rpartition("/")[2]


class _Waiting(NamedTuple):
    """An approval request or a gate that is not answered yet."""

    run: str
    stage: str
    name: str


def _waiting(ctx: click.Context) -> list[_Waiting]:
    family, space = _family(ctx), ctx.params.get("namespace") or None

    async def ask(client: Client) -> list[_Waiting]:
        requests = dicts_at(await client.list(ResourcePath(family.approval_request, space)), "items")
        waiting = [
            _Waiting(
                text_at(request, "spec", "parentStageRollout"),
                text_at(request, "spec", "targetStage"),
                name_of(request),
            )
            for request in requests
            if not has_current_status(request, "Approved", "True")
        ]
        if space is None:
            with contextlib.suppress(HubRefusedError):  # a hub may have no definitions of upgrades
                gates = dicts_at(await client.list(ResourcePath(UPGRADE_GATE)), "items")
                waiting += (
                    _Waiting(text_at(gate, "spec", "runName"), text_at(gate, "spec", "stage"), name_of(gate))
                    for gate in gates
                    if text_at(gate, "status", "state") in ("", "Pending")
                )
        return waiting

    return _asked(ctx, ask)


def complete_goals(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the goals of ``wait``, with the conditions that the objects have."""
    goals = ["condition=", "jsonpath=", "create", "delete"]
    if incomplete.startswith("condition="):
        goals = [f"condition={condition}" for condition in _conditions(ctx)]
    return _items(goals, incomplete)


def _conditions(ctx: click.Context) -> list[str]:
    """Return the condition types of the objects that a command names, or of all objects of the kind."""
    words = _positional(ctx, "words")
    word, _, name = words[0].partition("/") if words else ("", "", "")
    kind, name = find_kind(word), name or (words[1] if len(words) > 1 else "")
    if kind is None:
        return []

    async def ask(client: Client) -> list[str]:
        space = (ctx.params.get("namespace") or client.namespace) if kind.namespaced else None
        place = ResourcePath(kind, space, name)
        objects = [await client.get(place)] if name else dicts_at(await client.list(place), "items")
        return sorted({text_at(condition, "type") for item in objects for condition in conditions_of(item)})

    return _asked(ctx, ask)


def complete_rules(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of admission rules."""
    from webhook.admission.catalogue import rule_texts

    return _items(sorted(rule_texts()), incomplete)


def complete_reservations(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of the user's own reservations."""
    from webhook.cli.hub.answers import answers_of

    async def ask(client: Client) -> list[str]:
        async with answers_of(client) as answers:
            return [text_at(item, "id") for item in dicts_at(await answers.reservations(), "items")]

    identifiers: list[str] = _asked(ctx, ask)
    return _items(filter(None, identifiers), incomplete)


def complete_placements(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return placements, as ``crp/NAME`` and ``rp/NAMESPACE/NAME``."""
    return _items(_asked(ctx, _placements), incomplete)


def complete_contexts(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the contexts of the kubeconfigs."""
    from webhook.cli.hub.kubeconfig import context_names

    value = ctx.params.get("kubeconfig")
    return _items(context_names(Path(value) if value else None, os.environ), incomplete)


def _kind_words() -> list[str]:
    own_kinds = {kind.plural for kind in OUR_KINDS} | {short for kind in OUR_KINDS for short in kind.short_names}
    kubernetes_kinds = {kind.plural for kind in KINDS.values() if kind.built_in}
    return sorted(own_kinds | kubernetes_kinds | {ALL} | {word for words in CATEGORIES.values() for word in words})


def _items(words: Iterable[str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(word) for word in dict.fromkeys(words) if word.startswith(incomplete)]


def _positional(ctx: click.Context, parameter: str) -> list[str]:
    """Return the words of an argument. If an option without its value follows, click leaves them in ``ctx.args``."""
    value = ctx.params.get(parameter) or ctx.args
    return [value] if isinstance(value, str) else [*value]


def _family(ctx: click.Context) -> Family:
    return family_in(ctx.params.get("namespace") or "")


def _names(ctx: click.Context, kind: Kind | None) -> list[str]:
    if kind is None:
        return []
    kind_wanted = kind

    async def ask(client: Client) -> list[str]:
        space = ctx.params.get("namespace") or client.namespace
        everywhere = ctx.params.get("everywhere") or not kind_wanted.namespaced
        return await object_names(client, ResourcePath(kind_wanted, None if everywhere else space))

    return _asked(ctx, ask)


async def _placements(client: Client) -> list[str]:
    placements = []
    for kind in PLACEMENTS:
        for item in dicts_at(await client.few(ResourcePath(kind), MOST), "items"):
            space = namespace_of(item)
            placements.append(f"rp/{space}/{name_of(item)}" if space else f"crp/{name_of(item)}")
    return placements


def _asked(ctx: click.Context, ask: Callable[[Client], Coroutine[Any, Any, list[_Item]]]) -> list[_Item]:
    """Return the completions from the hub, or nothing if there is no hub or it times out."""
    plugin = called_by_kubectl(ctx)

    async def work() -> list[_Item]:
        async with asyncio.timeout(SECONDS), Client(hub.find(plugin=plugin)) as client:
            return await ask(client)

    hub = HubOptions(**{name: ctx.params[name] for name in _OPTIONS if ctx.params.get(name)})
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            return asyncio.run(work())
        except Exception:  # noqa: BLE001 - whatever it is, a Tab must not fill the line with it
            return []
