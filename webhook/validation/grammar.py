"""The grammars of names.

Source: placement-api.md 2.1 and 2.2.
"""

from typing import Final

from scorer.api.label_selector import dns_subdomain_error, label_value_error, qualified_name_error, remembered
from scorer.api.placement import LONGEST_PROPERTY_NAME

__all__ = ["dns_subdomain_error", "label_value_error", "property_name_error", "qualified_name_error"]

RESOURCE_PREFIX: Final = "resources.kubernetes-fleet.io/"
CAPACITY_TYPES: Final = ("total", "allocatable", "available")


@remembered
def property_name_error(name: str) -> str:
    """Return why *name* cannot be the name of a property, empty when it can.

    Source: placement-api.md 2.2. As there, resource properties are split only at the first dash.
    """
    if len(name) > LONGEST_PROPERTY_NAME:
        return f"must have at most {LONGEST_PROPERTY_NAME} characters"
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
