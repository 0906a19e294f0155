"""Parses a Dockerfile into stages and steps.

Instructions that the Dockerfile of this repository does not use are refused.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

KNOWN = frozenset({"ARG", "COPY", "ENTRYPOINT", "ENV", "FROM", "LABEL", "RUN", "USER", "WORKDIR"})
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class DockerfileError(Exception):
    """A line cannot be parsed. The message contains it."""


@dataclass(frozen=True)
class Step:
    """One instruction.

    Args:
        word: Its keyword, such as ``RUN``.
        text: Its arguments, on one line.
    """

    word: str
    text: str

    @property
    def words(self) -> list[str]:
        """Its arguments, split as a shell does, or the elements of an exec form."""
        return list(json.loads(self.text)) if self.is_exec else shlex.split(self.text)

    @property
    def is_exec(self) -> bool:
        """Whether it is a JSON list of words, which runs without a shell."""
        return self.text.startswith("[")

    @property
    def pairs(self) -> Iterator[tuple[str, str | None]]:
        """Names and values. None: unset."""
        for word in self.words:
            name, equals, value = word.partition("=")
            yield name, value if equals else None


@dataclass(frozen=True)
class Stage:
    """One stage.

    Args:
        name: Name for ``COPY --from`` and ``FROM``. Empty: unnamed.
        base: Name of its base image or stage, as written.
        steps: Its instructions.
    """

    name: str
    base: str
    steps: Sequence[Step]


@dataclass(frozen=True)
class Dockerfile:
    """A whole file.

    Args:
        arguments: Arguments declared before the first stage, with their defaults.
        stages: Stages in their order.
    """

    arguments: Mapping[str, str]
    stages: Sequence[Stage]

    def stage(self, name: str) -> Stage:
        """Return the stage of that name, or the last one if the name is empty.

        Raises:
            DockerfileError: The stage does not exist.
        """
        if not name:
            return self.stages[-1]
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise DockerfileError(f"no stage {name!r}")


def read_dockerfile(path: Path) -> Dockerfile:
    """Parse a file.

    Raises:
        DockerfileError: A line cannot be parsed.
    """
    arguments: dict[str, str] = {}
    stages: list[tuple[str, str, list[Step]]] = []
    for step in _steps(path.read_text(encoding="utf-8")):
        if step.word == "FROM":
            base, *rest = step.words
            stages.append((rest[1] if rest else "", base, []))
        elif stages:
            stages[-1][2].append(step)
        elif step.word == "ARG":
            arguments |= {name: value or "" for name, value in step.pairs}
        else:
            raise DockerfileError(f"{step.word} before the first FROM")
    return Dockerfile(arguments, [Stage(name, base, steps) for name, base, steps in stages])


def _steps(text: str) -> Iterator[Step]:
    """Yield the instructions, or raise `DockerfileError`. Comments may be between the lines of an instruction."""
    passing = ""
    for line in text.splitlines():
        if line.lstrip().startswith("#") or not line.strip():
            continue
        if line.endswith("\\"):
            passing += line[:-1]
            continue
        word, _, rest = (passing + line).strip().partition(" ")
        passing = ""
        if word not in KNOWN:
            raise DockerfileError(f"{word} is not known")
        yield Step(word, rest.strip())
    if passing:
        raise DockerfileError(f"the last line ends in a continuation: {passing}")


def expand(text: str, known: Mapping[str, str]) -> str:
    """Return a text with the values of ``$NAME`` and ``${NAME}``. Those of unknown names are empty."""
    return _VARIABLE.sub(lambda found: known.get(found[1] or found[2], ""), text)
