"""Preferences from the settings of the extender instead of from a placement.

Source: docs/specifications/serving.md 2.6.
"""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, ValidationError

from scorer.api.placement.placement import ClusterAffinity as ClusterAffinityModel
from scorer.api.placement.placement import PreferredClusterSelector
from scorer.plugins.cluster_affinity import ClusterAffinityPlugin, read_affinity
from scorer.selectors import InvalidPolicyError

_WHERE: Final = "preferences"
_MEMBER: Final = "preferredDuringSchedulingIgnoredDuringExecution"
"""The name of the list in a placement."""


def read_preferences(terms: tuple[PreferredClusterSelector, ...]) -> ClusterAffinityPlugin:
    """Return preferred terms in the form that scoring needs.

    Raises:
        scorer.selectors.InvalidPolicyError: A term cannot be evaluated. The message names it.
    """
    return read_affinity(ClusterAffinityModel(preferred=terms), with_preferences=True, path=_WHERE)


def _read_terms(value: Any) -> Any:
    """Read terms as an API server would: JSON lists as tuples, null as absent."""
    if not isinstance(value, list | tuple):
        return value
    return tuple(_read_term(term, index) for index, term in enumerate(value))


def _read_term(value: Any, index: int) -> Any:
    if not isinstance(value, dict):
        return value
    try:
        return PreferredClusterSelector.read(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise ValueError(f"[{index}]{path}: {first['msg'][:1].lower()}{first['msg'][1:]}") from error


def _check_terms(terms: tuple[PreferredClusterSelector, ...]) -> tuple[PreferredClusterSelector, ...]:
    try:
        read_preferences(terms)
    except InvalidPolicyError as error:
        raise ValueError(str(error).removeprefix(f"{_WHERE}.{_MEMBER}")) from error
    return terms


Preferences = Annotated[
    tuple[PreferredClusterSelector, ...], BeforeValidator(_read_terms), AfterValidator(_check_terms)
]
"""Preferred terms as a setting. Decoded JSON is read as in the API, and terms that cannot be evaluated are refused."""
