"""Layers of images: folders in the user's cache, each named by a digest of its inputs."""

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

KEPT_SECONDS = 14 * 86400
"""Layers that no build has used for this time are removed."""


class LayerError(Exception):
    """A file cannot be part of an image. The message contains its path."""


def cache() -> Path:
    """Return the folder for everything that is built: in ``XDG_CACHE_HOME``, or ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "harbormaster"


def key_of(*parts: object) -> str:
    """Return the name of a layer with these inputs."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:32]


def made_layer(key: str, make: Callable[[Path], None]) -> Path:
    """Return the layer of that name. If it does not exist, *make* fills an empty folder."""
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
    """Hold the lock of the cache, so that concurrent builds make a layer once."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def forget_old_layers() -> None:
    """Remove layers that no build has used for `KEPT_SECONDS`."""
    folder = cache() / "image"
    for used in folder.glob("*.used"):
        if used.stat().st_mtime < time.time() - KEPT_SECONDS:
            shutil.rmtree(used.with_suffix(""), ignore_errors=True)
            used.unlink(missing_ok=True)


def copy_from_layers(layers: Sequence[Path], source: str, target: Path) -> None:
    """Copy a path as an overlay of the layers shows it.

    Files are linked and not copied, because finished layers never change.

    Args:
        layers: Layers, the uppermost first.
        source: A path in them.
        target: Path of the copy. A folder is merged into an existing one.

    Raises:
        FileNotFoundError: No layer has it.
        LayerError: A folder of *source* is a symbolic link, which could lead out of the layer.
    """
    relative = PurePosixPath(source.lstrip("/"))
    for layer in layers:
        for folder in relative.parents:
            if (layer / folder).is_symlink():
                raise LayerError(f"{source}: /{folder} must not be a symbolic link")
    paths = [layer / relative for layer in reversed(layers)]
    existing = [path for path in paths if path.is_symlink() or path.exists()]
    if not existing:
        raise FileNotFoundError(f"no layer has {source}")
    for path in existing:
        _merge(path, target)


def _merge(source: Path, target: Path) -> None:
    about = source.lstat()
    if is_removal(about):  # an overlay whiteout
        _remove(target)
    elif stat.S_ISDIR(about.st_mode):
        if target.is_symlink() or not target.is_dir() or is_opaque(source):
            _remove(target)
            target.mkdir(parents=True)
        shutil.copystat(source, target)
        for each in source.iterdir():
            _merge(each, target / each.name)
    else:
        _remove(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(source, target, follow_symlinks=False)


def is_removal(about: os.stat_result) -> bool:
    """Return whether a file is an overlay whiteout: it hides the file of the same name in lower layers."""
    return stat.S_ISCHR(about.st_mode) and about.st_rdev == 0


def is_opaque(folder: Path) -> bool:
    """Return whether a folder hides the content that it has in lower layers."""
    with contextlib.suppress(OSError):
        return os.getxattr(folder, "trusted.overlay.opaque") == b"y"
    return False


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class Context:
    """The folder that is built from, without the files that ``.dockerignore`` excludes.

    Args:
        folder: Folder with that file.
        replaced: Texts to use instead of the contents of files, by path.
    """

    def __init__(self, folder: Path, replaced: Mapping[str, str]) -> None:
        self._folder = folder
        self._replaced = replaced
        lines = (folder / ".dockerignore").read_text(encoding="utf-8").splitlines()
        self._rules = [line for line in lines if line and not line.startswith("#")]

    def files(self, source: str) -> list[tuple[str, bytes, int]]:
        """Return the files that a source of ``COPY`` names: path in the target, content and mode.

        Args:
            source: A folder, whose content is copied, or a file or a pattern of files.

        Raises:
            FileNotFoundError: It matches no file.
            LayerError: It leads out of the folder, or matches a symbolic link, which may do so.
        """
        if source.startswith("/") or ".." in PurePosixPath(source).parts:
            raise LayerError(f"{source}: must be inside of {self._folder}")
        files = []
        for top in sorted(self._folder.glob(source)):
            for path in sorted([top, *top.rglob("*")]):
                parts = path.relative_to(self._folder).parts
                if self._is_ignored(parts):
                    continue
                if path.is_symlink():
                    raise LayerError(f"{'/'.join(parts)}: must not be a symbolic link")
                if path.is_file():
                    files.append(self._read(path, top if top.is_dir() else top.parent))
        if not files:
            raise FileNotFoundError(f"no file matches {source}, or .dockerignore excludes it")
        return files

    def _read(self, path: Path, top: Path) -> tuple[str, bytes, int]:
        replaced = self._replaced.get(str(path.relative_to(self._folder)))
        content = path.read_bytes() if replaced is None else replaced.encode()
        return str(path.relative_to(top)), content, 0o755 if path.stat().st_mode & 0o100 else 0o644

    def _is_ignored(self, parts: Sequence[str]) -> bool:
        """Return whether the last rule that matches excludes a file. ``!`` includes, ``**/`` matches in any folder."""
        ignored = False
        for rule in self._rules:
            pattern = rule.removeprefix("!")
            anywhere = pattern.removeprefix("**/")
            names: Iterable[str] = parts if pattern != anywhere else parts[:1]
            if any(fnmatch(name, anywhere) for name in names):
                ignored = not rule.startswith("!")
        return ignored
