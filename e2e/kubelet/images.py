"""What an image name means here: which command it runs, with which environment, on top of the files of this machine."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

PROJECT = Path(__file__).parents[2]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HIDDEN = (Path("/tmp"), Path("/run"))  # container.sh puts empty folders there


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


def hidden_folders(folders: Iterable[Path]) -> list[str]:
    """Which of these folders a container does not see, since they are on other file systems or below `HIDDEN`."""
    root = Path("/").stat().st_dev
    return sorted(
        str(folder)
        for folder in set(folders)
        if folder.stat().st_dev != root or any(folder.is_relative_to(each) for each in HIDDEN)
    )


def closed_folders(folders: Iterable[Path]) -> list[str]:
    """Which folders on the way to these not every user may pass through, the uppermost first."""
    hidden = hidden_folders(folders)
    closed = {
        str(parent)
        for folder in folders
        if str(folder) not in hidden
        for parent in (folder, *folder.parents)
        if parent.stat().st_mode & 0o005 != 0o005
    }
    return sorted(closed, key=len)


def write_images(images: Mapping[str, Image], path: Path) -> None:
    """Write *images* by their full names, as the kubelet reads them; they can be written anew while it runs."""
    passing = path.with_suffix(".new")
    passing.write_text(json.dumps({name: asdict(image) for name, image in images.items()}), encoding="utf-8")
    passing.replace(path)


def find_image(path: Path, name: str) -> Image | None:
    """The image of that full name, None when it is not there."""
    found = json.loads(path.read_text(encoding="utf-8")).get(name)
    return Image(**found) if found else None
