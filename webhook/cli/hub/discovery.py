"""Discovery: the kinds that a hub serves, and objects of files resolved against them.

Source: Kubernetes ``APIGroupList`` and ``APIResourceList``.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scorer.api.kinds import Kind, find_kind, split_api_version
from scorer.api.unstructured.documents import dicts_at, text_at, texts_at
from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import UserError
from webhook.cli.files.documents import Loaded, resolve
from webhook.cli.files.parsing import SourceDocument
from webhook.cli.hub.client import Client, HubRefusedError


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind that a hub serves.

    Args:
        kind: The kind.
        version: The ``apiVersion`` that the hub prefers.
        short_names: Short names on the hub.
        verbs: Supported verbs.
        categories: Names of groups of kinds, such as ``all``.
    """

    kind: Kind
    version: str
    short_names: tuple[str, ...]
    verbs: tuple[str, ...]
    categories: tuple[str, ...]

    def matches(self, word: str) -> bool:
        """Return whether *word* names the kind: by plural, singular or short name, optionally with the group."""
        name, _, group = word.lower().partition(".")
        return name in (self.kind.plural, self.kind.kind.lower(), *self.short_names) and self._in_group(group)

    def _in_group(self, version_text: str) -> bool:
        versioned = any(version_text in (version, f"{version}.{self.kind.group}") for version in self.kind.versions)
        return version_text in ("", self.kind.group) or versioned


async def discover(client: Client) -> list[ApiResource]:
    """Return the served kinds, by group and name. A group whose own server does not respond is omitted."""
    groups = dicts_at(await client.read_discovery("apis"), "groups")
    versions = [version for group in groups for version in _preferred_first(group)]
    places = [("api", "v1"), *(("apis", *version.split("/")) for version in versions)]
    answers = await asyncio.gather(*(_read(client, place) for place in places))
    resources: dict[tuple[str, str], ApiResource] = {}
    for answer in answers:
        for resource in _resources(answer):  # a kind that only an older version serves counts, too
            resources.setdefault((resource.kind.group, resource.kind.plural), resource)
    return [resources[key] for key in sorted(resources)]


def _preferred_first(group: JsonObject) -> list[str]:
    """Return the versions of a group, such as ``apps/v1``, the preferred one first."""
    preferred = text_at(group, "preferredVersion", "groupVersion")
    served = [text_at(version, "groupVersion") for version in dicts_at(group, "versions")]
    return list(dict.fromkeys(filter(None, (preferred, *served))))


async def _read(client: Client, place: tuple[str, ...]) -> JsonObject:
    try:
        return await client.read_discovery(*place)
    except HubRefusedError:
        return {}


def _resources(answer: JsonObject) -> Iterator[ApiResource]:
    group, version = split_api_version(text_at(answer, "groupVersion"))
    for entry in dicts_at(answer, "resources"):
        plural, name = text_at(entry, "name"), text_at(entry, "kind")
        if not plural or not name or "/" in plural:
            continue
        shorts = tuple(texts_at(entry, "shortNames"))
        known_kind = find_kind(f"{plural}.{group}" if group else plural)
        kind = Kind(group, (version,), name, plural, bool(entry.get("namespaced")), shorts)
        if known_kind is not None and known_kind.group_kind == kind.group_kind and version in known_kind.versions:
            kind = known_kind
        yield ApiResource(
            kind,
            text_at(answer, "groupVersion"),
            shorts,
            tuple(texts_at(entry, "verbs")),
            tuple(texts_at(entry, "categories")),
        )


async def server_version(client: Client) -> str:
    """Return the version of the API server, such as ``v1.36.3``."""
    return text_at(await client.read_discovery("version"), "gitVersion")


async def resolve_objects(client: Client, documents: Sequence[SourceDocument], namespace: str | None) -> list[Loaded]:
    """Resolve documents to objects. Unknown kinds are looked up in the discovery of the hub.

    Raises:
        UserError: As in `resolve`, or an object is in another namespace than *namespace*.
    """
    space = namespace or client.namespace
    try:
        objects = resolve(documents, namespace=space)
    except UserError:
        from webhook.cli.hub.discovery import discover

        try:
            custom = {resource.kind.group_kind: resource.kind for resource in await discover(client)}
        except HubRefusedError:
            custom = {}
        if not custom:
            raise
        objects = resolve(documents, custom=custom, namespace=space)
    problems = [
        f'{item.source}: metadata.namespace: "{item.namespace}" is not the namespace of --namespace, "{namespace}"'
        for item in objects
        if namespace and item.namespace not in ("", namespace)
    ]
    if problems:
        raise UserError(problems)
    return objects
