"""What was made of documents, and is made again only where one of them is another object.

Whoever hands documents in promises not to change them: a document that changes is a new one.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Made(Generic[T]):
    """Something with what it was made of.

    Args:
        sources: The documents; None: there is none.
        value: What they say.
    """

    sources: tuple[object, ...]
    value: T


Kept: TypeAlias = Mapping[str, Made[T]]
"""By name."""


def keep(known: Made[T] | None, sources: tuple[object, ...], make: Callable[..., T]) -> Made[T]:
    """Return what *make* returns of *sources*: what is known, where these are the same objects."""
    if known is not None and all(map(operator.is_, known.sources, sources)):
        return known
    return Made(sources, make(*sources))
