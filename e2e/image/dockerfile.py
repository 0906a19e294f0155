"""Reads a Dockerfile: its stages, and their steps one by one. Only what ours needs is known; the rest is refused."""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

KNOWN = frozenset({"ARG", "COPY", "ENTRYPOINT", "ENV", "FROM", "LABEL", "RUN", "USER", "WORKDIR"})
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


class DockerfileError(Exception):
    """A line is not understood; the text says which."""


@dataclass(frozen=True)
class Step:
    """One instruction.

    Args:
        word: Which.
        text: What follows it, in one line.
    """

    word: str
    text: str

    @property
    def words(self) -> list[str]:
        """What follows it, word by word; that of an exec form: its words."""
        return list(json.loads(self.text)) if self.is_exec else shlex.split(self.text)

    @property
    def is_exec(self) -> bool:
        """Whether it is written as a list of words, for which there is no shell."""
        return self.text.startswith("[")

    @property
    def pairs(self) -> Iterator[tuple[str, str | None]]:
        """Names and values, None where there is none."""
        for word in self.words:
            name, equals, value = word.partition("=")
            yield name, value if equals else None


@dataclass(frozen=True)
class Stage:
    """One stage.

    Args:
        name: By which others copy from it or stand on it; empty: none.
        base: What it stands on, as written.
        steps: What follows.
    """

    name: str
    base: str
    steps: Sequence[Step]


@dataclass(frozen=True)
class Dockerfile:
    """A whole file.

    Args:
        arguments: Declared before the first stage, with their defaults.
        stages: In their order.
    """

    arguments: Mapping[str, str]
    stages: Sequence[Stage]

    def stage(self, name: str) -> Stage:
        """The stage of that name; the last one, if the name is empty.

        Raises:
            DockerfileError: There is none.
        """
        if not name:
            return self.stages[-1]
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise DockerfileError(f"no stage {name!r}")


def read_dockerfile(path: Path) -> Dockerfile:
    """Read a file.

    Raises:
        DockerfileError: It is not understood.
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
    """The instructions; a comment is one also between the lines of an instruction."""
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
        raise DockerfileError(f"the last line goes on: {passing}")


def expand(text: str, known: Mapping[str, str]) -> str:
    """Put values in the place of ``$NAME`` and ``${NAME}``; what is not known is empty."""
    return _VARIABLE.sub(lambda found: known.get(found[1] or found[2], ""), text)
