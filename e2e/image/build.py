"""Builds a Dockerfile the way a container engine does, with this machine in the place of the images it stands on.

Each step is run on layers of the steps before and makes one of its own; equal steps on equal layers are run once. What
comes out is an image for the kubelet of the tests: the same files, environment, user and entry point.
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

from e2e.image.dockerfile import Dockerfile, Step, expand, read_dockerfile
from e2e.image.layers import Context, copy_from_layers, forget_old_layers, key_of, made_layer
from e2e.kubelet.images import PATH, Image, closed_folders, hidden_folders
from e2e.kubelet.network import NEEDED

SCRIPT = Path(__file__).with_name("step.sh")
PYTHON = Path(sys.base_prefix).resolve() / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
DIGEST = "sha256:" + "0" * 64
MACHINE = f"this-machine@{DIGEST}"
"""What the tests name as the images that it stands on."""
HANDED_ON = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")
"""What a container engine, or the machine's own set-up, hands on to every step; and what begins with ``PIP_``."""


class BuildError(Exception):
    """A step failed; the text says which, and what it has said."""


@dataclass(frozen=True)
class Built:
    """What a stage has come to.

    Args:
        key: Names everything that it was made of.
        layers: The uppermost first.
        variables: Its environment.
        arguments: Declared in it, for its steps.
        folder: Where commands begin.
        user: As which they run, ``user:group``.
        entrypoint: Of the image.
    """

    key: str
    layers: Sequence[Path] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    entrypoint: Sequence[str] = ()

    @property
    def known(self) -> dict[str, str]:
        """What is put in the place of variables."""
        return {**self.arguments, **self.variables}


class Builder:
    """Builds stages of one file.

    Args:
        file: The Dockerfile.
        context: What it copies from.
        arguments: As ``--build-arg``.
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
            "LABEL": lambda built, _: built,
            "RUN": self._run,
            "USER": lambda built, step: replace(built, user=step.text),
            "WORKDIR": lambda built, step: replace(built, folder=step.text),
        }

    def build(self, name: str = "") -> Built:
        """Build a stage, and those it needs; the last one if *name* is empty.

        Raises:
            BuildError: A step failed.
        """
        if name not in self._stages:
            stage = self._file.stage(name)
            built = self._base(expand(stage.base, {**self._file.arguments, **self._given}))
            for step in stage.steps:
                built = self._do[step.word](built, step)
            self._stages[name] = built
        return self._stages[name]

    def _base(self, name: str) -> Built:
        if name == "scratch":
            return Built("scratch")
        if any(stage.name == name for stage in self._file.stages):
            return replace(self.build(name), arguments={}, entrypoint=())
        if not name:
            raise BuildError("the name of an image is empty: give BUILD and BASE")
        key = key_of("machine", sys.version, PYTHON)
        layer = made_layer(key, _open_folders)
        return Built(key, [layer], {"PATH": f"{PYTHON.parent}:{PATH}"})

    def _declare(self, built: Built, step: Step) -> Built:
        arguments = dict(built.arguments)
        for name, default in step.pairs:
            value = self._given.get(name, self._file.arguments.get(name) if default is None else default)
            arguments[name] = value or ""
        return replace(built, arguments=arguments)

    @staticmethod
    def _set(built: Built, step: Step) -> Built:
        values = {name: expand(value or "", built.known) for name, value in step.pairs}
        return replace(built, variables={**built.variables, **values})

    def _copy(self, built: Built, step: Step) -> Built:
        words = [expand(word, built.known) for word in step.words]
        stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else ""
        *sources, target = words
        return self._copy_from(stage, built, sources, target) if stage else self._copy_files(built, sources, target)

    def _copy_from(self, stage: str, built: Built, sources: Sequence[str], target: str) -> Built:
        there = self.build(stage)
        folder = Path(built.folder, target)

        def link(layer: Path) -> None:
            for source in sources:
                into = folder / Path(source).name if target.endswith("/") else folder
                copy_from_layers(there.layers, source, layer / str(into).lstrip("/"))

        return _with_layer(built, key_of(built.key, there.key, *sources, folder, target), link)

    def _copy_files(self, built: Built, sources: Sequence[str], target: str) -> Built:
        folder = Path(built.folder, target)
        found = [each for source in sources for each in self._context.files(source)]
        key = key_of(built.key, folder, *((name, mode, sha256(content).digest()) for name, content, mode in found))

        def write(layer: Path) -> None:
            for name, content, mode in found:
                path = layer / str(folder / name).lstrip("/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                path.chmod(mode)

        return _with_layer(built, key, write)

    def _run(self, built: Built, step: Step) -> Built:
        command = step.words if step.is_exec else ["/bin/sh", "-c", step.text]
        if not built.layers:
            raise BuildError(f"RUN {step.text}: there is nothing to run it with")
        key = key_of(built.key, command, sorted(built.known.items()), built.folder, built.user)
        handed = {name: value for name, value in os.environ.items() if name in HANDED_ON or name.startswith("PIP_")}
        environment = {"HOME": "/root", **handed, **built.known}

        def run(layer: Path) -> None:
            with tempfile.TemporaryDirectory() as scratch:
                words = [
                    *("unshare", "--mount", "--propagation", "private", "sh", str(SCRIPT), scratch),
                    ":".join(map(str, built.layers)),
                    ":".join(hidden_folders([PYTHON.parents[1]])),
                    *(str(layer), built.user, built.folder, *command),
                ]
                done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise BuildError(f"RUN {step.text}: exit code {done.returncode}\n{done.stdout}{done.stderr}")

        return _with_layer(built, key, run)


def _with_layer(built: Built, key: str, make: Callable[[Path], None]) -> Built:
    return replace(built, key=key, layers=[made_layer(key, make), *built.layers])


def _open_folders(layer: Path) -> None:
    """Everyone may pass through the folders of this machine's Python, as in an image."""
    for folder in closed_folders([PYTHON.parents[1]]):
        path = layer / folder.lstrip("/")
        path.mkdir(parents=True)
        for each in (path, *path.parents):
            if each == layer:
                break
            each.chmod(0o755)


def build(folder: Path, target: str = "", *, replaced: Mapping[str, str] | None = None, **arguments: str) -> Built:
    """Build the Dockerfile of a folder with this machine in the place of the images that it stands on.

    Args:
        folder: With the Dockerfile and what it copies.
        target: A stage; empty: the last one.
        replaced: Texts of files, by path, that stand in the place of those of the folder.
        arguments: As ``--build-arg``, besides those that this machine needs.

    Raises:
        BuildError: A step failed.
    """
    if os.geteuid() != 0:
        raise BuildError(f"an image is built on mounts. {NEEDED}")
    given = {"BUILD": MACHINE, "BASE": MACHINE, "PYTHON": str(PYTHON), **arguments}
    forget_old_layers()
    return Builder(read_dockerfile(folder / "Dockerfile"), Context(folder, replaced or {}), given).build(target)


def image_of(built: Built) -> Image:
    """What was built, for the kubelet of the tests."""
    return Image(
        entrypoint=built.entrypoint,
        environment=built.variables,
        user=int(built.user.partition(":")[0]),
        folder=built.folder,
        layers=[str(layer) for layer in built.layers],
        shown=hidden_folders([PYTHON.parents[1]]),
    )


def files_of(built: Built, folder: Path) -> None:
    """Write the files of a stage that stands on nothing into a folder, as ``--output`` does."""
    for layer in reversed(built.layers):
        shutil.copytree(layer, folder, dirs_exist_ok=True, symlinks=True)
