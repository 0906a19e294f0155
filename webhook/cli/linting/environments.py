"""Environments among the files of a repository. Objects are validated without the objects of other environments.

An object that is in both ``envs/dev`` and ``envs/prod`` is not an error, but each copy is validated in its own
environment. If two files contain one object, the first differing folders in their paths are environments. Without such
folders, the files themselves are.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import PurePath

from webhook.access.user import UserInfo
from webhook.cli.files.documents import Identity, Loaded
from webhook.cli.offline.admission import offline_context
from webhook.validation.framework.context import Context


def contexts_of(objects: Sequence[Loaded], now: datetime, user: UserInfo) -> Callable[[Loaded], Context]:
    """Return the context of each object: a hub with all objects, except for those of other environments.

    Args:
        objects: All objects.
        now: The time of the reviews.
        user: The user who writes the objects.
    """
    environments = _environments(objects)
    inside = {item.source.file: _inside(item.source.file, environments) for item in objects}
    contexts: dict[frozenset[str], Context] = {}

    def context_of(item: Loaded) -> Context:
        own = inside[item.source.file]
        if own not in contexts:
            visible = [other for other in objects if _is_visible(inside[other.source.file], own)]
            contexts[own] = offline_context(visible, now, user=user)
        return contexts[own]

    return context_of


def _environments(objects: Iterable[Loaded]) -> frozenset[str]:
    """Return the folders and files that are environments."""
    places: dict[Identity, dict[str, None]] = {}
    for item in objects:
        places.setdefault(item.identity, {})[os.path.normpath(item.source.file)] = None
    environments: set[str] = set()
    for files in places.values():
        first, *others = files
        for other in others:
            environments.update(_diverging(first, other))
    return frozenset(environments)


def _diverging(path: str, other: str) -> tuple[str, str]:
    """Return the first differing parents of two different paths, or the paths themselves."""
    parts, others = PurePath(path).parts, PurePath(other).parts
    common = next((at for at, pair in enumerate(zip(parts, others, strict=False)) if pair[0] != pair[1]), 0)
    return str(PurePath(*parts[: common + 1])), str(PurePath(*others[: common + 1]))


def _inside(file: str, environments: frozenset[str]) -> frozenset[str]:
    if not environments:
        return environments
    place = PurePath(os.path.normpath(file))
    return environments & {str(folder) for folder in (place, *place.parents)}


def _is_visible(other: frozenset[str], own: frozenset[str]) -> bool:
    """Return whether an object in the environments *other* is visible to an object in the environments *own*.

    It is visible unless it is in an environment that is a sibling of an own one.
    """
    parents = {str(PurePath(folder).parent) for folder in own}
    return all(folder in own or str(PurePath(folder).parent) not in parents for folder in other)
