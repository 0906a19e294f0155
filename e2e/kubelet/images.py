"""What an image name means here: which command it runs, with which environment, on top of the files of this machine."""

import json
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from image.build import Built
from image.machine import PATH, PYTHON, closed_folders, hidden_folders

PROJECT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Image:
    """An image.

    Args:
        entrypoint: Run unless the container has a ``command``.
        command: Follows the entrypoint unless the container has ``args`` or a ``command``.
        environment: Of the image; that of the container comes on top.
        user: As which it runs unless the Pod says otherwise.
        folder: Where the command begins unless the container has a ``workingDir``.
        layers: Folders whose content appears at the root, on top of the files of this machine; the uppermost first.
        shown: Files and folders of this machine that would not be seen otherwise, read-only under the same path.
        opened: Folders of this machine that every user may pass through in the container.
    """

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: int = 0
    folder: str = "/"
    layers: Sequence[str] = ()
    shown: Sequence[str] = ()
    opened: Sequence[str] = ()


def own_image(*entrypoint: str, user: int = 65532) -> Image:
    """An image with this project and its virtual environment at the paths that they have on this machine.

    Args:
        entrypoint: A program of the virtual environment, with arguments; nothing: ``harbormaster``.
        user: As which it runs.
    """
    program, *words = entrypoint or ("harbormaster",)
    folders = [PROJECT, Path(sys.prefix), Path(sys.base_prefix).resolve()]
    scripts = Path(sys.prefix) / "bin"
    return Image(
        entrypoint=[str(scripts / program), *words],
        environment={"PATH": f"{scripts}:{PATH}", "HOME": "/", "PYTHONDONTWRITEBYTECODE": "1"},
        user=user,
        shown=hidden_folders(folders),
        opened=closed_folders(folders),
    )


def image_of(built: Built) -> Image:
    """Return an image that was built on `image.build.MACHINE`, for the kubelet of the tests."""
    return Image(
        entrypoint=built.entrypoint,
        environment=built.variables,
        user=int(built.user.partition(":")[0]),
        folder=built.folder,
        layers=[str(layer) for layer in built.layers],
        shown=hidden_folders([PYTHON.parents[1]]),
    )


def load_image(archive: Path, folder: Path) -> Image:
    """Return the image in an archive of ``docker save``, unpacked into *folder*."""
    with tarfile.open(archive) as tar:
        (about,) = _read(tar, "manifest.json")
        for name in about["Layers"]:
            with tarfile.open(fileobj=tar.extractfile(name)) as layer:
                layer.extractall(folder, filter="fully_trusted")
        config = _read(tar, about["Config"])["config"]
    return Image(
        entrypoint=config["Entrypoint"],
        environment=dict(each.split("=", 1) for each in config["Env"]),
        user=int(config["User"].partition(":")[0]),
        folder=config["WorkingDir"],
        layers=[str(folder)],
    )


def _read(tar: tarfile.TarFile, name: str) -> Any:
    file = tar.extractfile(name)
    assert file is not None
    return json.load(file)


def write_images(images: Mapping[str, Image], path: Path) -> None:
    """Write *images* by their full names, as the kubelet reads them; they can be written anew while it runs."""
    passing = path.with_suffix(".new")
    passing.write_text(json.dumps({name: asdict(image) for name, image in images.items()}), encoding="utf-8")
    passing.replace(path)


def find_image(path: Path, name: str) -> Image | None:
    """The image of that full name, None when it is not there."""
    found = json.loads(path.read_text(encoding="utf-8")).get(name)
    return Image(**found) if found else None
