"""Layers of images: folders below the user's cache, each named by everything that went into it."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

from e2e.controlplane.build import cache

KEPT_SECONDS = 14 * 86400
"""What no build has used for so long is removed."""


def key_of(*parts: object) -> str:
    """A name for what is made of these."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


def made_layer(key: str, make: Callable[[Path], None]) -> Path:
    """The layer of that name; *make* fills an empty folder when it is not there yet."""
    layer = cache() / "image" / key
    layer.parent.mkdir(parents=True, exist_ok=True)
    with _alone(layer.parent):
        if not layer.exists():
            unfinished = layer.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            make(unfinished)
            unfinished.rename(layer)
        layer.with_suffix(".used").touch()
    return layer


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the lock of the cache: two test runs at once make a layer once."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def forget_old_layers() -> None:
    """Remove layers that no build has used for long."""
    folder = cache() / "image"
    for used in folder.glob("*.used"):
        if used.stat().st_mtime < time.time() - KEPT_SECONDS:
            shutil.rmtree(used.with_suffix(""), ignore_errors=True)
            used.unlink(missing_ok=True)


def copy_from_layers(layers: Sequence[Path], source: str, target: Path) -> None:
    """Copy what layers show at a path, as an overlay does: what lies above hides what lies below.

    Files are linked and not copied, since no layer changes once it is made.

    Args:
        layers: The uppermost first.
        source: A path in them.
        target: What it is to become; a folder is merged into one that is there.

    Raises:
        FileNotFoundError: No layer has it.
    """
    found = [layer / source.lstrip("/") for layer in reversed(layers)]
    there = [path for path in found if path.is_symlink() or path.exists()]
    if not there:
        raise FileNotFoundError(f"no layer has {source}")
    for path in there:
        _merge(path, target)


def _merge(source: Path, target: Path) -> None:
    about = source.lstat()
    if stat.S_ISCHR(about.st_mode) and about.st_rdev == 0:  # the mark of an overlay for what was removed
        _remove(target)
    elif stat.S_ISDIR(about.st_mode):
        if target.is_symlink() or not target.is_dir() or _is_opaque(source):
            _remove(target)
            target.mkdir(parents=True)
        shutil.copystat(source, target)
        for each in source.iterdir():
            _merge(each, target / each.name)
    else:
        _remove(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, target, follow_symlinks=False)


def _is_opaque(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.getxattr(folder, "trusted.overlay.opaque") == b"y"
    return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class Context:
    """The folder that is built from, without what ``.dockerignore`` leaves out.

    Args:
        folder: With that file.
        replaced: Texts of files, by path, that stand in the place of those of the folder.
    """

    def __init__(self, folder: Path, replaced: Mapping[str, str]) -> None:
        self._folder = folder
        self._replaced = replaced
        lines = (folder / ".dockerignore").read_text(encoding="utf-8").splitlines()
        self._rules = [line for line in lines if line and not line.startswith("#")]

    def files(self, source: str) -> list[tuple[str, bytes, int]]:
        """The files that a source of ``COPY`` names: each with its path in the target, its content and its mode.

        Args:
            source: A folder, whose content is copied; a file, or a pattern of files.

        Raises:
            FileNotFoundError: There is none.
        """
        found = []
        for top in sorted(self._folder.glob(source)):
            for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
                if path.is_file() and not self._is_ignored(path.relative_to(self._folder).parts):
                    found.append(self._read(path, top if top.is_dir() else top.parent))
        if not found:
            raise FileNotFoundError(f"nothing is at {source}, or .dockerignore leaves it out")
        return found

    def _read(self, path: Path, top: Path) -> tuple[str, bytes, int]:
        replaced = self._replaced.get(str(path.relative_to(self._folder)))
        content = path.read_bytes() if replaced is None else replaced.encode()
        return str(path.relative_to(top)), content, 0o755 if path.stat().st_mode & 0o100 else 0o644

    def _is_ignored(self, parts: Sequence[str]) -> bool:
        """As the last rule says that fits: ``!`` brings back, ``**/`` stands for any folder."""
        ignored = False
        for rule in self._rules:
            pattern = rule.removeprefix("!")
            anywhere = pattern.removeprefix("**/")
            names: Iterable[str] = parts if pattern != anywhere else parts[:1]
            if any(fnmatch(name, anywhere) for name in names):
                ignored = not rule.startswith("!")
        return ignored
