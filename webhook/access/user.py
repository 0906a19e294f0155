"""The user of a request."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scorer.api.unstructured.documents import dict_at, text_at, texts_at


@dataclass(frozen=True, slots=True)
class UserInfo:
    """The authenticated user of a request."""

    username: str = ""
    groups: frozenset[str] = frozenset()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    @classmethod
    def read(cls, document: object) -> "UserInfo":
        """Return the user of a request's ``userInfo``. Malformed parts are empty."""
        return cls(
            text_at(document, "username"),
            frozenset(texts_at(document, "groups")),
            text_at(document, "uid"),
            {key: tuple(texts_at(values)) for key, values in dict_at(document, "extra").items()},
        )
