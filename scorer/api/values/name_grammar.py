"""Grammar of names: label keys and values, DNS labels and subdomains, and the names that objects may have.

Every object name becomes a segment of a URL path on an API server. Most kinds allow less. A few of Kubernetes' own
allow any segment.

Source: docs/specifications/placement-api.md 2.1 and 2.6; Kubernetes apimachinery pkg/api/validation/path/name.go.
"""

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Final

from scorer.api.kinds import Kind

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_LONGEST_REMEMBERED: Final = 320


def cache_verdicts(grammar: Callable[[str], str]) -> Callable[[str], str]:
    """Cache the verdicts of a grammar: the same keys and values appear in every policy of a fleet.

    Only short texts are cached, so that a client cannot fill the memory with long ones.
    """
    cached_grammar = lru_cache(maxsize=8192)(grammar)

    @wraps(grammar)
    def ask(text: str) -> str:
        return cached_grammar(text) if len(text) <= _LONGEST_REMEMBERED else grammar(text)

    return ask


@cache_verdicts
def label_value_error(value: str) -> str:
    """Return why *value* is not a label value, empty when it is one."""
    if len(value) > 63:
        return "must be at most 63 characters"
    if value and not _NAME.fullmatch(value):
        return "must consist of letters, digits, '-', '_' and '.', and start and end with a letter or digit"
    return ""


@cache_verdicts
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


@cache_verdicts
def dns_subdomain_error(name: str) -> str:
    """Return why *name* is not a DNS subdomain, empty when it is one."""
    if not 0 < len(name) <= 253:
        return "must have 1 to 253 characters"
    if not all(_LABEL.fullmatch(label) for label in name.split(".")):
        return "must consist of lowercase letters, digits, '-' and '.', and start and end with a letter or digit"
    return ""


def dns_label_error(name: str) -> str:
    """Return why *name* is not a DNS label, empty when it is one."""
    if not 0 < len(name) <= 63:
        return "must have 1 to 63 characters"
    if not _LABEL.fullmatch(name):
        return "must consist of lowercase letters, digits and '-', and start and end with a letter or digit"
    return ""


LONGEST: Final = 1024
"""Bound for names that may be any segment. Kubernetes sets none, except by the length of a request line."""

_LABELS: Final = frozenset({("", "Namespace"), ("", "Service")})
_SEGMENTS: Final = frozenset(
    {
        ("", "Event"),
        ("apiregistration.k8s.io", "APIService"),
        ("certificates.k8s.io", "CertificateSigningRequest"),
        ("events.k8s.io", "Event"),
        ("networking.k8s.io", "IPAddress"),
        ("rbac.authorization.k8s.io", "ClusterRole"),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
        ("rbac.authorization.k8s.io", "Role"),
        ("rbac.authorization.k8s.io", "RoleBinding"),
    }
)


def segment_error(text: str) -> str:
    """Return why *text* is not a path segment, empty when it is one."""
    if not 0 < len(text) <= LONGEST:
        return f"must have 1 to {LONGEST} characters"
    if text in (".", "..") or "/" in text or "%" in text or not text.isprintable():
        return "must not contain '/', '%' or non-printable characters, and must not be '.' or '..'"
    return ""


def name_error(kind: Kind, name: str) -> str:
    """Return why an object of *kind* cannot have this name, empty when it can."""
    if kind.group_kind in _SEGMENTS:
        return segment_error(name)
    return dns_label_error(name) if kind.group_kind in _LABELS else dns_subdomain_error(name)
