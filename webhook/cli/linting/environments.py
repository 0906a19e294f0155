"""Environments among the files of a repository: objects of one are judged without those of another.

The same object in ``envs/dev`` and ``envs/prod`` is no mistake, but each is judged by the objects around it. If
two files have the same object, the first folders that differ in their paths are environments, or the files themselves.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import PurePath

from webhook.access.user import UserInfo
from webhook.cli.files.documents import Identity, Loaded
from webhook.cli.offline.admission import offline_context
from webhook.validation.framework.context import Context


def contexts_of(loaded: Sequence[Loaded], now: datetime, user: UserInfo) -> Callable[[Loaded], Context]:
    """Return the context of each object: a hub with all objects but those of other environments.

    Args:
        loaded: All objects.
        now: The time of the reviews.
        user: The user who writes the objects.
    """
    environments = _environments(loaded)
    inside = {one.source.file: _inside(one.source.file, environments) for one in loaded}
    contexts: dict[frozenset[str], Context] = {}

    def context_of(one: Loaded) -> Context:
        own = inside[one.source.file]
        if own not in contexts:
            visible = [other for other in loaded if _is_visible(inside[other.source.file], own)]
            contexts[own] = offline_context(visible, now, user=user)
        return contexts[own]

    return context_of


def _environments(loaded: Iterable[Loaded]) -> frozenset[str]:
    """Return the folders and files that are environments."""
    places: dict[Identity, dict[str, None]] = {}
    for one in loaded:
        places.setdefault(one.identity, {})[os.path.normpath(one.source.file)] = None
    found: set[str] = set()
    for files in places.values():
        first, *others = files
        for other in others:
            found.update(_diverging(first, other))
    return frozenset(found)


def _diverging(one: str, other: str) -> tuple[str, str]:
    """Return the first parents of two different paths, or the paths themselves, that differ."""
    parts, others = PurePath(one).parts, PurePath(other).parts
    common = next((at for at, pair in enumerate(zip(parts, others, strict=False)) if pair[0] != pair[1]), 0)
    return str(PurePath(*parts[: common + 1])), str(PurePath(*others[: common + 1]))


def _inside(file: str, environments: frozenset[str]) -> frozenset[str]:
    if not environments:
        return environments
    place = PurePath(os.path.normpath(file))
    return environments & {str(each) for each in (place, *place.parents)}


def _is_visible(other: frozenset[str], own: frozenset[str]) -> bool:
    """Return whether an object is in no environment that is a sibling of one of *own*."""
    parents = {str(PurePath(each).parent) for each in own}
    return all(each in own or str(PurePath(each).parent) not in parents for each in other)
