"""Who asks."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who sends a request, as far as its authentication says."""

    username: str = ""
    groups: frozenset[str] = frozenset()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    @classmethod
    def read(cls, document: object) -> "UserInfo":
        """Return the user of a request's ``userInfo``; what cannot be read is nobody."""
        if not isinstance(document, dict):
            return cls()
        extra = document.get("extra")
        return cls(
            _text(document.get("username")),
            frozenset(_texts(document.get("groups"))),
            _text(document.get("uid")),
            {key: _texts(values) for key, values in extra.items()} if isinstance(extra, dict) else {},
        )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(values: object) -> tuple[str, ...]:
    return tuple(value for value in values if isinstance(value, str)) if isinstance(values, list) else ()
