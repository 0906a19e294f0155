"""The path of a field in an object: ``spec.policy.tolerations[2].value``."""

import re
from collections.abc import Iterable

LONGEST_PART = 320
"""Maximum number of characters of a member's name that are printed. A label key has at most 317."""

_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*", re.ASCII)


class FieldPath(tuple[str | int, ...]):
    """A path of member names and list positions, printed in kubectl notation.

    ``FieldPath.of("spec") / "taints" / 2 / "key"`` prints ``spec.taints[2].key``. A member name that is not a plain
    word, such as a label key, prints in brackets: ``metadata.labels[a/b]``.

    A tuple and not a dataclass, for speed: rules make dozens of paths per review, even without a finding.
    """

    __slots__ = ()

    @classmethod
    def of(cls, *parts: str | int) -> "FieldPath":
        """Return a path of these parts, outermost first."""
        return cls(parts)

    @property
    def parts(self) -> tuple[str | int, ...]:
        """The parts, outermost first."""
        return self

    def __truediv__(self, part: str | int) -> "FieldPath":
        return FieldPath(self + (part,))  # noqa: RUF005 - unpacking is slower

    def below(self, *parts: str | int) -> "FieldPath":
        """Return the path of the field at *parts* below this, faster than one part at a time."""
        return FieldPath(self + parts)

    def __str__(self) -> str:
        text = ""
        for part in self:
            if isinstance(part, int):
                text += f"[{part}]"
            elif len(part) > LONGEST_PART:
                text += f"[{part[: LONGEST_PART - 3]}...]"
            elif _PLAIN.fullmatch(part):
                text += f".{part}" if text else part
            else:
                text += f"[{part}]"
        return text

    def starts_with(self, other: "FieldPath") -> bool:
        """Return whether this is *other* or below it."""
        return self[: len(other)] == other

    def pointer(self) -> str:
        """Return the path as a JSON Pointer (RFC 6901)."""
        return json_pointer(self)


def json_pointer(parts: Iterable[str | int]) -> str:
    """Write *parts* as a JSON Pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
