"""The grammar of label keys and values, and of the names that they have in common with objects.

Source: placement-api.md 2.1 and 2.6.
"""

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_LONGEST_REMEMBERED: Final = 320


def remembered(grammar: Callable[[str], str]) -> Callable[[str], str]:
    """Cache the verdicts of a grammar: the same keys and values appear in every policy of a fleet.

    Only short texts are cached, so that a client cannot fill the memory with long ones.
    """
    known = lru_cache(maxsize=8192)(grammar)

    @wraps(grammar)
    def ask(text: str) -> str:
        return known(text) if len(text) <= _LONGEST_REMEMBERED else grammar(text)

    return ask


@remembered
def label_value_error(value: str) -> str:
    """Return why *value* is not a label value, empty when it is one."""
    if len(value) > 63:
        return "must be at most 63 characters"
    if value and not _NAME.fullmatch(value):
        return "must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
    return ""


@remembered
def qualified_name_error(name: str) -> str:
    """Return why *name* is not a qualified name (``[prefix/]name``), empty when it is one."""
    prefix, slash, last = name.rpartition("/")
    if "/" in prefix:
        return "must have at most one '/'"
    if slash and (error := dns_subdomain_error(prefix)):
        return f"prefix {error}"
    if not last or len(last) > 63:
        return "name part must have 1 to 63 characters"
    if not _NAME.fullmatch(last):
        return "name part must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
    return ""


@remembered
def dns_subdomain_error(name: str) -> str:
    """Return why *name* is not a DNS subdomain, empty when it is one."""
    if not 0 < len(name) <= 253:
        return "must have 1 to 253 characters"
    if not all(_LABEL.fullmatch(label) for label in name.split(".")):
        return "must consist of lower-case letters, digits, '-' and '.', and start and end with a letter or digit"
    return ""


def dns_label_error(name: str) -> str:
    """Return why *name* is not a DNS label, empty when it is one."""
    if not 0 < len(name) <= 63:
        return "must have 1 to 63 characters"
    if not _LABEL.fullmatch(name):
        return "must consist of lower-case letters, digits and '-', and start and end with a letter or digit"
    return ""
