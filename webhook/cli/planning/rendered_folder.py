"""A folder of rendered objects, one folder per cluster, as Argo CD and Flux read it.

File names are made from the names of clusters and objects so that no name points outside the folder, on any file
system. All files are first written below a temporary folder. Then each cluster's folder is replaced by a rename, so
that readers never see a partial folder. A run that is killed leaves its temporary folder, which the next run removes.
Other files are kept: ours start with `FILE_MARKER`, and a folder without our files is not changed.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from webhook.cli.errors import UserError

FOLDER_MARKER: Final = ".harbormaster-render"
"""Name of the file in every folder that is ours."""
FILE_MARKER: Final = "# Rendered by harbormaster. The next run replaces this file.\n"
_FOLDER_TEXT: Final = "Rendered by harbormaster, which replaces and removes the files with its marker in this folder.\n"
_CLAIM: Final = "claim"
_CLAIM_TEXT: Final = "Temporary files of harbormaster render. The next run removes this folder.\n"
_NEW: Final = "new"
_OLD: Final = "old"
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")
_LONGEST: Final = 200
"""Longest file name in bytes, without its suffix. File systems allow 255."""
_RESERVED: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(10))}
)
"""Names that Windows reserves, with any suffix."""


def safe_name(*parts: str) -> str:
    """Return a file name for some words. Different words have different names, even on case-insensitive file systems.

    Letters outside of ``a-z0-9.-`` are written as ``%`` and their UTF-8 bytes in hexadecimal, and so are a leading dot
    and the first letter of a reserved name. Words are separated by ``_``.
    """
    name = "_".join("".join(map(_encoded, part)) for part in parts)
    if not name or name[0] == "." or name.partition(".")[0] in _RESERVED:
        name = f"%{ord(name[0]):02x}{name[1:]}" if name else "%"
    if len(name) > _LONGEST:
        digest = sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()
        name = f"{name[: _LONGEST - 33].rstrip('.%')}~{digest[:32]}"
    return name


def _encoded(letter: str) -> str:
    if letter in _PLAIN:
        return letter
    return "".join(f"%{byte:02x}" for byte in letter.encode(errors="surrogatepass"))


def write_folder(
    folder: Path, files: Mapping[str, Mapping[str, str]], *, overwrite: bool, removes_others: bool = True
) -> int:
    """Write files of harbormaster to a folder, and return the number of its files that were removed.

    Args:
        folder: The folder. It is created if it does not exist.
        files: Texts by file name, for each cluster folder by its name.
        overwrite: Whether a folder that is not ours may be used.
        removes_others: Whether to remove files of earlier runs that are not in *files*.

    Raises:
        UserError: The folder is not ours, or cannot be written. The folders of some clusters may have been replaced.
    """
    try:
        folder = folder.resolve()
        _remove_abandoned(folder)
        _check(folder, files, overwrite=overwrite)
        folder.mkdir(parents=True, exist_ok=True)
        with (
            tempfile.TemporaryDirectory(prefix=f"{FOLDER_MARKER}-", dir=folder) as temporary,
            _claimed(Path(temporary, _CLAIM)),
        ):
            written, replaced = Path(temporary, _NEW), Path(temporary, _OLD)
            replaced.mkdir()
            for cluster, texts in files.items():
                _write(written / cluster, folder / cluster, texts, keeps_own=not removes_others)
            _mark(folder)
            removed = 0
            for cluster in files:
                removed += _replace(written / cluster, folder / cluster, replaced / cluster)
            for stale in _own_folders(folder) if removes_others else ():
                if stale.name not in files:
                    removed += _remove(stale, replaced / stale.name)
            return removed
    except OSError as error:
        place = error.filename or folder
        raise UserError(f"-o dir={folder}: {place}: {(error.strerror or str(error)).lower()}") from error


@contextmanager
def _claimed(claim: Path) -> Iterator[bool]:
    """Claim a temporary folder. Yield False if another process has claimed it. A killed process loses its claim."""
    with claim.open("a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        if not file.tell():
            file.write(_CLAIM_TEXT)
            file.flush()
        yield True


def _remove_abandoned(folder: Path) -> None:
    """Remove the temporary folders of killed runs. A folder that such a run had moved aside is moved back."""
    for temporary in folder.glob(f"{FOLDER_MARKER}-*"):
        with suppress(FileNotFoundError):  # a concurrent run has just removed it
            if not _is_temporary(temporary):
                continue
            with _claimed(temporary / _CLAIM) as abandoned:
                if not abandoned:
                    continue
                for aside in (temporary / _OLD).glob("*"):
                    if not os.path.lexists(folder / aside.name):
                        aside.rename(folder / aside.name)
                shutil.rmtree(temporary)


def _is_temporary(folder: Path) -> bool:
    """Return whether *folder* is certainly the temporary folder of a run."""
    claim = folder / _CLAIM
    if folder.is_symlink() or not folder.is_dir() or claim.is_symlink() or not claim.is_file():
        return False
    return claim.read_text(encoding="utf-8", errors="replace") == _CLAIM_TEXT and all(
        child.name in (_CLAIM, _NEW, _OLD) for child in folder.iterdir()
    )


def _check(folder: Path, files: Mapping[str, Iterable[str]], *, overwrite: bool) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"-o dir={folder}: is not a folder")
    if foreign := list(_obstacles(folder, files)):
        raise UserError(f"-o dir={folder}: move {place}, which harbormaster did not render" for place in foreign)
    if overwrite:
        return
    remedy = "name an empty folder, or use it anyway with --overwrite"
    if not _is_ours(folder) and any(folder.iterdir()):
        raise UserError(f"-o dir={folder}: has files that harbormaster did not render: {remedy}")
    for cluster in files:
        place = folder / cluster
        if os.path.lexists(place) and not _is_ours(place):
            raise UserError(f"-o dir={folder}: {cluster} is not a folder that harbormaster rendered: {remedy}")


def _obstacles(folder: Path, files: Mapping[str, Iterable[str]]) -> Iterator[Path]:
    """Yield the paths to be written at which other files exist. Those are not replaced, even with an overwrite."""
    if (folder / FOLDER_MARKER).is_symlink():
        yield folder / FOLDER_MARKER
    for cluster, names in files.items():
        place = folder / cluster
        if place.exists() and not place.is_dir():
            yield place
        elif not place.is_symlink():
            if (place / FOLDER_MARKER).is_symlink():
                yield place / FOLDER_MARKER
            paths = (place / name for name in names)
            yield from (path for path in paths if os.path.lexists(path) and not _is_own_file(path))


def _is_ours(folder: Path) -> bool:
    return not folder.is_symlink() and (folder / FOLDER_MARKER).is_file()


def _own_folders(folder: Path) -> list[Path]:
    return [child for child in sorted(folder.iterdir()) if child.is_dir() and _is_ours(child)]


def _write(place: Path, target: Path, texts: Mapping[str, str], *, keeps_own: bool) -> None:
    """Write the folder of a cluster to *place*. Copy the other files from *target*, with *keeps_own* also ours."""
    place.mkdir(parents=True)
    if target.is_dir() and not target.is_symlink():
        for child in target.iterdir():
            if child.name not in texts and child.name != FOLDER_MARKER and (keeps_own or not _is_own_file(child)):
                _copy(child, place / child.name)
    for name, text in texts.items():
        (place / name).write_text(FILE_MARKER + text, encoding="utf-8")
    _mark(place)


def _mark(folder: Path) -> None:
    marker = folder / FOLDER_MARKER
    if not marker.exists():
        marker.write_text(_FOLDER_TEXT, encoding="utf-8")


def _copy(source: Path, target: Path) -> None:
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy2(source, target, follow_symlinks=False)


def _is_own_file(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(FILE_MARKER)) == FILE_MARKER.encode()


def _own_files(folder: Path) -> Iterator[Path]:
    return (child for child in folder.iterdir() if _is_own_file(child))


def _replace(new: Path, target: Path, aside: Path) -> int:
    """Put the folder *new* in place of *target*, and return the number of our files that are not in *new*."""
    stale = sum(not (new / file.name).exists() for file in _own_files(target)) if target.is_dir() else 0
    try:
        if os.path.lexists(target):
            target.rename(aside)
        new.rename(target)
    except BaseException:  # KeyboardInterrupt, too: *aside* is removed with the temporary folder
        if os.path.lexists(aside) and not os.path.lexists(target):
            aside.rename(target)
        raise
    return stale


def _remove(folder: Path, aside: Path) -> int:
    """Remove our files from the folder of a cluster, and the folder if nothing else is in it."""
    files = list(_own_files(folder))
    if len(files) + 1 == len(list(folder.iterdir())):
        folder.rename(aside)
        return len(files)
    for file in (*files, folder / FOLDER_MARKER):
        file.unlink()
    return len(files)
