"""The grammars of names, remembered: the same keys and values come back in every review of a fleet.

Only short texts are remembered, so that nobody can fill the memory with long ones.

Source: placement-api.md 2.1 and 2.2.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final

from scorer.api import label_selector

RESOURCE_PREFIX: Final = "resources.kubernetes-fleet.io/"
CAPACITY_TYPES: Final = ("total", "allocatable", "available")
_LONGEST_REMEMBERED: Final = 320


def _remembered(grammar: Callable[[str], str]) -> Callable[[str], str]:
    known = lru_cache(maxsize=8192)(grammar)

    @wraps(grammar)
    def ask(text: str) -> str:
        return known(text) if len(text) <= _LONGEST_REMEMBERED else grammar(text)

    return ask


qualified_name_error = _remembered(label_selector.qualified_name_error)
label_value_error = _remembered(label_selector.label_value_error)
dns_subdomain_error = _remembered(label_selector.dns_subdomain_error)


@_remembered
def property_name_error(name: str) -> str:
    """Return why *name* cannot be the name of a property, empty when it can.

    Source: placement-api.md 2.2. As there, resource properties split at the first dash only.
    """
    if name.startswith(RESOURCE_PREFIX):
        capacity, dash, resource = name[len(RESOURCE_PREFIX) :].partition("-")
        if not dash or not resource or capacity not in CAPACITY_TYPES:
            return f"after {RESOURCE_PREFIX} must come {', '.join(CAPACITY_TYPES)}, a dash and a resource name"
        return qualified_name_error(name)
    first, *others = name.split("/")
    if not others:
        return qualified_name_error(first)
    if dns_subdomain_error(first) and (error := qualified_name_error(first)):
        return f"first segment {error}"
    return next((error for segment in others if (error := qualified_name_error(segment))), "")
