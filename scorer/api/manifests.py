"""The objects that a Work holds, read without a model.

Source: placement-api.md 3.6.
"""

from collections.abc import Mapping
from typing import Any

from scorer.api.documents import name_of


def manifests_of(work: Mapping[str, Any]) -> list[Any]:
    """Return the manifests of a raw Work, empty when it has none.

    Strict where the readers of `scorer.api.documents` are tolerant: the agent removes from the member what the Work no
    longer holds, so a damaged Work must not read as an empty one.

    Raises:
        TypeError: A field on the path to the manifests has the wrong type.
    """
    found: Any = work
    for member, kind in (("spec", dict), ("workload", dict), ("manifests", list)):
        found = found.get(member)
        if found is None:
            return []
        if not isinstance(found, kind):
            raise TypeError(f"Work {name_of(work)}: {member} is {found!r:.64}, expected {kind.__name__}")
    held: list[Any] = found
    return held
