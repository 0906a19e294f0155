"""Kinds as an operator names them: a group, some of its versions, some of their kinds.

Source: KubeFleet pkg/utils/apiresources.go.
"""

import re
from dataclasses import dataclass

_WORD = re.compile(r"[A-Za-z0-9.-]+", re.ASCII)
_VERSION = re.compile(r"v[0-9]+(?:(?:alpha|beta)[0-9]+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class KindRule:
    """One token of the option: a group, or some of its versions and kinds; an empty part means any."""

    group: str
    version: str = ""
    kinds: frozenset[str] = frozenset()

    def covers(self, group: str, version: str, kind: str) -> bool:
        """Say whether the rule names this kind."""
        return self.group == group and self.version in ("", version) and (not self.kinds or kind in self.kinds)


def parse_kind_rules(text: str) -> tuple[KindRule, ...]:
    """Read ``GROUP``, ``GROUP/VERSION``, ``GROUP/VERSION/Kind1,Kind2`` or ``v1/Kind1,Kind2``, separated by ``;``.

    Raises:
        ValueError: A token is none of these; the message shows it.
    """
    return tuple(_rule(token) for part in text.split(";") if (token := part.strip()))


def _rule(token: str) -> KindRule:
    parts = [part.strip() for part in token.split("/")]
    if len(parts) <= 2 and _VERSION.fullmatch(parts[0]):
        parts = ["", *parts]  # the core group is written without its empty name
    kinds = frozenset(kind.strip() for kind in parts[2].split(",")) if len(parts) == 3 else frozenset[str]()
    words = [*parts[1:2], *kinds, *([parts[0]] if parts[0] else [])]
    if len(parts) > 3 or token.startswith("/") or not all(_WORD.fullmatch(word) for word in words):
        raise ValueError(f"{token!r} is none of GROUP, GROUP/VERSION, GROUP/VERSION/Kind1,Kind2")
    return KindRule(parts[0], parts[1] if len(parts) > 1 else "", kinds)
