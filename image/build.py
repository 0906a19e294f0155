"""Builds a Dockerfile as a container engine does, with the files of this machine in place of the base images.

Each step runs on the layers of the previous steps and adds its own. A step with the same inputs runs only once.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Final

from image.dockerfile import Dockerfile, Stage, Step, expand, read_dockerfile
from image.layers import Context, copy_from_layers, forget_old_layers, key_of, made_layer
from image.machine import CERTIFICATES, PATH, PYTHON, Runtime, check_machine, closed_folders, hidden_folders

SCRIPT: Final = Path(__file__).with_name("step.sh")
DIGEST: Final = "sha256:" + "0" * 64
MACHINE: Final = f"this-machine@{DIGEST}"
"""Base image with all files of this machine. They are in none of its layers."""
RUNTIME: Final = f"this-python@{DIGEST}"
"""Base image with those files of this machine that the layers on top of it need."""
INHERITED: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")
"""Variables that every step gets from the caller, besides those that begin with ``PIP_``."""


class BuildError(Exception):
    """A step failed. The message contains the step and its output."""


@dataclass(frozen=True)
class Built:
    """The result of a stage.

    Args:
        key: Digest of all inputs.
        layers: Layers, the uppermost first.
        variables: Environment variables.
        arguments: Build arguments that its steps see.
        folder: Working directory of commands.
        user: ``user:group`` of commands.
        entrypoint: Entry point of the image.
        labels: Labels of the image.
        on_machine: Whether the files of this machine are below the layers.
    """

    key: str
    layers: Sequence[Path] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    entrypoint: Sequence[str] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    on_machine: bool = True

    @property
    def known(self) -> dict[str, str]:
        """Values of variables in its steps."""
        return {**self.arguments, **self.variables}


class Builder:
    """Builds stages of one file.

    Args:
        file: The Dockerfile.
        context: Folder of the files that it copies.
        arguments: Build arguments.
    """

    def __init__(self, file: Dockerfile, context: Context, arguments: Mapping[str, str]) -> None:
        self._file = file
        self._context = context
        self._given = arguments
        self._stages: dict[str, Built] = {}
        self._do: Mapping[str, Callable[[Built, Step], Built]] = {
            "ARG": self._declare,
            "COPY": self._copy,
            "ENTRYPOINT": lambda built, step: replace(built, entrypoint=step.words),
            "ENV": self._set,
            "LABEL": lambda built, step: replace(built, labels={**built.labels, **_expanded(built, step)}),
            "RUN": self._run,
            "USER": lambda built, step: replace(built, user=step.text),
            "WORKDIR": lambda built, step: replace(built, folder=step.text),
        }

    def build(self, name: str = "") -> Built:
        """Build a stage and the stages that it needs, or the last one if *name* is empty.

        Raises:
            BuildError: A step failed, or no base image is set.
            image.dockerfile.DockerfileError: The stage does not exist.
            image.layers.LayerError: A file cannot be part of an image.
            image.machine.MachineError: This machine lacks files of the base image.
            OSError: A file that a step copies does not exist.
        """
        if name not in self._stages:
            stage = self._file.stage(name)
            built = self._base(expand(stage.base, {**self._file.arguments, **self._given}), stage)
            for step in stage.steps:
                built = self._do[step.word](built, step)
            self._stages[name] = built
        return self._stages[name]

    def _base(self, name: str, stage: Stage) -> Built:
        if name == "scratch":
            return Built("scratch", on_machine=False)
        if any(each.name == name for each in self._file.stages):
            return replace(self.build(name), arguments={}, entrypoint=(), labels={})
        if not name:
            raise BuildError("the name of an image is empty: set BUILD and BASE")
        if name == RUNTIME:
            return self._runtime(stage)
        key = key_of("machine", sys.version, PYTHON)
        layer = made_layer(key, _open_folders)
        return Built(key, [layer], {"PATH": f"{PYTHON.parent}:{PATH}"})

    def _runtime(self, stage: Stage) -> Built:
        sources = [source for step in stage.steps if (source := _source_of(step))]
        runtime = Runtime([layer for source in sources for layer in self.build(source).layers])
        key = key_of("runtime", runtime.fingerprint())
        layer = made_layer(key, runtime.write)
        return Built(key, [layer], {"PATH": PATH, "SSL_CERT_FILE": CERTIFICATES}, on_machine=False)

    def _declare(self, built: Built, step: Step) -> Built:
        arguments = dict(built.arguments)
        for name, default in step.pairs:
            value = self._given.get(name, self._file.arguments.get(name) if default is None else default)
            arguments[name] = value or ""
        return replace(built, arguments=arguments)

    @staticmethod
    def _set(built: Built, step: Step) -> Built:
        return replace(built, variables={**built.variables, **_expanded(built, step)})

    def _copy(self, built: Built, step: Step) -> Built:
        words = [expand(word, built.known) for word in step.words]
        stage = _source_of(step)
        *sources, target = words[1:] if stage else words
        return self._copy_from(stage, built, sources, target) if stage else self._copy_files(built, sources, target)

    def _copy_from(self, stage: str, built: Built, sources: Sequence[str], target: str) -> Built:
        other = self.build(stage)
        folder = Path(built.folder, target)

        def link(layer: Path) -> None:
            for source in sources:
                into = folder / Path(source).name if target.endswith("/") else folder
                copy_from_layers(other.layers, source, layer / str(into).lstrip("/"))

        return _with_layer(built, key_of(built.key, other.key, *sources, folder, target), link)

    def _copy_files(self, built: Built, sources: Sequence[str], target: str) -> Built:
        folder = Path(built.folder, target)
        files = [file for source in sources for file in self._context.files(source)]
        key = key_of(built.key, folder, *((name, mode, sha256(content).digest()) for name, content, mode in files))

        def write(layer: Path) -> None:
            for name, content, mode in files:
                path = layer / str(folder / name).lstrip("/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                path.chmod(mode)

        return _with_layer(built, key, write)

    def _run(self, built: Built, step: Step) -> Built:
        command = step.words if step.is_exec else ["/bin/sh", "-c", step.text]
        if not built.layers:
            raise BuildError(f"RUN {step.text}: a stage on scratch has no programs")
        key = key_of(built.key, command, sorted(built.known.items()), built.folder, built.user)
        inherited = {name: value for name, value in os.environ.items() if name in INHERITED or name.startswith("PIP_")}
        environment = {"HOME": "/root", **(inherited if built.on_machine else {}), **built.known}

        def run(layer: Path) -> None:
            with tempfile.TemporaryDirectory() as scratch:
                words = [
                    *("unshare", "--mount", "--propagation", "private", "sh", str(SCRIPT), scratch),
                    ":".join([*map(str, built.layers), *([""] if built.on_machine else [])]),
                    ":".join(hidden_folders([PYTHON.parents[1]]) if built.on_machine else []),
                    *(str(layer), built.user, built.folder, *command),
                ]
                result = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
            if result.returncode:
                raise BuildError(f"RUN {step.text}: exit code {result.returncode}\n{result.stdout}{result.stderr}")

        return _with_layer(built, key, run)


def _with_layer(built: Built, key: str, make: Callable[[Path], None]) -> Built:
    return replace(built, key=key, layers=[made_layer(key, make), *built.layers])


def _source_of(step: Step) -> str:
    """Return the stage that a step copies from. Empty: none."""
    return step.words[0].removeprefix("--from=") if step.word == "COPY" and step.words[0].startswith("--from=") else ""


def _expanded(built: Built, step: Step) -> dict[str, str]:
    return {name: expand(value or "", built.known) for name, value in step.pairs}


def _open_folders(layer: Path) -> None:
    """Let every user traverse the parent folders of this machine's Python, as in an image."""
    for folder in closed_folders([PYTHON.parents[1]]):
        path = layer / folder.lstrip("/")
        path.mkdir(parents=True)
        for each in (path, *path.parents):
            if each == layer:
                break
            each.chmod(0o755)


def build(folder: Path, target: str = "", *, replaced: Mapping[str, str] | None = None, **arguments: str) -> Built:
    """Build the Dockerfile of a folder with this machine in place of its base images.

    Args:
        folder: Folder with the Dockerfile and the files that it copies.
        target: Name of a stage. Empty: the last one.
        replaced: Texts to use instead of the contents of files, by path.
        arguments: Build arguments.

    Raises:
        BuildError: A step failed, or no base image is set.
        image.dockerfile.DockerfileError: The Dockerfile cannot be parsed, or has no such stage.
        image.layers.LayerError: A file cannot be part of an image.
        image.machine.MachineError: This machine cannot build images.
        OSError: A file that a step copies does not exist.
    """
    check_machine()
    build_arguments = {"BUILD": MACHINE, "BASE": MACHINE, "PYTHON": str(PYTHON), **arguments}
    forget_old_layers()
    return Builder(read_dockerfile(folder / "Dockerfile"), Context(folder, replaced or {}), build_arguments).build(
        target
    )


def files_of(built: Built, folder: Path) -> None:
    """Write the files of a stage on ``scratch`` into a folder, as ``--output`` does."""
    for layer in reversed(built.layers):
        shutil.copytree(layer, folder, dirs_exist_ok=True, symlinks=True)
