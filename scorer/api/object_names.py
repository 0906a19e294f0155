"""Which names objects can have, by kind.

Every name becomes a segment of a URL path on an API server: that is the one rule for all kinds. Most kinds allow less;
a few of Kubernetes' own allow any segment.

Source: Kubernetes staging/src/k8s.io/apimachinery/pkg/api/validation/path/name.go, and ``ValidateObjectMeta`` in the
validation of each kind.
"""

from typing import Final

from scorer.api.kinds import Kind
from scorer.api.label_grammar import dns_label_error, dns_subdomain_error

LONGEST: Final = 1024
"""Kubernetes sets no bound for names that may be any segment; the length of a request line does."""

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
        return "must have no '/', no '%' and no control characters, and not be '.' or '..'"
    return ""


def name_error(kind: Kind, name: str) -> str:
    """Return why an object of *kind* cannot have this name, empty when it can."""
    if kind.group_kind in _SEGMENTS:
        return segment_error(name)
    return dns_label_error(name) if kind.group_kind in _LABELS else dns_subdomain_error(name)
